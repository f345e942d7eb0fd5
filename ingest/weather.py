"""Weather prediction of human participants: another sample than the one behind the published row.

Source: the R package hmmr, ``data/WPT.rda``: data of Speekenbrink, Lagnado, Wilkinson, Jahanshahi & Shanks
(2010), Journal of Mathematical Psychology 54, 123-136. Eleven patients with Parkinson's disease and 13
controls came twice, for 200 trials each time. A trial shows one to three of four cards; the participant
predicts the weather and then learns what it was.
"""

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

MODE_ID = "weather_prediction_hmmr"
OPTIONS = ["Fine", "Rainy"]

_FILE = "data/WPT.rda"
_OBJECT = "WPT"
_COLUMNS = ("id", "group", "med", "occ", "trial", "c1", "c2", "c3", "c4", "y", "r")

_CARDS = ", ".join(whole_number(f"c{card}") for card in (1, 2, 3, 4))

# a visit is a session of its own: that the cards meant the same the second time is stated nowhere
_TRIALS = f"""
create or replace table trials as
with

cells as (

    select
        source_row,
        cast(id as varchar) as participant,
        coalesce(regexp_full_match(participant, '[A-Za-z0-9_-]+'), false) as is_named,
        cast("group" as varchar) as participants_group,
        {whole_number("occ")} as session,
        {whole_number("trial")} as trial_in_session,
        [card for card in [{_CARDS}] if card in (0, 1)] as features,
        case when list_contains($options, cast(y as varchar)) then cast(y as varchar) end as outcome,
        case when list_contains($options, cast(r as varchar)) then cast(r as varchar) end as response
    from source

),

judged as (

    select
        *,
        case
            when not is_named then 'id is not made of letters, digits, _ and -'
            when participants_group is null or participants_group not in ('PD', 'Control')
            then 'group is not one of PD, Control'
            when session is null or session < 1 then 'occ is not a whole number from 1'
            when trial_in_session is null or trial_in_session < 1 then 'trial is not a whole number from 1'
            when len(features) < 4 then 'one of c1, c2, c3, c4 is not 0 or 1'
        end as place_flaw,
        case when outcome is null then 'y is not one of Fine, Rainy' end as outcome_flaw,
        case when response is null then 'r is not one of Fine, Rainy' end as response_flaw
    from cells

)

select
    *,
    row_number() over (
        partition by participant, session, place_flaw is null order by trial_in_session, source_row
    ) - 1 as trial
from judged
"""

# the last participant of each group: 2 of 24, as the published row keeps 2 of 25
_SPLITS = """
create or replace table splits as
with participants as (
    select participant, any_value(participants_group) as participants_group, min(source_row) as position
    from trials
    where place_flaw is null
    group by participant
    having count(response) > 0
)
select
    participant,
    case
        when row_number() over (partition by participants_group order by position desc) = 1 then 'test'
        else 'train'
    end as split
from participants
"""

_NAMES = """
    $run_id || '/' || participant || '/' || session || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    'wpt-' || participant as participant_id,
    coalesce(split, 'train') as split,
    1.0 as weight
"""

_RESPONSES = f"""
select {_NAMES}, response
from trials left join splits using (participant)
where place_flaw is null and response is not null
order by participant_id, session, trial
"""

_PARTICIPANTS = "select 'wpt-' || participant as participant_id from trials where is_named"

_FLAWS = """
select
    coalesce(
        place_flaw || '; left out',
        concat_ws('; ', outcome_flaw || '; no option is credited', response_flaw || '; no response')
    ) as flaw,
    count(*) as n_rows
from trials
where coalesce(place_flaw, outcome_flaw, response_flaw) is not null
group by flaw
order by n_rows desc, flaw
"""


class WeatherImporter:
    """Reads the trials of the weather prediction task in hmmr."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the file of trials; None for any other file of the package."""
        return f"{source.id}-WPT-{file.sha256[:12]}-v{IMPORTER_VERSION}" if file.path == _FILE else None

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each trial into an item, with the trials of the same visit before it, and the human response.

        Raises
        ------
        InvalidSource
            If the file is not R data with the source's columns, or has a trial of a visit twice.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of trials")
        template = load_template("weather")
        n_rows = _load(self._con, path, where)
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        shown = {"options": OPTIONS, "template_id": template.id, "template_sha256": template.sha256}
        responses = self._con.sql(_RESPONSES, params=names).to_arrow_table()
        lost = without_response(self._con, _PARTICIPANTS, responses)
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=_OBJECT,
            modes=[MODE_ID],
            tables={
                "items": self._con.sql(_items(template), params=names | shown).to_arrow_table(),
                "human_responses": responses,
            },
            n_source_rows=n_rows,
            flaws=[*self._con.execute(_FLAWS).fetchall(), *lost.items()],
            set_aside=lost,
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _items(template: Template) -> str:
    return f"""
        with

        shown as (

            select
                *,
                coalesce(split, 'train') = 'test' as is_asked,
                array_to_string(['card ' || i for i in [1, 2, 3, 4] if features[i] = 1], ' and ') as cards,
                coalesce(response, 'not recorded') as prediction,
                coalesce(outcome, 'not recorded') as weather
            from trials left join splits using (participant)
            where place_flaw is null

        ),

        lines as (

            select *, {template.sql("trial")} as line
            from shown

        ),

        remembered as (

            select
                *,
                coalesce(
                    string_agg(line, '') filter (where is_asked) over (
                        partition by participant, session
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
            case when outcome is not null then [outcome] end as credited_options,
            to_json({{session: session, trial: trial, features: features}}) as facts_json
        from remembered
        order by participant_id, session, trial
    """


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str) -> int:
    """Read the file into ``trials`` and ``splits``; return its number of rows."""
    con.register("found", read_data_frame(path, _OBJECT, _COLUMNS, where))
    con.execute("create or replace table source as select row_number() over () as source_row, * from found")
    con.unregister("found")
    con.execute(_TRIALS, {"options": OPTIONS})
    con.execute(_SPLITS)
    twice = con.execute(
        "select participant, session, trial_in_session from trials where place_flaw is null "
        "group by all having count(*) > 1 order by all"
    ).fetchall()
    if twice:
        participant, session, trial = twice[0]
        raise InvalidSource(
            f"{where}: expected each trial once, found {len(twice)} several times, the first is "
            f"trial {trial} of {participant} at visit {session}"
        )
    return int(con.execute("select count(*) from source").fetchall()[0][0])
