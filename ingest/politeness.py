"""Polite speech: what speakers with a goal say of something they rate, and whether a description holds.

Source: Yoon, Tessler, Goodman & Frank (2020), Open Mind 4, 71-87; ejyoon/polite_speaker,
``02_analysis/01_data``. In ``speaker_production.csv`` 203 people chose one of eight sentences for each of
4 marks x 3 goals; in ``literal_semantics.csv`` 49 people said of each of 4 marks x 8 sentences whether the
sentence holds. What was rated (a poem, a cake, …) was drawn anew for every trial.

A question of speaker production names what was rated: 156 questions of 7 to 29 responses. One of literal
semantics does not: it is about the meaning of a word, and of the 412 questions that would name what was
rated, 35 were asked of one person alone.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb

from ingest.contract import Imported
from ingest.csv_files import read_rows
from ingest.questions import imported
from ingest.rows import fault_branches, left_out, whole_number
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

MODE_ID = "politeness"

WORDS = ("terrible", "bad", "good", "amazing")
SENTENCES = (*(f"It was {word}" for word in WORDS), *(f"It wasn't {word}" for word in WORDS))
GOALS = ("informative", "social", "both")

_RESPONSES_FILE = re.compile(r"02_analysis/01_data/(?P<dataset>speaker_production|literal_semantics)\.csv")


@dataclass(frozen=True, slots=True)
class _Experiment:
    """How the file of one experiment is read.

    Attributes
    ----------
    cells
        SELECT list over the rows of the file: ``state``, ``goal``, ``rated``, ``described``, ``response`` and
        ``question``, which names the item. What the file does not have or cannot be read is null.
    faults
        WHEN branches that say what is wrong with a row, the first that applies.
    legal_options
        What every question can be answered with.
    facts
        SQL: what is visible, as a structure.
    goals
        Goals that the template has a text for.
    """

    columns: tuple[str, ...]
    cells: str
    faults: str
    legal_options: tuple[str, ...]
    facts: str
    goals: tuple[str, ...] = ()


_EXPERIMENTS = {
    "speaker_production": _Experiment(
        columns=("subid", "trial", "item", "goal", "true_state", "positivity", "utterance"),
        cells="""
            try_cast(regexp_extract(source.true_state, '^heart([0-3])$', 1) as integer) as state,
            case when list_contains($goals, source.goal) then source.goal end as goal,
            nfc_normalize(source.item) as rated,
            cast(null as varchar) as described,
            case source.positivity when 'no_neg' then 'It was ' when 'neg' then 'It wasn''t ' end
                || source.utterance as sentence,
            case when list_contains($legal_options, sentence) then sentence end as response,
            state || '/' || goal || '/' || rated as question
        """,
        faults="""
            when rated is null then 'item is empty'
            when goal is null then 'goal is not one of informative, social, both'
            when state is null then 'true_state is not one of heart0 to heart3'
            when response is null then 'positivity and utterance do not make one of the eight sentences'
        """,
        legal_options=SENTENCES,
        facts="{state: state, goal: goal, rated: rated}",
        goals=GOALS,
    ),
    "literal_semantics": _Experiment(
        columns=("subid", "trial", "item", "state", "positivity", "utterance", "judgment"),
        cells="""
            try_cast(regexp_extract(source.state, '^([0-3])$', 1) as integer) as state,
            cast(null as varchar) as goal,
            cast(null as varchar) as rated,
            case source.positivity
                when 'it was ___' then 'It was ' when 'it wasn''t ___' then 'It wasn''t '
            end || source.utterance as sentence,
            case when list_contains($sentences, sentence) then 'it' || sentence[3:] end as described,
            case source.judgment when '1' then 'yes' when '0' then 'no' end as response,
            state || '/' || replace(described, ' ', '_') as question
        """,
        faults="""
            when state is null then 'state is not one of 0, 1, 2, 3'
            when described is null then 'positivity and utterance do not make one of the eight sentences'
            when response is null then 'judgment is not 0 or 1'
        """,
        legal_options=("yes", "no"),
        facts="{state: state, described: described}",
    ),
}

_RESPONSES = """
create or replace table responses as
with

cells as (

    select
        source_row,
        -- participants are named by the files that held their sessions
        regexp_replace(subid, '\\.json$', '') as subid,
        {trial} as trial,
        {cells}
    from source

),

judged as (

    select
        *,
        case
            when subid is null then 'subid is empty'
            when not regexp_full_match(subid, '[A-Za-z0-9._-]+')
            then 'subid is not made of letters, digits and . _ -'
            when trial is null then 'trial is not a whole number'
            {faults}
        end as fault
    from cells

),

counted as (

    select
        *,
        row_number() over (partition by subid, trial, fault is null order by source_row) as n_in_trial,
        row_number() over (partition by subid, question, fault is null order by source_row) as n_to_question,
        count(*) filter (fault is null) over (partition by subid) as n_readable
    from judged

)

select
    *,
    $dataset || '/' || subid as participant_id,
    case
        {flawed}
        when n_in_trial > 1 then 'a second response in the same trial'
        when n_to_question > 1 then 'a second response to the same question by the same participant'
    end as flaw
from counted
"""

_NAMES = """
    $run_id || '/' || question as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    1.0 as weight
"""

_ITEMS = """
with

questions as (

    select distinct question, state, goal, rated, described
    from responses
    where flaw is null

),

worded as (

    select
        *,
        {purpose} as purpose,
        array_to_string($legal_options, chr(10)) as options
    from questions

)

select
    {names},
    {prompt} as prompt,
    $template_id as template_id,
    $template_sha256 as template_sha256,
    $legal_options as legal_options,
    to_json({facts}) as facts_json
from worded
order by item_id
"""

_HUMAN_RESPONSES = f"""
select {_NAMES}, participant_id, response
from responses where flaw is null
order by participant_id, trial
"""


class PolitenessImporter:
    """Reads the responses of one experiment, from which its questions are made."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of responses; None for any other file of the repository."""
        dataset = _dataset(file)
        return None if dataset is None else f"{source.id}-{dataset}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each question into an item that its participants share, and each choice into a response.

        Raises
        ------
        InvalidSource
            If the file is not CSV with the source's columns.
        """
        run_id, dataset, where = self.identify(source, file), _dataset(file), source.uri(file)
        if run_id is None or dataset is None:
            raise InvalidSource(f"{where}: not a file of responses")
        experiment = _EXPERIMENTS[dataset]
        n_rows = read_rows(self._con, path, where, experiment.columns)
        legal_options = list(experiment.legal_options)
        known = {"legal_options": legal_options, "sentences": list(SENTENCES), "goals": list(GOALS)}
        responses = _RESPONSES.format(
            trial=whole_number("trial"),
            cells=experiment.cells,
            faults=experiment.faults,
            flawed=fault_branches("fault", "subid"),
        )
        self._con.execute(responses, _used(responses, known | {"dataset": dataset}))
        template = load_template(f"politeness_{dataset}")
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        about = {
            "template_id": template.id,
            "template_sha256": template.sha256,
            "legal_options": legal_options,
        }
        items = _ITEMS.format(
            names=_NAMES,
            purpose=_purpose(template, experiment.goals),
            prompt=template.sql(),
            facts=experiment.facts,
        )
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=dataset,
            modes=[MODE_ID],
            tables={
                "items": self._con.sql(items, params=names | about).to_arrow_table(),
                "human_responses": self._con.sql(_HUMAN_RESPONSES, params=names).to_arrow_table(),
            },
            n_source_rows=n_rows,
            flaws=self._con.execute(left_out("responses")).fetchall(),
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _dataset(file: PinnedFile) -> str | None:
    responses = _RESPONSES_FILE.fullmatch(file.path)
    return None if responses is None else responses["dataset"]


def _purpose(template: Template, goals: tuple[str, ...]) -> str:
    """Return a SQL expression that words a speaker's goal; null for an experiment without goals."""
    branches = [f"when '{goal}' then {template.sql(goal)}" for goal in goals]
    return f"case goal {' '.join(branches)} end" if branches else "cast(null as varchar)"


def _used(sql: str, values: dict[str, object]) -> dict[str, object]:
    """Return the values that a statement has places for: DuckDB refuses others."""
    return {name: value for name, value in values.items() if f"${name}" in sql}
