{#- Versions of rules whose rows are partly current and partly replaced, or that two rules share. -#}
{% test one_state_per_version(model) %}
select
    scorer_sha,
    string_agg(distinct rule, ', ' order by rule) as rules,
    count(*) filter (where is_current) as n_current,
    count(*) filter (where not is_current) as n_replaced
from {{ model }}
group by scorer_sha
having min(is_current) <> max(is_current) or min(rule) <> max(rule)
{% endtest %}
