with

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

cells as (

    select * from {{ ref('int_cells') }}

),

table_3 as (

    -- other data than those of the published row never fill its cell
    select cells.*
    from cells
    inner join modes on cells.mode_id = modes.mode_id
    where modes.variant_of is null

)

select * from table_3
