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
        scores.value_count_as_wrong,
        scores.se,
        scores.se_reason,
        scores.lowest_value,
        scores.highest_value,
        scores.n_clusters,
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
        list(value_count_as_wrong order by value_count_as_wrong) as task_values_count_as_wrong,
        count(value_count_as_wrong) as n_tasks_count_as_wrong,
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
        list_aggregate(task_values_count_as_wrong, 'fsum') / n_planned as score_count_as_wrong,
        list_aggregate(floors, 'fsum') / len(floors) as floor_scored,
        list_aggregate(ceilings, 'fsum') / len(ceilings) as ceiling
    from totals

),

errors as (

    -- tasks are declared and not drawn: the error of their mean is that of their instances
    select
        evaluation_id,
        category,
        cast(sum(n_clusters) as bigint) as n_clusters,
        case when count(se) = count(*) then sqrt({{ ordered_sum('power(se, 2)') }}) / count(*) end as se,
        {{ joint_degrees_of_freedom('power(se, 2)', '(n_clusters - 1)') }} as degrees_of_freedom,
        min(lowest_value) as lowest_value,
        max(highest_value) as highest_value,
        min(task_id) filter (where se is null) as first_without_se,
        arg_min(se_reason, task_id) filter (where se is null) as first_se_reason
    from planned
    where value is not null
    group by evaluation_id, category

),

judged as (

    select
        means.*,
        coalesce(errors.n_clusters, 0) as n_clusters,
        errors.se as found_se,
        errors.degrees_of_freedom,
        coalesce(
            errors.first_without_se || ': ' || errors.first_se_reason,
            {{ no_error_because(
                'means.score_scored',
                'errors.n_clusters',
                'errors.se',
                'errors.lowest_value',
                'errors.highest_value',
            ) }}
        ) as se_reason
    from means
    left join errors
        on
            means.evaluation_id = errors.evaluation_id
            and means.category = errors.category

),

estimated as (

    select
        *,
        case when se_reason is null then found_se end as se
    from judged

),

report as (

    -- strict: a score needs every task that the manifest declares; the other policy needs them to be asked
    select
        evaluation_id as run_id,
        model_id,
        model_revision,
        protocol,
        category,
        case when n_tasks = n_planned then score_scored end as score,
        score_scored,
        case when n_tasks_count_as_wrong = n_planned then score_count_as_wrong end as score_count_as_wrong,
        se,
        {{ interval_end('-', 'score_scored', 'se', 'degrees_of_freedom') }} as ci_low,
        {{ interval_end('+', 'score_scored', 'se', 'degrees_of_freedom') }} as ci_high,
        se_reason,
        n_clusters,
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
    from estimated

)

select * from report
