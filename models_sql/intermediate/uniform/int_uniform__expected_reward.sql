{{ config(materialized='view') }}

{% call uniform_rule('expected_reward') %}

    with

    items as (

        select
            *,
            {{ numbers_in_facts('reward_means') }} as means
        from {{ ref('int_uniform_items') }}
        where uniform_rule = 'expected_reward'

    ),

    expectations as (

        select
            mode_id,
            metric,
            item_id,
            n_items,
            weight,
            scale * list_aggregate(means, 'fsum') / len(means) as expectation
        from items

    )

    select * from expectations

{% endcall %}
