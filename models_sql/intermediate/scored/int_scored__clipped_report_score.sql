{% call scored_rule('clipped_report_score', 'outputs') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    clips as (

        select distinct
            mode_id,
            clip_low,
            clip_high
        from {{ ref('s1cogbench_metrics') }}
        where rule = 'clipped_report_score'

    ),

    scores as (

        -- a number outside the support is moved to its edge, as the publisher of the urn scores does, whatever
        -- its status; what is infinite or no number has no edge
        select
            answers.run_id,
            answers.mode_id,
            answers.episode_id,
            answers.item_id,
            cast(null as integer) as step_index,
            'clipped_report_score' as rule,
            cast(null as varchar) as readout,
            case
                when isfinite(answers.response_number) then
                    1 - abs(
                        answers.target
                        - greatest(clips.clip_low, least(clips.clip_high, answers.response_number))
                    )
            end as value,
            answers.weight,
            answers.target,
            answers.report_spacing,
            answers.report_reason,
            answers.status as answer_status,
            answers.status_reason as answer_reason,
            answers.part_id
        from answers
        inner join clips on answers.mode_id = clips.mode_id

    ),

    judged as (

        select
            scores.* exclude (
                target, report_spacing, report_reason, answer_status, answer_reason, part_id
            ),
            case
                when scores.target is null then 'error'
                when scores.value is not null then 'ok'
                when scores.answer_status <> 'ok' then scores.answer_status
                else 'unparsed'
            end as status,
            case
                when scores.target is null then 'the target is not known'
                when scores.value is not null then null
                when scores.answer_status <> 'ok' then scores.answer_reason
                when scores.report_spacing is not null then 'the report is spread over a range'
                else coalesce(scores.report_reason, 'no finite report')
            end as status_reason,
            scores.part_id
        from scores

    )

    select * from judged

{% endcall %}
