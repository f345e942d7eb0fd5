{{ config(materialized='table') }}

with

runs as materialized (

    select
        run_id,
        evaluation_id,
        kind,
        model_id,
        model_revision,
        agent_kind,
        protocol,
        source_id,
        started_at,
        planned_modes,
        importer_version,
        case when json_valid(identity_json) then identity_json end as stated_json
    from {{ ref('stg_runs') }}

),

tasks as (

    select * from {{ ref('learning_tasks') }}

),

parts as (

    select distinct
        mode_id,
        run_id
    from {{ ref('stg_parts') }}
    where raw_table = 'items'

),

made as (

    -- what decided the course of an episode when the instances were made
    select
        runs.run_id as item_run_id,
        made.task ->> '$.task_id' as task_id,
        made.task as stated
    from runs
    cross join unnest(try_cast((runs.stated_json -> '$.tasks') as json[])) as made (task)
    where runs.kind = 'schedule'

),

changed as (

    select
        made.item_run_id,
        tasks.task_id,
        concat_ws(
            ', ',
            {%- for parameter in [
                'free_threshold', 'initial_examples', 'max_examples', 'n_test_items', 'budget_steps',
                'min_explore_steps', 'practice_rounds',
            ] %}
                case
                    when
                        tasks.{{ parameter }}
                        is distinct from try_cast((made.stated ->> '$.{{ parameter }}') as integer)
                        then '{{ parameter }}'
                end{{ ',' if not loop.last }}
            {%- endfor %}
        ) as differing
    from made
    inner join tasks on made.task_id = tasks.task_id

),

brought as (

    -- instances of a task by the run that brought them
    select
        parts.mode_id as task_id,
        parts.run_id as item_run_id,
        coalesce(runs.importer_version, 0) as item_version,
        case
            when changed.differing <> ''
                then 'asked before its row of learning_tasks was changed: ' || changed.differing
        end as changed_because
    from parts
    inner join runs on parts.run_id = runs.run_id
    left join changed
        on
            parts.run_id = changed.item_run_id
            and parts.mode_id = changed.task_id
    where parts.mode_id in (select tasks.task_id from tasks)

),

stated as (

    select
        runs.run_id,
        runs.evaluation_id,
        runs.kind,
        runs.model_id,
        runs.model_revision,
        runs.agent_kind,
        runs.protocol,
        runs.source_id,
        runs.started_at,
        tasks.task_id,
        tasks.category,
        tasks.family_id,
        tasks.score_rule,
        try_cast((runs.stated_json -> '$.items') as varchar[]) as item_run_ids
    from runs
    cross join unnest(list_distinct(runs.planned_modes)) as planned (mode_id)
    inner join tasks on planned.mode_id = tasks.task_id
    where runs.kind in ('model', 'reference', 'uniform', 'archived')

),

asked as (

    -- a run names where its instances come from; of several, and if it names none, the newest are its own
    select
        stated.run_id,
        stated.task_id,
        max(brought.item_version) as item_version,
        arg_max(brought.item_run_id, (brought.item_version, brought.item_run_id)) as item_run_id,
        arg_max_null(brought.changed_because, (brought.item_version, brought.item_run_id)) as changed_because
    from stated
    inner join brought
        on
            stated.task_id = brought.task_id
            and coalesce(list_contains(stated.item_run_ids, brought.item_run_id), true)
    group by stated.run_id, stated.task_id

),

ranked as (

    -- of the runs of one evaluation and task, the newest of those asked the newest instances counts
    select
        stated.*,
        coalesce(stated.evaluation_id, stated.run_id) as evaluation_or_run_id,
        asked.item_run_id,
        asked.item_version,
        asked.changed_because,
        row_number() over (
            partition by coalesce(stated.evaluation_id, stated.run_id), stated.task_id
            order by asked.item_version desc nulls last, stated.started_at desc nulls last, stated.run_id asc
        ) = 1 as is_standing
    from stated
    left join asked
        on
            stated.run_id = asked.run_id
            and stated.task_id = asked.task_id

)

select * from ranked
