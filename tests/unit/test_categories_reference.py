"""The generalised context model: is it the formula, does it find parameters, does it look ahead?"""

import json
import math
from itertools import product

import numpy as np
import polars as pl
import pytest
from pytest import approx

from generate.answers import Author, predicted
from generate.contract import Training
from generate.references.categories import GeneralizedContextModel, cases_of
from generate.schedule import load_agents

# Shepard, Hovland & Jenkins (1961): which of the eight stimuli are in the first category
CUBE = list(product((0, 1), repeat=3))
TYPES = {
    "I": {s for s in CUBE if s[0] == 0},
    "II": {s for s in CUBE if s[0] == s[1]},
    "III": {(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1)},
    "IV": {s for s in CUBE if sum(s) <= 1},
    "V": {(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 1)},
    "VI": {s for s in CUBE if sum(s) % 2 == 0},
}
AUTHOR = Author("run", "shj_categories", "somewhere", "categories", 1, "reimplementation")


def model(**settings):
    agent = load_agents()["gcm"]
    return GeneralizedContextModel(**(dict(agent.settings) | settings))


def trial(participant, number, features, label, response=None, split="train", **facts):
    return {
        "item_id": f"{participant}/{facts.get('session', 0)}/{number}",
        "dataset": "synthetic",
        "participant_id": participant,
        "split": split,
        "fold": None,
        "legal_options": ["A", "B"],
        "credited_options": None if label is None else [label],
        "support_low": None,
        "support_high": None,
        "target": None,
        "facts_json": json.dumps({"trial": number, "features": list(features)} | facts),
        "response": response,
        "response_number": None,
        "weight": 1.0,
    }


SCHEMA = {
    **dict.fromkeys(("item_id", "dataset", "participant_id", "split"), pl.String),
    "fold": pl.Int32,
    **dict.fromkeys(("legal_options", "credited_options"), pl.List(pl.String)),
    **dict.fromkeys(("support_low", "support_high", "target"), pl.Float64),
    **dict.fromkeys(("facts_json", "response"), pl.String),
    **dict.fromkeys(("response_number", "weight"), pl.Float64),
    "is_shared": pl.Boolean,
}


def frame(rows):
    return pl.DataFrame([{"is_shared": False} | row for row in rows], schema=SCHEMA)


def lesson(participant, kind, n_blocks, rng, split="train"):
    """One problem: the eight stimuli in a new order per block."""
    order = [CUBE[i] for _ in range(n_blocks) for i in rng.permutation(8)]
    return [
        trial(participant, n, s, "A" if s in TYPES[kind] else "B", split=split) for n, s in enumerate(order)
    ]


def vector(attention, sensitivity, scaling, background):
    return np.array([*(sensitivity * np.array(attention)), scaling, math.log(background)])


def answered(trials, values, rng):
    """Let people who are the model respond."""
    [cases] = cases_of(trials).values()
    first = np.exp(cases.logprobs(values[None])[0, :, 0])
    drawn = np.where(rng.random(first.size) < first, "A", "B")
    joined = trials.drop("response").join(
        pl.DataFrame({"item_id": cases.item_ids, "response": drawn}), on="item_id", maintain_order="left"
    )
    return joined.select(*SCHEMA)


def fitted(trials, **settings):
    return model(**settings).fit(Training(trials, pl.DataFrame()))


def values_of(estimate):
    return {fit.parameter: fit.value for fit in estimate.fits}


def probabilities(estimate, trials):
    found = model().predict(estimate, trials)
    logprobs = found["logprobs_nats"].to_list()
    return dict(zip(found["item_id"], np.exp(np.array(logprobs)).tolist(), strict=True))


@pytest.fixture(scope="module")
def taught():
    """Sixty people, ten per type, with known parameters; and what the model finds."""
    rng = np.random.default_rng(7)
    rows = [row for n in range(60) for row in lesson(f"p{n:02}", list(TYPES)[n % 6], 8, rng)]
    truth = {"attention": [0.5, 0.3, 0.2], "sensitivity": 4.0, "scaling": 1.3, "background": 0.3}
    trials = answered(frame(rows), vector(*truth.values()), rng)
    return truth, trials, fitted(trials)


def test_known_parameters_are_found_again(taught):
    truth, trials, estimate = taught
    found = values_of(estimate)
    for dimension, weight in enumerate(truth["attention"], start=1):
        assert found[f"attention_{dimension}"] == approx(weight, abs=0.05)
    assert found["sensitivity"] == approx(truth["sensitivity"], rel=0.15)
    assert found["response_scaling"] == approx(truth["scaling"], rel=0.15)
    assert found["background"] == approx(truth["background"], rel=0.4)
    [cases] = cases_of(trials).values()
    [at_truth] = cases.negative_log_likelihoods(vector(*truth.values())[None])
    # the likeliest parameters are likelier than the true ones, by about half a nat per parameter
    assert at_truth - 10 < found["negative_log_likelihood"] <= at_truth
    parameters = [fit for fit in estimate.fits if fit.parameter != "negative_log_likelihood"]
    assert all(fit.is_converged and not fit.is_at_bound for fit in parameters)
    assert {fit.n_training for fit in estimate.fits} == {60 * 64}
    assert estimate.training_set == "60 training participants, 3840 responses"


def test_the_same_responses_give_the_same_parameters(taught):
    _, trials, estimate = taught
    again = fitted(trials.sample(fraction=1, shuffle=True, seed=3))
    assert values_of(again) == approx(values_of(estimate), rel=1e-6)


def share_right(found, rows):
    """Of the likelier category; two that are equally likely are half right."""
    labels = rows["credited_options"].list.first()
    gaps = [
        found[name][0 if label == "A" else 1] - 0.5
        for name, label in zip(rows["item_id"], labels, strict=True)
    ]
    return np.mean((np.sign(np.round(gaps, 9)) + 1) / 2)


def test_the_likeliest_category_is_right_more_often_the_simpler_the_type(taught):
    _, _, estimate = taught
    rng = np.random.default_rng(8)
    right = {}
    for kind in TYPES:
        rows = frame([row for n in range(20) for row in lesson(f"{kind}{n}", kind, 8, rng, "test")])
        right[kind] = share_right(probabilities(estimate, rows), rows)
    assert right["I"] > right["II"] > right["VI"] > 0.5
    # the first trial of 64 is a guess, and each stimulus is new once
    assert right["I"] > 1 - 8 / 64


def test_a_probability_is_the_formula():
    strengths, scaling, background = (1.2, 0.4), 1.5, 0.25
    rows = [
        trial("p", 0, (0, 0), "A"),
        trial("p", 1, (1, 0), "B"),
        trial("p", 2, (0, 0.5), "A"),
        trial("p", 3, (1, 1), "B"),
    ]
    [cases] = cases_of(frame(rows)).values()
    found = np.exp(cases.logprobs(np.array([[*strengths, scaling, math.log(background)]])))[0]

    def like(x, y):
        return math.exp(-sum(s * abs(a - b) for s, a, b in zip(strengths, x, y, strict=True)))

    a = like((1, 1), (0, 0)) + like((1, 1), (0, 0.5)) + background
    b = like((1, 1), (1, 0)) + background
    assert found[0].tolist() == approx([0.5, 0.5])
    assert found[3][0] == approx(a**scaling / (a**scaling + b**scaling))
    assert found.sum(axis=1).tolist() == approx([1] * 4)


def test_nothing_is_remembered_from_another_session_or_participant(taught):
    _, _, estimate = taught
    rng = np.random.default_rng(9)
    first, second = lesson("p", "II", 4, rng), lesson("q", "II", 4, rng)
    moved = [
        trial("p", n, row_features(row), row["credited_options"][0], session=2)
        for n, row in enumerate(second)
    ]
    alone = probabilities(estimate, frame(moved))
    beside = probabilities(estimate, frame([*first, *second, *moved]))
    assert {name: beside[name] for name in alone} == alone
    assert alone["p/2/0"] == approx([0.5, 0.5])


def row_features(row):
    return json.loads(row["facts_json"])["features"]


def test_predictions_do_not_change_with_what_comes_later(taught):
    _, _, estimate = taught
    rows = lesson("p", "VI", 4, np.random.default_rng(10))
    before = probabilities(estimate, frame(rows))
    changed = [
        row if n < 20 else row | {"credited_options": ["A"], "response": "A"} for n, row in enumerate(rows)
    ]
    # the label of trial 19 itself is learned after it is predicted
    changed[19] = rows[19] | {"credited_options": ["A" if rows[19]["credited_options"] == ["B"] else "B"]}
    after = probabilities(estimate, frame(changed))
    assert [name for name in before if before[name] != after[name]] == [f"p/0/{n}" for n in range(20, 32)]


def test_own_responses_and_those_of_other_test_participants_do_not_matter(taught):
    _, trials, _ = taught
    rng = np.random.default_rng(11)
    asked = [frame(lesson(name, "III", 4, rng, "test")) for name in ("x", "y")]
    gcm = model()

    def options(answers):
        tested = [
            part.with_columns(response=pl.lit(answer)) for part, answer in zip(asked, answers, strict=True)
        ]
        tables = dict(predicted(AUTHOR, gcm, pl.concat([trials, *tested]), pl.DataFrame()))
        return tables["output_options"], tables["fits"]

    assert options(("A", "A")) == options(("B", None))


def test_the_fit_is_given_training_participants_alone(taught, monkeypatch):
    _, trials, _ = taught
    seen = []
    whole = GeneralizedContextModel.fit
    monkeypatch.setattr(
        GeneralizedContextModel, "fit", lambda self, training: seen.append(training) or whole(self, training)
    )
    asked = frame(lesson("x", "I", 2, np.random.default_rng(12), "test"))
    tables = dict(predicted(AUTHOR, model(), pl.concat([trials, asked]), pl.DataFrame()))
    [training] = seen
    assert model().exposure == "training_participants"
    assert training.trials["split"].unique().to_list() == ["train"]
    assert tables["outputs"].num_rows == 16


def test_a_trial_without_feedback_is_no_exemplar_and_is_predicted(taught):
    _, _, estimate = taught
    rows = [trial("p", 0, (0, 0, 0), "A"), trial("p", 1, (0, 0, 1), None), trial("p", 2, (0, 0, 1), "B")]
    two = probabilities(estimate, frame([rows[0], rows[2]]))
    three = probabilities(estimate, frame(rows))
    assert three["p/0/2"] == approx(two["p/0/2"]) and three["p/0/1"] == approx(three["p/0/2"])


def test_a_response_that_is_no_option_is_not_fitted(taught):
    _, trials, _ = taught
    some = trials.filter(pl.col("participant_id") < "p06")
    odd = some.with_columns(
        response=pl.when(pl.col("item_id").str.ends_with("/3")).then(pl.lit("C")).otherwise("response")
    )
    dropped = some.with_columns(
        response=pl.when(pl.col("item_id").str.ends_with("/3")).then(None).otherwise("response")
    )
    assert values_of(fitted(odd)) == approx(values_of(fitted(dropped)))
    assert fitted(odd).fits[0].n_training == 6 * 63


def test_experiments_have_parameters_of_their_own(taught):
    _, trials, _ = taught
    some = trials.filter(pl.col("participant_id") < "p12")

    def named(name):
        return some.with_columns(
            pl.col("facts_json").str.replace("{", f'{{"experiment": "{name}", ', literal=True),
            pl.format("{}/{}", pl.lit(name), "item_id").alias("item_id"),
        )

    turned = named("two").with_columns(
        response=pl.when(pl.col("response") == "A").then(pl.lit("B")).otherwise(pl.lit("A"))
    )
    estimate = fitted(pl.concat([named("one"), turned]))
    found = values_of(estimate)
    assert found["sensitivity (one)"] == approx(fitted(some).fits[3].value)
    assert found["negative_log_likelihood (two)"] > found["negative_log_likelihood (one)"]
    unseen = named("three")
    assert model().predict(estimate, unseen).is_empty()
    both = model().predict(estimate, pl.concat([named("one"), unseen]))
    assert both["item_id"].str.starts_with("one/").all() and both.height == some.height


def test_a_parameter_at_its_bound_is_said_to_be_there():
    rng = np.random.default_rng(13)
    rows = [row for n in range(6) for row in lesson(f"p{n}", "I", 6, rng)]
    # who is always right from the first repetition on asks for all that the bounds allow
    perfect = [row | {"response": row["credited_options"][0]} for row in rows]
    at_bound = {fit.parameter for fit in fitted(frame(perfect), largest_scaling=2.0).fits if fit.is_at_bound}
    assert "response_scaling" in at_bound


def test_cases_that_do_not_go_together_are_refused(taught):
    _, trials, _ = taught
    odd = frame([trial("z", 0, (0, 1), "A", "A")])
    with pytest.raises(ValueError, match="features"):
        fitted(pl.concat([trials, odd]))
    with pytest.raises(ValueError, match="features"):
        fitted(frame([trial("z", 0, (), "A", "A")]))
    with pytest.raises(ValueError, match="no training participant"):
        fitted(trials.with_columns(response=pl.lit(None, pl.String)))
    with pytest.raises(ValueError, match="no training participant"):
        fitted(trials.clear())
