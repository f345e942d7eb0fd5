{{ config(materialized='table') }}

with

runs as (

    select * from {{ ref('int_learning_runs') }}
    where is_standing

),

episodes as (

    select * from {{ ref('int_learning_episodes') }}

),

ceilings as (

    select * from {{ ref('int_learning_ceilings') }}

),

counts as (

    select
        run_id,
        task_id,
        count(*) as n_planned,
        count(*) filter (where status = 'ok') as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option,
        min(episode_id) filter (where status <> 'ok') as first_unscored,
        arg_min(status_reason, episode_id) filter (where status <> 'ok') as first_reason,
        min(scorer_sha) as scorer_sha
    from episodes
    group by run_id, task_id

),

summed as (

    -- in the order of size, so that the last digits do not depend on threads
    select
        run_id,
        task_id,
        list(value order by value) as instance_values,
        {{ ordered_sum('strict_value') }} / count(strict_value) as strict_value,
        {{ ordered_sum('accuracy') }} / count(accuracy) as accuracy,
        {{ ordered_sum('efficiency') }} / count(efficiency) as efficiency,
        {{ ordered_sum('success') }} / count(success) as success,
        {{ ordered_sum('progress') }} / count(progress) as progress,
        {{ ordered_sum('transfer') }} / count(transfer) as transfer,
        {{ ordered_sum('asymptote') }} / count(asymptote) as asymptote,
        {{ ordered_sum('trajectory') }} / count(trajectory) as trajectory,
        {{ ordered_sum('consistency') }} / count(consistency) as consistency,
        {{ ordered_sum('position_accuracy') }} / count(position_accuracy) as position_accuracy,
        cast(sum(examples_used) as double) / count(examples_used) as mean_examples_used,
        cast(sum(n_ambiguous) as bigint) as n_ambiguous,
        cast(sum(n_unanswered) as bigint) as n_unanswered
    from episodes
    where status = 'ok'
    group by run_id, task_id

),

means as (

    select
        *,
        list_aggregate(instance_values, 'fsum') / len(instance_values) as value_scored,
        list_aggregate(instance_values, 'fsum') as value_sum,
        instance_values[1] as lowest_value,
        instance_values[-1] as highest_value
    from summed

),

errors as (

    -- instances are drawn apart from each other
    select
        run_id,
        task_id,
        {{ standard_error('instance_values', 'value_scored') }} as se
    from means

),

scores as (

    -- strict: a value needs every planned instance. By the other policy one without a score has earned
    -- nothing, the least that any formula gives
    select
        runs.evaluation_or_run_id,
        runs.evaluation_id,
        runs.run_id,
        runs.kind,
        runs.model_id,
        runs.model_revision,
        runs.agent_kind,
        runs.protocol,
        runs.source_id,
        runs.started_at,
        runs.task_id,
        runs.category,
        runs.family_id,
        runs.item_run_id,
        case when counts.n_scored = counts.n_planned then means.value_scored end as value,
        means.value_scored,
        coalesce(means.value_sum, 0) / counts.n_planned as value_count_as_wrong,
        errors.se,
        {{ no_error_because(
            'means.value_scored', 'counts.n_scored', 'errors.se', 'means.lowest_value', 'means.highest_value'
        ) }} as se_reason,
        coalesce(counts.n_scored, 0) as n_clusters,
        means.lowest_value,
        means.highest_value,
        coalesce(counts.n_planned, 0) as n_planned,
        coalesce(counts.n_scored, 0) as n_scored,
        coalesce(counts.n_unparsed, 0) as n_unparsed,
        coalesce(counts.n_error, 0) as n_error,
        coalesce(counts.n_too_long, 0) as n_too_long,
        coalesce(counts.n_missing_option, 0) as n_missing_option,
        case when counts.n_scored = counts.n_planned then means.strict_value end as strict_value,
        means.position_accuracy,
        means.accuracy,
        means.efficiency,
        means.success,
        means.progress,
        means.transfer,
        means.asymptote,
        means.trajectory,
        means.consistency,
        means.mean_examples_used,
        means.n_ambiguous,
        means.n_unanswered,
        ceilings.ceiling,
        case
            when counts.run_id is null then 'the lake holds no instance of the task that this run was asked'
            when counts.n_scored < counts.n_planned
                then
                    counts.n_scored || ' of ' || counts.n_planned
                    || ' instances have a score, the first without: '
                    || counts.first_unscored || ': ' || counts.first_reason
        end as reason,
        counts.scorer_sha
    from runs
    inner join ceilings on runs.task_id = ceilings.task_id
    left join counts
        on
            runs.run_id = counts.run_id
            and runs.task_id = counts.task_id
    left join means
        on
            runs.run_id = means.run_id
            and runs.task_id = means.task_id
    left join errors
        on
            runs.run_id = errors.run_id
            and runs.task_id = errors.task_id

)

select * from scores
