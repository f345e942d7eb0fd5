-- Questions of Learning that no answer could answer: a kind of match that does not exist, or, where an
-- instance is made here, no right answer in the form of its kind.
select
    item_run_id,
    item_id,
    match_kind,
    right_answer
from {{ ref('int_learning_questions') }}
where
    question > 0
    and (
        match_kind not in ('substring', 'integer', 'exact_nfc', 'sequence')
        or (
            coalesce(right_text = '', right_text is null and coalesce(len(right_elements), 0) = 0)
            and item_run_id in (
                select runs.item_run_id from {{ ref('int_learning_runs') }} as runs
                where runs.family_id is not null
            )
        )
    )
