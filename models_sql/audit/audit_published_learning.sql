with

tasks as (

    select * from {{ ref('learning_tasks') }}
    where source_id is not null

),

published as (

    -- several imports of one leaderboard say the same
    select distinct
        source_id,
        mode_id,
        model_id,
        label,
        value
    from {{ ref('stg_published') }}
    where source_id in (select tasks.source_id from tasks)

),

logs as (

    -- an archived run says in its notes why it cannot be scored
    select
        runs.source_id,
        runs.model_id,
        planned.mode_id,
        arg_max(list_last(runs.notes), runs.run_id) as note
    from {{ ref('stg_runs') }} as runs
    cross join unnest(runs.planned_modes) as planned (mode_id)
    where runs.kind = 'archived'
    group by runs.source_id, runs.model_id, planned.mode_id

),

scores as (

    -- of several archived runs of one model and task the newest counts
    select * from {{ ref('int_learning_scores') }}
    where kind = 'archived'
    qualify
        row_number() over (
            partition by source_id, model_id, task_id
            order by started_at desc nulls last, run_id asc
        ) = 1

),

compared as (

    select
        published.source_id as source,
        published.mode_id as task_id,
        published.model_id,
        coalesce(tasks.category, published.label) as category,
        published.label as published_label,
        published.value as published,
        scores.value as computed,
        scores.value - published.value as difference,
        case
            when scores.value is not null and published.value is not null
                then abs(scores.value - published.value) <= 1e-4
        end as agrees,
        case
            when published.value is null then 'the published cell is empty'
            when logs.model_id is null then 'the lake holds no archived run of this model on this task'
            when scores.value is null then coalesce(logs.note, scores.reason, 'the task is not declared')
            when abs(scores.value - published.value) > 1e-4 then 'unexplained difference'
        end as reason
    from published
    left join tasks
        on
            published.source_id = tasks.source_id
            and published.mode_id = tasks.task_id
    left join logs
        on
            published.source_id = logs.source_id
            and published.mode_id = logs.mode_id
            and published.model_id = logs.model_id
    left join scores
        on
            published.source_id = scores.source_id
            and published.mode_id = scores.task_id
            and published.model_id = scores.model_id

)

select * from compared
