"""Pragmatic understanding: which interpretation, ending or verdict each of 374 people chose.

Source: jennhu/lm-pragmatics, the human responses in ``human_data/fj/Human_<phenomenon>.csv`` and the
questions in ``fj_raw_data/<phenomenon>{Scenarios,Options,KeySimple}.txt``. A response names an option by its
number in the options file, which orders them by the kind of answer: in four of the seven phenomena the right
one has the same number throughout. A prompt therefore shows the options rotated by the number of their
scenario.
"""

import csv
import hashlib
import html
import io
import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.contract import Imported
from ingest.csv_files import UNNAMED, read_rows
from ingest.questions import imported
from ingest.rows import fault_branches, left_out, whole_number
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 2

MODE_ID = "pragmatic_interpretation"
TEMPLATE_ID = "pragmatics"

# with the code that stands for each in the files
PHENOMENA = {
    "CoherenceInference": "CIV",
    "Deceits": "DV",
    "Humour": "HV",
    "IndirectSpeech": "ISV",
    "Irony": "IV",
    "Maxims": "MV",
    "Metaphor": "MPV",
}
# pairs of sentences have no options file: the verdicts are the same two each time
_VERDICTS_ON = "CoherenceInference"
_VERDICTS = ("Coherent", "Incoherent")

_RESPONSES_FILE = re.compile(rf"human_data/fj/Human_(?P<phenomenon>{'|'.join(PHENOMENA)})\.csv")
_COLUMNS = (UNNAMED, "pKey", "itemNum", "Correct", "Task", "OptionChosen")

_QUESTION_TABLES = {
    "scenarios": pa.schema({"item": pa.int32(), "scenario": pa.string()}),
    "options": pa.schema({"item": pa.int32(), "option": pa.int32(), "option_text": pa.string()}),
    "keys": pa.schema({"item": pa.int32(), "option": pa.int32(), "is_right": pa.bool_()}),
}

# the first that does not hold refuses the questions: (what is expected, SELECT of those that break it)
_EXPECTED = (
    ("each scenario once", "select item from scenarios group by item having count(*) > 1"),
    ("each option once", "select item from options group by item, option having count(*) > 1"),
    ("each key once", "select item from keys group by item, option having count(*) > 1"),
    (
        "a text for every scenario and option",
        "select item from scenarios where scenario = '' union all "
        "select item from options where option_text = ''",
    ),
    (
        "two or more options, numbered from 1, for every scenario",
        """
        select item from scenarios left join options using (item)
        group by item having count(option) < 2 or min(option) <> 1 or max(option) <> count(option)
        """,
    ),
    ("a scenario for every option", "select item from options anti join scenarios using (item)"),
    (
        "a key for every option, and no other keys",
        """
        select item from options full join keys using (item, option)
        where option_text is null or is_right is null
        """,
    ),
    ("one right option", "select item from keys group by item having count_if(is_right) <> 1"),
)

_CHOICES = """
create or replace table choices as
select
    options.*,
    keys.is_right,
    (options.option - 1 + options.item) % count(*) over (partition by options.item) + 1 as number
from options
inner join keys on options.item = keys.item and options.option = keys.option
"""

_RESPONSES = f"""
create or replace table responses as
with

cells as (

    select
        source_row,
        pKey as participant_id,
        {whole_number("itemNum")} as item,
        Task as task,
        Correct as correct,
        OptionChosen as chosen,
        case
            when len($verdicts) > 0 then cast(list_position($verdicts, chosen) as integer)
            else try_cast(regexp_extract(chosen, '^Answer([0-9]+)$', 1) as integer)
        end as option
    from source

),

judged as (

    select
        cells.*,
        choices.number,
        case
            when participant_id is null then 'pKey is empty'
            when not regexp_full_match(participant_id, '[A-Za-z0-9._-]+')
            then 'pKey is not made of letters, digits and . _ -'
            when task is distinct from $task then 'Task is not ' || $task
            when scenarios.item is null then 'itemNum is not the number of a scenario'
            when number is null then 'OptionChosen is not one of the options'
            when correct is null or correct not in ('0', '1') then 'Correct is not 0 or 1'
            when (correct = '1') <> is_right then 'Correct contradicts the key'
        end as flaw
    from cells
    left join scenarios on cells.item = scenarios.item
    left join choices on cells.item = choices.item and cells.option = choices.option

),

placed as (

    select
        *,
        row_number() over (partition by participant_id, item, flaw is null order by source_row) as occurrence,
        count(*) filter (flaw is null) over (partition by participant_id) as n_readable
    from judged

)

select
    * exclude (flaw),
    case
        {fault_branches("flaw", "participant_id")}
        when occurrence > 1 then 'a second response to the same question by the same participant'
    end as flaw
from placed
"""

_ITEMS = """
with

listed as (

    select
        item,
        list(cast(number as varchar) order by number) as legal_options,
        list(cast(number as varchar)) filter (is_right) as credited_options,
        string_agg({option}, chr(10) order by number) as options
    from choices
    group by item

),

questions as (

    select
        listed.*,
        scenarios.scenario,
        {instructions} as instructions,
        array_to_string(listed.legal_options, ', ') as numbers
    from listed
    inner join scenarios on listed.item = scenarios.item

)

select
    $run_id || '/' || item as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    {prompt} as prompt,
    $template_id as template_id,
    $template_sha256 as template_sha256,
    legal_options,
    credited_options,
    to_json({{phenomenon: $phenomenon, scenario: item}}) as facts_json,
    1.0 as weight
from questions
order by item
"""

_HUMAN_RESPONSES = """
select
    $run_id || '/' || item as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    cast(number as varchar) as response,
    1.0 as weight
from responses
where flaw is null
order by participant_id, item
"""


class PragmaticsImporter:
    """Reads the responses to the questions of one phenomenon, together with these questions."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of responses; None for any other file of the repository."""
        responses = _RESPONSES_FILE.fullmatch(file.path)
        if responses is None:
            return None
        # other words in the questions make other items, though the responses stay the same
        parts = sorted(
            [file, *_questions(source, responses["phenomenon"]).values()], key=lambda one: one.path
        )
        digest = hashlib.sha256("\n".join(part.sha256 for part in parts).encode()).hexdigest()
        return f"{source.id}-{responses['phenomenon']}-{digest[:12]}-v{IMPORTER_VERSION}"

    def companions(self, source: Source, file: PinnedFile) -> tuple[PinnedFile, ...]:
        """Return the scenarios, options and keys of the phenomenon.

        Raises
        ------
        InvalidSource
            If the source does not pin one of them.
        """
        phenomenon = _phenomenon(file, source.uri(file))
        found = _questions(source, phenomenon)
        if missing := sorted(set(_question_paths(phenomenon)) - set(found)):
            raise InvalidSource(f"{source.uri(file)}: expected {', '.join(missing)} in the same source")
        return tuple(found.values())

    def read_with(
        self, source: Source, file: PinnedFile, path: Path, companions: Mapping[str, Path]
    ) -> Imported:
        """Turn each scenario into an item that all participants share, and each choice into a response.

        Raises
        ------
        InvalidSource
            If the file is not CSV with the source's columns, or the questions are not complete.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        phenomenon = _phenomenon(file, where)
        _load_questions(self._con, phenomenon, companions, where)
        n_rows = read_rows(self._con, path, where, _COLUMNS)
        verdicts = list(_VERDICTS) if phenomenon == _VERDICTS_ON else []
        self._con.execute(_RESPONSES, {"task": PHENOMENA[phenomenon], "verdicts": verdicts})
        template = load_template(TEMPLATE_ID)
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        about = {
            "phenomenon": phenomenon,
            "template_id": template.id,
            "template_sha256": template.sha256,
        }
        items = _ITEMS.format(
            option=template.sql("option"), instructions=template.sql(phenomenon), prompt=template.sql()
        )
        return imported(
            source,
            file,
            run_id=str(run_id),
            importer_version=IMPORTER_VERSION,
            dataset=phenomenon,
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


def _phenomenon(file: PinnedFile, where: str) -> str:
    responses = _RESPONSES_FILE.fullmatch(file.path)
    if responses is None:
        raise InvalidSource(f"{where}: not a file of responses")
    return responses["phenomenon"]


def _question_paths(phenomenon: str) -> dict[str, str]:
    """Return which file holds which part of the questions, by path."""
    kinds = {"Scenarios": "scenarios", "Options": "options", "KeySimple": "keys"}
    return {
        f"fj_raw_data/{phenomenon}{suffix}.txt": table
        for suffix, table in kinds.items()
        if not (table == "options" and phenomenon == _VERDICTS_ON)
    }


def _questions(source: Source, phenomenon: str) -> dict[str, PinnedFile]:
    paths = _question_paths(phenomenon)
    return {file.path: file for file in source.files if file.path in paths}


def _load_questions(
    con: duckdb.DuckDBPyConnection, phenomenon: str, companions: Mapping[str, Path], where: str
) -> None:
    """Read the questions into ``scenarios`` and ``choices``."""
    rows = {
        table: _typed(_cells(companions[name], name, PHENOMENA[phenomenon]), table, name)
        for name, table in _question_paths(phenomenon).items()
    }
    if phenomenon == _VERDICTS_ON:
        rows["options"] = [
            (item, number, verdict)
            for item, _ in rows["scenarios"]
            for number, verdict in enumerate(_VERDICTS, start=1)
        ]
    for table, found in rows.items():
        _fill(con, table, found)
    for expected, offenders in _EXPECTED:
        if faulty := con.execute(f"select distinct item from ({offenders}) order by item").fetchall():
            raise InvalidSource(
                f"{where}: expected {expected} in its questions, found a fault in {len(faulty)} scenarios, "
                f"first number {faulty[0][0]}"
            )
    con.execute(_CHOICES)


def _fill(con: duckdb.DuckDBPyConnection, table: str, rows: Collection[tuple[object, ...]]) -> None:
    schema = _QUESTION_TABLES[table]
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    con.register("read", pa.table(list(map(list, columns)), schema=schema))
    con.execute(f"create or replace table {table} as select * from read")
    con.unregister("read")


def _cells(path: Path, name: str, code: str) -> list[list[str]]:
    """Return the cells of a tab-separated file of some dozens of lines, without the code of its phenomenon.

    Lines end in CR, LF or both, within one file too; a quoted cell may hold such an end. Texts are NFC and
    single-spaced, and an accent may be written as in HTML.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = list(csv.reader(io.StringIO(text), delimiter="\t", strict=True))
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{name}: not UTF-8 text at byte {error.start}") from error
    except csv.Error as error:
        raise InvalidSource(f"{name}: not readable as tab-separated text ({error})") from error
    cells = [
        [" ".join(unicodedata.normalize("NFC", html.unescape(cell)).split()) for cell in line]
        for line in lines
    ]
    return [line[1:] if line[0] == code else line for line in cells if any(line)]


def _typed(rows: list[list[str]], table: str, name: str) -> list[tuple[object, ...]]:
    """Return the cells in the types of their table; a key may repeat the option's text, which is left out."""
    try:
        if table == "scenarios":
            return [(_number(item), scenario) for item, scenario in rows]
        if table == "options":
            return [(_number(item), _number(option), text) for item, option, text in rows]
        return [one for row in rows for one in _keys(row)]
    except (ValueError, KeyError) as error:
        raise InvalidSource(
            f"{name}: expected numbers and a text, or numbers and a verdict, in every line ({error})"
        ) from error


def _keys(row: list[str]) -> list[tuple[int, int, bool]]:
    *numbers, verdict = row
    if verdict in _VERDICTS:
        [item] = numbers
        return [(_number(item), number, text == verdict) for number, text in enumerate(_VERDICTS, start=1)]
    item, option, *_ = numbers
    return [(_number(item), _number(option), {"Correct": True, "Incorrect": False}[verdict])]


def _number(cell: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", cell):
        raise ValueError(f"expected a number, found {cell!r}")
    return int(cell)
