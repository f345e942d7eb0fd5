"""What the marts hold, as one hash each: of the rows alone, whatever order, threads, time zone or locale.

A cell is its text after the number of its bytes and a colon, or ``~`` for null: doubles in the shortest text
that reads back as the same bits, times in UTC. A row is the sha256 of its cells, in the order of the columns'
names. A mart is the sha256 of a line with its columns and their types and a line for each row, sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

_FOLDERS = ("marts", "audit")
# rows that say when something was built, or what other builds found, with the condition on those that do not
_OF_THE_PAST = {"audit_score_history": None, "score_versions": "is_current"}


@dataclass(frozen=True, slots=True)
class MartHash:
    """Number of rows of a mart, and the hash of what they hold."""

    n_rows: int
    sha256: str


def mart_hashes(con: duckdb.DuckDBPyConnection, project: Path) -> dict[str, MartHash]:
    """Hash every mart and audit table of ``project``, by name.

    ``audit_score_history`` is left out, and of ``score_versions`` the replaced verdicts: they tell what
    earlier builds of this database found. So is ``build_log``, which is no model.

    Parameters
    ----------
    con
        Connection to a full build.
    project
        Folder of the dbt project that built it.
    """
    names = sorted(
        path.stem for folder in _FOLDERS for path in (project / "models_sql" / folder).glob("*.sql")
    )
    return {
        name: relation_hash(con, name, _OF_THE_PAST.get(name))
        for name in names
        if _OF_THE_PAST.get(name, "") is not None
    }


def relation_hash(con: duckdb.DuckDBPyConnection, name: str, condition: str | None = None) -> MartHash:
    """Hash a table or view.

    Parameters
    ----------
    condition
        SQL on the rows that count; None for all.
    """
    relation = _quoted(name)
    columns = sorted(row[:2] for row in con.execute(f"describe {relation}").fetchall())
    heading = ", ".join(f"{column} {kind}" for column, kind in columns)
    n_rows, sha256 = con.execute(
        f"""
        with hashed as (
            select sha256({_row_text(columns)}) as row_sha256
            from {relation}
            where {condition or "true"}
        )
        select count(*), sha256(concat(?, chr(10), string_agg(row_sha256, chr(10) order by row_sha256)))
        from hashed
        """,
        [heading],
    ).fetchall()[0]
    return MartHash(n_rows, sha256)


def _row_text(columns: Sequence[tuple[str, str]]) -> str:
    """Return SQL for the text of a row, from which every cell could be read back."""
    return f"concat({', '.join(_cell_text(_quoted(column), kind) for column, kind in columns)})"


def _cell_text(cell: str, kind: str) -> str:
    if kind.endswith("TIME ZONE"):
        # the session's time zone decides how such a time prints
        cell = f"{cell} at time zone 'UTC'"
    if kind != "VARCHAR":
        cell = f"cast({cell} as varchar)"
    return f"coalesce(strlen({cell}) || ':' || {cell}, '~')"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
