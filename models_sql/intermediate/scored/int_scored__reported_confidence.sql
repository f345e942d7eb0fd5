{% call scored_rule('reported_confidence', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('reported_confidence') }}
    ),

    reports as (

        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'reported_confidence' as rule,
            cast(null as varchar) as readout,
            confidence as value,
            cast(1 as double) as weight,
            case when confidence is null then 'unparsed' else 'ok' end as status,
            case when confidence is null then coalesce(status_reason, 'no confidence') end as status_reason,
            part_id
        from steps
        where mode_id in (select modes.mode_id from modes)

    )

    select * from reports

{% endcall %}
