{{ config(materialized='view') }}

{% call uniform_rule('bart_pumps') %}

    with

    items as (

        select
            *,
            cast(facts_json ->> '$.maximum' as integer) as maximum
        from {{ ref('int_uniform_items') }}
        where uniform_rule = 'bart_pumps'

    ),

    balloons as (

        select * from {{ ref('int_uniform_balloons') }}

    ),

    expectations as (

        select
            items.mode_id,
            items.metric,
            items.item_id,
            items.weight,
            items.scale * balloons.pumps as expectation
        from items
        left join balloons on items.maximum = balloons.maximum

    )

    select * from expectations

{% endcall %}
