{% call scored_rule('action_count', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('action_count') }}
    ),

    counts as (

        -- the action is itself a count (pumps of a balloon); readouts split it by what came of it
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'action_count' as rule,
            outcome as readout,
            try_cast(action as double) as value,
            case when status = 'ok' and try_cast(action as double) is null then 'unparsed' else status end as status,
            case
                when status <> 'ok' then status_reason
                when try_cast(action as double) is null then 'the action is not a count'
            end as status_reason,
            part_id
        from steps
        where mode_id in (select modes.mode_id from modes)

    )

    select * from counts

{% endcall %}
