-- Components with a score over only some of their items, without one over all, silent about why, or off the
-- scale; and standard errors that are none, or zero although items differ.
with

scores as (

    select * from {{ ref('cognirank_scores') }}

),

spreads as (

    select
        evaluation_id,
        component_id,
        metric,
        min(value) < max(value) as is_any_different
    from {{ ref('int_cognirank_items') }}
    group by evaluation_id, component_id, metric

)

select
    scores.evaluation_id,
    scores.component_id,
    scores.metric,
    scores.value,
    scores.value_scored,
    scores.se,
    scores.n_planned,
    scores.n_scored,
    scores.reason
from scores
left join spreads
    on
        scores.evaluation_id = spreads.evaluation_id
        and scores.component_id = spreads.component_id
        and scores.metric = spreads.metric
where
    (scores.value is null) <> (scores.reason is not null)
    or scores.value <> scores.value_scored
    or (scores.value is not null and scores.n_scored <> scores.n_planned)
    or scores.value not between 0 and 100
    or scores.se < 0
    or isnan(scores.se)
    or (scores.se = 0 and spreads.is_any_different)
