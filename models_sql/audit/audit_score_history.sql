{{ config(materialized='incremental', incremental_strategy='append', on_schema_change='append_new_columns') }}

with

metrics as (

    select * from {{ ref('metrics') }}

),

components as (

    select * from {{ ref('cognirank_scores') }}

),

tasks as (

    select * from {{ ref('int_learning_scores') }}

),

declared as (

    select * from {{ ref('s1cogbench_metrics') }}

),

component_metrics as (

    select * from {{ ref('cognirank_metrics') }}

),

task_rules as (

    select * from {{ rules_of('learning') }}

),

sums as (

    select * from {{ ref('int_episode_sums') }}

),

parts as (

    select distinct
        raw_table,
        run_id,
        mode_id,
        part_id
    from {{ ref('stg_parts') }}

),

build as (

    -- a build of a part may leave marts of another state beside its own: only a full one makes history
    select * from {{ this.schema }}.build_log
    where
        invocation_id = '{{ invocation_id }}'
        and is_full

),

rule_versions as (

    select
        run_id,
        mode_id,
        rule,
        min(scorer_sha) as rule_sha
    from sums
    group by run_id, mode_id, rule

),

run_parts as (

    select
        run_id,
        mode_id,
        string_agg(distinct part_id, ' ' order by part_id) as part_ids
    from parts
    group by run_id, mode_id

),

item_parts as (

    -- questions and what people did with them, whoever brought them
    select
        mode_id,
        string_agg(distinct part_id, ' ' order by part_id) as part_ids
    from parts
    where raw_table in ('items', 'human_responses')
    group by mode_id

),

scores as (

    select
        's1cogbench' as benchmark,
        metrics.run_id,
        metrics.model_id,
        metrics.mode_id,
        metrics.metric,
        metrics.value,
        metrics.value_scored,
        metrics.n_planned,
        metrics.n_scored,
        metrics.n_unparsed,
        metrics.n_error,
        metrics.n_too_long,
        metrics.n_missing_option,
        declared.rule,
        metrics.scorer_sha
    from metrics
    inner join declared
        on
            metrics.mode_id = declared.mode_id
            and metrics.metric = declared.metric
    union all by name
    select
        'cognirank' as benchmark,
        components.run_id,
        components.model_id,
        components.dataset_id as mode_id,
        components.metric,
        components.value,
        components.value_scored,
        components.n_planned,
        components.n_scored,
        components.n_unparsed,
        components.n_error,
        components.n_too_long,
        components.n_missing_option,
        component_metrics.rule,
        components.scorer_sha
    from components
    inner join component_metrics
        on
            components.component_id = component_metrics.component_id
            and components.metric = component_metrics.metric
    union all by name
    select
        'learning' as benchmark,
        tasks.run_id,
        tasks.model_id,
        tasks.task_id as mode_id,
        'score' as metric,
        tasks.value,
        tasks.value_scored,
        tasks.n_planned,
        tasks.n_scored,
        tasks.n_unparsed,
        tasks.n_error,
        tasks.n_too_long,
        tasks.n_missing_option,
        task_rules.rule,
        -- the mean over instances is no rule of its own
        tasks.scorer_sha as rule_sha,
        tasks.scorer_sha
    from tasks
    inner join task_rules on tasks.task_id = task_rules.mode_id

),

history as (

    select
        build.invocation_id,
        build.started_at as built_at,
        build.git_sha,
        build.project_sha256,
        build.manifest_sha256,
        build.raw_sha256,
        sha256(
            coalesce(run_parts.part_ids, '') || '|' || coalesce(item_parts.part_ids, '')
        ) as raw_parts_sha256,
        scores.benchmark,
        scores.run_id,
        scores.model_id,
        scores.mode_id,
        scores.metric,
        scores.value,
        scores.value_scored,
        scores.n_planned,
        scores.n_scored,
        scores.n_unparsed,
        scores.n_error,
        scores.n_too_long,
        scores.n_missing_option,
        scores.rule,
        coalesce(scores.rule_sha, rule_versions.rule_sha) as rule_sha,
        scores.scorer_sha
    from scores
    cross join build
    left join rule_versions
        on
            scores.run_id = rule_versions.run_id
            and scores.mode_id = rule_versions.mode_id
            and scores.rule = rule_versions.rule
    left join run_parts
        on
            scores.run_id = run_parts.run_id
            and scores.mode_id = run_parts.mode_id
    left join item_parts on scores.mode_id = item_parts.mode_id

)

select * from history
