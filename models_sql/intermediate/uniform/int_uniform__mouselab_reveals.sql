{{ config(materialized='view') }}

{% call uniform_rule('mouselab_reveals') %}

{{ expectations_from(
    ref('int_uniform_trees'),
    'mouselab_reveals',
    {
        'branching_json': "(items.facts_json ->> '$.branching')",
        'node_values_json': "(items.facts_json ->> '$.node_values')",
    },
    'reveals',
) }}

{% endcall %}
