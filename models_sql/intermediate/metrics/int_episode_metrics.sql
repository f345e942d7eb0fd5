{{ config(materialized='view') }}

with

stacked as (
    {{ stack([
        ref('int_episode_metrics__mean'),
        ref('int_episode_metrics__trimmed_mean'),
    ]) }}
),

valued as (

    select
        *,
        scale * {{ from_fixed('value_sum_fixed') }} / nullif(n_scored, 0) as value_scored
    from stacked

)

select * from valued
