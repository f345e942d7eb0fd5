with

components as (

    select * from {{ ref('cognirank_components') }}

),

datasets as (

    select
        datasets.dataset_id,
        datasets.source_id,
        components.stratum_fact,
        components.cluster_fact,
        -- a stand-in has no file of others
        case when not datasets.is_stand_in then components.source_sha256 end as source_sha256
    from {{ ref('cognirank_datasets') }} as datasets
    inner join components on datasets.component_id = components.component_id

),

items as (

    select
        *,
        case when json_valid(facts_json) then facts_json end as facts
    from {{ ref('stg_items') }}
    where
        mode_id in (select datasets.dataset_id from datasets)
        and is_asked

),

parts as (

    select distinct
        part_id,
        run_id
    from {{ ref('stg_parts') }}
    where raw_table = 'items'

),

runs as (

    select * from {{ ref('stg_runs') }}

),

questions as (

    select
        datasets.dataset_id,
        items.item_id,
        items.part_id,
        parts.run_id as item_run_id,
        items.weight,
        case
            when datasets.stratum_fact is null then ''
            else items.facts ->> ('$."' || datasets.stratum_fact || '"')
        end as stratum,
        case
            when datasets.cluster_fact is null then items.item_id
            else items.facts ->> ('$."' || datasets.cluster_fact || '"')
        end as cluster_id,
        case
            when items.source_id <> datasets.source_id then 'of source ' || items.source_id
            when (runs.source_id is distinct from datasets.source_id)
                then 'of source ' || coalesce(runs.source_id, 'unknown')
            when
                datasets.source_sha256 is not null
                and (runs.source_sha256 is distinct from datasets.source_sha256)
                then
                    'of a file with sha256 ' || coalesce(left(runs.source_sha256, 12), 'unknown') || ', not '
                    || left(datasets.source_sha256, 12)
        end as foreign_because
    from items
    inner join datasets on items.mode_id = datasets.dataset_id
    inner join parts on items.part_id = parts.part_id
    inner join runs on parts.run_id = runs.run_id

)

select * from questions
