"""``coglake task``: write the questions of a mode, or of a data set of CogniRank, for lm-eval."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from generate import evaluation
from generate.contract import Environment
from generate.pipeline import ensure_items, item_sources, schedule_run_id
from generate.questions import Brought, item_runs, rows_of_parts, runs_of
from generate.schedule import load_schedules
from store import console
from store.errors import WrongUsage
from store.formats import to_json
from store.lake import run_parts
from store.lm_eval_task import write_task
from store.protocol import load_datasets
from store.settings import Home, home
from store.usage import require_known

_REPORT = ("name", "files", "n_questions", "n_without_prompt")
_COLUMNS = ("item_id", "prompt", "legal_options", "credited_options", "target")


@dataclass(frozen=True, slots=True)
class Questions:
    """Where the questions of a mode or data set are.

    Attributes
    ----------
    mode_id
        The mode, or the data set.
    parts
        Files of ``raw/items``; they may hold other modes too.
    """

    mode_id: str
    source_id: str
    parts: Sequence[Path]


def run(mode_id: str, folder: Path, *, as_json: bool) -> None:
    """Write the task and say how it is run."""
    asked = questions_of(home(), mode_id)
    rows = _rows(asked)
    is_dataset = mode_id in load_datasets()
    if is_dataset and rows["legal_options"].null_count:
        raise WrongUsage(
            f"{mode_id}: its answers are texts that coglake itself matches or grades, so no task of lm-eval "
            "could score them: ask it with `coglake cognirank`"
        )
    written = write_task(folder, mode_id, rows, is_normalised=is_dataset)
    if as_json:
        console.write(to_json({"mode_id": mode_id, **{name: getattr(written, name) for name in _REPORT}}))
        return
    console.write(f"{written.name}: {written.n_questions:,} questions in {folder}\n")
    if written.n_without_prompt:
        console.say(f"{written.n_without_prompt:,} questions have no prompt and were left out")
    console.say(
        f"lm_eval --model hf --model_args pretrained=MODEL,dtype=float32 --include_path {folder} "
        f"--tasks {written.name} --log_samples --output_path RESULTS"
    )


def questions_of(lake: Home, mode_id: str) -> Questions:
    """Return where the questions of a mode or data set are; those of a schedule here are laid down first.

    Raises
    ------
    WrongUsage
        If there is no such mode or data set, it is played step by step, or its questions are not in the lake.
    """
    datasets = load_datasets()
    if mode_id in datasets:
        brought = evaluation.questions_of(lake, datasets[mode_id])
        return _found(lake, mode_id, datasets[mode_id].source_id, brought)
    sources = item_sources()
    require_known("mode", [mode_id], [*sources, *datasets], f"there are {', '.join([*sources, *datasets])}")
    source_id = sources[mode_id]
    if source_id is None:
        raise WrongUsage(
            f"{mode_id}: the source of its questions is not identified, so there are none to ask"
        )
    schedule = next((found for found in load_schedules().values() if found.mode == mode_id), None)
    if schedule is not None:
        if isinstance(schedule.environment(), Environment):
            raise WrongUsage(f"{mode_id}: played step by step, so it has no questions that stand alone")
        ensure_items(lake, schedule)
    brought = item_runs(runs_of(lake), mode_id, source_id)
    if schedule is not None:
        # of a schedule the version that is declared, whatever others the lake holds
        brought = {run_id: run for run_id, run in brought.items() if run_id == schedule_run_id(schedule)}
    return _found(lake, mode_id, source_id, brought)


def _found(lake: Home, mode_id: str, source_id: str, brought: Mapping[str, Brought]) -> Questions:
    parts = [
        path
        for run_id, run in sorted(brought.items())
        for path in run_parts(lake, "items", run_id, run.parts)
    ]
    if not parts:
        raise WrongUsage(f"{mode_id}: its questions are not in the lake: `coglake ingest {source_id}`")
    return Questions(mode_id, source_id, parts)


def _rows(asked: Questions) -> pa.Table:
    """Return the questions of the test, in the order in which ``generate --limit`` takes them."""
    of_mode = (pc.field("mode_id") == asked.mode_id) & (
        pc.field("split").is_null() | (pc.field("split") == "test")
    )
    rows = rows_of_parts("items", asked.parts, _COLUMNS, of_mode)
    ids = rows["item_id"].to_pylist()
    return rows.take(sorted(range(len(ids)), key=lambda row: (_hash(ids[row]), ids[row])))


def _hash(item_id: str) -> str:
    return hashlib.md5(item_id.encode(), usedforsecurity=False).hexdigest()
