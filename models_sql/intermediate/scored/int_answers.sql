{#- No macro but its wrapper and those of macros/reading.sql: the rules that read this model take its text and
    theirs as a part of their versions. -#}

{% call scored_rule(none, 'outputs') %}

    with

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    options as (

        select * from {{ ref('stg_output_options') }}
        where run_id in (select outputs.run_id from outputs)

    ),

    given as (

        -- not a number counts as more than any number, no probability is above 1 (but for rounding), and -9999 is
        -- what some engines say instead of nothing
        select
            run_id,
            item_id,
            episode_id,
            participant_id,
            list({
                'option': option,
                'logprob_nats':
                case
                    when status = 'ok' and logprob_nats <= 1e-6 and logprob_nats <> -9999 then logprob_nats
                end
            }) as options,
            coalesce(bool_or(is_merged), false) as is_merged
        from options
        group by run_id, item_id, episode_id, participant_id

    ),

    asked as (

        -- an answer to a question that is for fitting is none; one to an unknown question stays and says so
        select
            outputs.*,
            items.item_id is not null as is_known,
            items.template_id,
            items.credited_options,
            items.target,
            items.support_low,
            items.support_high,
            coalesce(items.weight, 1) as weight,
            case when len(items.legal_options) > 0 then items.legal_options end as legal_options,
            -- spaces and line ends around it are no part of an answer
            trim(outputs.response_text, ' ' || chr(9) || chr(10) || chr(13)) as written,
            list_transform(given.options, lambda o: o.option) as given_options,
            list_transform(given.options, lambda o: o.logprob_nats) as given_nats,
            coalesce(given.is_merged, false) as is_merged
        from outputs
        left join items
            on
                outputs.item_id = items.item_id
                and outputs.mode_id = items.mode_id
        left join given
            on
                outputs.run_id = given.run_id
                and outputs.item_id = given.item_id
                and outputs.episode_id = given.episode_id
                and outputs.participant_id is not distinct from given.participant_id
        where items.is_asked is distinct from false

    ),

    matched as (

        -- what is not legal cannot be chosen
        select
            * exclude (given_options, given_nats),
            coalesce(list_has_any(given_options, legal_options), false) as has_options,
            coalesce(list_unique(given_options) < len(given_options), false) as is_any_repeated,
            list_transform(
                legal_options, lambda o: given_nats[list_position(given_options, o)]
            ) as logprobs_nats
        from asked

    ),

    ranked as (

        select
            *,
            list_count(logprobs_nats) < len(logprobs_nats) as is_any_missing,
            case when isfinite(list_max(logprobs_nats)) then list_max(logprobs_nats) end as highest_nats
        from matched

    ),

    totalled as (

        -- all legal options together, relative to the likeliest of them, so that no digits are lost; added in the
        -- order of size, so that the order of options changes none
        select
            *,
            case
                when not is_any_missing and highest_nats is not null then
                    ln(list_aggregate(
                        list_sort(list_transform(logprobs_nats, lambda nats: exp(nats - highest_nats))), 'fsum'
                    ))
            end as excess_nats
        from ranked

    ),

    judged as (

        select
            *,
            case
                when status <> 'ok' then status
                when legal_options is null or is_any_repeated then 'error'
                when is_any_missing then 'missing_option'
                when highest_nats is null then 'error'
                else 'ok'
            end as likelihood_status,
            case
                when status <> 'ok' then status_reason
                when legal_options is null then 'the legal options are not known'
                when is_any_repeated then 'an option has several log-probabilities'
                when is_any_missing
                    then
                        'no log-probability of ' || list_aggregate(
                            list_sort(
                                list_filter(
                                    legal_options,
                                    lambda o: logprobs_nats[list_position(legal_options, o)] is null
                                )
                            ), 'string_agg', ', '
                        )
                when highest_nats is null then 'every legal option has probability 0'
            end as likelihood_reason,
            -- what is written is read where the engine gave nothing else, of a choice or of a report
            case
                when status = 'ok' and not has_options
                    then coalesce({{ options_named('written', 'legal_options') }}, [])
            end as named_options,
            case
                when
                    status = 'ok'
                    and legal_options is null
                    and response_number is null
                    and report_spacing is null
                    then {{ numbers_in('written') }}
            end as numbers
        from totalled

    ),

    answers as (

        -- the likeliest legal options, or what was written where the engine gave no log-probabilities
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            participant_id,
            status,
            status_reason,
            is_known,
            template_id,
            legal_options,
            credited_options,
            target,
            support_low,
            support_high,
            weight,
            written,
            coalesce(response_number, {{ number_read('numbers') }}) as response_number,
            case
                when len(numbers) = 0 then 'the answer holds no number'
                when len(numbers) > 0 and {{ number_read('numbers') }} is null
                    then 'the answer holds several numbers, or one that can be read in several ways'
            end as report_reason,
            report_low,
            report_high,
            report_spacing,
            logprobs_nats,
            case
                when likelihood_status = 'ok'
                    then list_transform(logprobs_nats, lambda nats: (nats - highest_nats) - excess_nats)
            end as renormalised_nats,
            likelihood_status,
            likelihood_reason,
            -- where prompt and option share a token, all options are scored from before it on: what they share
            -- cancels among them and is in every sum. A text that ends an option is different: with it the sum is
            -- the probability of the option and of nothing behind it, which is what an option is asked for
            case when likelihood_status = 'ok' and is_merged then 'error' else likelihood_status end as raw_status,
            case
                when likelihood_status = 'ok' and is_merged
                    then 'prompt and option share a token: no probability of the option alone'
                else likelihood_reason
            end as raw_reason,
            case
                when likelihood_status = 'ok'
                    then
                        list_filter(
                            legal_options,
                            lambda o: logprobs_nats[list_position(legal_options, o)] = highest_nats
                        )
                when len(named_options) = 1 then named_options
            end as chosen_options,
            case
                when status <> 'ok' or legal_options is null or has_options then likelihood_status
                when len(named_options) = 1 then 'ok'
                else 'unparsed'
            end as choice_status,
            case
                when status <> 'ok' or legal_options is null or has_options then likelihood_reason
                when len(named_options) = 0 then 'the answer names none of the options'
                when len(named_options) > 1 then 'the answer names several of the options'
            end as choice_reason,
            part_id
        from judged

    )

    select * from answers

{% endcall %}
