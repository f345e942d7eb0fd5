"""Measure how fast the project's SQL scores raw steps and averages them, beside polars and a plain loop.

The SQL is what dbt compiles for the rule ``int_scored__credited_choice`` and the models after it. Here all
of them are views, so one select reads parquet and returns means with clustered standard errors. Run
``python benchmarks/scoring.py``; it prints a markdown table, fails if the three ways differ, and leaves no
file behind.
"""

import argparse
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store.lake import append, ensure_schema_parts
from store.schemas import RUNS, STEPS
from store.settings import Home, project_dir

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024

ROWS_PER_RUN = 100_000
STEPS_PER_EPISODE = 100
N_FORCED = 4  # of each episode
N_REPEATS = 3
JSON_ROWS = 1_000_000  # the loop is measured up to this size
MODE = "stationary_bandits"  # scored by credited_choice alone
SCALE = 100  # percent, as the metric declares
ARMS = tuple("ABCDE")
TOLERANCE = 1e-9
# what dbt compiles, and models that stack rules or estimators with the one that stands for them here
MODELS = (
    "stg_steps",
    "stg_outputs",
    "stg_output_options",
    "stg_items",
    "int_answers",
    "int_scored__credited_choice",
    "int_episode_sums",
    "int_clusters",
    "int_episode_metrics__mean",
    "int_metrics__mean",
)
STACKS = {"int_scored": "int_scored__credited_choice", "int_episode_metrics": "int_episode_metrics__mean"}
NOT_KNOWN = "the credited options are not known"

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of one run, its standard error over episodes, and what was counted."""

    run_id: str
    mean: float
    se: float
    n_planned: int
    n_scored: int
    n_unparsed: int
    n_error: int
    n_too_long: int
    n_missing_option: int
    n_clusters: int
    status_reason: str | None

    def differs(self, other: "Score") -> bool:
        """Tell whether two ways to compute it disagree."""
        return self._exact() != other._exact() or not (
            math.isclose(self.mean, other.mean, rel_tol=TOLERANCE)
            and math.isclose(self.se, other.se, rel_tol=TOLERANCE)
        )

    def _exact(self) -> tuple[str, int, int, int, int, int, int, int, str | None]:
        return (
            self.run_id,
            self.n_planned,
            self.n_scored,
            self.n_unparsed,
            self.n_error,
            self.n_too_long,
            self.n_missing_option,
            self.n_clusters,
            self.status_reason,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds and bytes of one way in one process, and what it returned."""

    seconds: float
    peak_beyond_start: int
    scores: list[Score]


# --- rows ---


def _same(value: str, n_rows: int) -> pa.Array:
    return pa.array([value]).take(pa.array(np.zeros(n_rows, np.int8)))


def _words(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, " ")


def steps(run_id: str, seed: int, n_rows: int) -> pa.Table:
    """Return the decisions of one run: five-armed episodes of 100 steps, each with its own best arms."""
    random = np.random.default_rng(seed)
    index = np.arange(n_rows, dtype=np.int32)
    episode, step = np.divmod(index, STEPS_PER_EPISODE)
    arms = pa.array(ARMS)
    n_arms = len(ARMS)
    means = random.normal(size=(int(episode[-1]) + 1, n_arms))
    chosen = random.integers(0, n_arms, n_rows)
    rewards = means[episode, chosen] + random.normal(size=n_rows)

    # an eighth of the episodes has two best arms; the credited options of a few rows are not known
    n_best = np.where(random.random(len(means)) < 1 / 8, 2, 1)[episode]
    ends = np.concatenate([[0], n_best.cumsum()]).astype(np.int32)
    nth_best = np.arange(ends[-1]) - np.repeat(ends[:-1], n_best)
    best = (np.repeat(means.argmax(axis=1)[episode], n_best) + nth_best) % n_arms
    is_known = random.random(n_rows) >= 0.0005
    starts = pa.array(ends, mask=np.append(~is_known, False))

    # 0 ok, 1 unparsed, 2 error
    fate = random.choice(3, n_rows, p=[0.989, 0.01, 0.001]).astype(np.int8)
    every_arm = pa.array(np.arange(n_rows + 1, dtype=np.int32) * n_arms)
    columns = {
        "run_id": _same(run_id, n_rows),
        "mode_id": _same(MODE, n_rows),
        "episode_id": _words("episode", pa.array(episode).cast(pa.string())),
        "step_index": pa.array(step),
        "trial": pa.array(step),
        "stage": pa.array(np.zeros(n_rows, np.int8)),
        "observation": _words(
            "Machine", arms.take(pa.array(chosen)), "paid", pa.array(rewards.round(2)).cast(pa.string())
        ),
        "response_text": _words("Machine", arms.take(pa.array(chosen))),
        "action": arms.take(pa.array(chosen, mask=fate == 1)),
        "legal_options": pa.ListArray.from_arrays(
            every_arm, arms.take(pa.array(np.tile(np.arange(n_arms), n_rows)))
        ),
        "credited_options": pa.ListArray.from_arrays(starts, arms.take(pa.array(best))),
        "is_forced": pa.array(step < N_FORCED),
        "is_rewarded": pa.array(np.ones(n_rows, np.bool_)),
        "reward": pa.array(rewards),
        "hidden_values": pa.ListArray.from_arrays(every_arm, pa.array(means[episode].ravel())),
        "status": pa.array(["ok", "unparsed", "error"]).take(pa.array(fate)),
        "status_reason": pa.array(
            [None, f"the answer is not one of {', '.join(ARMS)}", "reward is not finite"]
        ).take(pa.array(fate)),
    }
    for field in STEPS:
        if field.name not in columns:
            columns[field.name] = pa.nulls(n_rows, field.type)
    return pa.table(columns)


def write_rows(task: tuple[Path, int]) -> None:
    """Fill a lake with runs of 100,000 rows and, up to a size, write the same rows as JSON lines."""
    root, n_rows = task
    lake = Home(root)
    ensure_schema_parts(lake)
    for seed, start in enumerate(range(0, n_rows, ROWS_PER_RUN)):
        run_id = f"bench-{seed:03d}"
        part = append(lake, "steps", steps(run_id, seed, min(ROWS_PER_RUN, n_rows - start)), run_id)
        run = {
            "run_id": run_id,
            "kind": "generated",
            "model_id": "bench",
            "agent_kind": "language_model",
            "planned_modes": [MODE],
            "notes": [],
            "parts": [part.sha256],
        }
        append(lake, "runs", pa.Table.from_pylist([run], schema=RUNS), run_id)
    if n_rows <= JSON_ROWS:
        _scan(root, "steps").sink_ndjson(root / "steps.jsonl")
        _scan(root, "runs").sink_ndjson(root / "runs.jsonl")


def compile_models(root: Path) -> list[tuple[str, str]]:
    """Return relation and SQL of the models from raw steps to means, as dbt compiles them for this lake."""
    os.environ["COGLAKE_HOME"] = str(root)
    project, target = str(project_dir()), str(root / "target")
    shared = ["--project-dir", project, "--profiles-dir", project, "--target-path", target]
    shared += ["--log-path", target, "--log-level", "none", "--no-send-anonymous-usage-stats"]
    runner = import_module("dbt.cli.main").dbtRunner()
    # a rule asks these which parts it has to score while it is compiled
    _invoke(runner, ["seed", *shared])
    _invoke(runner, ["run", *shared, "--select", "stg_runs", "stg_parts"])
    nodes = _invoke(runner, ["compile", *shared, "--select", *MODELS, *STACKS])
    # compiled beside them come their tests
    models = [node.node for node in nodes if node.node.resource_type == "model"]
    compiled = {model.name: (model.relation_name, model.compiled_code) for model in models}
    for stack, member in STACKS.items():
        compiled[stack] = (compiled[stack][0], f"select * from {compiled[member][0]}")
    # dbt returns them in the order in which they read each other
    return list(compiled.values())


def _invoke(runner: Any, arguments: list[str]) -> list[Any]:  # noqa: ANN401 - dbt states no types
    result = runner.invoke(arguments)
    if not result.success:
        raise SystemExit(f"dbt {arguments[0]}: {result.exception or result.result}")
    return list(result.result)


def make_views(task: tuple[Path, list[tuple[str, str]]]) -> None:
    """Put the compiled models into the lake's database as views, in dbt's order."""
    root, models = task
    con = duckdb.connect(str(Home(root).database))
    for name, sql in models:
        con.execute(f"create or replace view {name} as {sql}")
    con.close()


# --- three ways to the same scores; each returns what is timed, with everything before it done ---


def by_sql(root: Path) -> Callable[[], list[Score]]:
    """Prepare one select over the views, with DuckDB's own limits and threads."""
    con = duckdb.connect(str(Home(root).database), read_only=True)
    con.execute("set enable_progress_bar = false")
    query = """
        select
            run_id, value_scored, found_se, n_planned, n_scored, n_unparsed, n_error, n_too_long,
            n_missing_option, n_clusters, status_reason
        from int_metrics__mean
    """
    return lambda: [Score(*row) for row in con.execute(query).fetchall()]


def by_polars(root: Path) -> Callable[[], list[Score]]:
    """Prepare the same by hand: lazy scans, and the streaming engine with its own settings."""
    is_ok = pl.col("status") == "ok"
    is_unknown = is_ok & pl.col("credited_options").is_null()
    choices = (
        _scan(root, "steps")
        .filter(~pl.col("is_forced"), pl.col("mode_id") == MODE)
        .join(_scan(root, "runs").select("run_id"), on="run_id", how="semi")
        .select(
            "run_id",
            "mode_id",
            "episode_id",
            value=pl.when(is_ok).then(pl.col("credited_options").list.contains(pl.col("action"))),
            status=pl.when(is_unknown).then(pl.lit("error")).otherwise("status"),
            status_reason=pl.when(is_unknown).then(pl.lit(NOT_KNOWN)).otherwise("status_reason"),
        )
    )

    def n_with(status: str) -> pl.Expr:
        return (pl.col("status") == status).sum()

    episodes = choices.group_by("run_id", "mode_id", "episode_id").agg(
        n_planned=pl.len(),
        n_scored=n_with("ok"),
        n_unparsed=n_with("unparsed"),
        n_error=n_with("error"),
        n_too_long=n_with("too_long"),
        n_missing_option=n_with("missing_option"),
        value_sum=pl.col("value").sum(),
        status_reason=pl.col("status_reason").min(),
    )
    mean = pl.col("value_sum").sum().over("run_id") / pl.col("n_scored").sum().over("run_id")
    n, is_scored = pl.col("n_clusters"), pl.col("n_scored") > 0
    runs = (
        episodes.with_columns(deviation=pl.col("value_sum") - pl.col("n_scored") * mean)
        .group_by("run_id", "mode_id")
        .agg(
            pl.col("^n_.*$").sum(),
            pl.col("value_sum").sum(),
            pl.col("status_reason").min(),
            n_clusters=is_scored.sum(),
            squares=(pl.col("deviation") ** 2).filter(is_scored).sum(),
        )
        .select(
            "run_id",
            pl.col("^n_.*$"),
            "status_reason",
            mean=SCALE * pl.col("value_sum") / pl.col("n_scored"),
            se=SCALE * (n / (n - 1) * pl.col("squares")).sqrt() / pl.col("n_scored"),
        )
    )
    return lambda: [Score(**row) for row in runs.collect(engine="streaming").to_dicts()]


def by_loop(root: Path) -> Callable[[], list[Score]]:
    """Prepare the same in plain Python over JSON lines, as evaluation scripts do it."""

    def run() -> list[Score]:
        with (root / "runs.jsonl").open(encoding="utf-8") as lines:
            committed = {json.loads(line)["run_id"] for line in lines}
        # run -> episode -> [sum of values, scored rows]; run -> status -> rows; run -> least reason
        episodes: dict[str, dict[str, list[int]]] = {}
        counts: dict[str, dict[str, int]] = {}
        reasons: dict[str, str] = {}
        with (root / "steps.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if row["is_forced"] or row["mode_id"] != MODE or row["run_id"] not in committed:
                    continue
                run_id, status, reason = row["run_id"], row["status"], row["status_reason"]
                episode = episodes.setdefault(run_id, {}).setdefault(row["episode_id"], [0, 0])
                if status == "ok" and row["credited_options"] is None:
                    status, reason = "error", NOT_KNOWN
                if status == "ok":
                    episode[0] += row["action"] in row["credited_options"]
                    episode[1] += 1
                elif reason is not None:
                    reasons[run_id] = min(reason, reasons.get(run_id, reason))
                seen = counts.setdefault(run_id, {})
                seen[status] = seen.get(status, 0) + 1
        return [
            _summary(run_id, list(episodes[run_id].values()), counts[run_id], reasons.get(run_id))
            for run_id in episodes
        ]

    return run


def _summary(run_id: str, episodes: list[list[int]], counts: dict[str, int], reason: str | None) -> Score:
    scored = [(total, n) for total, n in episodes if n > 0]
    n_scored = sum(n for _, n in scored)
    mean = sum(total for total, _ in scored) / n_scored
    squares = math.fsum((total - n * mean) ** 2 for total, n in scored)
    return Score(
        run_id=run_id,
        mean=SCALE * mean,
        se=SCALE * math.sqrt(len(scored) / (len(scored) - 1) * squares) / n_scored,
        n_planned=sum(counts.values()),
        n_scored=n_scored,
        n_unparsed=counts.get("unparsed", 0),
        n_error=counts.get("error", 0),
        n_too_long=counts.get("too_long", 0),
        n_missing_option=counts.get("missing_option", 0),
        n_clusters=len(scored),
        status_reason=reason,
    )


def _scan(root: Path, table: str) -> pl.LazyFrame:
    return pl.scan_parquet(root / "raw" / table / "run=*" / "part-*.parquet", hive_partitioning=False)


# --- measuring ---

WAYS = {"dbt SQL": by_sql, "polars": by_polars, "JSON loop": by_loop}


def measure(task: tuple[str, Path]) -> Measured:
    """Time one way once, in a process that has done nothing else."""
    way, root = task
    run = WAYS[way](root)
    before = _peak()
    start = time.perf_counter()
    scores = run()
    seconds = time.perf_counter() - start
    return Measured(seconds, _peak() - before, sorted(scores, key=lambda score: score.run_id))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def _in_new_process(function: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> list[_Result]:
    """Run each task in a process of its own, one after another, because peak memory never falls."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return list(pool.map(function, tasks))


def measure_size(n_rows: int) -> dict[str, Measured]:
    """Return the fastest of three runs of each way, with the highest peak of the three."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _in_new_process(write_rows, [(root, n_rows)])
        (models,) = _in_new_process(compile_models, [root])
        _in_new_process(make_views, [(root, models)])
        ways = [way for way in WAYS if way != "JSON loop" or n_rows <= JSON_ROWS]
        # in turn, so that what else the machine does falls on all of them
        repeats = _in_new_process(measure, [(way, root) for _ in range(N_REPEATS) for way in ways])
    results = {}
    for position, way in enumerate(ways):
        own = repeats[position :: len(ways)]
        results[way] = Measured(
            min(repeat.seconds for repeat in own),
            max(repeat.peak_beyond_start for repeat in own),
            own[0].scores,
        )
    _require_same_scores(results)
    return results


def _require_same_scores(results: dict[str, Measured]) -> None:
    (first, expected), *others = results.items()
    for way, other in others:
        for one, two in zip(expected.scores, other.scores, strict=True):
            if one.differs(two):
                raise SystemExit(f"{first} and {way} differ: {one} and {two}")


def table(results: dict[int, dict[str, Measured]]) -> Table:
    """Lay the measurements out; the last column compares rows per second with those of the loop."""
    loop_rates = [n / ways["JSON loop"].seconds for n, ways in results.items() if "JSON loop" in ways]
    shown = Table(box=MARKDOWN)
    for title in ("rows", "way", "s", "million rows/s", "peak MiB beyond start", "x JSON loop"):
        shown.add_column(title, justify="left" if title == "way" else "right", no_wrap=True)
    for n_rows, ways in results.items():
        for way, measured in ways.items():
            rate = n_rows / measured.seconds
            shown.add_row(
                f"{n_rows:,}",
                way,
                f"{measured.seconds:.3f}",
                f"{rate / 1e6:.2f}",
                f"{measured.peak_beyond_start / MIB:.0f}",
                f"{rate / loop_rates[-1]:.0f}" if loop_rates else "",
            )
    return shown


def main() -> None:
    """Measure each size and print the table, with the load of the machine before it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000_000, 10_000_000], help="rows")
    sizes = parser.parse_args().sizes
    load = os.getloadavg()[0]
    console = Console(width=120)
    console.print(table({n_rows: measure_size(n_rows) for n_rows in sizes}))
    console.print(
        f"DuckDB {duckdb.__version__} and polars {pl.__version__} with their own settings, "
        f"{os.cpu_count()} CPUs; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )


if __name__ == "__main__":
    main()
