with

episodes as (

    select * from {{ ref('int_episode_metrics') }}

),

runs as (

    select * from {{ ref('stg_runs') }}
    where kind in ('archived', 'model', 'reference', 'uniform')

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}
    where not is_played

),

asked as (

    -- rows that the questions of a mode make, whoever answers them
    select
        mode_id,
        metric,
        cast(sum(n_planned) as bigint) as n_planned
    from {{ ref('int_uniform_items') }}
    group by mode_id, metric

),

unanswered as (

    select * from {{ ref('int_unanswered') }}

),

planned as (

    -- whoever was asked the questions of a mode's own source was to be asked them all
    select
        runs.run_id,
        asked.mode_id,
        asked.metric,
        asked.n_planned
    from asked
    inner join modes on asked.mode_id = modes.mode_id
    inner join runs
        on
            modes.item_source_id = runs.source_id
            and list_contains(runs.planned_modes, asked.mode_id)

),

totals as (

    select
        run_id,
        mode_id,
        metric,
        max(scale) as scale,
        cast(sum(n_planned) as bigint) as n_planned,
        cast(sum(coalesce(n_absent, 0)) as bigint) as n_absent_in_episodes,
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

compared as (

    select
        totals.*,
        -- of a metric whose rows no item counts, as many are absent as of the primary target; those that an
        -- episode lacks are planned already
        case
            when planned.n_planned is null
                then greatest(coalesce(unanswered.n_absent, 0) - totals.n_absent_in_episodes, 0)
            else greatest(planned.n_planned - totals.n_planned, 0)
        end as n_absent,
        unanswered.note
    from totals
    left join unanswered
        on
            totals.run_id = unanswered.run_id
            and totals.mode_id = unanswered.mode_id
    left join planned
        on
            totals.run_id = planned.run_id
            and totals.mode_id = planned.mode_id
            and totals.metric = planned.metric

),

counted as (

    -- a question without an answer, or a choice that was not made, is a row without a score
    select
        * exclude (n_planned, n_error, status_reason, note),
        n_planned + n_absent as n_planned,
        n_error + n_absent as n_error,
        case
            when n_absent > 0
                then
                    coalesce(
                        note, n_absent || ' of ' || n_planned + n_absent || ' planned rows have no answer'
                    )
            else status_reason
        end as status_reason
    from compared

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
        counted.run_id,
        counted.mode_id,
        counted.metric,
        counted.scale * counted.mean as value_scored,
        counted.n_planned,
        counted.n_scored,
        counted.n_unparsed,
        counted.n_error,
        counted.n_too_long,
        counted.n_missing_option,
        counted.n_infinite,
        counted.n_clusters,
        case
            when counted.n_clusters > 1 then
                counted.scale * sqrt(
                    counted.n_clusters / (counted.n_clusters - 1) * spread.sum_of_squares
                ) / counted.weight_sum
        end as se,
        counted.status_reason,
        counted.scorer_sha
    from counted
    left join spread
        on
            counted.run_id = spread.run_id
            and counted.mode_id = spread.mode_id
            and counted.metric = spread.metric

)

select * from metrics
