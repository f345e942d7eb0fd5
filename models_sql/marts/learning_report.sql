with

tasks as (

    select * from {{ ref('learning_tasks') }}
    where family_id is not null

),

scores as (

    select * from {{ ref('int_learning_scores') }}
    where
        evaluation_id is not null
        and family_id is not null

),

ceilings as (

    select * from {{ ref('int_learning_ceilings') }}

),

ages as (

    -- whether somebody was asked newer instances of the task than this run was
    select
        run_id,
        task_id,
        item_version < max(item_version) over (partition by task_id) as is_older
    from {{ ref('int_learning_runs') }}

),

evaluations as (

    select
        evaluation_id,
        min(model_id) as model_id,
        min(model_revision) as model_revision,
        min(protocol) as protocol
    from scores
    group by evaluation_id

),

guessed as (

    -- random play of the same instances; the newest run of it stands
    select
        task_id,
        item_run_id,
        value
    from scores
    where
        model_id = 'random'
        and agent_kind = 'policy'
        and value is not null
    qualify
        row_number() over (
            partition by task_id, item_run_id
            order by started_at desc nulls last, run_id asc
        ) = 1

),

planned as (

    -- every task of every category, whether or not the evaluation was asked
    select
        evaluations.evaluation_id,
        evaluations.model_id,
        evaluations.model_revision,
        evaluations.protocol,
        tasks.category,
        tasks.task_id,
        scores.value,
        scores.n_planned as n_instances,
        scores.n_scored,
        scores.scorer_sha,
        scores.evaluation_id is not null as is_asked,
        coalesce(scores.reason, 'not asked') as reason,
        guessed.value as floor,
        ceilings.ceiling,
        ages.is_older
    from evaluations
    cross join tasks
    inner join ceilings on tasks.task_id = ceilings.task_id
    left join scores
        on
            evaluations.evaluation_id = scores.evaluation_id
            and tasks.task_id = scores.task_id
    left join ages
        on
            scores.run_id = ages.run_id
            and scores.task_id = ages.task_id
    left join guessed
        on
            scores.task_id = guessed.task_id
            and scores.item_run_id = guessed.item_run_id

),

totals as (

    -- floor and ceiling are over the same tasks as the score, the ceiling over all where none has one
    select
        evaluation_id,
        min(model_id) as model_id,
        min(model_revision) as model_revision,
        min(protocol) as protocol,
        category,
        count(*) as n_planned,
        count(value) as n_tasks,
        count(*) filter (where value is not null and is_older) as n_older_tasks,
        bool_or(is_asked) as is_asked,
        list(value order by value) filter (where value is not null) as task_values,
        list(floor order by floor) filter (where value is not null and floor is not null) as floors,
        coalesce(
            list(ceiling order by ceiling) filter (where value is not null), list(ceiling order by ceiling)
        ) as ceilings,
        cast(coalesce(sum(n_scored), 0) as bigint) as n_episodes,
        cast(coalesce(sum(n_instances), 0) as bigint) as n_episodes_planned,
        min(task_id) filter (where value is null) as first_unscored,
        arg_min(reason, task_id) filter (where value is null) as first_reason,
        min(task_id) filter (where value is not null and floor is null) as first_without_floor,
        string_agg(distinct scorer_sha, ' ' order by scorer_sha) as rule_shas
    from planned
    group by evaluation_id, category

),

means as (

    select
        *,
        list_aggregate(task_values, 'fsum') / len(task_values) as score_scored,
        list_aggregate(floors, 'fsum') / len(floors) as floor_scored,
        list_aggregate(ceilings, 'fsum') / len(ceilings) as ceiling
    from totals

),

report as (

    -- strict: a score needs every task that the manifest declares
    select
        evaluation_id as run_id,
        model_id,
        model_revision,
        protocol,
        category,
        case when n_tasks = n_planned then score_scored end as score,
        score_scored,
        {{ standard_error('task_values', 'score_scored') }} as se,
        case when len(floors) = n_tasks then floor_scored end as floor,
        case
            when n_tasks = 0 then 'no task has a score'
            when first_without_floor is not null
                then
                    'random play of the same instances of ' || first_without_floor
                    || ' has no score in this lake'
        end as floor_because,
        ceiling,
        n_tasks,
        n_planned,
        n_older_tasks,
        n_episodes,
        n_episodes_planned,
        case
            when not is_asked then 'no task of the category was asked'
            when n_tasks < n_planned
                then
                    n_tasks || ' of ' || n_planned || ' tasks have a score, the first without: '
                    || first_unscored || ': ' || first_reason
        end as reason,
        case
            when rule_shas is not null then sha256(rule_shas || '{{ model_sha() }}')
        end as scorer_sha
    from means

)

select * from report
