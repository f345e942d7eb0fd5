{% call scored_rule('stay', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('stay') }}
    ),

    trials as (

        -- one row per step; a first-stage step sees its second stage one row on and the next trial two rows on.
        -- What was written counts where no action could be read: twice the same word is a stay
        select
            run_id,
            mode_id,
            episode_id,
            step_index,
            stage,
            coalesce(action, response_text) as first_choice,
            outcome as state,
            lead(reward, 1) over episode as reward,
            lead(coalesce(action, response_text), 2) over episode as next_choice,
            lead(stage, 2) over episode as next_stage,
            part_id
        from steps
        where mode_id in (select modes.mode_id from modes)
        window episode as (partition by run_id, episode_id order by step_index)

    ),

    pairs as (

        -- a missed choice counts as a switch, and a trial without one as a rare transition
        select
            *,
            coalesce(first_choice = state, false) as is_common,
            coalesce(reward > 0, false) as is_rewarded,
            coalesce(first_choice = next_choice, false) as is_stay
        from trials
        where
            stage = 0
            and next_stage = 0

    ),

    stays as (

        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'stay' as rule,
            case when is_common then 'common' else 'rare' end
            || '_'
            || case when is_rewarded then 'rewarded' else 'unrewarded' end as readout,
            cast(is_stay as double) as value,
            cast(1 as double) as weight,
            'ok' as status,
            cast(null as varchar) as status_reason,
            part_id
        from pairs

    )

    select * from stays

{% endcall %}
