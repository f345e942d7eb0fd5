"""What a trace says: a score with everything that it was made of."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from store.errors import CheckFailed
from store.trace_files import Part, RawRows, Row, asked
from store.trace_sql import Raw, quoted

COUNTS = (
    "n_planned",
    "n_scored",
    "n_unparsed",
    "n_error",
    "n_too_long",
    "n_missing_option",
    "n_infinite",
)
UNCERTAINTY = (
    "cluster",
    "n_clusters",
    "se",
    "ci_low",
    "ci_high",
    "se_reason",
    "value_count_as_wrong",
    "count_as_wrong_reason",
)

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Query:
    """SQL that gives the value again.

    Attributes
    ----------
    over
        What it reads: the verdicts of the build, or raw rows.
    value
        What it gave just now; infinite where a probability of 0 is part of it.
    """

    over: str
    sql: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One score, from the printed cell to the bytes that it was read from.

    Attributes
    ----------
    cell
        Which score it is, and how it is printed.
    value
        The value; None if the cell has none, which ``reason`` explains.
    value_scored
        What the rows with a score give alone.
    advice
        What would fill an empty cell; None if it has a value.
    formulas
        Rows of ``manifests/formulas.csv`` that make it.
    parameters
        The manifest row that the formulas read.
    counts, uncertainty
        Denominators, and how sure the value is, as the mart has them.
    versions
        Hashes of the SQL that scored, by what it made.
    unscored
        Rows without a score by status and reason, the most frequent first.
    expectations
        Of an exact expectation, one row per kind of item.
    components
        Of what is put together, the scores that it is put together of.
    nested
        The same as traces of their own, where they were asked for.
    reference
        Of a reference, what the manifest says of it and of what it may have seen.
    """

    cell: Row
    value: float | None
    value_scored: float | None
    reason: str | None
    advice: str | None
    formulas: tuple[Row, ...]
    parameters: Row
    counts: Row
    uncertainty: Row
    versions: tuple[Row, ...]
    unscored: tuple[Row, ...] = ()
    queries: tuple[Query, ...] = ()
    expectations: tuple[Row, ...] = ()
    components: tuple[Row, ...] = ()
    nested: tuple["Trace", ...] = ()
    reference: Row | None = None
    rows: tuple[RawRows, ...] = ()
    parts: tuple[Part, ...] = ()
    runs: tuple[Row, ...] = ()
    sources: tuple[Row, ...] = ()


def formulas(con: duckdb.DuckDBPyConnection, *named: tuple[str, str | None]) -> tuple[Row, ...]:
    """Return the formulas of some kinds and names, in that order."""
    known = {(row["kind"], row["name"]): row for row in asked(con, "select * from formulas")}
    return tuple(known[kind, name] for kind, name in named if name is not None)


def chosen(row: Mapping[str, object], names: Iterable[str]) -> Row:
    """Return those of some columns that a mart has."""
    return {name: row[name] for name in names if name in row}


def versions(con: duckdb.DuckDBPyConnection, what: str, table: str, **equal: str) -> list[Row]:
    """Return the hashes of the SQL that made those rows of a table whose columns are equal to some texts."""
    return [
        {"of": what, "sha256": row["scorer_sha"]}
        for row in asked(
            con,
            f"select distinct scorer_sha from {table} where {_all_equal(equal)} and scorer_sha is not null "
            "order by scorer_sha",
        )
    ]


def unscored(con: duckdb.DuckDBPyConnection, table: str, **equal: str) -> tuple[Row, ...]:
    """Return how many of those rows of a table have no score, by status and reason."""
    return tuple(
        asked(
            con,
            f"""
            select status, status_reason, count(*) as n
            from {table}
            where {_all_equal(equal)} and status <> 'ok'
            group by status, status_reason
            order by n desc, status, status_reason
            """,
        )
    )


def _all_equal(equal: Mapping[str, str]) -> str:
    return " and ".join(f"{column} = {quoted(value)}" for column, value in equal.items())


def checked(
    con: duckdb.DuckDBPyConnection, over: str, sql: str, expected: float | None, raw: Raw | None = None
) -> Query:
    """Run a query that must give a value again, over the files of ``raw`` alone if that is there.

    Raises
    ------
    CheckFailed
        If it gives another one.
    """
    found = con.execute(raw.over_files(f"select * from (\n{sql}\n)") if raw else sql).fetchall()[0][0]
    value = None if found is None else float(found)
    is_same = (
        value == expected
        if value is None or expected is None or math.isinf(expected)
        else math.isclose(value, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    )
    if not is_same:
        raise CheckFailed(
            f"the SQL over {over} gives {value} and the mart holds {expected}; "
            "run `coglake build --full-refresh`, and if they still differ report it with this command"
        )
    return Query(over, sql, value)
