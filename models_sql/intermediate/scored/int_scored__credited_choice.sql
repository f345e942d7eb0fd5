{% call scored_rule('credited_choice') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where {{ is_new_part() }}

    ),

    options as (

        select * from {{ ref('stg_output_options') }}
        where run_id in (select outputs.run_id from outputs)

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    rule_modes as (
        {{ modes_scored_by('credited_choice') }}
    ),

    modes as (

        select * from {{ ref('s1cogbench_modes') }}
        where mode_id in (select rule_modes.mode_id from rule_modes)

    ),

    played as (

        -- forced trials leave nothing to choose, and a step that neither pays nor credits asks for something else;
        -- tied best options are all credited
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            case
                when status = 'ok' then cast(list_contains(credited_options, action) as double)
            end as value,
            cast(1 as double) as weight,
            case when status = 'ok' and credited_options is null then 'error' else status end as status,
            case
                when status = 'ok' and credited_options is null then 'the credited options are not known'
                when status <> 'ok' then status_reason
            end as status_reason,
            part_id
        from steps
        where
            not is_forced
            and (is_rewarded or credited_options is not null)
            and mode_id in (select modes.mode_id from modes where modes.is_played)

    ),

    legal as (
        {{ legal_options_of_outputs() }}
    ),

    highest as (

        select
            run_id,
            item_id,
            episode_id,
            bool_or(is_given) as has_options,
            max(logprob_nats) as logprob_nats,
            string_agg(option, ', ' order by option) filter (where logprob_nats is null) as missing
        from legal
        group by run_id, item_id, episode_id

    ),

    likeliest as (

        select
            legal.run_id,
            legal.item_id,
            legal.episode_id,
            list(legal.option) as options
        from legal
        inner join highest
            on
                legal.run_id = highest.run_id
                and legal.item_id = highest.item_id
                and legal.episode_id = highest.episode_id
                and legal.logprob_nats = highest.logprob_nats
        group by legal.run_id, legal.item_id, legal.episode_id

    ),

    answers as (

        -- the likeliest legal options, or what was written where the engine gave no log-probabilities
        select
            outputs.*,
            coalesce(items.weight, 1) as weight,
            items.credited_options,
            case when highest.has_options then likeliest.options else [trim(outputs.response_text)] end as chosen,
            case
                when outputs.status <> 'ok' then outputs.status
                when items.credited_options is null or items.legal_options is null then 'error'
                when highest.has_options and highest.missing is not null then 'missing_option'
                when highest.has_options and not isfinite(highest.logprob_nats) then 'error'
                when highest.has_options then 'ok'
                when coalesce(list_contains(items.legal_options, trim(outputs.response_text)), false) then 'ok'
                else 'unparsed'
            end as answer_status,
            case
                when outputs.status <> 'ok' then outputs.status_reason
                when items.item_id is null then 'the item is not known'
                when items.credited_options is null then 'the credited options are not known'
                when items.legal_options is null then 'the legal options are not known'
                when highest.has_options and highest.missing is not null
                    then 'no log-probability of ' || highest.missing
                when highest.has_options and not isfinite(highest.logprob_nats)
                    then 'every legal option has probability 0'
                when highest.has_options then null
                when not coalesce(list_contains(items.legal_options, trim(outputs.response_text)), false)
                    then 'the answer is none of the options'
            end as answer_reason
        from outputs
        left join items on outputs.item_id = items.item_id
        left join highest
            on
                outputs.run_id = highest.run_id
                and outputs.item_id = highest.item_id
                and outputs.episode_id = highest.episode_id
        left join likeliest
            on
                outputs.run_id = likeliest.run_id
                and outputs.item_id = likeliest.item_id
                and outputs.episode_id = likeliest.episode_id
        where outputs.mode_id in (select modes.mode_id from modes where not modes.is_played)

    ),

    answered as (

        -- options that tie share the choice
        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            case
                when answer_status = 'ok' then
                    cast(len(list_filter(chosen, lambda o: list_contains(credited_options, o))) as double)
                    / len(chosen)
            end as value,
            weight,
            answer_status as status,
            answer_reason as status_reason,
            part_id
        from answers

    ),

    choices as (

        select * from played
        union all by name
        select * from answered

    ),

    labelled as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            step_index,
            'credited_choice' as rule,
            cast(null as varchar) as readout,
            value,
            weight,
            status,
            status_reason,
            part_id
        from choices

    )

    select * from labelled

{% endcall %}
