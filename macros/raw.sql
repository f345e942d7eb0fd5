{#- The first 16 hex digits of a part's content hash, from its name: part-<64 hex digits>.parquet. Counted from
    the end, since a path is long and every row asks. -#}
{% macro part_id(file) -%}
    left(right({{ file }}, 72), 16)
{%- endmacro %}


{#- Rows of a raw table that a run committed; the runs row is written last. -#}
{% macro committed(raw_table) %}
    select
        rows.* exclude (filename),
        {{ part_id('rows.filename') }} as part_id
    from {{ source('raw', raw_table) }} as rows
    where {{ part_id('rows.filename') }} in (select parts.part_id from {{ ref('stg_parts') }} as parts)
{% endmacro %}
