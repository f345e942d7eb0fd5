with

rows as (

    select * exclude (filename) from {{ source('raw', 'published') }}

)

select * from rows
