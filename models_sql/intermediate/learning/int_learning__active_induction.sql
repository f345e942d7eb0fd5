{{ config(materialized='table') }}

{% call learning_rule('active_induction') %}

    with

    episodes as (
        {{ learning_episodes_of('active_induction', has_questions=true) }}
    ),

    requests as (

        select
            *,
            initial_examples + n_examples_given as examples_used,
            {{ free_examples('initial_examples', 'free_threshold') }} as n_free
        from episodes

    ),

    efficiencies as (

        select
            *,
            {{ example_efficiency('examples_used', 'n_free', 'max_examples', 'efficiency_floor') }} as efficiency
        from requests

    ),

    formulas as (

        select
            *,
            {{ rounded_to(
                active_score('accuracy', 'efficiency', 'weight_accuracy', 'weight_efficiency', 'has_zero_guard'),
                'score_decimals'
            ) }} as found,
            {{ rounded_to(
                active_score(
                    'strict_accuracy', 'efficiency', 'weight_accuracy', 'weight_efficiency', 'has_zero_guard'
                ),
                'score_decimals'
            ) }} as strict_found
        from efficiencies

    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            case when fault is null then strict_found end as strict_value,
            accuracy,
            efficiency,
            position_accuracy,
            examples_used,
            n_ambiguous,
            n_unanswered,
            n_replies,
            n_unread,
            {{ value_or_reason('found') }}
        from formulas

    )

    select * from scores

{% endcall %}
