"""The answer key: does it say what is credited, and need nobody?"""

import polars as pl
import pytest
from pydantic import ValidationError

from generate.contract import PredictsPeople, Training
from generate.references.answer_key import AnswerKey
from generate.schedule import load_agents

QUESTIONS = pl.DataFrame(
    {
        "item_id": ["q1", "q2", "q3"],
        "legal_options": [["a", "b"], ["a", "b"], ["c", "d"]],
        "credited_options": [["b"], ["a", "b"], None],
    },
    schema_overrides={"credited_options": pl.List(pl.String)},
)


def answers(questions):
    key = AnswerKey()
    estimate = key.fit(Training(questions.clear(), pl.DataFrame()))
    assert estimate.fits == () and estimate.training_set == "nothing fitted"
    return dict(key.predict(estimate, questions).iter_rows())


def test_the_answer_is_what_is_credited():
    assert answers(QUESTIONS) == {"q1": "b", "q2": "a"}


def test_a_question_that_many_were_asked_is_answered_once():
    assert answers(pl.concat([QUESTIONS, QUESTIONS])) == {"q1": "b", "q2": "a"}


def test_it_is_exposed_to_nothing_and_named_in_the_manifest():
    assert isinstance(AnswerKey(), PredictsPeople) and AnswerKey().exposure == "nothing"
    agent = load_agents()["answer_key"]
    assert agent.made() == AnswerKey() and agent.predicts == ("false_belief_qa",)
    assert agent.provenance == "analytic"
    with pytest.raises(ValidationError):
        AnswerKey(alpha=1)
