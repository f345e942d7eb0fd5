with

sums as (

    select
        sums.*,
        clusters.cluster_id
    from {{ ref('int_episode_sums') }} as sums
    inner join {{ ref('int_clusters') }} as clusters
        on
            sums.run_id = clusters.run_id
            and sums.mode_id = clusters.mode_id
            and sums.episode_id = clusters.episode_id
    where sums.rule = 'stay'

),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where estimator = 'stay_interaction'

),

contrasts (readout, weight) as (

    -- with -1/+1 coding the least-squares interaction of this saturated design is a contrast of cell means
    values
    ('common_rewarded', cast(0.25 as double)),
    ('common_unrewarded', cast(-0.25 as double)),
    ('rare_rewarded', cast(-0.25 as double)),
    ('rare_unrewarded', cast(0.25 as double))

),

cells as (

    select
        sums.run_id,
        sums.mode_id,
        sums.readout,
        contrasts.weight,
        cast(sum(sums.n_scored) as bigint) as n_scored,
        {{ from_fixed('sum(sums.value_sum_fixed)') }} / sum(sums.n_scored) as mean,
        min(sums.lowest_value) as lowest_value,
        max(sums.highest_value) as highest_value,
        min(sums.scorer_sha) as scorer_sha
    from sums
    inner join contrasts on sums.readout = contrasts.readout
    group by sums.run_id, sums.mode_id, sums.readout, contrasts.weight

),

influences as (

    -- how far one cluster pulls the estimate
    select
        sums.run_id,
        sums.mode_id,
        sums.cluster_id,
        {{ ordered_sum(
            'cells.weight / cells.n_scored * '
            ~ deviation(from_fixed('sums.value_sum_fixed'), 'sums.n_scored', 'cells.mean')
        ) }} as influence
    from sums
    inner join cells
        on
            sums.run_id = cells.run_id
            and sums.mode_id = cells.mode_id
            and sums.readout = cells.readout
    group by sums.run_id, sums.mode_id, sums.cluster_id

),

spread as (

    select
        run_id,
        mode_id,
        count(*) as n_clusters,
        {{ clustered_error('count(*)', ordered_sum('power(influence, 2)')) }} as error
    from influences
    group by run_id, mode_id

),

estimates as (

    select
        run_id,
        mode_id,
        count(*) as n_cells,
        cast(sum(n_scored) as bigint) as n_scored,
        {{ ordered_sum('weight * mean') }} as estimate,
        min(lowest_value) as lowest_value,
        max(highest_value) as highest_value,
        sha256(min(scorer_sha) || '{{ metric_sha() }}') as scorer_sha
    from cells
    group by run_id, mode_id

),

unanswered as (

    select * from {{ ref('int_unanswered') }}

),

interactions as (

    -- a choice that was not made is a row without a score, as in a mean
    select
        estimates.run_id,
        estimates.mode_id,
        metrics.metric,
        case when estimates.n_cells = 4 then metrics.scale * estimates.estimate end as value_scored,
        estimates.n_scored + coalesce(unanswered.n_absent, 0) as n_planned,
        estimates.n_scored,
        cast(0 as bigint) as n_unparsed,
        coalesce(unanswered.n_absent, 0) as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        cast(0 as bigint) as n_infinite,
        spread.n_clusters,
        case when estimates.n_cells = 4 then metrics.scale * spread.error end as found_se,
        estimates.lowest_value,
        estimates.highest_value,
        case
            when unanswered.n_absent > 0
                then
                    coalesce(
                        unanswered.note,
                        unanswered.n_absent || ' of ' || estimates.n_scored + unanswered.n_absent
                        || ' planned rows have no answer'
                    )
            when estimates.n_cells < 4 then 'a combination of transition and reward did not occur'
        end as status_reason,
        estimates.scorer_sha
    from estimates
    inner join spread
        on
            estimates.run_id = spread.run_id
            and estimates.mode_id = spread.mode_id
    inner join metrics on estimates.mode_id = metrics.mode_id
    left join unanswered
        on
            estimates.run_id = unanswered.run_id
            and estimates.mode_id = unanswered.mode_id

)

select * from interactions
