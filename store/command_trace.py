"""``coglake trace``: say where a score comes from."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

import duckdb

from store import console
from store.database import connect
from store.formats import Sheet, to_json
from store.privacy import PublicRows, restricted_sources, withheld
from store.settings import home, project_dir
from store.trace import trace
from store.trace_files import RawRows, Row, lines
from store.trace_record import Trace

_MOST_SHOWN = 20
_MOST_RUNS = 4
_LONGEST_CELL = 60
_TITLES = {
    "unscored": "without a score",
    "expectations": "expectations",
    "components": "put together of",
}
_OUTCOMES = ("n_scored", "n_unparsed", "n_error", "n_too_long", "n_missing_option")
# of a run, what a reader asks first; everything else is in the JSON
_OF_RUN = (
    "kind",
    "model_id",
    "model_revision",
    "agent_kind",
    "protocol",
    "engine",
    "engine_version",
    "dtype",
    "seed",
    "repeat",
    "evaluation_id",
    "started_at",
    "finished_at",
    "notes",
)


def run(
    mode: str,
    column: str,
    *,
    metric: str | None = None,
    n_rows: int = 5,
    is_public: bool = False,
    as_json: bool = False,
) -> None:
    """Print the way from a printed score to the bytes that it comes from."""
    con = connect(home())
    try:
        found = trace(con, home(), project_dir(), mode, column, metric=metric, is_nested=as_json)
        pieces = (
            document(con, found, is_public=is_public)
            if as_json
            else page(con, found, n_rows, is_public=is_public)
        )
        for piece in pieces:
            if isinstance(piece, Sheet):
                console.show(piece)
            else:
                console.write(piece)
    finally:
        con.close()


def document(con: duckdb.DuckDBPyConnection, found: Trace, *, is_public: bool) -> Iterator[str]:
    """Yield a trace with all its raw rows as one JSON object; no more than some rows are held at a time."""
    yield from _document(_Shown(con, is_public=is_public), found)


def page(
    con: duckdb.DuckDBPyConnection, found: Trace, n_rows: int, *, is_public: bool
) -> Iterator[str | Sheet]:
    """Yield a trace as texts and tables to read, with the first ``n_rows`` of each raw table."""
    yield from _page(_Shown(con, is_public=is_public), found, n_rows)


class _Shown:
    """What of a trace may be shown: all of it, or what is public."""

    def __init__(self, con: duckdb.DuckDBPyConnection, *, is_public: bool) -> None:
        self.con = con
        self._restricted = restricted_sources(con) if is_public else frozenset[str]()
        self._is_public = is_public
        self._rows = PublicRows(self._restricted)

    def rows(self, rows: RawRows, most: int | None = None) -> Iterator[str]:
        """Yield raw rows as JSON, one a line."""
        return lines(self.con, rows, self._restricted if self._is_public else None, self._rows, most)

    def of(self, found: Trace) -> Row:
        """Return a trace without its rows and nested traces, as plain data."""
        data = {
            each.name: getattr(found, each.name)
            for each in fields(found)
            if each.name not in ("rows", "nested")
        }
        source = self._withheld_source(found)
        if source is None:
            return data
        return data | {
            "reason": None if found.reason is None else withheld(source),
            "unscored": [self._without_reason(row, source) for row in found.unscored],
            "expectations": [
                self._rows.of("items", row, source) | {"first_item_id": None} for row in found.expectations
            ],
            "components": [self._without_reason(row, source) for row in found.components],
            "runs": [self._rows.of("runs", row, row["source_id"]) for row in found.runs],
        }

    def _withheld_source(self, found: Trace) -> str | None:
        """Return a source of the trace that is not public, if there is one and it matters."""
        if not self._is_public:
            return None
        named = {source_id for rows in found.rows for source_id in rows.source_ids}
        named |= {run["source_id"] for run in found.runs}
        hidden = {each for each in named if each is None or each in self._restricted}
        return min((each or "a source that no run names" for each in hidden), default=None)

    def _without_reason(self, row: Mapping[str, object], source: str) -> Row:
        named = {name: self._rows.called(name, value) for name, value in row.items()}
        reasons = {
            name: withheld(source) for name in ("reason", "status_reason") if row.get(name) is not None
        }
        return named | reasons


# ---- JSON, row by row ----


def _document(shown: _Shown, found: Trace) -> Iterator[str]:
    """Yield the trace as one JSON object; rows are one a line and are never held together."""
    yield to_json(shown.of(found)).rstrip().removesuffix("}").rstrip()
    yield ',\n  "rows": {'
    for place, rows in enumerate(found.rows):
        yield f"{',' if place else ''}\n    {json.dumps(rows.raw_table)}: ["
        for number, line in enumerate(shown.rows(rows)):
            yield f"{',' if number else ''}\n      {line}"
        yield "\n    ]"
    yield '\n  },\n  "nested": ['
    for place, each in enumerate(found.nested):
        yield ",\n" if place else "\n"
        yield from _document(shown, each)
    yield "\n  ]\n}\n" if found.nested else "]\n}\n"


# ---- a page to read ----


def _page(shown: _Shown, found: Trace, n_rows: int) -> Iterator[str | Sheet]:
    data = shown.of(found)
    yield from _score(found, data["reason"])
    for title in ("unscored", "expectations", "components"):
        yield from _rows(_TITLES[title], data[title])
    if found.reference is not None:
        yield "\nreference\n"
        yield from _pairs(found.reference)
    for query in found.queries:
        yield f"\nSQL over {query.over}, which gives {_text(query.value)}\n"
        yield "".join(f"    {line}\n" for line in query.sql.splitlines())
    for rows in found.rows:
        first = [json.loads(line) for line in shown.rows(rows, n_rows)]
        yield from _rows(f"{rows.raw_table}: {len(first):,} of {rows.n_rows:,} rows", first, most=n_rows)
    yield from _origin(found, data["runs"])


def _score(found: Trace, reason: str | None) -> Iterator[str]:
    cell = found.cell
    yield f"{cell['label']}, {cell['column_id']}: {cell['printed']}\n"
    yield from _pairs(
        {
            "metric": f"{cell['metric']}, in {cell['unit']}",
            "value": found.value,
            "over what was scored": found.value_scored if found.value is None else None,
            "why it is empty" if found.value is None else "note": reason,
            "what would fill it": found.advice,
        }
    )
    yield "\nformula\n"
    for row in found.formulas:
        yield f"  {row['kind']} {row['name']}: {row['formula']} ({row['source']})\n"
    used = {
        name: value
        for name, value in found.parameters.items()
        if value is not None and _is_named(name, found)
    }
    if used:
        yield f"  with {', '.join(f'{name} = {_text(value)}' for name, value in used.items())}\n"
    yield "\ncounts\n"
    yield from _counts(found)
    yield from _pairs(found.uncertainty)
    if found.versions:
        yield "\nversions\n"
    yield from (f"  {row['of']}: {row['sha256']}\n" for row in found.versions)


def _origin(found: Trace, runs: Sequence[Row]) -> Iterator[str]:
    if found.parts:
        yield f"\nparts: {len(found.parts):,}\n"
    for part in found.parts[:_MOST_SHOWN]:
        yield f"  {part.sha256} {part.n_bytes:>9,} bytes {part.path}\n"
    for row in runs[:_MOST_RUNS]:
        yield f"\nrun {row['run_id']}\n"
        yield from _pairs({name: row[name] for name in _OF_RUN if row[name] not in (None, [])})
    if len(runs) > _MOST_RUNS:
        yield f"\nand {len(runs) - _MOST_RUNS} more runs, which --json has\n"
    for source in found.sources:
        yield f"\nsource {source['source_id']}\n"
        yield from _pairs({name: value for name, value in source.items() if name != "source_id"})


def _is_named(parameter: str, found: Trace) -> bool:
    return parameter in ("readout", "grader_version") or any(
        parameter in row["formula"] for row in found.formulas
    )


def _counts(found: Trace) -> Iterator[str]:
    counts = found.counts
    if not set(_OUTCOMES) <= set(counts):
        yield from _pairs(counts)
        return
    parts = " + ".join(f"{counts[name]:,} {name.removeprefix('n_').replace('_', ' ')}" for name in _OUTCOMES)
    yield f"  {counts['n_planned']:,} planned = {parts}\n"
    if counts.get("n_infinite"):
        yield f"  {counts['n_infinite']:,} of them infinite\n"


def _pairs(values: Mapping[str, object]) -> Iterator[str]:
    yield from (
        f"  {name.replace('_', ' ')}: {_text(value)}\n" for name, value in values.items() if value is not None
    )


def _rows(title: str, rows: Iterable[Mapping[str, object]], most: int = _MOST_SHOWN) -> Iterator[str | Sheet]:
    """Yield a heading and a table of the first rows, without columns that are empty there."""
    held = list(rows)
    if not held:
        return
    shown = held[:most]
    names = dict.fromkeys(name for row in shown for name, value in row.items() if value is not None)
    more = f", the first {len(shown)} of {len(held):,}" if len(shown) < len(held) else ""
    yield f"\n{title}{more}\n"
    yield Sheet(tuple(names), tuple(tuple(_short(row.get(name)) for name in names) for row in shown))


def _short(value: object) -> object:
    if isinstance(value, int | float) or value is None:
        return value
    text = _text(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 3]}..."


def _text(value: object) -> str:
    """Return a value on one line, without what would move a terminal's cursor."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    line = " ".join(str(value).split()) if isinstance(value, str) else str(value)
    return "".join(character if character.isprintable() else "�" for character in line)
