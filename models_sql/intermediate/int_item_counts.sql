with

expected as (

    select * from {{ ref('item_counts') }}

),

runs as (

    -- of each file its newest reading; a run of people who played holds no items
    select
        run_id,
        source_id,
        model_id as dataset,
        planned_modes,
        n_source_rows,
        regexp_extract(source_uri, '@([^/@]+)/', 1) as revision
    from {{ ref('stg_runs') }}
    where kind in ('items', 'human')
    qualify importer_version is not distinct from max(importer_version) over (partition by source_uri)

),

run_modes as (

    select
        runs.* exclude (planned_modes),
        planned.mode_id
    from runs, unnest(runs.planned_modes) as planned (mode_id)

),

run_parts as (

    select
        run_modes.*,
        parts.part_id
    from run_modes
    inner join {{ ref('stg_parts') }} as parts
        on
            run_modes.run_id = parts.run_id
            and run_modes.mode_id = parts.mode_id
    where parts.raw_table in ('items', 'human_responses')

),

questions as (

    select
        part_id,
        mode_id,
        split,
        count(*) as n_items
    from {{ ref('stg_items') }}
    group by part_id, mode_id, split

),

answers as (

    select
        part_id,
        mode_id,
        split,
        participant_id,
        count(*) as n_responses,
        sum({{ to_fixed('weight') }}) as weight_fixed
    from {{ ref('stg_human_responses') }}
    group by part_id, mode_id, split, participant_id

),

players as (

    select distinct
        run_id,
        mode_id,
        episode_id
    from {{ ref('int_episode_sums') }}

),

counts as (

    select
        run_modes.*,
        'source_rows' as measure,
        {{ to_fixed('n_source_rows') }} as n_fixed
    from run_modes
    union all by name
    select
        run_parts.*,
        'items' as measure,
        questions.split,
        {{ to_fixed('questions.n_items') }} as n_fixed
    from run_parts
    inner join questions
        on
            run_parts.part_id = questions.part_id
            and run_parts.mode_id = questions.mode_id
    union all by name
    select
        run_parts.*,
        answered.measure,
        answers.split,
        answers.participant_id,
        case answered.measure
            when 'weighted_responses' then answers.weight_fixed
            else {{ to_fixed('answers.n_responses') }}
        end as n_fixed
    from run_parts
    inner join answers
        on
            run_parts.part_id = answers.part_id
            and run_parts.mode_id = answers.mode_id
    cross join (values ('responses'), ('weighted_responses'), ('participants')) as answered (measure)
    union all by name
    select
        run_modes.*,
        'participants' as measure,
        players.episode_id as participant_id
    from run_modes
    inner join players
        on
            run_modes.run_id = players.run_id
            and run_modes.mode_id = players.mode_id

),

found as (

    select
        expected.source_id,
        expected.revision,
        expected.dataset,
        expected.mode_id,
        expected.measure,
        expected.split,
        expected.expected,
        case expected.measure
            when 'participants' then count(distinct counts.participant_id)
            else {{ from_fixed('coalesce(sum(counts.n_fixed), 0)') }}
        end as found
    from expected
    left join counts
        on
            expected.source_id = counts.source_id
            and expected.revision = counts.revision
            and expected.mode_id = counts.mode_id
            and expected.measure = counts.measure
            and (expected.dataset is null or expected.dataset = counts.dataset)
            and (expected.split is null or expected.split = counts.split)
    group by
        expected.source_id,
        expected.revision,
        expected.dataset,
        expected.mode_id,
        expected.measure,
        expected.split,
        expected.expected

),

absent as (

    -- data sets with a count of their own that the lake lacks
    select
        expected.source_id,
        expected.revision,
        expected.mode_id,
        list(distinct expected.dataset) as datasets
    from expected
    left join run_modes
        on
            expected.source_id = run_modes.source_id
            and expected.revision = run_modes.revision
            and expected.mode_id = run_modes.mode_id
            and expected.dataset = run_modes.dataset
    where
        expected.dataset is not null
        and run_modes.run_id is null
    group by expected.source_id, expected.revision, expected.mode_id

),

judged as (

    select
        found.source_id,
        found.revision,
        found.dataset,
        found.mode_id,
        found.measure,
        found.split,
        found.expected,
        case
            when absent.datasets is null then true
            when found.dataset is null then false
            else not list_contains(absent.datasets, found.dataset)
        end as is_imported,
        found.found,
        absent.datasets
    from found
    left join absent
        on
            found.source_id = absent.source_id
            and found.revision = absent.revision
            and found.mode_id = absent.mode_id

),

counted as (

    select
        source_id,
        revision,
        dataset,
        mode_id,
        measure,
        split,
        expected,
        case when is_imported then found end as found,
        case when is_imported then found = expected end as agrees,
        case
            when not is_imported
                then 'not imported: ' || list_aggregate(list_sort(datasets), 'string_agg', ', ')
        end as reason
    from judged

)

select * from counted
