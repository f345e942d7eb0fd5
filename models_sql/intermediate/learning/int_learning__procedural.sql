{{ config(materialized='table') }}

{% call learning_rule('procedural') %}

    with

    episodes as (
        {{ learning_episodes_of('procedural', has_questions=true) }}
    ),

    turns as (

        select * from {{ ref('int_learning_turns') }}

    ),

    tasks as (

        select * from {{ ref('learning_tasks') }}
        where score_rule = 'procedural'

    ),

    rounds as (

        -- what was asked after practice is no round of it
        select
            turns.run_id,
            turns.mode_id,
            turns.episode_id,
            turns.trial,
            count(*) over episode as n_rounds,
            {{ step_efficiency(
                'turns.solved_at_reply',
                'tasks.budget_steps',
                'tasks.min_explore_steps',
                'tasks.efficiency_floor'
            ) }} as efficiency,
            tasks.asymptote_share,
            case
                when turns.first_step <> coalesce(lag(turns.last_step) over (episode order by turns.trial) + 1, 0)
                    then 'does not follow what came before it'
                when turns.solved_at_reply < turns.n_replies then 'goes on after it was solved'
                when not turns.is_solved and turns.n_replies < tasks.budget_steps
                    then 'ended before it was solved and before its replies were used up'
            end as round_fault
        from turns
        inner join tasks on turns.mode_id = tasks.task_id
        where turns.n_examined = 0
        window episode as (partition by turns.run_id, turns.mode_id, turns.episode_id)

    ),

    numbered as (

        select
            *,
            {{ n_last_rounds('n_rounds', 'asymptote_share') }} as n_last
        from rounds

    ),

    practice as (

        -- ordered, so that the last digits do not depend on threads
        select
            run_id,
            mode_id,
            episode_id,
            cast(count(*) as integer) as n_rounds,
            max(trial) as last_trial,
            'practice round ' || (min(trial) filter (where round_fault is not null) + 1) || ' '
            || arg_min(round_fault, trial) filter (where round_fault is not null) as round_fault,
            fsum(efficiency order by trial) filter (
                where trial >= n_rounds - n_last
            ) / any_value(n_last) as asymptote,
            regr_slope(efficiency, trial order by trial) as slope,
            fsum((trial + 1) * efficiency order by trial) / fsum(trial + 1 order by trial) as consistency
        from numbered
        group by run_id, mode_id, episode_id

    ),

    courses as (

        select
            episodes.* replace (
                case
                    when episodes.fault is not null then episodes.fault
                    when episodes.practice_rounds = 0
                        then 'the task has no practice rounds, without which there is no learning to score'
                    when practice.n_rounds is null then 'no practice round was begun'
                    when practice.n_rounds <> practice.last_trial + 1
                        then
                            practice.n_rounds || ' practice rounds of which the last is number '
                            || (practice.last_trial + 1)
                    when practice.n_rounds <> episodes.practice_rounds
                        then
                            practice.n_rounds || ' practice rounds where ' || episodes.practice_rounds
                            || ' are declared'
                    else practice.round_fault
                end as fault
            ),
            practice.asymptote,
            {{ trajectory_score('practice.slope', 'practice.n_rounds', 'episodes.trajectory_decimals') }}
                as trajectory,
            practice.consistency
        from episodes
        left join practice
            on
                episodes.run_id = practice.run_id
                and episodes.mode_id = practice.mode_id
                and episodes.episode_id = practice.episode_id

    ),

    formulas as (
        {%- set of_practice = [
            'asymptote',
            'trajectory',
            'consistency',
            'weight_transfer',
            'weight_asymptote',
            'weight_trajectory',
            'weight_consistency',
            'has_zero_guard',
            'epsilon',
            'score_decimals',
        ] %}

        select
            *,
            {{ practice_score('accuracy', *of_practice) }} as found,
            {{ practice_score('strict_accuracy', *of_practice) }} as strict_found
        from courses

    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            case when fault is null then strict_found end as strict_value,
            accuracy,
            accuracy as transfer,
            asymptote,
            trajectory,
            consistency,
            position_accuracy,
            n_ambiguous,
            n_unanswered,
            n_replies,
            n_illegal,
            n_unread,
            {{ value_or_reason('found') }}
        from formulas

    )

    select * from scores

{% endcall %}
