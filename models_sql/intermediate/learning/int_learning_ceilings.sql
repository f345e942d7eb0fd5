{{ config(materialized='table') }}

with recursive

tasks as (

    select * from {{ ref('learning_tasks') }}

),

practised as (

    select
        *,
        {{ n_last_rounds('practice_rounds', 'asymptote_share') }} as n_last
    from tasks
    where
        score_rule = 'procedural'
        and practice_rounds > 0

),

replies as (

    select
        task_id,
        budget_steps,
        min_explore_steps,
        efficiency_floor,
        -- null: none of them solved the round
        unnest(list_prepend(null, range(1, budget_steps + 1))) as solved_at_reply
    from practised

),

efficiencies as (

    -- all that one round can have
    select distinct
        task_id,
        {{ step_efficiency('solved_at_reply', 'budget_steps', 'min_explore_steps', 'efficiency_floor') }}
            as efficiency
    from replies

),

early as (

    -- every course of the first half; of later rounds more is never worse, whatever the slope
    select
        task_id,
        cast([] as double[]) as course,
        0 as n_rounds,
        practice_rounds
    from practised

    union all

    select
        early.task_id,
        list_append(early.course, efficiencies.efficiency) as course,
        early.n_rounds + 1 as n_rounds,
        early.practice_rounds
    from early
    inner join efficiencies on early.task_id = efficiencies.task_id
    where early.n_rounds < early.practice_rounds // 2

),

courses as (

    select
        task_id,
        list_concat(
            course,
            list_resize(cast([] as double[]), practice_rounds - n_rounds, cast(1 as double))
        ) as course
    from early
    where n_rounds = practice_rounds // 2

),

numbered as (

    select
        *,
        row_number() over () as course_id
    from courses

),

rounds as (

    select
        task_id,
        course_id,
        unnest(course) as efficiency,
        generate_subscripts(course, 1) as round
    from numbered

),

curves as (

    select
        rounds.course_id,
        practised.task_id,
        fsum(rounds.efficiency order by rounds.round) filter (
            where rounds.round > practised.practice_rounds - practised.n_last
        ) / any_value(practised.n_last) as asymptote,
        regr_slope(rounds.efficiency, rounds.round order by rounds.round) as slope,
        fsum(rounds.round * rounds.efficiency order by rounds.round)
        / fsum(rounds.round order by rounds.round) as consistency
    from rounds
    inner join practised on rounds.task_id = practised.task_id
    group by rounds.course_id, practised.task_id

),

formulas as (

    select
        practised.*,
        cast(1 as double) as transfer,
        curves.asymptote,
        curves.consistency,
        {{ trajectory_score('curves.slope', 'practised.practice_rounds', 'practised.trajectory_decimals') }}
            as trajectory
    from curves
    inner join practised on curves.task_id = practised.task_id

),

highest as (

    select
        task_id,
        max({{ practice_score(
            'transfer',
            'asymptote',
            'trajectory',
            'consistency',
            'weight_transfer',
            'weight_asymptote',
            'weight_trajectory',
            'weight_consistency',
            'has_zero_guard',
            'epsilon',
            'score_decimals'
        ) }}) as ceiling
    from formulas
    group by task_id

),

ceilings as (

    -- whoever knows everything scores 1 by the other rules
    select
        tasks.task_id,
        case when tasks.score_rule = 'procedural' then highest.ceiling else cast(1 as double) end as ceiling
    from tasks
    left join highest on tasks.task_id = highest.task_id

)

select * from ceilings
