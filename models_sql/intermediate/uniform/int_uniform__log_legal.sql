with

modes as (

    select * from {{ ref('s1cogbench_modes') }}
    where
        uniform_rule = 'log_legal'
        and declared_n_legal is not null

),

expectations as (

    -- a uniform agent gives every legal option 1/k, so each response costs ln k nats
    select
        mode_id,
        cast(ln(declared_n_legal) as double) as value
    from modes

)

select * from expectations
