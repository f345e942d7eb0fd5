"""What may not be handed on: the raw text of gated and private sources, and of those nobody vouches for.

A source is restricted if its block in ``manifests/sources.toml`` says ``gated`` or ``private``, or if runs of
the lake name it and the manifest does not. What a schedule of this project drew has no upstream and is free.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import duckdb

from store.formats import Sheet
from store.manifest import Source, load_sources

RAW_TEXT: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "items": frozenset({"prompt", "legal_options", "credited_options", "target", "facts_json"}),
        "human_responses": frozenset({"response", "response_number"}),
        "runs": frozenset({"notes", "environment_json"}),
        "batches": frozenset(),
        "prompts": frozenset({"text", "token_ids"}),
        "outputs": frozenset(
            {"response_text", "response_number", "report_low", "report_high", "status_reason"}
        ),
        "output_options": frozenset({"option", "token_ids", "status_reason"}),
        "steps": frozenset(
            {
                "observation",
                "response_text",
                "action",
                "legal_options",
                "credited_options",
                "outcome",
                "hidden_values",
                "status_reason",
            }
        ),
        "verdicts": frozenset({"status_reason"}),
        "fits": frozenset(),
        "published": frozenset(),
    }
)
"""Columns of each raw table that hold what a source says, or what somebody answered to it."""

IDENTITIES: Mapping[str, str] = MappingProxyType(
    {"participant_id": "participant", "episode_id": "episode", "item_id": "item"}
)
"""Columns that may call a person by name, and what a row is numbered as where they do not show."""

# the run of a schedule is what this project drew; its source is the schedule's own name
_NAMED_SOURCES = """
    select distinct
        source_id,
        regexp_extract(source_uri, '^[^@]+') as address,
        kind = 'schedule' as is_drawn_here
    from stg_runs
    where source_id is not null
"""


_SOURCES_OF_RUNS = "select run_id, evaluation_id, source_id from stg_runs where source_id is not null"

# headers of exported tables: whose row it is, and why a value is missing. A metric has the reason of a row;
# what is made of several metrics has counts, and then the reason of the first
_RUNS = frozenset({"run_id", "Evaluation"})
_REASON_OF_A_ROW, _REASON_WITH_COUNTS = "reason", "Withheld because"
_REASONS = frozenset({_REASON_OF_A_ROW, _REASON_WITH_COUNTS})
_QUOTES_AFTER = ", the first "


def restricted_sources(
    con: duckdb.DuckDBPyConnection, sources: Mapping[str, Source] | None = None
) -> frozenset[str]:
    """Return the ids of all sources whose raw text may not be handed on.

    Parameters
    ----------
    con
        Connection to a built lake.
    sources
        Sources by id; by default those of ``manifests/sources.toml``.

    Raises
    ------
    InvalidSource
        If the manifest is not valid.
    """
    sources = load_sources() if sources is None else sources
    restricted = {source.id for source in sources.values() if source.is_restricted}
    # of two upstreams that are read under one id, one may be gated: a file is looked up by its address
    open_addresses = {source.address for source in sources.values() if not source.is_restricted}
    named = con.execute(_NAMED_SOURCES).fetchall()
    drawn_here = {source_id for source_id, _, is_drawn_here in named if is_drawn_here}
    for source_id, address, _ in named:
        is_known = source_id in sources or source_id in drawn_here
        if not is_known or (address and address not in open_addresses):
            restricted.add(source_id)
    return frozenset(restricted)


def withheld(source_id: str | None) -> str:
    """Return what stands in place of the raw text of a restricted source; of None nobody knows the source."""
    return f"withheld: {source_id or 'a source that nothing names'} is not public"


def without_quotes(con: duckdb.DuckDBPyConnection, sheet: Sheet) -> Sheet:
    """Return a table whose reasons quote nothing of restricted sources.

    Why a value is missing is told by its first row without a score, whose reason may say what was answered.
    Of a run of a restricted source that is left out; what comes before it, such as how many rows have a
    score, stays.

    Parameters
    ----------
    con
        Connection to the build that the table is of.
    sheet
        A table with a row per run or evaluation; one without reasons is returned as it is.
    """
    reasons = {place for place, header in enumerate(sheet.headers) if header in _REASONS}
    keys = [place for place, header in enumerate(sheet.headers) if header in _RUNS]
    if not reasons or not keys:
        return sheet
    source_of: dict[object, str] = {}
    restricted = restricted_sources(con)
    for run_id, evaluation_id, source_id in con.execute(_SOURCES_OF_RUNS).fetchall():
        if source_id in restricted:
            source_of |= {run_id: source_id, evaluation_id or run_id: source_id}

    def cleaned(row: tuple[object, ...]) -> tuple[object, ...]:
        source_id = source_of.get(row[keys[0]])
        if source_id is None:
            return row
        return tuple(
            _unquoted(sheet.headers[place], str(cell), source_id)
            if place in reasons and cell is not None
            else cell
            for place, cell in enumerate(row)
        )

    return replace(sheet, rows=tuple(map(cleaned, sheet.rows)))


def _unquoted(header: str, reason: str, source_id: str) -> str:
    if header == _REASON_OF_A_ROW:
        return withheld(source_id)
    counted, quoting, _ = reason.partition(_QUOTES_AFTER)
    return f"{counted}; {withheld(source_id)}" if quoting else reason


class PublicRows:
    """Raw rows as anyone may see them: text of restricted sources is left out, and ids are numbered.

    The same id has the same number in all rows that one object has seen, so rows can still be matched.
    Numbers follow the order of appearance, so rows that come in the order of names are to be shuffled first.
    """

    def __init__(self, restricted: frozenset[str]) -> None:
        self._restricted = restricted
        self._salt = secrets.token_hex(16)
        self._numbers: dict[str, dict[object, str]] = {kind: {} for kind in IDENTITIES.values()}

    def of(self, table: str, row: Mapping[str, object], source_id: str | None) -> dict[str, object]:
        """Return one row of a raw table, whole if its source is public.

        Otherwise its text is null, its ids are such as ``item 3``, and ``withheld`` says why.

        Parameters
        ----------
        table
            Raw table that the columns are of.
        row
            Value by column.
        source_id
            Source of the row: that of its run or of its item; None if nothing says, which is restricted.
        """
        if source_id is not None and source_id not in self._restricted:
            return dict(row)
        shown = {
            name: None if name in RAW_TEXT[table] else self.called(name, value) for name, value in row.items()
        }
        return shown | {"withheld": withheld(source_id)}

    def shuffled(self, query: str) -> str:
        """Return a query over raw rows as JSON in an order that tells nothing of names, alike in every table.

        Steps of an episode and options of an answer stay in their order.
        """
        keys = [f"md5('{self._salt}' || (line ->> '{column}'))" for column in ("item_id", *IDENTITIES)]
        keys += [f"cast(line ->> '{column}' as bigint)" for column in ("step_index", "option_index")]
        return f"select line from ({query}) as shown (line) order by {', '.join(dict.fromkeys(keys))}"

    def called(self, column: str, value: object) -> object:
        """Return what a value of a restricted source is called: numbered if the column may name a person."""
        if column not in IDENTITIES or value is None:
            return value
        kind = IDENTITIES[column]
        numbers = self._numbers[kind]
        return numbers.setdefault(value, f"{kind} {len(numbers) + 1}")
