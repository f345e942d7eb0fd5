{#- Rows whose value by the policy count_as_wrong, where what has no score has earned 0, is not the strict
    one although nothing is missing, is above what the scored alone give, or is missing without a reason. The
    scored alone give none where a part of a component has no score yet. -#}
{% test lacking_counts_as_nothing(
    model, value='value', value_scored='value_scored', count_as_wrong='value_count_as_wrong'
) %}
select *
from {{ model }}
where
    {{ count_as_wrong }} <> {{ value }}
    or {{ count_as_wrong }} > {{ value_scored }} * (1 + 1e-12)
    or {{ count_as_wrong }} < 0
    or ({{ count_as_wrong }} is null and ({{ value }} is not null or reason is null))
{% endtest %}
