"""Questions of a mode or data set as a task of lm-evaluation-harness (lm-eval 0.4.12 and later 0.4 releases).

A task is a YAML file, a parquet file with one question per row, and a few lines of Python that open the
parquet file wherever the folder is moved to: lm-eval itself would look for it below the current folder.
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from store.errors import InvalidSource, WrongUsage

TASK_PREFIX = "coglake_"
# of the columns and of how options are written
TASK_VERSION = 1

# ends every option of a question in which one option goes on where another ends
TERMINATOR = "\n"
# as `coglake generate` asks for a written answer
_MAX_REPORT_TOKENS = 64

_LOADER = "coglake_questions"
_LOADER_TEXT = '''"""Opens the questions that lie beside this file."""

from pathlib import Path

import datasets


def load(data_file, **_):
    """Return the one split of a task."""
    path = Path(__file__).with_name(data_file)
    return datasets.load_dataset("parquet", data_files={"test": str(path)})
'''

_NO_RIGHT_ANSWER = (
    "No answer is right: people's answers are predicted. lm-eval asks for a target, so 0 stands there, and "
    "the metric bypass says nothing: `coglake import lm-eval` and `coglake build` score the samples."
)
_ONE_RIGHT_ANSWER = "acc is lm-eval's own: it resolves ties by the order of options, and coglake does not."
_NORMALISED = (
    "acc takes the sum of an option's log-probabilities, acc_norm the sum per character, acc_bytes the sum "
    "per byte; ties go to the option listed first, where coglake shares them. Per token is no metric of "
    "lm-eval, which logs no tokens: coglake computes it of what its own engines answer."
)
_REPORT = (
    "A number is asked for and lm-eval does not score it: `coglake import lm-eval` and `coglake build` do."
)
_TERMINATED = (
    "Where one option is the beginning of another, all options of the question end in a line break, which "
    "suits plain prompts; under a chat template a model ends its turn instead."
)
_LINE_ENDS = (
    "Some prompts end in a line break or tab, which lm-eval scores with the option and coglake does not: "
    "compare renormalised values only."
)
_MIXED = (
    "Some prompts end in a space and some do not, so the space is part of these options: plain prompts only."
)


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A task on the disk.

    Attributes
    ----------
    name
        What ``lm_eval --tasks`` takes.
    n_without_prompt
        Questions that were left out because they have no prompt.
    """

    name: str
    files: tuple[Path, ...]
    n_questions: int
    n_without_prompt: int


def write_task(
    folder: Path, mode_id: str, questions: pa.Table, *, is_normalised: bool = False
) -> WrittenTask:
    """Write the questions of one mode as a task; a task of that mode in ``folder`` is replaced.

    Parameters
    ----------
    folder
        Made if it is not there; several modes may share it.
    questions
        Columns ``item_id``, ``prompt``, ``legal_options``, ``credited_options`` and ``target`` of
        ``raw/items``.
    is_normalised
        Whether right answers also count by the log-probability per character and per byte.

    Raises
    ------
    WrongUsage
        If no question has a prompt, or the folder cannot be written.
    InvalidSource
        If some questions have options and others ask for a number, or an option is empty or there twice.
    """
    asked = questions.filter(pc.is_valid(questions["prompt"]))
    if not asked.num_rows:
        raise WrongUsage(
            f"{mode_id}: expected questions with a prompt, found none among {questions.num_rows}: "
            "the mode is played step by step, or its source is not ingested"
        )
    rows = asked.to_pylist()
    has_options = {bool(row["legal_options"]) for row in rows}
    if len(has_options) > 1:
        raise InvalidSource(f"{mode_id}: expected options in every question or in none, found both")
    name = TASK_PREFIX + mode_id
    data_file = f"{name}.parquet"
    data, settings = (
        _choices(mode_id, rows, is_normalised=is_normalised)
        if has_options == {True}
        else _reports(mode_id, rows)
    )
    settings = {
        "task": name,
        "custom_dataset": f"!function {_LOADER}.load",
        "dataset_kwargs": {"data_file": data_file},
        "test_split": "test",
        "doc_to_text": "prompt",
        "num_fewshot": 0,
        **settings,
    }
    files = (folder / f"{name}.yaml", folder / data_file, folder / f"{_LOADER}.py")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, files[1])
        files[2].write_text(_LOADER_TEXT, encoding="utf-8")
        files[0].write_text(_as_yaml(settings), encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return WrittenTask(name, files, len(rows), questions.num_rows - len(rows))


def delimiter(prompt: str, options: list[str]) -> str:
    """Return what stands between a prompt as plain text and an option: a space, unless one of them has it."""
    return "" if prompt[-1:].isspace() or any(option[:1].isspace() for option in options) else " "


def terminator(options: list[str]) -> str:
    """Return what ends each option: nothing, or a line break if one option is the beginning of another."""
    in_order = sorted(options)
    # whatever begins with a text follows it at once in this order
    is_any = any(longer.startswith(shorter) for shorter, longer in pairwise(in_order))
    return TERMINATOR if is_any else ""


def _choices(
    mode_id: str, rows: list[dict[str, Any]], *, is_normalised: bool
) -> tuple[pa.Table, dict[str, Any]]:
    """Return questions with options, and what the task says of them."""
    for row in rows:
        options = row["legal_options"]
        if "" in options or len(set(options)) < len(options):
            raise InvalidSource(
                f"{mode_id}: {row['item_id']}: expected options that differ and are not empty, "
                f"found {options}"
            )
    delimiters = [delimiter(row["prompt"], row["legal_options"]) for row in rows]
    terminators = [terminator(row["legal_options"]) for row in rows]
    is_mixed = len(set(delimiters)) > 1
    has_credit = all(row["credited_options"] for row in rows)
    notes = [_ONE_RIGHT_ANSWER if has_credit else _NO_RIGHT_ANSWER]
    metrics = [_metric("acc", "mean")] if has_credit else [_metric("bypass", "bypass")]
    if has_credit and is_normalised:
        notes = [_NORMALISED]
        metrics += [_metric("acc_norm", "mean"), _metric("acc_bytes", "mean")]
    notes += [_TERMINATED] if any(terminators) else []
    notes += [_LINE_ENDS] if any(row["prompt"].rstrip() != row["prompt"].rstrip(" ") for row in rows) else []
    notes += [_MIXED] if is_mixed else []
    columns: dict[str, list[Any]] = {
        "item_id": [row["item_id"] for row in rows],
        "prompt": [row["prompt"] for row in rows],
        "options": [row["legal_options"] for row in rows],
        "continuations": [
            [(before if is_mixed else "") + option + after for option in row["legal_options"]]
            for row, before, after in zip(rows, delimiters, terminators, strict=True)
        ],
        "target": [_credited(row) for row in rows] if has_credit else [0] * len(rows),
    }
    if has_credit and all(len(indices) == 1 for indices in columns["target"]):
        columns["target"] = [index for (index,) in columns["target"]]
    return pa.table(columns), {
        "output_type": "multiple_choice",
        "doc_to_choice": "continuations",
        "doc_to_target": "target",
        "target_delimiter": "" if is_mixed else delimiters[0],
        "metric_list": metrics,
        "metadata": {"version": TASK_VERSION, "mode": mode_id, "notes": notes},
    }


def _credited(row: dict[str, Any]) -> list[int]:
    credited = set(row["credited_options"])
    return [index for index, option in enumerate(row["legal_options"]) if option in credited]


def _reports(mode_id: str, rows: list[dict[str, Any]]) -> tuple[pa.Table, dict[str, Any]]:
    """Return questions that are answered with a number, and what the task says of them."""
    columns = {
        "item_id": [row["item_id"] for row in rows],
        "prompt": [row["prompt"] for row in rows],
        "target": ["" if row["target"] is None else repr(row["target"]) for row in rows],
    }
    return pa.table(columns), {
        "output_type": "generate_until",
        "doc_to_target": "target",
        "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": _MAX_REPORT_TOKENS},
        "metric_list": [_metric("bypass", "bypass")],
        "metadata": {"version": TASK_VERSION, "mode": mode_id, "notes": [_REPORT]},
    }


def _metric(name: str, aggregation: str) -> dict[str, Any]:
    return {"metric": name, "aggregation": aggregation, "higher_is_better": True}


def _as_yaml(settings: dict[str, Any]) -> str:
    """Return settings as YAML: JSON is YAML, but for the tag that names a function."""
    lines = [
        f"{key}: {value if isinstance(value, str) and value.startswith('!function ') else _json(value)}"
        for key, value in settings.items()
    ]
    return "\n".join(lines) + "\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
