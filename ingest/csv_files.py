"""CSV files of sources: what DuckDB does not say about them in one sentence, and all rows as text."""

import csv
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb

from store.errors import InvalidSource

# R writes its row names under no name at all
UNNAMED = "row_name"

_ROWS = """
create or replace table source as
select row_number() over () as source_row, {columns}
from read_csv(
    $path, columns = $columns, header = true, auto_detect = false,
    delim = $delimiter, quote = '"', escape = '"', strict_mode = true
)
"""


def csv_header(path: Path, where: str, delimiter: str = ",") -> list[str]:
    """Return the column names of a CSV file, without a byte order mark; an empty list for an empty file.

    Parameters
    ----------
    where
        The file as an error names it.

    Raises
    ------
    InvalidSource
        If the file is not UTF-8, its first line is no CSV, or a column appears more than once.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            columns = next(csv.reader(handle, delimiter=delimiter), [])
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{where}: not UTF-8 text at byte {error.start}") from error
    except csv.Error as error:
        raise InvalidSource(f"{where}: no line of column names ({error})") from error
    if repeated := {name for name in columns if columns.count(name) > 1}:
        raise InvalidSource(f"{where}: column {_listed(sorted(repeated))} appears more than once")
    return columns


def read_rows(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    where: str,
    columns: Collection[str],
    *,
    delimiter: str = ",",
    has_others: bool = False,
) -> int:
    """Read a CSV file into the table ``source``; return its number of data rows.

    The table has ``source_row``, from 1, and every column as text, null where a cell is empty: an importer
    judges the rows one by one.

    Parameters
    ----------
    where
        The file as an error names it.
    columns
        Names that the file must have, in any order; ``row_name`` for one without a name.
    has_others
        Whether there may be other columns too, which are not read.

    Raises
    ------
    InvalidSource
        If the file is not UTF-8, not CSV, or has other columns.
    """
    header = csv_header(path, where, delimiter)
    expected = ["" if name == UNNAMED else name for name in columns]
    missing = set(expected) - set(header)
    unknown = set() if has_others else set(header) - set(expected)
    if missing or unknown:
        others = "" if has_others else f"; unknown: {_listed(sorted(unknown))}"
        raise InvalidSource(
            f"{where}: expected the columns {_listed(expected)}, each once; "
            f"missing: {_listed(sorted(missing))}{others}"
        )
    found = [name or UNNAMED for name in header]
    names = {"path": str(path), "columns": dict.fromkeys(found, "VARCHAR"), "delimiter": delimiter}
    try:
        con.execute(_ROWS.format(columns=", ".join(f'"{name}"' for name in columns)), names)
    except duckdb.Error as error:
        raise InvalidSource(f"{where}: not readable as CSV ({csv_fault(error)})") from error
    return int(con.execute("select count(*) from source").fetchall()[0][0])


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(name or "(no name)" for name in columns) or "none"


def csv_fault(error: duckdb.Error) -> str:
    """Return the line and the cause from DuckDB's long CSV message."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    cause = re.search(r"Expected Number of Columns.*|Value with unterminated quote.*|.*not utf-8.*", text)
    found = cause[0].strip().rstrip(".") if cause else text.splitlines()[0]
    found = found.replace("utf-8", "UTF-8")
    return f"line {line[1]}: {found}" if line else found
