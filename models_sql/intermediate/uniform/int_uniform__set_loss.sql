{{ config(materialized='view') }}

{% call uniform_rule('set_loss') %}

    with

    items as (

        select
            *,
            cast(facts_json ->> '$.is_rule_switch' as boolean) as is_switch
        from {{ ref('int_uniform_items') }}
        where uniform_rule = 'set_loss'

    ),

    cards as (

        select * from {{ ref('int_uniform_cards') }}

    ),

    expectations as (

        -- the first trial has none before it, and no expectation
        select
            items.mode_id,
            items.metric,
            items.item_id,
            items.weight,
            items.scale * cards.set_loss_share as expectation
        from items
        left join cards
            on
                items.n_legal = cards.n_legal
                and items.n_dimensions = cards.n_dimensions
                and items.is_switch = cards.is_switch
        where items.is_switch is not null

    )

    select * from expectations

{% endcall %}
