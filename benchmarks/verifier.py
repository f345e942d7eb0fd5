"""Measure what the Procedural Pile verifier costs: its start, its families, an answer, and one that explodes.

Run ``python benchmarks/verifier.py``, after ``make setup-verifier``; it prints a markdown table.
"""

import statistics
import time
from contextlib import closing

import pyarrow.parquet as pq
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from generate.standins import pile_like
from generate.verifier.client import Asked, Verifier
from store.protocol import load_graders

LIMIT_S = 2.0
EXPLODING = "9**9**9**9**9"


def measure() -> list[tuple[str, str]]:
    """Return what was measured and the figure, with its unit."""
    rows = pq.read_table(pile_like.path()).to_pylist()
    by_family = {row["task"]: row for row in rows}
    grader = load_graders()["reasoning_core"].model_copy(update={"timeout_s": LIMIT_S})
    start = time.perf_counter()
    with closing(Verifier(grader)) as verifier:
        started = time.perf_counter()
        for row in by_family.values():
            verifier.verdict(Asked(row, "no answer"))
        loaded = time.perf_counter()
        verdicts = [verifier.verdict(Asked(row, row["answer"])) for row in rows]
        graded = time.perf_counter()
        exploded = verifier.verdict(Asked(by_family["inverse_math"], EXPLODING))
    wrong = [row["task"] for row, verdict in zip(rows, verdicts, strict=True) if verdict.score != 1]
    if wrong or exploded.status != "timeout":
        raise SystemExit(f"expected own answers to score 1 and a timeout, found {wrong}, {exploded.status}")
    seconds = sorted(verdict.seconds for verdict in verdicts)
    return [
        ("start", f"{started - start:.2f} s"),
        (f"loading {len(by_family)} families", f"{loaded - started:.1f} s"),
        ("answers a second, one at a time", f"{len(rows) / (graded - loaded):.0f}"),
        ("an answer, median", f"{1000 * statistics.median(seconds):.0f} ms"),
        ("an answer, longest", f"{1000 * seconds[-1]:.0f} ms"),
        (f"{EXPLODING}, with {LIMIT_S:g} s of processor time", f"{exploded.seconds:.2f} s"),
    ]


def main() -> None:
    """Print the figures."""
    shown = Table(box=MARKDOWN)
    shown.add_column("measured")
    shown.add_column("", justify="right", no_wrap=True)
    for row in measure():
        shown.add_row(*row)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
