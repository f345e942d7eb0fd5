"""Outputs get one verdict per answer rule, whatever happens to the grader; a run that was killed goes on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from datetime import UTC, datetime

import fake_verifier
import polars as pl
import psutil
import pyarrow as pa
import pytest
from support import ROOT

from generate.verifier import grading
from generate.verifier.grading import grade_run, graded_runs, grader_of
from store import command_grade
from store.errors import EngineFailed, InvalidSource, LakeUnusable, WrongUsage
from store.lake import append, batch_parts, commit, commit_batch, only_writer, open_run
from store.protocol import Grader, load_graders, load_metrics
from store.schemas import ITEMS, OUTPUTS, RUNS
from store.settings import Home

DATASET = "pile_like"
RULES = ("raw-v1", "answer-tags-v1", "last-line-v1")
RUN = "a-run"


@pytest.fixture
def verifier(tmp_path, monkeypatch):
    python = fake_verifier.install(tmp_path / "verifier")
    monkeypatch.setenv("COGLAKE_VERIFIER", str(python))
    declared = load_graders()["reasoning_core"]
    quick = declared.model_copy(update={"timeout_s": 1.0, "memory_mib": 1024})
    monkeypatch.setattr(grading, "load_graders", lambda: {declared.id: quick})
    return python


def item(number):
    facts = {"task": "a family", "answer": "gold", "metadata": "{}", "level": 0, "mode": "instruct"}
    return {
        "item_id": f"{DATASET}/{number}",
        "mode_id": DATASET,
        "source_id": DATASET,
        "prompt": f"Question {number}",
        "facts_json": json.dumps(facts),
        "weight": 1.0,
    }


def run_row(run_id, kind, **more):
    row = {
        "run_id": run_id,
        "kind": kind,
        "model_id": "org/model",
        "agent_kind": "none",
        "planned_modes": [DATASET],
        "source_id": DATASET,
        "notes": [],
    }
    return pa.Table.from_pylist([row | more], RUNS)


def output(number, response, status="ok", reason=None):
    return {
        "run_id": RUN,
        "item_id": f"{DATASET}/{number}",
        "mode_id": DATASET,
        "episode_id": "0",
        "response_text": response,
        "status": status,
        "status_reason": reason,
    }


def answer(lake, outputs):
    table = pa.Table.from_pylist(outputs, OUTPUTS)
    commit_batch(lake, RUN, [("outputs", table)], n_requests=1, environment={}, started_at=datetime.now(UTC))


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    items = pa.Table.from_pylist([item(number) for number in range(100)], ITEMS)
    commit(lake, "the-items", [("items", items)], run_row("the-items", "items"))
    open_run(lake, run_row(RUN, "model", identity_json=json.dumps({"items": ["the-items"]})))
    return lake


def graded(lake):
    return grade_run(lake, RUN, DATASET, lambda *_: None)


def verdicts(lake):
    paths = batch_parts(lake, RUN, "verdicts")
    rows = pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths]).to_dicts()
    return sorted(rows, key=lambda row: (row["item_id"], RULES.index(row["answer_rule"])))


def test_every_output_has_one_verdict_per_answer_rule(lake, verifier):
    answer(
        lake,
        [output(0, "gold"), output(1, "tin\n<answer>gold</answer>"), output(2, "<answer>tin</answer>\ngold")],
    )
    report = graded(lake)
    assert (report.n_outputs, report.n_verdicts, report.n_by_status, report.n_not_graded) == (3, 9, {}, 0)
    assert [(row["item_id"], row["answer_rule"], row["verdict"]) for row in verdicts(lake)] == [
        ("pile_like/0", "raw-v1", 1),
        ("pile_like/0", "answer-tags-v1", 1),
        ("pile_like/0", "last-line-v1", 1),
        ("pile_like/1", "raw-v1", 0),
        ("pile_like/1", "answer-tags-v1", 1),
        ("pile_like/1", "last-line-v1", 0),
        ("pile_like/2", "raw-v1", 0),
        ("pile_like/2", "answer-tags-v1", 0),
        ("pile_like/2", "last-line-v1", 1),
    ]
    assert {(row["grader_id"], row["grader_version"], row["mode_id"]) for row in verdicts(lake)} == {
        ("reasoning_core", fake_verifier.VERSION, DATASET)
    }


def test_what_gets_no_score_has_none_and_the_rest_is_graded(lake, verifier):
    answer(
        lake,
        [
            output(0, "hang"),
            output(1, "exit"),
            output(2, "nan"),
            output(3, "none"),
            output(4, ""),
            output(5, None, "too_long", "the prompt has 5000 tokens"),
            output(6, None, "error", "the engine died"),
            output(7, None),
        ],
    )
    report = graded(lake)
    assert report.n_by_status == {"crash": 3, "error": 3 * 3, "not_finite": 3, "timeout": 3, "too_long": 3}
    # not those of the outputs 5 and 6, which failed before
    assert report.n_not_graded == 3 * 5
    found = {row["item_id"]: row for row in verdicts(lake) if row["answer_rule"] == "raw-v1"}
    assert [found[f"pile_like/{number}"]["verdict"] for number in range(8)] == [None] * 4 + [0] + [None] * 3
    reasons = [found[f"pile_like/{number}"]["status_reason"] for number in (4, 5, 6, 7)]
    assert reasons == [None, "the prompt has 5000 tokens", "the engine died", "the output has no text"]
    assert all(row["status_reason"] for row in verdicts(lake) if row["status"] != "ok")


def test_what_is_graded_is_not_graded_again_and_starts_no_verifier(lake, verifier, monkeypatch):
    answer(lake, [output(0, "gold")])
    assert graded(lake).n_verdicts == 3
    monkeypatch.setenv("COGLAKE_VERIFIER", "/nowhere")
    assert graded(lake).n_verdicts == 0
    answer(lake, [output(1, None, "too_long", "so long")])
    assert graded(lake).n_verdicts == 3
    answer(lake, [output(2, "gold")])
    with pytest.raises(EngineFailed, match="make setup-verifier"):
        graded(lake)
    assert len(verdicts(lake)) == 6


def test_another_version_adds_verdicts_and_changes_none(lake, verifier, monkeypatch):
    answer(lake, [output(0, "gold"), output(1, "tin")])
    graded(lake)
    before = verdicts(lake)
    metrics = load_metrics()
    newer = load_graders()["reasoning_core"].model_copy(update={"version": "0.5.0+another"})
    monkeypatch.setattr(grading, "load_graders", lambda: {newer.id: newer})
    monkeypatch.setattr(
        grading,
        "load_metrics",
        lambda: [
            row.model_copy(update={"grader_version": newer.version})
            for row in metrics
            if row.grader_id is not None
        ],
    )
    worker = (ROOT / "generate" / "verifier" / "worker.py").read_text(encoding="utf-8")
    changed = lake.root / "worker.py"
    changed.write_text(worker.replace('"inverse-math-normalize-progress-v1"', '"another"'), encoding="utf-8")
    monkeypatch.setattr("generate.verifier.client._WORKER", changed)
    assert graded(lake).n_verdicts == 6
    assert [row for row in verdicts(lake) if row["grader_version"] != newer.version] == before


def test_rows_that_no_batch_committed_do_not_count(lake, verifier):
    append(lake, "outputs", pa.Table.from_pylist([output(0, "gold")], OUTPUTS), RUN)
    assert graded(lake).n_outputs == 0


def test_an_answer_that_came_twice_is_graded_once(lake, verifier):
    answer(lake, [output(0, "gold")])
    answer(lake, [output(0, "gold"), output(1, "tin")])
    assert graded(lake).n_verdicts == 2 * 3
    assert len(verdicts(lake)) == 2 * 3


def test_text_that_no_file_was_made_for_is_graded(lake, verifier):
    answer(lake, [output(0, "\0\u202e\U0001f600"), output(1, "x" * 10_000_000), output(2, "raise")])
    assert graded(lake).n_by_status == {"error": 3}
    # the verifier's message has a lone surrogate in it, which parquet could not hold
    assert {row["status_reason"] for row in verdicts(lake)} == {None, "ValueError: two lines, and"}


def test_a_grader_that_is_killed_goes_on_where_it_was(lake, verifier):
    answer(lake, [output(number, "gold" if number % 2 else "tin") for number in range(100)])
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from generate.verifier.grading import grade_run
        from store.settings import Home

        def die(done, total, name):
            print(done, total, name, flush=True)
            if done >= 40:
                os.kill(os.getpid(), signal.SIGKILL)

        grade_run(Home(Path({str(lake.root)!r})), {RUN!r}, {DATASET!r}, die)
        """
    )
    died = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert died.returncode == -signal.SIGKILL
    n_before = len(verdicts(lake))
    assert 0 < n_before < 3 * 100
    report = graded(lake)
    assert report.n_verdicts == 3 * 100 - n_before
    counted = Counter((row["item_id"], row["answer_rule"]) for row in verdicts(lake))
    assert len(counted) == 3 * 100
    assert set(counted.values()) == {1}
    assert sum(row["verdict"] for row in verdicts(lake)) == 3 * 50


def test_a_verifier_that_dies_leaves_whole_batches(lake, verifier):
    answer(lake, [output(number, "gold") for number in range(65)])

    def kill(done, total, name):
        if done == 64:
            started = psutil.Process().children()
            [program] = [child for child in started if "worker.py" in " ".join(child.cmdline())]
            program.kill()

    with pytest.raises(EngineFailed, match="ended with SIGKILL"):
        grade_run(lake, RUN, DATASET, kill)
    assert len(verdicts(lake)) == 3 * 64


def test_two_graders_of_one_run_do_not_do_the_same(lake, verifier):
    answer(lake, [output(0, "gold")])
    with only_writer(lake, f"{RUN}.verdicts"), pytest.raises(LakeUnusable, match="another process is at it"):
        graded(lake)
    assert graded(lake).n_verdicts == 3


def test_progress_counts_outputs(lake, verifier):
    answer(lake, [output(number, "gold") for number in range(40)])
    steps = []
    grade_run(lake, RUN, DATASET, lambda *step: steps.append(step))
    assert steps == [(32, 40, DATASET), (40, 40, DATASET)]


def test_an_answer_to_an_item_that_is_not_there_is_refused(lake, verifier):
    answer(lake, [output(100, "gold")])
    with pytest.raises(InvalidSource, match="pile_like/100: expected the item that was answered in the lake"):
        graded(lake)


def test_an_item_without_facts_is_refused(lake, verifier):
    bare = pa.Table.from_pylist([item(0) | {"facts_json": '{"task": "a family"}'}], ITEMS)
    commit(lake, "bare-items", [("items", bare)], run_row("bare-items", "items"))
    identity = json.dumps({"items": ["bare-items"]})
    open_run(lake, run_row("another", "model", identity_json=identity))
    table = pa.Table.from_pylist([output(0, "gold") | {"run_id": "another"}], OUTPUTS)
    commit_batch(
        lake, "another", [("outputs", table)], n_requests=1, environment={}, started_at=datetime.now(UTC)
    )
    with pytest.raises(
        InvalidSource, match=r"expected task, answer, metadata, level, mode .* found no answer"
    ):
        grade_run(lake, "another", DATASET, lambda *_: None)


def test_only_the_pile_has_a_grader():
    assert grader_of("pile_like") == grader_of("procedural_pile") == load_graders()["reasoning_core"]
    assert grader_of("marc") is None
    with pytest.raises(InvalidSource, match=r"no_such: expected a data set .*pile_like"):
        grader_of("no_such")
    with pytest.raises(InvalidSource, match="marc: expected a data set with a grader"):
        grade_run(Home(ROOT), RUN, "marc", lambda *_: None)


def test_a_grader_of_another_version_or_with_an_unknown_rule_is_refused(monkeypatch):
    declared = load_graders()["reasoning_core"]

    def refusal(changed: Grader) -> str:
        monkeypatch.setattr(grading, "load_graders", lambda: {changed.id: changed})
        with pytest.raises(InvalidSource) as caught:
            grader_of(DATASET)
        return str(caught.value)

    assert "procedural_pile: expected one grader" in refusal(declared.model_copy(update={"version": "1"}))
    assert "found raw-v2" in refusal(declared.model_copy(update={"answer_rules": ("raw-v1", "raw-v2")}))


def test_what_is_installed_for_a_grader_is_the_package_and_version_that_it_declares():
    lines = (ROOT / "requirements-verifier.lock").read_text(encoding="utf-8").splitlines()
    locked = {line.split()[0] for line in lines if line[:1].isalnum()}
    for grader in load_graders().values():
        assert grader.package in locked
        assert grader.version.split("+")[0] == grader.package.split("==")[1]


def test_the_command_grades_all_models_or_those_that_are_named(lake, verifier, monkeypatch, capsys):
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
    answer(lake, [output(0, "gold"), output(1, None, "error", "the engine died")])
    assert list(graded_runs(lake)) == [(RUN, "org/model", DATASET)]
    command_grade.run(None, as_json=True)
    said = capsys.readouterr()
    [report] = json.loads(said.out)["runs"]
    assert (report["n_verdicts"], report["n_by_status"]) == (2 * 3, {"error": 3})
    assert "3 new verdicts are error" in said.err
    command_grade.run(["org/model"], as_json=False)
    assert RUN in capsys.readouterr().out
    with pytest.raises(WrongUsage, match=r"org/mode: no such model; did you mean org/model\?"):
        command_grade.run(["org/mode"], as_json=False)


def test_the_command_fails_where_an_answer_got_no_score(lake, verifier, monkeypatch, capsys):
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
    answer(lake, [output(0, "hang"), output(1, "gold")])
    with pytest.raises(EngineFailed, match="expected a score in each verdict on a text, found 3 without one"):
        command_grade.run(None, as_json=True)
    assert len(verdicts(lake)) == 2 * 3
    # what is known is not complained of again
    command_grade.run(None, as_json=True)
