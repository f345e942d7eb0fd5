{{ config(materialized='view') }}

with

items as (

    select * from {{ ref('int_scored') }}

),

episodes as (

    select * from {{ ref('int_learning_scored') }}

),

replaced as (

    -- made and filled by the hooks of the rules
    select * from {{ this.schema }}.replaced_scores

),

modes as (

    select
        mode_id,
        's1cogbench' as benchmark
    from {{ ref('s1cogbench_modes') }}
    union all
    select
        dataset_id as mode_id,
        'cognirank' as benchmark
    from {{ ref('cognirank_datasets') }}
    union all
    select
        task_id as mode_id,
        'learning' as benchmark
    from {{ ref('learning_tasks') }}

),

verdicts as (

    -- an episode of Learning has one verdict, which counts as any other
    select
        run_id,
        mode_id,
        episode_id,
        item_id,
        step_index,
        rule,
        readout,
        value,
        weight,
        status,
        status_reason,
        part_id,
        scorer_sha,
        true as is_current,
        cast(null as varchar) as replaced_by,
        cast(null as timestamp with time zone) as replaced_at
    from items
    union all
    select
        run_id,
        mode_id,
        episode_id,
        cast(null as varchar) as item_id,
        cast(null as integer) as step_index,
        rule,
        cast(null as varchar) as readout,
        value,
        cast(1 as double) as weight,
        status,
        status_reason,
        cast(null as varchar) as part_id,
        scorer_sha,
        true as is_current,
        cast(null as varchar) as replaced_by,
        cast(null as timestamp with time zone) as replaced_at
    from episodes
    union all
    select
        run_id,
        mode_id,
        episode_id,
        item_id,
        step_index,
        rule,
        readout,
        value,
        weight,
        status,
        status_reason,
        part_id,
        scorer_sha,
        false as is_current,
        replaced_by,
        replaced_at
    from replaced

),

versions as (

    select
        modes.benchmark,
        verdicts.*
    from verdicts
    left join modes on verdicts.mode_id = modes.mode_id

)

select * from versions
