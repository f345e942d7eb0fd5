-- Metrics whose counts are not those of the item verdicts behind them: rows that a metric left out, or
-- counted twice. Rows that are not there at all add to the errors and to nothing else.
with

rows_of_rules as (

    select
        run_id,
        mode_id,
        rule,
        readout,
        count(*) filter (where status = 'ok') as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option
    from {{ ref('int_scored') }}
    group by run_id, mode_id, rule, readout

),

counted as (

    -- rows without a readout may belong to any
    select
        verdicts.run_id,
        verdicts.mode_id,
        declared.metric,
        sum(verdicts.n_scored) as n_scored,
        sum(verdicts.n_unparsed) as n_unparsed,
        sum(verdicts.n_error) as n_error,
        sum(verdicts.n_too_long) as n_too_long,
        sum(verdicts.n_missing_option) as n_missing_option
    from rows_of_rules as verdicts
    inner join {{ ref('s1cogbench_metrics') }} as declared
        on
            verdicts.mode_id = declared.mode_id
            and verdicts.rule = declared.rule
            and (declared.readout is null or verdicts.readout is null or verdicts.readout = declared.readout)
    where declared.estimator = 'mean'
    group by verdicts.run_id, verdicts.mode_id, declared.metric

)

select
    counted.*,
    metrics.n_planned,
    metrics.n_scored as n_scored_of_metric,
    metrics.n_error as n_error_of_metric
from counted
left join {{ ref('metrics') }} as metrics
    on
        counted.run_id = metrics.run_id
        and counted.mode_id = metrics.mode_id
        and counted.metric = metrics.metric
where
    metrics.run_id is null
    or counted.n_scored <> metrics.n_scored
    or counted.n_unparsed <> metrics.n_unparsed
    or counted.n_error > metrics.n_error
    or counted.n_too_long <> metrics.n_too_long
    or counted.n_missing_option <> metrics.n_missing_option
