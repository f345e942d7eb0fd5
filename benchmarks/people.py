"""Measure human sources: their ingest, the references that predict people, and the scoring of all of it.

Run ``COGLAKE_MIRROR=<folder> python benchmarks/people.py``, where the folder holds the pinned files: with a
mirror no download is measured. It prints three markdown tables and leaves no file behind.
"""

import json
import os
import tempfile
from pathlib import Path

from archive import Measured, run, table
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

# sources of human responses that can be had without an account
SOURCES = (
    "hbayesdm",
    "hmmr",
    "hyperbole",
    "mouselab",
    "multinomineq",
    "polite_speaker",
    "pragmatics",
    "rlwm",
    "self_regulation",
    "tomi",
    "wcst_prl",
)


def model_seconds(root: Path) -> dict[str, float]:
    """Return what dbt says each model and test of the last build took."""
    results = json.loads((root / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return {result["unique_id"].split(".", 2)[-1]: result["execution_time"] for result in results}


def ingest(root: Path, source: str) -> Measured:
    """Ingest one source of the lake at ``root``."""
    return run(root, source, ["ingest", source], lambda result: result["sources"][0]["n_source_rows"])


def generate(root: Path, agent: str) -> Measured:
    """Let one reference predict all that it can."""
    rows = ["generate", "--agent", agent]
    return run(root, agent, rows, lambda result: sum(one["n_rows"] for one in result["runs"]))


def size_mib(root: Path, source: str) -> float:
    """Return the size of the parquet parts that a source became."""
    parts = (root / "raw").glob(f"*/run={source}-*/part-*.parquet")
    return sum(part.stat().st_size for part in parts) / 2**20


def predicting() -> list[str]:
    """Return the agents that predict people in a mode whose items can be had."""
    from generate.pipeline import item_sources
    from generate.schedule import load_agents

    held = {mode for mode, source in item_sources().items() if source in SOURCES}
    return [agent.id for agent in load_agents().values() if held & set(agent.predicts)]


def main() -> None:
    """Measure everything once, in one lake."""
    if not os.environ.get("COGLAKE_MIRROR"):
        raise SystemExit("set COGLAKE_MIRROR to a folder with the pinned files")
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sources = [ingest(root, source) for source in SOURCES]
        console.print(table(sources))
        sizes = Table("source", "MiB", box=MARKDOWN)
        for source in SOURCES:
            sizes.add_row(source, f"{size_mib(root, source):.1f}")
        console.print(sizes)
        console.print(table([generate(root, agent) for agent in ("uniform", *predicting())]))
        console.print(table([run(root, "build", ["build"], None)]))
        shown = Table("node", "s", box=MARKDOWN)
        for name, seconds in sorted(model_seconds(root).items(), key=lambda item: -item[1])[:25]:
            shown.add_row(name, f"{seconds:.2f}")
        console.print(shown)


if __name__ == "__main__":
    main()
