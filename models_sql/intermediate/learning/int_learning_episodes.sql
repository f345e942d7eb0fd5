{{ config(materialized='table') }}

with

runs as (

    select * from {{ ref('int_learning_runs') }}

),

instances as (

    select distinct
        item_run_id,
        mode_id,
        episode_id
    from {{ ref('int_learning_questions') }}

),

scored as (

    select * from {{ ref('int_learning_scored') }}

),

planned as (

    select
        runs.run_id,
        runs.task_id,
        runs.score_rule,
        runs.changed_because,
        instances.episode_id
    from runs
    inner join instances
        on
            runs.item_run_id = instances.item_run_id
            and runs.task_id = instances.mode_id

),

matched as (

    select
        planned.run_id,
        planned.task_id,
        planned.episode_id,
        planned.score_rule,
        scored.value,
        scored.strict_value,
        scored.accuracy,
        scored.efficiency,
        scored.success,
        scored.progress,
        scored.transfer,
        scored.asymptote,
        scored.trajectory,
        scored.consistency,
        scored.position_accuracy,
        scored.examples_used,
        scored.solved_at_reply,
        scored.n_ambiguous,
        scored.n_unanswered,
        scored.n_replies,
        scored.n_illegal,
        scored.n_unread,
        coalesce(scored.status, 'error') as status,
        case
            when planned.changed_because is not null then planned.changed_because
            when scored.status is null then 'the episode was not asked'
            else scored.status_reason
        end as status_reason,
        scored.scorer_sha
    from planned
    left join scored
        on
            planned.run_id = scored.run_id
            and planned.task_id = scored.mode_id
            and planned.episode_id = scored.episode_id
            -- what was asked under other parameters is not scored by those of now
            and planned.changed_because is null

)

select * from matched
