{{ config(materialized='incremental', incremental_strategy='append', on_schema_change='append_new_columns') }}

with

metrics as (

    select * from {{ ref('metrics') }}

),

build as (

    select * from {{ this.schema }}.build_log
    where invocation_id = '{{ invocation_id }}'

),

history as (

    select
        '{{ invocation_id }}' as invocation_id,
        build.started_at as built_at,
        build.raw_sha256,
        build.project_sha256,
        metrics.run_id,
        metrics.mode_id,
        metrics.metric,
        metrics.value,
        metrics.value_scored,
        metrics.n_planned,
        metrics.n_scored,
        metrics.scorer_sha
    from metrics
    cross join build

)

select * from history
