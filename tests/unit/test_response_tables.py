"""Response tables: is a response predicted from those of others alone?"""

import json
from math import log

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from pytest import approx

from generate.contract import PredictsPeople, Training
from generate.references.response_tables import LeaveOneOut
from generate.schedule import load_agents


def trials(*rows, options=("a", "b", "c")):
    """Each row is (item, participant, response)."""
    return pl.DataFrame(
        [
            {"item_id": item, "participant_id": who, "legal_options": list(options), "response": response}
            for item, who, response in rows
        ],
        schema={
            "item_id": pl.String,
            "participant_id": pl.String,
            "legal_options": pl.List(pl.String),
            "response": pl.String,
        },
    )


def predictions(frame, **settings):
    reference = LeaveOneOut(**settings)
    nothing = Training(frame.clear(), pl.DataFrame())
    found = reference.predict(reference.fit(nothing), frame)
    return {(row["item_id"], row["participant_id"]): row["logprobs_nats"] for row in found.to_dicts()}


def test_each_count_of_others_gets_one_more():
    found = predictions(trials(("q", "1", "a"), ("q", "2", "a"), ("q", "3", "b"), ("r", "1", "c")))
    # of the two others, one chose a and one b; three options, one added to each
    assert found["q", "1"] == approx([log(2 / 5), log(2 / 5), log(1 / 5)])
    assert found["q", "3"] == approx([log(3 / 5), log(1 / 5), log(1 / 5)])
    # nobody else was asked
    assert found["r", "1"] == approx([log(1 / 3)] * 3)


def test_added_counts_are_a_setting():
    found = predictions(trials(("q", "1", "a"), ("q", "2", "a")), added_count=0.5)
    assert found["q", "1"] == approx([log(1.5 / 2.5), log(0.5 / 2.5), log(0.5 / 2.5)])
    with pytest.raises(ValidationError):
        LeaveOneOut(added_count=0)


def test_options_keep_the_order_of_the_item():
    frame = trials(("q", "1", "c"), ("q", "2", "c"), options=("c", "b", "a"))
    assert predictions(frame)["q", "1"][0] == approx(log(2 / 4))


def test_the_own_response_and_other_questions_say_nothing():
    rows = [("q", "1", "a"), ("q", "2", "b"), ("q", "3", "b"), ("r", "1", "a"), ("r", "2", "a")]
    before = predictions(trials(*rows))
    after = predictions(trials(("q", "1", "c"), *rows[1:]))
    assert after["q", "1"] == before["q", "1"]
    assert after["r", "1"] == before["r", "1"] and after["r", "2"] == before["r", "2"]
    assert after["q", "2"] != before["q", "2"]


def test_whoever_did_not_answer_counts_in_no_table():
    rows = [("q", "1", "a"), ("q", "2", "b")]
    found = predictions(trials(*rows, ("q", "3", None), ("q", "4", "z"), ("s", None, None)))
    alone = predictions(trials(*rows))
    assert found["q", "1"] == alone["q", "1"] and found["q", "2"] == alone["q", "2"]
    # they are predicted like any other, from both
    assert found["q", "3"] == found["q", "4"] == approx([log(2 / 5), log(2 / 5), log(1 / 5)])
    assert "s" not in {item for item, _ in found}


def test_probabilities_of_many_others_are_those_that_they_choose_by():
    rng = np.random.default_rng(1)
    chances = [0.7, 0.25, 0.05]
    chosen = rng.choice(["a", "b", "c"], size=20_000, p=chances)
    found = predictions(trials(*(("q", str(who), str(one)) for who, one in enumerate(chosen))))
    probabilities = np.exp(list(found.values()))
    assert probabilities.sum(axis=1) == approx(1)
    # three standard errors of a share
    assert probabilities.mean(axis=0) == approx(chances, abs=3 * (0.25 / 20_000) ** 0.5)


def test_it_learns_nothing_and_is_declared_so():
    agent = load_agents()["leave_one_out"]
    reference = agent.made()
    assert isinstance(reference, PredictsPeople) and reference.exposure == "other_participants"
    assert reference.added_count == 1 and agent.provenance == "human"
    estimate = reference.fit(Training(trials(), pl.DataFrame()))
    assert estimate.fits == () and estimate.training_set == "nothing fitted"
    assert json.loads(json.dumps(list(agent.predicts))) == ["politeness", "pragmatic_interpretation"]


def test_no_trials_give_no_predictions():
    assert predictions(trials()) == {}
