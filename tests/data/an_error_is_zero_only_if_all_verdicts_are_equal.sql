-- Metrics with a standard error of zero although item verdicts behind them differ.
with

verdicts as (

    -- a metric without a rule of its own is made of reports
    select
        scores.run_id,
        scores.mode_id,
        metrics.metric,
        min(scores.value) as lowest,
        max(scores.value) as highest
    from {{ ref('int_scored') }} as scores
    inner join {{ ref('s1cogbench_metrics') }} as metrics
        on
            scores.mode_id = metrics.mode_id
            and scores.rule = metrics.rule
            and (metrics.readout is null or scores.readout = metrics.readout)
    where
        scores.status = 'ok'
        and scores.weight > 0
    group by scores.run_id, scores.mode_id, metrics.metric
    union all
    select
        answers.run_id,
        answers.mode_id,
        metrics.metric,
        min(answers.response_number) as lowest,
        max(answers.response_number) as highest
    from {{ ref('int_answers') }} as answers
    inner join {{ ref('s1cogbench_metrics') }} as metrics on answers.mode_id = metrics.mode_id
    where metrics.rule is null
    group by answers.run_id, answers.mode_id, metrics.metric

)

select
    metrics.run_id,
    metrics.mode_id,
    metrics.metric,
    verdicts.lowest,
    verdicts.highest
from {{ ref('metrics') }} as metrics
inner join verdicts
    on
        metrics.run_id = verdicts.run_id
        and metrics.mode_id = verdicts.mode_id
        and metrics.metric = verdicts.metric
where
    metrics.se = 0
    and verdicts.lowest < verdicts.highest
