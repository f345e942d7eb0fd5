with

metrics as (

    select * from {{ ref('int_metrics') }}

),

runs as (

    select * from {{ ref('stg_runs') }}

),

declared as (

    select * from {{ ref('s1cogbench_metrics') }}

),

labelled as (

    -- strict policy: a value needs every planned row; value_scored is what the scored rows alone give
    select
        metrics.run_id,
        runs.model_id,
        metrics.mode_id,
        metrics.metric,
        case when metrics.n_scored = metrics.n_planned then metrics.value_scored end as value,
        metrics.value_scored,
        declared.unit,
        metrics.n_scored as n,
        metrics.n_clusters,
        metrics.se,
        metrics.n_planned,
        metrics.n_scored,
        metrics.n_unparsed,
        metrics.n_error,
        metrics.n_too_long,
        metrics.n_missing_option,
        metrics.n_infinite,
        case
            when metrics.n_scored < metrics.n_planned or metrics.value_scored is null
                then coalesce(metrics.status_reason, 'not every planned row could be scored')
        end as reason,
        metrics.scorer_sha
    from metrics
    inner join runs on metrics.run_id = runs.run_id
    inner join declared
        on
            metrics.mode_id = declared.mode_id
            and metrics.metric = declared.metric

)

select * from labelled
