{{ config(materialized='view') }}

{% call uniform_rule('log_legal') %}

    with

    items as (

        select * from {{ ref('int_uniform_items') }}
        where uniform_rule = 'log_legal'

    ),

    expectations as (

        -- every legal option has 1/k, so whatever a human did costs ln k nats
        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale * ln(n_legal) as expectation
        from items

    )

    select * from expectations

{% endcall %}
