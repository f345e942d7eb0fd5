"""`coglake generate --benchmark learning`: whom and what it takes, what it prints and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.contract import EngineFacts, Response
from generate.learning.agent_runs import load_agents
from generate.learning.families import load_families
from store import command_generate_learning, command_generate_model
from store.cli import app
from store.lake import committed_runs, part_paths
from store.settings import Home, project_dir

FACTS = EngineFacts("hf", "1", "float32", 4096, 4096, has_chat_template=True, n_leading_bos=0)
FAMILIES = ("blocking", "numeric_property", "hanoi_two", "packet_filter")
SOME = [argument for name in FAMILIES for argument in ("--modes", name)]


@pytest.fixture(params=["lake", "lake of 'one' \"two\" ünï"])
def odd_lake(request, tmp_path, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / request.param))
    return Home(tmp_path / request.param)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    return Home(tmp_path / "lake")


def generated(*arguments):
    result = CliRunner().invoke(app, ["generate", "--benchmark", "learning", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    return result


def runs(*arguments):
    result = generated(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=pytest.fail)["runs"]


def refusal(*arguments, exit_code=2):
    result = generated(*arguments)
    assert result.exit_code == exit_code
    assert result.stdout == ""
    [said] = result.stderr.splitlines()
    return said.removeprefix("error: ")


def rows(lake, table):
    frames = [pl.read_parquet(path, hive_partitioning=False) for path in part_paths(lake, table)]
    return pl.concat([frame for frame in frames if frame.height])


# agents


def test_what_is_there_is_not_played_again(odd_lake):
    first = runs("--agent", "oracle", "--agent", "silent", "--modes", "blocking")
    assert [(run["agent_id"], run["mode_id"], run["is_new"]) for run in first] == [
        ("oracle", "blocking", True),
        ("silent", "blocking", True),
    ]
    assert [run["n_rows"] for run in first] == [12, 12]
    before = part_paths(odd_lake)
    again = runs("--agent", "oracle", "--agent", "silent", "--modes", "blocking")
    assert [(run["run_id"], run["is_new"], run["n_rows"]) for run in again] == [
        (run["run_id"], False, 0) for run in first
    ]
    assert part_paths(odd_lake) == before
    assert generated("--agent", "oracle", "--modes", "blocking").stdout.count("0 new") == 1


def test_a_pattern_stands_for_all_that_play_what_is_named(lake):
    planned = runs("--agent", "*", *SOME, "--dry-run")
    assert {(run["agent_id"], run["mode_id"]) for run in planned} == {
        (agent.id, name)
        for agent in load_agents().values()
        for name in FAMILIES
        if not agent.categories or load_families()[name].category in agent.categories
    }
    twice = runs("--agent", "o*", "--agent", "oracle", *SOME[:2], *SOME[:2], "--dry-run")
    assert [(run["agent_id"], run["mode_id"]) for run in twice] == [("oracle", "blocking")]


def test_a_dry_run_writes_nothing_and_tells_what_is_there(lake):
    assert [run["is_new"] for run in runs("--agent", "oracle", "--modes", "blocking", "--dry-run")] == [True]
    assert not lake.raw.exists()
    [done] = runs("--agent", "oracle", "--modes", "blocking")
    [planned] = runs("--agent", "oracle", "--modes", "blocking", "--dry-run")
    assert (planned["run_id"], planned["is_new"]) == (done["run_id"], False)
    shown = generated("--agent", "oracle", "--modes", "blocking", "--modes", "hanoi_two", "--dry-run").stdout
    assert [line.split()[2] for line in shown.splitlines() if "oracle" in line] == ["present", "to"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", "orcale"], "orcale: no such agent; did you mean oracle?"),
        (["--agent", "z*"], "z*: no such agent; there are oracle, expert, prober, random, silent"),
        (["--agent", "uniform"], "uniform: no such agent; there are oracle,"),
        (["--agent", "oracle", "--modes", "blokking"], "blokking: no such family; did you mean blocking?"),
        (
            ["--agent", "oracle", "--modes", "blocking_1"],
            "blocking_1: no such family; did you mean blocking?",
        ),
        (
            ["--agent", "oracle", "--modes", "runtime_rl"],
            "runtime_rl: expected a family, found a category: its families are hanoi_two, ",
        ),
        (
            ["--agent", "expert", "--agent", "prober", "--modes", "blocking"],
            "expert, prober: expected a family of procedural_learning or runtime_rl, found blocking alone",
        ),
        ([], "expected either --agent or --model"),
        (["--agent", "oracle", "--model", "x"], "expected either --agent or --model"),
        (["--agent", "oracle", "--limit", "1"], "--limit goes with --model, found it beside --agent"),
        (["--agent", "oracle", "--choice", "text"], "--choice goes with --model, found it beside --agent"),
        (["--agent", "oracle", "--engine", "vllm"], "--engine goes with --model, found it beside --agent"),
        (["--model", "x", "--choice", "argmax"], "--choice: the Learning benchmark is answered in words"),
        (["--model", "x", "--choice", "sampled"], "--choice: the Learning benchmark is answered in words"),
        (["--model", "x", "--modes", "bart"], "bart: no such family"),
        (["--model", "x", "--shard", "3/2"], "--shard: expected a part of a whole such as 1/4, found 3/2"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(lake, arguments, said):
    assert refusal(*arguments).startswith(said)
    assert not lake.root.exists()


def test_a_lake_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "file"))
    assert str(tmp_path / "file") in refusal("--agent", "oracle", "--modes", "blocking", exit_code=14)


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever may write everywhere is never refused")
def test_a_lake_that_may_not_be_written_is_said(lake):
    runs("--agent", "oracle", "--modes", "blocking")
    folders = [folder for folder in lake.raw.rglob("*") if folder.is_dir()]
    for folder in folders:
        folder.chmod(0o500)
    try:
        refusal("--agent", "silent", "--modes", "blocking", exit_code=14)
    finally:
        for folder in folders:
            folder.chmod(0o700)


def command(*arguments):
    code = "import sys; from store.cli import app; app(sys.argv[1:])"
    return [sys.executable, "-c", code, "generate", "--benchmark", "learning", "--agent", "*", *arguments]


def test_after_kills_and_beside_another_process_nothing_is_lost_or_doubled(lake, tmp_path):
    # the two start at once, so that both lay out the same items
    more = {"env": os.environ | {"COGLAKE_HOME": str(lake.root)}, "cwd": project_dir()}
    killed = subprocess.Popen(command(*SOME), stdout=subprocess.DEVNULL, **more)
    waited = 0.0
    while not committed_runs(lake) and waited < 60:
        time.sleep(0.02)
        waited += 0.02
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    two = [subprocess.Popen(command(*SOME, "--json"), stdout=subprocess.PIPE, **more) for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=120)[0])["runs"] for process in two]
    assert [process.returncode for process in two] == [0, 0]
    names = [{run["run_id"] for run in report if run["is_new"]} for report in reports]
    assert not names[0] & names[1]
    alone = Home(tmp_path / "alone")
    subprocess.run(
        command(*SOME),
        env=os.environ | {"COGLAKE_HOME": str(alone.root)},
        cwd=project_dir(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    for table in ("items", "steps"):
        keys = [key for key in ("run_id", "item_id", "episode_id", "step_index") if key in rows(alone, table)]
        assert rows(lake, table).sort(keys).equals(rows(alone, table).sort(keys))
    assert committed_runs(lake) == committed_runs(alone)


# models


class Ready:
    """An engine that is always ready and gives each question the same answer."""

    def __init__(self):
        self.n_asked = 0
        self.facts = FACTS

    def respond(self, requests):
        self.n_asked += len(requests)
        return [
            Response("ok", repr(request.prompt), text="READY", finish_reason="stop") for request in requests
        ]

    def close(self):
        pass


@pytest.fixture
def engine(lake, tmp_path, monkeypatch):
    """The engine that a command opens; the current folder holds the model `small`."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.chdir(tmp_path)
    ready = Ready()
    monkeypatch.setattr(command_generate_model, "describe", lambda settings: FACTS)
    monkeypatch.setattr(command_generate_learning, "open_engine", lambda settings: ready)
    return ready


SMALL = ("--model", "./small", "--engine", "hf", "--modes", "blocking", "--modes", "numeric_property")


def test_a_model_is_asked_once_and_more_of_it_is_added_later(lake, engine):
    planned = runs(*SMALL, "--limit", "1", "--dry-run")
    assert [(run["mode_id"], run["n_planned"], run["n_pending"]) for run in planned] == [
        ("blocking", 3, 3),
        ("numeric_property", 3, 3),
    ]
    assert not lake.raw.exists()
    first = runs(*SMALL, "--limit", "1")
    # one sheet, or READY and then the questions
    assert [(run["n_planned"], run["n_new"], run["is_whole"]) for run in first] == [
        (3, 3, True),
        (3, 6, True),
    ]
    assert [run["n_new"] for run in runs(*SMALL, "--limit", "1")] == [0, 0]
    rest = runs(*SMALL)
    assert [run["n_new"] for run in rest] == [9, 18]
    assert [run["run_id"] for run in rest] == [run["run_id"] for run in first]
    assert engine.n_asked == rows(lake, "steps").height == 36


def test_shards_are_the_whole_and_a_shard_that_holds_nothing_is_no_fault(lake, engine):
    n_new = [sum(run["n_new"] for run in runs(*SMALL, "--shard", f"{k}/5")) for k in range(1, 6)]
    assert sum(n_new) == 36
    assert [run["n_new"] for run in runs(*SMALL)] == [0, 0]
    assert sum(run["n_planned"] for run in runs(*SMALL, "--limit", "1", "--shard", "5/5")) == 0


def test_the_budget_of_a_reply_and_the_format_name_another_run(lake, engine):
    names = [
        {run["run_id"] for run in runs(*SMALL, "--dry-run", *more)}
        for more in ([], ["--max-response-tokens", "64"], ["--format", "plain"], ["--repeat", "1"])
    ]
    assert len(set.union(*names)) == 8
    # 1,024 unless said otherwise, and words unless said otherwise
    assert {run["run_id"] for run in runs(*SMALL, "--dry-run", "--max-response-tokens", "1024")} == names[0]
    assert {run["run_id"] for run in runs(*SMALL, "--dry-run", "--choice", "text")} == names[0]


def test_words_of_a_family_that_were_changed_are_refused_for_models_too(lake, engine, monkeypatch):
    assert runs("--agent", "oracle", "--modes", "blocking")
    (family,) = [family for name, family in load_families().items() if name == "blocking"]
    real = type(family.made(1)).sheet

    def reworded(made, dice, n_questions):
        sheet = real(made, dice, n_questions)
        return type(sheet)(sheet.text + " Really.", sheet.questions, sheet.shown)

    monkeypatch.setattr(type(family.made(1)), "sheet", reworded)
    said = refusal_of_model("--modes", "blocking")
    assert said == (
        "error: associative_learning.toml: blocking: the lake holds version 1 with other words: what the "
        "family tells was changed; raise the version, or take the change back"
    )
    assert engine.n_asked == 0


def refusal_of_model(*arguments):
    result = generated("--model", "./small", "--engine", "hf", *arguments)
    assert result.exit_code == 10
    return result.stderr.splitlines()[-1]


def test_a_folder_that_is_no_model_is_said(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    result = generated("--model", "./empty", "--engine", "hf")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
