with

rows as (

    select * exclude (filename) from {{ source('raw', 'items') }}

)

select * from rows
