with

files as (

    select file from glob('{{ lake() }}/raw/*/run=*/part-*.parquet')

),

runs as (

    select * from {{ ref('stg_runs') }}

),

parts as (

    select
        regexp_extract(file, '([^/]+)/run=[^/]+/part-[^/]+$', 1) as raw_table,
        regexp_extract(file, 'run=([^/]+)/part-[^/]+$', 1) as run_id,
        {{ part_id('file') }} as part_id
    from files

),

part_modes as (

    -- parts of a run without a runs row are not committed and do not count
    select
        parts.raw_table,
        parts.run_id,
        parts.part_id,
        planned.mode_id
    from parts
    inner join runs on parts.run_id = runs.run_id
    cross join unnest(runs.planned_modes) as planned (mode_id)
    where runs.kind <> 'published'

)

select * from part_modes
