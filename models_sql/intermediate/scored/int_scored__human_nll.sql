{% call scored_rule('human_nll', 'outputs') %}

{{ likelihoods_of_people('human_nll', 'renormalised_nats') }}

{% endcall %}
