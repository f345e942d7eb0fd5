-- Composites that are not what the exact weights make of every component, or that a stand-in or an unfinished
-- component is a part of.
with

components as (

    select * from {{ ref('cognirank_components') }}

),

scores as (

    select * from {{ ref('cognirank_scores') }}
    where is_primary

),

means as (

    select
        scores.evaluation_id,
        sum(components.weight_numerator * scores.value) / max(components.weight_denominator) as mean,
        count(scores.value) as n_values,
        count(scores.value) filter (where scores.is_stand_in) as n_stand_ins
    from scores
    inner join components on scores.component_id = components.component_id
    group by scores.evaluation_id

)

select
    composites.run_id,
    composites.cogniscore,
    composites.cogniscore_standin,
    means.mean,
    means.n_values,
    means.n_stand_ins
from {{ ref('cogniscore') }} as composites
inner join means on composites.run_id = means.evaluation_id
where
    coalesce(composites.cogniscore, composites.cogniscore_standin) is not null
    and (
        means.n_values <> (select count(*) from components)
        or (composites.cogniscore is null) <> (means.n_stand_ins > 0)
        or abs(coalesce(composites.cogniscore, composites.cogniscore_standin) - means.mean) > 1e-9
    )
