"""Logs of Inspect: ``.eval``, a zip with one JSON file per sample, and ``.json``, one JSON file for all.

Newer versions compress the entries of the zip with Zstandard, which Python's zipfile reads from 3.14 on;
Arrow decompresses them here.
"""

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from ingest.log_samples import LogFacts, without_secrets
from store.errors import InvalidSource

_ZSTANDARD = 93
# the part of an entry's own header before its name and extra field, and where their lengths stand
_ENTRY_HEADER = 30
_LENGTHS = slice(26, 30)

# such a log is one object, so all of it is in memory at once, several times over
_MAX_JSON_BYTES = 512 << 20
_SAMPLES_AT_ONCE = 5_000

# as inspect turns marks into numbers: correct, incorrect, partially correct, no answer
_MARKS = {"C": "1", "I": "0", "P": "0.5", "N": "0"}

_SAMPLE_ROWS = pa.schema(
    [
        ("sample", pa.int64()),
        ("repeat", pa.int32()),
        ("item_id", pa.string()),
        ("question_sha256", pa.string()),
        ("prompt_sha256", pa.string()),
        ("options", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.string())),
        ("response_text", pa.string()),
        ("finish_reason", pa.string()),
        ("n_prompt_tokens", pa.int32()),
        ("n_response_tokens", pa.int32()),
        ("error", pa.string()),
    ]
)
_PROMPT_ROWS = pa.schema([("prompt_sha256", pa.string()), ("text", pa.string())])
_VERDICT_ROWS = pa.schema(
    [("sample", pa.int64()), ("repeat", pa.int32()), ("grader_id", pa.string()), ("value", pa.string())]
)


class _Read(BaseModel):
    """What is read of an object; a log has many more fields, and new ones in every version."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class _Part(_Read):
    type: str
    text: str | None = None


class _Message(_Read):
    role: str
    content: str | list[_Part] = ""

    @property
    def text(self) -> str:
        """The written text; images and reasoning are left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content if part.type == "text")


class _Choice(_Read):
    message: _Message
    stop_reason: str | None = None


class _Usage(_Read):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Output(_Read):
    choices: list[_Choice] = []
    usage: _Usage | None = None


class _Score(_Read):
    value: Any = None


class _Error(_Read):
    message: str


class _Sample(_Read):
    id: int | str
    epoch: int = 1
    input: str | list[_Message]
    choices: list[str] | None = None
    messages: list[_Message] = []
    output: _Output = _Output()
    scores: dict[str, _Score] | None = None
    error: _Error | None = None

    @property
    def question(self) -> str | None:
        """The one text that was asked; None if the sample is more than one question."""
        if isinstance(self.input, str):
            return self.input
        asked = [message for message in self.input if message.role != "system"]
        return asked[0].text if len(asked) == 1 and asked[0].role == "user" else None

    @property
    def prompt(self) -> str:
        """What the model was shown: one text, or messages as JSON."""
        shown = list(self.messages)
        while shown and shown[-1].role == "assistant":
            shown.pop()
        if not shown and isinstance(self.input, str):
            return self.input
        if not shown:
            assert not isinstance(self.input, str)
            shown = self.input
        if [message.role for message in shown] == ["user"]:
            return shown[0].text
        return json.dumps(
            [{"role": message.role, "content": message.text} for message in shown], ensure_ascii=False
        )


class _EvalConfig(_Read):
    limit: Any = None
    epochs: int | None = None


class _Eval(_Read):
    task: str
    model: str
    created: datetime | None = None
    task_version: int | str | None = None
    model_args: dict[str, Any] = {}
    model_generate_config: dict[str, Any] = {}
    config: _EvalConfig = _EvalConfig()
    packages: dict[str, str] = {}


class _Plan(_Read):
    config: dict[str, Any] = {}


class _Stats(_Read):
    started_at: datetime | str | None = None


class _Header(_Read):
    version: int = 2
    status: str = "started"
    eval: _Eval
    plan: _Plan = _Plan()
    stats: _Stats = _Stats()


class _WholeLog(_Header):
    samples: list[_Sample] | None = None


def read(con: duckdb.DuckDBPyConnection, path: Path) -> LogFacts:
    """Fill the tables of ``ingest.log_samples`` from a log and return what its header says.

    Raises
    ------
    InvalidSource
        If the file is no log of Inspect, or a part of it is damaged; the sentence names the part.
    """
    header, samples = _open_zip(path) if zipfile.is_zipfile(path) else _open_json(path)
    n_samples = n_by_letter = 0
    numbers: dict[int | str, int] = {}
    remaining = iter(samples)
    while block := list(islice(remaining, _SAMPLES_AT_ONCE)):
        n_samples += len(block)
        n_by_letter += sum(bool(sample.choices) for sample in block)
        # every epoch answers the same samples
        places = [numbers.setdefault(sample.id, len(numbers) + 1) for sample in block]
        _insert(con, block, places)
    notes = [
        "Inspect logs no log-probabilities of options: what was written is read.",
        "Inspect logs no revision of the model.",
    ]
    if not n_samples:
        raise InvalidSource(
            f"{path}: expected samples, found none: the log was written with log_samples=False, or is empty"
        )
    if header.status != "success":
        notes.append(f"The log says that the run's status is {header.status}, not success.")
    if header.eval.config.limit is not None:
        notes.append(f"The run was limited to {header.eval.config.limit} samples.")
    if n_by_letter:
        notes.append(
            f"{n_by_letter} answers name an option by a letter of the log: kept as written, which is no "
            "legal option of the question."
        )
    return _facts(header, notes)


def _facts(header: _Header, notes: list[str]) -> LogFacts:
    about = header.eval
    version = about.packages.get("inspect_ai")
    started_at = header.stats.started_at if isinstance(header.stats.started_at, datetime) else about.created
    settings = header.plan.config | about.model_generate_config
    return LogFacts(
        task=about.task,
        model_id=about.model,
        model_revision=None,
        protocol="chat, text",
        engine="inspect",
        engine_version=version,
        grader_version=f"{version or 'unknown'}, task {about.task_version}",
        started_at=started_at if started_at is None or started_at.tzinfo else None,
        stated={
            "task": about.task,
            "task_version": about.task_version,
            "log_version": header.version,
            "status": header.status,
            "model_args": without_secrets(about.model_args),
            "generate_config": without_secrets(settings),
            "epochs": about.config.epochs,
            "packages": about.packages,
        },
        notes=notes,
    )


def _insert(con: duckdb.DuckDBPyConnection, samples: list[_Sample], places: list[int]) -> None:
    numbered = list(zip(places, samples, strict=True))
    prompts = {_sha256(sample.prompt): sample.prompt for sample in samples}
    tables = {
        "samples": pa.Table.from_pylist([_row(place, sample) for place, sample in numbered], _SAMPLE_ROWS),
        "prompts": pa.Table.from_pylist(
            [{"prompt_sha256": sha256, "text": text} for sha256, text in prompts.items()], _PROMPT_ROWS
        ),
        "verdicts": pa.Table.from_pylist(
            [row for place, sample in numbered for row in _verdicts(place, sample)], _VERDICT_ROWS
        ),
    }
    for name, rows in tables.items():
        con.register("block", rows)
        con.execute(f"insert into {name} select * from block")
        con.unregister("block")


def _row(place: int, sample: _Sample) -> dict[str, Any]:
    question, output = sample.question, sample.output
    answer = output.choices[0] if output.choices else None
    usage = output.usage or _Usage()
    error = None if answer else "the log has no answer"
    if sample.error is not None:
        error = " ".join(sample.error.message.split())
    return {
        "sample": place,
        "repeat": sample.epoch - 1,
        "item_id": str(sample.id),
        "question_sha256": None if question is None else _sha256(question),
        "prompt_sha256": _sha256(sample.prompt),
        "response_text": answer.message.text if answer and error is None else None,
        "finish_reason": answer.stop_reason if answer and error is None else None,
        "n_prompt_tokens": usage.input_tokens,
        "n_response_tokens": usage.output_tokens,
        "error": error,
    }


def _verdicts(place: int, sample: _Sample) -> Iterator[dict[str, Any]]:
    for scorer, score in (sample.scores or {}).items():
        # a scorer may give several values by name
        values = score.value if isinstance(score.value, dict) else {"": score.value}
        for name, value in values.items():
            if value is not None:
                yield {
                    "sample": place,
                    "repeat": sample.epoch - 1,
                    "grader_id": f"inspect {scorer}" + (f" {name}" if name else ""),
                    "value": _as_number(value),
                }


def _as_number(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return _MARKS.get(value, value) if isinstance(value, str) else json.dumps(value)


def _open_zip(path: Path) -> tuple[_Header, Iterable[_Sample]]:
    try:
        with zipfile.ZipFile(path) as log:
            entries = {entry.filename: entry for entry in log.infolist()}
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidSource(f"{path}: expected a log of Inspect, found a damaged zip ({error})") from None
    # a log that was not finished has what its start said
    head = entries.get("header.json") or entries.get("_journal/start.json")
    if head is None:
        found = ", ".join(list(entries)[:3]) or "nothing"
        raise InvalidSource(f"{path}: expected a log of Inspect with header.json, found {found}")
    header = _parsed(_Header, _entry(path, head), f"{path}: {head.filename}")
    return header, _samples_in(path, entries)


def _samples_in(path: Path, entries: dict[str, zipfile.ZipInfo]) -> Iterator[_Sample]:
    for name, entry in entries.items():
        if name.startswith("samples/") and name.endswith(".json"):
            yield _parsed(_Sample, _entry(path, entry), f"{path}: {name}")


def _entry(path: Path, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of one entry of a zip."""
    try:
        if entry.compress_type != _ZSTANDARD:
            with zipfile.ZipFile(path) as log:
                return log.read(entry)
        with path.open("rb") as file:
            file.seek(entry.header_offset)
            n_name, n_extra = struct.unpack("<HH", file.read(_ENTRY_HEADER)[_LENGTHS])
            file.seek(n_name + n_extra, 1)
            compressed = file.read(entry.compress_size)
        with pa.CompressedInputStream(pa.BufferReader(compressed), "zstd") as stream:
            content: bytes = stream.read()
        if zlib.crc32(content) != entry.CRC:
            raise zipfile.BadZipFile("its checksum differs")
        return content
    except NotImplementedError:
        raise InvalidSource(
            f"{path}: {entry.filename}: expected an entry that is stored, deflated or compressed with "
            f"Zstandard, found method {entry.compress_type}; `inspect log convert` writes the log as JSON"
        ) from None
    except (zipfile.BadZipFile, OSError, struct.error, zlib.error, pa.ArrowException) as error:
        where = f"{path}: {entry.filename}"
        raise InvalidSource(f"{where}: cannot be read ({error}); fetch the log again") from None


def _open_json(path: Path) -> tuple[_Header, Iterable[_Sample]]:
    n_bytes = path.stat().st_size
    if n_bytes > _MAX_JSON_BYTES:
        raise InvalidSource(
            f"{path}: expected at most {_MAX_JSON_BYTES >> 20} MiB as JSON, found {n_bytes >> 20}; "
            "`inspect log convert --to eval` writes a log that is read sample by sample"
        )
    log = _parsed(_WholeLog, path.read_bytes(), str(path))
    return log, log.samples or ()


_Parsed = Any


def _parsed(kind: type[BaseModel], text: bytes, where: str) -> _Parsed:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(
            f"{where}: expected a log of Inspect, found {place + ': ' if place else ''}{first['msg']}"
        ) from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
