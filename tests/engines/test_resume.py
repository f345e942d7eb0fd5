"""A run that is killed again and again ends as one that was never stopped, and asks nothing twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from support import built, copy_project, query

from store.lake import part_paths
from store.settings import Home

pytestmark = pytest.mark.engines

PROJECT = Path(__file__).resolve().parents[2]
N_KILLS = 10
N_QUESTIONS, N_EPISODES = 24, 2
MODES = {"bayesian_urn": N_QUESTIONS, "temporal_discounting": N_EPISODES}
# of what is compared, what the machine and the clock decide
NOT_COMPARED = ("run_id", "batch_id", "started_at", "finished_at", "environment_json")
PATIENCE_S = 600


def command(model, mode):
    asked = ["--engine", "hf", "--dtype", "float32", "--batch-size", "1", "--max-response-tokens", "4"]
    code = "import sys; sys.argv[0] = 'coglake'; from store.cli import main; main()"
    limit = ["--modes", mode, "--limit", str(MODES[mode])]
    return [sys.executable, "-c", code, "generate", "--model", str(model), *asked, *limit]


def start(lake, model, mode):
    environment = {**os.environ, "COGLAKE_HOME": str(lake.root), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(model, mode), cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def n_batches(lake):
    return len([path for path in part_paths(lake, "batches") if path.parent.name != "run=_schema"])


def kill_after(process, lake, n_new, delay_s):
    """Kill a process some time after it committed so many batches more; return whether it still ran."""
    wanted = n_batches(lake) + n_new
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and n_batches(lake) < wanted and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(delay_s)
    is_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return is_running


def finish(process):
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said.decode()


def rows(lake, table):
    """Rows that batches committed, without what the machine and the clock decide."""
    committed = set()
    for path in part_paths(lake, "batches"):
        committed.update(
            sha for parts in pl.read_parquet(path, hive_partitioning=False)["parts"] for sha in parts
        )
    paths = [path for path in part_paths(lake, table) if path.stem.removeprefix("part-") in committed]
    found = pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths])
    return found.drop(name for name in NOT_COMPARED if name in found.columns)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, small_model_path):
    lake = Home(tmp_path_factory.mktemp("unbroken") / "lake")
    for mode in MODES:
        finish(start(lake, small_model_path, mode))
    return lake


@pytest.fixture(scope="module")
def broken(tmp_path_factory, small_model_path):
    """The same after ten kills at random points, most of them while questions are asked."""
    lake = Home(tmp_path_factory.mktemp("broken") / "lake")
    draw = random.Random(20261130)
    n_killed = 0
    for mode, n_kills in (("bayesian_urn", N_KILLS - 3), ("temporal_discounting", 3)):
        for _ in range(n_kills):
            n_new = draw.randrange(0, 3) if mode == "bayesian_urn" else draw.randrange(0, 2)
            n_killed += kill_after(start(lake, small_model_path, mode), lake, n_new, draw.uniform(0, 0.5))
        finish(start(lake, small_model_path, mode))
    return lake, n_killed


def test_it_was_killed_at_work(broken):
    _, n_killed = broken
    assert n_killed >= N_KILLS - 3


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("outputs", ["mode_id", "item_id"]),
        ("steps", ["mode_id", "episode_id", "step_index"]),
    ],
)
def test_the_rows_are_those_of_an_unbroken_run(broken, unbroken, table, keys):
    found, expected = rows(broken[0], table).sort(keys), rows(unbroken, table).sort(keys)
    assert not found.select(keys).is_duplicated().any()
    assert found.to_dicts() == expected.to_dicts()


def n_asked(lake):
    """Requests whose answers count."""
    paths = [path for path in part_paths(lake, "batches") if path.parent.name != "run=_schema"]
    return sum(pl.read_parquet(path, hive_partitioning=False)["n_requests"].sum() for path in paths)


def test_nothing_that_was_answered_is_asked_again(broken, unbroken):
    assert n_asked(broken[0]) == n_asked(unbroken) > N_QUESTIONS


def test_the_tables_are_those_of_an_unbroken_run(broken, unbroken, tmp_path):
    metrics = """
        select mode_id, metric, value_scored, n_planned, n_scored, n_error, n_unparsed, se
        from metrics where n_planned > 0 order by all
    """
    project = copy_project(tmp_path / "project")
    tables = []
    for lake in (broken[0], unbroken):
        built(lake, project)
        tables.append(query(lake, metrics))
    assert tables[0] == tables[1]
    assert {row["mode_id"] for row in tables[0]} == set(MODES)
