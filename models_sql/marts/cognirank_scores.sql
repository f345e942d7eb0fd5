with

scores as (

    select * from {{ ref('int_cognirank_components') }}

),

runs as (

    select * from {{ ref('int_cognirank_runs') }}

),

labelled as (

    select
        scores.evaluation_id,
        scores.run_id,
        runs.model_id,
        runs.model_revision,
        scores.component_id,
        scores.dataset_id,
        scores.is_stand_in,
        scores.metric,
        scores.is_primary,
        scores.value,
        scores.value_scored,
        scores.value_count_as_wrong,
        scores.se,
        {{ interval_end('-', 'scores.value_scored', 'scores.se', 'scores.degrees_of_freedom') }} as ci_low,
        {{ interval_end('+', 'scores.value_scored', 'scores.se', 'scores.degrees_of_freedom') }} as ci_high,
        scores.se_reason,
        scores.n_clusters,
        scores.n_planned,
        scores.n_scored,
        scores.n_unparsed,
        scores.n_error,
        scores.n_too_long,
        scores.n_missing_option,
        scores.reason,
        scores.scorer_sha
    from scores
    inner join runs
        on
            scores.evaluation_id = runs.evaluation_id
            and scores.component_id = runs.component_id

)

select * from labelled
