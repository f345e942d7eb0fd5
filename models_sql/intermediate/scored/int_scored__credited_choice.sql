{% call scored_rule('credited_choice') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    rule_modes as (
        {{ modes_scored_by('credited_choice') }}
    ),

    modes as (

        select * from {{ ref('s1cogbench_modes') }}
        where mode_id in (select rule_modes.mode_id from rule_modes)

    ),

    played as (

        -- forced trials leave nothing to choose, and a step that neither pays nor credits asks for something else;
        -- tied best options are all credited
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            case
                when status = 'ok' then cast(list_contains(credited_options, action) as double)
            end as value,
            cast(1 as double) as weight,
            case when status = 'ok' and credited_options is null then 'error' else status end as status,
            case
                when status = 'ok' and credited_options is null then 'the credited options are not known'
                when status <> 'ok' then status_reason
            end as status_reason,
            part_id
        from steps
        where
            not is_forced
            and (is_rewarded or credited_options is not null)
            and mode_id in (select modes.mode_id from modes where modes.is_played)

    ),

    answered as (

        -- options that tie share the choice
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            case
                when choice_status = 'ok' and credited_options is not null then
                    cast(len(list_filter(chosen_options, lambda o: list_contains(credited_options, o))) as double)
                    / len(chosen_options)
            end as value,
            weight,
            case
                when status = 'ok' and credited_options is null then 'error'
                else choice_status
            end as status,
            case
                when status = 'ok' and not is_known then 'the item is not known'
                when status = 'ok' and credited_options is null then 'the credited options are not known'
                else choice_reason
            end as status_reason,
            part_id
        from answers
        where mode_id in (select modes.mode_id from modes where not modes.is_played)

    ),

    choices as (

        select * from played
        union all by name
        select * from answered

    ),

    labelled as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            step_index,
            'credited_choice' as rule,
            cast(null as varchar) as readout,
            value,
            weight,
            status,
            status_reason,
            part_id
        from choices

    )

    select * from labelled

{% endcall %}
