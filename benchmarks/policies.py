"""Measure how fast reference policies play, and how fast their parameters are chosen.

Agents and schedules are those of the manifests. Run ``python benchmarks/policies.py``; it prints a markdown
table and leaves no file behind.
"""

import argparse
import math
import resource
import sys
import time
from dataclasses import dataclass
from multiprocessing import get_context

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
AGENTS = (
    "thompson",
    "restless_q_learning",
    "rescorla_wagner_two_rates",
    "horizon_rw_softmax",
    "horizon_rw_greedy",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One agent: seconds, and size in bytes."""

    agent: str
    n_sets: int
    n_training_steps: int
    select_s: float
    n_rows: int
    play_s: float
    peak_rss: int


def measure(name: str) -> Measured:
    """Choose an agent's parameters in its training environments, and let it play its schedule."""
    from generate.agents.value_learning import Axis
    from generate.episodes import play
    from generate.schedule import load_agents, load_schedules

    agent = load_agents()[name]
    schedule = load_schedules()[agent.schedule or ""]
    family, environment = agent.made(), schedule.environment()
    training_seeds = schedule.training_seeds.range if schedule.training_seeds else range(0)
    start = time.perf_counter()
    fitted = family.fit(environment, training_seeds)
    select_s = time.perf_counter() - start
    episodes = environment.episodes(schedule.seeds.range)
    start = time.perf_counter()
    rows = play(environment, episodes, fitted, agent.seed, run_id=name, mode_id=schedule.mode)
    play_s = time.perf_counter() - start
    n_sets = math.prod(axis.values.size for axis in vars(family).values() if isinstance(axis, Axis))
    # every seed has the same schedule, so training takes as many steps as rows, by share of the seeds
    n_training_steps = n_sets * rows.num_rows * len(training_seeds) // schedule.seeds.count
    peak_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    return Measured(name, n_sets, n_training_steps, select_s, rows.num_rows, play_s, peak_rss)


def table(results: list[Measured]) -> Table:
    """Lay the measurements out, one agent a row."""
    shown = Table(box=MARKDOWN)
    shown.add_column("agent", no_wrap=True)
    for title in (
        "parameter sets",
        "training steps",
        "selection s",
        "steps/s",
        "steps played",
        "play s",
        "rows/s",
        "peak RSS MiB",
    ):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        is_selected = one.n_training_steps > 0
        shown.add_row(
            one.agent,
            f"{one.n_sets:,}" if is_selected else "",
            f"{one.n_training_steps:,}" if is_selected else "",
            f"{one.select_s:.1f}" if is_selected else "",
            f"{one.n_training_steps / one.select_s:,.0f}" if is_selected else "",
            f"{one.n_rows:,}",
            f"{one.play_s:.2f}",
            f"{one.n_rows / one.play_s:,.0f}",
            f"{one.peak_rss / MIB:.0f}",
        )
    return shown


def main() -> None:
    """Measure each agent in a process of its own, because peak memory never falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=list(AGENTS), help="names in agents.toml")
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = pool.map(measure, parser.parse_args().agents, chunksize=1)
    Console(width=160).print(table(results))


if __name__ == "__main__":
    main()
