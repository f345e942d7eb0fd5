{{ config(materialized='table') }}

with

tasks as (

    select * from {{ ref('learning_tasks') }}

),

items as (

    select
        *,
        case when json_valid(facts_json) then facts_json end as facts
    from {{ ref('stg_items') }}
    where mode_id in (select tasks.task_id from tasks)

),

parts as (

    select distinct
        part_id,
        run_id
    from {{ ref('stg_parts') }}
    where raw_table = 'items'

),

questions as (

    select
        parts.run_id as item_run_id,
        items.mode_id,
        items.participant_id as episode_id,
        items.item_id,
        coalesce(try_cast(items.facts ->> '$.question' as integer), 0) as question,
        coalesce(items.facts ->> '$.match_kind', tasks.match_kind) as match_kind,
        {{ bare_answer('items.credited_options[1]') }} as right_answer,
        case when len(items.legal_options) > 0 then items.legal_options end as labels
    from items
    inner join tasks on items.mode_id = tasks.task_id
    inner join parts on items.part_id = parts.part_id

),

keys as (

    select distinct
        match_kind,
        right_answer,
        labels
    from questions

),

comparisons as (

    -- what is compared with the same in the same way has one number; in the form in which its kind compares
    select
        *,
        row_number() over () as comparison,
        case
            when match_kind = 'substring' then {{ learning_small('right_answer') }}
            when match_kind = 'exact_nfc' then {{ learning_collapsed('right_answer') }}
            when match_kind = 'integer' then {{ integer_answered('right_answer') }}
        end as right_text,
        case when match_kind = 'sequence' then {{ elements('right_answer') }} end as right_elements,
        list_transform(labels, lambda label: {{ learning_small('label') }}) as small_labels
    from keys

),

numbered as (

    select
        questions.*,
        count(*) filter (where questions.question > 0) over (
            partition by questions.item_run_id, questions.mode_id, questions.episode_id
        ) as n_questions,
        comparisons.comparison,
        comparisons.right_text,
        comparisons.right_elements,
        comparisons.small_labels
    from questions
    inner join comparisons
        on
            questions.match_kind is not distinct from comparisons.match_kind
            and questions.right_answer is not distinct from comparisons.right_answer
            and questions.labels is not distinct from comparisons.labels

)

select * from numbered
