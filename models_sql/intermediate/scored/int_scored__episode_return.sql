{% call scored_rule('episode_return', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('episode_return') }}
    ),

    rewarded as (

        -- the environment's reward stands whatever the agent wrote: an unreadable action has its own outcome
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'episode_return' as rule,
            cast(null as varchar) as readout,
            reward as value,
            cast(1 as double) as weight,
            case when reward is null then 'error' else 'ok' end as status,
            case when reward is null then coalesce(status_reason, 'no reward') end as status_reason,
            part_id
        from steps
        where
            is_rewarded
            and mode_id in (select modes.mode_id from modes)

    )

    select * from rewarded

{% endcall %}
