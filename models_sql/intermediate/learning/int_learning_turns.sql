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
            count(*) filter (where outcome = 'example') as n_examples,
            count(*) filter (where outcome = 'illegal') as n_illegal,
            count(*) filter (where outcome = 'unread') as n_unread,
            count(*) filter (where outcome = 'examined' and status = 'ok') as n_examined,
            min(step_index) as first_step,
            max(step_index) as last_step,
            min(step_index) filter (where outcome = 'solved' and status = 'ok') as solved_step,
            arg_max(progress, step_index) filter (where progress is not null) as progress,
            bool_or(coalesce(is_last, false) and status = 'ok') as is_ended,
            min(step_index) filter (where status <> 'ok') as failed_step,
            arg_min(status, step_index) filter (where status <> 'ok') as failed_status,
            arg_min(coalesce(status_reason, status), step_index) filter (
                where status <> 'ok'
            ) as failed_reason,
            min(part_id) as part_id
        from steps
        where mode_id in (select tasks.task_id from tasks)
        group by run_id, mode_id, episode_id, coalesce(trial, 0)

    ),

    judged as (

        -- a round ends when it is solved or its budget is used up; an exam, and with it the episode, with the answers
        select
            turns.run_id,
            turns.mode_id,
            turns.episode_id,
            turns.trial,
            turns.n_replies,
            turns.n_examples,
            turns.n_illegal,
            turns.n_unread,
            turns.n_examined,
            turns.first_step,
            turns.last_step,
            turns.solved_step is not null as is_solved,
            turns.solved_step - turns.first_step + 1 as solved_at_reply,
            turns.progress,
            turns.is_ended,
            turns.failed_status is null and coalesce(
                turns.is_ended
                or turns.n_examined > 0
                or turns.solved_step is not null
                or turns.n_replies >= tasks.budget_steps,
                false
            ) as is_whole,
            coalesce(turns.failed_status, 'ok') as status,
            turns.failed_reason as status_reason,
            turns.part_id
        from turns
        inner join tasks on turns.mode_id = tasks.task_id

    )

    select * from judged

{% endcall %}
