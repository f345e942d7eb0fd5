{% call scored_rule('quadratic_score') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('quadratic_score') }}
    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'quadratic_score' as rule,
            cast(null as varchar) as readout,
            case
                when status = 'ok'
                    then 1 - power(cast(list_contains(credited_options, action) as double) - confidence, 2)
            end as value,
            case
                when status = 'ok' and credited_options is null then 'error'
                when status = 'ok' and confidence is null then 'unparsed'
                else status
            end as status,
            case
                when status = 'ok' and credited_options is null then 'the credited options are not known'
                when status <> 'ok' or confidence is null then coalesce(status_reason, 'no confidence')
            end as status_reason,
            part_id
        from steps
        where mode_id in (select modes.mode_id from modes)

    )

    select * from scores

{% endcall %}
