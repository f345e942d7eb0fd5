"""Horizon games: does the reference learn from what a game has shown, forced choices too, and no more?"""

import math

import numpy as np
import polars as pl
import pytest
from answered import fitted, nll, predictions, trials

from generate.references.horizon_rw import HorizonRescorlaWagner
from store.errors import InvalidSource

REFERENCE = HorizonRescorlaWagner(reward_unit=100.0)
TRUTH = (0.35, 12.0, 0.45)
ARMS = ["A", "B"]


def log_probabilities(history, rate, inverse_temperature, initial_value):
    """The model in plain Python: log-probabilities of the two arms after a history."""
    values = [initial_value] * 2
    for arm, reward in history:
        values[arm] += rate * (reward / 100 - values[arm])
    scores = [inverse_temperature * value for value in values]
    norm = math.log(sum(map(math.exp, scores)))
    return [score - norm for score in scores]


def played(participant, n_games, seed, *, fold=None, split=None):
    """Games of one who chooses as the model says: one or six free choices after four forced ones."""
    rng = np.random.default_rng(seed)
    rows = []
    for game in range(n_games):
        horizon, means = (1, 6)[game % 2], rng.permutation([40, 40 + 4 * (game % 6)])
        forced = rng.permutation([0, 0, 1, 1] if game % 3 else [0, 1, 1, 1])
        history = []
        for trial in range(4 + horizon):
            if trial < 4:
                arm = int(forced[trial])
            else:
                arm = int(rng.random() >= math.exp(log_probabilities(history, *TRUTH)[0]))
                rows.append(
                    {
                        "item_id": f"{participant}/{game}/{trial}",
                        "participant_id": participant,
                        "fold": fold,
                        "split": split,
                        "legal_options": ARMS,
                        "response": ARMS[arm],
                        "facts": {
                            "game": game,
                            "trial": trial,
                            "horizon": horizon,
                            "history": [list(pair) for pair in history],
                        },
                    }
                )
            history.append((arm, int(np.clip(round(rng.normal(means[arm], 8)), 1, 100))))
    return rows


@pytest.fixture(scope="module")
def people():
    """Ten participants in five folds."""
    rows = [row for number in range(10) for row in played(f"p{number}", 40, number, fold=number % 5)]
    return trials(rows)


@pytest.fixture(scope="module")
def estimate(people):
    return fitted(REFERENCE, people)


def test_a_fit_recovers_the_parameters(people, estimate):
    found = {fit.parameter: fit for fit in estimate.fits}
    assert found["learning_rate"].value == pytest.approx(TRUTH[0], abs=0.08)
    assert found["inverse_temperature"].value == pytest.approx(TRUTH[1], rel=0.15)
    assert found["initial_value"].value == pytest.approx(TRUTH[2], abs=0.08)
    for name in ("learning_rate", "inverse_temperature", "initial_value"):
        assert found[name].is_converged and found[name].is_at_bound is False
        assert found[name].n_training == people.height == 10 * (20 * 1 + 20 * 6)
    assert estimate.training_set == "400 games of 10 participants"


def test_predictions_are_those_of_the_model(people, estimate):
    rows = people.head(60)
    facts = rows["facts_json"].str.json_decode(pl.Struct({"history": pl.List(pl.List(pl.Int64))}))
    by_hand = [
        log_probabilities(one, *estimate.parameters) for one in facts.struct.field("history").to_list()
    ]
    assert np.allclose(REFERENCE.predict(estimate, rows)["logprobs_nats"].to_list(), by_hand, atol=1e-12)


def test_the_loss_of_a_fit_is_that_of_its_predictions(people, estimate):
    [loss] = [fit.value for fit in estimate.fits if fit.parameter == "negative_log_likelihood"]
    assert nll(people, REFERENCE.predict(estimate, people)) == pytest.approx(loss)


def test_the_order_of_rows_means_nothing(people, estimate):
    shuffled = people.sample(fraction=1.0, shuffle=True, seed=3)
    assert (
        REFERENCE.predict(estimate, shuffled)
        .sort("item_id")
        .equals(REFERENCE.predict(estimate, people).sort("item_id"))
    )
    assert [fit.value for fit in fitted(REFERENCE, shuffled).fits] == pytest.approx(
        [fit.value for fit in estimate.fits], rel=1e-3
    )


@pytest.fixture(scope="module")
def few():
    return trials([row for number in range(4) for row in played(f"p{number}", 8, number, fold=number % 2)])


def test_a_response_changes_no_prediction_of_its_own_fold(few):
    before = predictions(REFERENCE, few)
    # the last free choices of games are in nobody's history
    is_changed = (pl.col("fold") == 0) & pl.col("item_id").str.ends_with("/9")
    after = predictions(
        REFERENCE,
        few.with_columns(pl.when(is_changed).then(pl.lit("A")).otherwise("response").alias("response")),
    )
    own = {(item, None) for item in few.filter(pl.col("fold") == 0)["item_id"]}
    differing = {key for key in before if before[key] != after[key]}
    assert len(before) == few.height and differing and not own & differing


def test_without_folds_training_participants_are_learned_from():
    rows = [*played("a", 10, 1, split="train"), *played("b", 4, 2, split="test")]
    found = predictions(REFERENCE, trials(rows))
    assert {item.split("/")[0] for item, _ in found} == {"b"} and None not in found.values()
    changed = [
        row | {"response": "A"}
        if row["facts"]["trial"] in (4, 9) and row["split"] == "test" and row["facts"]["horizon"] == 1
        else row
        for row in rows
    ]
    assert predictions(REFERENCE, trials(changed)) == found


def test_without_anybody_to_learn_from_nothing_is_predicted():
    assert set(predictions(REFERENCE, trials(played("b", 2, 2, split="test"))).values()) == {None}


def test_an_unanswered_item_is_predicted_and_not_fitted(few):
    last = few["item_id"].str.ends_with("/9")
    silent = few.with_columns(pl.when(last).then(None).otherwise("response").alias("response"))
    estimate = fitted(REFERENCE, silent)
    assert estimate.fits[0].n_training == few.height - int(last.sum())
    assert REFERENCE.predict(estimate, silent).height == few.height


def test_a_first_choice_without_a_history_is_at_chance(estimate):
    rows = trials([{"legal_options": ARMS, "response": "A", "facts": {"game": 0, "trial": 0, "history": []}}])
    [logprobs] = REFERENCE.predict(estimate, rows)["logprobs_nats"].to_list()
    assert logprobs == pytest.approx([math.log(1 / 2)] * 2)


def test_a_history_that_contradicts_a_response_is_refused(few):
    first = pl.col("item_id") == "p0/1/4"
    other = few.with_columns(
        pl.when(first)
        .then(pl.when(pl.col("response") == "A").then(pl.lit("B")).otherwise(pl.lit("A")))
        .otherwise("response")
        .alias("response")
    )
    with pytest.raises(InvalidSource, match="found 1 others, first p0/1/4"):
        fitted(REFERENCE, other)


@pytest.mark.parametrize(
    ("facts", "options", "said"),
    [
        ({"history": []}, ARMS, "expected game of every item"),
        ({"game": 0}, ARMS, "expected history of every item"),
        ({"game": 0, "history": [[2, 10]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [[-1, 10]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [[0.5, 10]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [[0]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [[0, None]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [[None, 10]]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": [None]}, ARMS, "expected histories of pairs"),
        ({"game": 0, "history": "AB"}, ARMS, "expected objects with game, history"),
        ({"game": 0, "history": [[2, 10]]}, [*ARMS, "C"], "expected 2 arms, found another number 1 times"),
    ],
)
def test_an_item_of_another_kind_is_refused(facts, options, said):
    frame = trials([{"legal_options": options, "response": "A", "facts": facts}])
    with pytest.raises(InvalidSource, match=said):
        fitted(REFERENCE, frame)
