{% call scored_rule('report_error', 'outputs') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('report_error') }}
    ),

    distances as (

        -- a report is a number, given or written, or is spread evenly over a range and then has the mean distance
        -- of what it covers
        select
            *,
            case
                when
                    report_spacing is null
                    and isfinite(response_number)
                    and response_number >= coalesce(support_low, response_number)
                    and response_number <= coalesce(support_high, response_number)
                    then abs(response_number - target)
                when report_spacing is not null
                    then {{ spread_error('target', 'report_low', 'report_high', 'report_spacing') }}
            end as distance
        from answers
        where mode_id in (select modes.mode_id from modes)

    ),

    errors as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'report_error' as rule,
            cast(null as varchar) as readout,
            case when status = 'ok' then distance end as value,
            weight,
            case
                when status = 'ok' and target is null then 'error'
                when status = 'ok' and distance is null then 'unparsed'
                else status
            end as status,
            case
                when status = 'ok' and target is null then 'the target is not known'
                when status = 'ok' and distance is null
                    then
                        coalesce(
                            report_reason,
                            'no finite report' || coalesce(' from ' || support_low || ' to ' || support_high, '')
                        )
                else status_reason
            end as status_reason,
            part_id
        from distances

    )

    select * from errors

{% endcall %}
