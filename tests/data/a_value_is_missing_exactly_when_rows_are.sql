-- Metrics with a value over only some of their planned rows, without one over all, or silent about why.
select
    run_id,
    mode_id,
    metric,
    value,
    value_scored,
    n_planned,
    n_scored,
    reason
from {{ ref('metrics') }}
where
    (value is null) <> (n_scored < n_planned or value_scored is null)
    or value <> value_scored
    or (value is null) <> (reason is not null)
    or n_scored > n_planned
