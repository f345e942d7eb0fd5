"""Does MetaGreedy predict a person from the person's other trials alone, and find who they are?"""

import json
from math import exp, log

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from generate.agents.human_data import human_rows
from generate.agents.metagreedy import (
    BOUNDS,
    PARAMETERS,
    MetaGreedyPolicy,
    Parameters,
    action_probabilities,
    trees,
    value_of_information,
)
from generate.answers import Author, predicted
from generate.contract import Fitted, Training
from generate.episodes import play
from generate.references.planning import MetaGreedyPrediction
from generate.schedule import load_agents
from store.errors import InvalidSource
from store.lake import commit, ensure_schema_parts
from store.schemas import ITEMS, RUNS
from store.settings import Home

TREES = trees()
AUTHOR = Author("r", "mouselab_prediction", "mouselab", "planning", 1, "reimplementation")
ARCHIVED = pl.DataFrame()

# one finds looking dear and stops early, the other looks at nearly everything
FRUGAL = [1.6, 1.0, 2.0, 0.05]
CURIOUS = [0.3, 3.0, 4.0, 0.1]


def trials_of(name, point, n_trees, seed=1):
    """Decisions of one person with known parameters, as a reference is given them."""
    parameters = Parameters(*np.array([point] * 95, dtype=float).T)
    episodes = TREES.episodes(range(n_trees))
    drawn = TREES.draw(episodes).node_values
    rows = play(
        TREES, episodes, Fitted(MetaGreedyPolicy(TREES, parameters)), seed, run_id="r", mode_id="m"
    ).to_pylist()
    found, known, trial = [], {}, -1
    for row in rows:
        if row["step_index"] == 0:
            known, trial = {}, trial + 1
        found.append(
            {
                "item_id": f"{name}/{trial}/{row['step_index']}",
                "dataset": "exp1",
                "participant_id": name,
                "split": None,
                "fold": 1 + trial % 5,
                "legal_options": row["legal_options"],
                "support_low": None,
                "support_high": None,
                "facts_json": json.dumps({"trial": trial, "branching": [4, 1, 2], "known": known}),
                "response": row["action"],
            }
        )
        if row["action"] != "STOP":
            value = drawn[episodes.ids.index(row["episode_id"]), int(row["action"]) - 1]
            known = known | {row["action"]: value}
    frame = pl.DataFrame(found, schema_overrides={"split": pl.String, "support_low": pl.Float64})
    return frame.with_columns(is_shared=pl.lit(False))


@pytest.fixture(scope="module")
def people():
    return pl.concat([trials_of("frugal", FRUGAL, 30), trials_of("curious", CURIOUS, 30, seed=2)])


def fitted(trials):
    return MetaGreedyPrediction().fit(Training(trials, ARCHIVED))


def test_parameters_of_simulated_people_are_recovered():
    trials = pl.concat([trials_of("frugal", FRUGAL, 1000), trials_of("curious", CURIOUS, 400, seed=2)])
    estimate = fitted(trials)
    values = {(fit.participant_id, fit.parameter): fit for fit in estimate.fits}
    assert len(values) == 2 * (len(PARAMETERS) + 1)
    for name, point in (("frugal", FRUGAL), ("curious", CURIOUS)):
        for parameter, true in zip(PARAMETERS, point, strict=True):
            fit = values[name, parameter]
            assert fit.value == pytest.approx(true, rel=0.2, abs=0.03), (name, parameter)
            assert fit.is_converged and fit.is_at_bound is False
            assert fit.n_training == trials.filter(participant_id=name).height
    assert estimate.training_set == (
        f"own trials in the other folds: 2 participants, {trials.height} decisions"
    )


def test_a_decision_has_the_probabilities_of_the_policy(people):
    estimate = fitted(people)
    found = MetaGreedyPrediction().predict(estimate, people)
    assert found.columns == ["item_id", "logprobs_nats"]
    assert found["item_id"].to_list() == people["item_id"].to_list()
    sets = estimate.parameters.parameters
    for row, logs in zip(people.iter_rows(named=True), found["logprobs_nats"], strict=True):
        values = np.full((1, 16), np.nan)
        for node, value in json.loads(row["facts_json"])["known"].items():
            values[0, int(node) - 1] = value
        actions = [0 if option == "STOP" else int(option) for option in row["legal_options"]]
        legal = np.zeros((1, 17), dtype=bool)
        legal[0, actions] = True
        own = sets[np.array([estimate.parameters.positions[row["participant_id"]]])]
        [probabilities] = action_probabilities(value_of_information(TREES, values), legal, own)
        assert logs.to_list() == pytest.approx([log(probabilities[action]) for action in actions])
        assert sum(map(exp, logs)) == pytest.approx(1)


def test_logarithms_are_in_the_order_of_the_options(people):
    estimate = fitted(people)
    turned = people.with_columns(pl.col("legal_options").list.reverse())
    found, other = (MetaGreedyPrediction().predict(estimate, rows) for rows in (people, turned))
    assert other["logprobs_nats"].list.reverse().to_list() == found["logprobs_nats"].to_list()


def test_a_forced_stop_is_certain():
    trials = trials_of("curious", [0.0, 1.0, 50.0, 0.01], 40)
    forced = trials.filter(pl.col("legal_options").list.len() == 1)
    assert forced.height > 0
    found = MetaGreedyPrediction().predict(fitted(trials), forced)
    assert found["logprobs_nats"].to_list() == [pytest.approx([0.0])] * forced.height


def logprobs(trials):
    tables = dict(predicted(AUTHOR, MetaGreedyPrediction(), trials, ARCHIVED))
    options = pl.DataFrame(tables["output_options"]).sort("item_id", "option_index")
    return options.select("item_id", "option", "logprob_nats"), pl.DataFrame(tables["fits"])


def stopped(trials, which):
    """The same decisions, all of which were to stop where ``which``."""
    response = pl.when(which).then(pl.lit("STOP")).otherwise("response")
    return trials.with_columns(response=response)


def test_a_fold_is_predicted_from_the_other_folds_alone(people):
    before, fits = logprobs(people)
    assert before["item_id"].n_unique() == people.height
    after, _ = logprobs(stopped(people, pl.col("fold") == 2))
    changed = before.filter(before["logprob_nats"] != after["logprob_nats"])["item_id"].unique()
    folds = people.filter(pl.col("item_id").is_in(changed.to_list()))["fold"].unique().to_list()
    assert sorted(folds) == [1, 3, 4, 5]
    # one set of parameters for each person and fold, named by the fold that it predicts
    counts = fits.group_by("participant_id", "fold").len()
    assert sorted(counts.select("participant_id", "fold").rows()) == [
        (name, fold) for name in ("curious", "frugal") for fold in range(1, 6)
    ]
    n_training = dict(fits.filter(participant_id="frugal").select("fold", "n_training").rows())
    for fold, n in n_training.items():
        own = people.filter(pl.col("participant_id") == "frugal")
        assert n == own.filter(pl.col("fold") != fold).height
    assert set(fits["provenance"]) == {"reimplementation"}


def test_a_person_is_predicted_from_own_trials_alone(people):
    before, _ = logprobs(people)
    after, _ = logprobs(stopped(people, pl.col("participant_id") == "curious"))
    own = pl.col("item_id").str.starts_with("frugal")
    assert after.filter(own).equals(before.filter(own))
    assert not after.filter(~own).equals(before.filter(~own))


def test_a_prediction_does_not_read_the_response(people):
    estimate = fitted(people)
    without = people.with_columns(response=pl.lit(None, pl.String))
    reference = MetaGreedyPrediction()
    assert reference.predict(estimate, without).equals(reference.predict(estimate, people))


def test_later_decisions_do_not_change_earlier_predictions(people):
    estimate, reference = fitted(people), MetaGreedyPrediction()
    first = people.head(20)
    assert reference.predict(estimate, first).equals(reference.predict(estimate, people).head(20))


def test_who_has_no_other_trials_is_not_predicted(people):
    estimate = fitted(people.filter(pl.col("participant_id") == "frugal"))
    found = MetaGreedyPrediction().predict(estimate, people)
    assert all(item_id.startswith("frugal") for item_id in found["item_id"]) and found.height > 0
    nobody = MetaGreedyPrediction().predict(fitted(people.clear()), people)
    assert nobody.height == 0 and nobody.columns == ["item_id", "logprobs_nats"]


def test_trees_of_another_shape_are_refused(people):
    other = people.with_columns(pl.col("facts_json").str.replace("[4, 1, 2]", "[3, 1, 2]", literal=True))
    with pytest.raises(InvalidSource, match=r"the branching \[4, 1, 2\], found .*, first frugal/0/0"):
        fitted(other)
    with pytest.raises(InvalidSource, match="expected branching of every item"):
        fitted(people.with_columns(facts_json=pl.lit("{}")))


def test_bounds_are_recorded():
    """Who never looks is at the lower bound of lapses."""
    never = stopped(trials_of("frugal", FRUGAL, 20), True).filter(pl.col("item_id").str.ends_with("/0"))
    fits = {fit.parameter: fit for fit in fitted(never).fits if fit.parameter in BOUNDS}
    assert all(fit.is_converged for fit in fits.values())
    assert fits["lapse_rate"].is_at_bound and fits["lapse_rate"].value == BOUNDS["lapse_rate"][0]


def test_the_manifest_names_it():
    agent = load_agents()["metagreedy_prediction"]
    assert isinstance(agent.made(), MetaGreedyPrediction)
    assert agent.predicts == ("mouselab_prediction",) and agent.provenance == "reimplementation"


def test_of_two_readings_of_a_file_the_newer_one_is_fitted(tmp_path):
    """A lake that an older importer has filled holds the same people twice."""
    lake = Home(tmp_path / "lake")
    ensure_schema_parts(lake)
    sample = {"source_id": "mouselab", "mode_id": "mouselab_prediction"}
    for version in (2, 1):
        item = dict.fromkeys(ITEMS.names) | sample | {"item_id": f"v{version}", "weight": 1.0}
        run = dict.fromkeys(RUNS.names) | {
            "run_id": f"run{version}",
            "kind": "items",
            "model_id": "exp1",
            "agent_kind": "human",
            "planned_modes": ["mouselab_prediction"],
            "source_id": "mouselab",
            "importer_version": version,
            "notes": [],
        }
        rows = [("items", pa.Table.from_pylist([item], ITEMS))]
        commit(lake, f"run{version}", rows, pa.Table.from_pylist([run], RUNS))
    [items] = human_rows(lake, ("items",), model_id="exp1", **sample)
    assert items["item_id"].to_pylist() == ["v2"]
