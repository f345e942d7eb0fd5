"""Measure what guessing, silence, order and full knowledge score in each family of Learning tasks.

Instances are drawn behind those of the manifests, so that what is found is of the family and not of its few
instances; agents play them, and the lake is built by the real project. Run
``python benchmarks/learning_floors.py``; it prints two markdown tables and leaves no file behind. With
``--write`` it puts what it found into the tables of ``docs/benchmarks/learning.md``.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from generate.learning.agent_runs import generate, load_agents, plan
from generate.learning.families import Family, load_families
from generate.learning.instances import dialogue_of
from generate.pipeline import TaskReport
from store.build import build
from store.learning_tasks import CATEGORIES, Category
from store.settings import Home, project_dir

AGENTS = ("random", "silent", "prober", "expert", "oracle")

# columns of the documentation by what stands in them
COLUMNS = {"Floor": "random", "Prober": "prober", "Expert": "expert"}


@dataclass(frozen=True, slots=True)
class Found:
    """Mean of the tasks of a family, its standard error over instances, and the mean of their ceilings."""

    mean: float
    se: float
    ceiling: float

    def __str__(self) -> str:
        # equal scores have the error of the last bit of their mean
        return f"{self.mean:.4f} ± {self.se:.4f}" if self.se > 1e-12 else f"{self.mean:.4f}"


def further(family: Family, n: int) -> Family:
    """Return the family with ``n`` instances of each level, behind those of its manifest."""
    seeds = family.seeds
    return family.model_copy(
        update={"seeds": seeds.model_copy(update={"first": seeds.first + seeds.count, "count": n})}
    )


def seconds_to_make(families: Iterable[Family]) -> float:
    """Return how long it takes to make all instances."""
    started = time.perf_counter()
    for family in families:
        for task in family.tasks:
            dialogue_of(family, task)
    return time.perf_counter() - started


def play(lake: Home, families: Mapping[str, Family]) -> list[TaskReport]:
    """Let every agent play every family that it can."""

    def show(done: int, n: int, what: str) -> None:
        print(f"{done} of {n}: {what}", file=sys.stderr)

    agents = [load_agents()[name] for name in AGENTS]
    return generate(lake, plan(lake, agents, families), show)


def scores(lake: Home) -> dict[tuple[str, str], Found]:
    """Build the lake, and return what each agent has in each family."""
    report = build(lake, project_dir(), select=["+learning_scores"])
    report.require_success()
    with duckdb.connect(str(lake.database), read_only=True) as con:
        rows = con.execute(
            """
            select model_id, family_id, avg(value), sqrt(sum(se * se)) / count(*), avg(ceiling), count(value),
                count(*), min(reason)
            from learning_scores group by model_id, family_id
            """
        ).fetchall()
    for agent, family, *_, n_scored, n_tasks, reason in rows:
        assert n_scored == n_tasks, f"{agent}: {family}: {reason}"
    return {(agent, family): Found(mean, se, ceiling) for agent, family, mean, se, ceiling, *_ in rows}


def print_floors(found: Mapping[tuple[str, str], Found], families: Sequence[Family]) -> None:
    """Print a row per family."""
    shown = Table(box=MARKDOWN)
    shown.add_column("family", no_wrap=True)
    for title in (*AGENTS, "ceiling"):
        shown.add_column(title, justify="right", no_wrap=True)
    for family in families:
        cells = [found.get((agent, family.id)) for agent in AGENTS]
        ceiling = found["oracle", family.id].ceiling
        shown.add_row(family.id, *("" if cell is None else str(cell) for cell in cells), f"{ceiling:.4f}")
    Console(width=160).print(shown)


def write_floors(found: Mapping[tuple[str, str], Found], path: Path) -> None:
    """Put the figures into the rows of their families; all else stays as it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    titles: list[str] = []
    for number, line in enumerate(lines):
        cells = line.split(" | ")
        if not line.startswith("| "):
            titles = [] if not line.startswith("|") else titles
        elif not titles:
            titles = [title.strip("| ") for title in cells]
        elif ("oracle", family := cells[0].strip("|` ")) in found and titles[0] == "Family":
            shown = {title: str(found[agent, family]) for title, agent in COLUMNS.items() if title in titles}
            shown["Ceiling"] = f"{found['oracle', family].ceiling:.4f} |"
            lines[number] = " | ".join(
                shown.get(title, cell) for title, cell in zip(titles, cells, strict=True)
            )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def print_times(
    made: Mapping[Category, float], reports: Sequence[TaskReport], own: Mapping[str, Family], n: int
) -> None:
    """Print a row per category: making the manifests' instances, and playing ``n`` of each task.

    Parameters
    ----------
    made
        Seconds that the first took.
    """
    category_of: dict[str, Category] = {family.id: family.category for family in own.values()}
    shown = Table(box=MARKDOWN)
    titles = ("category", "families", "tasks", "own instances", "made in s", "per instance ms", "episodes")
    for title in (*titles, "replies", "made and played in s", "replies/s"):
        shown.add_column(title, justify="left" if title == "category" else "right", no_wrap=True)
    for category in CATEGORIES:
        families = [family for family in own.values() if family.category == category]
        if not families:
            continue
        n_tasks = sum(len(family.tasks) for family in families)
        n_own = sum(len(family.tasks) * family.seeds.count for family in families)
        made_s = made[category]
        played = [report for report in reports if category_of[report.mode_id] == category]
        n_replies, played_s = sum(each.n_rows for each in played), sum(each.seconds for each in played)
        n_episodes = sum(len(own[each.mode_id].tasks) * n for each in played)
        shown.add_row(
            category,
            f"{len(families)}",
            f"{n_tasks}",
            f"{n_own}",
            f"{made_s:.2f}",
            f"{1000 * made_s / n_own:.1f}",
            f"{n_episodes:,}",
            f"{n_replies:,}",
            f"{played_s:.1f}",
            f"{n_replies / played_s:,.0f}",
        )
    Console(width=180).print(shown)


def main() -> None:
    """Measure all families, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="families; all where none is named")
    parser.add_argument("--instances", type=int, default=40, help="instances of each task")
    parser.add_argument("--write", action="store_true", help="put the figures into the documentation")
    chosen = parser.parse_args()
    own = load_families()
    own = {name: own[name] for name in chosen.families or own}
    # before anything is played, since spaces of rules are laid out once in a process
    made = {
        category: seconds_to_make(family for family in own.values() if family.category == category)
        for category in CATEGORIES
    }
    with tempfile.TemporaryDirectory() as folder:
        lake = Home(Path(folder) / "lake")
        reports = play(lake, {name: further(family, chosen.instances) for name, family in own.items()})
        found = scores(lake)
    print_floors(found, list(own.values()))
    print_times(made, reports, own, chosen.instances)
    if chosen.write:
        write_floors(found, project_dir() / "docs" / "benchmarks" / "learning.md")
    assert all(found["silent", name].mean == 0 for name in own), "silence was paid for"


if __name__ == "__main__":
    main()
