with

outputs as (

    select * from {{ ref('stg_outputs') }}

),

items as (

    select * from {{ ref('stg_items') }}

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
        outputs.run_id,
        outputs.mode_id,
        outputs.episode_id,
        cast(items.facts_json ->> '$.prior' as double) as prior_left,
        cast(items.facts_json ->> '$.likelihood' as double) as likelihood_left,
        -- greatest() and least() pass over null, so a missing report is kept apart
        case
            when outputs.response_number is not null
                then greatest(clips.clip_low, least(clips.clip_high, outputs.response_number))
        end as report
    from outputs
    inner join items on outputs.item_id = items.item_id
    inner join clips on outputs.mode_id = clips.mode_id

),

logits as (

    select
        run_id,
        mode_id,
        episode_id,
        ln(prior_left / (1 - prior_left)) as prior_logit,
        ln(likelihood_left / (1 - likelihood_left)) as likelihood_logit,
        ln(report / (1 - report)) as report_logit
    from answers

),

usable as (

    select
        *,
        coalesce(
            isfinite(prior_logit) and isfinite(likelihood_logit) and isfinite(report_logit), false
        ) as is_usable
    from logits

),

episodes as (

    -- normal equations of: report logit = prior weight * prior logit + likelihood weight * likelihood logit
    select
        run_id,
        mode_id,
        episode_id,
        count(*) as n_rows,
        count(*) filter (where is_usable) as n_scored,
        coalesce(sum({{ to_fixed('prior_logit * prior_logit') }}) filter (where is_usable), 0) as pp,
        coalesce(sum({{ to_fixed('prior_logit * likelihood_logit') }}) filter (where is_usable), 0) as pl,
        coalesce(sum({{ to_fixed('power(likelihood_logit, 2)') }}) filter (where is_usable), 0) as ll,
        coalesce(sum({{ to_fixed('prior_logit * report_logit') }}) filter (where is_usable), 0) as pr,
        coalesce(sum({{ to_fixed('likelihood_logit * report_logit') }}) filter (where is_usable), 0) as lr
    from usable
    group by run_id, mode_id, episode_id

),

totals as (

    select
        run_id,
        mode_id,
        cast(sum(n_rows) as bigint) as n_planned,
        cast(sum(n_scored) as bigint) as n_scored,
        count(*) filter (where n_scored > 0) as n_clusters,
        {{ from_fixed('sum(pp)') }} as pp,
        {{ from_fixed('sum(pl)') }} as pl,
        {{ from_fixed('sum(ll)') }} as ll,
        {{ from_fixed('sum(pr)') }} as pr,
        {{ from_fixed('sum(lr)') }} as lr
    from episodes
    group by run_id, mode_id

),

solved as (

    select
        *,
        pp * ll - pl * pl as determinant,
        (ll * pr - pl * lr) / nullif(pp * ll - pl * pl, 0) as prior_weight,
        (pp * lr - pl * pr) / nullif(pp * ll - pl * pl, 0) as likelihood_weight
    from totals

),

scores as (

    -- gradient of one episode: its predictors times its residuals
    select
        solved.run_id,
        solved.mode_id,
        {{ from_fixed('episodes.pr') }}
        - solved.prior_weight * {{ from_fixed('episodes.pp') }}
        - solved.likelihood_weight * {{ from_fixed('episodes.pl') }} as prior_gradient,
        {{ from_fixed('episodes.lr') }}
        - solved.prior_weight * {{ from_fixed('episodes.pl') }}
        - solved.likelihood_weight * {{ from_fixed('episodes.ll') }} as likelihood_gradient,
        solved.pp,
        solved.pl,
        solved.ll,
        solved.determinant
    from episodes
    inner join solved
        on
            episodes.run_id = solved.run_id
            and episodes.mode_id = solved.mode_id
    where
        episodes.n_scored > 0
        and solved.determinant <> 0

),

pulls as (

    select
        run_id,
        mode_id,
        (ll * prior_gradient - pl * likelihood_gradient) / determinant as prior_pull,
        (pp * likelihood_gradient - pl * prior_gradient) / determinant as likelihood_pull
    from scores

),

covariances as (

    select
        run_id,
        mode_id,
        {{ exact_sum('prior_pull * prior_pull') }} as prior_variance,
        {{ exact_sum('prior_pull * likelihood_pull') }} as covariance,
        {{ exact_sum('likelihood_pull * likelihood_pull') }} as likelihood_variance
    from pulls
    group by run_id, mode_id

),

weights as (

    select
        solved.*,
        solved.prior_weight / nullif(solved.likelihood_weight, 0) as weight_ratio,
        case when solved.n_clusters > 1 then solved.n_clusters / (solved.n_clusters - 1) end as correction,
        covariances.prior_variance,
        covariances.covariance,
        covariances.likelihood_variance
    from solved
    left join covariances
        on
            solved.run_id = covariances.run_id
            and solved.mode_id = covariances.mode_id

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
        named.n_planned,
        named.n_scored,
        named.n_planned - named.n_scored as n_unparsed,
        cast(0 as bigint) as n_error,
        cast(0 as bigint) as n_too_long,
        cast(0 as bigint) as n_missing_option,
        named.n_clusters,
        metrics.scale * sqrt(greatest(named.variance, 0) * named.correction) as se,
        case
            when named.n_scored < named.n_planned then 'no finite report, prior or likelihood'
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
    '{{ model_sha() }}' as scorer_sha
from finished
