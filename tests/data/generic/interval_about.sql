{#- Intervals that do not hold the value that they are of, reach further to one side than to the other, or
    are no wider than the normal distribution would have them, but for last digits. -#}
{% test interval_about(model, value='value_scored') %}
select *
from {{ model }}
where
    se is not null
    and (
        n_clusters < 2
        or se < 0
        or not coalesce(isfinite(se) and isfinite(ci_low) and isfinite(ci_high), false)
        or {{ value }} not between ci_low and ci_high
        or ci_high - ci_low < 2 * 1.9599639 * se - 1e-12 * (abs(ci_low) + abs(ci_high))
        or abs((ci_low + ci_high) / 2 - {{ value }}) > 1e-12 * (abs(ci_low) + abs(ci_high))
    )
{% endtest %}
