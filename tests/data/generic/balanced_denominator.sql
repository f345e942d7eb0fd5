{#- Rows of a mart whose planned rows are not the scored ones and those of the four ways to have no score. -#}
{% test balanced_denominator(model) %}
select *
from {{ model }}
where n_scored + n_unparsed + n_error + n_too_long + n_missing_option <> n_planned
{% endtest %}
