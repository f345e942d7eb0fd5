{{ config(materialized='view') }}

{% call uniform_rule('bart') %}

{{ expectations_from(
    ref('int_uniform_balloons'),
    'bart',
    {
        'maximum': "cast(items.facts_json ->> '$.maximum' as integer)",
    },
    'reward_points',
) }}

{% endcall %}
