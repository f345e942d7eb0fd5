{% call scored_rule(
    ['fraction_correct', 'active_induction', 'runtime_rl', 'procedural'], 'steps', benchmark='learning'
) %}

    with

    steps as (

        select
            *,
            hidden_values[1] as progress
        from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    tasks as (

        select * from {{ ref('learning_tasks') }}

    ),

    turns as (

        select
            run_id,
            mode_id,
            episode_id,
            coalesce(trial, 0) as trial,
            count(*) as n_replies,
            count(distinct step_index) as n_places,
            count(*) filter (where outcome = 'example') as n_examples,
            count(*) filter (where outcome = 'illegal') as n_illegal,
            count(*) filter (where outcome = 'unread') as n_unread,
            count(*) filter (where outcome = 'examined' and status = 'ok') as n_examined,
            min(step_index) as first_step,
            max(step_index) as last_step,
            min(step_index) filter (where outcome = 'solved' and status = 'ok') as solved_step,
            arg_max(progress, step_index) filter (where progress is not null) as progress,
            arg_max(coalesce(is_last, false) and status = 'ok', step_index) as is_ended,
            arg_min(status, step_index) filter (where status <> 'ok') as failed_status,
            arg_min(coalesce(status_reason, status), step_index) filter (
                where status <> 'ok'
            ) as failed_reason,
            min(step_index) filter (
                where
                status = 'ok'
                and coalesce(outcome, '') not in (
                    'examined', 'example', 'no_more', 'ready', 'moved', 'illegal', 'unread', 'solved'
                )
            ) as untold_step,
            min(part_id) as part_id
        from steps
        where mode_id in (select tasks.task_id from tasks)
        group by run_id, mode_id, episode_id, coalesce(trial, 0)

    ),

    faults as (

        -- what failed itself says why; otherwise what the rows do not tell
        select
            *,
            case
                when failed_status is not null then failed_reason
                when n_places <> n_replies
                    then n_replies || ' replies at ' || n_places || ' places: some are stored twice'
                when untold_step is not null
                    then 'reply ' || (untold_step + 1) || ' led to nothing that is known as an outcome'
            end as status_reason
        from turns

    ),

    judged as (

        select
            run_id,
            mode_id,
            episode_id,
            trial,
            n_replies,
            n_examples,
            n_illegal,
            n_unread,
            n_examined,
            first_step,
            last_step,
            solved_step is not null as is_solved,
            solved_step - first_step + 1 as solved_at_reply,
            progress,
            is_ended,
            case when status_reason is null then 'ok' else coalesce(failed_status, 'error') end as status,
            status_reason,
            part_id
        from faults

    )

    select * from judged

{% endcall %}
