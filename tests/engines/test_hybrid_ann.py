"""Networks of single participants: do they learn what there is to learn, and each from its own responses?"""

import json
import math
import sys

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

from generate.answers import Author, predicted
from generate.contract import Training
from generate.references import hybrid_ann
from generate.references.hybrid_ann import IndependentNetworks, features, trained
from generate.schedule import load_agents
from store.errors import EngineFailed, InvalidSource

pytestmark = pytest.mark.engines

REFERENCE = IndependentNetworks(hidden_size=16, n_updates=400, batch_size=128, learning_rate=0.01, seed=7)
KEYS = ["a", "b", "c", "d"]


def shares(history, inverse_temperature):
    """Choice probabilities of a participant who takes what has paid best on average, 0 if never tried."""
    means = [np.mean([paid for taken, paid in history if taken == option] or [0.0]) for option in range(4)]
    weights = np.exp(inverse_temperature * np.array(means))
    return weights / weights.sum()


def games(participant, n_games, seed, inverse_temperature=3.0, n_steps=10, first_fold=0, n_folds=4):
    rng = np.random.default_rng(seed)
    rows = []
    for game in range(n_games):
        pays = rng.normal(0, 1, 4)
        history = []
        for step in range(n_steps):
            probabilities = shares(history, inverse_temperature)
            option = int(rng.choice(4, p=probabilities))
            rows.append(
                {
                    "item_id": f"{participant}/{game}/{step}",
                    "participant_id": participant,
                    "fold": first_fold + game % n_folds,
                    "legal_options": KEYS,
                    "response": KEYS[option],
                    "facts_json": json.dumps({"game": game, "trial": step, "history": history}),
                    "truth": float(np.log(probabilities[option])),
                }
            )
            history = [*history, [option, round(float(rng.normal(pays[option], 0.3)), 3)]]
    return rows


def frame(rows):
    return pl.DataFrame(rows, schema_overrides={"fold": pl.Int32}).with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in ("dataset", "split")),
        *(pl.lit(None, pl.Float64).alias(name) for name in ("support_low", "support_high", "target")),
        pl.lit(False).alias("is_shared"),
    )


def fitted(rows):
    return REFERENCE.fit(Training(rows, pl.DataFrame()))


def nll(rows, predictions):
    joined = rows.join(predictions, on="item_id", how="inner")
    assert joined.height == rows.height
    place = {key: number for number, key in enumerate(KEYS)}
    chosen = (
        logprobs[place[response]]
        for logprobs, response in joined.select("logprobs_nats", "response").iter_rows()
    )
    return -sum(chosen) / rows.height


@pytest.fixture(scope="module")
def people():
    """Two participants: one follows what has paid, the other avoids it."""
    return frame(
        [
            *games("p0", 200, 1, inverse_temperature=3.0),
            *games("p1", 200, 2, inverse_temperature=-3.0, first_fold=4),
        ]
    )


@pytest.fixture(scope="module")
def estimate(people):
    return fitted(people.filter(~pl.col("fold").is_in([0, 4])))


def test_a_network_comes_near_the_probabilities_that_were_put_in(people, estimate):
    for participant in ("p0", "p1"):
        left_out = people.filter(pl.col("fold").is_in([0, 4]), participant_id=participant)
        truth = -left_out["truth"].mean()
        found = nll(left_out, REFERENCE.predict(estimate, left_out))
        # an eighth of what can be learned may be missed
        assert truth < math.log(4) - 0.2 and found < truth + (math.log(4) - truth) / 8


def test_predictions_are_probabilities_of_all_options(people, estimate):
    logprobs = REFERENCE.predict(estimate, people)["logprobs_nats"].to_list()
    assert np.exp(np.array(logprobs)).sum(axis=1) == pytest.approx(1.0)


def test_a_fit_records_its_loss(people, estimate):
    assert [(fit.parameter, fit.participant_id, fit.n_training) for fit in estimate.fits] == [
        ("training_nll", "p0", 1500),
        ("training_nll", "p1", 1500),
    ]
    own = people.filter(~pl.col("fold").is_in([0, 4]), participant_id="p0")
    assert estimate.fits[0].value == pytest.approx(nll(own, REFERENCE.predict(estimate, own)))
    assert estimate.fits[0].is_converged is None


def test_the_same_seed_gives_the_same_network(people, estimate):
    trained.cache_clear()
    again = fitted(people.filter(~pl.col("fold").is_in([0, 4])))
    assert REFERENCE.predict(again, people).equals(REFERENCE.predict(estimate, people))
    other = REFERENCE.model_copy(update={"seed": 8})
    others = other.fit(Training(people.filter(~pl.col("fold").is_in([0, 4])), pl.DataFrame()))
    assert not other.predict(others, people).equals(REFERENCE.predict(estimate, people))


def test_nobody_is_learned_from_but_the_participant(people, estimate):
    alone = fitted(people.filter(~pl.col("fold").is_in([0, 4]), participant_id="p0"))
    own = people.filter(participant_id="p0")
    assert REFERENCE.predict(alone, own).equals(REFERENCE.predict(estimate, own))
    assert REFERENCE.predict(alone, people.filter(participant_id="p1")).is_empty()


def test_networks_of_others_are_not_trained_again(people, monkeypatch):
    trained.cache_clear()
    quick = REFERENCE.model_copy(update={"n_updates": 2})
    for fold in range(8):
        quick.fit(Training(people.filter(pl.col("fold") != fold), pl.DataFrame()))
    # one per fold, and one of each participant with nothing left out
    assert trained.cache_info().misses == 8 + 2


def test_what_comes_later_changes_nothing_before(people, estimate):
    own = people.filter(participant_id="p0").with_row_index()
    changed = own.with_columns(
        pl.when(pl.col("index") >= 55).then(pl.lit("d")).otherwise("response").alias("response")
    )
    assert REFERENCE.predict(estimate, own).equals(REFERENCE.predict(estimate, changed))
    assert REFERENCE.predict(estimate, own)[:55].equals(REFERENCE.predict(estimate, own[:55]))


def test_a_response_changes_no_prediction_of_its_own_fold(people):
    few = people.filter(pl.col("item_id").str.extract(r"/(\d+)/").cast(pl.Int64) < 8)
    quick = REFERENCE.model_copy(update={"n_updates": 20})
    author = Author("run", "mode", "source", "family", 1, "reimplementation")

    def found(rows):
        tables = dict(predicted(author, quick, rows, pl.DataFrame()))
        options = tables["output_options"].to_pylist()
        return {(row["item_id"], row["option"]): row["logprob_nats"] for row in options}

    before = found(few)
    changed = few.with_columns(
        pl.when(pl.col("fold") == 0).then(pl.lit("a")).otherwise("response").alias("response")
    )
    after = found(changed)
    fold = dict(few.select("item_id", "fold").iter_rows())
    differing = {fold[item] for item, option in before if before[item, option] != after[item, option]}
    assert len(before) == 4 * few.height
    # the participant's other folds, and nobody else's
    assert differing == {1, 2, 3}


def test_features_sum_up_what_was_seen():
    rows = pl.DataFrame(
        {
            "history": [[], [[2.0, 5.0], [0.0, 1.0], [2.0, 8.0]]],
            "legal_options": [KEYS, KEYS],
        },
        schema_overrides={"history": pl.List(pl.List(pl.Float64))},
    )
    nothing, three = features(rows).tolist()
    assert nothing == [0.0] * 18
    assert three == pytest.approx(
        [
            *(math.log(2), 0, math.log(3), 0),
            *(1, 0, (5 + 8) / 2, 0),
            *(1, 0, 8, 0),
            *(0, 0, 1, 0),
            8,
            math.log(4),
        ]
    )


def test_another_number_of_options_is_refused(people):
    rows = people.head(2).with_columns(
        pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit(["a", "b"], dtype=pl.List(pl.String)))
        .otherwise("legal_options")
        .alias("legal_options")
    )
    with pytest.raises(InvalidSource, match="expected as many legal_options in every item, found 2, 4"):
        fitted(rows)


def test_torch_that_is_not_there_is_said(people, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineFailed, match="torch is not installed"):
        REFERENCE.model_copy(update={"seed": 99}).fit(Training(people.head(10), pl.DataFrame()))


def test_the_project_trains_as_often_as_published():
    agent = load_agents()["hybrid_independent_networks"]
    assert agent.made().n_updates == 3000 and agent.predicts == ("hybrid_sampling",)


def test_torch_is_loaded_by_training_alone():
    assert "torch" not in vars(hybrid_ann)
