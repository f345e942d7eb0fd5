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
    where items.is_asked

),

responses as (

    select
        mode_id,
        item_id,
        count(*) as n_responses,
        sum({{ to_fixed('weight') }}) as weight_fixed
    from {{ ref('stg_human_responses') }}
    group by mode_id, item_id

),

kinds as (

    -- what a rule may read of an item: alike for the many trials of people, another for each scheduled one
    select
        items.mode_id,
        items.template_id,
        len(items.legal_options) as n_legal,
        case
            when items.credited_options is not null
                then len(list_intersect(items.legal_options, items.credited_options))
        end as n_credited,
        items.support_low,
        items.support_high,
        items.target,
        case when modes.is_played then items.facts_json end as facts_json,
        min(items.item_id) as item_id,
        count(*) as n_items,
        cast(sum(responses.n_responses) as bigint) as n_responses,
        sum({{ to_fixed('items.weight') }}) as weight_fixed,
        sum(responses.weight_fixed) as response_weight_fixed
    from items
    inner join modes on items.mode_id = modes.mode_id
    left join responses
        on
            items.mode_id = responses.mode_id
            and items.item_id = responses.item_id
    group by all

),

predicted as (

    -- modes whose items come with what people did
    select distinct mode_id
    from kinds
    where response_weight_fixed is not null

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
        kinds.item_id,
        kinds.n_items,
        case
            when metrics.is_per_response and predicted.mode_id is not null then coalesce(kinds.n_responses, 0)
            else kinds.n_items
        end as n_planned,
        kinds.n_legal,
        kinds.n_credited,
        kinds.support_low,
        kinds.support_high,
        kinds.target,
        kinds.facts_json,
        {{ from_fixed(
            'case
                when metrics.is_per_response and predicted.mode_id is not null
                    then coalesce(kinds.response_weight_fixed, 0)
                else kinds.weight_fixed
            end'
        ) }} as weight
    from kinds
    inner join metrics
        on
            kinds.mode_id = metrics.mode_id
            and (metrics.readout is null or kinds.template_id = metrics.readout)
    inner join modes on kinds.mode_id = modes.mode_id
    left join predicted on kinds.mode_id = predicted.mode_id

),

declared as (

    -- before any item is there, the declared support stands for it: one of its options is the credited one
    select
        metrics.mode_id,
        metrics.metric,
        metrics.uniform_rule,
        metrics.scale,
        modes.is_played,
        0 as n_items,
        0 as n_planned,
        modes.declared_n_legal as n_legal,
        1 as n_credited,
        cast(1 as double) as weight
    from metrics
    inner join modes on metrics.mode_id = modes.mode_id
    where
        metrics.uniform_rule in ('credited_share', 'legal_share', 'log_legal')
        and modes.declared_n_legal is not null
        and modes.mode_id not in (select kinds.mode_id from kinds)

),

stacked as (

    select * from itemised
    union all by name
    select * from declared

)

select * from stacked
