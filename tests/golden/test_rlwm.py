"""Pictures and keys: do the archived fits, replayed on the real trials, give the archived likelihoods?"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pytest import approx
from scipy.io import loadmat

from generate.contract import Training
from generate.pipeline import generate, plan
from generate.references.rlwm import ArchivedReplay
from generate.schedule import load_agents
from ingest.pipeline import SourceReport, ingest
from store.lake import part_paths
from store.manifest import Source, load_sources
from store.settings import Home

pytestmark = pytest.mark.mirror

# rows of the file, participants, trials without a key in time or with another key, trials answered too soon
COUNTS = {
    "Expe1": (53573, 79, 484, 178),
    "Expe2": (46676, 85, 181, 78),
    "Expe3": (30403, 40, 458, 157),
    "Expe5": (19656, 26, 527 + 6, 5),
    "Expe12": (140124, 300, 0, 134),
    "Expe16": (27090, 30, 378, 83),
}
# per cent of trials whose likeliest key is right, with what ties exactly and with what is within 1e-6 of the
# highest probability sharing the choice; mean probability of the right key in per cent
READOUTS = {
    "Expe1": (88.9, 88.9, 79.79),
    "Expe2": (88.2, 87.8, 75.09),
    "Expe3": (89.1, 89.1, 80.13),
    "Expe5": (90.8, 90.8, 84.45),
    "Expe12": (91.1, 91.1, 82.54),
    "Expe16": (90.3, 90.0, 78.96),
}


@dataclass(frozen=True)
class Study:
    """The source in the mirror, and the lake with the replay of its fits."""

    source: Source
    lake: Home
    report: SourceReport
    ingest_s: float
    replay_s: float

    def rows(self, table: str, run: str) -> pl.DataFrame:
        paths = [path for path in part_paths(self.lake, table) if f"run={run}" in str(path)]
        return pl.concat(pl.read_parquet(path, hive_partitioning=False) for path in paths)

    def archive(self, dataset: str) -> dict[str, np.ndarray]:
        path = f"RLWM/Fits/FitRLWM_dataset{dataset.removeprefix('Expe')}.mat"
        [file] = [file for file in self.source.files if file.path == path]
        return loadmat(Path(os.environ["COGLAKE_MIRROR"]) / self.source.mirror_path(file))


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    source = load_sources()["rlwm"]
    lake = Home(tmp_path_factory.mktemp("rlwm") / "lake")
    start = time.process_time()
    [report] = ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    middle = time.process_time()
    generate(lake, plan(lake, [load_agents()["rlwm_replay"]], {}))
    return Study(source, lake, report, middle - start, time.process_time() - middle)


@pytest.fixture(scope="module")
def trials(study) -> pl.DataFrame:
    """Every answered trial with what was done and what was right."""
    items = study.rows("items", "rlwm-").select("item_id", "participant_id", "credited_options", "facts_json")
    responses = study.rows("human_responses", "rlwm-").select("item_id", "response")
    return items.join(responses, on="item_id", validate="1:1").with_columns(
        dataset=pl.col("participant_id").str.split("/").list.first()
    )


@pytest.fixture(scope="module")
def scored(study, trials) -> pl.DataFrame:
    """Every trial with the log-probability of the pressed and of the right key, and its credits."""
    options = study.rows("output_options", "rlwm_replay").sort("item_id", "option_index")
    keys = options.group_by("item_id", maintain_order=True).agg("logprob_nats")
    found = trials.join(keys, on="item_id", validate="1:1").with_columns(
        pressed=pl.col("response").cast(pl.Int64) - 1,
        right=pl.col("credited_options").list.first().cast(pl.Int64) - 1,
    )
    logprobs, every = np.stack(found["logprob_nats"].to_numpy()), np.arange(found.height)
    pressed, right = (found[name].to_numpy() for name in ("pressed", "right"))
    return found.with_columns(
        pressed=logprobs[every, pressed],
        right=logprobs[every, right],
        exact=shares(logprobs, 0.0)[every, right],
        near=shares(np.exp(logprobs), 1e-6)[every, right],
    )


def shares(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Return how the choice is shared by the keys that are as likely as the likeliest: trials x keys."""
    is_highest = values >= values.max(axis=1, keepdims=True) - tolerance
    return is_highest / is_highest.sum(axis=1, keepdims=True)


def test_every_row_is_an_item_or_a_counted_gap(study, trials):
    assert study.report.failures == ()
    runs = {run["model_id"]: run for run in study.rows("runs", "rlwm-").iter_rows(named=True)}
    assert set(runs) == set(COUNTS)
    for dataset, (n_rows, n_participants, n_missed, n_too_soon) in COUNTS.items():
        of_dataset = trials.filter(dataset=dataset)
        assert runs[dataset]["n_source_rows"] == n_rows
        assert runs[dataset]["n_unreadable_rows"] == n_missed + n_too_soon
        assert of_dataset.height == n_rows - n_missed - n_too_soon
        assert of_dataset["participant_id"].n_unique() == n_participants


def test_a_second_ingest_finds_nothing_new(study):
    [report] = ingest(study.lake, [study.source], mirror=os.environ["COGLAKE_MIRROR"])
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (0, 6, 0)


def test_ingest_and_replay_take_seconds(study):
    # on a machine that does other work the clock runs on; the work itself is the processor's time
    assert study.ingest_s < 30 and study.replay_s < 30


@pytest.mark.parametrize("dataset", list(COUNTS))
def test_the_likelihood_of_every_participant_is_the_archived_one(study, scored, dataset):
    archive = study.archive(dataset)
    # log-likelihoods stand in the second column, and the model is the second of the list
    archived = {
        f"{dataset}/{number}": -value
        for number, value in zip(
            archive["subjects_list"].ravel(), archive["All_fits"][:, 1, 1].tolist(), strict=True
        )
    }
    sums = dict(
        scored.filter(dataset=dataset).group_by("participant_id").agg(-pl.col("pressed").sum()).iter_rows()
    )
    assert set(sums) == set(archived)
    assert all(sums[who] == approx(archived[who], abs=1e-6) for who in archived)
    assert sum(sums.values()) == approx(sum(archived.values()), abs=1e-6)

    published = study.rows("published", "rlwm-")
    told = published.filter(pl.col("episode_id").str.starts_with(f"{dataset}/"))
    assert dict(told.select("episode_id", "value").iter_rows()) == approx(archived, abs=1e-9)
    assert set(told["model_id"]) == {"model 2: WM RL0 0"}


@pytest.mark.parametrize("dataset", list(READOUTS))
def test_the_readouts_are_those_on_record(scored, dataset):
    of_dataset = scored.filter(dataset=dataset)
    exact, near, right = READOUTS[dataset]
    assert 100 * of_dataset["exact"].mean() == approx(exact, abs=0.05)
    assert 100 * of_dataset["near"].mean() == approx(near, abs=0.05)
    assert 100 * of_dataset["right"].exp().mean() == approx(right, abs=0.005)


def test_no_data_set_gives_the_printed_cell(scored):
    found = scored.group_by("dataset").agg(pl.col("exact", "near").mean())
    assert "89.3" not in {f"{100 * value:.1f}" for row in found.rows() for value in row[1:]}
    assert 100 * scored["exact"].mean() == approx(90.04, abs=0.005)
    assert 100 * scored["right"].exp().mean() == approx(80.57, abs=0.005)


@pytest.mark.parametrize("model", ["model 6: WM=RL 0", "model 15: int WM1 RL 0", "model 26: freq WM=RL 0"])
def test_models_of_the_other_kinds_replay_as_well(study, trials, model):
    fits = study.rows("fits", "rlwm-")
    replay = ArchivedReplay(model=model)
    predicted = replay.predict(replay.fit(Training(trials.clear(), fits)), trials)
    sums = (
        predicted.join(trials.select("item_id", "response"), on="item_id")
        .group_by("participant_id")
        .agg(-pl.col("logprobs_nats").list.get(pl.col("response").cast(pl.Int64) - 1).sum().alias("sum"))
    )
    archived = fits.filter(family=model, parameter="negative_log_likelihood")
    both = sums.join(archived, on="participant_id", how="full", validate="1:1")
    assert both.height == archived.height > 200
    assert (both["sum"] - both["value"]).abs().max() < 1e-6
