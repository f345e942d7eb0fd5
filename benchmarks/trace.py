"""Measure how long ``coglake trace`` takes from any cell of a built lake to its raw rows.

Run ``python benchmarks/trace.py`` with ``COGLAKE_HOME`` at the lake, such as that of ``coglake ingest
cogbench`` and ``coglake build``. Each cell is traced as the command does it, first rows included, in one
process; the cell with most rows is then asked for by the command itself. It prints a markdown table and
changes nothing.
"""

import subprocess
import sys
import time
from collections import defaultdict

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store.command_trace import page
from store.database import connect
from store.settings import home, project_dir
from store.trace import trace

_CELLS = "select mode_id, column_id, n_planned from table_3 order by mode_id, column_id"
_MOST_PER_MODE = 12
_N_ROWS = 5


def main() -> None:
    """Print median and longest seconds per mode, and those of the command for the largest cell."""
    con, lake, project = connect(home()), home(), project_dir()
    cells: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for mode_id, column_id, n_planned in con.execute(_CELLS).fetchall():
        cells[mode_id].append((column_id, n_planned))
    grid = Table(box=MARKDOWN)
    for header in ("mode", "cells", "planned rows, largest", "median s", "longest s", "longest CPU s"):
        grid.add_column(header, justify="left" if header == "mode" else "right")
    largest = ("", "", -1)
    for mode_id, columns in cells.items():
        # of many columns some, the largest among them
        chosen = sorted(columns, key=lambda cell: cell[1], reverse=True)[:_MOST_PER_MODE]
        walls, cpus = [], []
        for column_id, n_planned in chosen:
            wall, cpu = time.perf_counter(), time.process_time()
            list(page(con, trace(con, lake, project, mode_id, column_id), _N_ROWS, is_public=False))
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            largest = max(largest, (mode_id, column_id, n_planned), key=lambda cell: cell[2])
        grid.add_row(
            mode_id,
            f"{len(chosen)}",
            f"{chosen[0][1]:,}",
            f"{np.median(walls):.2f}",
            f"{max(walls):.2f}",
            f"{max(cpus):.2f}",
        )
    con.close()
    Console(width=120).print(grid)
    for arguments in ((), ("--json",)):
        command = [
            sys.executable,
            "-c",
            "from store.cli import main; main()",
            "trace",
            *largest[:2],
            *arguments,
        ]
        start = time.perf_counter()
        written = subprocess.run(command, check=True, capture_output=True).stdout
        seconds = time.perf_counter() - start
        print(
            f"`coglake trace {' '.join([*largest[:2], *arguments])}`: {seconds:.2f} s, {len(written):,} bytes"
        )


if __name__ == "__main__":
    main()
