{% call scored_rule('quadratic_score', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('quadratic_score') }}
    ),

    scores as (
        {{ quadratic_scores('quadratic_score', 'confidence') }}
        from steps
        where mode_id in (select modes.mode_id from modes)

    )

    select * from scores

{% endcall %}
