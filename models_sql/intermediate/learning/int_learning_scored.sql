{{ config(materialized='view') }}

{{ stack([
    ref('int_learning__active_induction'),
    ref('int_learning__fraction_correct'),
    ref('int_learning__procedural'),
    ref('int_learning__runtime_rl'),
]) }}
