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
        case
            when n_infinite > 0 then cast('inf' as double)
            else scale * {{ from_fixed('value_sum_fixed') }} / nullif({{ from_fixed('weight_sum_fixed') }}, 0)
        end as value_scored
    from stacked

)

select * from valued
