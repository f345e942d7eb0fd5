with

datasets as (

    select * from {{ ref('cognirank_datasets') }}

),

runs as (

    select
        *,
        case when json_valid(identity_json) then identity_json end as stated_json
    from {{ ref('stg_runs') }}
    where
        kind = 'model'
        and evaluation_id is not null

),

stated as (

    -- what a run says of itself and of the evaluation that it is a part of
    select
        runs.evaluation_id,
        datasets.component_id,
        datasets.dataset_id,
        datasets.is_stand_in,
        runs.run_id,
        runs.model_id,
        runs.model_revision,
        runs.engine,
        runs.engine_version,
        runs.dtype,
        runs.source_id,
        coalesce(runs.source_id = datasets.source_id, false) as is_of_source,
        runs.repeat,
        runs.started_at,
        runs.context_requested_tokens,
        runs.context_effective_tokens,
        coalesce(
            try_cast((runs.stated_json ->> '$.evaluation.is_context_extension') as boolean), false
        ) as is_context_extension,
        coalesce(
            try_cast((runs.stated_json ->> '$.evaluation.trust_remote_code') as boolean), false
        ) as trust_remote_code,
        coalesce(try_cast((runs.stated_json -> '$.evaluation.deviations') as varchar[]), []) as deviations,
        runs.stated_json ->> '$.evaluation.generation_id' as generation_id,
        try_cast((runs.stated_json -> '$.items') as varchar[]) as item_run_ids
    from runs
    cross join unnest(runs.planned_modes) as planned (mode_id)
    inner join datasets on planned.mode_id = datasets.dataset_id

),

standing as (

    -- one run is a component of an evaluation. Published data come before those that stand in for them, and
    -- a run over the data set's own source before any other; then the lowest repeat, then the newest
    select *
    from stated
    qualify
        row_number() over (
            partition by evaluation_id, component_id
            order by
                is_stand_in asc,
                is_of_source desc,
                coalesce(repeat, 0) asc,
                started_at desc nulls last,
                run_id asc
        ) = 1

)

select * from standing
