with

known as (
    {{ stack([
        ref('int_uniform__bart'),
        ref('int_uniform__bart_pumps'),
        ref('int_uniform__continuous_report'),
        ref('int_uniform__credited_share'),
        ref('int_uniform__expected_reward'),
        ref('int_uniform__integer_report'),
        ref('int_uniform__legal_share'),
        ref('int_uniform__log_legal'),
        ref('int_uniform__mouselab'),
        ref('int_uniform__mouselab_reveals'),
        ref('int_uniform__perseveration'),
        ref('int_uniform__set_loss'),
        ref('int_uniform__two_step'),
    ]) }}
),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where uniform_rule is not null

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

means as (

    -- an item without an expectation leaves the mode without one: never a mean over the others
    select
        mode_id,
        metric,
        case
            when count(*) = count(expectation)
                then {{ ordered_sum('weight * expectation') }} / nullif({{ ordered_sum('weight') }}, 0)
        end as value,
        cast(sum(n_items) as bigint) as n_items,
        cast(coalesce(sum(n_items) filter (where expectation is null), 0) as bigint) as n_unknown,
        min(scorer_sha) as scorer_sha
    from known
    group by mode_id, metric

),

expectations as (

    select
        metrics.mode_id,
        metrics.metric,
        means.value,
        metrics.unit,
        coalesce(means.n_items, 0) as n_items,
        case
            when means.value is not null then metrics.uniform_note
            when means.n_unknown > 0
                then means.n_unknown || ' of ' || means.n_items || ' items lack what the rule needs'
            when means.n_items > 0 then 'no item of it has any weight'
            when modes.item_source_id is null
                then 'waits for its items, whose source is not identified: ' || modes.item_source
            when starts_with(modes.source_status, 'environment')
                then 'waits for its items: run `coglake generate --agent uniform`'
            when starts_with(modes.source_status, 'hub')
                then
                    'waits for its items: source ' || modes.item_source_id
                    || ', which is on the hub, is not ingested (' || modes.item_source || ')'
            else
                'waits for its items: source ' || modes.item_source_id || ' (' || modes.item_source
                || ') is not ingested'
        end as reason,
        sha256(coalesce(means.scorer_sha, '') || '{{ model_sha() }}') as scorer_sha
    from metrics
    inner join modes on metrics.mode_id = modes.mode_id
    left join means
        on
            metrics.mode_id = means.mode_id
            and metrics.metric = means.metric

)

select * from expectations
