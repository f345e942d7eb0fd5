{% call scored_rule('reported_value', 'outputs') %}

    with

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    modes as (
        {{ modes_scored_by('reported_value') }}
    ),

    reports as (

        -- the source holds finished readouts, one item each, and not the answers behind them
        select
            outputs.run_id,
            outputs.mode_id,
            outputs.episode_id,
            outputs.item_id,
            cast(null as integer) as step_index,
            'reported_value' as rule,
            items.template_id as readout,
            case when outputs.status = 'ok' then outputs.response_number end as value,
            items.weight,
            outputs.status,
            outputs.status_reason,
            outputs.part_id
        from outputs
        inner join items on outputs.item_id = items.item_id
        where outputs.mode_id in (select modes.mode_id from modes)

    )

    select * from reports

{% endcall %}
