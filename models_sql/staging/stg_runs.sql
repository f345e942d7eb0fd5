with

runs as (

    select * exclude (filename) from {{ source('raw', 'runs') }}

)

select * from runs
