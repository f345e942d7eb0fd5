"""Measure what the statistics of a build cost: sums, clusters, standard errors, intervals and both policies.

Takes a lake that is built (``COGLAKE_HOME``), such as one with the whole archive (``coglake ingest cogbench``
and ``coglake build``), copies its database, and builds anew there what lies between item verdicts and
Table 3. Run ``python benchmarks/standard_errors.py``; it prints a markdown table and leaves no file behind.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import duckdb
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store.settings import Home, home, project_dir

MODELS = (
    "int_episode_sums",
    "int_clusters",
    "int_episode_metrics__mean",
    "int_episode_metrics__trimmed_mean",
    "int_episode_metrics",
    "int_metrics__mean",
    "int_metrics__stay_interaction",
    "int_metrics__belief_weights",
    "int_metrics",
    "metrics",
    "int_cells",
    "table_3",
    "substitutes",
)
LIMIT_S = 5


def main() -> None:
    """Print seconds per model; fail if all of them take longer than they may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="Threads of dbt and of DuckDB.")
    threads = parser.parse_args().threads
    lake = home()
    if not lake.database.exists():
        sys.exit(f"expected a lake that is built, found no {lake.database}; run `coglake build`")
    with tempfile.TemporaryDirectory() as folder:
        copy = Home(Path(folder) / "lake")
        copy.root.mkdir()
        shutil.copy(lake.database, copy.database)
        # views read raw rows where they are
        copy.raw.symlink_to(lake.raw.resolve())
        seconds, processor_s = rebuilt(copy, threads)
        n_verdicts, n_metrics = counted(copy)
    table = Table("model", "seconds", box=MARKDOWN)
    for name, wall_s in seconds.items():
        table.add_row(name, f"{wall_s:.2f}")
    table.add_row("all", f"{sum(seconds.values()):.2f}")
    console = Console()
    console.print(
        f"{n_verdicts:,} item verdicts, {n_metrics:,} metrics, {threads} threads, {processor_s:.1f} s of "
        "processor time with reading the project"
    )
    console.print(table)
    if sum(seconds.values()) > LIMIT_S:
        sys.exit(f"the statistics took more than {LIMIT_S} s")


def rebuilt(lake: Home, threads: int) -> tuple[dict[str, float], float]:
    """Return the seconds that each model took, and the processor time of all."""
    os.environ["COGLAKE_HOME"] = str(lake.root)
    # one model after another, each with all threads of the database
    os.environ["COGLAKE_THREADS"] = str(threads)
    project, target = str(project_dir()), str(lake.root / "target")
    arguments = [
        "run",
        "--full-refresh",
        "--threads",
        "1",
        "--project-dir",
        project,
        "--profiles-dir",
        project,
    ]
    arguments += ["--target-path", target, "--log-path", target, "--log-level", "none"]
    start = time.process_time()
    runner = import_module("dbt.cli.main").dbtRunner()
    result = runner.invoke([*arguments, "--no-send-anonymous-usage-stats", "--select", *MODELS])
    if not result.success:
        sys.exit(f"dbt run: {result.exception or [node.message for node in result.result]}")
    # hooks are among the results
    seconds = {node.node.name: node.execution_time for node in result.result if node.node.name in MODELS}
    return seconds, time.process_time() - start


def counted(lake: Home) -> tuple[int, int]:
    """Return the number of item verdicts and of metrics."""
    # dbt, in this process, has it open
    with duckdb.connect(str(lake.database)) as con:
        (n_verdicts,) = con.execute("select count(*) from int_scored").fetchone() or (0,)
        (n_metrics,) = con.execute("select count(*) from metrics").fetchone() or (0,)
    return n_verdicts, n_metrics


if __name__ == "__main__":
    main()
