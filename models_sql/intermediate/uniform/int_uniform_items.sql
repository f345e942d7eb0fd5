with

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where uniform_rule is not null

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

item_parts as (

    select * from {{ ref('int_item_parts') }}

),

items as (

    select items.*
    from {{ ref('stg_items') }} as items
    inner join item_parts
        on
            items.part_id = item_parts.part_id
            and items.mode_id = item_parts.mode_id
            and items.source_id = item_parts.source_id

),

responses as (

    select
        mode_id,
        item_id,
        {{ from_fixed('sum(' ~ to_fixed('weight') ~ ')') }} as weight
    from {{ ref('stg_human_responses') }}
    group by mode_id, item_id

),

predicted as (

    -- modes whose items come with what people did
    select distinct items.mode_id
    from items
    inner join responses
        on
            items.mode_id = responses.mode_id
            and items.item_id = responses.item_id

),

itemised as (

    -- a prediction counts once for every response of a human; anything else as the item weighs
    select
        metrics.mode_id,
        metrics.metric,
        metrics.uniform_rule,
        metrics.scale,
        metrics.n_dimensions,
        modes.is_played,
        items.item_id,
        len(items.legal_options) as n_legal,
        case
            when items.credited_options is not null
                then len(list_intersect(items.legal_options, items.credited_options))
        end as n_credited,
        items.support_low,
        items.support_high,
        items.target,
        items.facts_json,
        case
            when metrics.rule = 'human_nll' and predicted.mode_id is not null
                then coalesce(responses.weight, 0)
            else items.weight
        end as weight
    from items
    inner join metrics
        on
            items.mode_id = metrics.mode_id
            and (metrics.readout is null or items.template_id = metrics.readout)
    inner join modes on items.mode_id = modes.mode_id
    left join predicted on items.mode_id = predicted.mode_id
    left join responses
        on
            items.mode_id = responses.mode_id
            and items.item_id = responses.item_id

),

declared as (

    -- before any item is there, the declared support stands for it: one of its options is the credited one
    select
        metrics.mode_id,
        metrics.metric,
        metrics.uniform_rule,
        metrics.scale,
        modes.is_played,
        modes.declared_n_legal as n_legal,
        1 as n_credited,
        cast(1 as double) as weight
    from metrics
    inner join modes on metrics.mode_id = modes.mode_id
    where
        metrics.is_primary
        and modes.declared_n_legal is not null
        and modes.mode_id not in (select items.mode_id from items)

),

stacked as (

    select * from itemised
    union all by name
    select * from declared

)

select * from stacked
