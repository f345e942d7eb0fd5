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

references_of_modes as (

    select * from {{ ref('s1cogbench_references') }}

),

runs as (

    -- who acts is a column; nobody does in schedules, imported questions and published scores, nor does one
    -- who was asked another benchmark alone. The uniform agent checks its column, and a reference fills its
    -- own. A model that was asked here has one for each revision and protocol; the revision that a server has
    -- loaded may be unknown, and is empty then
    select
        *,
        case when agent_kind = 'human' then 'human' else 'model' end as column_kind,
        case
            when kind = 'model'
                then
                    model_id
                    || coalesce(
                        '@' || left(regexp_replace(nullif(model_revision, ''), '^sha256:', ''), 8), ''
                    )
                    || coalesce(' (' || protocol || ')', '')
            else model_id
        end as own_name,
        -- a model may be called as one of the two columns that are no model's
        own_name || case when own_name in ('uniform', 'reference') then ' (model)' else '' end as column_id
    from {{ ref('stg_runs') }}
    where
        kind in ('archived', 'human', 'model')
        and list_has_any(planned_modes, (select list(modes.mode_id) from modes))

),

mode_runs as (

    -- one run fills a cell: of several, one that repeats no other, since a repeat is there to be compared;
    -- then the last started, then the newest importer; the others stay in metrics
    select
        runs.*,
        planned.mode_id
    from runs, unnest(runs.planned_modes) as planned (mode_id)
    qualify
        row_number() over (
            partition by runs.column_id, planned.mode_id
            order by
                coalesce(runs.repeat, 0) asc,
                runs.started_at desc nulls last,
                runs.importer_version desc nulls last,
                runs.run_id asc
        ) = 1

),

reference_runs as (

    select * from {{ ref('int_policy_runs') }}
    where kind = 'reference'

),

columns as (

    select
        column_id,
        column_kind,
        min(model_id) as model_id
    from runs
    group by column_id, column_kind

),

agent_runs as (

    select
        modes.mode_id,
        columns.column_id,
        columns.column_kind,
        columns.model_id,
        mode_runs.run_id,
        coalesce(mode_runs.n_source_rows = 0, false) as is_empty_file,
        coalesce(mode_runs.kind = 'model', false) as is_growing,
        case
            when mode_runs.run_id is null then 'no run of this mode'
            when is_empty_file then array_to_string(mode_runs.notes, '; ')
            when is_growing then 'the run has no answer yet that counts'
        end as reason
    from modes
    cross join columns
    left join mode_runs
        on
            modes.mode_id = mode_runs.mode_id
            and columns.column_id = mode_runs.column_id

),

reference_agent_runs as (

    -- only the agent that the manifest names for the cell may fill it, never one that stands in for it
    select
        references_of_modes.mode_id,
        'reference' as column_id,
        'reference' as column_kind,
        references_of_modes.agent_id as model_id,
        reference_runs.run_id,
        false as is_empty_file,
        false as is_growing,
        case
            when reference_runs.run_id is not null then null
            when reference_runs.reason is not null
                then 'reference ' || references_of_modes.agent_id || ' ' || reference_runs.reason
            when references_of_modes.waits_for is null
                then
                    'reference ' || references_of_modes.agent_id || ' has not been run: '
                    || '`coglake generate --agent ' || references_of_modes.agent_id || '`'
            when references_of_modes.stand_in_agent_id is not null
                then
                    references_of_modes.waits_for || '; ' || references_of_modes.stand_in_agent_id
                    || ' runs as a stand-in only: see audit_references'
            else references_of_modes.waits_for
        end as reason
    from references_of_modes
    left join reference_runs
        on
            references_of_modes.mode_id = reference_runs.mode_id
            and references_of_modes.agent_id = reference_runs.model_id

),

cell_runs as (

    select * from agent_runs
    union all by name
    select * from reference_agent_runs

),

metrics as (

    select * from {{ ref('metrics') }}

),

run_cells as (

    select
        modes.mode_id,
        modes.decimals,
        cell_runs.column_id,
        cell_runs.column_kind,
        cell_runs.model_id,
        cell_runs.run_id,
        metrics.value,
        metrics.value_scored,
        metrics.se,
        metrics.ci_low,
        metrics.ci_high,
        coalesce(metrics.n_clusters, 0) as n_clusters,
        case
            when cell_runs.run_id is null then 'n.e.'
            when metrics.value is not null then 'complete'
            when metrics.n_scored > 0 then 'part.'
            when cell_runs.is_empty_file or (cell_runs.is_growing and metrics.run_id is null) then 'n.f.'
            else 'n.a.'
        end as status,
        coalesce(metrics.n_planned, 0) as n_planned,
        coalesce(metrics.n_scored, 0) as n_scored,
        coalesce(metrics.n_unparsed, 0) as n_unparsed,
        coalesce(metrics.n_error, 0) as n_error,
        coalesce(metrics.n_too_long, 0) as n_too_long,
        coalesce(metrics.n_missing_option, 0) as n_missing_option,
        case
            when metrics.run_id is not null then metrics.reason
            else coalesce(cell_runs.reason, 'the run holds no rows for ' || primary_metrics.metric)
        end as reason,
        metrics.scorer_sha
    from cell_runs
    inner join modes on cell_runs.mode_id = modes.mode_id
    inner join primary_metrics on cell_runs.mode_id = primary_metrics.mode_id
    left join metrics
        on
            cell_runs.run_id = metrics.run_id
            and cell_runs.mode_id = metrics.mode_id
            and primary_metrics.metric = metrics.metric

),

uniform_cells as (

    select
        uniform.mode_id,
        modes.decimals,
        'uniform' as column_id,
        'uniform' as column_kind,
        cast(null as varchar) as model_id,
        cast(null as varchar) as run_id,
        uniform.value,
        uniform.value as value_scored,
        cast(null as double) as se,
        cast(null as double) as ci_low,
        cast(null as double) as ci_high,
        cast(0 as bigint) as n_clusters,
        case when uniform.value is null then 'n.e.' else 'complete' end as status,
        cast(0 as bigint) as n_planned,
        cast(0 as bigint) as n_scored,
        cast(0 as bigint) as n_unparsed,
        cast(0 as bigint) as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        uniform.reason,
        uniform.scorer_sha
    from {{ ref('uniform') }} as uniform
    inner join primary_metrics
        on
            uniform.mode_id = primary_metrics.mode_id
            and uniform.metric = primary_metrics.metric
    inner join modes on uniform.mode_id = modes.mode_id

),

cells as (

    select * from uniform_cells
    union all by name
    select * from run_cells

),

sources_of_runs as (

    select
        run_id,
        source_id
    from {{ ref('stg_runs') }}

),

counts as (

    select * from {{ ref('int_item_counts') }}

),

partly as (

    -- of a source with several data sets some are in the lake: a mean over these is none of the mode
    select
        counts.mode_id,
        counts.source_id,
        'only a part of source ' || counts.source_id || ' is in the lake; ' || min(counts.reason) as reason
    from counts
    inner join modes
        on
            counts.mode_id = modes.mode_id
            and counts.source_id = modes.item_source_id
    group by counts.mode_id, counts.source_id, counts.revision
    having
        count(counts.reason) > 0
        and count(counts.found) filter (where counts.dataset is not null) > 0

),

withheld as (

    select
        cells.* exclude (value, status, reason),
        case when partly.mode_id is null then cells.value end as value,
        case when partly.mode_id is null or cells.value is null then cells.status else 'part.' end as status,
        coalesce(partly.reason, cells.reason) as reason
    from cells
    left join sources_of_runs on cells.run_id = sources_of_runs.run_id
    left join partly
        on
            cells.mode_id = partly.mode_id
            and (cells.column_kind = 'uniform' or sources_of_runs.source_id = partly.source_id)

),

printed_cells as (

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
        se,
        ci_low,
        ci_high,
        n_clusters,
        coalesce(
            {{ printed('value', 'decimals') }}, {{ printed('value_scored', 'decimals') }} || 's', status
        ) as printed_partial,
        reason,
        model_id
    from withheld

)

select * from printed_cells
