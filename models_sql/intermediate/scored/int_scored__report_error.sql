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

    errors as (

        select
            outputs.run_id,
            outputs.mode_id,
            outputs.episode_id,
            outputs.item_id,
            cast(null as integer) as step_index,
            'report_error' as rule,
            cast(null as varchar) as readout,
            case when outputs.status = 'ok' then abs(outputs.response_number - items.target) end as value,
            case when outputs.status = 'ok' and items.target is null then 'error' else outputs.status end as status,
            case
                when outputs.status = 'ok' and items.target is null then 'the target is not known'
                else outputs.status_reason
            end as status_reason,
            outputs.part_id
        from outputs
        left join items on outputs.item_id = items.item_id
        where outputs.mode_id in (select modes.mode_id from modes)

    )

    select * from errors

{% endcall %}
