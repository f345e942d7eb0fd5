{{ config(materialized='view') }}

{{ stack([
    ref('int_scored__action_count'),
    ref('int_scored__adjusted_quadratic_score'),
    ref('int_scored__answer_match'),
    ref('int_scored__clipped_report_score'),
    ref('int_scored__credited_choice'),
    ref('int_scored__credited_probability'),
    ref('int_scored__episode_return'),
    ref('int_scored__free_reward'),
    ref('int_scored__human_nll'),
    ref('int_scored__human_nll_raw'),
    ref('int_scored__normalised_likelihood'),
    ref('int_scored__perseveration'),
    ref('int_scored__predicted_choice'),
    ref('int_scored__quadratic_score'),
    ref('int_scored__report_error'),
    ref('int_scored__reported_confidence'),
    ref('int_scored__reported_value'),
    ref('int_scored__set_loss'),
    ref('int_scored__stay'),
    ref('int_scored__verdict'),
]) }}
