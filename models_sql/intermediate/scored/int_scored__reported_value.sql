{% call scored_rule('reported_value', 'outputs') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('reported_value') }}
    ),

    reports as (

        -- the source holds finished readouts, one item each, and not the answers behind them
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'reported_value' as rule,
            template_id as readout,
            case when status = 'ok' then response_number end as value,
            weight,
            case when status = 'ok' and response_number is null then 'unparsed' else status end as status,
            case
                when status = 'ok' and response_number is null then coalesce(report_reason, 'no finite report')
                else status_reason
            end as status_reason,
            part_id
        from answers
        where
            is_known
            and mode_id in (select modes.mode_id from modes)

    )

    select * from reports

{% endcall %}
