{#- Stacks relations of one contract, matching columns by name. -#}
{% macro stack(relations) %}
{%- for relation in relations %}
select * from {{ relation }}
{%- if not loop.last %}
union all by name
{%- endif %}
{%- endfor %}
{% endmacro %}
