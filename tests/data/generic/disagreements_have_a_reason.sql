{#- Published scores that ours does not meet, or cannot be compared with, and nobody says why. -#}
{% test disagreements_have_a_reason(model) %}
select *
from {{ model }}
where
    agrees is distinct from true
    and (reason is null or reason = 'unexplained difference')
{% endtest %}
