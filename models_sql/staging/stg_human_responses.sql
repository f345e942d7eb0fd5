with

committed as (
    {{ committed('human_responses') }}
)

select * from committed
