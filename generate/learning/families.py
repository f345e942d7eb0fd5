"""Families of Learning tasks, as ``manifests/learning/<category>.toml`` declares them."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from generate.learning.blocks import read_blocks
from generate.schedule import Positive, Seeds, made, validated
from store.errors import InvalidSource
from store.learning_tasks import CATEGORIES, Category, Task, load_tasks
from store.settings import project_dir


class Family(BaseModel):
    """One family: hidden rules of one kind, at several levels.

    Attributes
    ----------
    id
        Name of the block, and ``source_id`` of its items.
    category
        The category whose file it is in.
    version
        Raised whenever an instance of it would be another: instances of one version never change.
    family
        Module and class under ``generate.learning.<category>``, such as ``blocking:Blocking``.
    seeds
        One per instance of each level; the draws of two families with the same seed have nothing in common.
    levels
        Fields of the class, level by level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: str
    category: Category
    version: Positive
    description: Annotated[str, Field(strict=True, min_length=1)]
    family: Annotated[str, Field(strict=True, pattern=r"^[a-z_0-9]+:[A-Za-z0-9]+$")]
    seeds: Seeds
    levels: Annotated[tuple[Mapping[str, Any], ...], Field(min_length=1)]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its tasks, one per level, in their order.

        Raises
        ------
        InvalidSource
            If a level has no row in ``learning_tasks.csv``, or a row no level.
        """
        found = sorted((task for task in load_tasks().values() if task.family_id == self.id), key=_level)
        if [task.level for task in found] != list(range(1, len(self.levels) + 1)):
            levels = ", ".join(str(task.level or "no level") for task in found) or "none"
            raise InvalidSource(
                f"learning_tasks.csv: {self.id}: expected a row for each of the levels 1 to "
                f"{len(self.levels)}, found {levels}"
            )
        if wrong := [task for task in found if task.category != self.category]:
            raise InvalidSource(
                f"learning_tasks.csv: {wrong[0].task_id}: category: expected {self.category}, in which "
                f"{self.id} is, found {wrong[0].category}"
            )
        return tuple(found)

    @property
    def run_id(self) -> str:
        """The run that holds its items."""
        return f"learning-{self.id}-v{self.version}"

    @property
    def sha256(self) -> str:
        """Hash of what is declared of its instances."""
        decisive = self.model_dump(mode="json", exclude={"description"})
        declared = [decisive, [task.decisive for task in self.tasks]]
        return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()

    def made(self, level: int) -> object:
        """Return the family's object for a level, counted from 1.

        Raises
        ------
        InvalidSource
            If there is no such class, or the constants are not what it takes.
        """
        where = f"{self.category}.toml: {self.id}: level {level}"
        return made(where, f"learning.{self.category}", self.family, self.levels[level - 1])


def load_families(folder: Path | None = None) -> dict[str, Family]:
    """Return the families by id, category by category in the order of the manifests.

    Raises
    ------
    InvalidSource
        If a manifest is not valid; the sentence names the file, the block and the key.
    """
    return dict(_load(folder or project_dir() / "manifests" / "learning"))


@cache
def _load(folder: Path) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for category in CATEGORIES:
        path = folder / f"{category}.toml"
        for name, block in read_blocks(path, ("id", "category")).items():
            where = f"{path.name}: {name}"
            if name in families:
                raise InvalidSource(f"{where}: expected one family of this name, found two")
            families[name] = validated(where, Family, block | {"id": name, "category": category})
    for task in load_tasks().values():
        if task.family_id is not None and task.family_id not in families:
            raise InvalidSource(
                f"learning_tasks.csv: {task.task_id}: family_id: expected a family of manifests/learning, "
                f"found {task.family_id}"
            )
    return families


def _level(task: Task) -> int:
    return task.level or 0
