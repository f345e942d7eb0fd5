{{ config(materialized='view') }}

{{ stack([
    ref('int_metrics__belief_weights'),
    ref('int_metrics__mean'),
    ref('int_metrics__stay_interaction'),
]) }}
