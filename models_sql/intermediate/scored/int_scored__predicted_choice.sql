{% call scored_rule('predicted_choice', 'outputs') %}

    with

    predictions as (
        {{ predictions_of_people('predicted_choice') }}
    ),

    choices as (

        -- options that tie share the choice
        select
            run_id,
            mode_id,
            responder_id as episode_id,
            item_id,
            cast(null as integer) as step_index,
            'predicted_choice' as rule,
            cast(null as varchar) as readout,
            case
                when choice_status = 'ok' and place is not null
                    then cast(list_contains(chosen_options, response) as double) / len(chosen_options)
            end as value,
            response_weight as weight,
            case when choice_status = 'ok' and place is null then 'error' else choice_status end as status,
            case
                when choice_status <> 'ok' then choice_reason
                when not is_answered then 'this participant did not answer the question'
                when place is null then 'what the human did is no legal option'
            end as status_reason,
            part_id
        from predictions

    )

    select * from choices

{% endcall %}
