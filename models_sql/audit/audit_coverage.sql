with

metrics as (

    select * from {{ ref('metrics') }}

),

coverage as (

    select
        run_id,
        model_id,
        mode_id,
        metric,
        n_planned,
        n_scored,
        n_unparsed,
        n_error,
        n_too_long,
        n_missing_option,
        n_scored = n_planned as is_complete,
        n_scored + n_unparsed + n_error + n_too_long + n_missing_option = n_planned as is_balanced,
        reason
    from metrics

)

select * from coverage
