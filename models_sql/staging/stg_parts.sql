with

files as (

    select file from glob('{{ lake() }}/raw/*/run=*/part-*.parquet')

),

runs as (

    select * from {{ ref('stg_runs') }}

),

batches as (

    select * from {{ ref('stg_batches') }}

),

found as (

    select
        regexp_extract(file, '([^/]+)/run=[^/]+/part-[^/]+$', 1) as raw_table,
        {{ part_run('file') }} as run_id,
        regexp_extract(file, 'part-([0-9a-f]{64})[.]parquet$', 1) as sha256,
        {{ part_id('file') }} as part_id
    from files

),

named as (

    -- a run says which parts are its own, or the batches of one that grows do, so that a part left by an
    -- interrupted writer never counts beside them
    select
        run_id,
        unnest(parts) as sha256
    from runs
    union
    select
        run_id,
        unnest(parts) as sha256
    from batches

),

counted as (

    -- a run of an older version names no parts; one that grows states its identity, and has none before its
    -- first batch
    select
        found.*,
        runs.planned_modes,
        runs.parts is null and runs.identity_sha256 is not null as is_growing
    from found
    inner join runs on found.run_id = runs.run_id
    left join named
        on
            found.run_id = named.run_id
            and found.sha256 = named.sha256
    where
        found.raw_table not in ('batches', 'runs')
        and (
            named.sha256 is not null
            or (
                runs.parts is null
                and runs.identity_sha256 is null
                and runs.run_id not in (select batches.run_id from batches)
            )
        )

),

united as (

    -- a batch holds a step or two of many episodes, and rules read whole ones: such a run is scored as one
    select
        raw_table,
        run_id,
        left(sha256(string_agg(sha256, chr(10) order by sha256)), 16) as scored_as
    from counted
    where
        is_growing
        and raw_table = 'steps'
    group by raw_table, run_id

),

committed as (

    select
        counted.raw_table,
        counted.run_id,
        counted.part_id,
        coalesce(united.scored_as, counted.part_id) as scored_as,
        planned.mode_id
    from counted
    left join united
        on
            counted.raw_table = united.raw_table
            and counted.run_id = united.run_id
    cross join unnest(counted.planned_modes) as planned (mode_id)

)

select * from committed
