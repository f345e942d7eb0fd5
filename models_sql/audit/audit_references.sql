with

references_of_modes as (

    select * from {{ ref('s1cogbench_references') }}

),

primary_metrics as (

    select
        mode_id,
        metric,
        unit
    from {{ ref('s1cogbench_metrics') }}
    where is_primary

),

runs as (

    select * from {{ ref('int_policy_runs') }}
    where kind = 'reference'

),

metrics as (

    select * from {{ ref('metrics') }}

),

agents as (

    select
        mode_id,
        agent_id
    from references_of_modes
    where agent_id is not null
    union
    select
        mode_id,
        stand_in_agent_id as agent_id
    from references_of_modes
    where stand_in_agent_id is not null
    union
    -- whoever else ran as a reference of the mode
    select
        mode_id,
        model_id as agent_id
    from runs

),

cells as (

    select
        references_of_modes.*,
        cast(references_of_modes.n as bigint) as n_published,
        agents.agent_id as acting_agent_id,
        coalesce(agents.agent_id = references_of_modes.agent_id, false) as fills_cell,
        coalesce(agents.agent_id = references_of_modes.stand_in_agent_id, false) as is_stand_in,
        coalesce(
            references_of_modes.value_unrounded, try_cast(references_of_modes.reference_printed as double)
        ) as published
    from references_of_modes
    left join agents on references_of_modes.mode_id = agents.mode_id

),

computed as (

    select
        cells.*,
        primary_metrics.metric,
        primary_metrics.unit,
        runs.run_id,
        runs.reason as run_reason,
        metrics.value,
        metrics.se,
        metrics.n_scored,
        metrics.value - cells.published as difference,
        {{ printed('metrics.value', 'cells.decimals') }} as printed_here,
        metrics.reason as missing_reason
    from cells
    inner join primary_metrics on cells.mode_id = primary_metrics.mode_id
    left join runs
        on
            cells.mode_id = runs.mode_id
            and cells.acting_agent_id = runs.model_id
    left join metrics
        on
            runs.run_id = metrics.run_id
            and cells.mode_id = metrics.mode_id
            and primary_metrics.metric = metrics.metric

),

explained as (

    select
        *,
        case
            when acting_agent_id is null then waits_for
            when run_id is null and run_reason is null and fills_cell and waits_for is not null
                then acting_agent_id || ' waits: ' || waits_for
            when run_id is null
                then
                    acting_agent_id || ' '
                    || coalesce(
                        run_reason, 'has not been run: `coglake generate --agent ' || acting_agent_id || '`'
                    )
            when value is null then coalesce(missing_reason, 'the run holds no rows for ' || metric)
        end as no_value_reason
    from computed

),

audit as (

    select
        mode_id,
        acting_agent_id as agent_id,
        family,
        kind,
        target,
        exposure,
        aggregation,
        metric,
        unit,
        reference_printed as printed,
        value_unrounded as value_published,
        run_id,
        value,
        se,
        n_scored as n,
        n_published,
        difference,
        difference / nullif(se, 0) as difference_in_se,
        case when fills_cell and value is not null then printed_here = reference_printed end as agrees,
        fills_cell,
        case
            -- the note is on the cell: it says nothing of an agent that has no part in it
            when acting_agent_id is not null and not fills_cell and not is_stand_in
                then concat_ws('; ', 'the manifest does not name the agent for the cell', no_value_reason)
            when run_id is null then no_value_reason || '. ' || note
            when value is null then no_value_reason
            when is_stand_in then 'stand-in, which never fills the cell. ' || note
            when not coalesce(printed_here = reference_printed, false) then note
        end as reason
    from explained

)

select * from audit
