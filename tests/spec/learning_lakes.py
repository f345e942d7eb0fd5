"""Lakes of Learning for tests: tasks of any parameters, and episodes as a dialogue would leave them."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from store.lake import commit
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

MODELS = ("+learning_report", "+learning_scores", "+learning_curves", "+learning_solved")
RULES = {
    "fraction_correct": {"weight_accuracy": "1.00", "has_zero_guard": "false"},
    "active_induction": {
        "weight_accuracy": "0.40",
        "weight_efficiency": "0.60",
        "efficiency_floor": "0.00",
        "has_zero_guard": "true",
    },
    "runtime_rl": {
        "weight_efficiency": "0.25",
        "weight_success": "0.55",
        "weight_progress": "0.20",
        "efficiency_floor": "0.10",
        "score_decimals": "4",
        "has_zero_guard": "false",
    },
    "procedural": {
        "weight_transfer": "0.30",
        "weight_asymptote": "0.25",
        "weight_trajectory": "0.25",
        "weight_consistency": "0.20",
        "efficiency_floor": "0.10",
        "asymptote_share": "0.5",
        "trajectory_decimals": "4",
        "score_decimals": "4",
        "has_zero_guard": "true",
        "epsilon": "1e-9",
    },
}
CATEGORIES = {
    "fraction_correct": "associative_learning",
    "active_induction": "concept_formation",
    "runtime_rl": "runtime_rl",
    "procedural": "procedural_learning",
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def task(task_id: str, score_rule: str, **parameters: Any) -> dict[str, str]:
    """Return a row of the manifest: the weights of the rule, and parameters."""
    family, _, level = task_id.rpartition("_")
    row = {
        "task_id": task_id,
        "category": CATEGORIES[score_rule],
        "family_id": family,
        "level": level,
        "label": task_id,
        "score_rule": score_rule,
        "match_kind": "none" if score_rule == "runtime_rl" else "substring",
    }
    named = {name: "" if value is None else str(value) for name, value in parameters.items()}
    return row | RULES[score_rule] | named


def declare(project: Path, tasks: Iterable[Mapping[str, str]]) -> None:
    """Put other tasks into the manifest of a copy of the project."""
    path = project / "manifests" / "learning_tasks.csv"
    with path.open(newline="", encoding="utf-8") as file:
        [*columns] = csv.DictReader(file).fieldnames or ()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(tasks)


@dataclass
class Rows:
    """Raw rows of one run, column by column."""

    table: str
    constant: Mapping[str, Any]
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, **row: Any) -> None:
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    def arrow(self) -> pa.Table:
        schema = RAW_TABLES[self.table]
        n = len(next(iter(self.columns.values()), []))
        values = {name: [value] * n for name, value in self.constant.items()} | self.columns
        return pa.table(
            [pa.array(values.get(each.name, [None] * n), each.type) for each in schema], schema=schema
        )


@dataclass(frozen=True)
class Asked:
    """One question of an instance."""

    right: str
    match_kind: str = "substring"
    labels: Sequence[str] = ()


@dataclass
class Instances:
    """Instances of tasks, as a schedule brings them."""

    run_id: str = "instances"
    version: int = 1
    made_for: Sequence[Mapping[str, object]] = ()
    rows: Rows = field(init=False)
    planned: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = Rows("items", {"source_id": "drawn", "weight": 1.0})

    def add(self, task_id: str, episode_id: str, questions: Sequence[Asked] = ()) -> None:
        """Add an instance: its questions, or one row where it has none."""
        self.planned[task_id] = None
        same = {"mode_id": task_id, "participant_id": episode_id}
        for k, asked in enumerate(questions, start=1):
            self.rows.add(
                **same,
                item_id=f"{self.run_id}/{episode_id}/{k}",
                credited_options=[asked.right],
                legal_options=list(asked.labels) or None,
                facts_json=json.dumps({"question": k, "match_kind": asked.match_kind}),
            )
        if not questions:
            self.rows.add(
                **same,
                item_id=f"{self.run_id}/{episode_id}/0",
                credited_options=None,
                legal_options=None,
                facts_json='{"n_best": 1}',
            )

    def commit(self, lake: Home) -> None:
        run = run_row(
            self.run_id, list(self.planned), kind="schedule", model_id="none", agent_kind="none"
        ) | {"importer_version": self.version}
        if self.made_for:
            run["identity_json"] = json.dumps({"tasks": list(self.made_for)})
        commit(lake, self.run_id, [("items", self.rows.arrow())], pa.Table.from_pylist([run], RUNS))


@dataclass
class Played:
    """Episodes of one run, reply by reply."""

    run_id: str
    evaluation_id: str | None = "evaluation"
    model_id: str = "hub/model"
    of: str | None = "instances"
    columns: Mapping[str, Any] = field(default_factory=dict)
    rows: Rows = field(init=False)
    planned: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        constant = {"run_id": self.run_id, "stage": 0, "is_forced": False, "is_rewarded": False}
        self.rows = Rows("steps", constant)

    def plan(self, *task_ids: str) -> None:
        self.planned.update(dict.fromkeys(task_ids))

    def episode(self, task_id: str, episode_id: str, replies: Sequence[Mapping[str, Any]]) -> None:
        """Add an episode; what a reply does not say is that of an exam."""
        self.plan(task_id)
        for index, reply in enumerate(replies):
            row = {
                "mode_id": task_id,
                "episode_id": episode_id,
                "step_index": index,
                "trial": 0,
                "response_text": "",
                "outcome": None,
                "hidden_values": None,
                "is_last": index == len(replies) - 1,
                "status": "ok",
                "status_reason": None,
            }
            self.rows.add(**(row | dict(reply)))

    def commit(self, lake: Home) -> None:
        identity = {} if self.of is None else {"items": [self.of]}
        run = run_row(self.run_id, list(self.planned), model_id=self.model_id) | {
            "evaluation_id": self.evaluation_id,
            "identity_json": json.dumps(identity),
        }
        rows = [("steps", self.rows.arrow())] if self.rows.columns else []
        commit(lake, self.run_id, rows, pa.Table.from_pylist([run | dict(self.columns)], RUNS))


def run_row(run_id: str, planned: Sequence[str], **columns: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "kind": "model",
        "model_id": "hub/model",
        "agent_kind": "language_model",
        "planned_modes": list(planned),
        "protocol": "chat",
        "source_id": "drawn",
        "notes": [],
        "started_at": NOON,
    } | columns


# ---- replies ----


def exam(*answers: str | None, **columns: Any) -> dict[str, Any]:
    """Return the reply that answers all questions; None is one that it leaves out."""
    lines = [f"{k}: {said}" for k, said in enumerate(answers, start=1) if said is not None]
    return {"response_text": "\n".join(lines), "outcome": "examined"} | columns


def requests(n_examples: int) -> list[dict[str, Any]]:
    """Return requests for so many examples, and the wish to be examined."""
    asked = [{"response_text": "MORE", "outcome": "example"} for _ in range(n_examples)]
    return [*asked, {"response_text": "READY", "outcome": "ready"}]


def moves(solved_at: int | None, budget: int, progress: float | None, **columns: Any) -> list[dict[str, Any]]:
    """Return the moves of a game or round that was solved at one of them, or not within the budget."""
    n = budget if solved_at is None else solved_at
    values = None if progress is None else [progress]
    played = [{"outcome": "moved", "hidden_values": values} | columns for _ in range(n)]
    if solved_at is not None:
        played[-1] = played[-1] | {"outcome": "solved"}
    return played


def practice(rounds: Sequence[int | None], budget: int, *answers: str | None) -> list[dict[str, Any]]:
    """Return rounds, each solved at some reply or not, and the answers to what is asked after them."""
    played = [
        move for trial, solved_at in enumerate(rounds) for move in moves(solved_at, budget, 0.5, trial=trial)
    ]
    return [*played, exam(*answers, trial=len(rounds))]
