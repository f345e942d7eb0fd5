-- Runs whose every report lies inside the clip, and whose score and error over what was answered still do not
-- add up to 1.
with

strict as (

    select
        run_id,
        mode_id,
        value_scored
    from {{ ref('metrics') }}
    where metric = 'posterior_mae'

),

clipped as (

    select
        run_id,
        mode_id,
        value_scored
    from {{ ref('metrics') }}
    where metric = 'posterior_score'

),

clips as (

    select
        mode_id,
        clip_low,
        clip_high
    from {{ ref('s1cogbench_metrics') }}
    where metric = 'posterior_score'

),

runs_inside as (

    select
        answers.run_id,
        answers.mode_id
    from {{ ref('int_answers') }} as answers
    inner join clips on answers.mode_id = clips.mode_id
    group by answers.run_id, answers.mode_id
    having bool_and(
            answers.status = 'ok' and answers.response_number between clips.clip_low and clips.clip_high
        )

)

select
    runs_inside.run_id,
    strict.value_scored as posterior_mae,
    clipped.value_scored as posterior_score
from runs_inside
left join strict
    on
        runs_inside.run_id = strict.run_id
        and runs_inside.mode_id = strict.mode_id
left join clipped
    on
        runs_inside.run_id = clipped.run_id
        and runs_inside.mode_id = clipped.mode_id
where not coalesce(abs(strict.value_scored + clipped.value_scored - 1) <= 1e-12, false)
