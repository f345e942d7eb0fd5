with

episodes as (

    select * from {{ ref('int_episode_metrics') }}

),

totals as (

    select
        run_id,
        mode_id,
        metric,
        max(scale) as scale,
        cast(sum(n_planned) as bigint) as n_planned,
        cast(sum(n_scored) as bigint) as n_scored,
        cast(sum(n_unparsed) as bigint) as n_unparsed,
        cast(sum(n_error) as bigint) as n_error,
        cast(sum(n_too_long) as bigint) as n_too_long,
        cast(sum(n_missing_option) as bigint) as n_missing_option,
        cast(sum(n_infinite) as bigint) as n_infinite,
        count(*) filter (where n_scored > 0) as n_clusters,
        {{ from_fixed('sum(weight_sum_fixed)') }} as weight_sum,
        case
            when sum(n_infinite) > 0 then cast('inf' as double)
            else
                {{ from_fixed('sum(value_sum_fixed)') }}
                / nullif({{ from_fixed('sum(weight_sum_fixed)') }}, 0)
        end as mean,
        min(status_reason) as status_reason,
        sha256(min(scorer_sha) || '{{ model_sha() }}') as scorer_sha
    from episodes
    group by run_id, mode_id, metric

),

deviations as (

    select
        episodes.run_id,
        episodes.mode_id,
        episodes.metric,
        power(
            {{ from_fixed('episodes.value_sum_fixed') }}
            - {{ from_fixed('episodes.weight_sum_fixed') }} * totals.mean,
            2
        ) as squared_deviation
    from episodes
    inner join totals
        on
            episodes.run_id = totals.run_id
            and episodes.mode_id = totals.mode_id
            and episodes.metric = totals.metric
    where
        episodes.n_scored > 0
        and isfinite(totals.mean)

),

spread as (

    select
        run_id,
        mode_id,
        metric,
        {{ ordered_sum('squared_deviation') }} as sum_of_squares
    from deviations
    group by run_id, mode_id, metric

),

metrics as (

    -- cluster-robust standard error of a weighted mean: episodes are independent, rows within one are not;
    -- an infinite mean has none
    select
        totals.run_id,
        totals.mode_id,
        totals.metric,
        totals.scale * totals.mean as value_scored,
        totals.n_planned,
        totals.n_scored,
        totals.n_unparsed,
        totals.n_error,
        totals.n_too_long,
        totals.n_missing_option,
        totals.n_infinite,
        totals.n_clusters,
        case
            when totals.n_clusters > 1 then
                totals.scale * sqrt(
                    totals.n_clusters / (totals.n_clusters - 1) * spread.sum_of_squares
                ) / totals.weight_sum
        end as se,
        totals.status_reason,
        totals.scorer_sha
    from totals
    left join spread
        on
            totals.run_id = spread.run_id
            and totals.mode_id = spread.mode_id
            and totals.metric = spread.metric

)

select * from metrics
