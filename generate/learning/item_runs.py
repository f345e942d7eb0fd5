"""Items of the families in the lake: laid out once per version, and never changed."""

import json
from collections.abc import Sequence

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
        raise InvalidSource(
            f"{family.category}.toml: {family.id}: the lake holds version {family.version} with other "
            "levels, seeds or rows of learning_tasks.csv: raise the version, or take the change back"
        )


def ensure_items(lake: Home, family: Family, dialogues: Sequence[AnyDialogue]) -> None:
    """Write the items of a family, once.

    Raises
    ------
    InvalidSource
        If the lake holds this version of the family with other items.
    """
    made = items(family, dialogues)
    runs = runs_of(lake)
    refuse_changed(family, runs)
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
            "identity_json": json.dumps({"tasks": [task.decisive for task in family.tasks]}),
            "notes": [],
        }
        commit(lake, family.run_id, [("items", made)], pa.Table.from_pylist([run], RUNS))
        return
    (named,) = runs.filter(pc.field("run_id") == family.run_id)["parts"].to_pylist()
    kept = rows_of_parts("items", run_parts(lake, "items", family.run_id, named))
    if not pl.DataFrame(kept).equals(pl.DataFrame(made)):
        raise InvalidSource(
            f"{family.category}.toml: {family.id}: the lake holds version {family.version} with other items: "
            "the family's code was changed; raise the version, or take the change back"
        )
