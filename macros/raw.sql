{#- The first 16 hex digits of a part's content hash, from its name: part-<64 hex digits>.parquet. Counted from
    the end, since a path is long and every row asks. -#}
{% macro part_id(file) -%}
    left(right({{ file }}, 72), 16)
{%- endmacro %}


{#- The run that a part lies under: .../run=<run id>/part-<hash>.parquet. -#}
{% macro part_run(file) -%}
    regexp_extract({{ file }}, 'run=([^/]+)/part-[^/]+$', 1)
{%- endmacro %}


{#- Rows of a raw table that a run committed; the runs row is written last. A part that was copied under
    another run is none of that run's. -#}
{% macro committed(raw_table) %}
    select
        rows.* exclude (filename),
        {{ part_id('rows.filename') }} as part_id
    from {{ source('raw', raw_table) }} as rows
    where
        ({{ part_run('rows.filename') }}, {{ part_id('rows.filename') }}) in (
            select (parts.run_id, parts.part_id) from {{ ref('stg_parts') }} as parts
        )
{% endmacro %}
