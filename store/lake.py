"""The append-only raw layer: whole parquet parts, named by run and by the hash of their bytes.

A part is written to a temporary file outside every glob, flushed to the disk, and only then renamed to
``raw/<table>/run=<run_id>/part-<sha256>.parquet``. So a reader sees a whole part or none, the same rows
twice are one part, processes may append side by side, and ``kill -9`` leaves at most a temporary file.
A run is committed by one part in ``raw/runs``, so that part alone is written under a lock of the lake.
A model's run grows: its row comes first and names no parts, and every batch is committed by a row in
``raw/batches`` that names the batch's own.
"""

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from store import database
from store.errors import InvalidSource, LakeUnusable, StoreError
from store.schemas import RAW_TABLES
from store.settings import Home

_RUN_ID = re.compile(r"[A-Za-z0-9._@-]{1,200}")
_PART_NAME = re.compile(r"part-[0-9a-f]{64}\.parquet")
# what a build reads of a table, whether it is named as it should be or not
_READ_AS_ROWS = re.compile(r"run=.*|part-.*[.]parquet")
_SCHEMA_RUN = "_schema"
_TEMPORARY = ".tmp"

# beside raw/, in which nothing but parts belongs; the system frees it when its holder dies
_COMMIT_LOCK = "commit.lock"
# a holder writes one row, so only one that is suspended or whose disk hangs takes as long
_LOCK_WAIT_S = 120.0

# DuckDB gives each thread whole row groups, and this is the size of its own
_ROWS_PER_GROUP = 122_880
_N_HASHING_THREADS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """One parquet file of a raw table; ``is_new`` is false if the lake had it already."""

    path: Path
    n_rows: int
    is_new: bool

    @property
    def sha256(self) -> str:
        """Hash of the part's bytes, which is its name."""
        return _sha256_of(self.path)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, and in ``advice`` what to do about it."""

    path: str
    problem: str
    expected: str
    found: str
    advice: str


def append(lake: Home, table: str, rows: pa.Table, run_id: str) -> Part:
    """Add rows to a raw table as one part.

    Columns may come in any order and width (``large_string``, ``int64`` for ``int32``), never in another
    kind: text is not read as a number, nor a number written as text. Floats may be NaN or infinite.

    Raises
    ------
    InvalidSource
        If a column is missing, extra, of another type, or null where the schema says never; or if
        ``run_id`` cannot name a folder.
    LakeUnusable
        If the part cannot be written; nothing is added then.
    """
    _require_run_id(table, run_id)
    return _write_part(lake, table, conform(table, rows), run_id)


def commit(
    lake: Home, run_id: str, tables: Sequence[tuple[str, pa.Table]], runs: pa.Table
) -> tuple[Part, ...]:
    """Add a whole run: its rows, then the row in ``runs`` that names these parts and so commits them.

    All tables are looked at before one is written, so that a run which is refused leaves nothing behind;
    and a part that an interrupted writer left never counts, since no committed run names it.

    A run is committed once. If it was before, or another process that does the same run comes first, its
    row stays as it is and is returned as a part that is not new: two rows of one run, which differ in their
    times, would fail every build.

    Parameters
    ----------
    tables
        Raw table and its rows; ``runs`` is not among them.
    runs
        One row in the schema of ``runs``; its column ``parts`` is filled here.

    Raises
    ------
    InvalidSource, LakeUnusable
        As :func:`append` does; the former also if a row names another run, the latter if the lake cannot be
        locked.
    """
    _require_run_id("runs", run_id)
    conformed = [(table, _conform_of_run(table, rows, run_id)) for table, rows in tables]
    runs = _conform_of_run("runs", runs, run_id)
    parts = [append(lake, table, rows, run_id) for table, rows in conformed]
    return commit_parts(lake, run_id, parts, runs)


def commit_parts(lake: Home, run_id: str, parts: Sequence[Part], runs: pa.Table) -> tuple[Part, ...]:
    """Commit a run whose parts are appended already, as those of a file that is larger than memory.

    Parameters
    ----------
    runs
        One row in the schema of ``runs``; its column ``parts`` is filled here.

    Raises
    ------
    InvalidSource, LakeUnusable
        As :func:`commit` does.
    """
    runs = conform("runs", runs)
    position = runs.schema.get_field_index("parts")
    field = runs.schema.field(position)
    hashes = pa.array([[part.sha256 for part in parts]] * runs.num_rows, type=field.type)
    with _lock(lake, run_id):
        committed = _parts_in(_run_folder(lake, "runs", run_id))
        if committed:
            return (*parts, Part(committed[0], runs.num_rows, is_new=False))
        return (*parts, append(lake, "runs", runs.set_column(position, field, hashes), run_id))


def open_run(lake: Home, runs: pa.Table) -> None:
    """Add the row of a run that grows, once; its rows are committed by :func:`commit_batch`.

    Parameters
    ----------
    runs
        One row in the schema of ``runs``. It states what the run is, not when or where it went on: then two
        lakes in which different workers did parts of one run hold the same part, and are merged by copying.

    Raises
    ------
    InvalidSource, LakeUnusable
        As :func:`append` does; the latter also if the lake cannot be locked.
    """
    run_id = runs["run_id"][0].as_py()
    _require_run_id("runs", run_id)
    with _lock(lake, run_id):
        if not _parts_in(_run_folder(lake, "runs", run_id)):
            append(lake, "runs", runs, run_id)


def commit_batch(
    lake: Home,
    run_id: str,
    tables: Sequence[tuple[str, pa.Table]],
    *,
    n_requests: int,
    environment: Mapping[str, str],
    started_at: datetime,
) -> None:
    """Add rows to a run that grows: all of them or, if the writer dies before the last part, none.

    Parameters
    ----------
    tables
        Raw table and its rows; a table without rows is left out.
    n_requests
        Questions that were put to the model for these rows.
    environment
        Machine, packages and settings that made them.
    started_at
        When the first of the questions was asked, UTC.

    Raises
    ------
    InvalidSource, LakeUnusable
        As :func:`append` does; the former also if a row names another run.
    """
    conformed = [(table, _conform_of_run(table, rows, run_id)) for table, rows in tables if rows.num_rows]
    parts = [append(lake, table, rows, run_id) for table, rows in conformed]
    batch = {
        "run_id": run_id,
        "batch_id": uuid4().hex,
        "parts": [part.sha256 for part in parts],
        "n_requests": n_requests,
        "environment_json": json.dumps(dict(environment), sort_keys=True),
        "started_at": started_at,
        "finished_at": datetime.now(UTC),
    }
    append(lake, "batches", pa.Table.from_pylist([batch], RAW_TABLES["batches"]), run_id)


def batch_parts(lake: Home, run_id: str, table: str) -> list[Path]:
    """Return the parts of one raw table that the batches of a run committed, sorted.

    Raises
    ------
    LakeUnusable
        If a batch cannot be read.
    """
    committed: set[str] = set()
    for path in _parts_in(_run_folder(lake, "batches", run_id)):
        found = _rows_in(path, ["parts"])
        if not found:
            raise LakeUnusable(f"{path}: cannot be read; run `coglake doctor`")
        committed.update(sha256 for row in found for sha256 in row["parts"])
    return run_parts(lake, table, run_id, committed)


def run_parts(lake: Home, table: str, run_id: str, committed: Collection[str] | None) -> list[Path]:
    """Return the parts of one raw table that a run committed, sorted.

    Parameters
    ----------
    committed
        Hashes of the run's parts; None for a run of an older version, which names none: all count.
    """
    parts = _parts_in(_run_folder(lake, table, run_id))
    return [path for path in parts if committed is None or _sha256_of(path) in committed]


def committed_paths(lake: Home, table: str) -> list[Path]:
    """Return the parts of one raw table that a run or a batch names, sorted: no other of them counts.

    Raises
    ------
    LakeUnusable
        If a folder of the lake cannot be listed.
    """
    named = _named_parts(lake)
    return [path for path in part_paths(lake, table) if (_run_id(path.parent), _sha256_of(path)) in named]


@contextmanager
def only_writer(lake: Home, name: str) -> Iterator[None]:
    """Keep a second process from doing the same work at the same time.

    Raises
    ------
    LakeUnusable
        If another process does it.
    """
    path = lake.root / "running" / f"{name}.lock"
    try:
        _make_folder(path.parent)
        with FileLock(path).acquire(timeout=0):
            yield
    except Timeout as error:
        raise LakeUnusable(
            f"{name}: another process is at it; wait until it ends (several may generate at once, each "
            "its own --shard)"
        ) from error


def conform(table: str, rows: pa.Table) -> pa.Table:
    """Return ``rows`` in the schema of a raw table, as :func:`append` writes them.

    Raises
    ------
    InvalidSource
        If there is no such table, or a column is missing, extra, of another type, or null where the schema
        says never.
    """
    if table not in RAW_TABLES:
        raise InvalidSource(f"{table}: expected a raw table ({', '.join(RAW_TABLES)}), found no such table")
    schema = RAW_TABLES[table]
    for name in rows.column_names:
        if name not in schema.names:
            raise InvalidSource(f"{table}: column {name}: expected no such column, found one")
    return pa.Table.from_arrays([_conform_column(table, rows, field) for field in schema], schema=schema)


def ensure_schema_parts(lake: Home) -> None:
    """Give every raw table exactly one part without rows, in its current schema.

    DuckDB refuses a glob that matches no file, so an empty lake could not be built without them.

    Raises
    ------
    LakeUnusable
        If a part cannot be written or an outdated one cannot be removed.
    """
    for table, schema in RAW_TABLES.items():
        folder = _run_folder(lake, table, _SCHEMA_RUN)
        if not _parts_with(schema, folder):
            _write_part(lake, table, schema.empty_table(), _SCHEMA_RUN)
        # every caller keeps the first by name, so two of them never delete each other's
        current = _parts_with(schema, folder)[0]
        for path in _parts_in(folder):
            if path != current:
                _remove(path)


def committed_runs(lake: Home) -> frozenset[str]:
    """Return the ids of the runs that have a part in ``raw/runs``, which is written last."""
    written = {run_id for run_id, folder in _run_folders(lake, "runs") if _parts_in(folder)}
    return frozenset(written - {_SCHEMA_RUN})


def part_paths(lake: Home, table: str | None = None) -> list[Path]:
    """Return the parts of one raw table or of all, sorted, with those that hold no rows."""
    return [
        path
        for name in sorted(RAW_TABLES if table is None else (table,))
        for _, folder in _run_folders(lake, name)
        for path in _parts_in(folder)
    ]


def verify(lake: Home, pinned_sha256: Mapping[str, str]) -> list[Finding]:
    """Hash every part and cached file again, and look for what the committed runs name.

    That is the source of every run under its pin, and every part that the run was committed with.

    Parameters
    ----------
    lake
        The lake; nothing in it is changed.
    pinned_sha256
        SHA-256 by URI of every file that the manifests pin.

    Raises
    ------
    LakeUnusable
        If a folder of the lake cannot be listed.
    """
    fetch_again = "delete the file: `coglake ingest` fetches it again"
    named = [(path, _sha256_of(path), _restore(path)) for path in part_paths(lake)]
    for folder in _entries(lake.cache / "sha256"):
        named += [(path, path.name, fetch_again) for path in _entries(folder)]
    findings = _changed(named)
    for path in part_paths(lake, "runs"):
        findings += _unpinned_sources(path, pinned_sha256)
    return [*findings, *_missing_parts(lake)]


def changed_parts(paths: Sequence[Path]) -> list[Finding]:
    """Hash parts again; one finding for each whose bytes are not those that it is named for."""
    return _changed([(path, _sha256_of(path), _restore(path)) for path in paths])


def require_sound(lake: Home) -> None:
    """Make sure that every part is the one its name says, in the columns of its table.

    A flipped bit is often read as another number, and one part in other columns changes the type of a
    column for the whole table: neither is an error for DuckDB.

    Raises
    ------
    LakeUnusable
        If a part is not, or what lies beside the parts would be read as one; or if a folder of the lake
        cannot be listed.
    """
    findings = [
        *changed_parts(part_paths(lake)),
        *(found for found in _foreign_entries(lake) if _READ_AS_ROWS.fullmatch(Path(found.path).name)),
        *_unreadable_parts(lake),
    ]
    if findings:
        first, *_ = findings
        n_more = len({found.path for found in findings}) - 1
        raise LakeUnusable(
            f"{first.path}: {first.problem} (expected {first.expected}, found {first.found}); {first.advice}"
            + (f"; `coglake doctor` and `coglake verify` name {n_more} more" if n_more else "")
        )


def doctor(lake: Home) -> list[Finding]:
    """Look for what keeps a lake from being written, read or built; nothing is changed.

    Raises
    ------
    LakeUnusable
        If a folder of the lake cannot be listed.
    """
    if not lake.root.is_dir():
        return [
            Finding(
                path=str(lake.root),
                problem="the lake is not there",
                expected="a folder",
                found="a file" if lake.root.exists() else "nothing",
                advice="run `coglake ingest`, or set COGLAKE_HOME to the folder that holds the lake",
            )
        ]
    return [
        *_unwritable_folders(lake),
        *_stray_temporary_files(lake),
        *_foreign_entries(lake),
        *_unreadable_parts(lake),
        *_uncommitted_runs(lake),
        *_runs_committed_twice(lake),
        *_missing_parts(lake),
        *_unusable_database(lake),
    ]


# --- writing ---


def _conform_of_run(table: str, rows: pa.Table, run_id: str) -> pa.Table:
    """Return ``rows`` in the schema of a raw table; each that names a run names this one."""
    conformed = conform(table, rows)
    if "run_id" in conformed.column_names:
        others = [other for other in conformed["run_id"].unique().to_pylist() if other != run_id]
        if others:
            # they would count for a run that never had them
            raise InvalidSource(f"{table}: expected rows of run {run_id}, found some of {others[0]!r}")
    return conformed


def _require_run_id(table: str, run_id: str) -> None:
    if run_id == _SCHEMA_RUN or not _RUN_ID.fullmatch(run_id):
        raise InvalidSource(
            f"{table}: expected a run id of 1 to 200 letters, digits and . _ - @, found {run_id[:200]!r}"
        )


def _lock(lake: Home, run_id: str) -> AbstractContextManager[object]:
    """Wait until no other process commits a run, and keep the others waiting inside ``with``."""
    path = lake.root / _COMMIT_LOCK
    try:
        _make_folder(lake.root)
        return FileLock(path).acquire(timeout=_LOCK_WAIT_S)
    # older versions of filelock say NotImplementedError where the file system has no locks
    except (OSError, NotImplementedError) as error:
        if isinstance(error, Timeout):
            reason = f"another process has held it for {_LOCK_WAIT_S:.0f} s"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        raise LakeUnusable(
            f"{path}: cannot be locked to commit run {run_id} ({reason}): "
            "remove the cause and run the same command again"
        ) from error


def _conform_column(table: str, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    def refusal(found: str) -> InvalidSource:
        nulls = "" if field.nullable else " without nulls"
        return InvalidSource(f"{table}: column {field.name}: expected {field.type}{nulls}, found {found}")

    n_columns = rows.column_names.count(field.name)
    if n_columns != 1:
        raise refusal("no such column" if n_columns == 0 else f"{n_columns} columns of that name")
    column = rows.column(field.name)
    if not _is_same_kind(column.type, field.type):
        raise refusal(str(column.type))
    try:
        cast = column.cast(field.type)
        # one text that is not UTF-8 would make the whole table unreadable, and parts are never edited
        cast.validate(full=True)
    except pa.ArrowException as error:
        raise refusal(f"{column.type} with a value that does not fit: {error}") from error
    if cast.null_count and not field.nullable:
        raise refusal(f"{cast.null_count} nulls in {len(cast)} rows")
    return cast


def _is_same_kind(found: pa.DataType, expected: pa.DataType) -> bool:
    """Tell whether a cast changes the width of a value at most, never its meaning."""
    types = pa.types
    if types.is_dictionary(found):
        return _is_same_kind(found.value_type, expected)
    if types.is_list(expected) and (types.is_list(found) or types.is_large_list(found)):
        return _is_same_kind(found.value_type, expected.value_type)
    return bool(
        found == expected
        or types.is_null(found)
        or (types.is_string(expected) and (types.is_large_string(found) or types.is_string_view(found)))
        or (types.is_integer(expected) and types.is_integer(found))
        or (types.is_floating(expected) and (types.is_floating(found) or types.is_integer(found)))
        # a time without a zone could mean any
        or (types.is_timestamp(expected) and types.is_timestamp(found) and found.tz is not None)
    )


def _write_part(lake: Home, table: str, rows: pa.Table, run_id: str) -> Part:
    folder = _run_folder(lake, table, run_id)
    temporary = lake.raw / _TEMPORARY / f"{table}-{uuid4().hex}.parquet.tmp"
    outcome = "nothing was added"
    try:
        _make_folder(temporary.parent)
        sha256 = _write_file(temporary, rows)
        _make_folder(folder)
        path = folder / f"part-{sha256}.parquet"
        is_new = not path.exists()
        if is_new:
            temporary.rename(path)
        outcome = "the part is in place but may not outlast a power cut"
        _flush_folder(folder)
    except OSError as error:
        raise LakeUnusable(
            f"{folder}: cannot write {temporary.name} ({error.strerror or error}); {outcome}: "
            "remove the cause and run the same command again"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return Part(path, rows.num_rows, is_new)


def _write_file(path: Path, rows: pa.Table) -> str:
    """Write rows to a new file, flush it to the disk and return the SHA-256 of its bytes."""
    with path.open("x+b") as file:
        with pq.ParquetWriter(file, rows.schema, compression="zstd", compression_level=3) as writer:
            for start in range(0, rows.num_rows, _ROWS_PER_GROUP):
                # page borders follow the chunks in memory: with one chunk, equal rows are equal bytes
                writer.write_table(rows.slice(start, _ROWS_PER_GROUP).combine_chunks())
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents so that their names outlast a power cut."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some network and FUSE file systems cannot flush a folder
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise LakeUnusable(f"{path}: an outdated empty part cannot be removed ({error.strerror})") from error


# --- layout ---


def _run_folder(lake: Home, table: str, run_id: str) -> Path:
    return lake.raw / table / f"run={run_id}"


def _run_folders(lake: Home, table: str) -> Iterator[tuple[str, Path]]:
    for folder in _entries(lake.raw / table):
        if _is_run_folder(folder):
            yield _run_id(folder), folder


def _is_run_folder(folder: Path) -> bool:
    return folder.name.startswith("run=") and bool(_RUN_ID.fullmatch(_run_id(folder))) and folder.is_dir()


def _run_id(folder: Path) -> str:
    return folder.name.removeprefix("run=")


def _sha256_of(part: Path) -> str:
    return part.stem.removeprefix("part-")


def _parts_in(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if _PART_NAME.fullmatch(path.name)]


def _parts_with(schema: pa.Schema, folder: Path) -> list[Path]:
    """Return the readable parts of a folder that have exactly this schema, sorted."""
    parts = []
    for path in _parts_in(folder):
        with suppress(pa.ArrowException, OSError):
            if pq.read_schema(path).equals(schema):
                parts.append(path)
    return parts


def _entries(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted; nothing if there is no such folder."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LakeUnusable(f"{folder}: cannot be listed ({error.strerror}); make it readable") from error


# --- checking ---


def _changed(named: Sequence[tuple[Path, str, str]]) -> list[Finding]:
    """Hash files again; each stands beside the hash that it is named for, and what to do if it is another."""
    with ThreadPoolExecutor(_N_HASHING_THREADS) as pool:
        hashes = list(pool.map(_hash, (path for path, _, _ in named)))
    return [
        Finding(
            path=str(path),
            problem="the content is not the one the file is named for",
            expected=f"sha256 {sha256}",
            found=found,
            advice=advice,
        )
        for (path, sha256, advice), found in zip(named, hashes, strict=True)
        if found != f"sha256 {sha256}"
    ]


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        return f"no readable file ({error.strerror})"


def _restore(part: Path) -> str:
    run_id = _run_id(part.parent)
    if run_id == _SCHEMA_RUN:
        return "delete the file: it holds no rows, and the next import or build writes it again"
    return (
        f"restore the file from a copy, or delete the folders raw/*/run={run_id} "
        "and import or generate that run again"
    )


def _rows_in(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of a part; none if it is damaged or of another version."""
    try:
        # ParquetFile, because read_table would make a column of the folder name
        with pq.ParquetFile(path) as file:
            if not _is_readable_as(RAW_TABLES[path.parent.parent.name], file.schema_arrow):
                return []
            rows: list[dict[str, Any]] = file.read(columns=list(columns)).to_pylist()
    # a damaged text is a UnicodeDecodeError
    except (pa.ArrowException, OSError, ValueError):
        return []  # a finding already
    return [dict.fromkeys(columns) | row for row in rows]


def _unpinned_sources(path: Path, pinned_sha256: Mapping[str, str]) -> Iterator[Finding]:
    runs = _rows_in(path, ["run_id", "source_uri", "source_sha256"])
    for run in runs:
        uri, sha256 = run["source_uri"], run["source_sha256"]
        pin = pinned_sha256.get(uri)
        if uri is not None and (pin is None or pin != sha256):
            yield Finding(
                path=str(path),
                problem=f"run {run['run_id']} comes from {uri}, whose pin is another or gone",
                expected=f"sha256 {pin}" if pin else "a pin of it in the manifests",
                found=f"sha256 {sha256}" if pin else "none",
                advice=f"restore the pin, or delete the folders raw/*/run={run['run_id']} "
                "and run `coglake ingest`",
            )


def _unwritable_folders(lake: Home) -> Iterator[Finding]:
    for folder in (lake.root, lake.raw):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            yield Finding(
                path=str(folder),
                problem="the folder cannot be written to",
                expected="write permission on a writable disk",
                found=f"mode {folder.stat().st_mode & 0o7777:o}",
                advice="make it writable for this user, or set COGLAKE_HOME to another folder",
            )


def _stray_temporary_files(lake: Home) -> Iterator[Finding]:
    exported = (
        path for path in _entries(lake.exports) if path.name.startswith(".") and path.suffix == ".tmp"
    )
    # where DuckDB puts what does not fit into memory
    spilled = _entries(lake.database.with_name(f"{lake.database.name}.tmp"))
    for path in (
        *_entries(lake.raw / _TEMPORARY),
        *_entries(lake.cache / _TEMPORARY),
        *exported,
        *spilled,
    ):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # its writer finished in between
        minutes = max(0.0, time.time() - status.st_mtime) / 60
        yield Finding(
            path=str(path),
            problem="a command was stopped and left this temporary file, or is writing it now",
            expected="no file while nothing is written or fetched",
            found=f"{status.st_size} bytes, last written {minutes:.0f} min ago",
            advice="delete it once no command is running: it never became part of the lake",
        )


def _foreign_entries(lake: Home) -> Iterator[Finding]:
    for table in _entries(lake.raw):
        if table.name == _TEMPORARY:
            continue
        if table.name not in RAW_TABLES or not table.is_dir():
            yield _foreign(table, f"one of the folders {', '.join(RAW_TABLES)}")
            continue
        for folder in _entries(table):
            if not _is_run_folder(folder):
                yield _foreign(folder, "a folder run=<run id>")
                continue
            for path in _entries(folder):
                if not _PART_NAME.fullmatch(path.name):
                    yield _foreign(path, "a file part-<sha256>.parquet")


def _foreign(path: Path, expected: str) -> Finding:
    return Finding(
        path=str(path),
        problem="this does not belong to the lake, and a build may read it as rows",
        expected=expected,
        found=path.name,
        advice="move it out of raw/",
    )


def _unreadable_parts(lake: Home) -> Iterator[Finding]:
    for table, schema in RAW_TABLES.items():
        for path in part_paths(lake, table):
            try:
                found = pq.read_schema(path)
            except (pa.ArrowException, OSError) as error:
                yield Finding(
                    path=str(path),
                    problem="the part is damaged, so the whole table cannot be read",
                    expected="a whole parquet file",
                    found=" ".join(str(error).split()),
                    advice=_restore(path),
                )
                continue
            if not _is_readable_as(schema, found):
                yield Finding(
                    path=str(path),
                    problem=f"the columns are not those of {table}; another version of coglake wrote them",
                    expected=_difference(schema, found),
                    found=_difference(found, schema),
                    advice=_restore(path),
                )


def _is_readable_as(schema: pa.Schema, found: pa.Schema) -> bool:
    """Tell whether a part has the columns of a table; an older part may lack some that can be null."""
    lacking = [field for field in schema if field.name not in found.names]
    return all(field.nullable for field in lacking) and found.equals(
        pa.schema([field for field in schema if field not in lacking])
    )


def _difference(schema: pa.Schema, other: pa.Schema) -> str:
    """Name the fields of one schema that the other does not have."""
    others = list(other)
    fields = [
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"
        for field in schema
        if field not in others
    ]
    return ", ".join(fields) or "nothing else, or another order"


def _uncommitted_runs(lake: Home) -> Iterator[Finding]:
    tables: dict[str, list[str]] = {}
    for table in RAW_TABLES:
        for run_id, folder in _run_folders(lake, table):
            if _parts_in(folder):
                tables.setdefault(run_id, []).append(table)
    for run_id, names in sorted(tables.items()):
        if "runs" not in names and run_id != _SCHEMA_RUN:
            yield Finding(
                path=str(_run_folder(lake, names[0], run_id)),
                problem=f"run {run_id} has rows in {', '.join(names)} but was never finished",
                expected="a part in raw/runs, which is written last",
                found="none",
                advice="import or generate it again: it resumes where it stopped",
            )


def _runs_committed_twice(lake: Home) -> Iterator[Finding]:
    for run_id, folder in _run_folders(lake, "runs"):
        n_parts = len(_parts_in(folder))
        if n_parts > 1 and run_id != _SCHEMA_RUN:
            yield Finding(
                path=str(folder),
                problem=f"run {run_id} is committed twice, which fails every build",
                expected="one part",
                found=f"{n_parts} parts",
                advice="keep one of these parts and move the others out of raw/, or delete the folders "
                f"raw/*/run={run_id} and generate or import that run again",
            )


def _named_parts(lake: Home) -> set[tuple[str, str]]:
    """Return run and hash of every part that a run or, of a run that grows, a batch names."""
    return {
        (run["run_id"], sha256)
        for table in ("runs", "batches")
        for path in part_paths(lake, table)
        for run in _rows_in(path, ["run_id", "parts"])
        for sha256 in run["parts"] or ()
    }


def _missing_parts(lake: Home) -> Iterator[Finding]:
    # a run is written last: read first, it names no part that its writer has still to write
    named = _named_parts(lake)
    present = {(_run_id(path.parent), _sha256_of(path)) for path in part_paths(lake)}
    for run_id, sha256 in sorted(named - present):
        # a run does not say of which table its parts are
        path = lake.raw / "*" / f"run={run_id}" / f"part-{sha256}.parquet"
        yield Finding(
            path=str(path),
            problem=f"run {run_id} was committed with this part, and it is gone",
            expected=f"sha256 {sha256}",
            found="no such file",
            advice=_restore(path),
        )


def _unusable_database(lake: Home) -> Iterator[Finding]:
    holder = database.lock_holder(lake)
    if holder is not None:
        yield Finding(
            path=str(lake.database),
            problem="the database is locked",
            expected="no other process that has it open for writing",
            found=holder,
            advice="wait until that process ends, or end it",
        )
    elif lake.database.exists():
        try:
            database.connect(lake).close()
        except StoreError as error:
            yield Finding(
                path=str(lake.database),
                problem="the database cannot be opened",
                expected="a DuckDB database",
                found=str(error),
                advice="do as that sentence says; raw rows are untouched",
            )
