with

runs as (

    select * from {{ ref('stg_runs') }}
    where kind in ('reference', 'uniform')

),

parts as (

    select * from {{ ref('stg_parts') }}

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

schedules as (

    -- its own source alone holds the items of a mode, and of that the newest version
    select distinct
        mode_id,
        importer_version
    from {{ ref('int_item_parts') }}
    where kind = 'schedule'

),

acted as (

    -- whoever plays leaves steps, whoever predicts or answers leaves outputs: rows of the other kind are of
    -- something else, such as the likelihood of what humans did in a mode that is played. On another source
    -- than the mode's the same agent meets other items
    select distinct
        runs.run_id,
        parts.mode_id,
        starts_with(modes.source_status, 'environment') as is_environment
    from runs
    inner join parts on runs.run_id = parts.run_id
    inner join modes
        on
            parts.mode_id = modes.mode_id
            and runs.source_id = modes.item_source_id
    where parts.raw_table = case when modes.is_played then 'steps' else 'outputs' end

),

candidates as (

    -- what was played on another version of a schedule has other trials than the schedule that counts
    select
        acted.mode_id,
        runs.run_id,
        runs.kind,
        runs.model_id,
        runs.started_at,
        runs.importer_version,
        schedules.importer_version as schedule_version,
        coalesce(runs.importer_version = schedules.importer_version, not acted.is_environment) as is_current
    from acted
    inner join runs on acted.run_id = runs.run_id
    left join schedules on acted.mode_id = schedules.mode_id

),

newest as (

    -- of several runs of one agent the last started stands for it
    select *
    from candidates
    qualify
        row_number() over (
            partition by mode_id, kind, model_id
            order by is_current desc, started_at desc nulls last, importer_version desc nulls last, run_id asc
        ) = 1

),

standing as (

    select
        mode_id,
        kind,
        model_id,
        case when is_current then run_id end as run_id,
        case
            when not is_current
                then
                    'has played another version of the schedule only: '
                    || coalesce('version ' || importer_version, 'one that it does not state') || ', not '
                    || coalesce('version ' || schedule_version, 'one that the lake holds')
        end as reason
    from newest

)

select * from standing
