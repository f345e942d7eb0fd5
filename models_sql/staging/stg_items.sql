with

committed as (
    {{ committed('items') }}
),

items as (

    -- the only place that says so: what is for fitting is not asked, and so is neither planned nor scored
    select
        *,
        coalesce(split, 'test') = 'test' as is_asked
    from committed

)

select * from items
