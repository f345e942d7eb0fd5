{{ config(materialized='view') }}

{% call uniform_rule('two_step') %}

    with

    items as (

        select
            *,
            {{ numbers_in_facts('reward_rates') }} as rates
        from {{ ref('int_uniform_items') }}
        where uniform_rule = 'two_step'

    ),

    expectations as (

        -- a uniform first choice reaches both planets alike, whatever the transitions, since these mirror each
        -- other; a uniform second choice then takes each of the planet's rates alike
        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale * list_aggregate(rates, 'fsum') / len(rates) as expectation
        from items

    )

    select * from expectations

{% endcall %}
