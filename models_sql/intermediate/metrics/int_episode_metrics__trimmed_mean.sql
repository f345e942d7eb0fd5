with

scored as (

    select * from {{ ref('int_scored') }}

),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where estimator = 'trimmed_mean'

),

ranked as (

    select
        scored.*,
        metrics.metric,
        metrics.scale,
        metrics.trim_share,
        row_number() over (
            partition by scored.run_id, metrics.metric
            order by scored.value desc, scored.episode_id asc, scored.item_id asc
        ) as place,
        count(*) over (partition by scored.run_id, metrics.metric) as n_values
    from scored
    inner join metrics
        on
            scored.mode_id = metrics.mode_id
            and scored.rule = metrics.rule
    where scored.status = 'ok'

),

kept as (

    -- the lowest scores, which are the largest errors, are left out: by rule, not because they are missing
    select * from ranked
    where place <= n_values - floor(trim_share * n_values)

),

episodes as (

    select
        run_id,
        mode_id,
        metric,
        episode_id,
        max(scale) as scale,
        count(*) as n_planned,
        count(*) as n_scored,
        cast(0 as bigint) as n_unparsed,
        cast(0 as bigint) as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        sum({{ to_fixed('value') }}) as value_sum_fixed,
        cast(null as varchar) as status_reason,
        min(scorer_sha) as scorer_sha
    from kept
    group by run_id, mode_id, metric, episode_id

)

select * from episodes
