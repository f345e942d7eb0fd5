"""Psych-101: transcripts of experiments in words, one person a line, as questions and human responses.

Source: Binz et al. (2025), A foundation model to predict and capture human cognition; the training people in
marcelbinz/Psych-101, the held-out ones in marcelbinz/Psych-101-test. ``manifests/psych_101.toml`` says how
each task is read, and what of that is known for certain.

A question is one marked response: its prompt is the transcript up to the mark, earlier responses and their
feedback included and their marks taken off, since that is what the person had before them. In a task of
independent blocks it is the instructions and the current block. Only people of the test split are asked.

A line is JSON as DuckDB reads it, which lets a comma before a closing brace and NaN pass. Files are read one
at a time: it shows that a person is in a file twice, and not that one is in the training and the test file.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.contract import RawRows, with_every_column
from ingest.transcripts import (
    LONGEST_PROMPT,
    Mark,
    Task,
    TranscriptRules,
    blocks_of_lines,
    load_rules,
    number,
    quoted,
)
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template
from store.schemas import HUMAN_RESPONSES, ITEMS, RUNS

# both repositories are one data set, and the rows of Table 3 name it
SOURCE_ID = "psych_101"
TEMPLATE_ID = "psych_101"

# prompts grow with the square of a transcript, so they are built and written some of them at a time
_CHARACTERS_AT_ONCE = 2 << 20
# what an item takes without its prompt, roughly
_CHARACTERS_AROUND = 500
_PART_BYTES = 4 << 20
# DuckDB holds one block of lines and what is found in it; nothing of that is worth a file on the disk
_DUCKDB: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "256MB", "temp_directory": ""}

_SCHEMAS = {"items": ITEMS, "human_responses": HUMAN_RESPONSES}

_DOCUMENTS = """
create or replace temp table documents as
with

decoded as (

    select
        line,
        is_too_long,
        try(decode(content)) as document
    from batch

),

records as (

    select
        *,
        try(
            json_transform(
                document, '{"text": "VARCHAR", "experiment": "VARCHAR", "participant": "VARCHAR"}'
            )
        ) as record,
        try(json_type(document, ['$.text', '$.experiment', '$.participant'])) as kinds
    from decoded

)

select
    line,
    record.text as text,
    nfc_normalize(trim(record.experiment)) as experiment,
    nfc_normalize(trim(record.participant)) as participant,
    case
        when is_too_long then 'longer than 2 MiB'
        when document is null then 'not UTF-8 text'
        when record is null or not starts_with(ltrim(document), '{') then 'not a JSON object'
        when coalesce(record.text, '') = '' then 'the key text is missing or empty'
        when kinds[1] <> 'VARCHAR' then 'the key text is not a text'
        when coalesce(trim(record.experiment), '') = '' then 'the key experiment is missing or empty'
        when kinds[2] <> 'VARCHAR' then 'the key experiment is not a text'
        when coalesce(trim(record.participant), '') = '' then 'the key participant is missing or empty'
        when kinds[3] not in ('VARCHAR', 'UBIGINT', 'BIGINT')
            then 'the key participant is neither a text nor a whole number'
    end as flaw
from records
"""

# the first part of a split text is what stands before the first mark, any other begins with a response
_TRANSCRIPTS = """
create or replace temp table transcripts as
with

normal as (

    select
        documents.line,
        documents.experiment,
        documents.participant,
        experiments.task,
        experiments.name || '/' || documents.participant as participant_id,
        replace(nfc_normalize(documents.text), E'\\r\\n', E'\\n') as text,
        documents.text as original
    from documents
    inner join experiments on documents.experiment = experiments.experiment
    where documents.flaw is null

),

cut as (

    select
        * exclude (original),
        text <> original as is_changed,
        string_split(text, '<<') as segments
    from normal

),

checked as (

    select
        *,
        case
            when contains(segments[1], '>>')
                or list_bool_or(
                    list_transform(segments[2:], lambda segment: len(string_split(segment, '>>')) <> 2)
                )
                then 'its marks are not in pairs'
            when len(segments) = 1 then 'it has no mark'
        end as shape_flaw
    from cut

)

select
    * exclude (segments),
    segments[1] as instructions,
    -- what the person saw: the marks are the transcript's
    replace(replace(text, '<<', ''), '>>', '') as visible,
    coalesce(
        shape_flaw,
        case
            when
                participant_id in (select seen.participant_id from seen)
                or row_number() over (partition by participant_id, shape_flaw is null order by line) > 1
                then 'its participant is there already'
        end
    ) as flaw
from checked
"""


_TASKS_THERE = "select distinct task from transcripts where flaw is null order by task"

# the visible text from each beginning to the next, and that of a mark
_BLOCKS = """
create or replace temp table blocks as
with

starts as (

    select distinct
        line,
        coalesce(block_start, 0) as start
    from marks

),

bounded as (

    select
        *,
        lead(start) over (partition by line order by start) as next_start
    from starts

)

select
    bounded.line,
    bounded.start,
    substr(
        transcripts.visible,
        start + 1,
        coalesce(next_start, length(transcripts.visible)) - start
    ) as text
from bounded
inner join transcripts on bounded.line = transcripts.line
"""
_BLOCKS_OF = (
    "inner join blocks on {marks}.line = blocks.line and coalesce({marks}.block_start, 0) = blocks.start"
)


def _marks_sql(task: Task) -> str:
    """Return the SELECT of all marks of a task with their places and their kind."""
    kinds = " ".join(f"when {mark.condition()} then {kind}" for kind, mark in enumerate(task.marks))
    if task.block is None:
        block_columns, blocks = "", ""
    else:
        before = f"'(?s)^(.*)' || {quoted(task.block)}"
        block_columns = f"""
            , case
                when regexp_matches(lead, {quoted(task.block)})
                    then lead_start + length(regexp_extract(lead, {before}, 1))
            end as own_block_start"""
        blocks = """
            , last_value(own_block_start ignore nulls) over later as block_start
            , first_value(own_block_start ignore nulls) over later as first_block_start
            , greatest(count(own_block_start) over later - 1, 0) as block_number"""
    return f"""
        with

        segments as (

            select
                line,
                instructions,
                unnest(string_split(text, '<<')[2:]) as segment,
                generate_subscripts(string_split(text, '<<')[2:], 1) as mark
            from transcripts
            where task = $task and flaw is null

        ),

        parted as (

            select
                line,
                instructions,
                mark,
                split_part(segment, '>>', 1) as marked,
                split_part(segment, '>>', 2) as tail
            from segments

        ),

        placed as (

            select
                * exclude (instructions),
                coalesce(lag(tail) over earlier, instructions) as lead,
                length(instructions) + cast(
                    coalesce(
                        sum(length(marked) + length(tail)) over (
                            earlier rows between unbounded preceding and 1 preceding
                        ),
                        0
                    ) as bigint
                ) as mark_start
            from parted
            window earlier as (partition by line order by mark)

        ),

        located as (

            select
                *,
                mark_start - length(lead) as lead_start
            from placed

        ),

        begun as (

            select
                *
                {block_columns}
            from located

        ),

        kinds as (

            select
                *,
                case {kinds} end as kind
                {blocks}
            from begun
            window later as (partition by line order by mark)

        )

        select
            *,
            row_number() over (partition by line, kind is null order by mark) - 1 as trial
        from kinds
    """


def _questions_sql(task: Task, kind: int, mark: Mark) -> str:
    """Return the SELECT of the questions of one kind, without their prompts."""
    block_text, blocks = "", ""
    if task.block is not None:
        block_text = ", substr(blocks.text, 1, mark_start - blocks.start) as block"
        blocks = _BLOCKS_OF.format(marks="marks")
    columns = {f"fact_{place}": fact.sql() for place, fact in enumerate(mark.facts.values())}
    by_name = dict(zip(mark.facts, columns, strict=True))
    facts = {"trial": "trial", "experiment": "experiment"}
    if task.block_fact is not None:
        facts[task.block_fact] = "block_number"
    facts |= by_name
    named = ", ".join(f"{quoted(name)}: {sql}" for name, sql in facts.items())
    lacking = " or ".join(f"{column} is null" for column in columns) or "false"
    report = number("response", mark.numbers) if mark.numbers or mark.options.integers else "null"
    is_matched = mark.target is not None and mark.target.is_response
    low, high = mark.support or ("null", "null")
    # a whole number may be written as 90.0
    response = "trim(marked)"
    if mark.options.integers is not None:
        whole = f"try_cast({response} as double)"
        response = (
            f"case when {whole} = round({whole}) and abs({whole}) < 1e9 then cast(cast({whole} as bigint) "
            f"as varchar) else {response} end"
        )
    return f"""
        with

        answered as (

            select
                marks.*,
                transcripts.experiment,
                transcripts.participant,
                transcripts.participant_id,
                transcripts.instructions,
                {response} as response,
                {mark.options.sql()} as options
                {block_text}
            from marks
            inner join transcripts on marks.line = transcripts.line
            {blocks}
            where marks.kind = {kind}

        ),

        known as (

            select
                *
                {"".join(f", {sql} as {column}" for column, sql in columns.items())}
            from answered

        )

        select
            line,
            mark,
            mark_start,
            {"block_start, first_block_start" if task.history == "block" else "null, null"},
            experiment,
            participant_id,
            {_split_sql(task)} as split,
            options,
            {mark.credited.sql(by_name) if mark.credited is not None else "null"} as credited,
            {_target_sql(mark, report)} as target,
            {low} as support_low,
            {high} as support_high,
            cast(to_json({{{named}}}) as varchar) as facts_json,
            response,
            {report} as response_number,
            coalesce(len(list_distinct(options)) < greatest(len(options), 2), true) as is_without_options,
            {lacking} as is_without_a_fact,
            {"credited is null" if mark.credited is not None else "false"} as is_without_credit,
            {"target is null" if is_matched else "false"} as is_without_target
        from known
    """


def _target_sql(mark: Mark, report: str) -> str:
    """Return the number to be matched as SQL; null for one outside its support."""
    if mark.target is None:
        return "null"
    if mark.target.find is None:
        found, is_valid = report, "list_contains(options, response)"
    else:
        named = f"nullif(regexp_extract(tail, {quoted(mark.target.find)}, 1), '')"
        found, is_valid = number(named, mark.numbers), "true"
    if mark.support is not None:
        low, high = mark.support
        is_valid += f" and {found} between {low} and {high}"
    return f"case when {is_valid} then {found} end"


def _split_sql(task: Task) -> str:
    if task.split == "file":
        return "$file_split"
    tenth = "cast('0x' || substr(md5(participant_id), 1, 8) as ubigint) % 10 = 0"
    return f"case when {tenth} then 'test' else 'train' end"


_QUESTIONS = """
create or replace temp table questions (
    line bigint, mark bigint, mark_start bigint, block_start bigint, first_block_start bigint,
    experiment varchar, participant_id varchar, split varchar, options varchar[], credited varchar,
    target double, support_low double, support_high double, facts_json varchar,
    response varchar, response_number double, is_without_options boolean, is_without_a_fact boolean,
    is_without_credit boolean, is_without_target boolean
)
"""

# what is wrong with marks: (sentence after the experiment, condition of a row of ``asked``, is it unreadable)
_MARK_FLAWS = (
    ("left_out || '; left out'", "left_out is not null", True),
    (
        "no_response || '; the question is kept without it'",
        "left_out is null and no_response is not null",
        True,
    ),
    (
        "'a fact is not found in the text; kept without it'",
        "left_out is null and is_without_a_fact",
        False,
    ),
)

# sessions without any usable response are named: nothing of their people is known
_WITHOUT_RESPONSES = """
select
    experiment || ': in no mark can a response be used',
    count(*)
from transcripts
where
    task = $task
    and flaw is null
    and line not in (select asked.line from asked where asked.left_out is null and asked.no_response is null)
group by experiment
order by experiment
"""

_ASKED = """
create or replace temp table asked as
with

measured as (

    select
        *,
        case
            when split = 'train' then 0
            else mark_start - coalesce(block_start, 0) + coalesce(first_block_start, 0)
        end as n_characters,
        case
            when response = '' then 'empty'
            when not list_contains(options, response) then 'none of the options'
        end as no_response
    from questions

)

select
    *,
    case
        when is_without_options then 'the options are not named'
        when n_characters > $longest then format('after more than {:,} characters', $longest)
        when is_without_target then coalesce(no_response, 'outside its support')
        when is_without_credit then 'nothing says which option is right'
    end as left_out,
    cast(
        floor(
            sum(case when n_characters <= $longest then n_characters + $around else 0 end)
                over (order by line, mark) / $at_once
        ) as bigint
    ) as slice
from measured
"""

_NAMES = """
    $run_id || '/' || asked.participant_id || '/' || asked.mark as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    asked.split,
    asked.participant_id,
    1.0 as weight
"""

_RESPONSES = f"""
select
    {_NAMES},
    response,
    response_number
from asked
where left_out is null and no_response is null
order by line, mark
"""


def _items_sql(template: Template, task: Task) -> str:
    """Return the SELECT of one slice of items with their prompts."""
    transcript, blocks = "substr(transcripts.visible, 1, asked.mark_start)", ""
    if task.history == "block":
        transcript = """
            substr(transcripts.visible, 1, coalesce(asked.first_block_start, 0))
            || substr(blocks.text, 1, asked.mark_start - blocks.start)
        """
        blocks = _BLOCKS_OF.format(marks="asked")
    return f"""
        with

        told as (

            select
                asked.*,
                array_to_string(asked.options, ', ') as options_text,
                case when asked.split <> 'train' then rtrim({transcript}, E' \\n\\t') end as transcript
            from asked
            inner join transcripts on asked.line = transcripts.line
            {blocks}
            where asked.slice = $slice and asked.left_out is null

        ),

        filled as (

            select * exclude (options), options_text as options, options as legal_options from told

        )

        select
            {_NAMES},
            {template.sql()} as prompt,
            case when asked.split <> 'train' then $template_id end as template_id,
            case when asked.split <> 'train' then $template_sha256 end as template_sha256,
            legal_options,
            case when credited is not null then [credited] end as credited_options,
            support_low,
            support_high,
            target,
            facts_json
        from filled as asked
        order by line, mark
    """


class PsychImporter:
    """Reads a file of transcripts, part by part.

    Parameters
    ----------
    rules
        The manifest; by default ``manifests/psych_101.toml``.
    """

    def __init__(self, rules: Path | None = None) -> None:
        self._path = rules

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file that the manifest names; None for any other."""
        if file.path not in self._rules.files:
            return None
        return f"{source.id}-{Path(file.path).stem}-{file.sha256[:12]}-v{self._rules.version}"

    def stream(self, source: Source, file: PinnedFile, path: Path) -> Iterator[RawRows]:
        """Yield items and responses of some megabytes of transcripts at a time, and the run at last.

        What cannot be read of a line or of a response is left out and counted in the notes.

        Raises
        ------
        InvalidSource
            If the file cannot be read to its end, or no line of it is a transcript.
        """
        run_id = f"{self.identify(source, file)}"
        reading = _Reading(self._rules, load_template(TEMPLATE_ID), run_id, self._rules.files[file.path])
        where = source.uri(file)
        yield from reading.rows(path, where)
        if reading.n_transcripts and not reading.n_readable:
            raise InvalidSource(
                f"{where}: expected a JSON object with text, experiment and participant in each line, found "
                f"none in {reading.n_transcripts:,} lines"
            )
        notes = reading.notes()
        run = {
            "run_id": run_id,
            "kind": "items",
            "model_id": Path(file.path).stem,
            "agent_kind": "human",
            "planned_modes": sorted({task.mode for task in self._rules.tasks.values()}),
            "source_id": SOURCE_ID,
            "source_uri": where,
            "source_sha256": file.sha256,
            "importer_version": self._rules.version,
            "n_source_rows": reading.n_transcripts,
            "n_unreadable_rows": reading.n_unreadable,
            "notes": notes if reading.n_transcripts else ("the file holds no transcripts",),
        }
        yield RawRows("runs", pa.Table.from_pylist([run], schema=RUNS))

    @cached_property
    def _rules(self) -> TranscriptRules:
        return load_rules(self._path)


class _Reading:
    """One file while it is read: what was found so far, and the tables of the current lines."""

    def __init__(self, rules: TranscriptRules, template: Template, run_id: str, file_split: str) -> None:
        self._rules, self._template = rules, template
        self._names = {"run_id": run_id, "source_id": SOURCE_ID}
        self._file_split = file_split
        self._transcripts: Counter[str] = Counter()
        self._responses: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._waiting: dict[str, list[pa.Table]] = {table: [] for table in _SCHEMAS}
        self.n_transcripts = 0
        self.n_readable = 0
        self.n_unreadable = 0
        self._con = duckdb.connect(config=_DUCKDB)
        experiments = {
            experiment: name for name, task in rules.tasks.items() for experiment in task.experiments
        }
        self._con.execute("create table seen (participant_id varchar)")
        self._con.execute(
            "create table experiments as select nfc_normalize(experiment) as experiment, task, "
            "regexp_replace(nfc_normalize(experiment), '[.]csv$', '') as name "
            "from (select unnest($experiments::varchar[]) as experiment, unnest($tasks::varchar[]) as task)",
            {"experiments": list(experiments), "tasks": list(experiments.values())},
        )

    def rows(self, path: Path, where: str) -> Iterator[RawRows]:
        """Yield the rows of all lines, in parts of a size that is good to write and to read."""
        n_lines = 0
        for lines in blocks_of_lines(path, where):
            found = [
                (place, line) for place, line in enumerate(lines, n_lines) if line is None or line.strip()
            ]
            n_lines += len(lines)
            if found:
                self._read(found)
                for (name,) in self._con.execute(_TASKS_THERE).fetchall():
                    yield from self._read_task(name, self._rules.tasks[name])
        yield from self._written(is_last=True)

    def notes(self) -> tuple[str, ...]:
        """Return one sentence per kind of flaw, and one that names what no task asks for."""
        notes = [f"{count:,} transcripts: {what}" for what, count in self._transcripts.most_common()]
        notes += [f"{count:,} responses: {what}" for what, count in self._responses.most_common()]
        if self._unknown:
            named = ", ".join(
                f"{experiment} ({count:,})" for experiment, count in sorted(self._unknown.items())
            )
            notes.append(
                f"{self._unknown.total():,} transcripts of {len(self._unknown):,} experiments that no task "
                f"names: {named}"
            )
        return tuple(notes)

    def _read(self, lines: list[tuple[int, bytes | None]]) -> None:
        """Read numbered lines into ``transcripts``."""
        batch = pa.table(
            {
                "line": pa.array([place for place, _ in lines], pa.int64()),
                "content": pa.array([line for _, line in lines], pa.large_binary()),
                "is_too_long": pa.array([line is None for _, line in lines], pa.bool_()),
            }
        )
        self._con.register("batch", batch)
        self._con.execute(_DOCUMENTS)
        self._con.unregister("batch")
        self._con.execute(_TRANSCRIPTS)
        self._con.execute("insert into seen select participant_id from transcripts where flaw is null")
        [(n_lines, n_readable)] = self._con.execute(
            "select count(*), count(*) filter (flaw is null) from documents"
        ).fetchall()
        self.n_transcripts += n_lines
        self.n_readable += n_readable
        self._unknown.update(
            dict(
                self._con.execute(
                    "select experiment, count(*) from documents where flaw is null "
                    "and experiment not in (select e.experiment from experiments as e) group by experiment"
                ).fetchall()
            )
        )
        flaws = self._con.execute(
            "select flaw || '; left out', count(*) from documents where flaw is not null group by flaw "
            "union all select experiment || ': ' || flaw || '; left out', count(*) from transcripts "
            "where flaw is not null group by experiment, flaw order by all"
        ).fetchall()
        self._transcripts.update(dict(flaws))
        self.n_unreadable += sum(count for _, count in flaws)
        self._transcripts.update(
            dict(
                self._con.execute(
                    "select experiment || ': brought to NFC and plain line ends', count(*) "
                    "from transcripts where flaw is null and is_changed group by experiment order by all"
                ).fetchall()
            )
        )

    def _read_task(self, name: str, task: Task) -> Iterator[RawRows]:
        con = self._con
        con.execute(f"create or replace temp table marks as {_marks_sql(task)}", {"task": name})
        if task.block is not None:
            con.execute(_BLOCKS)
        con.execute(_QUESTIONS)
        for kind, mark in enumerate(task.marks):
            select = _questions_sql(task, kind, mark)
            split = {"file_split": self._file_split} if task.split == "file" else {}
            con.execute(f"insert into questions {select}", split)
        con.execute(
            _ASKED,
            {"longest": LONGEST_PROMPT, "around": _CHARACTERS_AROUND, "at_once": _CHARACTERS_AT_ONCE},
        )
        self._note_responses(name)
        names = self._names | {"mode_id": task.mode}
        items_sql = _items_sql(self._template, task)
        texts = {"template_id": self._template.id, "template_sha256": self._template.sha256}
        for (slice_,) in con.execute("select distinct slice from asked order by slice").fetchall():
            items = con.sql(items_sql, params=names | texts | {"slice": slice_}).to_arrow_table()
            self._waiting["items"].append(with_every_column(items, ITEMS))
            yield from self._written()
        responses = con.sql(_RESPONSES, params=names).to_arrow_table()
        self._waiting["human_responses"].append(with_every_column(responses, HUMAN_RESPONSES))
        yield from self._written()

    def _note_responses(self, task: str) -> None:
        other = (
            "select transcripts.experiment || ': of another kind than the task asks for; left out', "
            "count(*) from marks inner join transcripts on marks.line = transcripts.line "
            "where marks.kind is null group by transcripts.experiment order by all"
        )
        self._responses.update(dict(self._con.execute(other).fetchall()))
        for what, condition, is_unreadable in _MARK_FLAWS:
            select = (
                f"select experiment || ': ' || {what}, count(*) from asked where {condition} group by all"
            )
            flaws = dict(self._con.execute(f"{select} order by all").fetchall())
            self._responses.update(flaws)
            self.n_unreadable += sum(flaws.values()) if is_unreadable else 0
        self._transcripts.update(dict(self._con.execute(_WITHOUT_RESPONSES, {"task": task}).fetchall()))

    def _written(self, *, is_last: bool = False) -> Iterator[RawRows]:
        """Yield what waits if it is enough for a part."""
        for table, waiting in self._waiting.items():
            if waiting and (is_last or sum(rows.nbytes for rows in waiting) >= _PART_BYTES):
                rows = pa.concat_tables(waiting)
                waiting.clear()
                if rows.num_rows:
                    yield RawRows(table, rows)
