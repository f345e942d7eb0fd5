{{ config(materialized='view') }}

{#- The first trial has none before it, and no expectation. -#}

{% call uniform_rule('set_loss') %}

{{ expectations_from(
    ref('int_uniform_cards'),
    'set_loss',
    {
        'n_legal': "items.n_legal",
        'n_dimensions': "items.n_dimensions",
        'is_switch': "cast(items.facts_json ->> '$.is_rule_switch' as boolean)",
    },
    'set_loss_share',
    is_asked="cast(items.facts_json ->> '$.is_rule_switch' as boolean) is not null",
) }}

{% endcall %}
