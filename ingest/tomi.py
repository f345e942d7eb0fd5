"""ToMi: questions about where people in a short story believe, or know, that an object is.

Source: Le, Boureau & Nickel (2019), Revisiting the evaluation of theory of mind through question answering,
``tomi_balanced_story_types.zip``: per split a ``.txt`` of numbered lines, in which the number 1 begins a
story and the last line of a story is a question with its answer, and a ``.trace`` with one line per question,
whose last two fields are the kinds of question and story. A story is told again for each of its questions.
"""

import lzma
import unicodedata
import zipfile
import zlib
from functools import cached_property
from pathlib import Path, PurePosixPath

import duckdb

from ingest.contract import Imported
from ingest.questions import imported
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

MODE_ID = "false_belief_qa"
DATASET = "tomi_balanced_story_types"
TEMPLATE_ID = "false_belief"

_QUESTIONS, _TRACE = f"{DATASET}/fb_all_test.txt", f"{DATASET}/fb_all_test.trace"
_OTHER_SPLITS = (f"{DATASET}/fb_all_train.txt", f"{DATASET}/fb_all_val.txt")
_NOT_ASKED = "questions of the splits train and val, which nobody is asked; left out"

# the pinned members are below 2 MB; a member that claims or holds more is not unpacked
_MAX_MEMBER_BYTES = 64 * 2**20

_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError)

# what an object is said to be put into; the groups are object and container
_PLACING = r"(?:^The| moved the) (\S+) (?:is in|to) the (\S+)\.$"
_OBJECT = r" the ([^ ?]+)(?: at the beginning| really)?\?$"

_STORIES = f"""
create or replace table stories as
with

lines as (

    select
        unnest(lines) as line,
        generate_subscripts(lines, 1) as place
    from (select string_split($questions, chr(10)) as lines)

),

numbered as (

    select
        place,
        try_cast(regexp_extract(line, '^([0-9]+) ', 1) as integer) as number,
        regexp_replace(line, '^[0-9]+ ', '') as sentence,
        count(*) filter (number = 1) over (order by place rows unbounded preceding) as position
    from lines
    where trim(line) <> ''

),

told as (

    select
        position,
        list(number order by place) = range(1, count(*) + 1) as is_numbered,
        list(sentence order by place)[:-2] as sentences,
        string_split(arg_max(sentence, place), chr(9)) as asked,
        -- tabs set the answer apart, so they are found in questions alone
        count(*) filter (contains(sentence, chr(9))) as n_questions
    from numbered
    group by position

),

read as (

    select
        position,
        coalesce(is_numbered, false) and n_questions = 1 and len(asked) = 3 as is_whole,
        array_to_string(sentences, chr(10)) as story,
        trim(asked[1]) as question,
        trim(asked[2]) as answer,
        regexp_extract(question, '{_OBJECT}', 1) as object,
        case regexp_extract(question, '^Where (was|is|will|does) ', 1)
            when 'was' then 'memory' when 'is' then 'reality'
            when 'will' then 'first_order' when 'does' then 'second_order'
        end as question_type,
        -- in the order of the alphabet: that of the story would tell where the object is now
        list_sort(list_distinct([
            regexp_extract(sentence, '{_PLACING}', 2)
            for sentence in sentences if regexp_extract(sentence, '{_PLACING}', 1) = object
        ])) as containers
    from told

),

traces as (

    select
        string_split(trim(unnest(lines)), ',') as fields,
        generate_subscripts(lines, 1) as position
    from (select string_split($trace, chr(10)) as lines)

)

select
    read.*,
    fields[-1] as story_type,
    case
        when not is_whole then 'the story is not numbered from 1 to one question as its last line'
        when question_type is null or object = '' then 'the question is of no known kind'
        when len(fields) < 3 then 'the trace has no kinds of question and story'
        when regexp_replace(fields[-2], '_[01]_(no_)?tom$', '') <> question_type
        then 'the trace is of another kind than the question'
        when len(containers) <> 2 then 'the object is not put into two containers'
        when not list_contains(containers, answer) then 'the answer is none of the two containers'
        when row_number() over (partition by story, question order by read.position) > 1
        then 'the story was told with this question before'
    end as flaw
from read
left join traces on read.position = traces.position
"""

_FLAWS = """
select flaw || '; left out', count(*) as n_rows from stories where flaw is not null
group by flaw order by n_rows desc, flaw
"""


def _items(template: Template) -> str:
    return f"""
        with

        kept as (

            select
                *,
                containers[1] as first,
                containers[2] as second,
                min(position) over (partition by story) as first_told
            from stories
            where flaw is null

        ),

        counted as (

            select
                *,
                dense_rank() over (order by first_told) - 1 as story_number,
                row_number() over (partition by first_told order by position) - 1 as question_number
            from kept

        )

        select
            $run_id || '/' || story_number || '/' || question_number as item_id,
            $mode_id as mode_id,
            $source_id as source_id,
            'test' as split,
            {template.sql()} as prompt,
            $template_id as template_id,
            $template_sha256 as template_sha256,
            containers as legal_options,
            [answer] as credited_options,
            to_json({{
                story: story_number, question_type: question_type, story_type: story_type
            }}) as facts_json,
            1.0 as weight
        from counted
        order by story_number, question_number
    """


class ToMiImporter:
    """Reads the questions of the test split out of their zip."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the zip; None for any other file of the repository."""
        if file.path != f"{DATASET}.zip":
            return None
        return f"{source.id}-{DATASET}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each question of the test split into an item; nobody's responses come with them.

        Raises
        ------
        InvalidSource
            If the file is no zip of the source's members, one of them is damaged, too large or has a path
            that leads out of the zip, or questions and traces differ in number.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        if run_id is None:
            raise InvalidSource(f"{where}: not the zip of the stories")
        texts = _unzipped(path, where)
        template = load_template(TEMPLATE_ID)
        con = self._con
        con.execute(_STORIES, {"questions": texts[_QUESTIONS], "trace": texts[_TRACE]})
        n_questions = _count(con, "select count(*) from stories")
        n_traces = len(texts[_TRACE].splitlines())
        if n_questions != n_traces:
            raise InvalidSource(
                f"{where}: expected one line of {_TRACE} per question, found {n_traces} for {n_questions}"
            )
        names = {
            "run_id": run_id,
            "mode_id": MODE_ID,
            "source_id": source.id,
            "template_id": template.id,
            "template_sha256": template.sha256,
        }
        items = con.sql(_items(template), params=names).to_arrow_table()
        flaws = con.execute(_FLAWS).fetchall()
        n_others = sum(text.count("\t") // 2 for name, text in texts.items() if name in _OTHER_SPLITS)
        if n_others:
            flaws.append((_NOT_ASKED, n_others))
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=DATASET,
            modes=[MODE_ID],
            tables={"items": items},
            n_source_rows=n_questions + n_others,
            flaws=flaws,
            set_aside=[_NOT_ASKED],
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _count(con: duckdb.DuckDBPyConnection, select: str) -> int:
    return int(con.execute(select).fetchall()[0][0])


def _unzipped(path: Path, where: str) -> dict[str, str]:
    """Return the members that are read, as text in Unicode's composed form; nothing is unpacked to disk."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _require_safe_paths([member.filename for member in members], where)
            names = {member.filename for member in members}
            if missing := sorted({_QUESTIONS, _TRACE} - names):
                raise InvalidSource(f"{where}: expected the member {missing[0]}, found none of this name")
            wanted = [name for name in (_QUESTIONS, _TRACE, *_OTHER_SPLITS) if name in names]
            return {name: _text(archive, archive.getinfo(name), where) for name in wanted}
    except (*_DAMAGED, OSError, NotImplementedError) as error:
        raise InvalidSource(f"{where}: not readable as zip ({error})") from error


def _require_safe_paths(names: list[str], where: str) -> None:
    for name in names:
        # a backslash separates folders for some programs, and a colon names a drive
        if name.startswith("/") or "\\" in name or ":" in name or ".." in PurePosixPath(name).parts:
            raise InvalidSource(f"{where}: expected members inside the zip, found the path {name!r}")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidSource(f"{where}: expected each member once, found {repeated[0]} several times")


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> str:
    if member.flag_bits & 1:
        raise InvalidSource(f"{where}: {member.filename} is encrypted")
    if member.file_size > _MAX_MEMBER_BYTES:
        raise InvalidSource(
            f"{where}: expected members of at most {_MAX_MEMBER_BYTES:,} bytes, found {member.filename} "
            f"of {member.file_size:,}"
        )
    try:
        # no more is unpacked than the member claims, and what differs from its claim fails its checksum
        text = archive.read(member).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{where}: {member.filename} is not UTF-8 text at byte {error.start}") from error
    return unicodedata.normalize("NFC", text).replace("\r\n", "\n").rstrip("\n")
