{{ config(materialized='view') }}

with

stacked as (
    {{ stack([
        ref('int_metrics__belief_weights'),
        ref('int_metrics__mean'),
        ref('int_metrics__stay_interaction'),
    ]) }}
),

judged as (

    select
        *,
        {{ no_error_because('value_scored', 'n_clusters', 'found_se', 'lowest_value', 'highest_value') }}
            as se_reason
    from stacked

),

metrics as (

    select
        * exclude (found_se, lowest_value, highest_value),
        case when se_reason is null then found_se end as se
    from judged

)

select * from metrics
