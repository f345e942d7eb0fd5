"""Every metric for readers outside the store."""

import math
from collections.abc import Mapping

import duckdb

from store.errors import CheckFailed
from store.formats import Sheet, text
from store.uncertainty import Uncertainty, groups

_MIXED_RULES = """
    select mode_id, metric, string_agg(distinct scorer_sha, ', ' order by scorer_sha)
    from metrics
    group by mode_id, metric
    having count(distinct scorer_sha) > 1
    order by mode_id, metric
"""
_ERRORS = {Uncertainty.SE: ("se",), Uncertainty.CI: ("ci_low", "ci_high")}
# what a metric comes to over the rows that could be scored
_OF_SCORED_ROWS = ("value_scored", "se", "ci_low", "ci_high")


def export_metrics(
    con: duckdb.DuckDBPyConnection, allow_partial: bool = False, beside: Uncertainty | None = None
) -> Sheet:
    """Return every metric of every run and mode; an infinite value reads ``+∞`` in every form.

    Parameters
    ----------
    con
        Connection to a fresh build.
    allow_partial
        Also show what an incomplete metric comes to over the rows that could be scored, and its error, each
        with an ``s`` after it.
    beside
        What stands right after ``value_scored``, whose error it is, under a name that says so.

    Raises
    ------
    CheckFailed
        If one metric of a mode was computed by two versions of its rule.
    """
    if mixed := con.execute(_MIXED_RULES).fetchall():
        mode_id, metric, hashes = mixed[0]
        raise CheckFailed(
            f"{mode_id}: expected one version of the rule of {metric}, found {hashes}; run `coglake build`"
        )
    result = con.execute("select * from metrics order by all")
    names = [column[0] for column in result.description or ()]
    found = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    errors = _ERRORS[beside] if beside else ()
    headers = {name: name for name in names if name not in errors}
    if beside:
        place = list(headers).index("value_scored") + 1
        before, after = list(headers.items())[:place], list(headers.items())[place:]
        headers = dict([*before, *zip(errors, beside.headers("value_scored"), strict=True), *after])
    n_withheld = sum(_is_partial(row) for row in found) if not allow_partial else 0
    note = f"partial values withheld: {n_withheld}; --allow-partial shows what could be scored, marked s"
    return Sheet(
        tuple(headers.values()),
        tuple(tuple(_cell(row, name, allow_partial=allow_partial) for name in headers) for row in found),
        printed=frozenset(place for place, name in enumerate(headers) if name in _OF_SCORED_ROWS),
        notes=(note,) if n_withheld else (),
        beside=groups([list(headers).index("value_scored")], 1 + len(errors)) if errors else (),
    )


def _is_partial(row: Mapping[str, object]) -> bool:
    return row["value"] is None and row["value_scored"] is not None


def _cell(row: Mapping[str, object], name: str, *, allow_partial: bool) -> object:
    value = row[name]
    if name in _OF_SCORED_ROWS and _is_partial(row) and value is not None:
        return f"{text(value)}s" if allow_partial else None
    return text(value) if isinstance(value, float) and math.isinf(value) else value
