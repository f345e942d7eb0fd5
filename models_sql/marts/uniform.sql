with

expectations as (

    select * from {{ ref('int_uniform') }}

),

labelled as (

    select
        mode_id,
        metric,
        value,
        unit,
        n_items,
        reason,
        scorer_sha
    from expectations

)

select * from labelled
