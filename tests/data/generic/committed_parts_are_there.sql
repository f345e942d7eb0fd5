{#- Parts that a run or one of its batches committed and that are no longer in the lake. -#}
{% test committed_parts_are_there(model) %}
with

promised as (

    select
        runs.run_id,
        unnest(runs.parts) as sha256
    from {{ ref('stg_runs') }} as runs
    union
    select
        batches.run_id,
        unnest(batches.parts) as sha256
    from {{ ref('stg_batches') }} as batches
    inner join {{ ref('stg_runs') }} as runs on batches.run_id = runs.run_id

)

select
    promised.run_id,
    promised.sha256 as missing_part
from promised
where left(promised.sha256, 16) not in (select parts.part_id from {{ model }} as parts)
{% endtest %}
