{{ config(severity='warn') }}
-- Questions of CogniRank that a run answered more than once. Its component has no score and says so, and no
-- other run has a part in it: a warning, so that one run that went wrong keeps nobody else's scores back.
select
    run_id,
    mode_id,
    item_id,
    count(*) as n_answers
from {{ ref('stg_outputs') }}
where mode_id in (select datasets.dataset_id from {{ ref('cognirank_datasets') }} as datasets)
group by run_id, mode_id, item_id
having count(*) > 1
