{{ config(materialized='view') }}

{% call uniform_rule('legal_share') %}

    with

    items as (

        select * from {{ ref('int_uniform_items') }}
        where uniform_rule = 'legal_share'

    ),

    expectations as (

        -- all k legal options tie, so whatever a human did is one of the k likeliest
        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale / n_legal as expectation
        from items

    )

    select * from expectations

{% endcall %}
