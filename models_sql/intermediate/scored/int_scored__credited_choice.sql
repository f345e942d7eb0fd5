{% call scored_rule('credited_choice', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('credited_choice') }}
    ),

    choices as (

        -- forced trials leave nothing to choose; tied best options are all credited
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'credited_choice' as rule,
            cast(null as varchar) as readout,
            case
                when status = 'ok' then cast(list_contains(credited_options, action) as double)
            end as value,
            case when status = 'ok' and credited_options is null then 'error' else status end as status,
            case
                when status = 'ok' and credited_options is null then 'the credited options are not known'
                when status <> 'ok' then status_reason
            end as status_reason,
            part_id
        from steps
        where
            not is_forced
            and mode_id in (select modes.mode_id from modes)

    )

    select * from choices

{% endcall %}
