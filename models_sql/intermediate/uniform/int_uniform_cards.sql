{{ config(materialized='view') }}

with

transitions as (

    select distinct
        n_legal,
        n_dimensions,
        cast(facts_json ->> '$.is_rule_switch' as boolean) as is_switch
    from {{ ref('int_uniform_items') }}
    where uniform_rule in ('perseveration', 'set_loss')

),

cards as (

    -- each dimension is matched by one card of its own, and the cards that are left match none
    select
        transitions.*,
        least(card.number, transitions.n_dimensions) as category
    from transitions, unnest(range(transitions.n_legal)) as card (number)
    where transitions.is_switch is not null

),

pairs as (

    -- the rule before was the first dimension; after a switch it is the second
    select
        firsts.n_legal,
        firsts.n_dimensions,
        firsts.is_switch,
        firsts.category <> 0 as was_wrong,
        seconds.category <> cast(seconds.is_switch as integer) as is_wrong,
        firsts.category = seconds.category as is_same
    from cards as firsts
    inner join cards as seconds
        on
            firsts.n_legal = seconds.n_legal
            and firsts.n_dimensions = seconds.n_dimensions
            and firsts.is_switch = seconds.is_switch

),

shares as (

    select
        n_legal,
        n_dimensions,
        is_switch,
        count(*) filter (where was_wrong and is_same and is_wrong) / count(*) as perseveration_share,
        count(*) filter (where not was_wrong and not is_same and is_wrong) / count(*) as set_loss_share
    from pairs
    group by n_legal, n_dimensions, is_switch

)

select * from shares
