"""A real model is asked all four components, killed, gone on with, and its files hold what they say."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from store.lake import part_paths
from store.settings import Home

pytestmark = pytest.mark.engines

PROJECT = Path(__file__).resolve().parents[2]
COMPONENTS = ("smolcua", "marc", "procedural_pile", "ttm")
LIMIT = 3
PATIENCE_S = 900


def start(lake, output, model, *more):
    code = "import sys; sys.argv[0] = 'coglake'; from store.cli import main; main()"
    how = ["--engine", "hf", "--dtype", "float32", "--stand-in", "all", "--limit", str(LIMIT)]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "cognirank",
            "--model",
            str(model),
            "--output-dir",
            str(output),
            *how,
            *more,
        ],
        cwd=PROJECT,
        env={**os.environ, "COGLAKE_HOME": str(lake.root), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(process):
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def n_batches(lake):
    return len([path for path in part_paths(lake, "batches") if path.parent.name != "run=_schema"])


def kill_once_something_is_answered(process, lake):
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and n_batches(lake) == 0 and time.monotonic() < end:
        time.sleep(0.02)
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return was_running


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, small_model_path):
    """Lake and results of a model that was killed while it was asked, and gone on with."""
    folder = tmp_path_factory.mktemp("cognirank")
    lake, output = Home(folder / "lake"), folder / "results"
    assert kill_once_something_is_answered(start(lake, output, small_model_path), lake)
    code, said = end_of(start(lake, output, small_model_path, "--resume"))
    assert code == 0, said
    return lake, output


def folder_of_model(output):
    [run] = output.glob("*/run.json")
    return run.parent


def test_all_components_were_answered_once_and_no_composite_is_made_of_a_limit(evaluated):
    _, output = evaluated
    results = json.loads((folder_of_model(output) / "results.json").read_text(encoding="utf-8"))
    text = json.dumps(results)
    for component in COMPONENTS:
        lines = (folder_of_model(output) / component / "predictions.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in lines.splitlines()]
        assert Counter(row["item_id"] for row in rows).most_common(1)[0][1] == 1
        assert [row["status"] for row in rows] == ["ok"] * LIMIT, component
        assert component in text
    assert results["cogniscore"] is None
    assert "3 of 320 items have a score" in results["withheld_because"]


def test_every_file_is_what_the_sums_say(evaluated):
    _, output = evaluated
    sums = dict(
        reversed(line.split("  ", 1))
        for line in (output / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    )
    files = {path.relative_to(output).as_posix(): path for path in output.rglob("*") if path.is_file()}
    assert set(sums) == set(files) - {"SHA256SUMS"}
    for name, sha256 in sums.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == sha256, name


def test_an_edited_prediction_is_refused_by_name(evaluated, small_model_path):
    lake, output = evaluated
    predictions = folder_of_model(output) / "ttm" / "predictions.jsonl"
    before = predictions.read_bytes()
    predictions.write_bytes(before.replace(b'"status": "ok"', b'"status": "OK"', 1))
    try:
        code, said = end_of(start(lake, output, small_model_path, "--resume"))
    finally:
        predictions.write_bytes(before)
    assert code == 11, said
    assert "ttm/predictions.jsonl" in said
    assert "Traceback" not in said
