"""Does a reference learn from those it may learn from, and are its predictions whole?"""

import math
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from generate import pipeline
from generate.contract import Estimate, Fit
from generate.pipeline import generate, plan
from generate.schedule import AgentSettings, load_agents, load_schedules
from store import lake as raw
from store.errors import EngineFailed, InvalidSource
from store.lake import part_paths
from store.schemas import FITS, HUMAN_RESPONSES, ITEMS, RAW_TABLES, RUNS
from store.settings import Home

MODE, SOURCE = "false_belief_qa", "tomi"


@dataclass
class Recording:
    """A reference that says a half to everything and keeps what it was shown."""

    exposure: str
    by_participant: bool = False
    shown: list = field(default_factory=list)

    def fit(self, training):
        self.shown.append(training)
        return Estimate(None, (Fit("n", float(training.trials.height)),), "those it may learn from")

    def predict(self, estimate, trials):
        self.shown.append(trials)
        key = ["item_id", *(["participant_id"] if self.by_participant else [])]
        halves = pl.lit([math.log(0.5)] * 2).alias("logprobs_nats")
        return trials.select(key).unique(maintain_order=True).with_columns(halves)


class Silent(Recording):
    """Predicts the first response alone."""

    def predict(self, estimate, trials):
        return super().predict(estimate, trials).head(1)


class Halving(Recording):
    def predict(self, estimate, trials):
        items = trials.select("item_id").unique(maintain_order=True)
        halvings = pl.DataFrame({"halving": [1, 2]})
        return items.join(halvings, how="cross").with_columns(
            response_number=pl.col("halving") * 10.0, target=pl.col("halving") * 10.0 + 3
        )


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    raw.ensure_schema_parts(lake)
    return lake


def filled(rows, schema):
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)


def brought(lake, items, responses, run_id="tomi-1", version=1, uri="file", dataset="one", fits=()):
    """Commit questions and responses as an importer does."""
    common = {"mode_id": MODE, "source_id": SOURCE, "weight": 1.0}
    tables = [
        ("items", filled([common | {"legal_options": ["a", "b"]} | row for row in items], ITEMS)),
        ("human_responses", filled([common | row for row in responses], HUMAN_RESPONSES)),
        ("fits", filled([{"run_id": run_id, "mode_id": MODE, **row} for row in fits], FITS)),
    ]
    run = {
        "run_id": run_id,
        "kind": "items",
        "model_id": dataset,
        "agent_kind": "human",
        "planned_modes": [MODE],
        "source_id": SOURCE,
        "source_uri": uri,
        "importer_version": version,
        "notes": [],
    }
    raw.commit(lake, run_id, [table for table in tables if table[1].num_rows], filled([run], RUNS))


def participants(lake):
    """Four participants of one trial each; the last two are those of the test."""
    items = [
        {"item_id": f"i{number}", "participant_id": f"p{number}", "split": split, "facts_json": "{}"}
        for number, split in enumerate(["train", "train", "test", "test"])
    ]
    responses = [
        {"item_id": f"i{number}", "participant_id": f"p{number}", "response": "a", "fold": number % 2}
        for number in range(4)
    ]
    brought(lake, items, responses)


def settings(reference, monkeypatch, modes=(MODE,)):
    agent = AgentSettings(
        id="recording",
        version=1,
        kind="reference",
        description="A reference of a test.",
        family="recording:Recording",
        predicts=modes,
        provenance="reimplementation",
        seed=1,
    )
    monkeypatch.setattr(AgentSettings, "made", lambda self: reference)
    return agent


def run(lake, reference, monkeypatch, modes=(MODE,)):
    return generate(lake, plan(lake, [settings(reference, monkeypatch, modes)], {}))


def rows(lake, table, run_id):
    paths = [str(path) for path in part_paths(lake, table) if run_id in str(path)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def test_responses_of_the_test_cannot_reach_the_fit(lake, monkeypatch):
    participants(lake)
    reference = Recording("training_participants")
    [report] = run(lake, reference, monkeypatch)
    training, asked = reference.shown
    assert training.trials["participant_id"].to_list() == ["p0", "p1"]
    assert asked["participant_id"].to_list() == ["p2", "p3"]
    assert report.n_rows == 2


def test_each_fold_is_predicted_from_the_others(lake, monkeypatch):
    responses = [
        {"item_id": f"i{number}", "participant_id": "p", "response": "a", "fold": number % 3}
        for number in range(6)
    ]
    brought(lake, [{"item_id": f"i{number}", "participant_id": "p"} for number in range(6)], responses)
    reference = Recording("other_folds")
    [report] = run(lake, reference, monkeypatch)
    fits, predictions = reference.shown[:3], reference.shown[3:]
    for training, asked in zip(fits, predictions, strict=True):
        assert set(training.trials["item_id"]) | set(asked["item_id"]) == {f"i{n}" for n in range(6)}
        assert not set(training.trials["fold"]) & set(asked["fold"])
    assert report.n_rows == 6
    assert [row["value"] for row in rows(lake, "fits", report.run_id)] == [4.0, 4.0, 4.0]


def test_a_response_without_a_fold_is_a_row_without_an_answer(lake, monkeypatch):
    items = [{"item_id": f"i{number}", "participant_id": "p"} for number in range(3)]
    folds = [0, 1, None]
    responses = [
        {"item_id": f"i{number}", "participant_id": "p", "response": "a", "fold": fold}
        for number, fold in enumerate(folds)
    ]
    brought(lake, items, responses)
    [report] = run(lake, Recording("other_folds"), monkeypatch)
    assert report.n_rows == 3
    assert {row["item_id"] for row in rows(lake, "output_options", report.run_id)} == {"i0", "i1"}


def test_responses_without_any_fold_cannot_be_cross_fitted(lake, monkeypatch):
    participants_without_folds = [{"item_id": "i", "participant_id": "p", "response": "a"}]
    brought(lake, [{"item_id": "i", "participant_id": "p"}], participants_without_folds)
    with pytest.raises(EngineFailed, match="recording in tomi: expected responses in folds, found none"):
        run(lake, Recording("other_folds"), monkeypatch)


@pytest.mark.parametrize("exposure", ["other_participants", "nothing"])
def test_a_reference_that_fits_nothing_is_shown_nothing_before_it_predicts(lake, monkeypatch, exposure):
    participants(lake)
    reference = Recording(exposure)
    run(lake, reference, monkeypatch)
    training, asked = reference.shown
    assert training.trials.height == 0 and training.trials.columns == asked.columns
    assert asked["participant_id"].to_list() == ["p2", "p3"]


def shared(lake):
    """One question that three people answered, and one that nobody did."""
    answers = [{"item_id": "q", "participant_id": f"p{n}", "response": "a"} for n in range(3)]
    brought(lake, [{"item_id": "q"}, {"item_id": "unanswered"}], answers)


def test_a_prediction_of_one_participant_is_a_row_of_its_own(lake, monkeypatch):
    shared(lake)
    [report] = run(lake, Recording("other_participants", by_participant=True), monkeypatch)
    outputs = rows(lake, "outputs", report.run_id)
    assert [(row["item_id"], row["participant_id"], row["episode_id"]) for row in outputs] == [
        ("unanswered", None, "unanswered"),
        ("q", "p0", "p0"),
        ("q", "p1", "p1"),
        ("q", "p2", "p2"),
    ]
    options = rows(lake, "output_options", report.run_id)
    assert {(row["participant_id"], row["option"]) for row in options if row["item_id"] == "q"} == {
        (f"p{n}", option) for n in range(3) for option in "ab"
    }


def test_one_prediction_of_a_shared_question_is_for_all_who_answered(lake, monkeypatch):
    shared(lake)
    [report] = run(lake, Recording("nothing"), monkeypatch)
    outputs = rows(lake, "outputs", report.run_id)
    assert sorted((row["item_id"], row["participant_id"]) for row in outputs) == [
        ("q", None),
        ("unanswered", None),
    ]


def test_what_is_not_predicted_is_a_row_without_an_answer(lake, monkeypatch):
    participants(lake)
    [report] = run(lake, Silent("nothing"), monkeypatch)
    assert [row["item_id"] for row in rows(lake, "outputs", report.run_id)] == ["i2", "i3"]
    assert {row["item_id"] for row in rows(lake, "output_options", report.run_id)} == {"i2"}


def test_each_halving_is_a_question_of_its_own(lake, monkeypatch):
    shared(lake)
    [report] = run(lake, Halving("other_participants"), monkeypatch)
    items = rows(lake, "items", report.run_id)
    assert {(row["item_id"].removeprefix(f"{report.run_id}/"), row["target"]) for row in items} == {
        (f"{item}/{halving}", halving * 10.0 + 3) for item in ("q", "unanswered") for halving in (1, 2)
    }
    outputs = rows(lake, "outputs", report.run_id)
    assert {row["item_id"] for row in outputs} == {row["item_id"] for row in items}
    assert {(row["episode_id"], row["response_number"]) for row in outputs} == {
        (item, halving * 10.0) for item in ("q", "unanswered") for halving in (1, 2)
    }


def test_the_newest_reading_of_a_file_counts(lake, monkeypatch):
    brought(lake, [{"item_id": "old"}], [{"item_id": "old", "participant_id": "p"}], "tomi-old", 1)
    brought(lake, [{"item_id": "new"}], [{"item_id": "new", "participant_id": "p"}], "tomi-new", 2)
    [report] = run(lake, Recording("nothing"), monkeypatch)
    assert [row["item_id"] for row in rows(lake, "outputs", report.run_id)] == ["new"]
    [uniform] = generate(lake, plan(lake, [load_agents()["uniform"]], {}))[:1]
    assert uniform.mode_id == MODE


def test_archived_parameters_come_with_the_name_of_their_data_set(lake, monkeypatch):
    archived = {
        "family": "m2",
        "participant_id": "p",
        "parameter": "w",
        "value": 0.5,
        "provenance": "archived_replay",
    }
    response = {"item_id": "i", "participant_id": "p", "response": "a"}
    brought(lake, [{"item_id": "i", "participant_id": "p"}], [response], fits=[archived], dataset="first")
    reference = Recording("nothing")
    run(lake, reference, monkeypatch)
    training, _ = reference.shown
    found = training.archived.select("dataset", "family", "participant_id", "parameter", "value").rows()
    assert found == [("first", "m2", "p", "w", 0.5)]


def test_a_reference_predicts_its_own_modes_alone(lake, monkeypatch):
    participants(lake)
    assert plan(lake, [settings(Recording("nothing"), monkeypatch, ("rlwm",))], load_schedules()) == []


def test_a_mode_that_does_not_exist_is_refused(lake, monkeypatch):
    with pytest.raises(InvalidSource, match="recording: predicts: expected modes, found astrology"):
        plan(lake, [settings(Recording("nothing"), monkeypatch, ("astrology",))], {})


def test_a_reference_that_fails_is_named(lake, monkeypatch):
    participants(lake)

    class Failing(Recording):
        def fit(self, training):
            raise ValueError("no start converged")

    with pytest.raises(EngineFailed, match="recording in tomi: ValueError: no start converged"):
        run(lake, Failing("training_participants"), monkeypatch)


def test_every_reference_of_the_project_can_be_made_and_names_modes_that_exist():
    for agent in load_agents().values():
        assert agent.made() is not None
        assert set(agent.predicts) <= set(pipeline.item_sources())
