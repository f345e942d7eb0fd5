-- Values of the policy count_as_wrong that differ from the strict value where nothing is missing, that are
-- not between the value of the scored rows and that of a wrong row, or that are missing without a reason.
with

valued as (

    select
        scores.run_id,
        scores.mode_id,
        scores.metric,
        scores.value,
        scores.value_scored,
        scores.value_count_as_wrong,
        scores.count_as_wrong_reason,
        declared.scale * declared.wrong_value as wrong_value
    from {{ ref('metrics') }} as scores
    inner join {{ ref('s1cogbench_metrics') }} as declared
        on
            scores.mode_id = declared.mode_id
            and scores.metric = declared.metric

)

select *
from valued
where
    (value_count_as_wrong is null) <> (count_as_wrong_reason is not null)
    or (value_count_as_wrong is null and value is not null and wrong_value is not null)
    or (value_count_as_wrong is not null and wrong_value is null)
    or value_count_as_wrong <> value
    or value_count_as_wrong > greatest(value_scored, wrong_value) + 1e-12 * coalesce(abs(value_scored), 0)
    or value_count_as_wrong < least(value_scored, wrong_value) - 1e-12 * coalesce(abs(value_scored), 0)
