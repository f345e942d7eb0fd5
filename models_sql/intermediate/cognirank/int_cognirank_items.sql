with

runs as (

    select * from {{ ref('int_cognirank_runs') }}
    where is_of_source

),

questions as (

    select * from {{ ref('int_cognirank_questions') }}
    where foreign_because is null

),

metrics as (

    select * from {{ ref('cognirank_metrics') }}

),

scored as (

    -- one row each, unless something was answered or graded twice
    select
        run_id,
        mode_id,
        item_id,
        episode_id,
        rule,
        readout,
        count(*) as n_rows,
        min(value) as value,
        min(status) as status,
        min(status_reason) as status_reason,
        min(scorer_sha) as scorer_sha
    from {{ ref('int_scored') }}
    where
        run_id in (select runs.run_id from runs)
        and rule in (select metrics.rule from metrics)
    group by run_id, mode_id, item_id, episode_id, rule, readout

),

answered as (

    select
        run_id,
        item_id,
        count(*) as n_answers,
        min(episode_id) as episode_id,
        min(status) as status,
        min(status_reason) as status_reason
    from {{ ref('stg_outputs') }}
    where run_id in (select runs.run_id from runs)
    group by run_id, item_id

),

planned as (

    -- a run names the imports whose items it was asked; if it names none, these are all that the lake holds
    select
        runs.evaluation_id,
        runs.run_id,
        runs.component_id,
        runs.dataset_id,
        metrics.metric,
        metrics.is_primary,
        metrics.rule,
        metrics.readout,
        metrics.grader_id,
        metrics.grader_version,
        questions.item_id,
        questions.part_id,
        questions.stratum,
        questions.cluster_id,
        questions.weight
    from runs
    inner join questions
        on
            runs.dataset_id = questions.dataset_id
            and (runs.item_run_ids is null or list_contains(runs.item_run_ids, questions.item_run_id))
    inner join metrics on runs.component_id = metrics.component_id

),

matched as (

    -- a score is one of the answer that is there, and of the data set's own question
    select
        planned.*,
        coalesce(scored.n_rows, 0) as n_rows,
        scored.value as value_found,
        scored.status as status_found,
        scored.status_reason as reason_found,
        scored.scorer_sha,
        coalesce(answered.n_answers, 0) as n_answers,
        answered.status as answer_status,
        answered.status_reason as answer_reason,
        coalesce(isfinite(scored.value) and scored.value between 0 and 1, false) as is_share
    from planned
    left join answered
        on
            planned.run_id = answered.run_id
            and planned.item_id = answered.item_id
    left join scored
        on
            planned.run_id = scored.run_id
            and planned.dataset_id = scored.mode_id
            and planned.item_id = scored.item_id
            and answered.episode_id is not distinct from scored.episode_id
            and planned.rule = scored.rule
            and planned.readout is not distinct from scored.readout

),

settled as (

    -- whatever is said of an answer that never was one, it has no score
    select
        * exclude (answer_status, answer_reason),
        coalesce(answer_status <> 'ok' and (n_rows = 0 or status_found = 'ok'), false) as is_failed,
        answer_status,
        coalesce(answer_reason, answer_status) as answer_reason
    from matched

),

judged as (

    -- every question is a row, whatever became of it; every value is a share of the credit, from 0 to 1
    select
        evaluation_id,
        run_id,
        component_id,
        dataset_id,
        metric,
        is_primary,
        item_id,
        part_id,
        stratum,
        cluster_id,
        weight,
        case
            when n_answers = 1 and not is_failed and n_rows = 1 and status_found = 'ok' and is_share
                then value_found
        end as value,
        case
            when n_answers <> 1 then 'error'
            when is_failed then answer_status
            when n_rows <> 1 then 'error'
            when status_found = 'ok' and not is_share then 'error'
            else status_found
        end as status,
        case
            when n_answers = 0 then 'no answer'
            when n_answers > 1 then 'answered ' || n_answers || ' times'
            when is_failed then answer_reason
            when n_rows = 0 and grader_id is not null
                then 'no verdict of ' || grader_id || ' ' || grader_version || ' by ' || readout
            when n_rows = 0 then 'the answer has no score'
            when n_rows > 1 then 'scored ' || n_rows || ' times'
            when status_found <> 'ok' then coalesce(reason_found, status_found)
            when not is_share
                then 'the score is ' || coalesce(cast(value_found as varchar), 'null') || ', not from 0 to 1'
        end as status_reason,
        scorer_sha
    from settled

)

select * from judged
