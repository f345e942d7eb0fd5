"""``coglake diff``: what differs between two builds, two versions of a rule or two runs."""

from collections.abc import Iterable
from dataclasses import asdict
from textwrap import shorten

import duckdb
import typer

from store import console, diff_items
from store.database import connect
from store.diff import Cell, Difference, compare
from store.diff_items import Item
from store.diff_names import Kind, Named, resolve
from store.formats import Sheet, text, to_json
from store.privacy import restricted_sources
from store.settings import home

_SHORT = 12
_WIDTH = 80
_CELL_HEADERS = ("mode", "metric", "before", "after", "scored before", "scored after", "because")
_ITEM_HEADERS = ("rule", "mode", "episode", "item", "step", "readout", "before", "after", "prompt")


def run(before: str, after: str, *, n_rows: int, is_public: bool, as_json: bool) -> None:
    """Show what differs between ``before`` and ``after``; exit 1 if anything does."""
    con = connect(home())
    try:
        sides = resolve(con, before, after)
        difference = compare(con, *sides)
        restricted = restricted_sources(con) if is_public else None
        diff_items.show(con, None if as_json else n_rows, restricted)
        if as_json:
            for piece in _json(sides, difference, con):
                console.write(piece)
        else:
            _write(sides, difference, diff_items.rows(con), n_rows)
    finally:
        con.close()
    if not difference.is_nothing:
        raise typer.Exit(1)


def _json(
    sides: tuple[Named, Named], difference: Difference, con: duckdb.DuckDBPyConnection
) -> Iterable[str]:
    """Yield one JSON object piece by piece: its items may be more than memory holds."""
    before, after = ({"id": side.id, **side.facts} for side in sides)
    head = {"kind": sides[0].kind, "before": before, "after": after, **asdict(difference)}
    yield to_json(head).removesuffix("\n}\n") + ',\n  "items": ['
    separator = "\n    "
    for item in diff_items.as_json(con):
        yield separator + item
        separator = ",\n    "
    yield "\n  ]\n}\n"


def _write(sides: tuple[Named, Named], difference: Difference, items: list[Item], n_rows: int) -> None:
    console.write(f"{_called(sides[0])} -> {_called(sides[1])}\n")
    gone, added = difference.runs_gone, difference.runs_added
    console.write(
        f"cells: {len(difference.cells):,} moved, {difference.n_cells:,} are on both sides; "
        f"runs: {len(gone):,} gone, {len(added):,} added\n"
    )
    for word, runs in (("gone", gone), ("added", added)):
        for run_id in runs[:n_rows]:
            console.write(f"run {word}: {run_id}\n")
    # of two runs each has its column of answers, and no row is of one of them
    is_of_runs = sides[0].kind is Kind.RUN
    run_header = () if is_of_runs else ("run",)
    if difference.cells:
        console.show(
            Sheet(
                (*run_header, *_CELL_HEADERS),
                tuple(_cell_row(cell, is_of_runs=is_of_runs) for cell in difference.cells),
            )
        )
    console.write(
        f"verdicts: {difference.n_changed:,} changed of {difference.n_verdicts:,} that both sides have; "
        f"{difference.n_only_before:,} only before, {difference.n_only_after:,} only after\n"
    )
    if items:
        responses = ("response before", "response after") if is_of_runs else ("response",)
        headers = (*run_header, *_ITEM_HEADERS, *responses)
        console.show(Sheet(headers, tuple(_item_row(item, is_of_runs=is_of_runs) for item in items)))
    if len(items) < difference.n_changed or max(len(gone), len(added)) > n_rows:
        console.say(
            f"of items and runs the first {n_rows:,} are shown; --rows shows more of them, --json all"
        )
    for note in difference.notes:
        console.say(f"note: {note}")


def _called(side: Named) -> str:
    short = side.id[:_SHORT]
    match side.kind:
        case Kind.BUILD:
            commit = f" at {side.facts['git_sha']}" if side.facts["git_sha"] else ""
            ended = ", a test of which failed" if side.facts["status"] == "failed" else ""
            return f"build {short} of {side.facts['started_at']}{commit}{ended}"
        case Kind.VERSION:
            return f"{side.facts['rule']} {short} ({'current' if side.facts['is_current'] else 'replaced'})"
        case Kind.RUN:
            return f"run {side.id}"


def _value(value: float | None, scored: float | None) -> str:
    """Return a value as text; one over the rows that could be scored is marked."""
    return text(value) if value is not None or scored is None else f"{text(scored)}s"


def _verdict(value: float | None, status: str | None, reason: str | None) -> str:
    if status is None:
        return "no verdict"
    return text(value) if status == "ok" else f"{status}: {reason}" if reason else status


def _cell_row(cell: Cell, *, is_of_runs: bool) -> tuple[object, ...]:
    row = (
        cell.mode_id,
        cell.metric,
        _value(cell.before, cell.before_scored),
        _value(cell.after, cell.after_scored),
        cell.n_before,
        cell.n_after,
        cell.because,
    )
    return row if is_of_runs else (cell.run_id, *row)


def _item_row(item: Item, *, is_of_runs: bool) -> tuple[object, ...]:
    row = (
        item.rule,
        item.mode_id,
        item.episode_id,
        item.item_id,
        item.step_index,
        item.readout,
        _verdict(item.before_value, item.before_status, item.before_reason),
        _verdict(item.after_value, item.after_status, item.after_reason),
        _brief(item.prompt or item.withheld),
    )
    before, after = _brief(item.response_before), _brief(item.response_after)
    return (*row, before, after) if is_of_runs else (item.run_id, *row, after or before)


def _brief(words: str | None) -> str | None:
    return None if words is None else shorten(words, _WIDTH, placeholder=" ...")
