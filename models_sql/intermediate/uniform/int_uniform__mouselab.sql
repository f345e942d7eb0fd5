{{ config(materialized='view') }}

{% call uniform_rule('mouselab') %}

{{ expectations_from(
    ref('int_uniform_trees'),
    'mouselab',
    {
        'branching_json': "(items.facts_json ->> '$.branching')",
        'node_values_json': "(items.facts_json ->> '$.node_values')",
    },
    'return_points',
) }}

{% endcall %}
