with

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

primary_metrics as (

    select
        mode_id,
        metric
    from {{ ref('s1cogbench_metrics') }}
    where is_primary

),

runs as (

    select
        *,
        case
            when kind = 'reference' then 'reference' when agent_kind = 'human' then 'human' else 'model'
        end as column_kind,
        case when kind = 'reference' then 'reference' else model_id end as column_id
    from {{ ref('stg_runs') }}
    where kind <> 'published'

),

mode_runs as (

    -- one run fills a cell: of several, the last started, then the newest importer;
    -- the others stay in metrics
    select
        runs.*,
        planned.mode_id
    from runs, unnest(runs.planned_modes) as planned (mode_id)
    qualify
        row_number() over (
            partition by runs.column_id, planned.mode_id
            order by runs.started_at desc nulls last, runs.importer_version desc nulls last, runs.run_id asc
        ) = 1

),

columns as (

    select distinct
        column_id,
        column_kind
    from runs
    union
    select
        'reference' as column_id,
        'reference' as column_kind

),

metrics as (

    select * from {{ ref('metrics') }}

),

run_cells as (

    select
        modes.mode_id,
        modes.decimals,
        columns.column_id,
        columns.column_kind,
        mode_runs.run_id,
        metrics.value,
        metrics.value_scored,
        case
            when mode_runs.run_id is null then 'n.e.'
            when metrics.value is not null then 'complete'
            when metrics.n_scored > 0 then 'part.'
            when mode_runs.n_source_rows = 0 then 'n.f.'
            else 'n.a.'
        end as status,
        coalesce(metrics.n_planned, 0) as n_planned,
        coalesce(metrics.n_scored, 0) as n_scored,
        coalesce(metrics.n_unparsed, 0) as n_unparsed,
        coalesce(metrics.n_error, 0) as n_error,
        coalesce(metrics.n_too_long, 0) as n_too_long,
        coalesce(metrics.n_missing_option, 0) as n_missing_option,
        case
            when mode_runs.run_id is null then 'no run of this mode'
            when metrics.run_id is not null then metrics.reason
            when mode_runs.n_source_rows = 0 then array_to_string(mode_runs.notes, '; ')
            else 'the run holds no rows for ' || primary_metrics.metric
        end as reason,
        metrics.scorer_sha
    from modes
    inner join primary_metrics on modes.mode_id = primary_metrics.mode_id
    cross join columns
    left join mode_runs
        on
            modes.mode_id = mode_runs.mode_id
            and columns.column_id = mode_runs.column_id
    left join metrics
        on
            mode_runs.run_id = metrics.run_id
            and modes.mode_id = metrics.mode_id
            and primary_metrics.metric = metrics.metric

),

uniform_cells as (

    select
        uniform.mode_id,
        modes.decimals,
        'uniform' as column_id,
        'uniform' as column_kind,
        cast(null as varchar) as run_id,
        uniform.value,
        uniform.value as value_scored,
        case when uniform.value is null then 'n.e.' else 'complete' end as status,
        cast(0 as bigint) as n_planned,
        cast(0 as bigint) as n_scored,
        cast(0 as bigint) as n_unparsed,
        cast(0 as bigint) as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        uniform.reason,
        uniform.scorer_sha
    from {{ ref('int_uniform') }} as uniform
    inner join modes on uniform.mode_id = modes.mode_id

),

cells as (

    select * from uniform_cells
    union all by name
    select * from run_cells

),

table_3 as (

    select
        mode_id,
        column_id,
        column_kind,
        value,
        status,
        coalesce({{ printed('value', 'decimals') }}, status) as printed,
        n_planned,
        n_scored,
        n_unparsed,
        n_error,
        n_too_long,
        n_missing_option,
        run_id,
        scorer_sha,
        value_scored,
        coalesce(
            {{ printed('value', 'decimals') }}, {{ printed('value_scored', 'decimals') }} || 's', status
        ) as printed_partial,
        reason
    from cells

)

select * from table_3
