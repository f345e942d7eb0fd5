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

),

ordered as (

    select
        run_id,
        metric,
        list(value order by value) as ordered_values,
        (count(*) - 1) * max(trim_share) as place
    from run_values
    where status = 'ok'
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

    -- scores at or below the cut, which are the largest errors, are left out by the publisher's newer rule;
    -- a report that has no score stays in the count
    select
        run_values.*,
        run_values.status = 'ok' and run_values.value > cuts.cut as is_kept,
        -- where the values are cut depends on them, too: for the standard error a value that is left out
        -- stands at the cut (Winsorised)
        case when run_values.status = 'ok' then greatest(run_values.value, cuts.cut) end as spread_value
    from run_values
    left join cuts
        on
            run_values.run_id = cuts.run_id
            and run_values.metric = cuts.metric

),

episodes as (

    select
        run_id,
        mode_id,
        metric,
        episode_id,
        max(scale) as scale,
        count(*) filter (where is_kept or status <> 'ok') as n_planned,
        count(*) filter (where is_kept) as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option,
        cast(0 as bigint) as n_infinite,
        sum({{ to_fixed('weight * value') }}) filter (where is_kept) as value_sum_fixed,
        sum({{ to_fixed('weight') }}) filter (where is_kept) as weight_sum_fixed,
        sum({{ to_fixed('weight * spread_value') }}) as spread_value_sum_fixed,
        sum({{ to_fixed('weight') }}) filter (where status = 'ok') as spread_weight_sum_fixed,
        min(value) filter (where status = 'ok' and weight > 0) as lowest_value,
        max(value) filter (where status = 'ok' and weight > 0) as highest_value,
        min(status_reason) as status_reason,
        min(scorer_sha) as scorer_sha
    from kept
    group by run_id, mode_id, metric, episode_id

)

select * from episodes
