with

runs as (

    select * from {{ ref('int_cognirank_runs') }}

),

components as (

    select * from {{ ref('cognirank_components') }}

),

scores as (

    select * from {{ ref('int_cognirank_components') }}
    where is_primary

),

replicates as (

    select * from {{ ref('int_cognirank_replicates') }}

),

weights as (

    -- what the manifest declares must be a mean, of all components and of nothing else
    select
        cast(sum(weight_numerator) as bigint) as numerator_sum,
        min(weight_denominator) as denominator,
        case
            when min(weight_denominator) < max(weight_denominator)
                then 'the weights have several denominators'
            when sum(weight_numerator) <> min(weight_denominator)
                then
                    'the weights add up to ' || sum(weight_numerator) || '/' || min(weight_denominator)
                    || ', not to one'
        end as reason
    from components

),

evaluations as (

    select
        evaluation_id,
        min(model_id) as model_id,
        min(model_revision) as model_revision,
        min(generation_id) as generation_id,
        min(context_effective_tokens) as context_tokens,
        bool_or(is_context_extension) as is_context_extension,
        bool_or(trust_remote_code) as trust_remote_code,
        nullif(
            array_to_string(list_sort(list_distinct(flatten(list(deviations)))), '; '), ''
        ) as deviations,
        case
            when
                len(list_distinct(list({
                    'model_id': model_id,
                    'model_revision': model_revision,
                    'engine': engine,
                    'engine_version': engine_version,
                    'dtype': dtype,
                    'trust_remote_code': trust_remote_code,
                    'generation_id': generation_id
                }))) > 1
                then 'its runs are not of one model under one protocol'
        end as reason
    from runs
    group by evaluation_id

),

parts as (

    -- every declared component of every evaluation, whether or not it was run
    select
        evaluations.evaluation_id,
        components.component_id,
        components.display_order,
        components.weight_numerator,
        scores.dataset_id,
        scores.items_id,
        scores.value,
        scores.se,
        coalesce(scores.is_stand_in, false) as is_stand_in,
        components.component_id || ': ' || case
            when scores.run_id is null then 'no run'
            when scores.is_stand_in
                then 'a stand-in (' || scores.dataset_id || ')' || coalesce(', ' || scores.reason, '')
            else scores.reason
        end as shortfall
    from evaluations
    cross join components
    left join scores
        on
            evaluations.evaluation_id = scores.evaluation_id
            and components.component_id = scores.component_id

),

totals as (

    select
        evaluation_id,
        count(*) = count(value) as is_complete,
        bool_or(is_stand_in) as is_any_stand_in,
        {{ ordered_sum('weight_numerator * value') }} as weighted_sum,
        -- components share no item: their errors are independent. Where all are 0 and values differ, items do
        case
            when count(se) = count(*) and (max(se) > 0 or min(value) = max(value))
                then sqrt({{ ordered_sum('power(weight_numerator * se, 2)') }})
        end as weighted_error,
        list(shortfall order by display_order) filter (
            where shortfall is not null
        ) as shortfalls,
        string_agg(dataset_id, ', ' order by display_order) filter (
            where is_stand_in
        ) as standin_datasets,
        string_agg(dataset_id, ', ' order by display_order) as datasets,
        string_agg(items_id, ' ' order by display_order) as items_id
    from parts
    group by evaluation_id

),

judged as (

    select
        evaluations.*,
        totals.standin_datasets,
        totals.datasets,
        totals.items_id,
        totals.is_any_stand_in,
        totals.weighted_sum / weights.denominator as composite,
        totals.weighted_error / weights.denominator as composite_se,
        totals.is_complete and evaluations.reason is null and weights.reason is null as is_composite,
        nullif(
            array_to_string(list_concat([weights.reason, evaluations.reason], totals.shortfalls), '; '), ''
        ) as withheld_because
    from evaluations
    inner join totals on evaluations.evaluation_id = totals.evaluation_id
    cross join weights

),

composed as (

    select evaluation_id from judged
    where is_composite

),

weighted as (

    select
        replicates.evaluation_id,
        components.weight_numerator,
        unnest(replicates.scores) as score,
        unnest(range(len(replicates.scores))) as replicate
    from replicates
    inner join components on replicates.component_id = components.component_id
    where replicates.evaluation_id in (select composed.evaluation_id from composed)

),

replicate_sums as (

    -- components are drawn apart from each other, since they share no item
    select
        evaluation_id,
        replicate,
        {{ ordered_sum('weight_numerator * score') }} as weighted_sum
    from weighted
    group by evaluation_id, replicate

),

replicate_composites as (

    select
        replicate_sums.evaluation_id,
        list(replicate_sums.weighted_sum / weights.denominator order by replicate_sums.replicate) as scores
    from replicate_sums
    cross join weights
    group by replicate_sums.evaluation_id

),

composites as (

    select
        judged.evaluation_id,
        judged.model_id,
        judged.model_revision,
        judged.generation_id,
        case
            when judged.is_composite and not judged.is_any_stand_in then judged.composite
        end as cogniscore,
        judged.withheld_because,
        case
            when judged.is_composite and judged.is_any_stand_in then judged.composite
        end as cogniscore_standin,
        judged.standin_datasets,
        judged.datasets,
        judged.items_id,
        judged.context_tokens,
        judged.is_context_extension,
        judged.deviations,
        judged.trust_remote_code,
        case when judged.is_composite then judged.composite_se end as se,
        {{ percentile('replicate_composites.scores', 0.025) }} as ci_low,
        {{ percentile('replicate_composites.scores', 0.975) }} as ci_high,
        replicate_composites.scores as replicates
    from judged
    left join replicate_composites on judged.evaluation_id = replicate_composites.evaluation_id

)

select * from composites
