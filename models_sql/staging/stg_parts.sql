with

files as (

    select file from glob('{{ lake() }}/raw/*/run=*/part-*.parquet')

),

runs as (

    select * from {{ ref('stg_runs') }}

),

found as (

    select
        regexp_extract(file, '([^/]+)/run=[^/]+/part-[^/]+$', 1) as raw_table,
        regexp_extract(file, 'run=([^/]+)/part-[^/]+$', 1) as run_id,
        regexp_extract(file, 'part-([0-9a-f]{64})[.]parquet$', 1) as sha256,
        {{ part_id('file') }} as part_id
    from files

),

committed as (

    -- a run says which parts are its own, so that one left by an interrupted writer never counts beside them
    select
        found.raw_table,
        found.run_id,
        found.part_id,
        planned.mode_id
    from found
    inner join runs
        on
            found.run_id = runs.run_id
            and (runs.parts is null or list_contains(runs.parts, found.sha256))
    cross join unnest(runs.planned_modes) as planned (mode_id)
    where found.raw_table <> 'runs'

)

select * from committed
