"""One read-only question to the built database."""

import duckdb

from store.database import connect, explain
from store.errors import WrongUsage
from store.formats import Sheet
from store.settings import Home

_READS = "select, with, from, describe, show, summarize or pivot"


def ask(lake: Home, sql: str) -> Sheet:
    """Answer one SQL statement that reads.

    Nothing outside the database and ``raw/`` can be read, and nothing can be written.

    Raises
    ------
    WrongUsage
        If ``sql`` is not one statement that reads, or DuckDB cannot run it.
    NothingToExport
        If nothing is built yet.
    LakeUnusable
        If the lake is locked or damaged.
    """
    con = connect(lake)
    try:
        _lock_down(con, lake)
        result = con.execute(_reading(con, sql))
        return Sheet(tuple(column[0] for column in result.description or ()), tuple(result.fetchall()))
    except duckdb.Error as error:
        raise explain(error, lake) or WrongUsage(str(error)) from error
    finally:
        con.close()


def _lock_down(con: duckdb.DuckDBPyConnection, lake: Home) -> None:
    raw = str(lake.raw.resolve()).replace("'", "''")
    con.execute(f"set allowed_directories = ['{raw}']")
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")


def _reading(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the statement to run if ``sql`` is one that reads.

    A read-only connection is not enough: COPY writes files, and EXPLAIN ANALYZE runs what it explains.
    """
    statements = con.extract_statements(sql)
    kinds = [statement.type for statement in statements]
    if kinds == [duckdb.StatementType.SELECT]:
        return sql
    if kinds == [duckdb.StatementType.MULTI]:
        # a PIVOT that looks up its columns: in brackets, no COPY or CREATE can stand around it
        return f"from (\n{statements[0].query.rstrip().rstrip(';')}\n)"
    found = " and ".join(kind.name.lower() for kind in kinds) or "nothing"
    raise WrongUsage(f"expected one statement that reads ({_READS}), found {found}")
