"""Choices between a sooner and a later reward: substitutes for the questions of the published row.

Four samples, each a mode of its own. Three are measures of :mod:`ingest.self_regulation`: a titrator after
Bickel, in which the sooner amount follows from the choices before; a set of drawn amounts and delays; and the
27 questions of Kirby. The fourth is the example data of delay discounting in the R package hBayesDM, of which
neither the participants' instructions nor the unit of the amounts are known.

Whatever is asked, the credited option is the later reward: what is scored is a preference, not an accuracy.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.contract import Imported
from ingest.csv_files import read_rows
from ingest.questions import imported
from ingest.rows import whole_number, without_response
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

HBAYESDM_MODE_ID = "temporal_discounting_hbayesdm"

# of the measures, beside those that say where in the session a screen belongs
COLUMNS = ("trial_id", "exp_stage", "stimulus", "key_press", "choice")

_HBAYESDM_FILE = "commons/extdata/dd_exampleData.txt"
_HBAYESDM_COLUMNS = (
    "subjID",
    "trial",
    "delay_later",
    "amount_later",
    "delay_sooner",
    "amount_sooner",
    "choice",
)

_NO_QUESTION = "there is no question on the screen"
_PRACTICE = "a question for practice; in the history, and not asked"
_LEFT_OUT = "; left out"
# nothing is wrong with these screens, and nobody is asked them
SET_ASIDE = (_NO_QUESTION + _LEFT_OUT, _PRACTICE)

# what a screen shows on each side: an amount in dollars, and when it is paid
_REWARD = r"\$([0-9,]+(?:\.[0-9]+)?)<br>([^<]+)</font>"
# bounded, so that every amount is finite and every delay a number of days
_AMOUNT = r"[0-9]{1,9}([.][0-9]+)?"
_DELAY = r"([0-9]{1,6}) (day|week|month|year)s?"

# left and right as on the screen: q (81) takes the left reward and p (80) the right one
_QUESTIONS_OF_SCREENS = f"""
create or replace table questions as
with

cells as (

    select
        *,
        list_transform(
            list_zip(
                regexp_extract_all(stimulus, '{_REWARD}', 1), regexp_extract_all(stimulus, '{_REWARD}', 2)
            ),
            lambda shown: {{
                amount: case
                    when regexp_full_match(replace(shown[1], ',', ''), '{_AMOUNT}')
                    then cast(replace(shown[1], ',', '') as double)
                end,
                days: case
                    when shown[2] in ('today', 'immediately') then 0
                    when regexp_full_match(shown[2], '{_DELAY}')
                    then cast(regexp_extract(shown[2], '{_DELAY}', 1) as integer)
                        * case regexp_extract(shown[2], '{_DELAY}', 2)
                            when 'day' then 1 when 'week' then 7 when 'month' then 30 else 365
                        end
                end,
                words: '$' || shown[1]
                    || case when shown[2] in ('today', 'immediately') then ' ' else ' in ' end || shown[2]
            }}
        ) as rewards,
        rewards[1].days > rewards[2].days as is_later_first,
        case try_cast(key_press as double)
            when 81 then is_later_first
            when 80 then not is_later_first
        end as is_later_chosen
    from screens
    where place_flaw is null

)

select
    participant_id,
    place,
    exp_stage = 'practice' as is_practice,
    case when is_later_first then rewards[2] else rewards[1] end as sooner,
    case when is_later_first then rewards[1] else rewards[2] end as later,
    is_later_first,
    is_later_chosen,
    case
        when trial_id is distinct from 'stim' then '{_NO_QUESTION}'
        when exp_stage is null or exp_stage not in ('practice', 'test')
        then 'exp_stage is not one of practice, test'
        when rewards is null or len(rewards) <> 2
            or list_bool_or(list_transform(rewards, lambda one: one.amount is null or one.days is null))
        then 'stimulus does not show two amounts with their delays'
        when rewards[1].days = rewards[2].days then 'both rewards come at the same time'
    end as question_flaw,
    case
        when is_later_chosen is null then 'key_press is not one of 80, 81'
        when choice is null and exp_stage = 'test'
            or choice <> case when is_later_chosen then 'larger_later' else 'smaller_sooner' end
        then 'choice contradicts key_press'
    end as response_flaw
from cells
"""

# which reward was shown first is not in the data: the sooner one is named first
_HBAYESDM_QUESTIONS = f"""
create or replace table questions as
with

cells as (

    select
        'dd-' || subjID as participant_id,
        {whole_number("trial")} as place,
        list_transform(
            [[amount_sooner, delay_sooner], [amount_later, delay_later]],
            lambda reward: {{
                amount: case
                    when regexp_full_match(reward[1], '{_AMOUNT}') then cast(reward[1] as double)
                end,
                days: case
                    when regexp_full_match(reward[2], '[0-9]{{1,6}}') then cast(reward[2] as integer)
                end,
                words: reward[1] || case reward[2]
                    when '0' then ' now' when '1' then ' in 1 day' else ' in ' || reward[2] || ' days'
                end
            }}
        ) as rewards,
        case choice when '1' then true when '0' then false end as is_later_chosen,
        coalesce(regexp_full_match(subjID, '[A-Za-z0-9._-]+'), false) as is_named,
        case
            when not is_named then 'subjID is not made of letters, digits and . _ -'
            when place is null then 'trial is not a whole number'
        end as place_flaw
    from source

)

select
    participant_id,
    is_named,
    place,
    false as is_practice,
    rewards[1] as sooner,
    rewards[2] as later,
    false as is_later_first,
    is_later_chosen,
    coalesce(
        place_flaw,
        case
            when rewards[1].amount is null or rewards[2].amount is null
            then 'an amount is not a number below a billion'
            when rewards[1].days is null or rewards[2].days is null then 'a delay is not a number of days'
            when rewards[1].days >= rewards[2].days then 'the later reward does not come later'
        end
    ) as question_flaw,
    case when is_later_chosen is null then 'choice is not one of 0, 1' end as response_flaw
from cells
"""

_HBAYESDM_PARTICIPANTS = "select participant_id from questions where is_named"

_HBAYESDM_TWICE = """
select participant_id, place from questions where participant_id is not null and place is not null
group by all having count(*) > 1 order by all
"""

_FLAWS = f"""
with flawed as (
    select
        coalesce(
            question_flaw || '{_LEFT_OUT}',
            case when is_practice then '{_PRACTICE}' end,
            response_flaw || '; not asked, and in the history a question without a choice'
        ) as flaw
    from questions
)

select flaw, count(*) as n_rows from flawed where flaw is not null group by flaw order by n_rows desc, flaw
"""


_NAMES = """
    $run_id || '/' || participant_id || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    1.0 as weight
"""

_RESPONSES = f"""
select {_NAMES}, response from answers where response is not null and not is_practice
order by participant_id, trial
"""

# the questions for practice come first, and are numbered apart
_ANSWERS = """
create or replace table answers as
select
    *,
    case when is_later_first then later.words else sooner.words end as first,
    case when is_later_first then sooner.words else later.words end as second,
    case
        when response_flaw is null then case when is_later_chosen then later.words else sooner.words end
    end as response,
    row_number() over (partition by participant_id, is_practice order by place) - 1 as trial
from questions
where question_flaw is null
"""


def _items(template: Template) -> str:
    return f"""
        with

        shown as (

            select
                *,
                case when is_practice then 'For practice' else 'Question ' || (trial + 1) end as label,
                coalesce(response, 'nothing') as chosen
            from answers

        ),

        remembered as (

            select
                *,
                coalesce(
                    string_agg({template.sql("trial")}, '') over (
                        partition by participant_id
                        order by place rows between unbounded preceding and 1 preceding
                    ),
                    ''
                ) as history
            from shown

        )

        select
            {_NAMES},
            {template.sql()} as prompt,
            $template_id as template_id,
            $template_sha256 as template_sha256,
            [sooner.words, later.words] as legal_options,
            [later.words] as credited_options,
            to_json({{
                trial: trial, options: [[sooner.amount, sooner.days], [later.amount, later.days]]
            }}) as facts_json
        from remembered
        where response is not null and not is_practice
        order by participant_id, trial
    """


def _tables(
    con: duckdb.DuckDBPyConnection, template: Template, names: Mapping[str, str]
) -> tuple[dict[str, pa.Table], list[tuple[str, int]]]:
    """Turn the table ``questions`` into items and responses, and count what cannot be."""
    con.execute(_ANSWERS)
    of_template = {"template_id": template.id, "template_sha256": template.sha256}
    tables = {
        "items": con.sql(_items(template), params={**names, **of_template}).to_arrow_table(),
        "human_responses": con.sql(_RESPONSES, params=dict(names)).to_arrow_table(),
    }
    return tables, con.execute(_FLAWS).fetchall()


def read_screens(
    con: duckdb.DuckDBPyConnection, names: Mapping[str, str]
) -> tuple[dict[str, pa.Table], list[tuple[str, int]]]:
    """Turn the table ``screens`` of a measure into items and responses, and count what cannot be.

    A question without a valid choice is no item: it has nothing to be predicted. It stays in the history, as
    do the questions for practice.

    Parameters
    ----------
    names
        ``run_id``, ``mode_id`` and ``source_id`` of all rows.
    """
    con.execute(_QUESTIONS_OF_SCREENS)
    return _tables(con, load_template("discounting"), names)


class DelayDiscountingImporter:
    """Reads the delay discounting data of hBayesDM; its other examples are no questions of this kind."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the file of choices; None for any other file of the repository."""
        if file.path != _HBAYESDM_FILE:
            return None
        return f"{source.id}-dd_exampleData-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each question that was answered into an item and a human response.

        Raises
        ------
        InvalidSource
            If the file is not tab-separated text in UTF-8 with the source's columns, or has a question of a
            participant twice.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of delay discounting")
        n_rows = _load_hbayesdm(self._con, path, where)
        names = {"run_id": run_id, "mode_id": HBAYESDM_MODE_ID, "source_id": source.id}
        tables, flaws = _tables(self._con, load_template("discounting_hbayesdm"), names)
        lost = without_response(self._con, _HBAYESDM_PARTICIPANTS, tables["human_responses"])
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset="dd_exampleData",
            modes=[HBAYESDM_MODE_ID],
            tables=tables,
            n_source_rows=n_rows,
            flaws=[*flaws, *lost.items()],
            set_aside=lost,
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _load_hbayesdm(con: duckdb.DuckDBPyConnection, path: Path, where: str) -> int:
    """Read the file into ``questions``; return its number of data rows."""
    n_rows = read_rows(con, path, where, _HBAYESDM_COLUMNS, delimiter="\t")
    con.execute(_HBAYESDM_QUESTIONS)
    if twice := con.execute(_HBAYESDM_TWICE).fetchall():
        participant, trial = twice[0]
        raise InvalidSource(
            f"{where}: expected each question once, found {len(twice)} several times, the first is "
            f"trial {trial} of {participant.removeprefix('dd-')}"
        )
    return n_rows
