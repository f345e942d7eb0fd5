"""Measure each command on the whole CogBench archive: ingest, build and export, first and repeated.

Run ``COGLAKE_MIRROR=<folder> python benchmarks/archive.py``, where the folder holds the pinned files: with a
mirror no download is measured. It prints a markdown table and leaves no file behind.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024

N_REPEATS = 2
COGLAKE = "from store.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Measured:
    """One command in a process of its own: seconds, bytes, and what it worked on.

    Attributes
    ----------
    dbt_s
        What dbt says its run took, without its start and the reading of the project; None for other commands.
    n_rows
        Rows read from files by an ingest; None for other commands.
    load
        Load average when it began.
    """

    step: str
    wall_s: float
    dbt_s: float | None
    n_rows: int | None
    peak_rss: int
    load: float


def add_small_run(root: Path) -> None:
    """Append the smallest run that has steps once more, as the run of another model."""
    # here, so that the process that starts and measures the commands stays smaller than they are
    import pyarrow as pa
    import pyarrow.parquet as pq

    from store.lake import append, part_paths
    from store.settings import Home

    def changed(path: Path, **values: object) -> pa.Table:
        rows = pq.ParquetFile(path).read()
        for name, value in values.items():
            position = rows.schema.get_field_index(name)
            field = rows.schema.field(position)
            rows = rows.set_column(position, field, pa.array([value] * rows.num_rows, field.type))
        return rows

    lake = Home(root)
    parts = [path for path in part_paths(lake, "steps") if pq.read_metadata(path).num_rows]
    smallest = min(parts, key=lambda path: pq.read_metadata(path).num_rows)
    part = append(lake, "steps", changed(smallest, run_id="benchmark"), "benchmark")
    (commit,) = (lake.raw / "runs" / smallest.parent.name).iterdir()
    runs = changed(commit, run_id="benchmark", model_id="benchmark", parts=[part.sha256])
    append(lake, "runs", runs, "benchmark")


def measure(root: Path) -> list[Measured]:
    """Run every step once on a fresh lake."""

    def ingest(step: str) -> Measured:
        return run(root, step, ["ingest", "cogbench"], lambda result: result["sources"][0]["n_source_rows"])

    def build(step: str) -> Measured:
        return run(root, step, ["build"], None)

    steps = [ingest("ingest"), ingest("ingest again"), build("build"), build("build again")]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(add_small_run, root).result()
    steps.append(build("build after one new run"))
    steps.append(run(root, "export table3", ["export", "table3"], None))
    return steps


def run(root: Path, step: str, arguments: list[str], n_rows: Callable[[Any], int] | None) -> Measured:
    """Run one command from start to end, as a user would."""
    environment = os.environ | {"COGLAKE_HOME": str(root)}
    load = os.getloadavg()[0]
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", COGLAKE, *arguments, "--json"],
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        result = output.read()
    if process.returncode:
        raise SystemExit(f"coglake {' '.join(arguments)} ended with {process.returncode}: {result.decode()}")
    return Measured(
        step=step,
        wall_s=wall_s,
        dbt_s=_dbt_seconds(root) if arguments[0] == "build" else None,
        n_rows=n_rows(json.loads(result)) if n_rows else None,
        peak_rss=usage.ru_maxrss * MAXRSS_UNIT,
        load=load,
    )


def _dbt_seconds(root: Path) -> float:
    results = json.loads((root / "target" / "run_results.json").read_text(encoding="utf-8"))
    return float(results["elapsed_time"])


def fastest(repeats: list[list[Measured]]) -> list[Measured]:
    """Return the fastest run of each step, with the highest peak of all."""
    chosen = []
    for same_step in zip(*repeats, strict=True):
        best = min(same_step, key=lambda one: one.wall_s)
        peak_rss = max(one.peak_rss for one in same_step)
        chosen.append(Measured(best.step, best.wall_s, best.dbt_s, best.n_rows, peak_rss, best.load))
    return chosen


def table(steps: list[Measured]) -> Table:
    """Lay the measurements out, one step a row."""
    shown = Table(box=MARKDOWN)
    for title in ("step", "wall s", "dbt s", "rows read", "rows/s", "peak RSS MiB", "load average"):
        shown.add_column(title, justify="left" if title == "step" else "right", no_wrap=True)
    for one in steps:
        shown.add_row(
            one.step,
            f"{one.wall_s:.1f}",
            "" if one.dbt_s is None else f"{one.dbt_s:.1f}",
            "" if one.n_rows is None else f"{one.n_rows:,}",
            f"{one.n_rows / one.wall_s:,.0f}" if one.n_rows else "",
            f"{one.peak_rss / MIB:.0f}",
            f"{one.load:.1f}",
        )
    return shown


def main() -> None:
    """Measure everything twice, each time on a lake of its own."""
    if not os.environ.get("COGLAKE_MIRROR"):
        raise SystemExit("set COGLAKE_MIRROR to a folder with the pinned files of cogbench")
    repeats = []
    for _ in range(N_REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            repeats.append(measure(Path(folder)))
    Console(width=120).print(table(fastest(repeats)))


if __name__ == "__main__":
    main()
