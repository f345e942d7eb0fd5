{{ config(severity='warn') }}
-- Answers of which one version of a grader said several things by one rule: a mean would count them twice.
-- Whoever grades otherwise is another version. The component has no score and says so: a warning.
select
    run_id,
    mode_id,
    item_id,
    episode_id,
    grader_id,
    grader_version,
    answer_rule,
    count(*) as n_verdicts
from {{ ref('stg_verdicts') }}
where mode_id in (select datasets.dataset_id from {{ ref('cognirank_datasets') }} as datasets)
group by run_id, mode_id, item_id, episode_id, grader_id, grader_version, answer_rule
having count(*) > 1
