{#- Building blocks of the exact expectations in models_sql/intermediate/uniform. -#}


{#- Wraps one rule of the uniform agent: one row per item and metric, with the expectation of one of its rows.
    The rule's expanded SQL, with what it reads, is its version. -#}
{% macro uniform_rule(rule_name) %}
{%- set rule = caller() -%}
select
    expectations.*,
    '{{ sha256_of(rule_name ~ rule ~ inputs_of_model()) }}' as scorer_sha
from (
{{ rule }}
) as expectations
{% endmacro %}


{#- A list of numbers among the facts of an item; null if there is none. -#}
{% macro numbers_in_facts(name) -%}
    cast(facts_json -> '$.{{ name }}' as double[])
{%- endmacro %}


{#- Expectations that a relation holds by what defines an item. `keys` maps its columns to expressions over the
    item; an item that it does not know has no expectation. -#}
{% macro expectations_from(known, rule_name, keys, value, is_asked='true') %}
    with

    items as (

        select * from {{ ref('int_uniform_items') }}
        where uniform_rule = '{{ rule_name }}'

    ),

    expectations as (

        select
            items.mode_id,
            items.metric,
            items.item_id,
            items.n_items,
            items.weight,
            items.scale * known.{{ value }} as expectation
        from items
        left join {{ known }} as known
            on {% for column, expression in keys.items() -%}
            {{ 'and ' if not loop.first }}{{ expression }} = known.{{ column }}
            {% endfor %}
        where {{ is_asked }}

    )

    select * from expectations
{% endmacro %}
