{% call scored_rule('free_reward', 'steps') %}

    with

    modes as (
        {{ modes_scored_by('free_reward') }}
    ),

    steps as (

        select * from {{ ref('stg_steps') }}
        where
            {{ is_new_part() }}
            and mode_id in (select modes.mode_id from modes)

    ),

    free_steps as (

        select
            *,
            count(*) over (partition by run_id, mode_id, episode_id) as n_free
        from steps
        where
            is_rewarded
            and not is_forced

    ),

    rewards as (

        -- how long a game is shows in how many choices it leaves; readouts are called as the items of such games
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'free_reward' as rule,
            'horizon_' || n_free as readout,
            reward as value,
            cast(1 as double) as weight,
            case when reward is null then 'error' else 'ok' end as status,
            case when reward is null then coalesce(status_reason, 'no reward') end as status_reason,
            part_id
        from free_steps

    )

    select * from rewards

{% endcall %}
