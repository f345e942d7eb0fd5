with

known as (
    {{ stack([
        ref('int_uniform__credited_share'),
        ref('int_uniform__log_legal'),
    ]) }}
),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

expectations as (

    select
        modes.mode_id,
        known.value,
        case when known.value is null then 'waits for its items: ' || modes.item_source end as reason,
        '{{ model_sha() }}' as scorer_sha
    from modes
    left join known on modes.mode_id = known.mode_id

)

select * from expectations
