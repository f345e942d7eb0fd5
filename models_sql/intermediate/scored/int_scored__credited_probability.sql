{% call scored_rule('credited_probability', 'outputs') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('credited_probability') }}
    ),

    credited as (

        select
            *,
            list_transform(
                list_filter(legal_options, lambda o: list_contains(credited_options, o)),
                lambda o: renormalised_nats[list_position(legal_options, o)]
            ) as credited_nats
        from answers
        where mode_id in (select modes.mode_id from modes)

    ),

    probabilities as (

        -- of all credited options together
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'credited_probability' as rule,
            cast(null as varchar) as readout,
            case
                when likelihood_status = 'ok' and credited_options is not null then
                    coalesce(
                        list_aggregate(
                            list_sort(list_transform(credited_nats, lambda nats: exp(nats))), 'fsum'
                        ),
                        0
                    )
            end as value,
            weight,
            case
                when likelihood_status = 'ok' and credited_options is null then 'error'
                else likelihood_status
            end as status,
            case
                when likelihood_status = 'ok' and credited_options is null
                    then 'the credited options are not known'
                else likelihood_reason
            end as status_reason,
            part_id
        from credited

    )

    select * from probabilities

{% endcall %}
