with

committed as (
    {{ committed('items') }}
)

select * from committed
