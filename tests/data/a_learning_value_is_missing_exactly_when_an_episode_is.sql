-- Tasks of Learning with a value although an instance has none, or without one although all have; and
-- standard errors of zero although instances differ.
with

instances as (

    select
        run_id,
        task_id,
        count(*) as n_planned,
        count(value) as n_with_value,
        min(value) < max(value) as is_any_different
    from {{ ref('int_learning_episodes') }}
    group by run_id, task_id

)

select
    scores.run_id,
    scores.task_id,
    scores.value,
    scores.se,
    instances.n_planned,
    instances.n_with_value
from {{ ref('int_learning_scores') }} as scores
left join instances
    on
        scores.run_id = instances.run_id
        and scores.task_id = instances.task_id
where
    (scores.value is not null) <> coalesce(instances.n_with_value = instances.n_planned, false)
    or (scores.se = 0 and instances.is_any_different)
