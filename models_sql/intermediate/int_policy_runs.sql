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

    select distinct
        mode_id,
        importer_version
    from {{ ref('int_item_parts') }}
    where kind = 'schedule'

),

acted as (

    -- whoever plays leaves steps, whoever predicts or answers leaves outputs: rows of the other kind are of
    -- something else, such as the likelihood of what humans did in a mode that is played
    select distinct
        runs.run_id,
        parts.mode_id
    from runs
    inner join parts on runs.run_id = parts.run_id
    inner join modes on parts.mode_id = modes.mode_id
    where parts.raw_table = case when modes.is_played then 'steps' else 'outputs' end

),

current_runs as (

    -- what was played on an older version of a schedule has other trials than the schedule that counts
    select
        acted.mode_id,
        runs.run_id,
        runs.kind,
        runs.model_id,
        runs.started_at,
        runs.importer_version
    from acted
    inner join runs on acted.run_id = runs.run_id
    left join schedules on acted.mode_id = schedules.mode_id
    where coalesce(runs.importer_version = schedules.importer_version, true)

),

newest as (

    -- of several runs of one agent the last started stands for it
    select *
    from current_runs
    qualify
        row_number() over (
            partition by mode_id, kind, model_id
            order by started_at desc nulls last, importer_version desc nulls last, run_id asc
        ) = 1

)

select * from newest
