"""What a model answered in one component, question by question, for readers without the lake."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generate.evaluation import Planned, questions_of
from generate.questions import rows_of_parts, rows_of_run
from store.lake import batch_parts
from store.protocol import Grader
from store.settings import Home

_OPTION = (
    "option",
    "logprob_nats",
    "n_tokens",
    "n_characters",
    "n_bytes",
    "is_merged",
    "status",
    "status_reason",
)
_VERDICT = (
    "grader_id",
    "grader_version",
    "answer_rule",
    "verdict",
    "duration_s",
    "status",
    "status_reason",
)
_OUTPUT = (
    "prompt_sha256",
    "response_text",
    "status",
    "status_reason",
    "finish_reason",
    "n_prompt_tokens",
    "n_response_tokens",
    "max_response_tokens",
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What the lake holds of one run.

    Attributes
    ----------
    n
        Rows that answer a question.
    n_by_status
        How many of them have another status than ok.
    first_reason
        What went wrong with the first of these.
    parts
        Hashes of the parts, by raw table.
    """

    n: int
    n_by_status: Mapping[str, int]
    first_reason: str | None
    parts: Mapping[str, Sequence[str]]


def answered(lake: Home, run_id: str) -> Answered:
    """Return what the lake holds of a run.

    Raises
    ------
    LakeUnusable
        If a part cannot be read.
    """
    outputs = _rows(lake, run_id, "outputs", ("status", "status_reason"))
    wrong = [row for row in outputs if row["status"] != "ok"]
    tables = ("outputs", "output_options", "prompts", "verdicts")
    parts = {
        table: [path.stem.removeprefix("part-") for path in batch_parts(lake, run_id, table)]
        for table in tables
    }
    return Answered(
        n=len(outputs),
        n_by_status=dict(sorted(Counter(row["status"] for row in wrong).items())),
        first_reason=wrong[0]["status_reason"] if wrong else None,
        parts={table: hashes for table, hashes in parts.items() if hashes},
    )


def ungraded(lake: Home, run_id: str, grader: Grader) -> tuple[int, str | None]:
    """Return how many answers the grader gave no score under the rule that counts, and why not the first.

    Raises
    ------
    LakeUnusable
        If a part cannot be read.
    """
    (counting, *_) = grader.answer_rules
    found = [
        f"{row['status']}: {row['status_reason']}"
        for row in _rows(lake, run_id, "verdicts", _VERDICT)
        if (row["grader_id"], row["grader_version"]) == (grader.id, grader.version)
        and row["answer_rule"] == counting
        and row["status"] != "ok"
    ]
    return len(found), found[0] if found else None


def predictions(lake: Home, planned: Planned) -> Iterator[dict[str, Any]]:
    """Yield one object per answer, in the order of the questions in their file.

    A question that has two answers, which scores nothing, has two objects; one without an answer has none.

    Raises
    ------
    LakeUnusable
        If a part cannot be read.
    """
    run_id = planned.task.run_id
    outputs = _by_item(_rows(lake, run_id, "outputs", ("item_id", *_OUTPUT)))
    options = _by_item(_rows(lake, run_id, "output_options", ("item_id", "option_index", *_OPTION)))
    verdicts = _by_item(_rows(lake, run_id, "verdicts", ("item_id", *_VERDICT)))
    for item_id in _item_ids(lake, planned):
        for output in outputs[item_id]:
            told = {"item_id": item_id, **{name: output[name] for name in _OUTPUT}}
            if chosen := sorted(options[item_id], key=lambda option: option["option_index"]):
                told["options"] = [{name: option[name] for name in _OPTION} for option in chosen]
            if verdicts[item_id]:
                told["verdicts"] = [{name: said[name] for name in _VERDICT} for said in verdicts[item_id]]
            yield told


def _item_ids(lake: Home, planned: Planned) -> list[str]:
    brought = questions_of(lake, planned.dataset)
    return [
        item_id
        for run_id, run in sorted(brought.items())
        for item_id in rows_of_run(lake, "items", run_id, run.parts, ["item_id"])["item_id"].to_pylist()
    ]


def _by_item(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["item_id"]].append(row)
    return found


def _rows(lake: Home, run_id: str, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rows_of_parts(table, batch_parts(lake, run_id, table), columns).to_pylist()
    return rows
