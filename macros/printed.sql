{#- A value as Table 3 prints it: the double with a fixed number of decimals, rounded as C's printf does. -#}
{% macro printed(value, decimals) -%}
    case
        when {{ value }} = cast('inf' as double) then '+∞'
        when isfinite({{ value }}) then format('{:.' || {{ decimals }} || 'f}', {{ value }})
    end
{%- endmacro %}
