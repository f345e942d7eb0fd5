with

runs as (

    select * from {{ ref('int_policy_runs') }}
    where
        kind = 'uniform'
        and run_id is not null

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

exact as (

    select * from {{ ref('uniform') }}
    where value is not null

),

metrics as (

    select * from {{ ref('metrics') }}

),

compared as (

    select
        runs.run_id,
        runs.mode_id,
        exact.metric,
        exact.value as exact,
        metrics.value as played,
        exact.unit,
        metrics.se,
        metrics.n,
        metrics.n_clusters,
        metrics.value - exact.value as difference,
        metrics.se_reason,
        (metrics.value - exact.value) / nullif(metrics.se, 0) as z,
        modes.is_played as is_sampled,
        metrics.reason
    from runs
    inner join modes on runs.mode_id = modes.mode_id
    inner join exact on runs.mode_id = exact.mode_id
    left join metrics
        on
            runs.run_id = metrics.run_id
            and runs.mode_id = metrics.mode_id
            and exact.metric = metrics.metric

),

judged as (

    -- where the agent plays, its mean is a sample; where it spreads an answer over what is legal, it is exact
    select
        run_id,
        mode_id,
        metric,
        exact,
        played,
        unit,
        se,
        n,
        n_clusters,
        difference,
        z,
        is_sampled,
        case
            when played is null then null
            when not is_sampled then abs(difference) <= 1e-12
            when se is not null then abs(difference) <= 4 * se
        end as agrees,
        case
            when played is null then coalesce(reason, 'the run holds no rows for ' || metric)
            when is_sampled and se is null then se_reason
        end as reason
    from compared

)

select * from judged
