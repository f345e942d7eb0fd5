with

scores as (

    select * from {{ ref('int_learning_scores') }}

),

tasks as (

    select * from {{ ref('learning_tasks') }}
    where practice_rounds is not null

),

episodes as (

    select * from {{ ref('int_learning_episodes') }}
    where status = 'ok'

),

turns as (

    select * from {{ ref('int_learning_turns') }}
    where n_examined = 0

),

rounds as (

    select
        scores.evaluation_or_run_id as run_id,
        scores.model_id,
        scores.task_id,
        scores.category,
        turns.trial + 1 as round,
        {{ step_efficiency(
            'turns.solved_at_reply', 'tasks.budget_steps', 'tasks.min_explore_steps', 'tasks.efficiency_floor'
        ) }} as efficiency,
        turns.is_solved
    from scores
    inner join tasks on scores.task_id = tasks.task_id
    inner join episodes
        on
            scores.run_id = episodes.run_id
            and scores.task_id = episodes.task_id
    inner join turns
        on
            episodes.run_id = turns.run_id
            and episodes.task_id = turns.mode_id
            and episodes.episode_id = turns.episode_id

),

collected as (

    select
        run_id,
        min(model_id) as model_id,
        task_id,
        min(category) as category,
        round,
        count(*) as n,
        cast(count(*) filter (where is_solved) as double) / count(*) as solved_share,
        list(efficiency order by efficiency) as efficiencies
    from rounds
    group by run_id, task_id, round

),

means as (

    select
        *,
        list_aggregate(efficiencies, 'fsum') / n as efficiency
    from collected

),

curves as (

    select
        run_id,
        model_id,
        task_id,
        category,
        round,
        efficiency,
        {{ standard_error('efficiencies', 'efficiency') }} as se,
        solved_share,
        n
    from means

)

select * from curves
