{#- Building blocks of the item-level rules in models_sql/intermediate/scored. -#}


{#- Wraps one rule. The rule's expanded SQL, with the seeds it reads, is its version: scorer_sha.
    A build adds the rows of new raw parts; a changed rule rescores every part. -#}
{% macro scored_rule() %}
{%- set rule = caller() -%}
{%- set scorer_sha = sha256_of(rule ~ seed_checksums()) -%}
{%- if is_incremental() -%}
    {%- set new_parts = 'part_id not in (select part_id from ' ~ this ~ ')' -%}
{%- else -%}
    {%- set new_parts = 'true' -%}
{%- endif -%}
select
    scored.*,
    '{{ scorer_sha }}' as scorer_sha
from (
{{ rule | replace(is_new_part(), new_parts) }}
) as scored
{% endmacro %}


{#- Stands in an import CTE of a rule; scored_rule() puts the condition in its place after hashing. -#}
{% macro is_new_part() %}true /* new raw parts only */{% endmacro %}


{#- Pre-hook: drops rows of another version of the rule, and of raw parts that are gone. -#}
{% macro forget_other_versions() %}
{%- if execute and is_incremental() -%}
    {%- set found = modules.re.search("'([0-9a-f]{64})' as scorer_sha", model.compiled_code) -%}
    delete from {{ this }}
    where
        scorer_sha <> '{{ found.group(1) }}'
        or part_id not in (select parts.part_id from {{ ref('stg_parts') }} as parts)
{%- endif -%}
{% endmacro %}


{% macro seed_checksums() %}
{%- if execute -%}
    {%- for node_id in model.depends_on.nodes if node_id.startswith('seed.') -%}
        {{ graph.nodes[node_id].checksum.checksum }}
    {%- endfor -%}
{%- endif -%}
{% endmacro %}


{% macro sha256_of(text) %}
{%- if execute -%}
    {{ run_query("select sha256('" ~ (text | replace("'", "''")) ~ "')").columns[0].values()[0] }}
{%- endif -%}
{% endmacro %}


{#- Modes whose metrics use one rule: which raw rows the rule has to score. -#}
{% macro modes_scored_by(rule) %}
    select distinct metrics.mode_id
    from {{ ref('s1cogbench_metrics') }} as metrics
    where metrics.rule = '{{ rule }}'
{% endmacro %}
