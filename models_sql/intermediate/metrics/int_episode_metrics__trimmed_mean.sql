with

scored as (

    select * from {{ ref('int_scored') }}

),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where estimator = 'trimmed_mean'

),

run_values as (

    select
        scored.*,
        metrics.metric,
        metrics.scale,
        metrics.trim_share
    from scored
    inner join metrics
        on
            scored.mode_id = metrics.mode_id
            and scored.rule = metrics.rule
    where scored.status = 'ok'

),

ordered as (

    select
        run_id,
        metric,
        list(value order by value) as ordered_values,
        (count(*) - 1) * max(trim_share) as place
    from run_values
    group by run_id, metric

),

cuts as (

    -- the quantile at trim_share, interpolated between its two neighbours
    select
        run_id,
        metric,
        ordered_values[cast(floor(place) as bigint) + 1]
        + (place - floor(place))
        * (
            ordered_values[cast(ceil(place) as bigint) + 1]
            - ordered_values[cast(floor(place) as bigint) + 1]
        ) as cut
    from ordered

),

kept as (

    -- scores at or below the cut, which are the largest errors, are left out by the publisher's newer rule
    select run_values.*
    from run_values
    inner join cuts
        on
            run_values.run_id = cuts.run_id
            and run_values.metric = cuts.metric
    where run_values.value > cuts.cut

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
