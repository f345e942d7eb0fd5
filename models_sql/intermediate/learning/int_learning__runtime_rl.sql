{{ config(materialized='table') }}

{% call learning_rule('runtime_rl') %}

    with

    episodes as (
        {{ learning_episodes_of('runtime_rl', has_questions=false) }}
    ),

    turns as (

        select * from {{ ref('int_learning_turns') }}

    ),

    games as (

        -- whoever made no move that could be read came no step nearer to the goal
        select
            episodes.* replace (
                case
                    when episodes.fault is not null then episodes.fault
                    when turns.solved_at_reply < turns.n_replies
                        then
                            'solved at reply ' || turns.solved_at_reply || ' and gone on with until reply '
                            || turns.n_replies
                    when turns.progress is null and turns.n_replies > turns.n_illegal + turns.n_unread
                        then 'no progress is stored with its moves'
                    when not isfinite(turns.progress)
                        then 'the progress is ' || turns.progress || ', which is no number from 0 to 1'
                end as fault
            ),
            turns.solved_at_reply,
            cast(turns.is_solved as double) as success,
            greatest(0, least(1, coalesce(turns.progress, 0))) as progress
        from episodes
        inner join turns
            on
                episodes.run_id = turns.run_id
                and episodes.mode_id = turns.mode_id
                and episodes.episode_id = turns.episode_id
                and turns.trial = 0

    ),

    efficiencies as (

        select
            *,
            {{ step_efficiency('solved_at_reply', 'budget_steps', 'min_explore_steps', 'efficiency_floor') }}
                as efficiency
        from games

    ),

    formulas as (

        select
            *,
            {{ game_score(
                'success',
                'efficiency',
                'progress',
                'weight_success',
                'weight_efficiency',
                'weight_progress',
                'score_decimals'
            ) }} as found
        from efficiencies

    ),

    scores as (

        -- nothing is compared with an answer, so the strict value is the value
        select
            run_id,
            mode_id,
            episode_id,
            case when fault is null then found end as strict_value,
            success,
            efficiency,
            progress,
            solved_at_reply,
            n_replies,
            n_illegal,
            n_unread,
            {{ value_or_reason('found') }}
        from formulas

    )

    select * from scores

{% endcall %}
