"""Measure ``coglake export scores``: one model of the archive, one mode, and everything in both forms.

Run ``COGLAKE_MIRROR=<folder> python benchmarks/export_scores.py``; the folder holds the files of cogbench.
Every command is a process of its own, start included. It prints a markdown table and leaves no file behind.
"""

import os
import tempfile
from pathlib import Path

from archive import N_REPEATS, Measured, fastest, run, table
from rich.console import Console

EXPORTS = {
    "one model": ("--models", "gpt-4"),
    "one mode": ("--modes", "bart"),
    "everything, CSV": (),
    "everything, CSV, public": ("--public",),
    "everything, JSON": ("--format", "json"),
}


def measure(root: Path) -> list[Measured]:
    """Export once in every way."""
    return [
        run(root, name, ["export", "scores", "--allow-partial", *options], lambda result: result["n_rows"])
        for name, options in EXPORTS.items()
    ]


def main() -> None:
    """Fill and build one lake, and export twice from it."""
    if not os.environ.get("COGLAKE_MIRROR"):
        raise SystemExit("set COGLAKE_MIRROR to a folder with the pinned files of cogbench")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run(root, "ingest", ["ingest", "cogbench"], None)
        run(root, "build", ["build"], None)
        repeats = [measure(root) for _ in range(N_REPEATS)]
    shown = table(fastest(repeats))
    shown.columns[3].header = "verdicts"
    shown.columns[4].header = "verdicts/s"
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
