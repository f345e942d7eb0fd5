"""Measure how fast planning trees are played, and how fast MetaGreedy is fitted to decisions.

Run ``python benchmarks/planning.py``; it prints two markdown tables and leaves no file behind. The decisions
that are fitted are MetaGreedy's own, as many trees per slot as a participant played.
"""

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

MIB = 2**20
# ru_maxrss counts KiB on Linux and bytes on macOS
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
AGENTS = ("uniform", "metagreedy")
SCHEDULE = "mouselab_trees"
N_TRIALS = 25


@dataclass(frozen=True, slots=True)
class Played:
    """One agent: seconds, points, and size in bytes."""

    agent: str
    n_trees: int
    n_rows: int
    draw_s: float
    play_s: float
    mean_return: float
    standard_error: float
    looks: float
    peak_rss: int


@dataclass(frozen=True, slots=True)
class Refitted:
    """Parameter sets fitted again: seconds, and nats per decision."""

    n_sets: int
    n_decisions: int
    fit_s: float
    nats: float


def measure(name: str) -> Played:
    """Let an agent play the whole schedule; drawing the trees is part of it."""
    from generate.episodes import play
    from generate.schedule import load_agents, load_schedules

    schedule = load_schedules()[SCHEDULE]
    agent, environment = load_agents()[name], schedule.environment()
    fitted = agent.made().fit(environment, ())
    episodes = environment.episodes(schedule.seeds.range)
    start = time.perf_counter()
    environment.draw(episodes)
    draw_s = time.perf_counter() - start
    start = time.perf_counter()
    rows = play(environment, episodes, fitted, agent.seed, run_id=name, mode_id=schedule.mode)
    play_s = time.perf_counter() - start
    rewards = rows["reward"].drop_null().to_numpy()
    return Played(
        agent=name,
        n_trees=len(episodes),
        n_rows=rows.num_rows,
        draw_s=draw_s,
        play_s=play_s,
        mean_return=float(rewards.mean()),
        standard_error=float(rewards.std(ddof=1) / rewards.size**0.5),
        looks=(rows.num_rows - rewards.size) / rewards.size,
        peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT,
    )


def refit(name: str) -> Refitted:
    """Play as many trees per slot as a participant did, and fit each slot's decisions."""
    from generate.agents.metagreedy import MetaGreedy, maximum_likelihood, situations, value_of_information
    from generate.contract import Lanes
    from generate.environments.mouselab import MouselabTrees
    from generate.schedule import load_agents, load_schedules
    from generate.streams import Streams

    schedule = load_schedules()[SCHEDULE]
    environment = schedule.environment()
    assert isinstance(environment, MouselabTrees)
    policy = MetaGreedy().fit(environment, ()).policy
    episodes = environment.episodes(schedule.seeds.range[: N_TRIALS * environment.n_slots])
    streams = Streams([[load_agents()[name].seed, seed] for seed in episodes.seeds.tolist()])
    world = environment.draw(episodes)
    state = environment.start(world)
    memory = policy.start(Lanes(np.zeros_like(episodes.slots), episodes.slots))
    decisions = []
    while state.live.any():
        seen, live = environment.observe(world, state), state.live
        memory, actions = policy.act(memory, seen, streams)
        gains = value_of_information(environment, seen.node_values[live])
        decisions.append((episodes.slots[live], gains, seen.legal[live], actions[live]))
        state = environment.step(world, state, actions)[0]
    slots, all_gains, legal, chosen = (np.concatenate(column) for column in zip(*decisions, strict=True))
    start = time.perf_counter()
    nats = 0.0
    for one in range(environment.n_slots):
        own = slots == one
        kinds = situations(all_gains[own], legal[own], chosen[own])
        nats += maximum_likelihood(kinds).negative_log_likelihood
    return Refitted(environment.n_slots, slots.size, time.perf_counter() - start, nats / slots.size)


def played_table(results: list[Played]) -> Table:
    """Lay the measurements out, one agent a row."""
    shown = Table(box=MARKDOWN)
    shown.add_column("agent", no_wrap=True)
    for title in (
        "trees",
        "steps",
        "draw s",
        "draw and play s",
        "rows/s",
        "mean return",
        "standard error",
        "looks per tree",
        "peak RSS MiB",
    ):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        shown.add_row(
            one.agent,
            f"{one.n_trees:,}",
            f"{one.n_rows:,}",
            f"{one.draw_s:.2f}",
            f"{one.play_s:.2f}",
            f"{one.n_rows / one.play_s:,.0f}",
            f"{one.mean_return:.4f}",
            f"{one.standard_error:.4f}",
            f"{one.looks:.4f}",
            f"{one.peak_rss / MIB:.0f}",
        )
    return shown


def refitted_table(result: Refitted) -> Table:
    """Lay the fit out as one row."""
    shown = Table(box=MARKDOWN)
    for title in ("parameter sets", "decisions", "fit s", "nats per decision"):
        shown.add_column(title, justify="right", no_wrap=True)
    shown.add_row(f"{result.n_sets}", f"{result.n_decisions:,}", f"{result.fit_s:.1f}", f"{result.nats:.4f}")
    return shown


def main() -> None:
    """Measure each agent in a process of its own, because peak memory never falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=list(AGENTS), help="names in agents.toml")
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        played = pool.map(measure, parser.parse_args().agents, chunksize=1)
        [refitted] = pool.map(refit, ["metagreedy"], chunksize=1)
    console = Console(width=160)
    console.print(played_table(played))
    console.print(refitted_table(refitted))


if __name__ == "__main__":
    main()
