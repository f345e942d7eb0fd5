{% call scored_rule('set_loss', 'steps') %}

    with

    modes as (
        {{ modes_scored_by('set_loss') }}
    ),

    steps as (

        select * from {{ ref('stg_steps') }}
        where
            {{ is_new_part() }}
            and mode_id in (select modes.mode_id from modes)

    ),

    transitions as (
        {{ card_transitions('set_loss', 'not was_wrong and is_wrong and category <> category_before') }}
    )

    select * from transitions

{% endcall %}
