{% call scored_rule('report_error', 'outputs') %}

    with

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    modes as (
        {{ modes_scored_by('report_error') }}
    ),

    distances as (

        -- a report is a number, or is spread evenly over a range and then has the mean distance of what it covers
        select
            outputs.*,
            items.target,
            coalesce(items.weight, 1) as weight,
            case
                when outputs.report_spacing is null then abs(outputs.response_number - items.target)
                else
                    {{ spread_error(
                        'items.target', 'outputs.report_low', 'outputs.report_high', 'outputs.report_spacing'
                    ) }}
            end as distance
        from outputs
        left join items on outputs.item_id = items.item_id
        where outputs.mode_id in (select modes.mode_id from modes)

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
                when status = 'ok' and distance is null then 'no finite report'
                else status_reason
            end as status_reason,
            part_id
        from distances

    )

    select * from errors

{% endcall %}
