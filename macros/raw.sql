{#- The first 16 hex digits of a part's content hash, from its file name. -#}
{% macro part_id(file) -%}
    left(split_part({{ file }}, '/part-', -1), 16)
{%- endmacro %}


{#- Rows of a raw table that belong to a committed run; the runs row is written last. -#}
{% macro committed(raw_table) %}
    select
        rows.* exclude (filename),
        {{ part_id('rows.filename') }} as part_id
    from {{ source('raw', raw_table) }} as rows
    where rows.run_id in (select runs.run_id from {{ source('raw', 'runs') }} as runs)
{% endmacro %}
