{#- Sums that do not depend on the order of their rows.

    Adding doubles in another order gives other last digits, so a sum over threads differs between
    builds. Multiples of 2^-60 are integers after scaling, and integers add exactly. -#}


{#- An additive part: combine parts with sum(), read them with from_fixed(). Values are finite and below 1e18. -#}
{% macro to_fixed(value) -%}
    cast({{ value }} * cast(1152921504606846976.0 as double) as hugeint)
{%- endmacro %}


{% macro from_fixed(value) -%}
    (cast({{ value }} as double) / cast(1152921504606846976.0 as double))
{%- endmacro %}


{% macro exact_sum(value) -%}
    {{ from_fixed('sum(' ~ to_fixed(value) ~ ')') }}
{%- endmacro %}
