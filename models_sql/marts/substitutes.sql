with

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

cells as (

    select * from {{ ref('int_cells') }}

),

substitutes as (

    select
        cells.*,
        modes.variant_of
    from cells
    inner join modes on cells.mode_id = modes.mode_id
    where modes.variant_of is not null

)

select * from substitutes
