with

committed as (
    {{ committed('steps') }}
)

select * from committed
