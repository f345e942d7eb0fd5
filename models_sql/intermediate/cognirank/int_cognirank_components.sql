with

runs as (

    select * from {{ ref('int_cognirank_runs') }}

),

components as (

    select * from {{ ref('cognirank_components') }}

),

datasets as (

    select * from {{ ref('cognirank_datasets') }}

),

metrics as (

    select * from {{ ref('cognirank_metrics') }}

),

items as (

    -- sums of these weights and of what they weigh are exact
    select
        *,
        coalesce(isfinite(weight) and weight between 1e-6 and 1e6, false) as is_weighted
    from {{ ref('int_cognirank_items') }}

),

questions as (

    select * from {{ ref('int_cognirank_questions') }}

),

planned as (

    -- every component that an evaluation has a run of, whether or not the lake holds one of its items
    select
        runs.evaluation_id,
        runs.run_id,
        runs.component_id,
        runs.dataset_id,
        runs.is_stand_in,
        runs.source_id as run_source_id,
        runs.is_of_source,
        datasets.source_id,
        datasets.n_examples,
        components.n_strata,
        components.stratum_fact,
        components.cluster_fact,
        metrics.metric,
        metrics.is_primary,
        metrics.scale
    from runs
    inner join components on runs.component_id = components.component_id
    inner join datasets on runs.dataset_id = datasets.dataset_id
    inner join metrics on runs.component_id = metrics.component_id

),

clusters as (

    -- sums over the items whose values depend on each other; integers, so that any order gives the same bits
    select
        run_id,
        metric,
        stratum,
        cluster_id,
        count(*) as n_items,
        count(*) filter (where status = 'ok') as n_scored,
        sum({{ to_fixed('weight * value') }}) filter (where status = 'ok') as value_sum_fixed,
        sum({{ to_fixed('weight') }}) filter (where status = 'ok') as weight_sum_fixed,
        sum({{ to_fixed('weight') }}) as planned_weight_sum_fixed,
        min(value) filter (where status = 'ok') as lowest_value,
        max(value) filter (where status = 'ok') as highest_value
    from items
    where is_weighted
    group by run_id, metric, stratum, cluster_id

),

strata as (

    select
        run_id,
        metric,
        stratum,
        cast(sum(n_items) as bigint) as n_items,
        count(*) filter (where n_scored > 0) as n_clusters,
        sum(value_sum_fixed) as value_sum_fixed,
        sum(weight_sum_fixed) as weight_sum_fixed,
        sum(planned_weight_sum_fixed) as planned_weight_sum_fixed,
        min(lowest_value) as lowest_value,
        max(highest_value) as highest_value
    from clusters
    group by run_id, metric, stratum

),

residuals as (

    -- how far each cluster pulls the weighted mean of its stratum
    select
        clusters.run_id,
        clusters.metric,
        clusters.stratum,
        strata.n_clusters,
        {{ deviation(
            from_fixed('clusters.value_sum_fixed'),
            from_fixed('clusters.weight_sum_fixed'),
            '(' ~ from_fixed('strata.value_sum_fixed') ~ ' / ' ~ from_fixed('strata.weight_sum_fixed') ~ ')',
        ) }} / {{ from_fixed('strata.weight_sum_fixed') }} as residual
    from clusters
    inner join strata
        on
            clusters.run_id = strata.run_id
            and clusters.metric = strata.metric
            and clusters.stratum is not distinct from strata.stratum
    where clusters.n_scored > 0

),

variances as (

    -- of the linearised weighted mean; one cluster alone says nothing of how clusters vary
    select
        run_id,
        metric,
        stratum,
        power({{ clustered_error('max(n_clusters)', ordered_sum('power(residual, 2)')) }}, 2) as variance
    from residuals
    group by run_id, metric, stratum

),

stratum_means as (

    -- the scale belongs to the numerator: what is a fraction of whole numbers is then rounded once
    select
        strata.run_id,
        strata.metric,
        strata.stratum,
        strata.n_items,
        strata.n_clusters,
        planned.scale * {{ from_fixed('strata.value_sum_fixed') }}
        / nullif({{ from_fixed('strata.weight_sum_fixed') }}, 0) as mean,
        planned.scale * coalesce({{ from_fixed('strata.value_sum_fixed') }}, 0)
        / nullif({{ from_fixed('strata.planned_weight_sum_fixed') }}, 0) as mean_count_as_wrong,
        strata.lowest_value,
        strata.highest_value,
        variances.variance
    from strata
    inner join planned
        on
            strata.run_id = planned.run_id
            and strata.metric = planned.metric
    left join variances
        on
            strata.run_id = variances.run_id
            and strata.metric = variances.metric
            and strata.stratum is not distinct from variances.stratum

),

means as (

    select
        run_id,
        metric,
        count(stratum) as n_strata,
        min(n_items) as n_items_smallest,
        max(n_items) as n_items_largest,
        cast(sum(n_clusters) as bigint) as n_clusters,
        min(n_clusters) as n_clusters_smallest,
        case when count(mean) = count(*) then {{ ordered_sum('mean') }} / count(*) end as mean,
        {{ ordered_sum('mean_count_as_wrong') }} / count(*) as mean_count_as_wrong,
        {{ joint_degrees_of_freedom('variance', '(n_clusters - 1)') }} as degrees_of_freedom,
        min(lowest_value) as lowest_value,
        max(highest_value) as highest_value,
        case
            when count(variance) = count(*) then sqrt({{ ordered_sum('variance') }}) / count(*)
        end as unscaled_se
    from stratum_means
    group by run_id, metric

),

counts as (

    select
        run_id,
        metric,
        count(*) as n_items,
        count(distinct item_id) as n_distinct,
        count(*) filter (where status = 'ok') as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option,
        min(item_id) filter (where status <> 'ok') as first_unscored,
        arg_min(status_reason, item_id) filter (where status <> 'ok') as first_reason,
        count(*) filter (where not is_weighted) as n_unweighted,
        min(item_id) filter (where not is_weighted) as first_unweighted,
        count(*) filter (where stratum is null) as n_without_stratum,
        count(*) filter (where cluster_id is null) as n_without_cluster,
        -- names of raw parts are hashes of their bytes, so two runs with the same were asked the same
        left(sha256(string_agg(distinct part_id, ' ' order by part_id)), 16) as items_id,
        coalesce(min(scorer_sha), '') || coalesce(max(scorer_sha), '') as rule_shas
    from items
    group by run_id, metric

),

foreigners as (

    -- items that go by the name of the data set and are not its own
    select
        dataset_id,
        count(*) as n_foreign,
        min(foreign_because) as foreign_because
    from questions
    where foreign_because is not null
    group by dataset_id

),

strays as (

    select
        outputs.run_id,
        count(*) as n_strays,
        min(outputs.item_id) as first_stray
    from {{ ref('stg_outputs') }} as outputs
    where
        outputs.run_id in (select runs.run_id from runs)
        and (outputs.run_id, outputs.item_id) not in (select (items.run_id, items.item_id) from items)
    group by outputs.run_id

),

gathered as (

    select
        planned.*,
        coalesce(counts.n_items, 0) as n_items,
        coalesce(counts.n_distinct, 0) as n_distinct,
        greatest(coalesce(counts.n_items, 0), planned.n_examples) as n_planned,
        coalesce(counts.n_scored, 0) as n_scored,
        coalesce(counts.n_unparsed, 0) as n_unparsed,
        -- an item that the lake lacks is one that nobody can score
        coalesce(counts.n_error, 0)
        + greatest(planned.n_examples - coalesce(counts.n_items, 0), 0) as n_error,
        coalesce(counts.n_too_long, 0) as n_too_long,
        coalesce(counts.n_missing_option, 0) as n_missing_option,
        counts.first_unscored,
        counts.first_reason,
        counts.n_unweighted,
        counts.first_unweighted,
        counts.n_without_stratum,
        counts.n_without_cluster,
        counts.items_id,
        case
            when counts.rule_shas <> '' then sha256(counts.rule_shas || '{{ model_sha() }}')
        end as scorer_sha,
        means.n_strata as n_strata_found,
        means.n_items_smallest,
        means.n_items_largest,
        coalesce(means.n_clusters, 0) as n_clusters,
        case when means.n_strata = planned.n_strata then means.mean end as mean,
        case when means.n_strata = planned.n_strata then planned.scale * means.unscaled_se end as found_se,
        means.mean_count_as_wrong,
        means.n_clusters_smallest,
        means.degrees_of_freedom,
        means.lowest_value,
        means.highest_value,
        foreigners.n_foreign,
        foreigners.foreign_because,
        coalesce(strays.n_strays, 0) as n_strays,
        strays.first_stray
    from planned
    left join counts
        on
            planned.run_id = counts.run_id
            and planned.metric = counts.metric
    left join means
        on
            planned.run_id = means.run_id
            and planned.metric = means.metric
    left join foreigners on planned.dataset_id = foreigners.dataset_id
    left join strays on planned.run_id = strays.run_id

),

judged as (

    select
        *,
        case
            when not is_of_source
                then 'its run names source ' || coalesce(run_source_id, 'unknown') || ', not ' || source_id
            when n_items < n_examples
                then
                    n_items || ' of ' || n_examples || ' items are in the lake'
                    || coalesce('; ' || n_foreign || ' more go by its name and are ' || foreign_because, '')
            when n_items > n_examples or n_distinct < n_items
                then
                    'the lake holds ' || n_items || ' items, ' || n_distinct || ' of them different, where '
                    || n_examples || ' are declared'
            when n_unweighted > 0
                then
                    n_unweighted || ' of ' || n_planned
                    || ' items have no weight from 0.000001 to 1000000, the first ' || first_unweighted
            when n_without_stratum > 0
                then n_without_stratum || ' of ' || n_planned || ' items do not say their ' || stratum_fact
            when n_without_cluster > 0
                then n_without_cluster || ' of ' || n_planned || ' items do not say their ' || cluster_fact
            when n_strata_found <> n_strata
                then
                    n_strata_found || ' values of ' || coalesce(stratum_fact, 'no part') || ' where '
                    || n_strata || ' are declared'
            when n_items_smallest < n_items_largest
                then
                    'parts by ' || stratum_fact || ' are not of one size: from ' || n_items_smallest || ' to '
                    || n_items_largest || ' items'
        end as fault,
        case
            when n_scored < n_planned
                then
                    n_scored || ' of ' || n_planned || ' items have a score, the first without: '
                    || first_unscored || ': ' || coalesce(first_reason, 'no reason is given')
            when n_strays > 0
                then n_strays || ' answers are to no item of the data set, the first to ' || first_stray
        end as shortfall,
        {{ no_error_because('mean', 'n_clusters_smallest', 'found_se', 'lowest_value', 'highest_value') }}
            as se_reason
    from gathered

),

scores as (

    -- strict: a value needs every item; value_scored is what those with a score give, once every part has
    -- one. By the other policy an item without a score has earned nothing, if the items are those of the
    -- data set
    select
        evaluation_id,
        run_id,
        component_id,
        dataset_id,
        is_stand_in,
        metric,
        is_primary,
        case when fault is null and shortfall is null then mean end as value,
        mean as value_scored,
        case when fault is null then mean_count_as_wrong end as value_count_as_wrong,
        case when se_reason is null then found_se end as se,
        degrees_of_freedom,
        se_reason,
        n_clusters,
        n_planned,
        n_scored,
        n_unparsed,
        n_error,
        n_too_long,
        n_missing_option,
        coalesce(fault, shortfall) as reason,
        items_id,
        scorer_sha
    from judged

)

select * from scores
