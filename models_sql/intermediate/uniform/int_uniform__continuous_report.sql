{{ config(materialized='view') }}

{% call uniform_rule('continuous_report') %}

    with

    items as (

        select * from {{ ref('int_uniform_items') }}
        where uniform_rule = 'continuous_report'

    ),

    expectations as (

        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale * {{ spread_error('target', 'support_low', 'support_high', 0) }} as expectation
        from items

    )

    select * from expectations

{% endcall %}
