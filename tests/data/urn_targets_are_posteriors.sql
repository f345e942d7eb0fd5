-- Targets that are not the exact posterior of the prior and the likelihood that their question shows.
with

questions as (

    select
        item_id,
        target,
        cast(facts_json ->> '$.prior' as double) as prior_left,
        cast(facts_json ->> '$.likelihood' as double) as likelihood_left
    from {{ ref('stg_items') }}
    where
        template_id = 'posterior'
        and target is not null

),

recomputed as (

    -- the same posterior by way of odds
    select
        *,
        prior_left * likelihood_left as left_weight,
        (1 - prior_left) * (1 - likelihood_left) as right_weight,
        1 / (1 + right_weight / left_weight) as posterior
    from questions

)

select
    item_id,
    target,
    posterior,
    target - posterior as difference
from recomputed
where not coalesce(abs(target - posterior) <= 1e-12, false)
