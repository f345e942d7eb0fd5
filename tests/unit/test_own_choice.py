"""What people chose as their own prediction: is it repeated, person by person?"""

import polars as pl

from generate.contract import PredictsPeople, Training
from generate.references.own_choice import OwnChoice
from generate.schedule import load_agents

TRIALS = pl.DataFrame(
    {
        "item_id": ["p1/0", "p1/1", "p2/0", "shared", "shared"],
        "participant_id": ["p1", "p1", "p2", "p1", "p2"],
        "response": ["soon", None, "late", "late", "soon"],
        "credited_options": [["late"]] * 5,
    }
)


def test_each_choice_is_repeated():
    own = OwnChoice()
    estimate = own.fit(Training(TRIALS.clear(), pl.DataFrame()))
    assert own.predict(estimate, TRIALS).rows() == [
        ("p1/0", "p1", "soon"),
        ("p2/0", "p2", "late"),
        ("shared", "p1", "late"),
        ("shared", "p2", "soon"),
    ]
    assert estimate.fits == ()


def test_later_and_other_choices_change_nothing():
    own = OwnChoice()
    estimate = own.fit(Training(TRIALS.clear(), pl.DataFrame()))
    before = own.predict(estimate, TRIALS).head(1)
    others = pl.when(pl.int_range(pl.len()) > 0).then(pl.lit("soon")).otherwise("response").alias("response")
    assert own.predict(estimate, TRIALS.with_columns(others)).head(1).equals(before)


def test_it_is_exposed_to_nothing_and_named_in_the_manifest():
    assert isinstance(OwnChoice(), PredictsPeople) and OwnChoice().exposure == "nothing"
    agent = load_agents()["human_later_reward"]
    assert agent.made() == OwnChoice() and agent.provenance == "human"
    assert all(mode.startswith("temporal_discounting_") for mode in agent.predicts)
