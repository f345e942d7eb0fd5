{% call scored_rule('verdict', 'verdicts', benchmark='cognirank') %}

    with

    verdicts as (

        select * from {{ ref('stg_verdicts') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    datasets as (

        select * from {{ ref('cognirank_datasets') }}

    ),

    metrics as (

        select * from {{ ref('cognirank_metrics') }}
        where rule = 'verdict'

    ),

    declared as (

        select distinct
            datasets.dataset_id as mode_id,
            metrics.grader_id,
            metrics.grader_version,
            metrics.readout
        from metrics
        inner join datasets on metrics.component_id = datasets.component_id

    ),

    graded as (

        -- verdicts of another grader or version are kept and count for nothing
        select
            verdicts.*,
            items.item_id is not null as is_known,
            coalesce(items.weight, 1) as weight
        from verdicts
        inner join declared
            on
                verdicts.mode_id = declared.mode_id
                and verdicts.grader_id = declared.grader_id
                and verdicts.grader_version = declared.grader_version
                and verdicts.answer_rule = declared.readout
        left join items
            on
                verdicts.mode_id = items.mode_id
                and verdicts.item_id = items.item_id
        where items.is_asked is distinct from false

    ),

    judged as (

        -- a grader that did not come to an end says nothing of the answer, so nothing is scored: what became of it
        -- comes first in the reason
        select
            *,
            case
                when status in ('unparsed', 'too_long', 'missing_option') then coalesce(status_reason, status)
                when status <> 'ok' and starts_with(status_reason, status) then status_reason
                when status <> 'ok' then status || coalesce(': ' || status_reason, '')
                when not is_known then 'the item is not known'
                when verdict is null then 'error: there is no verdict'
                when not isfinite(verdict) then 'not_finite: the verdict is ' || verdict
                when verdict < 0 or verdict > 1 then 'error: the verdict is ' || verdict || ', not 0 to 1'
            end as fault
        from graded

    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'verdict' as rule,
            answer_rule as readout,
            case when fault is null then verdict end as value,
            weight,
            case
                when fault is null then 'ok'
                when status in ('unparsed', 'too_long', 'missing_option') then status
                else 'error'
            end as status,
            fault as status_reason,
            part_id
        from judged

    )

    select * from scores

{% endcall %}
