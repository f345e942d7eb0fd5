"""Card sorting of human participants: a substitute for the data behind the WCST rows, which are not public.

Source: ccaudek/wcst-prl-ts, ``data/processed/interim/raw_data_<sample>.csv``: six blocks of ten trials per
participant, one rule per block. Key cards are numbered 1 to 4 by their number of symbols: a red circle, two
green triangles, three blue crosses, four yellow stars.

Every fifth participant of a sample, in the order of their ids, is in the test: 68 of 334, about as many as
the 75 of the published row, and of controls and patients the same share. The others are learned from.
"""

import re
from functools import cached_property
from pathlib import Path

import duckdb

from ingest.contract import Imported
from ingest.csv_files import read_rows
from ingest.questions import imported
from ingest.rows import whole_number, without_response
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 2

MODE_ID = "wcst_prediction_prl"

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

# a flaw is the first thing in a row that cannot be read; what it costs depends on which part has it
_TRIALS = f"""
create or replace table trials as
with

cells as (

    select
        source_row,
        subj_name as participant_id,
        {whole_number("block")} as block,
        {whole_number("trial_in_a_sequence")} as trial_in_block,
        case name_of_task when 'color' then 'colour' when 'shape' then 'form' when 'number' then 'number' end
            as rule,
        [
            case card_color when 'red' then 1 when 'green' then 2 when 'blue' then 3 when 'yellow' then 4 end,
            case card_shape when 'circle' then 1 when 'triangle' then 2 when 'cross' then 3 when 'star' then 4
            end,
            case when card_number in ('1', '2', '3', '4') then cast(card_number as integer) end
        ] as matches,
        case
            when list_count(matches) = 3
            then ['one', 'two', 'three', 'four'][matches[3]] || ' ' || card_color || ' ' || card_shape
                || case when matches[3] = 1 then '' when card_shape = 'cross' then 'es' else 's' end
        end as card,
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
            when block is null then 'block is not a whole number'
            when trial_in_block is null then 'trial_in_a_sequence is not a whole number'
        end as place_flaw,
        case
            when card is null then 'a feature of the card is not known; left out'
            when rule is null then 'name_of_task is not one of color, shape, number; no card is credited'
            when correct_card is distinct from cast(right_card as varchar)
            then 'correct_card is not the one that the rule matches; no card is credited'
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

_SPLITS = """
create or replace table splits as
with participants as (
    select participant_id, count(*) filter (where card is not null and response_flaw is null) as n_responses
    from trials
    where place_flaw is null
    group by participant_id
)
select
    participant_id,
    case
        when n_responses > 0
            and row_number() over (partition by n_responses > 0 order by participant_id) % 5 = 1
        then 'test'
        else 'train'
    end as split
from participants
"""

_NAMES = """
    $run_id || '/' || participant_id || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    split,
    1.0 as weight
"""

_RESPONSES = f"""
select {_NAMES}, chosen_card as response
from trials
inner join splits using (participant_id)
where place_flaw is null and card is not null and response_flaw is null
order by participant_id, trial
"""

_PARTICIPANTS = """
select participant_id from trials where regexp_full_match(participant_id, '[A-Za-z0-9._-]+')
"""

_FLAWS = """
select
    coalesce(
        place_flaw || '; left out',
        card_flaw || coalesce(', and ' || response_flaw || '; no response', ''),
        response_flaw || '; no response'
    ) as flaw,
    count(*) as n_rows
from trials
where coalesce(place_flaw, card_flaw, response_flaw) is not null
group by flaw
order by n_rows desc, flaw
"""


def _items(template: Template) -> str:
    """Return the SELECT of all items; those of the test have a prompt."""
    return f"""
        with

        shown as (

            select
                * replace (coalesce(card, {template.sql("no_card")}) as card),
                trial + 1 as number,
                chosen_card as choice,
                case is_correct when '1' then 'right' when '2' then 'wrong' end as verdict,
                card is not null as is_asked
            from trials
            inner join splits using (participant_id)
            where place_flaw is null

        ),

        lines as (

            select
                *,
                case
                    when response_flaw is null then {template.sql("sorted")}
                    when is_correct = '3' then {template.sql("late")}
                    else {template.sql("unknown")}
                end as line
            from shown

        ),

        remembered as (

            select
                *,
                coalesce(
                    string_agg(line, '') over (
                        partition by participant_id
                        order by trial rows between unbounded preceding and 1 preceding
                    ),
                    {template.sql("no_history")}
                ) as history
            from lines
            where split = 'test'

        ),

        prompts as (

            select participant_id, trial, {template.sql()} as prompt
            from remembered

        )

        select
            {_NAMES},
            prompt,
            case when prompt is not null then $template_id end as template_id,
            case when prompt is not null then $template_sha256 end as template_sha256,
            ['1', '2', '3', '4'] as legal_options,
            case when card_flaw is null then [correct_card] end as credited_options,
            to_json({{trial: trial, matches: matches}}) as facts_json
        from lines
        left join prompts using (participant_id, trial)
        where is_asked
        order by participant_id, trial
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

        Items of the test show the trials before them. These tables have no status, so a response that cannot
        be read is left out, and a note counts it.

        Raises
        ------
        InvalidSource
            If the file is not CSV with the source's columns, or has a trial of a participant twice.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of trials")
        template = load_template("wcst_prediction")
        n_rows = _load(self._con, path, where)
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        words = {"template_id": template.id, "template_sha256": template.sha256}
        responses = self._con.sql(_RESPONSES, params=names).to_arrow_table()
        lost = without_response(self._con, _PARTICIPANTS, responses)
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=Path(file.path).stem.removeprefix("raw_data_"),
            modes=[MODE_ID],
            tables={
                "items": self._con.sql(_items(template), params=names | words).to_arrow_table(),
                "human_responses": responses,
            },
            n_source_rows=n_rows,
            flaws=[*self._con.execute(_FLAWS).fetchall(), *lost.items()],
            set_aside=lost,
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str) -> int:
    """Read the file into ``trials``; return its number of data rows."""
    n_rows = read_rows(con, path, where, _COLUMNS)
    con.execute(_TRIALS)
    con.execute(_SPLITS)
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
    return n_rows
