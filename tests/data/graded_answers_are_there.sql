{{ config(severity='warn') }}
-- Verdicts on answers that the lake does not hold: whoever counts them scores what nobody said. No score
-- does: a warning.
select
    verdicts.run_id,
    verdicts.mode_id,
    verdicts.item_id,
    verdicts.episode_id,
    verdicts.grader_id
from {{ ref('stg_verdicts') }} as verdicts
left join {{ ref('stg_outputs') }} as outputs
    on
        verdicts.run_id = outputs.run_id
        and verdicts.mode_id = outputs.mode_id
        and verdicts.item_id = outputs.item_id
        and verdicts.episode_id = outputs.episode_id
where
    verdicts.mode_id in (select datasets.dataset_id from {{ ref('cognirank_datasets') }} as datasets)
    and outputs.item_id is null
