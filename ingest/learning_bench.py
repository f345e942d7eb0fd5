"""LearningBench: a public leaderboard of 14 models on 135 learning tasks, and raw logs of single runs.

``leaderboard/leaderboard_flat.csv`` of kdcyberdude/LearningBench becomes rows of ``raw/published``. A log
under ``analysis/outputs/kernel_logs`` becomes an archived run: its dialogue as rows of ``raw/steps``, and
items where it says enough to be scored. Most logs do not say which answers are right: of such a run there is
the transcript, and a note that says why it has no score.

How far a game came is read from what its player was told. What the last action led to was told to nobody: a
game that ended before its budget was solved by it; of one that used the budget the progress before it counts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import duckdb
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.contract import Imported, RawRows
from ingest.csv_files import read_rows
from store.errors import InvalidSource
from store.learning_tasks import load_tasks
from store.manifest import PinnedFile, Source
from store.schemas import ITEMS, PUBLISHED, RUNS, STEPS

IMPORTER_VERSION = 1

_LEADERBOARD = "leaderboard/leaderboard_flat.csv"
_LOGS = "analysis/outputs/kernel_logs/"
_COLUMNS = ("model_name", "model_slug", "task_slug", "category", "score", "eval_date")

# three tasks of the leaderboard are of the category "unknown"; with them associative learning has the 20
# tasks that the benchmark states
_CATEGORIES = MappingProxyType(
    {
        "assoc-learning": "associative_learning",
        "unknown": "associative_learning",
        "concept-learning": "concept_formation",
        "lang-learning": "language_learning",
        "obs-learning": "observational_learning",
        "rf-learning": "runtime_rl",
        "proc-learning": "procedural_learning",
    }
)

# logs name a model by its maker and version, and one of them by another name than the leaderboard
_ALIASES = MappingProxyType({"gemma-4-26b-a4b": "gemma-4-26b-a4b-it"})

_COMPLETED = "BENCHMARK_TASK_RUN_STATE_COMPLETED"

_LABELS = MappingProxyType({"inhibitory-summation-assoc-learning": ("FLARE", "DAMP", "INERT")})


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Named(_Model):
    name: Annotated[str, Field(min_length=1)]


class _Slug(_Model):
    slug: Annotated[str, Field(min_length=1)]


class _Part(_Model):
    text: str = ""


class _Content(_Model):
    role: str
    parts: list[_Part] = []

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class _Request(_Model):
    contents: list[_Content]


class _Conversation(_Model):
    requests: list[_Request] = []


class _Assertion(_Model):
    expectation: str
    status: str


class _Number(_Model):
    # a zero is left out where the log was written
    value: float = 0.0


class _Result(_Model):
    numeric: Annotated[_Number | None, Field(alias="numericResult")] = None


class _Log(_Model):
    task: Annotated[_Named, Field(alias="taskVersion")]
    model: Annotated[_Slug, Field(alias="modelVersion")]
    state: str
    started_at: Annotated[datetime, Field(alias="startTime")]
    finished_at: Annotated[datetime, Field(alias="endTime")]
    conversations: list[_Conversation]
    results: list[_Result] = []
    assertions: list[_Assertion] = []

    @property
    def task_slug(self) -> str:
        return self.task.name.replace("_", "-")

    @property
    def model_slug(self) -> str:
        name = self.model.slug.rpartition("/")[2].replace("@", "-")
        return _ALIASES.get(name, name)

    @property
    def is_whole(self) -> bool:
        """Whether the run was carried to its end, with a reply to every message."""
        return self.state == _COMPLETED and all(said is not None for _, said in self.turns)

    @property
    def turns(self) -> list[tuple[str, str | None]]:
        """What was told, with the reply; None where none came."""
        turns = []
        for conversation in self.conversations:
            for request in conversation.requests:
                told = [content.text for content in request.contents if content.role.endswith("USER")]
                said = [content.text for content in request.contents if content.role.endswith("ASSISTANT")]
                turns.append(("\n".join(told), _unpacked(said[0]) if said else None))
        return turns


def _unpacked(reply: str) -> str:
    """Return a reply whose fields were asked for as JSON with one field per line; any other as it is."""
    try:
        fields = json.loads(reply)
        if isinstance(fields, str):
            fields = json.loads(fields)
    except ValueError:
        return reply
    if not isinstance(fields, dict):
        return reply
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
    )


@dataclass(frozen=True, slots=True)
class _Telling:
    """How the feedback of one game is read, as far as the logs show it: of another kind it is not.

    Attributes
    ----------
    readout
        Pattern with the number that the player is told; None if no log shows any.
    refusal
        Text of the feedback to an action that does not count; None if no log shows any.
    whole
        Pattern, in the first message, with the readout of a solved game, to which progress is relative; None
        if progress is not known, so that only a solved game can be scored.
    """

    readout: str | None = None
    refusal: str | None = None
    whole: str | None = None


_GAMES = MappingProxyType(
    {
        "affine-cipher-word-rf-learning": _Telling(refusal="ORBIT_REJECT", whole=r"(\d+) capital"),
        "bitstring-hamming-rf-learning": _Telling(refusal="Need exactly", whole=r"length (\d+)"),
        "chebyshev-point-rf-learning": _Telling(readout=r"SHELL readout\D+(\d+)"),
        "mastermind-aggregate-rf-learning": _Telling(readout=r"COUPLING_SUM\D+(\d+)", whole=r"length (\d+)"),
    }
)


class LearningBenchImporter:
    """Turns the leaderboard into published scores, and each log into an archived run."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the leaderboard or of a log; None for what follows from the leaderboard."""
        if file.path == _LEADERBOARD:
            name = "leaderboard"
        elif file.path.startswith(_LOGS):
            name = Path(file.path).name.partition("-run_id")[0]
        else:
            return None
        return f"{source.id}-{name}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Parse the leaderboard or a log.

        Raises
        ------
        InvalidSource
            If the file is not what upstream writes.
        """
        run_id = self.identify(source, file)
        assert run_id is not None
        if file.path == _LEADERBOARD:
            return _read_leaderboard(source, file, path, run_id)
        return _read_log(source, file, path, run_id)


def _read_leaderboard(source: Source, file: PinnedFile, path: Path, run_id: str) -> Imported:
    where = source.uri(file)
    with duckdb.connect() as con:
        n_rows = read_rows(con, path, where, _COLUMNS)
        categories = pa.table({"category": list(_CATEGORIES), "label": list(_CATEGORIES.values())})
        con.register("categories", categories)
        con.execute(
            """
            create table scores as
            select source_row, task_slug, model_slug, label, source.category, score,
                try_cast(score as double) as value,
                count(*) over (partition by task_slug, model_slug) as n_same
            from source left join categories using (category)
            """
        )
        flaw = con.execute(
            """
            select source_row, case
                    when task_slug is null or model_slug is null then 'expected task and model, found none'
                    when label is null then 'category: expected one that is known, found ' || category
                    when n_same > 1 then 'expected one score of ' || model_slug || ' in ' || task_slug
                        || ', found ' || n_same
                    else 'score: expected a number from 0 to 1, found ' || coalesce(score, 'nothing')
                end as flaw
            from scores
            where task_slug is null or model_slug is null or label is null or n_same > 1
                or not coalesce(value between 0 and 1, false)
            order by source_row limit 1
            """
        ).fetchone()
        if flaw is not None:
            raise InvalidSource(f"{where}: row {flaw[0]}: {flaw[1]}")
        published = con.sql(
            """
            select $source_id as source_id, $uri as source_uri, task_slug as mode_id, model_slug as model_id,
                cast(null as varchar) as episode_id, label, value
            from scores order by task_slug, model_slug
            """,
            params={"source_id": source.id, "uri": where},
        ).to_arrow_table()
        (n_unknown,) = con.sql(
            "select count(distinct task_slug) from scores where category = 'unknown'"
        ).fetchall()[0]
    notes = []
    if n_unknown:
        notes.append(f"{n_unknown} tasks of the category unknown are counted as associative learning")
    run = _run(run_id, source, file, n_rows, notes) | {
        "kind": "published",
        "model_id": "published",
        "agent_kind": "none",
        "planned_modes": sorted(set(published["mode_id"].to_pylist())),
    }
    return Imported(
        run_id,
        (
            RawRows("published", published.cast(PUBLISHED)),
            RawRows("runs", pa.Table.from_pylist([run], RUNS)),
        ),
        n_rows,
        0,
        tuple(notes),
    )


# --- logs ---


def _read_log(source: Source, file: PinnedFile, path: Path, run_id: str) -> Imported:
    where = source.uri(file)
    try:
        log = _Log.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(f"{where}: {key + ': ' if key else ''}{first['msg']}") from error
    turns = log.turns
    if not turns:
        raise InvalidSource(f"{where}: expected a dialogue, found no message")
    slug = log.task_slug
    notes = [f"the log states the score {result.numeric.value}" for result in log.results if result.numeric]
    items, outcomes, progress = _nothing(len(turns))
    if not log.is_whole:
        notes.append("no score: the run was not carried to its end")
    elif slug in _LABELS and log.assertions:
        items = _asserted_items(source, log, turns)
        outcomes[-1] = "examined"
    elif slug in _GAMES and (read := _read_game(slug, turns)) is not None:
        items = [_item(source, slug, 0) | {"facts_json": "{}"}]
        outcomes, progress = read
    else:
        notes.append("no score: the log does not say which answers are right, or how far its player came")
    steps = [
        {
            "run_id": run_id,
            "mode_id": slug,
            "episode_id": f"{slug}/0",
            "step_index": number,
            "trial": 0,
            "stage": 0,
            "observation": told,
            "response_text": said,
            "outcome": outcomes[number],
            "hidden_values": None if progress[number] is None else [progress[number]],
            "is_forced": False,
            "is_rewarded": False,
            "is_last": number == len(turns) - 1,
            "status": "ok",
        }
        for number, (told, said) in enumerate(turns)
    ]
    run = _run(run_id, source, file, len(turns), notes) | {
        "kind": "archived",
        "model_id": log.model_slug,
        "agent_kind": "language_model",
        "planned_modes": [slug],
        "identity_json": json.dumps({"items": [run_id]}),
        "started_at": log.started_at,
        "finished_at": log.finished_at,
    }
    return Imported(
        run_id,
        (
            RawRows("items", pa.Table.from_pylist(items, ITEMS)),
            RawRows("steps", pa.Table.from_pylist(steps, STEPS)),
            RawRows("runs", pa.Table.from_pylist([run], RUNS)),
        ),
        len(turns),
        0,
        tuple(notes),
    )


def _nothing(n: int) -> tuple[list[dict[str, Any]], list[str | None], list[float | None]]:
    return [], [None] * n, [None] * n


def _item(source: Source, slug: str, number: int) -> dict[str, Any]:
    return {
        "item_id": f"{source.id}/{slug}/{number}",
        "mode_id": slug,
        "source_id": source.id,
        "participant_id": f"{slug}/0",
        "weight": 1.0,
    }


def _asserted_items(
    source: Source, log: _Log, turns: Sequence[tuple[str, str | None]]
) -> list[dict[str, Any]]:
    """Return the questions of a log that says of each answer whether it was right.

    What is credited is what was answered where it was right; where it was wrong nothing that was answered is.
    """
    fields = dict(line.partition(": ")[::2] for line in (turns[-1][1] or "").splitlines())
    items = []
    for number, assertion in enumerate(log.assertions, start=1):
        named = re.search(r"`(\w+)`", assertion.expectation)
        answer = fields.get(named[1]) if named else None
        is_right = assertion.status.endswith("PASSED") and answer is not None
        facts = {"question": number, "match_kind": "substring"}
        items.append(
            _item(source, log.task_slug, number)
            | {
                "prompt": assertion.expectation,
                "legal_options": list(_LABELS[log.task_slug]),
                "credited_options": [answer] if is_right else [],
                "facts_json": json.dumps(facts, sort_keys=True),
            }
        )
    return items


def _read_game(
    slug: str, turns: Sequence[tuple[str, str | None]]
) -> tuple[list[str | None], list[float | None]] | None:
    """Return outcome and best progress so far of each action; None if it cannot be told."""
    telling, budget = _GAMES[slug], load_tasks()[slug].of_play("budget_steps")
    is_solved = len(turns) < budget
    whole = re.search(telling.whole, turns[0][0]) if telling.whole else None
    if (whole is None and not is_solved) or len(turns) > budget:
        return None
    outcomes: list[str | None] = []
    progress: list[float | None] = []
    best = 0.0
    for told, _ in turns[1:]:
        readout = re.search(telling.readout, told) if telling.readout else None
        if readout is not None:
            outcomes.append("moved")
            best = best if whole is None else max(best, int(readout[1]) / int(whole[1]))
        elif telling.refusal is not None and telling.refusal in told:
            outcomes.append("illegal")
        else:
            return None
        progress.append(None if whole is None else best)
    return [*outcomes, "solved" if is_solved else "moved"], [*progress, 1.0 if is_solved else best]


def _run(run_id: str, source: Source, file: PinnedFile, n_rows: int, notes: Sequence[str]) -> dict[str, Any]:
    record: Mapping[str, Any] = {
        "run_id": run_id,
        "source_id": source.id,
        "source_uri": source.uri(file),
        "source_sha256": file.sha256,
        "importer_version": IMPORTER_VERSION,
        "n_source_rows": n_rows,
        "n_unreadable_rows": 0,
        "notes": list(notes),
    }
    return dict(record)
