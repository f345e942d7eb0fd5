-- Questions that a run answered more than once, for one participant or for all and for one of them too: a
-- mean would count them twice. A run that asks again is another run.
select
    answers.run_id,
    answers.mode_id,
    answers.item_id
from {{ ref('int_answers') }} as answers
where
    answers.mode_id in (
        select modes.mode_id from {{ ref('s1cogbench_modes') }} as modes
        where not modes.is_played
    )
group by answers.run_id, answers.mode_id, answers.item_id
having
    count(*) filter (where answers.participant_id is null) > 1
    or (count(*) > count(answers.participant_id) and count(answers.participant_id) > 0)
    or count(answers.participant_id) > count(distinct answers.participant_id)
