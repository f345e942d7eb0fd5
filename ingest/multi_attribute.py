"""Multi-attribute choice of human participants: which of two options is better, given four cues of each.

Source: the R package multinomineq. ``data/hilbig2014.RData`` holds the frequencies of Hilbig & Moshagen
(2014), Psychonomic Bulletin & Review 21, 1431-1443: 32 choices in each of three item types per participant.
``data/heck2017_raw.RData`` holds the single trials of Heck, Hilbig & Moshagen (2017), Cognitive Psychology
96, 26-40: 160 per participant. The cues have validities of .9, .8, .7 and .6.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb

from ingest.contract import Imported
from ingest.questions import imported
from ingest.r_data import read_data_frame
from ingest.rows import whole_number, without_response
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

OPTIONS = ["A", "B"]

# one in thirteen is kept out: 6 of 79, as in the published row, and 8 of 104
_ONE_IN = 13

_N_CHOICES = 32

# cues of A and B by item type are those of the package's manual, since the file has frequencies alone; the
# order of the choices is not known, so none of them has a trial
_FREQUENCIES = f"""
create or replace table questions as
with

cells as (

    select
        source_row,
        item_type,
        cues_a,
        cues_b,
        [{", ".join(whole_number(f"b{item_type}") for item_type in (1, 2, 3))}][item_type] as found
    from source, (
        values
        (1, [1, 1, 1, -1], [-1, 1, -1, 1]),
        (2, [1, -1, -1, -1], [-1, 1, 1, -1]),
        (3, [1, 1, 1, -1], [-1, 1, 1, 1])
    ) as types (item_type, cues_a, cues_b)

),

counted as (

    select *, case when found between 0 and {_N_CHOICES} then found end as n_b
    from cells

),

judged as (

    select
        *,
        string_agg('B' || item_type, ', ' order by item_type) filter (where n_b is null)
            over (partition by source_row) as unreadable
    from counted

)

select
    source_row,
    cast(source_row as varchar) as participant,
    'type_' || item_type as place,
    cast(null as integer) as trial,
    item_type as number_in_source,
    cues_a,
    cues_b,
    cast({_N_CHOICES} - n_b as double) as n_a,
    cast(n_b as double) as n_b,
    cast(null as varchar) as place_flaw,
    case
        when unreadable is not null
        then unreadable || ' not a whole number from 0 to {_N_CHOICES}; no response to this item type'
    end as response_flaw
from judged
"""


def _cues(option: str) -> str:
    """Return SQL for the cues of an option that can be read."""
    cues = ", ".join(whole_number(f"{option}{cue}") for cue in (1, 2, 3, 4))
    return f"[cue for cue in [{cues}] if cue in (-1, 1)]"


_TRIALS = f"""
create or replace table questions as
with

cells as (

    select
        source_row,
        {whole_number("vp")} as participant_number,
        {whole_number("trial")} as trial_number,
        {_cues("a")} as cues_a,
        {_cues("b")} as cues_b,
        case when cast(choice as varchar) in ('A', 'B') then cast(choice as varchar) end as chosen
    from source

),

judged as (

    select
        *,
        case
            when participant_number is null then 'vp is not a whole number'
            when trial_number is null then 'trial is not a whole number'
            when len(cues_a) < 4 or len(cues_b) < 4 then 'a cue is not -1 or 1'
        end as place_flaw,
        case when chosen is null then 'choice is not A or B; no response' end as response_flaw
    from cells

),

numbered as (

    select
        *,
        row_number() over (partition by participant_number, place_flaw is null order by trial_number) - 1
            as trial
    from judged

)

select
    source_row,
    cast(participant_number as varchar) as participant,
    cast(trial as varchar) as place,
    trial,
    trial_number as number_in_source,
    cues_a,
    cues_b,
    cast(chosen = 'A' as double) as n_a,
    cast(chosen = 'B' as double) as n_b,
    place_flaw,
    response_flaw
from numbered
"""

_SPLITS = f"""
create or replace table splits as
with participants as (
    select participant, row_number() over (order by min(source_row)) as position
    from questions
    where place_flaw is null
    group by participant
    having count(n_b) > 0
)
select participant, case when position % {_ONE_IN} = 0 then 'test' else 'train' end as split
from participants
"""

_NAMES = """
    $run_id || '/' || participant || '/' || place as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    $dataset || '-' || participant as participant_id,
    coalesce(split, 'train') as split
"""

# a frequency is one response that weighs as many choices
_RESPONSES = f"""
select {_NAMES}, response, weight
from (
    select
        source_row,
        participant,
        place,
        place_flaw,
        unnest(['A', 'B']) as response,
        unnest([n_a, n_b]) as weight
    from questions
)
left join splits using (participant)
where place_flaw is null and weight > 0
order by source_row, place, response
"""

_PARTICIPANTS = """
select distinct source_row, '{dataset}-' || participant as participant_id
from questions where participant is not null
"""

_FLAWS = """
select coalesce(place_flaw || '; left out', response_flaw) as flaw, count(distinct source_row) as n_rows
from questions
where coalesce(place_flaw, response_flaw) is not null
group by flaw
order by n_rows desc, flaw
"""


@dataclass(frozen=True, slots=True)
class _Study:
    """One file of the package: the object in it, its columns, and how they become questions."""

    dataset: str
    mode_id: str
    object: str
    columns: tuple[str, ...]
    questions: str
    are_frequencies: bool = False


_STUDIES = {
    "data/hilbig2014.RData": _Study(
        dataset="hilbig2014",
        mode_id="multi_attribute_choice_frequencies",
        object="hilbig2014",
        columns=("B1", "B2", "B3"),
        questions=_FREQUENCIES,
        are_frequencies=True,
    ),
    "data/heck2017_raw.RData": _Study(
        dataset="heck2017",
        mode_id="multi_attribute_choice_heck2017",
        object="heck2017_raw",
        columns=(
            *("vp", "trial", "pattern", "ttb", "eqw", "wadd", "logoddsdiff", "ttbsteps", "itemtype"),
            *("reversedorder", "choice", "rt", "choice.rev"),
            *(f"{option}{cue}" for option in "ab" for cue in (1, 2, 3, 4)),
        ),
        questions=_TRIALS,
    ),
}


class MultiAttributeImporter:
    """Reads the two studies of multi-attribute choice in multinomineq."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of choices; None for any other file of the package."""
        study = _STUDIES.get(file.path)
        return (
            None if study is None else f"{source.id}-{study.dataset}-{file.sha256[:12]}-v{IMPORTER_VERSION}"
        )

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn choices into items and human responses.

        A single trial is an item with the participant's choices before it. Of frequencies, an item is one
        participant's item type, with a response for each option that was chosen: its weight is how often.

        Raises
        ------
        InvalidSource
            If the file is not R data with the source's columns, or has a trial of a participant twice.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of choices")
        study, template = _STUDIES[file.path], load_template("multi_attribute")
        n_rows = _load(self._con, path, study, where)
        names = {
            "run_id": run_id,
            "mode_id": study.mode_id,
            "source_id": source.id,
            "dataset": study.dataset,
        }
        shown = {"options": OPTIONS, "template_id": template.id, "template_sha256": template.sha256}
        responses = self._con.sql(_RESPONSES, params=names).to_arrow_table()
        lost = without_response(self._con, _PARTICIPANTS.format(dataset=study.dataset), responses)
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=study.dataset,
            modes=[study.mode_id],
            tables={
                "items": self._con.sql(_items(template), params=names | shown).to_arrow_table(),
                "human_responses": responses,
            },
            n_source_rows=n_rows,
            flaws=[*self._con.execute(_FLAWS).fetchall(), *lost.items()],
            set_aside=lost,
            are_frequencies=study.are_frequencies,
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _items(template: Template) -> str:
    verdicts = "array_to_string([case cue when 1 then '+' else '-' end for cue in {cues}], ' ')"
    return f"""
        with

        shown as (

            select
                *,
                coalesce(split, 'train') = 'test' as is_asked,
                {verdicts.format(cues="cues_a")} as verdicts_a,
                {verdicts.format(cues="cues_b")} as verdicts_b,
                case when n_a = 1 then 'A' when n_b = 1 then 'B' else '(not recorded)' end as choice
            from questions left join splits using (participant)
            where place_flaw is null

        ),

        lines as (

            select *, case when trial is not null then {template.sql("trial")} end as line
            from shown

        ),

        remembered as (

            select
                *,
                coalesce(
                    string_agg(line, '') filter (where is_asked) over (
                        partition by participant
                        order by trial rows between unbounded preceding and 1 preceding
                    ),
                    ''
                ) as history
            from lines

        )

        select
            {_NAMES},
            case when is_asked then {template.sql()} end as prompt,
            case when is_asked then $template_id end as template_id,
            case when is_asked then $template_sha256 end as template_sha256,
            $options as legal_options,
            to_json({{trial: trial, options: [cues_a, cues_b]}}) as facts_json,
            1.0 as weight
        from remembered
        order by source_row, place
    """


def _load(con: duckdb.DuckDBPyConnection, path: Path, study: _Study, where: str) -> int:
    """Read the file into ``questions`` and ``splits``; return its number of rows."""
    con.register("found", read_data_frame(path, study.object, study.columns, where))
    con.execute("create or replace table source as select row_number() over () as source_row, * from found")
    con.unregister("found")
    con.execute(study.questions)
    con.execute(_SPLITS)
    twice = con.execute(
        "select participant, number_in_source from questions where place_flaw is null "
        "group by all having count(*) > 1 order by all"
    ).fetchall()
    if twice:
        participant, trial = twice[0]
        raise InvalidSource(
            f"{where}: expected each trial once, found {len(twice)} several times, the first is "
            f"trial {trial} of participant {participant}"
        )
    return int(con.execute("select count(*) from source").fetchall()[0][0])
