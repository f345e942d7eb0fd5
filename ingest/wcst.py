"""Card sorting of human participants: a substitute for the data behind the WCST rows, which are not public.

Source: ccaudek/wcst-prl-ts, ``data/processed/interim/raw_data_<sample>.csv``: six blocks of ten trials per
participant, one rule per block. Key cards are numbered 1 to 4 by their number of symbols: a red circle, two
green triangles, three blue crosses, four yellow stars.
"""

import re
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.contract import Imported, RawRows, with_every_column
from ingest.csv_files import csv_fault, csv_header
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.schemas import HUMAN_RESPONSES, ITEMS, RUNS

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

MODE_ID = "wcst_prediction"

# raw_data_project.csv is a selection for another study: 112 of its 115 participants are in these two as well
_TRIALS_FILE = re.compile(r"data/processed/interim/raw_data_(?P<sample>controls|patients)\.csv")

_COLUMNS = (
    "card_shown",
    "correct_card",
    "card_chosen_if_perseveration",
    "trial_in_a_sequence",
    "name_of_task",
    "card_shape",
    "card_number",
    "card_color",
    "rt",
    "is_correct",
    "chosen_card",
    "is_error",
    "is_perseverative_error",
    "is_non_perseverative_error",
    "subj_name",
    "block",
)

_SOURCE = """
create or replace table source as
select row_number() over () as source_row, *
from read_csv(
    $path, columns = $columns, header = true, auto_detect = false,
    delim = ',', quote = '"', escape = '"', strict_mode = true
)
"""

# a flaw is the first thing in a row that cannot be read; what it costs depends on which part has it
_TRIALS = """
create or replace table trials as
with

cells as (

    select
        source_row,
        subj_name as participant_id,
        try_cast(block as integer) as block,
        try_cast(trial_in_a_sequence as integer) as trial_in_block,
        case name_of_task when 'color' then 'colour' when 'shape' then 'form' when 'number' then 'number' end
            as rule,
        [
            case card_color when 'red' then 1 when 'green' then 2 when 'blue' then 3 when 'yellow' then 4 end,
            case card_shape when 'circle' then 1 when 'triangle' then 2 when 'cross' then 3 when 'star' then 4
            end,
            case when card_number in ('1', '2', '3', '4') then cast(card_number as integer) end
        ] as matches,
        correct_card,
        chosen_card,
        is_correct,
        case rule when 'colour' then matches[1] when 'form' then matches[2] when 'number' then matches[3] end
            as right_card
    from source

),

judged as (

    select
        * exclude (right_card),
        case
            when participant_id is null then 'subj_name is empty'
            when not regexp_full_match(participant_id, '[A-Za-z0-9._-]+')
            then 'subj_name is not made of letters, digits and . _ -'
            when block is null then 'block is not a number'
            when trial_in_block is null then 'trial_in_a_sequence is not a number'
        end as place_flaw,
        case
            when rule is null then 'name_of_task is not one of color, shape, number'
            when list_count(matches) < 3 then 'a feature of the card is not known'
            when correct_card is distinct from cast(right_card as varchar)
            then 'correct_card is not the one that the rule matches'
        end as card_flaw,
        case
            -- the file repeats the card of the trial before
            when is_correct = '3' then 'no card was chosen in time'
            when chosen_card is null or chosen_card not in ('1', '2', '3', '4')
            then 'chosen_card is not one of 1, 2, 3, 4'
            when is_correct is null or is_correct not in ('1', '2') then 'is_correct is not one of 1, 2, 3'
            when (is_correct = '1') <> (chosen_card = correct_card) then 'is_correct contradicts chosen_card'
        end as response_flaw
    from cells

)

select
    *,
    row_number() over (
        partition by participant_id, place_flaw is null order by block, trial_in_block, source_row
    ) - 1 as trial
from judged
"""

_NAMES = """
    $run_id || '/' || participant_id || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    1.0 as weight
"""

_ROWS = {
    "items": f"""
        select
            {_NAMES},
            ['1', '2', '3', '4'] as legal_options,
            case when card_flaw is null then [correct_card] end as credited_options,
            to_json({{trial: trial, rule: rule, matches: matches}}) as facts_json
        from trials where place_flaw is null
        order by participant_id, trial
    """,
    "human_responses": f"""
        select {_NAMES}, chosen_card as response
        from trials where place_flaw is null and response_flaw is null
        order by participant_id, trial
    """,
}
_SCHEMAS = {"items": ITEMS, "human_responses": HUMAN_RESPONSES}

_NOTES = """
select
    count(*) || ' rows: ' || coalesce(
        place_flaw || '; left out', card_flaw || '; no card is credited', response_flaw || '; no response'
    ) as note,
    count(*) as n_rows
from trials
where coalesce(place_flaw, card_flaw, response_flaw) is not null
group by place_flaw, card_flaw, response_flaw
order by n_rows desc, note
"""


class CardSortingImporter:
    """Reads the trials of a sample of participants."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of trials; None for any other file of the repository."""
        trials = _TRIALS_FILE.fullmatch(file.path)
        if trials is None:
            return None
        return f"{source.id}-{trials['sample']}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each trial into an item, and into a human response where a card was chosen.

        These tables have no status, so a response that cannot be read is left out, and a note counts it.

        Raises
        ------
        InvalidSource
            If the file is not CSV with the source's columns, or has a trial of a participant twice.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of trials")
        n_rows = _load(self._con, path, where)
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        tables = [
            RawRows(
                table,
                with_every_column(self._con.sql(select, params=names).to_arrow_table(), _SCHEMAS[table]),
            )
            for table, select in _ROWS.items()
        ]
        flaws = self._con.execute(_NOTES).fetchall()
        notes = tuple(note for note, _ in flaws) if n_rows else ("the file holds no trials",)
        n_unreadable = sum(count for _, count in flaws)
        run = {
            "run_id": run_id,
            "kind": "items",
            "model_id": Path(file.path).stem.removeprefix("raw_data_"),
            "agent_kind": "human",
            "planned_modes": [MODE_ID],
            "source_id": source.id,
            "source_uri": where,
            "source_sha256": file.sha256,
            "importer_version": IMPORTER_VERSION,
            "n_source_rows": n_rows,
            "n_unreadable_rows": n_unreadable,
            "notes": notes,
        }
        runs = RawRows("runs", pa.Table.from_pylist([run], schema=RUNS))
        kept = (table for table in tables if table.rows.num_rows)
        return Imported(run_id, (*kept, runs), n_rows, n_unreadable, notes)

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str) -> int:
    """Read the file into ``trials``; return its number of data rows."""
    columns = csv_header(path, where)
    if sorted(columns) != sorted(_COLUMNS):
        missing, unknown = sorted(set(_COLUMNS) - set(columns)), sorted(set(columns) - set(_COLUMNS))
        raise InvalidSource(
            f"{where}: expected the columns {', '.join(_COLUMNS)}, each once; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    try:
        con.execute(_SOURCE, {"path": str(path), "columns": dict.fromkeys(columns, "VARCHAR")})
    except duckdb.Error as error:
        raise InvalidSource(f"{where}: not readable as CSV ({csv_fault(error)})") from error
    con.execute(_TRIALS)
    twice = con.execute(
        "select participant_id, block, trial_in_block from trials where place_flaw is null "
        "group by all having count(*) > 1 order by all"
    ).fetchall()
    if twice:
        participant, block, trial = twice[0]
        raise InvalidSource(
            f"{where}: expected each trial once, found {len(twice)} several times, the first is "
            f"trial {trial} in block {block} of {participant}"
        )
    return int(con.execute("select count(*) from source").fetchall()[0][0])
