with

committed as (
    {{ committed('outputs') }}
)

select * from committed
