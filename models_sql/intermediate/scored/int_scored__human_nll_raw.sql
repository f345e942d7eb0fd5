{% call scored_rule('human_nll_raw', 'outputs') %}

{{ likelihoods_of_people('human_nll_raw', 'logprobs_nats', 'raw_status', 'raw_reason') }}

{% endcall %}
