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

clusters_of_episodes as (

    select * from {{ ref('int_clusters') }}

),

wrong_values as (

    select
        mode_id,
        metric,
        wrong_value
    from {{ ref('s1cogbench_metrics') }}
    where wrong_value is not null

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

clusters as (

    -- rows of one cluster may depend on each other: what the standard error is over
    select
        episodes.run_id,
        episodes.mode_id,
        episodes.metric,
        clusters_of_episodes.cluster_id,
        sum(episodes.spread_value_sum_fixed) as spread_value_sum_fixed,
        sum(episodes.spread_weight_sum_fixed) as spread_weight_sum_fixed
    from episodes
    inner join clusters_of_episodes
        on
            episodes.run_id = clusters_of_episodes.run_id
            and episodes.mode_id = clusters_of_episodes.mode_id
            and episodes.episode_id = clusters_of_episodes.episode_id
    where episodes.spread_weight_sum_fixed > 0
    group by episodes.run_id, episodes.mode_id, episodes.metric, clusters_of_episodes.cluster_id

),

cluster_means as (

    select
        run_id,
        mode_id,
        metric,
        count(*) as n_clusters,
        {{ from_fixed('sum(spread_value_sum_fixed)') }}
        / {{ from_fixed('sum(spread_weight_sum_fixed)') }} as mean
    from clusters
    group by run_id, mode_id, metric

),

deviations as (

    select
        clusters.run_id,
        clusters.mode_id,
        clusters.metric,
        cluster_means.n_clusters,
        {{ deviation(
            from_fixed('clusters.spread_value_sum_fixed'),
            from_fixed('clusters.spread_weight_sum_fixed'),
            'cluster_means.mean',
        ) }} as deviation
    from clusters
    inner join cluster_means
        on
            clusters.run_id = cluster_means.run_id
            and clusters.mode_id = cluster_means.mode_id
            and clusters.metric = cluster_means.metric

),

spread as (

    select
        run_id,
        mode_id,
        metric,
        max(n_clusters) as n_clusters,
        {{ clustered_error('max(n_clusters)', ordered_sum('power(deviation, 2)')) }} as error_of_sum
    from deviations
    group by run_id, mode_id, metric

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
        coalesce({{ from_fixed('sum(value_sum_fixed)') }}, 0) as value_sum,
        coalesce({{ from_fixed('sum(weight_sum_fixed)') }}, 0) as weight_sum,
        coalesce({{ from_fixed('sum(unscored_weight_sum_fixed)') }}, 0) as unscored_weight_sum,
        min(lowest_weight) as lowest_weight,
        max(highest_weight) as highest_weight,
        min(lowest_value) as lowest_value,
        max(highest_value) as highest_value,
        case
            when sum(n_infinite) > 0 then cast('inf' as double)
            else
                {{ from_fixed('sum(value_sum_fixed)') }}
                / nullif({{ from_fixed('sum(weight_sum_fixed)') }}, 0)
        end as mean,
        min(status_reason) as status_reason,
        min(scorer_sha) as rule_sha
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
        * exclude (n_planned, n_error, status_reason),
        n_absent + n_absent_in_episodes as n_absent_at_all,
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

judged as (

    -- a row that is there weighs the same without a score; one that is not is known to weigh 1 where all
    -- others do, unless answers decide how many there are
    select
        counted.*,
        wrong_values.wrong_value,
        counted.unscored_weight_sum + counted.n_absent_at_all as lacking_weight_sum,
        case
            when wrong_values.wrong_value is null then null
            when counted.n_absent_at_all > 0 and counted.note is not null then counted.note
            when counted.n_absent_at_all > 0 and (counted.lowest_weight <> 1 or counted.highest_weight <> 1)
                then
                    counted.n_absent_at_all
                    || ' planned rows are not there, and rows of the mode weigh differently'
        end as not_counted_because
    from counted
    left join wrong_values
        on
            counted.mode_id = wrong_values.mode_id
            and counted.metric = wrong_values.metric

),

metrics as (

    -- cluster-robust standard error of a weighted mean
    select
        judged.run_id,
        judged.mode_id,
        judged.metric,
        judged.scale * judged.mean as value_scored,
        case
            when judged.not_counted_because is not null or judged.wrong_value is null then null
            when judged.n_infinite > 0 then cast('inf' as double)
            else
                judged.scale * (
                    (judged.value_sum + judged.wrong_value * judged.lacking_weight_sum)
                    / nullif(judged.weight_sum + judged.lacking_weight_sum, 0)
                )
        end as value_count_as_wrong,
        judged.not_counted_because,
        judged.n_planned,
        judged.n_scored,
        judged.n_unparsed,
        judged.n_error,
        judged.n_too_long,
        judged.n_missing_option,
        judged.n_infinite,
        coalesce(spread.n_clusters, 0) as n_clusters,
        judged.scale * spread.error_of_sum / judged.weight_sum as found_se,
        judged.lowest_value,
        judged.highest_value,
        judged.status_reason,
        sha256(judged.rule_sha || '{{ metric_sha() }}') as scorer_sha
    from judged
    left join spread
        on
            judged.run_id = spread.run_id
            and judged.mode_id = spread.mode_id
            and judged.metric = spread.metric

)

select * from metrics
