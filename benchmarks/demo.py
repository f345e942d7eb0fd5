"""Measure the demo on a fresh lake and again, and the models that compute the exact expectations.

Run ``python benchmarks/demo.py``; it prints two markdown tables and leaves no file behind.
"""

import json
import tempfile
from pathlib import Path

from archive import Measured, run, table
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

N_REPEATS = 2


def model_seconds(root: Path) -> dict[str, float]:
    """Return what dbt says each model of the Uniform column took in the last build."""
    results = json.loads((root / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    seconds = {result["unique_id"].split(".")[-1]: result["execution_time"] for result in results}
    return {name: taken for name, taken in seconds.items() if name.startswith("int_uniform")}


def measure() -> tuple[list[Measured], dict[str, float]]:
    """Run the demo twice on a lake of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        steps = [run(root, "demo", ["demo"], None)]
        seconds = model_seconds(root)
        steps.append(run(root, "demo again", ["demo"], None))
        return steps, seconds


def main() -> None:
    """Measure everything twice and print the faster runs."""
    repeats = [measure() for _ in range(N_REPEATS)]
    steps = [min(same, key=lambda one: one.wall_s) for same in zip(*(run for run, _ in repeats), strict=True)]
    seconds = min((seconds for _, seconds in repeats), key=lambda taken: sum(taken.values()))
    console = Console(width=120)
    console.print(table(steps))
    shown = Table("model", "s", box=MARKDOWN)
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1]):
        shown.add_row(name, f"{taken:.2f}")
    shown.add_row("all", f"{sum(seconds.values()):.2f}")
    console.print(shown)


if __name__ == "__main__":
    main()
