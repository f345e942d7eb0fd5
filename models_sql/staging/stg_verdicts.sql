with

committed as (
    {{ committed('verdicts') }}
)

select * from committed
