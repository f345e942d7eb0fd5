"""Logs of other harnesses as archived runs: read into a scratch database, matched with questions, appended.

A sample is the answer to a question of the lake if it says so by the item's id, or else if it asked the very
text of the question. What is neither stays, as an output with the status ``error``. Where several questions
have the same text, the first sample answers the first of them and so on, and a sample that is alone answers
all. Answers to one question in several epochs are runs of their own.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from ingest import inspect_log, lm_eval_log
from ingest.log_samples import SCHEMA, LogFacts
from store.errors import LakeUnusable, WrongUsage
from store.lake import Part, append, commit_parts, committed_paths, committed_runs, part_paths
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

IMPORTER_VERSION = 1

LogFormat = Literal["lm-eval", "inspect"]
_READERS = {"lm-eval": lm_eval_log.read, "inspect": inspect_log.read}

# rows of one part; options of long lists make several parts
_ROWS_PER_PART = 500_000
_MEMORY_LIMIT = "1GiB"


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions that a log may hold answers to.

    Attributes
    ----------
    parts
        Files of ``raw/items`` that hold them.
    """

    mode_id: str
    source_id: str
    parts: Sequence[Path]


@dataclass(frozen=True, slots=True)
class LogReport:
    """What became of one epoch of a log.

    Attributes
    ----------
    n_new_rows
        Rows appended now, all raw tables together; 0 if the lake had the run.
    n_source_rows
        Samples of the epoch.
    n_answered, n_questions
        Questions of the mode that have an answer here, and all that it asks.
    n_unreadable_rows
        Outputs with a status other than ``ok``.
    """

    run_id: str
    model_id: str
    n_new_rows: int
    n_source_rows: int
    n_answered: int
    n_questions: int
    n_unreadable_rows: int
    notes: tuple[str, ...]


def run_id_of(form: LogFormat, sha256: str, mode_id: str, repeat: int = 0) -> str:
    """Return the run that a log becomes."""
    suffix = f"-r{repeat}" if repeat else ""
    return f"{form}-{mode_id}-{sha256[:12]}-v{IMPORTER_VERSION}{suffix}"


def import_log(
    lake: Home,
    form: LogFormat,
    path: Path,
    asked: Asked,
    *,
    model_id: str | None = None,
    model_revision: str | None = None,
) -> list[LogReport]:
    """Append the answers in a log, once, and return a report per epoch; none if the lake has them already.

    Parameters
    ----------
    model_id, model_revision
        What the log does not say, or says in other words.

    Raises
    ------
    WrongUsage
        If there is no such file, nobody says which model answered, or neither this log nor one that the lake
        has of the model says when it began, so that chance would decide which of them counts.
    InvalidSource
        If the file is not a log of that format. Nothing is added then.
    LakeUnusable
        If the lake cannot be written.
    """
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        raise WrongUsage(f"{path}: expected the file of a log, found {found}")
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    # epochs are committed from the last to the first, so with the first all are there
    if run_id_of(form, sha256, asked.mode_id) in committed_runs(lake):
        return []
    with _scratch() as con:
        facts = _READERS[form](con, path)
        model = model_id or facts.model_id
        if not model:
            raise WrongUsage(f"{path}: the log does not say which model answered: name it with --model")
        if facts.started_at is None:
            _refuse_second_undated(lake, path, sha256, asked, model)
        _match(con, asked, facts.task)
        _tell_known_prompts(con, lake)
        repeats = [row[0] for row in con.execute("select distinct repeat from samples order by 1").fetchall()]
        log = _Log(lake, form, path, sha256, asked, facts, model, model_revision or facts.model_revision)
        reports = [_add(con, log, repeat) for repeat in reversed(repeats)]
    return reports[::-1]


def _refuse_second_undated(lake: Home, path: Path, sha256: str, asked: Asked, model_id: str) -> None:
    undated = (
        (ds.field("kind") == "archived")
        & (ds.field("model_id") == model_id)
        & (ds.field("source_id") == asked.source_id)
        & (ds.field("importer_version") == IMPORTER_VERSION)
        & ds.field("started_at").is_null()
        # epochs of this log, where an import of it was interrupted
        & (ds.field("source_sha256") != sha256)
    )
    try:
        runs = ds.dataset([str(part) for part in part_paths(lake, "runs")], schema=RUNS)
        others = runs.to_table(["run_id", "planned_modes"], undated).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"raw/runs: {error}; run `coglake doctor`") from error
    for other in others:
        if asked.mode_id in other["planned_modes"]:
            raise WrongUsage(
                f"{path}: expected a log that says when it began, since the lake has one of {model_id} that "
                f"does not either ({other['run_id']}); put the results file beside the samples, give this "
                f"run a name of its own with --model, or delete the folders raw/*/run={other['run_id']}"
            )


@dataclass(frozen=True, slots=True)
class _Log:
    lake: Home
    form: LogFormat
    path: Path
    sha256: str
    asked: Asked
    facts: LogFacts
    model_id: str
    model_revision: str | None


@contextmanager
def _scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    with tempfile.TemporaryDirectory(prefix="coglake-") as folder:
        con = duckdb.connect(str(Path(folder) / "log.duckdb"))
        try:
            con.execute(f"set memory_limit = '{_MEMORY_LIMIT}'")
            con.execute(SCHEMA)
            yield con
        finally:
            con.close()


# --- which question a sample answers ---

_ITEMS = """
    create table items as
    select
        item_id,
        coalesce(participant_id, item_id) as episode_id,
        legal_options,
        coalesce(split, 'test') = 'test' as is_asked,
        sha256(prompt) as question_sha256
    from read_parquet($parts, union_by_name = true, hive_partitioning = false)
    where mode_id = $mode_id
"""
_MATCHED = """
    create table matched as
    with by_id as (
        select
            samples.*,
            items.item_id as found_id,
            true as is_by_id,
            items.question_sha256 is distinct from samples.question_sha256 as is_reworded
        from samples
        inner join items using (item_id)
    ),
    others as (
        select
            *,
            row_number() over same_text as nth,
            count(*) over (partition by question_sha256, repeat) as n
        from samples
        anti join items using (item_id)
        window same_text as (partition by question_sha256, repeat order by sample)
    ),
    questions as (
        select
            item_id as found_id,
            question_sha256,
            row_number() over (partition by question_sha256 order by item_id) as nth
        from items
        where is_asked and question_sha256 is not null
    ),
    by_text as (
        select
            others.* exclude (nth, n),
            questions.found_id,
            false as is_by_id,
            false as is_reworded
        from others
        left join questions
            on
                others.question_sha256 = questions.question_sha256
                and (others.n = 1 or others.nth = questions.nth)
    ),
    found as (
        select * from by_id
        union all by name
        select * from by_text
    ),
    counted as (
        -- who names a question is its first answer, whoever asked the same text before
        select
            *,
            found_id is not null
            and row_number() over (
                partition by found_id, repeat order by is_by_id desc, sample
            ) > 1 as is_again
        from found
    )
    select
        sample,
        repeat,
        case when not is_again then found_id end as item_id,
        response_text,
        finish_reason,
        prompt_sha256,
        n_prompt_tokens,
        n_response_tokens,
        options,
        logprobs,
        is_reworded,
        case
            when is_again then 'the question was answered by an earlier sample'
            when found_id is null then 'not a question of this mode'
            when error is not null then error
            when options is null and response_text is null then 'the log has no answer'
        end as error
    from counted
    qualify
        not is_again
        or (
            count(*) filter (not is_again) over (partition by sample, repeat) = 0
            and row_number() over (partition by sample, repeat order by found_id) = 1
        )
"""
_ANSWERS = """
    create table answers as
    select
        matched.* exclude (item_id, options, logprobs, error),
        coalesce(matched.item_id, $task || '/' || matched.sample) as item_id,
        matched.item_id is not null as is_question,
        coalesce(items.episode_id, $task || '/' || matched.sample) as episode_id,
        items.is_asked,
        error,
        items.legal_options,
        -- an option stands in the log as it was scored: behind a space, before a line break
        list_transform(options, lambda o: case
            when list_contains(items.legal_options, o) then o
            else trim(o, ' ' || chr(9) || chr(10) || chr(13))
        end) as options,
        list_transform(options, lambda o: case
            when ends_with(o, chr(10)) and list_contains(items.legal_options, o) is distinct from true
                then chr(10)
        end) as terminators,
        logprobs as written,
        list_transform(
            list_transform(logprobs, lambda nats: try_cast(nats as double)),
            lambda nats: case when isfinite(nats) then nats end
        ) as nats
    from matched
    left join items using (item_id)
"""
_OUTPUTS = """
    create table outputs as
    with missing as (
        select
            *,
            case
                when options is not null then list_filter(
                    coalesce(legal_options, options),
                    lambda o: nats[list_position(options, o)] is null
                )
            end as lacking
        from answers
    )
    select
        sample, repeat, item_id, is_question, is_asked, is_reworded, episode_id,
        case when error is null then response_text end as response_text,
        case
            when error is not null then 'error'
            when len(lacking) > 0 then 'missing_option'
            else 'ok'
        end as status,
        case
            when error is not null then error
            when len(lacking) > 0 then 'the log has no log-probability of ' || array_to_string(lacking, ', ')
        end as status_reason,
        finish_reason, prompt_sha256, n_prompt_tokens, n_response_tokens
    from missing
"""


def _match(con: duckdb.DuckDBPyConnection, asked: Asked, task: str) -> None:
    """Make tables ``answers`` and ``outputs`` of the samples, each with the question that it answers."""
    con.execute(_ITEMS, {"parts": [str(path) for path in asked.parts], "mode_id": asked.mode_id})
    con.execute(_MATCHED)
    con.execute(_ANSWERS, {"task": task})
    con.execute(_OUTPUTS)


def _tell_known_prompts(con: duckdb.DuckDBPyConnection, lake: Home) -> None:
    """Make the prompts that the lake has known to the database: each is kept once."""
    known = [str(path) for path in committed_paths(lake, "prompts")]
    con.execute("create table known (prompt_sha256 varchar)")
    if known:
        con.execute(
            "insert into known select prompt_sha256 from read_parquet($parts, hive_partitioning = false)",
            {"parts": known},
        )


# --- rows ---

_RAW = {
    "outputs": """
        select item_id, episode_id, response_text, status, status_reason, finish_reason, prompt_sha256,
            n_prompt_tokens, n_response_tokens
        from outputs where repeat = $repeat
        order by sample, item_id
    """,
    "output_options": """
        with options as (
            select
                sample, item_id, episode_id, options, terminators, written, nats,
                unnest(range(len(options))) as i
            from answers
            where repeat = $repeat and error is null
        )
        select
            item_id, episode_id,
            cast(i as integer) as option_index,
            options[i + 1] as option,
            nats[i + 1] as logprob_nats,
            cast(length(options[i + 1]) as integer) as n_characters,
            cast(strlen(options[i + 1]) as integer) as n_bytes,
            terminators[i + 1] as terminator,
            case when nats[i + 1] is null then 'missing_option' else 'ok' end as status,
            case
                when written[i + 1] is null then 'the log has no log-probability of it'
                when nats[i + 1] is null
                    then 'its log-probability is no finite number in the log: ' || written[i + 1]
            end as status_reason
        from options
        order by sample, item_id, i
    """,
    "verdicts": """
        select
            outputs.item_id,
            outputs.episode_id,
            grader_id,
            $grader_version as grader_version,
            case when number between 0 and 1 then number end as verdict,
            case when number between 0 and 1 then 'ok' else 'error' end as status,
            case
                when number between 0 and 1 then null
                else 'not a number from 0 to 1: ' || left(value, 80)
            end as status_reason
        from (select *, try_cast(value as double) as number from verdicts) as verdicts
        inner join outputs using (sample, repeat)
        where repeat = $repeat
        order by sample, outputs.item_id, grader_id
    """,
    # with the last epoch, which is committed first
    "prompts": """
        select prompt_sha256, any_value(text) as text
        from prompts
        anti join known using (prompt_sha256)
        where $repeat = (select max(repeat) from samples)
        group by prompt_sha256
        order by prompt_sha256
    """,
}


def _add(con: duckdb.DuckDBPyConnection, log: _Log, repeat: int) -> LogReport:
    """Append one epoch and commit it."""
    run_id = run_id_of(log.form, log.sha256, log.asked.mode_id, repeat)
    parts: list[Part] = []
    for table, query in _RAW.items():
        values: dict[str, object] = {"repeat": repeat}
        if table == "verdicts":
            values["grader_version"] = log.facts.grader_version
        parts += _append(con, log, table, query, values, run_id)
    counted = _counted(con, repeat)
    notes = _notes(log, counted)
    run = _run(log, run_id, repeat, counted, notes)
    parts = list(commit_parts(log.lake, run_id, parts, pa.Table.from_pylist([run], RUNS)))
    return LogReport(
        run_id=run_id,
        model_id=log.model_id,
        n_new_rows=sum(part.n_rows for part in parts if part.is_new),
        n_source_rows=counted.n_samples,
        n_answered=counted.n_answered,
        n_questions=counted.n_questions,
        n_unreadable_rows=counted.n_unreadable,
        notes=tuple(notes),
    )


def _append(
    con: duckdb.DuckDBPyConnection, log: _Log, table: str, query: str, values: dict[str, object], run_id: str
) -> Iterator[Part]:
    schema = RAW_TABLES[table]
    shared = {"run_id": run_id, "mode_id": log.asked.mode_id}
    held: list[pa.RecordBatch] = []

    def part() -> Part:
        found = pa.Table.from_batches(held)
        held.clear()
        columns = [
            pa.repeat(pa.scalar(shared[field.name]), found.num_rows)
            if field.name in shared
            else found[field.name]
            if field.name in found.column_names
            else pa.nulls(found.num_rows, field.type)
            for field in schema
        ]
        return append(log.lake, table, pa.table(columns, names=schema.names), run_id)

    reader = con.sql(query, params=values).to_arrow_reader(_ROWS_PER_PART)
    for batch in reader:
        held.append(batch)
        if sum(rows.num_rows for rows in held) >= _ROWS_PER_PART:
            yield part()
    if any(rows.num_rows for rows in held):
        yield part()


@dataclass(frozen=True, slots=True)
class _Counted:
    n_samples: int
    n_answered: int
    n_questions: int
    n_unreadable: int
    n_for_fitting: int
    n_reworded: int
    n_by_reason: Sequence[tuple[str, int]]


def _counted(con: duckdb.DuckDBPyConnection, repeat: int) -> _Counted:
    counts = con.execute(
        """
        select
            (select count(*) from samples where repeat = $repeat),
            count(*) filter (is_question and is_asked),
            (select count(*) from items where is_asked),
            count(*) filter (status <> 'ok'),
            count(*) filter (is_question and not is_asked),
            count(*) filter (is_question and is_reworded)
        from outputs where repeat = $repeat
        """,
        {"repeat": repeat},
    ).fetchone()
    assert counts is not None
    n_samples, n_answered, n_questions, n_unreadable, n_for_fitting, n_reworded = counts
    reasons = con.execute(
        """
        select status_reason, count(*) as n from outputs
        where repeat = $repeat and status <> 'ok'
        group by status_reason order by n desc, status_reason limit 5
        """,
        {"repeat": repeat},
    ).fetchall()
    return _Counted(
        n_samples, n_answered, n_questions, n_unreadable, n_for_fitting, n_reworded, n_by_reason=reasons
    )


def _notes(log: _Log, counted: _Counted) -> list[str]:
    """Say what the log lacks and what could not be used, one sentence each."""
    notes = [*log.facts.notes]
    if log.model_revision is None:
        notes.append("No immutable revision of the model is known.")
    if counted.n_reworded:
        notes.append(
            f"{counted.n_reworded} questions were asked in other words than the lake has: prompts are kept."
        )
    if counted.n_for_fitting:
        notes.append(f"{counted.n_for_fitting} answers are to questions that are for fitting: never scored.")
    if absent := counted.n_questions - counted.n_answered:
        notes.append(f"{absent} of {counted.n_questions} questions of the mode have no answer in the log.")
    return [*notes, *(f"{n} of the outputs: {reason}." for reason, n in counted.n_by_reason)]


def _run(log: _Log, run_id: str, repeat: int, counted: _Counted, notes: Sequence[str]) -> dict[str, object]:
    facts = log.facts
    identity = {
        "file": log.path.name,
        "source_sha256": log.sha256,
        "importer": log.form,
        "importer_version": IMPORTER_VERSION,
        "model_id": log.model_id,
        "model_revision": log.model_revision,
        "mode_id": log.asked.mode_id,
        "source_id": log.asked.source_id,
    }
    canonical = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return {
        "run_id": run_id,
        "kind": "archived",
        "model_id": log.model_id,
        "model_revision": log.model_revision,
        "agent_kind": "language_model",
        "planned_modes": [log.asked.mode_id],
        "protocol": facts.protocol,
        "engine": facts.engine,
        "engine_version": facts.engine_version,
        "dtype": facts.dtype,
        "context_effective_tokens": facts.context_tokens,
        "repeat": repeat,
        "identity_sha256": hashlib.sha256(canonical.encode()).hexdigest(),
        "identity_json": canonical,
        "source_id": log.asked.source_id,
        "source_sha256": log.sha256,
        "importer_version": IMPORTER_VERSION,
        "n_source_rows": counted.n_samples,
        "n_unreadable_rows": counted.n_unreadable,
        "notes": list(notes),
        "environment_json": json.dumps(facts.stated, sort_keys=True, ensure_ascii=False, default=str),
        "started_at": facts.started_at,
    }
