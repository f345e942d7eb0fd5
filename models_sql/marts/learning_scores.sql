with

scores as (

    select * from {{ ref('int_learning_scores') }}

),

labelled as (

    select
        evaluation_or_run_id as run_id,
        model_id,
        model_revision,
        task_id,
        category,
        family_id,
        value,
        value_scored,
        value_count_as_wrong,
        se,
        {{ interval_end('-', 'value_scored', 'se', 'n_clusters - 1') }} as ci_low,
        {{ interval_end('+', 'value_scored', 'se', 'n_clusters - 1') }} as ci_high,
        se_reason,
        n_clusters,
        strict_value,
        position_accuracy,
        accuracy,
        efficiency,
        success,
        progress,
        transfer,
        asymptote,
        trajectory,
        consistency,
        mean_examples_used,
        n_ambiguous,
        n_unanswered,
        ceiling,
        n_planned,
        n_scored,
        n_unparsed,
        n_error,
        n_too_long,
        n_missing_option,
        reason,
        scorer_sha
    from scores

)

select * from labelled
