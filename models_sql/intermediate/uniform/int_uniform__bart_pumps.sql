{{ config(materialized='view') }}

{% call uniform_rule('bart_pumps') %}

{{ expectations_from(
    ref('int_uniform_balloons'),
    'bart_pumps',
    {
        'maximum': "cast(items.facts_json ->> '$.maximum' as integer)",
    },
    'pumps',
) }}

{% endcall %}
