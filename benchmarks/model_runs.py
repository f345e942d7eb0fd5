"""Measure what a model's run costs beside the model: planning what is missing, and storing what was said.

Run ``python benchmarks/model_runs.py``; it prints two markdown tables and leaves no file behind.
"""

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from generate.contract import EngineFacts, Response
    from generate.model_runs import ModelTask

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
MODE = "false_belief_qa"
SOURCE = "tomi"
OPTIONS = ("drawer", "basket")


@dataclass(frozen=True, slots=True)
class Planned:
    """Questions of which a share is answered: seconds until they are counted and until the first batch."""

    n_items: int
    n_answered: int
    count_s: float
    first_batch_s: float
    peak_rss: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Answers with two scored options each: seconds to make the rows and to make them durable."""

    n_answers: int
    n_batches: int
    rows_s: float
    commit_s: float
    on_disk: int
    peak_rss: int


def write_questions(root: str, n: int) -> None:
    """Write ``n`` questions of about 400 characters as an ingested source."""
    from store.lake import commit
    from store.schemas import ITEMS, RUNS
    from store.settings import Home

    prompt = "Read the story and answer the question. " * 10
    columns = {
        "item_id": pa.array([f"{SOURCE}/{i}" for i in range(n)]),
        "mode_id": pa.repeat(MODE, n),
        "source_id": pa.repeat(SOURCE, n),
        "prompt": pa.array([f"{prompt}{i}" for i in range(n)]),
        "template_sha256": pa.repeat("0" * 64, n),
        "legal_options": pa.repeat(pa.scalar(OPTIONS, pa.list_(pa.string())), n),
        "weight": pa.repeat(1.0, n),
    }
    items = pa.table({f.name: columns.get(f.name, pa.nulls(n, f.type)) for f in ITEMS}, schema=ITEMS)
    run = {
        "run_id": "questions",
        "kind": "items",
        "model_id": "none",
        "agent_kind": "none",
        "planned_modes": [MODE],
        "source_id": SOURCE,
        "notes": [],
    }
    commit(Home(Path(root)), "questions", [("items", items)], pa.Table.from_pylist([run], RUNS))


def write_answers(root: str, n: int) -> None:
    """Answer the first ``n`` questions."""
    from generate.model_rows import answer_rows
    from store.lake import commit_batch
    from store.settings import Home

    task = planned_task(root)
    questions = pa.table(
        {"item_id": [f"{SOURCE}/{i}" for i in range(n)], "participant_id": pa.nulls(n, pa.string())}
    )
    tables = answer_rows(task.run_id, MODE, questions, responses(0, n))
    commit_batch(
        Home(Path(root)), task.run_id, tables, n_requests=n, environment={}, started_at=datetime.now(UTC)
    )


def facts() -> "EngineFacts":
    """Return what a run states of an engine."""
    from generate.contract import EngineFacts

    return EngineFacts("none", "0", "float32", 2048, 2048, has_chat_template=True, n_leading_bos=0)


def planned_task(root: str) -> "ModelTask":
    """Return the one task of a model in that lake."""
    from generate.model_runs import plan
    from generate.rollouts import Choosing
    from generate.weights import Weights
    from store.settings import Home

    choosing = Choosing("argmax", is_chat=True, max_response_tokens=8, stop=(), seed=0, batch_size=1024)
    weights = Weights("benchmark", "0" * 40, "benchmark", is_folder=False)
    (task,) = plan(Home(Path(root)), weights, facts(), choosing, {}, [MODE])
    return task


def responses(first: int, n: int) -> "list[Response]":
    """Return ``n`` responses with two options of one token each."""
    from generate.contract import Response, ScoredOption

    nats = -np.random.default_rng(first).exponential(size=(n, 2))
    return [
        Response(
            "ok",
            f"question {first + i}",
            prompt_token_ids=tuple(range(100)),
            n_prompt_tokens=100,
            options=tuple(ScoredOption(o, (7,), (v,)) for o, v in zip(OPTIONS, values, strict=True)),
        )
        for i, values in enumerate(nats.tolist())
    ]


def measure_plan(given: tuple[str, int, int]) -> Planned:
    """Plan, count and read the first batch."""
    root, n_items, n_answered = given
    from generate.model_runs import count
    from generate.pending import Questions, Slice, pending
    from generate.questions import item_runs, runs_of
    from store.settings import Home

    lake, part = Home(Path(root)), Slice()
    start = time.perf_counter()
    task = planned_task(root)
    assert count(lake, task, part) == (n_items, n_items - n_answered)
    count_s = time.perf_counter() - start
    start = time.perf_counter()
    questions = Questions(MODE, item_runs(runs_of(lake), MODE, SOURCE), task.run_id)
    with pending(lake, questions, part, batch_size=1024) as found:
        assert found.n_pending == n_items - n_answered
        assert next(found.batches).num_rows == 1024
    first_batch_s = time.perf_counter() - start
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    return Planned(n_items, n_answered, count_s, first_batch_s, rss)


def measure_store(given: tuple[str, int, int]) -> Stored:
    """Turn responses into rows and commit them in batches."""
    root, n_answers, n_batches = given
    from generate.model_rows import PromptBook, answer_rows
    from store.lake import commit_batch
    from store.settings import Home

    lake, size = Home(Path(root)), n_answers // n_batches
    book = PromptBook(lake)
    rows_s = commit_s = 0.0
    for first in range(0, n_answers, size):
        said = responses(first, size)
        questions = pa.table(
            {
                "item_id": [f"{SOURCE}/{first + i}" for i in range(size)],
                "participant_id": pa.nulls(size, pa.string()),
            }
        )
        start = time.perf_counter()
        tables = answer_rows("stored", MODE, questions, said)
        tables.append(("prompts", book.rows("stored", said, facts(), is_chat=True)))
        rows_s += time.perf_counter() - start
        start = time.perf_counter()
        commit_batch(lake, "stored", tables, n_requests=size, environment={}, started_at=datetime.now(UTC))
        commit_s += time.perf_counter() - start
    on_disk = sum(path.stat().st_size for path in lake.raw.rglob("*.parquet"))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    return Stored(n_answers, n_batches, rows_s, commit_s, on_disk, rss)


def planned_table(results: list[Planned]) -> Table:
    """Lay the planning out, one lake a row."""
    shown = Table(box=MARKDOWN)
    for title in ("questions", "answered", "plan and count s", "first batch s", "peak RSS MiB"):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        shown.add_row(
            f"{one.n_items:,}",
            f"{one.n_answered:,}",
            f"{one.count_s:.2f}",
            f"{one.first_batch_s:.2f}",
            f"{one.peak_rss / MIB:.0f}",
        )
    return shown


def stored_table(results: list[Stored]) -> Table:
    """Lay the storing out, one size of batch a row."""
    shown = Table(box=MARKDOWN)
    for title in ("answers", "batches", "rows s", "commit s", "answers/s", "on disk MiB", "peak RSS MiB"):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        shown.add_row(
            f"{one.n_answers:,}",
            f"{one.n_batches:,}",
            f"{one.rows_s:.2f}",
            f"{one.commit_s:.2f}",
            f"{one.n_answers / (one.rows_s + one.commit_s):,.0f}",
            f"{one.on_disk / MIB:.1f}",
            f"{one.peak_rss / MIB:.0f}",
        )
    return shown


def main() -> None:
    """Measure each size in a process of its own, because peak memory never falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000, help="questions to plan")
    parser.add_argument("--answers", type=int, default=100_000, help="answers to store")
    given = parser.parse_args()
    planned, stored = [], []
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for n_answered in (0, given.items // 2):
            with tempfile.TemporaryDirectory() as root:
                pool.apply(write_questions, (root, given.items))
                if n_answered:
                    pool.apply(write_answers, (root, n_answered))
                planned.append(pool.apply(measure_plan, ((root, given.items, n_answered),)))
        for n_batches in (1, 100):
            with tempfile.TemporaryDirectory() as root:
                stored.append(pool.apply(measure_store, ((root, given.answers, n_batches),)))
    console = Console(width=160)
    console.print(planned_table(planned))
    console.print(stored_table(stored))


if __name__ == "__main__":
    main()
