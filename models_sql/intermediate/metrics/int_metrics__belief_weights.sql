with

reports as (

    select * from {{ ref('int_answers') }}

),

items as (

    select * from {{ ref('stg_items') }}

),

clusters as (

    select * from {{ ref('int_clusters') }}

),

metrics as (

    select * from {{ ref('s1cogbench_metrics') }}
    where estimator = 'belief_weights'

),

clips as (

    select distinct
        mode_id,
        clip_low,
        clip_high
    from metrics

),

answers as (

    select
        reports.run_id,
        reports.mode_id,
        clusters.cluster_id,
        cast(items.facts_json ->> '$.prior' as double) as prior_left,
        cast(items.facts_json ->> '$.likelihood' as double) as likelihood_left,
        -- greatest() and least() pass over null, so a missing report is kept apart
        case
            when reports.response_number is not null
                then greatest(clips.clip_low, least(clips.clip_high, reports.response_number))
        end as report
    from reports
    inner join items on reports.item_id = items.item_id
    inner join clips on reports.mode_id = clips.mode_id
    inner join clusters
        on
            reports.run_id = clusters.run_id
            and reports.mode_id = clusters.mode_id
            and reports.episode_id = clusters.episode_id

),

logits as (

    -- certainty has no log odds: such a question or report cannot be weighed
    select
        run_id,
        mode_id,
        cluster_id,
        case
            when prior_left > 0 and prior_left < 1 then ln(prior_left / (1 - prior_left))
        end as prior_logit,
        case
            when likelihood_left > 0 and likelihood_left < 1 then ln(likelihood_left / (1 - likelihood_left))
        end as likelihood_logit,
        ln(report / (1 - report)) as report_logit
    from answers

),

usable as (

    select * from logits
    where
        prior_logit is not null
        and likelihood_logit is not null
        and report_logit is not null

),

unanswered as (

    select * from {{ ref('int_unanswered') }}

),

counts as (

    -- questions that have an answer, and those that have none
    select
        logits.run_id,
        logits.mode_id,
        count(*) as n_answered,
        coalesce(max(unanswered.n_absent), 0) as n_absent
    from logits
    left join unanswered
        on
            logits.run_id = unanswered.run_id
            and logits.mode_id = unanswered.mode_id
    group by logits.run_id, logits.mode_id

),

totals as (

    -- normal equations of: report logit = prior weight * prior logit + likelihood weight * likelihood logit
    select
        run_id,
        mode_id,
        count(*) as n_scored,
        count(distinct cluster_id) as n_clusters,
        min(report_logit) as lowest_value,
        max(report_logit) as highest_value,
        {{ ordered_sum('prior_logit * prior_logit') }} as pp,
        {{ ordered_sum('prior_logit * likelihood_logit') }} as pl,
        {{ ordered_sum('likelihood_logit * likelihood_logit') }} as ll,
        {{ ordered_sum('prior_logit * report_logit') }} as pr,
        {{ ordered_sum('likelihood_logit * report_logit') }} as lr,
        {{ ordered_sum('report_logit * report_logit') }} as rr
    from usable
    group by run_id, mode_id

),

determined as (

    -- proportional predictors leave a determinant of rounding errors
    select
        *,
        case when pp * ll - pl * pl > 1e-12 * pp * ll then pp * ll - pl * pl end as determinant
    from totals

),

solved as (

    select
        *,
        (ll * pr - pl * lr) / determinant as prior_weight,
        (pp * lr - pl * pr) / determinant as likelihood_weight
    from determined

),

residuals as (

    select
        usable.run_id,
        usable.mode_id,
        usable.cluster_id,
        usable.prior_logit,
        usable.likelihood_logit,
        solved.rr,
        usable.report_logit
        - solved.prior_weight * usable.prior_logit
        - solved.likelihood_weight * usable.likelihood_logit as residual
    from usable
    inner join solved
        on
            usable.run_id = solved.run_id
            and usable.mode_id = solved.mode_id
    where solved.determinant is not null

),

sound as (

    -- reports that follow exactly leave residuals of rounding errors
    select
        * exclude (residual),
        case when abs(residual) > 1e-12 * sqrt(rr) then residual else 0 end as residual
    from residuals

),

gradients as (

    select
        run_id,
        mode_id,
        cluster_id,
        {{ ordered_sum('prior_logit * residual') }} as prior_gradient,
        {{ ordered_sum('likelihood_logit * residual') }} as likelihood_gradient
    from sound
    group by run_id, mode_id, cluster_id

),

pulls as (

    -- how far one cluster pulls each weight
    select
        gradients.run_id,
        gradients.mode_id,
        (solved.ll * gradients.prior_gradient - solved.pl * gradients.likelihood_gradient)
        / solved.determinant as prior_pull,
        (solved.pp * gradients.likelihood_gradient - solved.pl * gradients.prior_gradient)
        / solved.determinant as likelihood_pull
    from gradients
    inner join solved
        on
            gradients.run_id = solved.run_id
            and gradients.mode_id = solved.mode_id

),

covariances as (

    select
        run_id,
        mode_id,
        {{ ordered_sum('prior_pull * prior_pull') }} as prior_variance,
        {{ ordered_sum('prior_pull * likelihood_pull') }} as covariance,
        {{ ordered_sum('likelihood_pull * likelihood_pull') }} as likelihood_variance
    from pulls
    group by run_id, mode_id

),

weights as (

    select
        counts.run_id,
        counts.mode_id,
        counts.n_answered,
        counts.n_absent,
        coalesce(solved.n_scored, 0) as n_scored,
        coalesce(solved.n_clusters, 0) as n_clusters,
        solved.prior_weight,
        solved.likelihood_weight,
        solved.prior_weight / nullif(solved.likelihood_weight, 0) as weight_ratio,
        solved.lowest_value,
        solved.highest_value,
        covariances.prior_variance,
        covariances.covariance,
        covariances.likelihood_variance
    from counts
    left join solved
        on
            counts.run_id = solved.run_id
            and counts.mode_id = solved.mode_id
    left join covariances
        on
            counts.run_id = covariances.run_id
            and counts.mode_id = covariances.mode_id

),

crossed as (

    select
        weights.*,
        weight_names.metric
    from weights
    cross join (
        values ('prior_weight'), ('likelihood_weight'), ('weight_difference'), ('weight_ratio')
    ) as weight_names (metric)

),

named as (

    -- one row per weight; the variance of the ratio is by the delta method
    select
        *,
        case metric
            when 'prior_weight' then prior_weight
            when 'likelihood_weight' then likelihood_weight
            when 'weight_difference' then prior_weight - likelihood_weight
            when 'weight_ratio' then weight_ratio
        end as estimate,
        case metric
            when 'prior_weight' then prior_variance
            when 'likelihood_weight' then likelihood_variance
            when 'weight_difference' then prior_variance + likelihood_variance - 2 * covariance
            when 'weight_ratio'
                then (
                    prior_variance
                    - 2 * weight_ratio * covariance
                    + power(weight_ratio, 2) * likelihood_variance
                ) / nullif(power(likelihood_weight, 2), 0)
        end as variance
    from crossed

),

finished as (

    select
        named.run_id,
        named.mode_id,
        metrics.metric,
        metrics.scale * named.estimate as value_scored,
        named.n_answered + named.n_absent as n_planned,
        named.n_scored,
        named.n_answered - named.n_scored as n_unparsed,
        named.n_absent as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        cast(0 as bigint) as n_infinite,
        named.n_clusters,
        case
            when named.variance is not null
                then metrics.scale * {{ clustered_error('named.n_clusters', 'greatest(named.variance, 0)') }}
        end as found_se,
        named.lowest_value,
        named.highest_value,
        case
            when named.n_absent > 0
                then
                    named.n_absent || ' of ' || named.n_answered + named.n_absent
                    || ' planned rows have no answer'
            when named.n_scored < named.n_answered then 'no finite report, prior or likelihood'
            when named.estimate is null then 'prior and likelihood do not vary apart'
        end as status_reason
    from named
    inner join metrics
        on
            named.mode_id = metrics.mode_id
            and named.metric = metrics.metric

)

select
    *,
    '{{ metric_sha() }}' as scorer_sha
from finished
