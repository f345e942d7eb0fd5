with

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

primary_metrics as (

    select
        mode_id,
        metric,
        rule,
        readout
    from {{ ref('s1cogbench_metrics') }}
    where is_primary

),

runs as (

    select
        runs.*,
        planned.mode_id
    from {{ ref('stg_runs') }} as runs, unnest(runs.planned_modes) as planned (mode_id)
    where runs.kind in ('archived', 'model', 'reference', 'uniform')

),

asked as (

    -- rows that the questions of a mode make, whoever answers them
    select
        items.mode_id,
        cast(sum(items.n_planned) as bigint) as n_planned
    from {{ ref('int_uniform_items') }} as items
    inner join primary_metrics
        on
            items.mode_id = primary_metrics.mode_id
            and items.metric = primary_metrics.metric
    where not items.is_played
    group by items.mode_id

),

schedules as (

    -- an item weighs as many choices as it stands for: trials, balloons, trees, visits or free choices. Each
    -- makes one row of the primary target. Of every version, since a run is as long as its own
    select
        items.mode_id,
        runs.source_id,
        runs.importer_version,
        cast(sum(items.weight) as bigint) as n_planned
    from {{ ref('stg_items') }} as items
    inner join {{ ref('stg_parts') }} as parts
        on
            items.part_id = parts.part_id
            and items.mode_id = parts.mode_id
    inner join {{ ref('stg_runs') }} as runs on parts.run_id = runs.run_id
    inner join modes on items.mode_id = modes.mode_id
    where
        runs.kind = 'schedule'
        and modes.is_played
    group by items.mode_id, runs.source_id, runs.importer_version

),

planned as (

    -- whoever was asked the questions of a mode's own source was to be asked them all, also in an imported
    -- log, and a model that plays its schedule set out to play all of it; agents are committed once they have
    select
        runs.run_id,
        runs.mode_id,
        modes.is_adaptive,
        asked.n_planned
    from runs
    inner join modes
        on
            runs.mode_id = modes.mode_id
            and runs.source_id = modes.item_source_id
    inner join asked on runs.mode_id = asked.mode_id
    union all
    select
        runs.run_id,
        runs.mode_id,
        modes.is_adaptive,
        schedules.n_planned
    from runs
    inner join modes
        on
            runs.mode_id = modes.mode_id
            and runs.source_id = modes.item_source_id
    inner join schedules
        on
            runs.mode_id = schedules.mode_id
            and runs.source_id = schedules.source_id
            and runs.importer_version = schedules.importer_version
    where runs.kind = 'model'

),

found as (

    select
        sums.run_id,
        sums.mode_id,
        cast(sum(sums.n_rows) as bigint) as n_found
    from {{ ref('int_episode_sums') }} as sums
    inner join primary_metrics
        on
            sums.mode_id = primary_metrics.mode_id
            and sums.rule = primary_metrics.rule
            and (
                primary_metrics.readout is null
                or sums.readout is null
                or sums.readout = primary_metrics.readout
            )
    group by sums.run_id, sums.mode_id

),

adaptive as (

    -- where answers decide what is asked next, items are what can be asked, and a run says how often it plays
    select
        planned.run_id,
        planned.mode_id,
        try_cast((runs.identity_json ->> '$.n_episodes') as bigint) as n_episodes
    from planned
    inner join runs
        on
            planned.run_id = runs.run_id
            and planned.mode_id = runs.mode_id
    where planned.is_adaptive

),

ended as (

    select
        run_id,
        mode_id,
        count(distinct episode_id) filter (where is_last) as n_over,
        bool_or(is_last is null) as is_silent
    from {{ ref('stg_steps') }}
    where
        run_id in (select adaptive.run_id from adaptive)
        and mode_id in (select adaptive.mode_id from adaptive)
    group by run_id, mode_id

),

played_on as (

    -- null where the run does not say how many episodes it has, or its steps do not say which is the last
    select
        adaptive.run_id,
        adaptive.mode_id,
        adaptive.n_episodes,
        case
            when adaptive.n_episodes is not null and not coalesce(ended.is_silent, false)
                then greatest(adaptive.n_episodes - coalesce(ended.n_over, 0), 0)
        end as n_not_over
    from adaptive
    left join ended
        on
            adaptive.run_id = ended.run_id
            and adaptive.mode_id = ended.mode_id

),

compared as (

    select
        planned.run_id,
        planned.mode_id,
        planned.is_adaptive,
        case when not planned.is_adaptive then planned.n_planned end as n_planned,
        coalesce(found.n_found, 0) as n_found,
        played_on.n_episodes,
        played_on.n_not_over
    from planned
    left join found
        on
            planned.run_id = found.run_id
            and planned.mode_id = found.mode_id
    left join played_on
        on
            planned.run_id = played_on.run_id
            and planned.mode_id = played_on.mode_id

),

unanswered as (

    -- an episode that is not over lacks one row at least, and so does a run that may have such an episode
    select
        run_id,
        mode_id,
        n_planned,
        n_found,
        case
            when is_adaptive then coalesce(n_not_over, 1)
            else greatest(n_planned - n_found, 0)
        end as n_absent,
        case
            when is_adaptive and n_not_over is null
                then 'answers decide what is asked next, and nothing says whether all was asked'
            when n_not_over > 0 then n_not_over || ' of ' || n_episodes || ' episodes are not over'
        end as note
    from compared

)

select * from unanswered
