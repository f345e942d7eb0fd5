{#- Cells whose rows do not add up to the rows that were planned. -#}
{% test balanced_denominator(model) %}
select *
from {{ model }}
where n_scored + n_unparsed + n_error + n_too_long + n_missing_option <> n_planned
{% endtest %}
