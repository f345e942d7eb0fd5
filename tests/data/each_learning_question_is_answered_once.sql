{{ config(severity='warn') }}
-- Episodes of Learning that were examined more than once, or of which replies are missing or stored twice.
-- They have no score and say so, and no other run has a part in it: a warning, so that one run that went
-- wrong keeps nobody else's scores back.
select
    run_id,
    mode_id,
    episode_id,
    sum(n_examined) as n_examined,
    sum(n_replies) as n_replies,
    max(last_step) + 1 as n_steps
from {{ ref('int_learning_turns') }}
group by run_id, mode_id, episode_id
having sum(n_examined) > 1 or sum(n_replies) <> max(last_step) + 1
