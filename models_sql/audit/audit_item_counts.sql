with

audit as (

    select * from {{ ref('int_item_counts') }}

)

select * from audit
