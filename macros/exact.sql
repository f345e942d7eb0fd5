{#- Sums that do not depend on the order of their rows, in two kinds.

    Adding doubles in another order gives other last digits, so a sum over threads differs between
    builds. Item values: multiples of 2^-60 are integers after scaling, and integers add exactly, so that
    parts of a sum can be stored and combined. Few values of any size, such as squares: added in the order of
    their size, with a compensated sum. -#}


{#- An additive part: combine parts with sum(), read them with from_fixed(). Values are finite and at most 1e15. -#}
{% macro to_fixed(value) -%}
    cast({{ value }} * cast(1152921504606846976.0 as double) as hugeint)
{%- endmacro %}


{% macro from_fixed(value) -%}
    (cast({{ value }} as double) / cast(1152921504606846976.0 as double))
{%- endmacro %}


{% macro ordered_sum(value) -%}
    list_aggregate(list({{ value }} order by {{ value }}), 'fsum')
{%- endmacro %}
