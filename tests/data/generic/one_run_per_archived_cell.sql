{#- Two versions of one archived file in the lake: which one counts would be chance. `coglake verify` names
    the one that is no longer pinned; delete the folders raw/*/run=<its id>. Of runs that say when they
    started, as imported logs do, the newest counts, and of the repeats within one log the first. -#}
{% test one_run_per_archived_cell(model) %}
select
    runs.source_id,
    runs.model_id,
    runs.planned_modes,
    runs.importer_version,
    runs.repeat,
    list(runs.run_id order by runs.run_id) as run_ids
from {{ ref('stg_runs') }} as runs
where
    runs.kind in ('archived', 'human', 'published')
    and runs.started_at is null
group by runs.source_id, runs.model_id, runs.planned_modes, runs.importer_version, runs.repeat
having count(*) > 1
{% endtest %}
