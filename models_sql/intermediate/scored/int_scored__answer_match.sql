{% call scored_rule('answer_match', 'outputs', benchmark='cognirank') %}

    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    modes as (
        {{ modes_scored_by('answer_match', benchmark='cognirank') }}
    ),

    keys as (

        select
            mode_id,
            item_id,
            case when json_valid(facts_json) then facts_json ->> '$.format' end as answer_format,
            case
                when json_valid(facts_json) then try_cast(facts_json -> '$.choices' as varchar [])
            end as choices,
            list_transform(
                credited_options, lambda said: trim(said, ' ' || chr(9) || chr(10) || chr(13))
            ) as credited
        from items
        where mode_id in (select modes.mode_id from modes)

    ),

    laid_out as (

        -- a number is read as a double, which tells integers of 15 digits apart
        select
            *,
            case answer_format
                when 'choice' then credited
                when 'integer'
                    then
                        list_transform(
                            credited,
                            lambda said:
                                case
                                    when regexp_full_match(said, '-?[0-9]{1,15}')
                                        then cast(try_cast(said as bigint) as varchar)
                                end
                        )
                when 'word' then credited
                when 'action' then list_transform(credited, lambda said: {{ as_actions('said') }})
                when 'text' then list_transform(credited, lambda said: {{ as_running_text('said') }})
                when 'steps' then list_transform(credited, lambda said: {{ as_steps('said') }})
                when 'grid' then list_transform(credited, lambda said: {{ as_grid('said') }})
            end as credited_texts
        from keys

    ),

    spelled as (

        select
            * exclude (credited_texts),
            case
                when answer_format in ('choice', 'integer') then credited_texts
                when answer_format = 'text'
                    then list_transform(credited_texts, lambda said: {{ one_spelling_in_small('said') }})
                else list_transform(credited_texts, lambda said: {{ one_spelling('said') }})
            end as accepted_texts
        from laid_out

    ),

    accepted as (

        -- what is wrong with an item is nobody's answer
        select
            *,
            list_max(list_transform(accepted_texts, lambda said: length(said))) as n_longest,
            case
                when coalesce(len(credited), 0) = 0 then 'the accepted answers are not known'
                when answer_format is null then 'the item has no answer format'
                when accepted_texts is null then 'no rule matches answers of format ' || answer_format
                when list_count(accepted_texts) < len(accepted_texts) or list_contains(accepted_texts, '')
                    then 'an accepted answer is none of format ' || answer_format
                when answer_format = 'choice' and not coalesce(list_has_all(choices, accepted_texts), false)
                    then 'an accepted answer is none of the choices'
            end as item_fault
        from spelled

    ),

    asked as (

        select
            answers.run_id,
            answers.mode_id,
            answers.episode_id,
            answers.item_id,
            answers.status,
            answers.written,
            answers.weight,
            answers.part_id,
            accepted.answer_format,
            accepted.choices,
            accepted.accepted_texts,
            accepted.n_longest,
            {{ first_line('answers.written') }} as line,
            case
                when answers.status <> 'ok' then coalesce(answers.status_reason, answers.status)
                when accepted.item_id is null then 'the item is not known'
                when accepted.item_fault is not null then accepted.item_fault
                when answers.written is null then 'there is no response'
            end as fault
        from answers
        left join accepted
            on
                answers.mode_id = accepted.mode_id
                and answers.item_id = accepted.item_id
        where answers.mode_id in (select modes.mode_id from modes)

    ),

    read as (

        select
            *,
            case when answer_format = 'choice' then {{ options_named('line', 'choices') }} end as named_choices,
            case when answer_format = 'integer' then {{ numbers_in('line') }} end as numbers
        from asked
        where fault is null

    ),

    said as (

        -- what the answer may be, laid out as accepted answers are
        select
            *,
            case answer_format
                when 'choice' then case when len(named_choices) = 1 then named_choices end
                when 'integer' then [
                    cast(case
                        when {{ number_read('numbers') }} = trunc({{ number_read('numbers') }})
                            then try_cast({{ number_read('numbers') }} as bigint)
                    end as varchar)
                ]
                when 'word' then {{ words_read('line') }}
                when 'action' then [{{ as_actions('line') }}]
                when 'text' then [{{ as_running_text('written') }}]
                when 'steps' then [{{ as_steps('written') }}]
                when 'grid' then [{{ as_grid('written') }}]
            end as texts
        from read

    ),

    matched as (

        select
            *,
            case
                when answer_format in ('choice', 'integer') then list_has_any(accepted_texts, texts)
                when answer_format = 'text'
                    then
                        list_has_any(
                            accepted_texts,
                            list_transform(
                                list_filter(texts, lambda t: {{ is_short_enough('t', 'n_longest') }}),
                                lambda t: {{ one_spelling_in_small('t') }}
                            )
                        )
                else
                    list_has_any(
                        accepted_texts,
                        list_transform(
                            list_filter(texts, lambda t: {{ is_short_enough('t', 'n_longest') }}),
                            lambda t: {{ one_spelling('t') }}
                        )
                    )
            end as is_match
        from said

    ),

    credits as (

        -- an answer that says something else, or nothing, is wrong: only what never was an answer has no value
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            weight,
            part_id,
            cast(coalesce(is_match, false) as double) as value,
            'ok' as status,
            cast(null as varchar) as status_reason
        from matched
        union all by name
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            weight,
            part_id,
            cast(null as double) as value,
            case when status = 'ok' then 'error' else status end as status,
            fault as status_reason
        from asked
        where fault is not null

    ),

    labelled as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'answer_match' as rule,
            cast(null as varchar) as readout,
            value,
            weight,
            status,
            status_reason,
            part_id
        from credits

    )

    select * from labelled

{% endcall %}
