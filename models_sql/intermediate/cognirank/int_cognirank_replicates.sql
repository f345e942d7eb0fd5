with

scores as (

    select * from {{ ref('int_cognirank_components') }}
    where
        is_primary
        and value is not null

),

metrics as (

    select * from {{ ref('cognirank_metrics') }}
    where is_primary

),

items as (

    select * from {{ ref('int_cognirank_items') }}
    where
        is_primary
        and run_id in (select scores.run_id from scores)

),

clusters as (

    select
        run_id,
        component_id,
        dataset_id,
        stratum,
        cluster_id,
        sum({{ to_fixed('weight * value') }}) as value_sum_fixed,
        sum({{ to_fixed('weight') }}) as weight_sum_fixed
    from items
    group by run_id, component_id, dataset_id, stratum, cluster_id

),

strata as (

    -- clusters of one stratum as lists in one order, so that a draw means the same cluster in every run
    select
        clusters.run_id,
        clusters.dataset_id,
        clusters.stratum,
        metrics.scale,
        count(*) as n_clusters,
        list(clusters.value_sum_fixed order by clusters.cluster_id) as value_sums_fixed,
        list(clusters.weight_sum_fixed order by clusters.cluster_id) as weight_sums_fixed,
        min(clusters.weight_sum_fixed) = max(clusters.weight_sum_fixed) as is_evenly_weighted
    from clusters
    inner join metrics on clusters.component_id = metrics.component_id
    group by clusters.run_id, clusters.dataset_id, clusters.stratum, metrics.scale

),

drawn as (

    select distinct
        dataset_id,
        stratum,
        n_clusters
    from strata

),

replicates as (

    -- common to all runs of a data set: what differs between two of them is then the models alone
    select
        drawn.dataset_id,
        drawn.stratum,
        drawn.n_clusters,
        numbers.replicate,
        {{ draws(
            "'cognirank/' || drawn.dataset_id || '/' || drawn.stratum || '/' || numbers.replicate",
            'drawn.n_clusters',
        ) }} as draws
    from drawn
    cross join range({{ n_replicates() }}) as numbers (replicate)

),

sums as (

    select
        strata.run_id,
        strata.scale,
        replicates.replicate,
        list_sum(list_select(strata.value_sums_fixed, replicates.draws)) as value_sum_fixed,
        case
            when strata.is_evenly_weighted then strata.n_clusters * strata.weight_sums_fixed[1]
            else list_sum(list_select(strata.weight_sums_fixed, replicates.draws))
        end as weight_sum_fixed
    from strata
    inner join replicates
        on
            strata.dataset_id = replicates.dataset_id
            and strata.stratum = replicates.stratum
            and strata.n_clusters = replicates.n_clusters

),

replicate_means as (

    select
        run_id,
        replicate,
        {{ ordered_sum('scale * ' ~ from_fixed('value_sum_fixed') ~ ' / ' ~ from_fixed('weight_sum_fixed')) }}
        / count(*) as score
    from sums
    group by run_id, replicate

),

replicate_scores as (

    select
        scores.evaluation_id,
        scores.component_id,
        replicate_means.run_id,
        scores.dataset_id,
        scores.items_id,
        scores.value,
        list(replicate_means.score order by replicate_means.replicate) as scores
    from replicate_means
    inner join scores on replicate_means.run_id = scores.run_id
    group by
        scores.evaluation_id,
        scores.component_id,
        replicate_means.run_id,
        scores.dataset_id,
        scores.items_id,
        scores.value

)

select * from replicate_scores
