"""Measure what scoring Learning costs in a build.

Models that answer half of the questions right are planted on every task of the manifest, each with as many
instances as are asked for: dialogues as a run leaves them, so reading the answers is a part of it. The lake
is built by the command line in a process of its own. Run ``python benchmarks/learning.py``; it prints a
markdown table and leaves no file behind.
"""

import argparse
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from archive import MIB, run
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store.lake import commit
from store.learning_tasks import Task, load_tasks
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

# nodes of a build by what they are for
PARTS = {
    "answers and turns": (
        "int_learning_runs",
        "int_learning_questions",
        "int_learning_answers",
        "int_learning_turns",
    ),
    "rules": (
        "int_learning__active_induction",
        "int_learning__fraction_correct",
        "int_learning__procedural",
        "int_learning__runtime_rl",
    ),
    "marts": (
        "int_learning_episodes",
        "int_learning_ceilings",
        "int_learning_scores",
        "learning_scores",
        "learning_report",
        "learning_curves",
        "learning_solved",
        "audit_published_learning",
    ),
}
RIGHT = {
    "substring": ("UNKNOWN", ["YES", "NO", "UNKNOWN"]),
    "integer": ("188", None),
    "exact_nfc": ("tó̤karelu", None),
    "sequence": ("A B B A C", None),
}
WRONG = "NO, or I do not know, or"


def questions_of(task: Task) -> int:
    """Return how many questions an instance of a task has."""
    return task.n_test_items or 0


def kind_of(task: Task, question: int) -> str:
    """Return how an answer is compared: what a task asks for, or an integer here and there."""
    if task.match_kind == "none":
        return "substring"
    return "integer" if task.match_kind == "substring" and question % 4 == 0 else task.match_kind


def exam(task: Task, dice: random.Random) -> str:
    """Return a reply to all questions, half of it right."""
    lines = []
    for question in range(1, questions_of(task) + 1):
        right, _ = RIGHT[kind_of(task, question)]
        said = right if dice.random() < 0.5 else f"{WRONG} {dice.randint(0, 999)}"
        lines.append(f"{question}: {said}")
    return "\n".join(lines)


def replies(task: Task, dice: random.Random) -> Iterator[tuple[int, str, str, list[float] | None]]:
    """Yield trial, reply, outcome and progress of one episode."""

    def moves(trial: int) -> Iterator[tuple[int, str, str, list[float] | None]]:
        budget = task.of_play("budget_steps")
        solved_at = dice.randint(1, 2 * budget)
        for step in range(1, min(solved_at, budget) + 1):
            yield trial, "A>C", "solved" if step == solved_at else "moved", [step / budget]

    if task.score_rule == "active_induction":
        for _ in range(dice.randint(0, task.of_play("max_examples") - task.of_play("initial_examples"))):
            yield 0, "MORE", "example", None
        yield 0, "READY", "ready", None
    if task.score_rule == "runtime_rl":
        yield from moves(0)
        return
    n_rounds = task.practice_rounds or 0
    for trial in range(n_rounds):
        yield from moves(trial)
    yield n_rounds, exam(task, dice), "examined", None


def table(name: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return raw rows of the columns that are given; the others are null."""
    schema = RAW_TABLES[name]
    n = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(each.name, [None] * n), each.type) for each in schema]
    return pa.table(arrays, schema=schema)


def items_of(tasks: Sequence[Task], n_instances: int) -> pa.Table:
    """Return the questions of some instances of each task, or one row where a task has none."""
    columns: dict[str, list[Any]] = defaultdict(list)
    for task in tasks:
        for instance in range(n_instances):
            for question in range(1, questions_of(task) + 1) or (0,):
                right, labels = RIGHT[kind_of(task, question)]
                facts = {"question": question, "match_kind": kind_of(task, question)}
                columns["item_id"].append(f"{task.family_id}@1/{task.task_id}/{instance}/{question}")
                columns["mode_id"].append(task.task_id)
                columns["source_id"].append(task.family_id)
                columns["participant_id"].append(f"{task.task_id}/{instance}")
                columns["credited_options"].append([right] if question else None)
                columns["legal_options"].append(labels if question else None)
                columns["facts_json"].append(json.dumps(facts))
                columns["weight"].append(1.0)
    return table("items", columns)


def steps_of(run_id: str, tasks: Sequence[Task], n_instances: int, dice: random.Random) -> pa.Table:
    """Return the dialogues of one model with all instances."""
    columns: dict[str, list[Any]] = defaultdict(list)
    for task in tasks:
        for instance in range(n_instances):
            said = list(replies(task, dice))
            columns["episode_id"].extend([f"{task.task_id}/{instance}"] * len(said))
            columns["mode_id"].extend([task.task_id] * len(said))
            columns["step_index"].extend(range(len(said)))
            columns["is_last"].extend([*[False] * (len(said) - 1), True])
            names = ("trial", "response_text", "outcome", "hidden_values")
            for name, values in zip(names, zip(*said, strict=True), strict=True):
                columns[name].extend(values)
    n = len(columns["mode_id"])
    same = {"run_id": run_id, "stage": 0, "is_forced": False, "is_rewarded": False, "status": "ok"}
    return table("steps", columns | {name: [value] * n for name, value in same.items()})


def plant(lake: Home, n_models: int, n_instances: int) -> tuple[int, int]:
    """Write instances and the dialogues of each model; return how many episodes and replies there are."""
    families: dict[str, list[Task]] = defaultdict(list)
    for task in load_tasks().values():
        if task.family_id is not None:
            families[task.family_id].append(task)
    dice = random.Random(0)
    n_episodes = n_replies = 0
    for family, tasks in families.items():
        common = {"planned_modes": [task.task_id for task in tasks], "source_id": family, "notes": []}
        brought = f"learning-{family}-v1"
        row = {"run_id": brought, "kind": "schedule", "model_id": "none", "agent_kind": "none"}
        runs = pa.Table.from_pylist([common | row | {"importer_version": 1}], RUNS)
        commit(lake, brought, [("items", items_of(tasks, n_instances))], runs)
        for model in range(n_models):
            run_id = f"model-{model:03}-{family}"
            steps = steps_of(run_id, tasks, n_instances, dice)
            row = {"run_id": run_id, "kind": "model", "model_id": f"model {model}"}
            row |= {"agent_kind": "language_model", "evaluation_id": f"learning-{model:03}"}
            row |= {"identity_json": json.dumps({"items": [brought]})}
            commit(lake, run_id, [("steps", steps)], pa.Table.from_pylist([common | row], RUNS))
            n_episodes += len(tasks) * n_instances
            n_replies += steps.num_rows
    return n_episodes, n_replies


def seconds(root: Path) -> dict[str, float]:
    """Return what dbt says each model of the last build took."""
    results = json.loads((root / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return {
        each["unique_id"].split(".")[2]: each["execution_time"]
        for each in results
        if each["unique_id"].startswith("model.")
    }


def main() -> None:
    """Measure an empty lake, and one of about as many task runs as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=5, help="models, each asked every instance")
    parser.add_argument(
        "--instances", nargs="+", type=int, default=[0, 4, 140], help="instances of each task"
    )
    chosen = parser.parse_args()
    shown = Table(box=MARKDOWN)
    for title in ("task runs", "replies", *(f"{part} s" for part in PARTS), "all s", "task runs per s"):
        shown.add_column(title, justify="right", no_wrap=True)
    for title in ("whole build s", "peak MiB", "load"):
        shown.add_column(title, justify="right", no_wrap=True)
    for n_instances in chosen.instances:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "lake"
            n_episodes, n_replies = plant(Home(root), chosen.models, n_instances) if n_instances else (0, 0)
            measured = run(root, str(n_instances), ["build"], None)
            took = seconds(root)
            parts = {part: sum(took[name] for name in names) for part, names in PARTS.items()}
        total = sum(parts.values())
        shown.add_row(
            f"{n_episodes:,}",
            f"{n_replies:,}",
            *(f"{part:.2f}" for part in parts.values()),
            f"{total:.2f}",
            f"{n_episodes / total:,.0f}",
            f"{measured.wall_s:.1f}",
            f"{measured.peak_rss / MIB:,.0f}",
            f"{measured.load:.1f}",
        )
    Console(width=160).print(shown)


if __name__ == "__main__":
    main()
