"""Nonliteral numbers: what people make of a price that somebody names, and of a price itself.

Source: Kao, Wu, Bergen & Goodman (2014), Proceedings of the National Academy of Sciences 111, 12002-12007;
jeaneis/hyperbole, ``paper/pnas2014/Data``. In experiment 1, people learned what a buyer said that a thing
cost, and rated how likely it is that it cost each of ten prices: 3 things x 10 numbers said x 10 prices. In
experiment 3b they rated how likely a buyer is to find a price high: 3 things x 10 prices. A rating is the
place of a slider with 41 steps. The ten ratings of one page need not add up to 1, and are read as they are.

An item is a question; its target is the mean rating, in percent. Sharp numbers such as 1001 stand for the
number within three of the round one that a participant saw.
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
from store.prompts import load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

MODE_ID = "nonliteral_number"

_RATINGS_FILE = re.compile(
    r"paper/pnas2014/Data/Experiment(?P<experiment>1|3b)/experiment(?P=experiment)-raw\.csv"
)


@dataclass(frozen=True, slots=True)
class _Experiment:
    """How the file of one experiment is read.

    Attributes
    ----------
    cells
        SELECT list over the rows of the file: ``rater``, ``utterance``, ``state`` and ``rating_text``, a
        number in [0, 1].
    rating
        Column of the rating, as a note names it.
    is_said
        Whether somebody names a price: without it ``utterance`` is null.
    """

    columns: tuple[str, ...]
    cells: str
    rating: str
    is_said: bool


_EXPERIMENTS = {
    "1": _Experiment(
        columns=(
            "participant",
            "domain",
            "utterance",
            "utteranceType",
            "utteranceExact",
            "utteranceRounded",
            "state",
            "stateType",
            "stateRounded",
            "stateProb",
            "affectProb",
            "order",
        ),
        cells=f"""
            source.participant as rater,
            {whole_number("source.utterance")} as utterance,
            {whole_number("source.state")} as state,
            source.stateProb as rating_text
        """,
        rating="stateProb",
        is_said=True,
    ),
    "3b": _Experiment(
        columns=("workerID", "domain", "stateRounded", "stateType", "affectProb", "order"),
        # as experiment 1 writes them: 51 for the sharp numbers around 50
        cells=f"""
            source.workerID as rater,
            cast(null as integer) as utterance,
            {whole_number("source.stateRounded")}
                + case source.stateType when 'round' then 0 when 'sharp' then 1 end as state,
            source.affectProb as rating_text
        """,
        rating="affectProb",
        is_said=False,
    ),
}

_RATINGS = """
create or replace table ratings as
with

cells as (

    select
        source_row,
        nfc_normalize(trim(source.domain)) as domain,
        {cells}
    from source

),

judged as (

    select
        *,
        -- exact, so that a mean does not depend on the order of its terms
        100 * try_cast(rating_text as decimal(9, 6)) as rating,
        case
            when rater is null or not regexp_full_match(rater, '[A-Za-z0-9._-]+')
            then 'the participant is not made of letters, digits and . _ -'
            when domain is null or not regexp_full_match(domain, '[a-z]+( [a-z]+)*')
            then 'domain is not made of words'
            when $is_said and utterance is null then 'utterance is not a whole number'
            when state is null then 'the price is not a whole number, round or sharp'
            when utterance < 1 or state < 1 then 'a price is not positive'
            when rating is null then $rating || ' is not a number'
            when rating not between 0 and 100 then $rating || ' is not between 0 and 1'
        end as fault,
        concat_ws('/', replace(domain, ' ', '_'), utterance, state) as question
    from cells

),

counted as (

    select
        *,
        row_number() over (partition by rater, question, fault is null order by source_row) as occurrence,
        count(*) filter (fault is null) over (partition by rater) as n_readable
    from judged

)

select
    *,
    $dataset || '/' || rater as participant_id,
    case
        {flawed}
        when occurrence > 1 then 'a second rating of the same question by the same participant'
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

    select
        question,
        domain,
        utterance,
        state,
        cast(sum(rating) / count(*) as double) as target
    from ratings
    where flaw is null
    group by question, domain, utterance, state

),

worded as (

    select
        *,
        case when domain[1] in ('a', 'e', 'i', 'o', 'u') then 'an' else 'a' end as article,
        string_agg(state, ', ') over (
            partition by domain, utterance
            order by state rows between unbounded preceding and unbounded following
        ) as prices
    from questions

)

select
    {names},
    {prompt} as prompt,
    $template_id as template_id,
    $template_sha256 as template_sha256,
    0.0 as support_low,
    100.0 as support_high,
    target,
    {facts} as facts_json
from worded
order by item_id
"""

_FACTS = {
    True: "to_json({domain: domain, utterance: utterance, state: state})",
    False: "to_json({domain: domain, state: state})",
}

_HUMAN_RESPONSES = f"""
select {_NAMES}, participant_id, cast(rating as double) as response_number
from ratings where flaw is null
order by participant_id, item_id
"""


class NonliteralImporter:
    """Reads the ratings of one experiment, whose means are the targets."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of ratings; None for any other file of the repository."""
        ratings = _RATINGS_FILE.fullmatch(file.path)
        if ratings is None:
            return None
        return f"{source.id}-experiment{ratings['experiment']}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each question into an item whose target is the mean rating, and each rating into a response.

        Raises
        ------
        InvalidSource
            If the file is not CSV with the source's columns.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        ratings = _RATINGS_FILE.fullmatch(file.path)
        if run_id is None or ratings is None:
            raise InvalidSource(f"{where}: not a file of ratings")
        experiment, dataset = _EXPERIMENTS[ratings["experiment"]], f"experiment{ratings['experiment']}"
        n_rows = read_rows(self._con, path, where, experiment.columns)
        self._con.execute(
            _RATINGS.format(cells=experiment.cells, flawed=fault_branches("fault", "rater")),
            {"dataset": dataset, "rating": experiment.rating, "is_said": experiment.is_said},
        )
        template = load_template(f"nonliteral_{dataset}")
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        about = {"template_id": template.id, "template_sha256": template.sha256}
        items = _ITEMS.format(names=_NAMES, prompt=template.sql(), facts=_FACTS[experiment.is_said])
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
            flaws=self._con.execute(left_out("ratings")).fetchall(),
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()
