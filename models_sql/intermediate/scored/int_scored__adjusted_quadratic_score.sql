{% call scored_rule('adjusted_quadratic_score') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('adjusted_quadratic_score') }}
    ),

    ranges as (

        select
            *,
            min(confidence) over (partition by run_id, episode_id) as lowest,
            max(confidence) over (partition by run_id, episode_id) as highest
        from steps
        where mode_id in (select modes.mode_id from modes)

    ),

    scaled as (

        -- an episode with one confidence throughout has no range to scale by and keeps it as it is
        select
            *,
            case
                when highest > lowest then (confidence - lowest) / (highest - lowest) else confidence
            end as scaled_confidence
        from ranges

    ),

    scores as (

        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'adjusted_quadratic_score' as rule,
            cast(null as varchar) as readout,
            case
                when status = 'ok'
                    then 1 - power(cast(list_contains(credited_options, action) as double) - scaled_confidence, 2)
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
        from scaled

    )

    select * from scores

{% endcall %}
