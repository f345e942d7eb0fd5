{% call scored_rule('adjusted_quadratic_score', 'steps') %}

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
        {{ quadratic_scores('adjusted_quadratic_score', 'scaled_confidence') }}
        from scaled

    )

    select * from scores

{% endcall %}
