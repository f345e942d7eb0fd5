-- Scores of Learning and their parts that are not from 0 to 1, and scores above what their formula can give.
select
    run_id,
    task_id,
    value_scored,
    ceiling
from {{ ref('learning_scores') }}
where
    value_scored not between 0 and ceiling + 1e-9
    or isnan(value_scored)
    or strict_value not between 0 and 1
    or position_accuracy not between 0 and 1
    or accuracy not between 0 and 1
    or efficiency not between 0 and 1
    or success not between 0 and 1
    or progress not between 0 and 1
    or transfer not between 0 and 1
    or asymptote not between 0 and 1
    or trajectory not between 0 and 1
    or consistency not between 0 and 1
    or se < 0
    or isnan(se)
