with

scores as (

    select * from {{ ref('int_learning_scores') }}

),

tasks as (

    select * from {{ ref('learning_tasks') }}
    where score_rule = 'runtime_rl'

),

episodes as (

    select * from {{ ref('int_learning_episodes') }}
    where
        status = 'ok'
        and score_rule = 'runtime_rl'

),

played as (

    select
        scores.evaluation_or_run_id as run_id,
        min(scores.model_id) as model_id,
        scores.task_id,
        min(scores.category) as category,
        min(tasks.budget_steps) as budget_steps,
        count(*) as n,
        list(episodes.solved_at_reply) filter (where episodes.solved_at_reply is not null) as solved_at
    from scores
    inner join tasks on scores.task_id = tasks.task_id
    inner join episodes
        on
            scores.run_id = episodes.run_id
            and scores.task_id = episodes.task_id
    group by scores.evaluation_or_run_id, scores.task_id

),

steps as (

    select
        *,
        unnest(range(1, budget_steps + 1)) as step
    from played

),

shares as (

    select
        run_id,
        model_id,
        task_id,
        category,
        cast(step as integer) as step,
        cast(coalesce(len(list_filter(solved_at, lambda s: s <= step)), 0) as double) / n as solved_share,
        n
    from steps

)

select * from shares
