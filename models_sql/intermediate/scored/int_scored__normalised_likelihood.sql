{% call scored_rule('normalised_likelihood', 'outputs', benchmark='cognirank') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    options as (

        select * from {{ ref('stg_output_options') }}
        where run_id in (select answers.run_id from answers)

    ),

    modes as (
        {{ modes_scored_by('normalised_likelihood', benchmark='cognirank') }}
    ),

    readouts as (

        select unnest(['token', 'sum', 'character', 'byte']) as readout

    ),

    measured as (

        -- a sum is divided by the length of what it is a sum of, so with a text that was scored behind the option;
        -- its tokens are counted already
        select
            run_id,
            item_id,
            episode_id,
            participant_id,
            list({
                'option': option,
                'token': n_tokens,
                'sum': 1,
                'character': n_characters + coalesce(length(terminator), 0),
                'byte': n_bytes + coalesce(strlen(terminator), 0)
            }) as options
        from options
        group by run_id, item_id, episode_id, participant_id

    ),

    asked as (

        select
            answers.run_id,
            answers.mode_id,
            answers.episode_id,
            answers.item_id,
            answers.legal_options,
            answers.credited_options,
            answers.logprobs_nats,
            answers.likelihood_status,
            answers.likelihood_reason,
            answers.raw_status,
            answers.raw_reason,
            answers.weight,
            answers.part_id,
            readouts.readout,
            list_transform(measured.options, lambda o: o.option) as measured_options,
            list_transform(
                measured.options,
                lambda o:
                    case readouts.readout
                        when 'token' then o.token
                        when 'sum' then o.sum
                        when 'character' then o.character
                        when 'byte' then o.byte
                    end
            ) as measured_lengths
        from answers
        cross join readouts
        left join measured
            on
                answers.run_id = measured.run_id
                and answers.item_id = measured.item_id
                and answers.episode_id = measured.episode_id
                and answers.participant_id is not distinct from measured.participant_id
        where answers.mode_id in (select modes.mode_id from modes)

    ),

    divided as (

        -- of a sum that holds a token of the prompt no length is known. It is the same token for all options, so
        -- the sums themselves can be compared
        select
            * exclude (measured_options, measured_lengths),
            case when readout = 'sum' then likelihood_status else raw_status end as sum_status,
            coalesce(
                case when readout = 'sum' then likelihood_reason else raw_reason end,
                'the answer is ' || sum_status
            ) as sum_reason,
            list_transform(
                legal_options,
                lambda o:
                    logprobs_nats[list_position(legal_options, o)]
                    / case
                        when measured_lengths[list_position(measured_options, o)] > 0
                            then measured_lengths[list_position(measured_options, o)]
                    end
            ) as nats
        from asked

    ),

    ranked as (

        select
            *,
            list_max(nats) as highest_nats,
            case
                when sum_status <> 'ok' then sum_reason
                when credited_options is null then 'the credited options are not known'
                when not list_has_any(legal_options, credited_options) then 'no legal option is credited'
                when list_count(nats) < len(nats)
                    then
                        'no ' || readout || ' count of ' || list_aggregate(
                            list_sort(
                                list_filter(
                                    legal_options,
                                    lambda o: nats[list_position(legal_options, o)] is null
                                )
                            ), 'string_agg', ', '
                        )
            end as fault
        from divided

    ),

    likeliest as (

        select
            *,
            list_filter(
                legal_options,
                lambda o: nats[list_position(legal_options, o)] = highest_nats
            ) as likeliest_options
        from ranked

    ),

    choices as (

        -- options that tie share the choice
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'normalised_likelihood' as rule,
            readout,
            case
                when fault is null then
                    cast(len(list_filter(likeliest_options, lambda o: list_contains(credited_options, o))) as double)
                    / len(likeliest_options)
            end as value,
            weight,
            case
                when fault is null then 'ok'
                when sum_status = 'ok' then 'error'
                else sum_status
            end as status,
            fault as status_reason,
            part_id
        from likeliest

    )

    select * from choices

{% endcall %}
