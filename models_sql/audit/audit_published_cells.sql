with

published as (

    select distinct
        source_id,
        mode_id,
        model_id,
        episode_id,
        label,
        value
    from {{ ref('stg_published') }}
    where mode_id in (select modes.mode_id from {{ ref('s1cogbench_modes') }} as modes)

),

labels as (

    select * from {{ ref('published_labels') }}

),

known_differences as (

    select * from {{ ref('known_differences') }}

),

runs as (

    -- published scores belong to the source whose raw files they came with; of a reference one run stands
    select * from {{ ref('stg_runs') }}
    where
        kind not in ('published', 'reference', 'uniform')
        or run_id in (
            select standing.run_id from {{ ref('int_policy_runs') }} as standing
            where standing.kind = 'reference'
        )

),

episode_metrics as (

    select
        runs.source_id,
        runs.model_id,
        episodes.mode_id,
        episodes.metric,
        episodes.episode_id,
        episodes.value_scored,
        case
            when episodes.n_infinite > 0 then episodes.value_scored
            else episodes.scale * {{ from_fixed('episodes.value_sum_fixed') }}
        end as value_sum,
        episodes.n_planned,
        episodes.n_scored,
        episodes.status_reason as reason
    from {{ ref('int_episode_metrics') }} as episodes
    inner join runs on episodes.run_id = runs.run_id

),

run_metrics as (

    select
        runs.source_id,
        metrics.model_id,
        metrics.mode_id,
        metrics.metric,
        metrics.value_scored,
        metrics.n_planned,
        metrics.n_scored,
        metrics.reason
    from {{ ref('metrics') }} as metrics
    inner join runs on metrics.run_id = runs.run_id

),

covered as (

    select distinct
        runs.source_id,
        runs.model_id,
        planned.mode_id
    from runs, unnest(runs.planned_modes) as planned (mode_id)

),

compared as (

    select
        published.source_id as source,
        published.mode_id,
        published.model_id as column_id,
        case when labels.level = 'episode' then published.episode_id end as episode_id,
        coalesce(labels.metric, published.label) as metric,
        published.label as published_label,
        labels.scale * published.value as published,
        case
            when labels.is_sum then episode_metrics.value_sum
            else coalesce(episode_metrics.value_scored, run_metrics.value_scored)
        end as computed,
        -- a sum is as exact as its size allows
        1e-6 * case when labels.is_sum then greatest(1, abs(labels.scale * published.value)) else 1 end
            as tolerance,
        labels.agent_id,
        coalesce(episode_metrics.n_planned, run_metrics.n_planned) as n_planned,
        coalesce(episode_metrics.n_scored, run_metrics.n_scored) as n_scored,
        covered.model_id is not null as is_covered,
        labels.metric is not null as is_computed_here,
        labels.note,
        known_differences.reason as known_reason,
        coalesce(episode_metrics.reason, run_metrics.reason) as missing_reason
    from published
    left join labels
        on
            published.mode_id = labels.mode_id
            and published.label = labels.label
    left join covered
        on
            published.source_id = covered.source_id
            and coalesce(labels.agent_id, published.model_id) = covered.model_id
            and published.mode_id = covered.mode_id
    left join episode_metrics
        on
            labels.level = 'episode'
            and published.source_id = episode_metrics.source_id
            and coalesce(labels.agent_id, published.model_id) = episode_metrics.model_id
            and published.mode_id = episode_metrics.mode_id
            and labels.metric = episode_metrics.metric
            and published.episode_id = episode_metrics.episode_id
    left join run_metrics
        on
            labels.level = 'run'
            and published.source_id = run_metrics.source_id
            and coalesce(labels.agent_id, published.model_id) = run_metrics.model_id
            and published.mode_id = run_metrics.mode_id
            and labels.metric = run_metrics.metric
    left join known_differences
        on
            published.source_id = known_differences.source_id
            and published.mode_id = known_differences.mode_id
            and published.model_id = known_differences.model_id
            and published.label = known_differences.published_label

),

archive_scores as (

    select
        source,
        mode_id,
        column_id,
        episode_id,
        metric,
        published_label,
        published,
        computed,
        computed - published as difference,
        case
            when published is null or computed is null then null
            else abs(computed - published) <= tolerance
        end as agrees,
        case
            when not is_covered and agent_id is not null
                then
                    'reference ' || agent_id || ' has not been run: `coglake generate --agent ' || agent_id
                    || '`'
            when not is_covered then 'the source holds no raw rows of this agent'
            when not is_computed_here then coalesce(note, 'no metric is declared for this label')
            when published is null and computed is null
                then 'not defined: ' || coalesce(missing_reason, 'no rows')
            when published is null then 'the published cell is empty'
            when computed is null then coalesce(missing_reason, 'no rows of this episode')
            when abs(computed - published) > tolerance
                then coalesce(known_reason, 'unexplained difference')
            when n_scored < n_planned
                then 'published over the ' || n_scored || ' scored of ' || n_planned || ' planned rows'
        end as reason
    from compared

),

references_of_modes as (

    select * from {{ ref('s1cogbench_references') }}

),

primary_metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where is_primary

),

table_3 as (

    select * from {{ ref('table_3') }}

),

table_3_excerpt as (

    select * from {{ ref('s1cogbench_published') }}

),

printed as (

    -- reference cells that the known excerpt of Table 3 lacks stand elsewhere in the document
    select
        source,
        mode_id,
        column_id,
        printed
    from table_3_excerpt
    union all
    select
        'document' as source,
        mode_id,
        'reference' as column_id,
        reference_printed as printed
    from references_of_modes
    where
        reference_printed is not null
        and mode_id not in (
            select excerpt.mode_id from table_3_excerpt as excerpt
            where excerpt.column_id = 'reference'
        )

),

printed_cells as (

    select
        printed.source,
        printed.mode_id,
        printed.column_id,
        cast(null as varchar) as episode_id,
        primary_metrics.metric,
        'Table 3' as published_label,
        try_cast(printed.printed as double) as published,
        cells.value as computed,
        cells.value - try_cast(printed.printed as double) as difference,
        case when cells.value is not null then cells.printed = printed.printed end as agrees,
        case
            when cells.column_id is null then 'no run of this model in the lake'
            when cells.value is null then concat_ws('. ', cells.reason, references_of_modes.note)
            when cells.printed <> printed.printed
                then
                    'prints ' || cells.printed || ', published ' || printed.printed
                    || coalesce('. ' || references_of_modes.note, '; ' || cells.reason, '')
        end as reason
    from printed
    inner join primary_metrics on printed.mode_id = primary_metrics.mode_id
    left join table_3 as cells
        on
            printed.mode_id = cells.mode_id
            and printed.column_id = cells.column_id
    left join references_of_modes
        on
            printed.mode_id = references_of_modes.mode_id
            and printed.column_id = 'reference'

),

printed_expectations as (

    -- of metrics that Table 3 does not show, where the document prints one
    select
        metrics.mode_id,
        metrics.metric,
        metrics.uniform_printed,
        uniform.value,
        uniform.reason,
        format(
            '{:.' || len(split_part(metrics.uniform_printed, '.', 2)) || 'f}', uniform.value
        ) as printed_here
    from {{ ref('s1cogbench_metrics') }} as metrics
    inner join {{ ref('uniform') }} as uniform
        on
            metrics.mode_id = uniform.mode_id
            and metrics.metric = uniform.metric
    where metrics.uniform_printed is not null

),

secondary_cells as (

    select
        'document' as source,
        mode_id,
        'uniform' as column_id,
        cast(null as varchar) as episode_id,
        metric,
        'Uniform' as published_label,
        try_cast(uniform_printed as double) as published,
        value as computed,
        value - try_cast(uniform_printed as double) as difference,
        printed_here = uniform_printed as agrees,
        case
            when value is null then reason
            when printed_here <> uniform_printed
                then
                    'prints ' || printed_here || ', published ' || uniform_printed
                    || coalesce('; ' || reason, '')
        end as reason
    from printed_expectations

),

audit as (

    select * from archive_scores
    union all by name
    select * from printed_cells
    union all by name
    select * from secondary_cells

)

select * from audit
