with

committed as (
    {{ committed('fits') }}
)

select * from committed
