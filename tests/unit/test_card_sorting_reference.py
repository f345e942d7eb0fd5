"""Does the sequential learning model predict people from their own earlier choices and from others' alone?"""

import json
from math import exp, log

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate.agents.sequential_learning import (
    BOUNDS,
    PARAMETERS,
    Learners,
    SequentialLearningPolicy,
    Sorts,
)
from generate.agents.sequential_learning import negative_log_likelihood as of_one_person
from generate.answers import Author, predicted
from generate.contract import Estimate, Fitted, Training
from generate.environments.wcst import CardSorting
from generate.episodes import play
from generate.references.card_sorting import (
    SequentialLearningPrediction,
    Sorter,
    as_sessions,
    negative_log_likelihood,
)
from generate.schedule import load_agents
from store.errors import EngineFailed, InvalidSource

REFERENCE = SequentialLearningPrediction()
AUTHOR = Author("r", "wcst_prediction_prl", "wcst_prl", "card_sorting", 1, "reimplementation")
ARCHIVED = pl.DataFrame()
TRUTH, LAPSE = (0.7, 0.8, 1.5), 0.02

cards = st.tuples(*[st.integers(1, 4)] * 3)
# card, choice (0: none in time) and rule of a trial
sessions = st.lists(st.tuples(cards, st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=12)
vectors = st.tuples(*(st.floats(low, high) for low, high in zip(BOUNDS.lower, BOUNDS.upper, strict=True)))


def learners(*points):
    return Learners(*np.array(points, dtype=float).T)


def trials_of(*people, split="test"):
    """Trials as a reference is given them; names and sessions of (card, choice, rule)."""
    rows = [
        {
            "item_id": f"{name}/{trial}",
            "dataset": "controls",
            "participant_id": name,
            "split": split,
            "fold": None,
            "legal_options": ["1", "2", "3", "4"],
            "credited_options": [str(card[rule])],
            "support_low": None,
            "support_high": None,
            "facts_json": json.dumps({"trial": trial, "matches": card}),
            "response": str(choice) if choice else None,
        }
        for name, session in people
        for trial, (card, choice, rule) in enumerate(session)
    ]
    types = {"fold": pl.Int32, "support_low": pl.Float64, "support_high": pl.Float64, "response": pl.String}
    # as text, trial 10 comes before trial 2
    found = pl.DataFrame(rows, schema_overrides=types).sort("participant_id", "item_id")
    return found.with_columns(is_shared=pl.lit(False))


def sorts_of(session):
    chosen = [(card, choice, rule) for card, choice, rule in session if choice]
    return Sorts(
        cards=np.array([card for card, _, _ in chosen]).reshape(-1, 3) - 1,
        choices=np.array([choice for _, choice, _ in chosen]) - 1,
        is_right=np.array([card[rule] == choice for card, choice, rule in chosen]),
    )


def simulated(name, seed, point=TRUTH):
    """A session of 60 cards sorted by a learner with known parameters."""
    environment = CardSorting(n_trials=60, block_length=6)
    policy = SequentialLearningPolicy(learners(point), LAPSE)
    rows = play(
        environment, environment.episodes([seed]), Fitted(policy), seed, run_id="r", mode_id="m"
    ).to_pylist()
    session = []
    for row in rows:
        matches = dict(part.split() for part in row["observation"].split(", "))
        card = tuple(int(matches[name]) for name in ("colour", "form", "number"))
        rule = card.index(int(row["credited_options"][0]))
        session.append((card, int(row["action"]), rule))
    return name, session


def estimate_at(point, lapse=LAPSE):
    return Estimate(Sorter(learners(point), lapse))


def predictions(estimate, trials):
    found = REFERENCE.predict(estimate, trials)
    assert found["item_id"].to_list() == trials["item_id"].to_list()
    return dict(zip(found["item_id"], found["logprobs_nats"].to_list(), strict=True))


@settings(max_examples=60, deadline=None)
@given(points=st.lists(vectors, min_size=1, max_size=3), people=st.lists(sessions, min_size=1, max_size=3))
def test_the_likelihood_is_the_sum_of_that_of_each_person(points, people):
    trials = trials_of(*((f"p{number}", session) for number, session in enumerate(people)))
    found = negative_log_likelihood(learners(*points), as_sessions(trials), LAPSE)
    expected = sum(
        of_one_person(learners(*points), sorts_of(session), LAPSE)
        for session in people
        if any(choice for _, choice, _ in session)
    )
    assert found == pytest.approx(expected + np.zeros(len(points)), rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(point=vectors, session=sessions)
def test_predictions_are_those_of_the_likelihood(point, session):
    trials = trials_of(("a", session))
    found = predictions(estimate_at(point), trials)
    chosen = [found[f"a/{trial}"][choice - 1] for trial, (_, choice, _) in enumerate(session) if choice]
    expected = of_one_person(learners(point), sorts_of(session), LAPSE)[0] if chosen else 0
    assert -sum(chosen) == pytest.approx(expected, abs=1e-9)
    for logs in found.values():
        assert sum(map(exp, logs)) == pytest.approx(1)
        assert min(logs) >= log(LAPSE / 4) - 1e-9


def test_the_first_card_is_sorted_with_even_attention():
    found = predictions(estimate_at((0.5, 0.5, 1.0), 0.2), trials_of(("a", [((2, 4, 2), 1, 0)])))
    expected = [0.05, 0.8 * 2 / 3 + 0.05, 0.05, 0.8 / 3 + 0.05]
    assert [exp(value) for value in found["a/0"]] == pytest.approx(expected)


SESSION = [((1, 2, 3), 1, 0), ((2, 3, 4), 3, 0), ((4, 1, 1), 0, 1), ((3, 2, 2), 2, 1), ((1, 4, 3), 4, 1)]


@pytest.mark.parametrize("changed", range(5))
def test_a_prediction_knows_neither_its_response_nor_what_came_later(changed):
    estimate = estimate_at(TRUTH)
    before = predictions(estimate, trials_of(("a", SESSION)))
    others = [
        (card if trial <= changed else (4, 4, 4), 5 - choice if choice else 1, 2 - rule // 2)
        for trial, (card, choice, rule) in enumerate(SESSION)
    ]
    after = predictions(estimate, trials_of(("a", SESSION[:changed] + others[changed:])))
    for trial in range(changed + 1):
        assert after[f"a/{trial}"] == before[f"a/{trial}"]
    if changed < 3:
        assert after["a/4"] != before["a/4"]


def test_other_people_in_the_test_change_nothing():
    estimate = estimate_at(TRUTH)
    alone = predictions(estimate, trials_of(("b", SESSION)))
    among = predictions(estimate, trials_of(("a", SESSION * 3), ("b", SESSION), ("c", SESSION[::-1])))
    assert {name: among[name] for name in alone} == alone


def test_nothing_is_learned_from_a_card_that_was_let_pass():
    estimate = estimate_at(TRUTH)
    whole = predictions(estimate, trials_of(("a", SESSION)))
    without = predictions(estimate, trials_of(("a", SESSION[:2] + SESSION[3:])))
    assert [whole["a/3"], whole["a/4"]] == [without["a/2"], without["a/3"]]


def test_trials_whose_right_card_is_not_known_teach_nothing():
    trials = trials_of(("a", SESSION[:2]))
    unknown = trials.with_columns(
        credited_options=pl.when(pl.col("item_id") != "a/0").then("credited_options").otherwise(None)
    )
    estimate = estimate_at((0.5, 0.5, 1.0))
    [first, second] = predictions(estimate, unknown).values()
    # attention is even as before the first card
    assert sorted(second) == pytest.approx(sorted(first))


def test_parameters_of_simulated_people_are_recovered():
    trials = trials_of(*(simulated(f"p{seed:02}", seed) for seed in range(60)), split="train")
    estimate = REFERENCE.fit(Training(trials, ARCHIVED))
    fits = {fit.parameter: fit for fit in estimate.fits}
    assert list(fits) == [*PARAMETERS, "negative_log_likelihood", "lapse"]
    for name, true in zip(PARAMETERS, TRUTH, strict=True):
        assert fits[name].value == pytest.approx(true, abs=0.2), name
        assert fits[name].is_converged and fits[name].is_at_bound is False
    assert fits["lapse"].value == pytest.approx(LAPSE, abs=0.015)
    assert {fit.n_training for fit in estimate.fits} == {3600}
    assert estimate.training_set == "pooled: 60 training participants, 3600 choices"
    at_truth = negative_log_likelihood(learners(TRUTH), as_sessions(trials), estimate.parameters.lapse)[0]
    # half of a chi-square of three degrees of freedom lies below 8.1 with probability 0.999
    assert 0 <= at_truth - fits["negative_log_likelihood"].value < 8.1


def test_who_does_not_learn_from_errors_is_at_a_bound():
    # sorts by colour whatever is said; the rule is number
    stubborn = [((1, 2, 3), 1, 2), ((2, 3, 4), 2, 2), ((3, 4, 1), 3, 2), ((4, 1, 2), 4, 2)] * 5
    fits = REFERENCE.fit(Training(trials_of(("a", stubborn), split="train"), ARCHIVED)).fits
    ends = dict(zip(PARAMETERS, zip(BOUNDS.lower, BOUNDS.upper, strict=True), strict=True))
    by_name = {fit.parameter: fit for fit in fits if fit.parameter in ends}
    assert by_name["punishment_rate"].value == 0 and by_name["punishment_rate"].is_at_bound
    assert all(fit.is_at_bound == (fit.value in ends[name]) for name, fit in by_name.items())


def test_a_card_that_nobody_chose_in_training_is_still_possible():
    always = [((1, 2, 3), 1, 0), ((2, 3, 1), 2, 0), ((3, 1, 4), 3, 0), ((4, 2, 1), 4, 0)]
    estimate = REFERENCE.fit(Training(trials_of(("a", always), split="train"), ARCHIVED))
    # the least lapse is one choice in all those of the training
    assert estimate.parameters.lapse == 1 / 4
    assert predictions(estimate, trials_of(("b", SESSION)))["b/0"][3] == pytest.approx(log(1 / 16))


def predicted_logprobs(trials):
    tables = dict(predicted(AUTHOR, REFERENCE, trials, ARCHIVED))
    return pl.DataFrame(tables["output_options"]), pl.DataFrame(tables["fits"])


def test_only_training_participants_can_reach_the_fit():
    training = trials_of(*(simulated(f"t{seed}", seed) for seed in range(4)), split="train")
    asked = trials_of(("a", SESSION), ("b", SESSION[::-1]))
    options, fits = predicted_logprobs(pl.concat([training, asked]))
    assert options.height == asked.height * 4
    assert options["option"].to_list()[:4] == ["1", "2", "3", "4"]
    # other choices in the test, the same parameters
    again, same_fits = predicted_logprobs(
        pl.concat([training, asked.with_columns(response=pl.lit("1"), credited_options=pl.lit(["2"]))])
    )
    assert same_fits.equals(fits) and not again.equals(options)
    _, other_fits = predicted_logprobs(pl.concat([training.head(100), asked]))
    assert not other_fits.equals(fits)


def test_without_training_participants_nothing_can_be_said():
    with pytest.raises(EngineFailed, match="expected choices of training participants, found none"):
        REFERENCE.fit(Training(trials_of(("a", SESSION)).clear(), ARCHIVED))


def test_items_of_another_task_are_refused():
    trials = trials_of(("a", SESSION))
    with pytest.raises(InvalidSource, match="expected the key cards 1, 2, 3, 4 as options, found 5 trials"):
        REFERENCE.predict(estimate_at(TRUTH), trials.with_columns(legal_options=pl.lit(["1", "2"])))
    with pytest.raises(InvalidSource, match="expected matches of every item"):
        REFERENCE.predict(estimate_at(TRUTH), trials.with_columns(facts_json=pl.lit('{"trial": 0}')))


def test_the_manifest_names_it():
    agent = load_agents()["wcst_sl_prediction"]
    assert isinstance(agent.made(), SequentialLearningPrediction)
    assert agent.predicts == ("wcst_prediction", "wcst_prediction_prl")
