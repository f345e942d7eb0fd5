with

rows as (

    select * exclude (filename) from {{ source('raw', 'human_responses') }}

)

select * from rows
