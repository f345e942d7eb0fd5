with

runs as (

    select * exclude (filename) from {{ source('raw', 'runs') }}

),

batches as (

    select * from {{ ref('stg_batches') }}

),

spans as (

    select
        run_id,
        min(started_at) as started_at,
        max(finished_at) as finished_at
    from batches
    group by run_id

),

timed as (

    -- a run that grows says what it is and not when it was: workers who do parts of it write the same row
    select
        runs.* replace (
            coalesce(runs.started_at, spans.started_at) as started_at,
            coalesce(runs.finished_at, spans.finished_at) as finished_at
        )
    from runs
    left join spans on runs.run_id = spans.run_id

)

select * from timed
