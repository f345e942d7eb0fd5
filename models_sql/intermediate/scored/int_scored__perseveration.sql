{% call scored_rule('perseveration', 'steps') %}

    with

    modes as (
        {{ modes_scored_by('perseveration') }}
    ),

    steps as (

        select * from {{ ref('stg_steps') }}
        where
            {{ is_new_part() }}
            and mode_id in (select modes.mode_id from modes)

    ),

    transitions as (
        {{ card_transitions('perseveration', 'was_wrong and is_wrong and category = category_before') }}
    )

    select * from transitions

{% endcall %}
