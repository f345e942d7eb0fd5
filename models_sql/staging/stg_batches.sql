with

batches as (

    select * exclude (filename) from {{ source('raw', 'batches') }}

)

select * from batches
