"""The DuckDB file that a build makes: opening it, and turning DuckDB's errors into sentences."""

import re
from pathlib import Path

import duckdb
import psutil

from store.errors import LakeUnusable, NothingToExport, StoreError
from store.settings import Home

# the wording of DuckDB 1.5 and 2.0; dbt indents it and writes its own lines around it
_LOCKED = re.compile(
    r'Could not set lock on file "(?P<path>[^\n]+?)": '
    r"(?:Conflicting lock is held in (?P<program>[^\n]+?) \(PID (?P<pid>\d+)\))?"
)
_OPEN_OTHERWISE = "with a different configuration than existing connections"
_NO_SPACE = re.compile("No space left on device|Disk quota exceeded|max_temp_directory_size")
_NEWER_DATABASE = re.compile(r"Trying to read a database file with version number \d+")
_DAMAGED_DATABASE = re.compile(
    "not a valid DuckDB database file|Corrupt database file|Failure while replaying WAL"
    r'|Could not read enough bytes from file "[^\n]+(?<!\.parquet)":'
)
_DAMAGED_PART = re.compile(
    "No magic bytes found|too small to be a Parquet file|Parquet file is likely corrupted"
    r'|Failed to read (?:Parquet )?file "[^\n]+\.parquet"|Invalid string encoding found in Parquet file'
    "|TProtocolException|invalid TType|don't know what type|Out of buffer|Corrupted file[?]"
    "|Prefetch registered for bytes outside file|Mismatch in parquet read"
    r'|Could not read enough bytes from file "[^\n]+\.parquet":'
)
_PARQUET_FILE = re.compile(r"""[Ff]ile(?:: | ['"])(?P<path>[^\n]+?\.parquet)""")

# staging views name the folder that they were built in; a view's text doubles the quotes of a path
_ROWS_OF = r"(?P<root>{character}+?)/raw/[a-z_]+/run=\*/part-\*\.parquet"
_ROWS_IN_VIEW = re.compile("'" + _ROWS_OF.format(character="(?:[^']|'')") + "'")
_ROWS_ELSEWHERE = re.compile(
    '(?:No files found that match the pattern|Cannot access file) "'
    + _ROWS_OF.format(character=r"[^\n]")
    + '"'
)

_SQLITE = b"SQLite format 3\0"
_MAX_COMMAND_LENGTH = 60


def connect(lake: Home, *, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    """Open the built database, with times shown in UTC.

    Raises
    ------
    NothingToExport
        If nothing is built yet; the file is never created here.
    LakeUnusable
        If another process holds the file, or it is damaged or otherwise cannot be opened.
    """
    if not lake.database.exists():
        raise NothingToExport(f"{lake.database}: nothing is built yet; run `coglake build` first")
    require_duckdb(lake)
    try:
        connection = duckdb.connect(str(lake.database), read_only=read_only)
        # global, because a plain SET would not reach the cursors of this connection
        connection.execute("set global TimeZone = 'UTC'")
        # DuckDB draws it on standard output where Python runs no file, and there a result may be JSON
        connection.execute("set enable_progress_bar = false")
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise explain(error, lake) or LakeUnusable(f"{lake.database}: cannot be opened ({reason})") from error
    return connection


def require_own_rows(connection: duckdb.DuckDBPyConnection, lake: Home) -> None:
    """Make sure that the staging views read the raw rows of this lake, and not of the one it was copied from.

    Raises
    ------
    NothingToExport
        If they read those of another folder.
    """
    views = connection.execute(
        "select sql from duckdb_views() where not internal and schema_name = 'main'"
    ).fetchall()
    for (text,) in views:
        found = _ROWS_IN_VIEW.search(text)
        if found and (moved := _moved(found["root"].replace("''", "'"), lake)):
            raise moved


def require_duckdb(lake: Home) -> None:
    """Make sure that the database, if there is one, is none of SQLite, for which DuckDB fetches an extension.

    Raises
    ------
    LakeUnusable
        If it is.
    """
    if _is_sqlite(lake):
        raise LakeUnusable(_damaged(lake))


def lock_holder(lake: Home) -> str | None:
    """Return the process that holds the database against readers, such as ``python dbt build (PID 12)``."""
    if not lake.database.exists() or _is_sqlite(lake):
        return None
    try:
        duckdb.connect(str(lake.database), read_only=True).close()
    except duckdb.Error as error:
        locked = _LOCKED.search(str(error))
        return _holder(locked) if locked else None
    return None


def explain(error: Exception | str, lake: Home) -> StoreError | None:
    """Turn an error of DuckDB, or its text as dbt repeats it, into one that a user can act on.

    Returns
    -------
    StoreError or None
        None if the error is not about locks, space, damaged files or rows of another lake.
    """
    text = str(error)
    elsewhere = _ROWS_ELSEWHERE.search(text)
    if elsewhere and (moved := _moved(elsewhere["root"], lake)):
        return moved
    message: str | None = None
    if locked := _LOCKED.search(text):
        message = f"{locked['path']}: locked by {_holder(locked)}; wait until it ends, then try again"
    elif _OPEN_OTHERWISE in text:
        message = f"{lake.database}: this process has it open for writing; close that connection first"
    elif _NO_SPACE.search(text):
        message = (
            f"{lake.root}: no space left on the disk; free some and run the same command again: "
            "raw rows are untouched"
        )
    elif _NEWER_DATABASE.search(text):
        message = (
            f"{lake.database}: written by a newer DuckDB than {duckdb.__version__}; install that one, "
            "or delete the file and run `coglake build`: raw rows are untouched"
        )
    elif _DAMAGED_DATABASE.search(text):
        message = _damaged(lake)
    elif _DAMAGED_PART.search(text):
        named = _PARQUET_FILE.search(text)
        message = (
            f"{named['path'] if named else lake.raw}: {'' if named else 'holds '}a damaged parquet file; "
            "`coglake doctor` and `coglake verify` say which and what to do"
        )
    return LakeUnusable(message) if message else None


def _is_sqlite(lake: Home) -> bool:
    try:
        with lake.database.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:  # whoever opens it says why
        return False


def _damaged(lake: Home) -> str:
    return (
        f"{lake.database}: damaged, or not a DuckDB database; delete it and {lake.database.name}.wal "
        "and run `coglake build`: raw rows are untouched"
    )


def _moved(root: str, lake: Home) -> NothingToExport | None:
    """Return what to say of views that read the rows below ``root``; None if that is the lake itself."""
    if Path(root).resolve() == lake.root.resolve():
        return None
    return NothingToExport(
        f"{lake.database}: its views read the raw rows in {root}, so the lake was copied or moved "
        "since it was built; run `coglake build`"
    )


def _holder(locked: re.Match[str]) -> str:
    if locked["pid"] is None:
        return "another process"
    try:
        words = psutil.Process(int(locked["pid"])).cmdline()
    except psutil.Error:  # it has ended, or belongs to another user
        words = []
    # the first words say what runs; later ones may hold a token
    names = [word.rpartition("/")[2] if word.startswith("/") else word for word in words[:3]]
    command = " ".join(" ".join(names).split())[:_MAX_COMMAND_LENGTH] or locked["program"]
    return f"{command} (PID {locked['pid']})"
