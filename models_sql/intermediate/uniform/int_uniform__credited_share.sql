with

modes as (

    select * from {{ ref('s1cogbench_modes') }}
    where
        uniform_rule = 'credited_share'
        and declared_n_legal is not null

),

expectations as (

    -- one of k legal options is credited
    select
        mode_id,
        cast(100.0 / declared_n_legal as double) as value
    from modes

)

select * from expectations
