with

scored as (

    select * from {{ ref('int_scored') }}

),

sums as (

    -- the sum is kept as an integer multiple of 2^-60, so that any grouping adds up to the same total
    select
        run_id,
        mode_id,
        rule,
        readout,
        episode_id,
        count(*) as n_rows,
        count(*) filter (where status = 'ok') as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option,
        sum({{ to_fixed('value') }}) filter (where status = 'ok') as value_sum_fixed,
        min(status_reason) as status_reason,
        min(scorer_sha) as scorer_sha
    from scored
    group by run_id, mode_id, rule, readout, episode_id

)

select * from sums
