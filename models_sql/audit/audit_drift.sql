with

identities as (

    select
        runs.identity_sha256,
        planned.mode_id,
        runs.model_id,
        runs.run_id,
        runs.repeat
    from {{ ref('stg_runs') }} as runs, unnest(runs.planned_modes) as planned (mode_id)
    where
        runs.identity_sha256 is not null
        and runs.repeat is not null

),

ranked as (

    select
        *,
        first_value(run_id) over same as baseline_run_id,
        first_value(repeat) over same as baseline_repeat
    from identities
    window same as (partition by identity_sha256, mode_id order by repeat, run_id)

),

pairs as (

    select * from ranked
    where run_id <> baseline_run_id

),

compared_runs as (

    select run_id from pairs
    union
    select baseline_run_id from pairs

),

answers as (

    -- the likeliest options, or where the engine was not asked for their likelihoods, what it wrote
    select
        run_id,
        mode_id,
        'answer' as kind,
        item_id as place,
        coalesce(participant_id, '') as within_place,
        coalesce(list_aggregate(chosen_options, 'string_agg', chr(10)), written) as choice,
        legal_options,
        logprobs_nats
    from {{ ref('int_answers') }}
    where run_id in (select compared_runs.run_id from compared_runs)

),

decisions as (

    select
        run_id,
        mode_id,
        'decision' as kind,
        episode_id as place,
        cast(step_index as varchar) as within_place,
        action as choice,
        legal_options,
        logprobs_nats
    from {{ ref('stg_steps') }}
    where run_id in (select compared_runs.run_id from compared_runs)

),

said as (

    select * from answers
    union all
    select * from decisions

),

firsts as (

    select
        pairs.run_id,
        said.mode_id,
        said.kind,
        said.place,
        said.within_place,
        said.choice,
        said.legal_options,
        said.logprobs_nats
    from pairs
    inner join said
        on
            pairs.baseline_run_id = said.run_id
            and pairs.mode_id = said.mode_id

),

repeats as (

    select said.*
    from said
    inner join pairs
        on
            said.run_id = pairs.run_id
            and said.mode_id = pairs.mode_id

),

beside as (

    -- once two episodes have parted, other options may be legal: their likelihoods are not compared then
    select
        coalesce(firsts.run_id, repeats.run_id) as run_id,
        coalesce(firsts.mode_id, repeats.mode_id) as mode_id,
        firsts.run_id is not null and repeats.run_id is not null as is_in_both,
        (firsts.choice is distinct from repeats.choice) as is_other_choice,
        case
            when firsts.legal_options = repeats.legal_options
                then list_zip(firsts.logprobs_nats, repeats.logprobs_nats)
        end as pairs_of_nats
    from firsts
    full outer join repeats
        on
            firsts.run_id = repeats.run_id
            and firsts.mode_id = repeats.mode_id
            and firsts.kind = repeats.kind
            and firsts.place = repeats.place
            and firsts.within_place = repeats.within_place

),

measured as (

    -- two options that are both impossible do not differ
    select
        *,
        list_max(list_transform(
            pairs_of_nats,
            lambda nats: case when nats[1] = nats[2] then 0 else abs(nats[1] - nats[2]) end
        )) as logprob_difference_nats
    from beside

),

counted as (

    select
        run_id,
        mode_id,
        count(*) filter (where is_in_both) as n_compared,
        count(*) filter (where is_in_both and is_other_choice) as n_flips,
        count(*) filter (where not is_in_both) as n_only_in_one,
        max(logprob_difference_nats) as max_abs_logprob_difference_nats
    from measured
    group by run_id, mode_id

),

drift as (

    select
        pairs.model_id,
        pairs.mode_id,
        pairs.baseline_run_id,
        pairs.baseline_repeat,
        pairs.run_id,
        pairs.repeat,
        coalesce(counted.n_compared, 0) as n_compared,
        coalesce(counted.n_flips, 0) as n_flips,
        coalesce(counted.n_only_in_one, 0) as n_only_in_one,
        counted.max_abs_logprob_difference_nats
    from pairs
    left join counted
        on
            pairs.run_id = counted.run_id
            and pairs.mode_id = counted.mode_id

)

select * from drift
