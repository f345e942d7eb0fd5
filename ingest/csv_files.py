"""CSV files of sources: what DuckDB does not say about them in one sentence."""

import csv
import re
from pathlib import Path

import duckdb

from store.errors import InvalidSource


def csv_header(path: Path, where: str) -> list[str]:
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
            columns = next(csv.reader(handle), [])
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{where}: not UTF-8 text at byte {error.start}") from error
    except csv.Error as error:
        raise InvalidSource(f"{where}: no line of column names ({error})") from error
    if repeated := {name for name in columns if columns.count(name) > 1}:
        raise InvalidSource(f"{where}: column {', '.join(sorted(repeated))} appears more than once")
    return columns


def csv_fault(error: duckdb.Error) -> str:
    """Return the line and the cause from DuckDB's long CSV message."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    cause = re.search(r"Expected Number of Columns.*|Value with unterminated quote.*|.*not utf-8.*", text)
    found = cause[0].strip().rstrip(".") if cause else text.splitlines()[0]
    found = found.replace("utf-8", "UTF-8")
    return f"line {line[1]}: {found}" if line else found
