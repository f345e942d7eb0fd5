"""Measure paired comparisons: two archived engines, and two agents in the mode with the most trials.

Run ``COGLAKE_MIRROR=<folder> python benchmarks/compare.py [LAKE]``; the folder holds the files of cogbench.
Every command is a process of its own, start included. It prints a markdown table. Most of the time goes into
filling a lake: one that is there is used, one that is named is kept, and without a name no file is left.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from archive import COGLAKE, N_REPEATS, Measured, fastest, run, table
from rich.console import Console

ENGINES = (("gpt-4_cot", "gpt-4_sb"), ("claude-1_cot", "claude-1_sb"))
# what both engines of a pair played to the end; elsewhere pairs are missing
PLAYED = ("restless_bandit", "instrumental_learning", "horizon_autonomous", "bart", "two_step")
AGENTS, MANY_TRIALS = ("uniform", "thompson"), "stationary_bandits"


def prepare(root: Path) -> list[str]:
    """Fill and build a lake, unless there is one; return the runs of the agents."""
    if not (root / "coglake.duckdb").exists():
        run(root, "ingest", ["ingest", "cogbench"], None)
        for agent in AGENTS:
            run(root, agent, ["generate", "--agent", agent, "--modes", MANY_TRIALS], None)
        run(root, "build", ["build"], None)
    found = subprocess.run(
        [
            *(sys.executable, "-c", COGLAKE, "sql", "--json"),
            f"select run_id from metrics where mode_id = '{MANY_TRIALS}' and metric = 'optimal_arm'",
        ],
        env=os.environ | {"COGLAKE_HOME": str(root)},
        capture_output=True,
        check=True,
    )
    return [row["run_id"] for row in json.loads(found.stdout)]


def measure(root: Path, agents: list[str]) -> list[Measured]:
    """Compare each pair once."""
    played = [word for mode_id in PLAYED for word in ("--modes", mode_id)]
    steps = [
        run(root, f"compare {one} {another}", ["compare", one, another, *played], _n_pairs)
        for one, another in ENGINES
    ]
    many = ["compare", *agents, "--modes", MANY_TRIALS]
    return [*steps, run(root, f"compare {' '.join(AGENTS)}", many, _n_pairs)]


def _n_pairs(result: dict[str, list[dict[str, int]]]) -> int:
    return sum(row["n_pairs"] for row in result["rows"])


def main() -> None:
    """Prepare one lake and compare twice in it."""
    if not os.environ.get("COGLAKE_MIRROR"):
        raise SystemExit("set COGLAKE_MIRROR to a folder with the pinned files of cogbench")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(*sys.argv[1:2] or [folder])
        agents = prepare(root)
        repeats = [measure(root, agents) for _ in range(N_REPEATS)]
    shown = table(fastest(repeats))
    shown.columns[3].header = "pairs"
    shown.columns[4].header = "pairs/s"
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
