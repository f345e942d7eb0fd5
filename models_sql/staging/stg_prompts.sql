with

committed as (
    {{ committed('prompts') }}
),

prompts as (

    -- lakes that were merged may each have kept the same text
    select * from committed
    qualify row_number() over (partition by prompt_sha256 order by run_id, part_id) = 1

)

select * from prompts
