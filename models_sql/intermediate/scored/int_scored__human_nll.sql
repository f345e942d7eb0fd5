{% call scored_rule('human_nll', 'outputs') %}

    with

    modes as (
        {{ modes_scored_by('human_nll') }}
    ),

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where
            {{ is_new_part() }}
            and mode_id in (select modes.mode_id from modes)

    ),

    options as (

        select * from {{ ref('stg_output_options') }}
        where run_id in (select outputs.run_id from outputs)

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    responses as (

        select * from {{ ref('stg_human_responses') }}

    ),

    legal as (
        {{ legal_options_of_outputs() }}
    ),

    highest as (

        select
            run_id,
            item_id,
            episode_id,
            max(logprob_nats) as logprob_nats,
            string_agg(option, ', ' order by option) filter (where logprob_nats is null) as missing
        from legal
        group by run_id, item_id, episode_id

    ),

    totals as (

        -- all legal options together, relative to the likeliest of them, so that no digits are lost
        select
            highest.run_id,
            highest.item_id,
            highest.episode_id,
            highest.missing,
            highest.logprob_nats,
            case
                when isfinite(highest.logprob_nats)
                    then ln({{ ordered_sum('exp(legal.logprob_nats - highest.logprob_nats)') }})
            end as excess_nats
        from highest
        inner join legal
            on
                highest.run_id = legal.run_id
                and highest.item_id = legal.item_id
                and highest.episode_id = legal.episode_id
        group by highest.run_id, highest.item_id, highest.episode_id, highest.missing, highest.logprob_nats

    ),

    predictions as (

        -- one row for each response of a human to the item; people are independent, their responses are not
        select
            outputs.run_id,
            outputs.mode_id,
            responses.participant_id as episode_id,
            outputs.item_id,
            totals.excess_nats - (legal.logprob_nats - totals.logprob_nats) as nll_nats,
            responses.weight,
            case
                when outputs.status <> 'ok' then outputs.status
                when totals.run_id is null then 'error'
                when totals.missing is not null then 'missing_option'
                when legal.option is null or totals.excess_nats is null then 'error'
                else 'ok'
            end as status,
            case
                when outputs.status <> 'ok' then outputs.status_reason
                when totals.run_id is null then 'the legal options are not known'
                when totals.missing is not null then 'no log-probability of ' || totals.missing
                when legal.option is null then 'what the human did is no legal option'
                when totals.excess_nats is null then 'every legal option has probability 0'
            end as status_reason,
            outputs.part_id
        from outputs
        inner join responses
            on
                outputs.mode_id = responses.mode_id
                and outputs.item_id = responses.item_id
        left join totals
            on
                outputs.run_id = totals.run_id
                and outputs.item_id = totals.item_id
                and outputs.episode_id = totals.episode_id
        left join legal
            on
                outputs.run_id = legal.run_id
                and outputs.item_id = legal.item_id
                and outputs.episode_id = legal.episode_id
                and responses.response = legal.option

    ),

    nlls as (

        select
            run_id,
            mode_id,
            episode_id,
            item_id,
            cast(null as integer) as step_index,
            'human_nll' as rule,
            cast(null as varchar) as readout,
            case when status = 'ok' then nll_nats end as value,
            weight,
            status,
            status_reason,
            part_id
        from predictions

    )

    select * from nlls

{% endcall %}
