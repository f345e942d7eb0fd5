"""The conditional response matrix: does it recover what people do, from training participants alone?"""

import json
import math

import numpy as np
import polars as pl
import pytest

from generate.answers import Author, predicted
from generate.contract import PredictsPeople, Training
from generate.references.conditional_response import ConditionalResponse
from generate.schedule import load_agents

OPTIONS = ["left", "right"]
AUTHOR = Author("run", "recent_probes", "self_regulation", "conditional_response", 1, "reimplementation")


def trials(is_in_set, responses, split="train", participant="p"):
    n = len(responses)
    facts = [
        json.dumps({"trial": t, "letters": list("ABCDEF"), "probe": "C" if shown else "Z"})
        for t, shown in enumerate(is_in_set)
    ]
    return pl.DataFrame(
        {
            "item_id": [f"{participant}/{t}" for t in range(n)],
            "dataset": "recent_probes",
            "participant_id": participant,
            "split": split,
            "fold": None,
            "legal_options": [OPTIONS] * n,
            "credited_options": [["left"] if shown else ["right"] for shown in is_in_set],
            "support_low": None,
            "support_high": None,
            "facts_json": facts,
            "response": responses,
            "weight": 1.0,
            "is_shared": False,
        },
        schema_overrides={"response": pl.String, "support_low": pl.Float64, "support_high": pl.Float64},
    )


def fitted(training):
    return ConditionalResponse().fit(Training(training, pl.DataFrame()))


def matrix(estimate):
    return {fit.parameter: fit.value for fit in estimate.fits}


def logprobs(estimate, asked):
    return ConditionalResponse().predict(estimate, asked)["logprobs_nats"].to_list()


def test_the_matrix_is_the_relative_frequencies():
    estimate = fitted(trials([1, 1, 1, 1, 0, 0], ["left", "left", "left", "right", "right", "right"]))
    assert matrix(estimate) == {
        "p_left_given_in_set": 3 / 4,
        "p_right_given_in_set": 1 / 4,
        "p_left_given_not_in_set": 0.0,
        "p_right_given_not_in_set": 1.0,
    }
    assert [fit.is_at_bound for fit in estimate.fits] == [False, False, True, True]
    assert [fit.n_training for fit in estimate.fits] == [4, 4, 2, 2]
    assert all(fit.is_converged for fit in estimate.fits)
    assert estimate.training_set == "1 training participants, 6 responses"


def test_known_probabilities_are_recovered():
    draws = np.random.default_rng(1)
    is_in_set = draws.random(20_000) < 0.5
    p_left = np.where(is_in_set, 0.87, 0.07)
    responses = np.where(draws.random(20_000) < p_left, "left", "right").tolist()
    found = matrix(fitted(trials(is_in_set.tolist(), responses)))
    # four standard errors of a frequency over about 10,000 responses
    assert found["p_left_given_in_set"] == pytest.approx(0.87, abs=4 * math.sqrt(0.87 * 0.13 / 9_800))
    assert found["p_left_given_not_in_set"] == pytest.approx(0.07, abs=4 * math.sqrt(0.07 * 0.93 / 9_800))


def test_no_other_matrix_is_likelier():
    training = trials([1] * 7 + [0] * 5, ["left"] * 5 + ["right"] * 6 + ["left"])
    estimate = fitted(training)
    chosen = [OPTIONS.index(response) for response in training["response"]]
    best = sum(row[option] for row, option in zip(logprobs(estimate, training), chosen, strict=True))
    for p_in, p_out in np.random.default_rng(2).uniform(0.01, 0.99, (200, 2)):
        other = 5 * math.log(p_in) + 2 * math.log(1 - p_in) + 4 * math.log(1 - p_out) + math.log(p_out)
        assert other <= best + 1e-12


def test_a_key_that_was_never_pressed_has_probability_0():
    estimate = fitted(trials([1, 0], ["left", "right"]))
    assert logprobs(estimate, trials([0, 1], [None, None], "test")) == [[-math.inf, 0.0], [0.0, -math.inf]]


def test_options_keep_the_order_of_the_question():
    estimate = fitted(trials([1, 1, 1, 0], ["left", "left", "right", "right"]))
    asked = trials([1], [None], "test").with_columns(legal_options=pl.lit(OPTIONS[::-1]))
    assert logprobs(estimate, asked) == [pytest.approx([math.log(1 / 3), math.log(2 / 3)])]


def test_responses_that_are_no_option_teach_nothing():
    training = trials([1, 1, 1, 0], ["left", "up", None, "right"])
    assert matrix(fitted(training))["p_left_given_in_set"] == 1.0


@pytest.mark.parametrize("places", [[], [0], [1]])
def test_a_place_without_responses_cannot_be_fitted(places):
    both = trials([0, 1], ["left", "left"])
    with pytest.raises(ValueError, match="no response to probes in the set, or none to others"):
        fitted(both[places] if places else both.clear())


def of_run(*parts):
    """Return fits and predictions of a run of the pipeline over these participants."""
    tables = dict(predicted(AUTHOR, ConditionalResponse(), pl.concat(parts), pl.DataFrame()))
    return tables["fits"].to_pylist(), tables["output_options"].to_pylist()


def test_the_answers_of_the_test_reach_neither_fit_nor_prediction():
    learned = trials([1, 1, 0, 0], ["left", "right", "right", "right"], participant="a")
    asked = trials([1, 0, 1], ["right", "left", "left"], "test", "b")
    others = trials([1, 0, 1], ["left", "right", "right"], "test", "b")
    assert of_run(learned, asked) == of_run(learned, others)
    assert len(of_run(learned, asked)[1]) == 6


def test_later_trials_and_other_participants_change_no_prediction():
    learned = trials([1, 1, 0, 0], ["left", "right", "right", "right"], participant="a")
    asked = trials([1, 0, 1], ["right", "left", "left"], "test", "b")
    changed = pl.concat([asked.head(2), trials([1, 0, 0], ["right"] * 3, "test", "b").tail(1)])
    more = trials([0, 1], ["left", "right"], "test", "c")
    _, plain = of_run(learned, asked)
    _, other = of_run(learned, changed, more)
    first = [row for row in other if row["item_id"] in ("b/0", "b/1")]
    assert first == [row for row in plain if row["item_id"] in ("b/0", "b/1")]


def test_it_learns_from_training_participants_and_is_named_in_the_manifest():
    assert isinstance(ConditionalResponse(), PredictsPeople)
    assert ConditionalResponse().exposure == "training_participants"
    agent = load_agents()["recent_probes_matrix"]
    assert agent.made() == ConditionalResponse() and agent.predicts[0] == "recent_probes"
