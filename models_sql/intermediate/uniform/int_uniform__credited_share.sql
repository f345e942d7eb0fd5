{{ config(materialized='view') }}

{% call uniform_rule('credited_share') %}

    with

    items as (

        select * from {{ ref('int_uniform_items') }}
        where uniform_rule = 'credited_share'

    ),

    expectations as (

        -- tied best options are all credited; a scheduled question that credits none is no question of the metric
        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale * n_credited / n_legal as expectation
        from items
        where
            n_credited is not null
            or not is_played

    )

    select * from expectations

{% endcall %}
