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

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

labelled as (

    -- two policies, never mixed: by the strict one a value needs every planned row, and value_scored is what
    -- the scored rows alone give; by the other a row without a score counts as wrong
    select
        metrics.run_id,
        runs.model_id,
        metrics.mode_id,
        metrics.metric,
        case when metrics.n_scored = metrics.n_planned then metrics.value_scored end as value,
        metrics.value_scored,
        metrics.value_count_as_wrong,
        declared.unit,
        metrics.n_scored as n,
        modes.cluster,
        metrics.n_clusters,
        metrics.se,
        {{ interval_end('-', 'metrics.value_scored', 'metrics.se', 'metrics.n_clusters - 1') }} as ci_low,
        {{ interval_end('+', 'metrics.value_scored', 'metrics.se', 'metrics.n_clusters - 1') }} as ci_high,
        metrics.se_reason,
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
        case
            when metrics.value_count_as_wrong is null
                then coalesce(metrics.not_counted_because, 'no value of the metric is declared as wrong')
        end as count_as_wrong_reason,
        metrics.scorer_sha
    from metrics
    inner join runs on metrics.run_id = runs.run_id
    inner join declared
        on
            metrics.mode_id = declared.mode_id
            and metrics.metric = declared.metric
    inner join modes on metrics.mode_id = modes.mode_id

)

select * from labelled
