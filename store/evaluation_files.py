"""The files of an evaluation: what ran, what came of it, and proof that nobody changed either.

``run.json`` of a model states what ran and names every other file in its folder by hash, and every part in
the lake that its components stand on. A file that is about to change is taken out of it first, so at any
moment, also after ``kill -9``, what ``run.json`` names is there as it says. ``SHA256SUMS`` covers the whole
folder and is there whenever nothing is being written.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.errors import ChecksumMismatch, InvalidSource, first_line
from store.files import write_whole
from store.formats import to_json
from store.protocol import load_components
from store.schemas import RAW_TABLES
from store.settings import Home

RUN, RESULTS, COMPARISON, RELEASE, SUMS = (
    "run.json",
    "results.json",
    "comparison.json",
    "release.json",
    "SHA256SUMS",
)
ENVIRONMENT, PACKAGES = "environment.json", "pip-freeze.txt"

_SUM = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\n]+)")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]+\.tmp")

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
State = Literal["waiting", "missing", "running", "stopped", "failed", "complete"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ComponentRecord(_Record):
    """What became of one component.

    Attributes
    ----------
    run_id
        Its run in the lake; None if it has none.
    state
        ``waiting`` before it began, ``missing`` if its questions are not in the lake, ``running`` while it is
        asked or if the program was killed, ``stopped`` by the user, ``failed``, or ``complete``.
    reason
        Why it is missing or failed, in one sentence.
    n_planned, n_answered
        Questions that are asked, and rows in the lake that answer questions of this run: more than are asked,
        if it was asked with a larger limit before.
    n_by_status
        How many of these rows have another status than ok.
    parts
        SHA-256 of the parts in the lake, by raw table.
    """

    dataset_id: str
    source_id: str
    is_stand_in: bool
    run_id: str | None = None
    state: State = "waiting"
    reason: str | None = None
    n_planned: Count | None = None
    n_answered: Count | None = None
    n_by_status: dict[str, Count] = {}
    parts: dict[str, list[Sha256]] = {}


class ContextRecord(_Record):
    """Tokens of prompt and response together.

    Attributes
    ----------
    requested_tokens
        As the user asks; 0 is the model's own, at most the protocol's.
    declared_tokens, limit_tokens
        What the model's configuration declares, and the hard limit of its positions; None if there is none.
    effective_tokens
        What the engine accepted.
    is_extension
        Whether that is more than the model declares.
    """

    requested_tokens: Count
    declared_tokens: Count | None = None
    effective_tokens: Count | None = None
    limit_tokens: Count | None = None
    is_extension: bool = False


class RunRecord(_Record):
    """The content of ``run.json``: one model in one evaluation.

    Attributes
    ----------
    revision
        Commit, or ``sha256:`` and the hash of a folder; None if the model could not be found.
    release_id, generation_id
        Of :mod:`store.protocol`.
    evaluation_id, engine_version, engine_settings, dtype
        None or empty until the engine described the model.
    asked_dtype
        As the user asks.
    deviations
        One sentence for each respect in which the protocol was not followed.
    limit
        Questions per component; None for all.
    failure
        Why the model failed as a whole; None if it did not.
    components
        By component.
    files
        SHA-256 by name of the other files in this folder.
    """

    format: Literal[1] = 1
    model: str
    revision: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|sha256:[0-9a-f]{64})$")] | None
    release_id: Sha256
    generation_id: Sha256
    evaluation_id: str | None = None
    engine: str
    engine_version: str | None = None
    engine_settings: dict[str, str] = {}
    asked_dtype: str
    dtype: str | None = None
    context: ContextRecord
    trust_remote_code: bool
    deviations: list[str] = []
    limit: Annotated[int, Field(ge=1)] | None = None
    repeat: Count = 0
    failure: str | None = None
    components: dict[str, ComponentRecord]
    files: dict[str, Sha256] = {}
    started_at: str
    finished_at: str | None = None


# --- writing ---


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as strict JSON, one a line: ASCII alone, null for NaN and for the infinite."""
    return "".join(f"{json.dumps(_finite(row), allow_nan=False)}\n" for row in rows)


def _finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value


class ModelFolder:
    """The folder of one model; ``record`` is what its ``run.json`` says."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    def write(
        self, contents: Mapping[str, str] | None = None, *, without: Collection[str] = (), **changes: object
    ) -> None:
        """Replace files, take others away, and replace fields of ``run.json``."""
        contents = contents or {}
        kept = {
            name: sha256
            for name, sha256 in self.record.files.items()
            if name not in contents and name not in without
        }
        if len(kept) < len(self.record.files):
            self._write_record(files=kept)
        for name in without:
            (self.path / name).unlink(missing_ok=True)
        hashes = {}
        for name, content in contents.items():
            write_whole(self.path / name, content)
            hashes[name] = hashlib.sha256(content.encode()).hexdigest()
        self._write_record(files=dict(sorted((kept | hashes).items())), **changes)

    def write_component(
        self, component_id: str, contents: Mapping[str, str] | None = None, **changes: object
    ) -> None:
        """Replace files in the folder of a component, and fields of its record."""
        named = {f"{component_id}/{name}": content for name, content in (contents or {}).items()}
        records = self.record.components
        self.write(
            named, components=records | {component_id: records[component_id].model_copy(update=changes)}
        )

    def _write_record(self, **changes: object) -> None:
        self.record = self.record.model_copy(update=changes)
        write_whole(self.path / RUN, to_json(self.record.model_dump(mode="json")))


def write_sums(root: Path) -> None:
    """Write ``SHA256SUMS``, in the form of the command of that name, of every file but itself."""
    lines = (f"{_sha256(root / name)}  {name}\n" for name in names_in(root) if name != SUMS)
    write_whole(root / SUMS, "".join(lines))


def begin_writing(root: Path) -> None:
    """Take away ``SHA256SUMS``, which does not hold any more, and what a killed writer left."""
    (root / SUMS).unlink(missing_ok=True)
    for name in names_in(root):
        if _TEMPORARY.fullmatch(Path(name).name):
            (root / name).unlink(missing_ok=True)


# --- reading ---


def names_in(root: Path) -> list[str]:
    """Return the files below a folder, with forward slashes, sorted.

    Raises
    ------
    InvalidSource
        If there is a link that leads out, what is neither file nor folder, or a name of more than one line.
    """
    found = []
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            _require_inside(root, relative, root)
            if not path.is_dir():
                if not path.is_file():
                    raise InvalidSource(
                        f"{root}: expected files and folders, found {relative!r}, which is neither: "
                        "take it away"
                    )
                found.append(relative)
    return sorted(found)


def read_records(root: Path) -> dict[str, RunRecord]:
    """Return what ``run.json`` of each model says, by the name of its folder.

    Raises
    ------
    InvalidSource
        If one is damaged, or names a file outside its folder.
    """
    names_in(root)
    return {path.parent.name: _record(path) for path in sorted(root.glob(f"*/{RUN}"))}


def read_release(root: Path) -> str | None:
    """Return the id of the release whose results a folder holds; None if it holds none.

    Raises
    ------
    InvalidSource
        If ``release.json`` is damaged.
    """
    path = root / RELEASE
    if not path.is_file():
        return None
    found = read_json(path)
    release_id = found.get("release_id") if isinstance(found, dict) else None
    if not isinstance(release_id, str):
        raise InvalidSource(f"{path}: expected an object with a release_id, found none")
    return release_id


def require_unchanged(root: Path, lake: Home) -> None:
    """Hash again every file that ``SHA256SUMS`` or a ``run.json`` names, and the parts in the lake.

    Raises
    ------
    ChecksumMismatch
        If one is gone or has another content; the sentence names it.
    InvalidSource
        If a list is damaged, or names what is outside.
    """
    sums, has_sums = dict(_sums(root)), (root / SUMS).exists()
    for name, sha256 in sums.items():
        _require_sha256(root / name, sha256, f"{SUMS} in {root}")
    records = read_records(root)
    for name in names_in(root):
        # what states the hashes of the others cannot be left out
        if has_sums and Path(name).name in (RELEASE, RUN) and name not in sums:
            raise ChecksumMismatch(
                f"{root / SUMS}: expected a line for {name}, found none: put the file back as it was, or "
                "start anew in another folder"
            )
    for folder, record in records.items():
        for name, sha256 in record.files.items():
            _require_sha256(root / folder / name, sha256, f"{RUN} in {root / folder}")
        for component in record.components.values():
            for path, sha256 in _parts(lake, component):
                _require_sha256(path, sha256, f"{RUN} in {root / folder}")


def _parts(lake: Home, component: ComponentRecord) -> Iterator[tuple[Path, str]]:
    for table, hashes in component.parts.items():
        for sha256 in hashes:
            yield lake.raw / table / f"run={component.run_id}" / f"part-{sha256}.parquet", sha256


def _require_sha256(path: Path, expected: str, where: str) -> None:
    try:
        found = _sha256(path)
    except OSError as error:
        raise ChecksumMismatch(
            f"{path}: expected the file that {where} names, found none that can be read "
            f"({error.strerror}): put it back, or start anew in another folder"
        ) from None
    if found != expected:
        raise ChecksumMismatch(
            f"{path}: expected sha256 {expected[:12]}, as {where} says, found {found[:12]}: "
            "put the file back as it was, or start anew in another folder"
        )


def _sums(root: Path) -> Iterator[tuple[str, str]]:
    path = root / SUMS
    if not path.exists():
        return
    for number, line in enumerate(_text(path).splitlines(), start=1):
        matched = _SUM.fullmatch(line)
        if matched is None:
            raise InvalidSource(f"{path}: line {number}: expected a sha256 and a file, found {line[:80]!r}")
        _require_inside(root, matched["name"], path)
        yield matched["name"], matched["sha256"]


def _record(path: Path) -> RunRecord:
    try:
        record = RunRecord.model_validate(read_json(path))
    except ValidationError as error:
        raise InvalidSource(f"{path}: damaged, or of another version ({first_line(error)})") from None
    if set(record.components) != set(load_components()):
        raise InvalidSource(
            f"{path}: expected the components {', '.join(load_components())}, found "
            f"{', '.join(record.components)[:200]}"
        )
    for name in record.files:
        _require_inside(path.parent, name, path)
    for component in record.components.values():
        names = [*component.parts, component.run_id or ""]
        if set(component.parts) - set(RAW_TABLES) or any("/" in name or name == ".." for name in names):
            raise InvalidSource(f"{path}: expected parts of raw tables, found {', '.join(names)[:200]!r}")
    return record


def _require_inside(folder: Path, name: str, where: Path) -> None:
    """Refuse a name that is not plainly that of something in a folder."""
    is_plain = name.isprintable() and "\\" not in name and not {"", ".", ".."} & set(name.split("/"))
    if not is_plain or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise InvalidSource(
            f"{where}: expected a path that stays in {folder}, found {name[:200]!r}: "
            "start anew in another folder"
        )


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a JSON file.

    Raises
    ------
    InvalidSource
        If there is none, or it is no JSON.
    """
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise InvalidSource(f"{path}: not valid JSON ({first_line(error)})") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSource(f"{path}: cannot be read ({first_line(error)})") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
