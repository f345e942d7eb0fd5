with

committed as (
    {{ committed('output_options') }}
)

select * from committed
