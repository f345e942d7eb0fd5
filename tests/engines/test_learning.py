"""Models in Learning dialogues: asked to the end, stopped and killed, in too little context, in parts."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("torch")

from tiny_models import LLAMA, write
from typer.testing import CliRunner

from store import command_generate_learning
from store.cli import app
from store.errors import EngineFailed
from store.lake import part_paths
from store.settings import Home

pytestmark = pytest.mark.engines

PROJECT = Path(__file__).resolve().parents[2]
# one message and one reply; examples until a test; a game
FAMILIES = ("overshadowing", "numeric_property", "wordle_micro")
N_LEVELS = 3
KEYS = ["mode_id", "episode_id", "step_index"]
PATIENCE_S = 300
# replies that wait longer are made durable, so that what is killed leaves episodes that were begun
CODE = """
import sys
from generate.learning import model_runs
from store.cli import main
sys.argv[0] = "coglake"
model_runs.FLUSH_SECONDS = 0.2
main()
"""


def arguments(model, *more, families=FAMILIES):
    how = ["--engine", "hf", "--dtype", "float32", "--max-response-tokens", "4", "--limit", "1"]
    modes = [word for family in families for word in ("--modes", family)]
    return ["generate", "--benchmark", "learning", "--model", str(model), *how, *modes, *more]


def asked(lake, model, *more, families=FAMILIES):
    environment = {"COGLAKE_HOME": str(lake.root)}
    result = CliRunner().invoke(app, arguments(model, *more, families=families), env=environment)
    assert "Traceback" not in result.stderr
    return result


def rows_of(lake, table):
    paths = [path for path in part_paths(lake, table) if path.parent.name != "run=_schema"]
    return pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths]) if paths else None


def steps(lake):
    return rows_of(lake, "steps").sort(KEYS)


def n_batches(lake):
    return 0 if (found := rows_of(lake, "batches")) is None else found.height


def require_one_request_per_row(lake):
    """Nothing is asked twice, and every reply is there."""
    rows = steps(lake)
    assert not rows.select("run_id", *KEYS).is_duplicated().any()
    assert rows_of(lake, "batches")["n_requests"].sum() == rows.height


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, small_model_path):
    """A model of random weights that says the same whenever it is asked the same."""
    sizes = LLAMA | {"max_position_embeddings": 4096}
    return write(tmp_path_factory.mktemp("tiny"), small_model_path, "LlamaConfig", **sizes)


@pytest.fixture(scope="module", params=["chat", "plain"])
def whole(request, tmp_path_factory, tiny):
    """A lake in which a model was asked without a break, and how."""
    lake = Home(tmp_path_factory.mktemp(f"whole-{request.param}") / "lake")
    result = asked(lake, tiny, "--format", request.param)
    assert result.exit_code == 0, result.stderr
    return lake, request.param


# --- whole ---


def test_every_episode_is_carried_to_its_end(whole):
    lake, _ = whole
    rows = steps(lake)
    ended = rows.group_by("episode_id").agg(pl.col("is_last").sum(), pl.col("is_last").last().alias("at_end"))
    assert ended.height == N_LEVELS * len(FAMILIES)
    assert ended["at_end"].all()
    assert set(ended["is_last"]) == {1}
    assert set(rows["status"]) == {"ok"}
    assert rows["response_text"].null_count() == 0
    require_one_request_per_row(lake)


def test_each_prompt_holds_what_was_told_and_said_before(whole):
    lake, _ = whole
    texts = dict(rows_of(lake, "prompts").select("prompt_sha256", "text").iter_rows())
    n_checked = 0
    for _, episode in steps(lake).group_by("run_id", "episode_id", maintain_order=True):
        turns = episode.to_dicts()
        for earlier, later in pairwise(turns):
            prompt = texts[later["prompt_sha256"]]
            told, said = earlier["observation"].strip(), earlier["response_text"].strip()
            before, after = prompt.index(told), prompt.rindex(later["observation"].strip())
            assert before + len(told) <= prompt.rindex(said, before, after), prompt
            n_checked += 1
    assert n_checked > 50


def test_a_second_time_asks_nothing_and_loads_no_model(whole, tiny, monkeypatch):
    lake, how = whole
    before = n_batches(lake)

    def refuse(settings):
        raise EngineFailed("a model was loaded")

    monkeypatch.setattr(command_generate_learning, "open_engine", refuse)
    result = asked(lake, tiny, "--format", how, "--json")
    assert result.exit_code == 0, result.stderr
    assert [run["n_new"] for run in json.loads(result.stdout)["runs"]] == [0] * len(FAMILIES)
    assert n_batches(lake) == before


def test_a_trained_model_is_asked_in_its_own_chat(tmp_path, small_model_path):
    lake = Home(tmp_path / "lake")
    more = ["--max-response-tokens", "16"]
    result = asked(lake, small_model_path, *more, families=["overshadowing"])
    assert result.exit_code == 0, result.stderr
    rows = steps(lake)
    assert rows["outcome"].to_list() == ["examined"] * N_LEVELS
    assert rows["n_response_tokens"].to_list() == [16] * N_LEVELS
    assert set(rows["finish_reason"]) == {"length"}
    [text, *_] = rows_of(lake, "prompts")["text"]
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert rows["observation"][0].strip() in text or rows["observation"][1].strip() in text


def test_a_reply_in_plain_text_is_not_over_where_it_begins(tmp_path, small_model_path):
    lake = Home(tmp_path / "lake")
    # of these games the model begins its reply with a line end; the context ends each after some steps
    more = ["--format", "plain", "--max-response-tokens", "12", "--max-context", "400"]
    result = asked(lake, small_model_path, *more, families=["wordle_micro"])
    assert result.exit_code == 0, result.stderr
    first = steps(lake).filter(pl.col("step_index") == 0)
    assert first.height == N_LEVELS
    assert first["response_text"].str.starts_with("\n").any()
    assert first["response_text"].str.strip_chars().str.len_chars().min() > 0
    assert not first["response_text"].str.contains("\n\n").any()


class Strict(BaseHTTPRequestHandler):
    """A chat server that refuses turns without text and two in a row of one side, as many do.

    To the first message of a dialogue it says nothing, then ``MORE`` twice, and ``READY`` from then on.
    """

    def do_GET(self):
        if self.path == "/v1/models":
            self.send({"data": [{"id": "m", "owned_by": "me", "max_model_len": 8192}]})
        else:
            self.send_error(404)

    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        roles = [message["role"] for message in messages]
        has_texts = all(message["content"].strip() for message in messages)
        if not has_texts or any(before == after for before, after in pairwise(roles)):
            self.send({"error": {"message": "assistant messages must have content"}}, 400)
            return
        told = [message["content"] for message in messages if message["role"] == "user"]
        was_silent = "Expected MORE" in told[0]
        text = ("MORE" if len(told) < 3 else "READY") if was_silent else ""
        self.send({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})

    def send(self, body, status=200):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Strict)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_server_that_refuses_empty_turns_is_asked_on_after_an_empty_reply(tmp_path, address):
    lake = Home(tmp_path / "lake")
    served = ["--engine", "openai", "--model", "m", "--base-url", address, "--format", "chat"]
    words = ["generate", "--benchmark", "learning", "--modes", "numeric_property", "--limit", "1", *served]
    result = CliRunner().invoke(app, words, env={"COGLAKE_HOME": str(lake.root)})
    assert result.exit_code == 0, result.stderr
    rows = steps(lake)
    assert set(rows["status"]) == {"ok"}
    for _, episode in rows.group_by("episode_id", maintain_order=True):
        assert episode["outcome"].to_list() == ["unread", "example", "example", "ready", "examined"]
        assert episode["response_text"].to_list() == ["", "MORE", "MORE", "READY", "READY"]
    require_one_request_per_row(lake)


# --- stopped ---


def start(lake, model, *more):
    environment = {**os.environ, "COGLAKE_HOME": str(lake.root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE, *arguments(model, *more)]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def signal_once_more_is_kept(process, lake, number):
    """Send a signal after two batches more; return the exit code and what was said."""
    wanted = n_batches(lake) + 2
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and n_batches(lake) < wanted and time.monotonic() < end:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


@pytest.fixture(scope="module")
def broken(tmp_path_factory, tiny):
    """A lake of a model that was interrupted, killed, and asked on, three times the same command."""
    lake = Home(tmp_path_factory.mktemp("broken") / "lake")
    more = ["--format", "chat", "--batch-size", "2"]
    code, said = signal_once_more_is_kept(start(lake, tiny, *more), lake, signal.SIGINT)
    assert (code, n_over(lake) < N_LEVELS * len(FAMILIES)) == (130, True), said
    assert "stopping after the batch in flight" in said
    assert "the same command goes on from here" in said
    require_one_request_per_row(lake)
    code, said = signal_once_more_is_kept(start(lake, tiny, *more), lake, signal.SIGKILL)
    assert (code, n_over(lake) < N_LEVELS * len(FAMILIES)) == (-signal.SIGKILL, True), said
    _, said = (process := start(lake, tiny, *more)).communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    return lake


def n_over(lake):
    return steps(lake)["is_last"].sum()


@pytest.mark.parametrize("whole", ["chat"], indirect=True)
def test_what_was_stopped_and_killed_holds_the_rows_of_an_unbroken_run(broken, whole):
    assert steps(broken).equals(steps(whole[0]))
    prompts = [rows_of(lake, "prompts").select("prompt_sha256", "text") for lake in (broken, whole[0])]
    assert prompts[0].unique().sort("prompt_sha256").equals(prompts[1].unique().sort("prompt_sha256"))


def test_what_was_stopped_and_killed_was_asked_once(broken):
    require_one_request_per_row(broken)


# --- parts, repeats, plans ---


def test_parts_are_asked_apart_and_a_repeat_says_the_same_as_another_run(tmp_path, tiny):
    lake = Home(tmp_path / "lake")
    family = ["overshadowing"]

    def pending(*more):
        result = asked(lake, tiny, "--dry-run", "--json", *more, families=family)
        assert result.exit_code == 0, result.stderr
        [run] = json.loads(result.stdout)["runs"]
        return run["n_planned"], run["n_pending"]

    assert pending() == (N_LEVELS, N_LEVELS)
    assert not part_paths(lake, "steps")
    for shard, n_of_shard in (("1/2", 2), ("2/2", 1)):
        assert pending("--shard", shard) == (n_of_shard, n_of_shard)
        assert asked(lake, tiny, "--shard", shard, families=family).exit_code == 0
        assert pending("--shard", shard) == (n_of_shard, 0)
    assert pending() == (N_LEVELS, 0)
    assert pending("--repeat", "1") == (N_LEVELS, N_LEVELS)
    assert asked(lake, tiny, "--repeat", "1", families=family).exit_code == 0
    rows = steps(lake)
    assert rows["run_id"].n_unique() == 2
    first, again = (
        run.drop("run_id") for _, run in rows.sort("run_id", *KEYS).group_by("run_id", maintain_order=True)
    )
    assert first.equals(again)
    require_one_request_per_row(lake)


# --- too little context ---


def test_a_dialogue_that_outgrows_the_context_ends_there_with_both_lengths(tmp_path, tiny):
    lake = Home(tmp_path / "lake")
    # room for the first messages, and not for all that follow them
    more = ["--max-context", "500"]
    result = asked(lake, tiny, *more, families=["wordle_micro"])
    assert result.exit_code == 0, result.stderr
    assert f"{N_LEVELS} new rows are too_long" in result.stderr
    rows = steps(lake)
    ended = rows.filter(pl.col("status") != "ok")
    assert (set(ended["status"]), ended.height) == ({"too_long"}, N_LEVELS)
    assert ended["is_last"].all()
    for row in ended.iter_rows(named=True):
        assert row["step_index"] > 0
        assert row["n_prompt_tokens"] > 0
        assert str(row["n_prompt_tokens"]) in row["status_reason"]
        assert "500" in row["status_reason"]
    assert [row["response_text"] for row in ended.to_dicts()] == [None] * N_LEVELS
    assert rows.filter(pl.col("status") == "ok")["response_text"].null_count() == 0
    # each ended where its dialogue did not fit, and is over
    again = asked(lake, tiny, *more, "--json", families=["wordle_micro"])
    assert again.exit_code == 0
    [run] = json.loads(again.stdout)["runs"]
    assert (run["n_new"], run["is_whole"]) == (0, True)
    require_one_request_per_row(lake)


def test_a_family_of_which_no_message_fits_has_its_reasons_too(tmp_path, tiny):
    lake = Home(tmp_path / "lake")
    result = asked(lake, tiny, "--max-context", "64", families=["overshadowing"])
    assert result.exit_code == 0, result.stderr
    rows = steps(lake)
    assert rows["status"].to_list() == ["too_long"] * N_LEVELS
    assert rows["step_index"].to_list() == [0] * N_LEVELS
    assert rows["status_reason"].null_count() == 0
