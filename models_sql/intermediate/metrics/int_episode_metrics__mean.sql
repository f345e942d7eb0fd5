with

sums as (

    select * from {{ ref('int_episode_sums') }}

),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where estimator = 'mean'

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

episodes as (

    -- a metric without a readout takes every row of its rule; one with a readout takes those of that readout
    -- and those that may belong to it for all that is known, which have no score
    select
        sums.run_id,
        sums.mode_id,
        metrics.metric,
        sums.episode_id,
        max(metrics.scale) as scale,
        cast(sum(sums.n_rows) as bigint) as n_rows,
        cast(sum(sums.n_scored) as bigint) as n_scored,
        cast(sum(sums.n_unparsed) as bigint) as n_unparsed,
        cast(sum(sums.n_error) as bigint) as n_error,
        cast(sum(sums.n_too_long) as bigint) as n_too_long,
        cast(sum(sums.n_missing_option) as bigint) as n_missing_option,
        cast(sum(coalesce(sums.n_infinite, 0)) as bigint) as n_infinite,
        sum(sums.value_sum_fixed) as value_sum_fixed,
        sum(sums.weight_sum_fixed) as weight_sum_fixed,
        sum(sums.unscored_weight_sum_fixed) as unscored_weight_sum_fixed,
        min(sums.lowest_weight) as lowest_weight,
        max(sums.highest_weight) as highest_weight,
        min(sums.lowest_value) as lowest_value,
        max(sums.highest_value) as highest_value,
        min(sums.status_reason) as status_reason,
        min(sums.scorer_sha) as scorer_sha,
        -- trials that the episode should have and the source does not
        case
            when max(metrics.readout) is null
                then
                    greatest(
                        coalesce(max(modes.trials_per_episode), 0) - cast(sum(sums.n_rows) as bigint), 0
                    )
            else 0
        end as n_absent
    from sums
    inner join metrics
        on
            sums.mode_id = metrics.mode_id
            and sums.rule = metrics.rule
            and (metrics.readout is null or sums.readout is null or sums.readout = metrics.readout)
    inner join modes on sums.mode_id = modes.mode_id
    group by sums.run_id, sums.mode_id, metrics.metric, sums.episode_id

),

counted as (

    select
        run_id,
        mode_id,
        metric,
        episode_id,
        scale,
        n_rows + n_absent as n_planned,
        n_absent,
        n_scored,
        n_unparsed,
        n_error + n_absent as n_error,
        n_too_long,
        n_missing_option,
        n_infinite,
        value_sum_fixed,
        weight_sum_fixed,
        value_sum_fixed as spread_value_sum_fixed,
        weight_sum_fixed as spread_weight_sum_fixed,
        unscored_weight_sum_fixed,
        lowest_weight,
        highest_weight,
        lowest_value,
        highest_value,
        case
            when n_absent > 0 then n_absent || ' trials of an episode are not in the source'
            else status_reason
        end as status_reason,
        scorer_sha
    from episodes

)

select * from counted
