{{ config(materialized='view') }}

with recursive

balloons as (

    select distinct cast(facts_json ->> '$.maximum' as integer) as maximum
    from {{ ref('int_uniform_items') }}
    where uniform_rule in ('bart', 'bart_pumps')

),

decisions as (

    -- each decision is skip or inflate, one half each; the pump after k good ones bursts with 1/(maximum - k)
    select
        maximum,
        0 as n_pumps,
        cast(1 as double) as probability
    from balloons
    where maximum >= 1
    union all
    select
        maximum,
        n_pumps + 1 as n_pumps,
        probability / 2 * (maximum - n_pumps - 1) / (maximum - n_pumps) as probability
    from decisions
    where n_pumps + 1 < maximum

),

expected as (

    -- half of those who come to a decision bank what they have, the other half pump once more
    select
        maximum,
        {{ ordered_sum('probability / 2 * n_pumps') }} as reward_points,
        {{ ordered_sum('probability / 2') }} as pumps
    from decisions
    group by maximum

)

select * from expected
