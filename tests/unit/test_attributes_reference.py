"""Weighted additive choice: does it find weights, is it the formula, what if weights are not determined?"""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from pytest import approx

from generate.answers import Author, predicted
from generate.contract import Training
from generate.references import attributes
from generate.references.attributes import WeightedAdditive
from generate.schedule import load_agents

AUTHOR = Author("run", "multi_attribute_choice", "somewhere", "attributes", 1, "reimplementation")
SCHEMA = {
    **dict.fromkeys(("item_id", "participant_id", "split", "facts_json", "response"), pl.String),
    "legal_options": pl.List(pl.String),
    **dict.fromkeys(("support_low", "support_high", "weight"), pl.Float64),
    "fold": pl.Int32,
    "is_shared": pl.Boolean,
}
QUESTIONS = [(a, b) for a in product((-1, 1), repeat=4) for b in product((-1, 1), repeat=4) if a != b]


def model(**settings):
    return WeightedAdditive(**(dict(load_agents()["wadd"].settings) | settings))


def choices(rows, split="train"):
    """Rows are (participant, options, response, weight)."""
    return pl.DataFrame(
        [
            {
                "item_id": f"{participant}/{options}",
                "participant_id": participant,
                "split": split,
                "facts_json": json.dumps({"trial": 0, "options": options}),
                "response": response,
                "legal_options": ["A", "B"],
                "weight": float(weight),
                "is_shared": False,
            }
            for participant, options, response, weight in rows
        ],
        schema=SCHEMA,
    )


def fitted(trials, **settings):
    return model(**settings).fit(Training(trials, pl.DataFrame()))


def weights_of(estimate):
    return [fit.value for fit in estimate.fits if fit.parameter.startswith("weight_")]


def first_probabilities(estimate, trials):
    found = model().predict(estimate, trials)
    assert [sum(map(math.exp, row)) for row in found["logprobs_nats"]] == approx([1] * found.height)
    return [math.exp(row[0]) for row in found["logprobs_nats"]]


def people(n, weights, rng):
    rows = []
    for person in range(n):
        for a, b in QUESTIONS:
            advantage = np.dot(weights, np.subtract(a, b))
            response = "A" if rng.random() < 1 / (1 + math.exp(-advantage)) else "B"
            rows.append((f"p{person}", [a, b], response, 1))
    return choices(rows)


def test_known_weights_are_found_again():
    truth = [1.1, 0.7, 0.4, 0.05]
    trials = people(20, truth, np.random.default_rng(1))
    estimate = fitted(trials)
    assert weights_of(estimate) == approx(truth, abs=0.06)
    parameters = estimate.fits[:4]
    assert all(fit.is_converged and not fit.is_at_bound and fit.n_training == 4800 for fit in parameters)
    assert estimate.training_set == "20 training participants, 4800 responses"
    loss = estimate.fits[-1]
    by_hand = -sum(
        math.log(p if answer == "A" else 1 - p)
        for p, answer in zip(first_probabilities(estimate, trials), trials["response"], strict=True)
    )
    assert loss.parameter == "negative_log_likelihood" and loss.value == approx(by_hand)


def test_a_frequency_counts_as_so_many_choices():
    single = [("p", [a, b], "A" if n % 3 else "B", 1) for a, b in QUESTIONS for n in range(6)]
    counted = [("p", [a, b], answer, n) for a, b in QUESTIONS for answer, n in (("A", 4), ("B", 2))]
    assert weights_of(fitted(choices(single))) == approx(weights_of(fitted(choices(counted))), abs=1e-6)
    skewed = [
        ("p", [[1, 1], [-1, 1]], "A", 30),
        ("p", [[1, 1], [-1, 1]], "B", 10),
        ("p", [[1, 1], [1, -1]], "A", 24),
        ("p", [[1, 1], [1, -1]], "B", 16),
    ]
    # each question asks for one cue, whose values are 2 apart
    estimate = fitted(choices(skewed))
    assert weights_of(estimate) == approx([math.log(30 / 10) / 2, math.log(24 / 16) / 2], abs=1e-4)
    assert estimate.fits[0].n_training == 80
    # one prediction per question, however many responses it has
    assert first_probabilities(estimate, choices(skewed)) == approx([0.75, 0.6], abs=1e-4)


def test_weights_that_are_not_determined_are_the_smallest_and_said_to_be_so():
    question = [[1, 1, 1], [-1, -1, 1]]
    estimate = fitted(choices([("p", question, "A", 3), ("p", question, "B", 1)]))
    # 2 w_1 + 2 w_2 is the log odds; w_3 does not matter
    assert weights_of(estimate) == approx([math.log(3) / 4, math.log(3) / 4, 0], abs=1e-4)
    assert estimate.training_set.endswith("4 responses; 3 weights, 1 of them determined")
    assert first_probabilities(estimate, choices([("q", question, None, 1)])) == approx([0.75], abs=1e-4)


def test_of_weights_that_predict_the_same_the_smallest_are_taken(monkeypatch):
    # no question depends on the direction (1, 1, 0, 1)
    questions = [[a, b] for a, b in QUESTIONS if np.dot(np.subtract(a, b), [1, 1, 0, 1]) == 0]
    truth = np.array([0.9, -0.2, 0.5, -0.7])
    rows = []
    for a, b in questions:
        first = 1 / (1 + math.exp(-np.dot(truth, np.subtract(a, b))))
        rows += [("p", [a, b], "A", first), ("p", [a, b], "B", 1 - first)]
    trials, descents = choices(rows), []
    descent = attributes.estimate_parameters

    def descend(*arguments):
        end = descent(*arguments)
        # another point of the flat maximum, as a descent may end at
        descents.append(replace(end, values=end.values + 0.5 * np.array([1, 1, 0, 1])))
        return descents[-1]

    with monkeypatch.context() as patch:
        patch.setattr(attributes, "estimate_parameters", descend)
        estimate = fitted(trials)
    assert np.dot(estimate.parameters, [1, 1, 0, 1]) == approx(0, abs=1e-9)
    assert weights_of(estimate) == approx(list(estimate.parameters))
    [end] = descents
    assert np.linalg.norm(estimate.parameters) < np.linalg.norm(end.values)
    elsewhere = replace(estimate, parameters=end.values)
    assert first_probabilities(estimate, trials) == approx(first_probabilities(elsewhere, trials), abs=1e-12)
    assert estimate.training_set.endswith("4 weights, 3 of them determined")


def test_who_always_follows_one_cue_puts_its_weight_at_the_bound():
    rows = [("p", [a, b], "A" if a[0] > b[0] else "B", 1) for a, b in QUESTIONS if a[0] != b[0]]
    first, *others = fitted(choices(rows), largest_weight=3.0).fits[:4]
    assert first.is_at_bound and first.value == approx(3.0)
    assert not any(fit.is_at_bound for fit in others)


def test_the_order_of_the_options_is_theirs():
    rows = [
        ("p", [[1, 1], [-1, 1]], "A", 9),
        ("p", [[1, 1], [-1, 1]], "B", 1),
        ("p", [[1, 1], [1, -1]], "A", 1),
    ]
    estimate = fitted(choices(rows))
    straight, turned = first_probabilities(
        estimate, choices([("q", [[1, 1], [-1, 1]], None, 1), ("q", [[-1, 1], [1, 1]], None, 1)])
    )
    assert straight == approx(0.9, abs=1e-3) and turned == approx(1 - straight)


def test_responses_of_the_test_change_nothing():
    trials = people(3, [1, 0.5, 0.2, 0.1], np.random.default_rng(2))

    def tables(answer):
        asked = choices([("x", list(question), answer, 1) for question in QUESTIONS[:30]], split="test")
        found = dict(predicted(AUTHOR, model(), pl.concat([trials, asked]), pl.DataFrame()))
        return found["output_options"], found["fits"]

    assert model().exposure == "training_participants"
    assert tables("A") == tables("B") == tables(None)
    assert tables("A")[0].num_rows == 60


def test_the_fit_is_given_training_participants_alone(monkeypatch):
    seen = []
    whole = WeightedAdditive.fit
    monkeypatch.setattr(WeightedAdditive, "fit", lambda self, t: seen.append(t) or whole(self, t))
    asked = choices([("x", list(QUESTIONS[0]), "A", 1)], split="test")
    trials = pl.concat([people(1, [1, 1, 1, 1], np.random.default_rng(3)), asked])
    predicted(AUTHOR, model(), trials, pl.DataFrame())
    [training] = seen
    assert training.trials["split"].unique().to_list() == ["train"]


def test_questions_that_do_not_go_together_are_refused():
    good = [("p", [[1, 1], [-1, 1]], "A", 1)]
    for odd in ([[1, 1], [-1]], [[1, 1, 1], [-1, 1, 1]], [[1, 1]]):
        with pytest.raises(ValueError, match="same number of cues"):
            fitted(choices([*good, ("p", odd, "A", 1)]))
    with pytest.raises(ValueError, match="no training participant"):
        fitted(choices([("p", [[1, 1], [-1, 1]], None, 1), ("p", [[1, 1], [1, -1]], "C", 1)]))
