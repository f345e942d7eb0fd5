{{ config(materialized='table') }}

{% call learning_rule('fraction_correct') %}

    with

    episodes as (
        {{ learning_episodes_of('fraction_correct', has_questions=true) }}
    ),

    formulas as (

        select
            *,
            {{ rounded_to('(weight_accuracy * accuracy)', 'score_decimals') }} as found,
            {{ rounded_to('(weight_accuracy * strict_accuracy)', 'score_decimals') }} as strict_found
        from episodes

    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            case when fault is null then strict_found end as strict_value,
            accuracy,
            position_accuracy,
            n_ambiguous,
            n_unanswered,
            n_replies,
            {{ value_or_reason('found') }}
        from formulas

    )

    select * from scores

{% endcall %}
