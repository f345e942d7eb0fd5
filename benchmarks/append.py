"""Measure how fast rows enter the raw layer and how fast it is verified.

Run ``python benchmarks/append.py``; it prints a markdown table and leaves no file behind.
"""

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store import lake as raw
from store.schemas import STEPS
from store.settings import Home

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """One size: seconds, and sizes in bytes."""

    n_rows: int
    append_s: float
    verify_s: float
    in_memory: int
    on_disk: int
    peak_rss: int


def steps(n_rows: int) -> pa.Table:
    """Return ``n_rows`` decisions of two-armed episodes of 100 steps, as a model would write them."""
    random = np.random.default_rng(0)
    index = np.arange(n_rows, dtype=np.int32)
    rewards = random.normal(size=n_rows)
    arms = random.integers(0, 2, n_rows)
    columns = {
        "run_id": pa.array(["bench"]).take(pa.array(np.zeros(n_rows, np.int8))),
        "mode_id": pa.array(["instrumental"]).take(pa.array(np.zeros(n_rows, np.int8))),
        "episode_id": pa.array([f"episode {i}" for i in index // 100]),
        "step_index": pa.array(index % 100),
        "stage": pa.array(np.zeros(n_rows, np.int8)),
        "observation": pa.array([f"Machine F gave {reward:.2f} points." for reward in rewards]),
        "response_text": pa.array([" F", " J"]).take(pa.array(arms)),
        "action": pa.array(["F", "J"]).take(pa.array(arms)),
        "reward": pa.array(rewards),
        "status": pa.array(["ok"]).take(pa.array(np.zeros(n_rows, np.int8))),
    }
    for field in STEPS:
        if field.name not in columns:
            empty = pa.nulls(n_rows, field.type)
            columns[field.name] = empty if field.nullable else empty.fill_null(pa.scalar(False))
    return pa.table(columns)


def measure(n_rows: int) -> Measured:
    """Append ``n_rows`` rows as one part to a fresh lake and verify it."""
    rows = steps(n_rows)
    with tempfile.TemporaryDirectory() as folder:
        lake = Home(Path(folder))
        raw.append(lake, "steps", rows.slice(0, 1), "warm-up")
        start = time.perf_counter()
        part = raw.append(lake, "steps", rows, "bench")
        append_s = time.perf_counter() - start
        peak_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
        start = time.perf_counter()
        findings = raw.verify(lake, {})
        verify_s = time.perf_counter() - start
        if findings:
            raise SystemExit(f"verify found a difference: {findings[0]}")
        return Measured(n_rows, append_s, verify_s, rows.nbytes, part.path.stat().st_size, peak_rss)


def table(results: list[Measured]) -> Table:
    """Lay the measurements out, one size a row."""
    shown = Table(box=MARKDOWN)
    for title in (
        "rows",
        "append s",
        "rows/s",
        "rows in memory MiB",
        "part MiB",
        "peak RSS MiB",
        "verify s",
        "verify MiB/s",
    ):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        shown.add_row(
            f"{one.n_rows:,}",
            f"{one.append_s:.3f}",
            f"{one.n_rows / one.append_s:,.0f}",
            f"{one.in_memory / MIB:.1f}",
            f"{one.on_disk / MIB:.2f}",
            f"{one.peak_rss / MIB:.0f}",
            f"{one.verify_s:.3f}",
            f"{one.on_disk / MIB / one.verify_s:.0f}",
        )
    return shown


def main() -> None:
    """Measure each size in a process of its own, because peak memory never falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10_000, 100_000, 1_000_000], help="rows")
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = pool.map(measure, parser.parse_args().sizes, chunksize=1)
    Console(width=120).print(table(results))


if __name__ == "__main__":
    main()
