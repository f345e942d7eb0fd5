"""Tasks of the Learning benchmark, as ``manifests/learning_tasks.csv`` declares them."""

import csv
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.errors import InvalidSource
from store.settings import project_dir

FILE = "learning_tasks.csv"

Category = Literal[
    "associative_learning",
    "concept_formation",
    "language_learning",
    "observational_learning",
    "runtime_rl",
    "procedural_learning",
]
CATEGORIES: tuple[Category, ...] = (
    "associative_learning",
    "concept_formation",
    "language_learning",
    "observational_learning",
    "runtime_rl",
    "procedural_learning",
)

# what decides the course of an episode, beside the family itself
_DECISIVE = (
    "task_id",
    "free_threshold",
    "initial_examples",
    "max_examples",
    "n_test_items",
    "budget_steps",
    "min_explore_steps",
    "practice_rounds",
)

_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(ge=0, le=1)]


class Task(BaseModel):
    """One task: a family at one level, with every parameter of its formula.

    Columns are those of the manifest, which ``manifests/_seeds.yml`` describes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    category: Category
    family_id: str | None
    level: Annotated[int, Field(ge=1)] | None
    label: Annotated[str, Field(min_length=1)]
    score_rule: Literal["fraction_correct", "active_induction", "runtime_rl", "procedural"]
    match_kind: Literal["substring", "integer", "exact_nfc", "sequence", "none"]
    free_threshold: _Count | None
    initial_examples: _Count | None
    max_examples: _Positive | None
    n_test_items: _Positive | None
    budget_steps: _Positive | None
    min_explore_steps: _Count | None
    practice_rounds: _Count | None
    weight_accuracy: _Share | None
    weight_efficiency: _Share | None
    weight_success: _Share | None
    weight_progress: _Share | None
    weight_transfer: _Share | None
    weight_asymptote: _Share | None
    weight_trajectory: _Share | None
    weight_consistency: _Share | None
    efficiency_floor: _Share | None
    asymptote_share: _Share | None
    trajectory_decimals: _Count | None
    score_decimals: _Count | None
    has_zero_guard: bool
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    source_id: str | None

    @property
    def decisive(self) -> dict[str, str | int | None]:
        """What of the row decides how an episode goes: scoring alone reads the rest."""
        return {name: getattr(self, name) for name in _DECISIVE}

    def of_play(self, name: str) -> int:
        """Return a parameter without which an episode cannot be played.

        Raises
        ------
        InvalidSource
            If the row does not state it.
        """
        value = getattr(self, name)
        if value is None:
            raise InvalidSource(f"{FILE}: {self.task_id}: {name}: expected a number, found nothing")
        return int(value)


def load_tasks(path: Path | None = None) -> dict[str, Task]:
    """Return the tasks by id, in the order of the manifest.

    Raises
    ------
    InvalidSource
        If the manifest is not valid; the sentence names the row and the column.
    """
    return dict(_load(path or project_dir() / "manifests" / FILE))


@cache
def _load(path: Path) -> dict[str, Task]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [cells for cells in csv.reader(file, strict=True) if cells] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    for column in sorted({*header} ^ {*Task.model_fields}):
        expected, found = ("no such column", "one") if column in header else ("this column", "none")
        raise InvalidSource(f"{path.name}: {column!r:.80}: expected {expected}, found {found}")
    tasks: dict[str, Task] = {}
    for number, cells in enumerate(rows, start=1):
        is_named = cells[0].strip() and cells[0].isprintable()
        where = f"{path.name}: {cells[0] if is_named else f'row {number}':.80}"
        if len(cells) != len(header):
            raise InvalidSource(f"{where}: expected {len(header)} cells, found {len(cells)}")
        try:
            # an empty cell states nothing
            task = Task.model_validate(dict(zip(header, (cell or None for cell in cells), strict=True)))
        except ValidationError as error:
            first = error.errors()[0]
            value = "nothing" if first["input"] is None else f"{first['input']!r:.80}"
            raise InvalidSource(f"{where}: {first['loc'][0]}: {first['msg']}, found {value}") from error
        if task.task_id in tasks:
            raise InvalidSource(f"{path.name}: {task.task_id}: expected one row of this task, found two")
        tasks[task.task_id] = task
    return tasks
