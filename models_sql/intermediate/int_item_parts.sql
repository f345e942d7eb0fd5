with

modes as (

    select * from {{ ref('s1cogbench_modes') }}
    where item_source_id is not null

),

runs as (

    select * from {{ ref('stg_runs') }}

),

parts as (

    select * from {{ ref('stg_parts') }}
    where raw_table = 'items'

),

candidates as (

    select
        parts.mode_id,
        parts.part_id,
        runs.run_id,
        runs.source_id,
        runs.kind,
        runs.importer_version,
        case when runs.kind <> 'schedule' then runs.source_uri end as source_file
    from parts
    inner join runs
        on
            parts.run_id = runs.run_id
            -- and not questions that an agent put to itself, such as halves of a panel
            and runs.kind in ('items', 'schedule')
    inner join modes
        on
            parts.mode_id = modes.mode_id
            and runs.source_id = modes.item_source_id

),

newest as (

    -- a schedule has versions, and so has the reading of a file: the newest of each counts
    select *
    from candidates
    qualify
        importer_version is not distinct from max(importer_version) over (partition by mode_id, source_file)

)

select * from newest
