"""What is in the lake, and whether its marts are fresh."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from store import database
from store.errors import LakeUnusable, StoreError
from store.freshness import Build, builds, require_fresh
from store.lake import part_paths
from store.schemas import RAW_TABLES
from store.settings import Home


@dataclass(frozen=True, slots=True)
class RawTable:
    """Rows and parts of one raw table."""

    table: str
    n_rows: int
    n_parts: int


@dataclass(frozen=True, slots=True)
class Status:
    """What a lake holds.

    Attributes
    ----------
    runs
        Committed runs by kind.
    last_build
        None if there is none, or the database cannot be opened.
    why_stale
        Why nothing can be exported; None if the marts are fresh.
    """

    lake: str
    tables: tuple[RawTable, ...]
    runs: dict[str, int]
    last_build: Build | None
    why_stale: str | None


def read_status(lake: Home, project: Path) -> Status:
    """Look into ``lake``; a missing, locked or damaged database is part of the answer.

    Raises
    ------
    LakeUnusable
        If a raw part cannot be read.
    """
    last_build, why_stale = _last_build(lake, project)
    with duckdb.connect() as con:
        try:
            tables = tuple(_raw_table(con, lake, table) for table in RAW_TABLES)
            runs = _runs_by_kind(con, lake)
        except duckdb.Error as error:
            raise database.explain(error, lake) or LakeUnusable(f"{lake.raw}: {error}") from error
    return Status(str(lake.root.resolve()), tables, runs, last_build, why_stale)


def _last_build(lake: Home, project: Path) -> tuple[Build | None, str | None]:
    last: Build | None = None
    try:
        con = database.connect(lake)
        try:
            log = builds(con)
            last = log[0] if log else None
            require_fresh(con, lake, project)
        finally:
            con.close()
    except StoreError as error:
        return last, str(error)
    return last, None


def _parts(lake: Home, table: str) -> list[str]:
    """Return the parts that hold rows."""
    return [str(path) for path in part_paths(lake, table) if path.parent.name != "run=_schema"]


def _raw_table(con: duckdb.DuckDBPyConnection, lake: Home, table: str) -> RawTable:
    parts = _parts(lake, table)
    counted = con.execute("select count(*) from read_parquet(?)", [parts]).fetchall() if parts else [(0,)]
    return RawTable(table, counted[0][0], len(parts))


def _runs_by_kind(con: duckdb.DuckDBPyConnection, lake: Home) -> dict[str, int]:
    parts = _parts(lake, "runs")
    query = "select kind, count(*) from read_parquet(?) group by kind order by kind"
    return dict(con.execute(query, [parts]).fetchall()) if parts else {}


def describe(status: Status) -> str:
    """Return the answer as lines for a reader."""
    runs = ", ".join(f"{n} {kind}" for kind, n in status.runs.items())
    build = status.last_build
    lines = [
        f"lake: {status.lake}",
        *(
            f"  {table.table:<16}{table.n_rows:>12,} rows {table.n_parts:>6,} parts"
            for table in status.tables
        ),
        f"runs: {runs or 'none'}",
        f"last build: {f'{build.started_at}, {build.status}' if build else 'none'}",
        f"marts: {'fresh' if status.why_stale is None else f'stale: {status.why_stale}'}",
    ]
    return "".join(f"{line}\n" for line in lines)
