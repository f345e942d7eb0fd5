"""CSV files of human responses: all rows as text, for an importer to judge one by one."""

from collections.abc import Collection
from pathlib import Path

import duckdb

from ingest.csv_files import csv_fault, csv_header
from store.errors import InvalidSource

_ROWS = """
create or replace table source as
select row_number() over () as source_row, *
from read_csv(
    $path, columns = $columns, header = true, auto_detect = false,
    delim = ',', quote = '"', escape = '"', strict_mode = true
)
"""

# R writes its row names under no name at all
UNNAMED = "row_name"


def read_rows(con: duckdb.DuckDBPyConnection, path: Path, where: str, columns: Collection[str]) -> int:
    """Read a CSV file into the table ``source``; return its number of data rows.

    The table has ``source_row``, from 1, and every column as text, null where a cell is empty.

    Parameters
    ----------
    where
        The file as an error names it.
    columns
        Names that the file must have, in any order, and no others; ``row_name`` for one without a name.

    Raises
    ------
    InvalidSource
        If the file is not UTF-8, not CSV, or has other columns.
    """
    found = [name or UNNAMED for name in csv_header(path, where)]
    if sorted(found) != sorted(columns):
        missing, unknown = sorted(set(columns) - set(found)), sorted(set(found) - set(columns))
        raise InvalidSource(
            f"{where}: expected the columns {', '.join(columns)}, each once; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    try:
        con.execute(_ROWS, {"path": str(path), "columns": dict.fromkeys(found, "VARCHAR")})
    except duckdb.Error as error:
        raise InvalidSource(f"{where}: not readable as CSV ({csv_fault(error)})") from error
    return int(con.execute("select count(*) from source").fetchall()[0][0])
