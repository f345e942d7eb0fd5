-- Scores that are not numbers, and standard errors that are none. An infinite value is a value.
select
    run_id,
    mode_id,
    metric,
    value_scored,
    se,
    n_clusters
from {{ ref('metrics') }}
where
    isnan(value_scored)
    or isnan(se)
    or se < 0
    or (se is not null and n_clusters < 2)
