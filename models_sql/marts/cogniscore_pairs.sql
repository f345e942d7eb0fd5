-- sqlfluff:rules:references.keywords:ignore_words:value,label,source,method
with

composites as (

    select * from {{ ref('int_cognirank_composites') }}

),

components as (

    select * from {{ ref('cognirank_components') }}

),

replicates as (

    select * from {{ ref('int_cognirank_replicates') }}

),

items as (

    select * from {{ ref('int_cognirank_items') }}
    where is_primary

),

compared as (

    select
        replicates.evaluation_id,
        composites.model_id,
        composites.deviations,
        composites.generation_id,
        replicates.component_id,
        replicates.dataset_id as datasets,
        replicates.items_id,
        replicates.run_id,
        replicates.value,
        replicates.scores
    from replicates
    inner join composites on replicates.evaluation_id = composites.evaluation_id
    union all by name
    select
        evaluation_id,
        model_id,
        deviations,
        generation_id,
        case when cogniscore is null then 'cogniscore_standin' else 'cogniscore' end as component_id,
        datasets,
        items_id,
        coalesce(cogniscore, cogniscore_standin) as value,
        replicates as scores
    from composites
    where replicates is not null

),

differing as (

    -- only what was asked the same items
    select
        one.evaluation_id as run_id,
        another.evaluation_id as other_run_id,
        one.model_id,
        another.model_id as other_model_id,
        one.component_id,
        one.datasets,
        one.run_id as component_run_id,
        another.run_id as other_component_run_id,
        (one.deviations is not distinct from another.deviations)
        and (one.generation_id is not distinct from another.generation_id) as is_same_protocol,
        one.value - another.value as difference,
        {{ paired_differences('one.scores', 'another.scores') }} as differences
    from compared as one
    inner join compared as another
        on
            one.component_id = another.component_id
            and one.datasets = another.datasets
            and one.items_id = another.items_id
            and one.evaluation_id < another.evaluation_id

),

pairs as (

    select
        * exclude (differences),
        {{ bootstrap_p('differences') }} as bootstrap_p,
        {{ percentile('differences', 0.025) }} as ci_low,
        {{ percentile('differences', 0.975) }} as ci_high
    from differing

),

either_or as (

    -- runs whose every item is right or wrong, counts once and depends on no other
    select items.run_id
    from items
    inner join components on items.component_id = components.component_id
    where components.cluster_fact is null
    group by items.run_id
    having
        bool_and(items.value in (0, 1))
        and min(items.weight) = max(items.weight)

),

discordances as (

    select
        pairs.component_run_id,
        pairs.other_component_run_id,
        count(*) as n_items,
        count(*) filter (where one.value > another.value) as n_more,
        count(*) filter (where one.value < another.value) as n_less
    from pairs
    inner join items as one on pairs.component_run_id = one.run_id
    inner join items as another
        on
            pairs.other_component_run_id = another.run_id
            and one.item_id = another.item_id
    group by pairs.component_run_id, pairs.other_component_run_id

),

composite_discordances as (

    select
        pairs.run_id,
        pairs.other_run_id,
        cast(sum(discordances.n_items) as bigint) as n_items,
        cast(sum(discordances.n_more + discordances.n_less) as bigint) as n_discordant
    from pairs
    inner join discordances
        on
            pairs.component_run_id = discordances.component_run_id
            and pairs.other_component_run_id = discordances.other_component_run_id
    group by pairs.run_id, pairs.other_run_id

),

tested as (

    select
        pairs.run_id,
        pairs.other_run_id,
        pairs.model_id,
        pairs.other_model_id,
        pairs.component_id,
        pairs.datasets,
        pairs.is_same_protocol,
        pairs.difference,
        coalesce(
            pairs.component_run_id in (select either_or.run_id from either_or)
            and pairs.other_component_run_id in (select either_or.run_id from either_or),
            false
        ) as is_either_or,
        pairs.bootstrap_p,
        pairs.ci_low,
        pairs.ci_high,
        coalesce(discordances.n_items, composite_discordances.n_items) as n_items,
        coalesce(
            discordances.n_more + discordances.n_less, composite_discordances.n_discordant
        ) as n_discordant,
        least(discordances.n_more, discordances.n_less) as n_fewer
    from pairs
    left join discordances
        on
            pairs.component_run_id = discordances.component_run_id
            and pairs.other_component_run_id = discordances.other_component_run_id
    left join composite_discordances
        on
            pairs.run_id = composite_discordances.run_id
            and pairs.other_run_id = composite_discordances.other_run_id

),

judged as (

    select
        run_id,
        other_run_id,
        model_id,
        other_model_id,
        component_id,
        datasets,
        is_same_protocol,
        difference,
        case when is_either_or then 'exact McNemar' else 'paired bootstrap' end as method,
        case
            when is_either_or then {{ mcnemar_p('n_fewer', 'n_discordant') }}
            else bootstrap_p
        end as p_value,
        ci_low,
        ci_high,
        n_items,
        n_discordant
    from tested

)

select * from judged
