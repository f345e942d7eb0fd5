with

committed as (
    {{ committed('published') }}
)

select * from committed
