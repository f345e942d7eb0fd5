with

examples as (

    select
        *,
        cast(inputs_json ->> '$.n_correct' as double)
        / cast(inputs_json ->> '$.n_questions' as double) as accuracy,
        cast(inputs_json ->> '$.examples_used' as integer) as examples_used,
        cast(inputs_json ->> '$.initial' as integer) as initial_examples,
        cast(inputs_json ->> '$.max' as integer) as max_examples,
        cast(inputs_json ->> '$.free' as integer) as free_threshold,
        cast(inputs_json ->> '$.solved_at' as integer) as solved_at_reply,
        cast(inputs_json ->> '$.budget' as integer) as budget_steps,
        cast(inputs_json ->> '$.min_explore' as integer) as min_explore_steps,
        cast(inputs_json ->> '$.progress' as double) as progress,
        cast(inputs_json ->> '$.transfer' as double) as transfer,
        cast(inputs_json -> '$.rounds' as double[]) as rounds
    from {{ ref('learning_examples') }}

),

formulas as (

    -- the examples are of the formulas that all tasks made here share
    select
        score_rule,
        any_value(weight_accuracy order by task_id) as weight_accuracy,
        any_value(weight_efficiency order by task_id) as weight_efficiency,
        any_value(weight_success order by task_id) as weight_success,
        any_value(weight_progress order by task_id) as weight_progress,
        any_value(weight_transfer order by task_id) as weight_transfer,
        any_value(weight_asymptote order by task_id) as weight_asymptote,
        any_value(weight_trajectory order by task_id) as weight_trajectory,
        any_value(weight_consistency order by task_id) as weight_consistency,
        any_value(efficiency_floor order by task_id) as efficiency_floor,
        any_value(asymptote_share order by task_id) as asymptote_share,
        any_value(trajectory_decimals order by task_id) as trajectory_decimals,
        any_value(score_decimals order by task_id) as score_decimals,
        any_value(has_zero_guard order by task_id) as has_zero_guard,
        any_value(epsilon order by task_id) as epsilon
    from {{ ref('learning_tasks') }}
    where family_id is not null
    group by score_rule

),

courses as (

    select
        examples.example_id,
        examples.rounds,
        len(examples.rounds) as n_rounds,
        {{ n_last_rounds('len(examples.rounds)', 'formulas.asymptote_share') }} as n_last
    from examples
    inner join formulas on examples.rule = formulas.score_rule

),

rounds as (

    select
        example_id,
        n_rounds,
        n_last,
        unnest(rounds) as efficiency,
        generate_subscripts(rounds, 1) as round
    from courses

),

curves as (

    select
        rounds.example_id,
        cast(count(*) as integer) as n_rounds,
        fsum(rounds.efficiency order by rounds.round) filter (
            where rounds.round > rounds.n_rounds - rounds.n_last
        ) / any_value(rounds.n_last) as asymptote,
        regr_slope(rounds.efficiency, rounds.round order by rounds.round) as slope,
        fsum(rounds.round * rounds.efficiency order by rounds.round)
        / fsum(rounds.round order by rounds.round) as consistency
    from rounds
    group by rounds.example_id

),

parts as (

    select
        examples.*,
        formulas.*,
        curves.asymptote,
        curves.consistency,
        {{ trajectory_score('curves.slope', 'curves.n_rounds', 'formulas.trajectory_decimals') }}
            as trajectory,
        case examples.rule
            when 'active_induction' then {{ example_efficiency(
                'examples.examples_used',
                free_examples('examples.initial_examples', 'examples.free_threshold'),
                'examples.max_examples',
                'formulas.efficiency_floor'
            ) }}
            when 'runtime_rl' then {{ step_efficiency(
                'examples.solved_at_reply',
                'examples.budget_steps',
                'examples.min_explore_steps',
                'formulas.efficiency_floor'
            ) }}
        end as efficiency,
        cast(examples.solved_at_reply is not null as double) as success
    from examples
    inner join formulas on examples.rule = formulas.score_rule
    left join curves on examples.example_id = curves.example_id

),

computed as (

    select
        *,
        case
            when part = 'efficiency' then efficiency
            when part = 'trajectory' then trajectory
            when part = 'consistency' then consistency
            -- what the document says was in use before: half the practice mean, half the transfer
            when part = 'old_score' then (consistency + transfer) / 2
            when rule = 'active_induction' then {{ active_score(
                'accuracy', 'efficiency', 'weight_accuracy', 'weight_efficiency', 'has_zero_guard'
            ) }}
            when rule = 'runtime_rl' then {{ game_score(
                'success',
                'efficiency',
                'progress',
                'weight_success',
                'weight_efficiency',
                'weight_progress',
                'score_decimals'
            ) }}
            when rule = 'procedural' then {{ practice_score(
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
            ) }}
        end as computed
    from parts

),

compared as (

    -- as printed: both to the digits that the document gives
    select
        example_id,
        rule,
        part,
        printed,
        computed,
        computed - cast(printed as double) as difference,
        format('{:.{}f}', computed, printed_decimals) = printed as agrees,
        disagrees as is_known_to_disagree,
        note
    from computed

)

select * from compared
