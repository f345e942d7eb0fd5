{#- Rows that fulfil a condition that none should. -#}
{% test no_row_where(model, condition) %}
select *
from {{ model }}
where {{ condition }}
{% endtest %}
