"""Items of the families in the lake: laid out once per version, and never changed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from generate.learning.dialogues.contract import AnyDialogue
from generate.learning.families import Family
from generate.learning.instances import items
from generate.questions import rows_of_parts, runs_of
from store.errors import InvalidSource
from store.lake import commit, committed_runs, run_parts
from store.schemas import RUNS
from store.settings import Home


def refuse_changed(family: Family, runs: pa.Table) -> None:
    """Compare what is declared of a family with what the lake holds under its version.

    Raises
    ------
    InvalidSource
        If they differ.
    """
    found = runs.filter(pc.field("run_id") == family.run_id)
    if found.num_rows and found["source_sha256"][0].as_py() != family.sha256:
        stated = json.loads(found["identity_json"][0].as_py())["tasks"]
        raise _changed(family, _difference(family, stated))


def ensure_items(lake: Home, family: Family, dialogues: Sequence[AnyDialogue]) -> None:
    """Write the items of a family, once.

    Raises
    ------
    InvalidSource
        If the lake holds this version of the family with other items, or told in other words.
    """
    made, told = items(family, dialogues), _texts_sha256(dialogues)
    if family.run_id not in committed_runs(lake):
        run = {
            "run_id": family.run_id,
            "kind": "schedule",
            "model_id": family.id,
            "agent_kind": "none",
            "planned_modes": [task.task_id for task in family.tasks],
            "source_id": family.id,
            "source_sha256": family.sha256,
            "importer_version": family.version,
            # what the instances were made for: a changed row of learning_tasks.csv scores none of them
            "identity_json": json.dumps(
                {"tasks": [task.decisive for task in family.tasks], "texts_sha256": told}
            ),
            "notes": [],
        }
        if commit(lake, family.run_id, [("items", made)], pa.Table.from_pylist([run], RUNS))[-1].is_new:
            return
    # read only now: another process may have written them meanwhile
    runs = runs_of(lake)
    refuse_changed(family, runs)
    (kept,) = runs.filter(pc.field("run_id") == family.run_id).to_pylist()
    rows = rows_of_parts("items", run_parts(lake, "items", family.run_id, kept["parts"]))
    if not pl.DataFrame(rows).equals(pl.DataFrame(made)):
        raise _changed(family, "other items: the family's code was changed")
    if json.loads(kept["identity_json"]).get("texts_sha256", told) != told:
        raise _changed(family, "other words: what the family tells was changed")


def _difference(family: Family, stated: Sequence[Mapping[str, Any]]) -> str:
    """Say what is declared otherwise than it was."""
    for task, was in zip(family.tasks, stated, strict=False):
        for name, value in task.decisive.items():
            if was[name] != value:
                return f"{name} {was[name]} where learning_tasks.csv has {value} for {task.task_id}"
    return "another class, other levels or other seeds"


def _changed(family: Family, how: str) -> InvalidSource:
    return InvalidSource(
        f"{family.category}.toml: {family.id}: the lake holds version {family.version} with {how}; raise the "
        "version, or take the change back"
    )


def _texts_sha256(dialogues: Sequence[AnyDialogue]) -> str:
    """Hash what the instances tell whatever is replied, beside the questions, which the items hold."""
    texts = [dialogue.texts for dialogue in dialogues]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
