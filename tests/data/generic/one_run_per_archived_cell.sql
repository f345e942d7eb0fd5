{#- Two versions of one archived file in the lake: which one counts would be chance. `coglake verify` names
    the one that is no longer pinned; delete the folders raw/*/run=<its id>. -#}
{% test one_run_per_archived_cell(model) %}
select
    runs.source_id,
    runs.model_id,
    runs.planned_modes,
    runs.importer_version,
    list(runs.run_id order by runs.run_id) as run_ids
from {{ ref('stg_runs') }} as runs
where runs.kind in ('archived', 'human', 'published')
group by runs.source_id, runs.model_id, runs.planned_modes, runs.importer_version
having count(*) > 1
{% endtest %}
