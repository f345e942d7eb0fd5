"""Samples of lm-evaluation-harness: ``samples_<task>_<time>.jsonl`` and the results file of the same run.

lm-eval writes one line per sample and filter: with two filters every sample is there twice, and only what the
filter made of the answer differs. The answer is taken from ``resps``, which no filter has touched.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import duckdb
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ingest.log_samples import LogFacts, without_secrets
from store.errors import InvalidSource

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.-]+)\.jsonl")
_COLUMNS = {
    "doc_id": "JSON",
    "doc": "JSON",
    "arguments": "MAP(VARCHAR, STRUCT(arg_0 VARCHAR, arg_1 JSON))",
    "resps": "JSON",
    "filter": "VARCHAR",
}
# longer than any prompt that a model takes; DuckDB holds two of them per thread
_LONGEST_LINE = 64 << 20

# lm-eval's own placeholder: it grades nothing
_NO_GRADER = "bypass"

_LINES = """
    create table lines as
    with read as (
        select
            row_number() over () as line,
            *,
            map_values(arguments) as calls
        from read_ndjson($path, columns = {columns}, maximum_object_size = {longest})
    )
    select
        line,
        filter,
        cast(doc_id as varchar) as doc_id,
        {metrics},
        doc ->> '$.item_id' as item_id,
        -- under a chat template the prompt is more than the question
        sha256(coalesce(
            case when doc ->> '$.item_id' is not null then doc ->> '$.prompt' end, calls[1].arg_0
        )) as question_sha256,
        calls[1].arg_0 as prompt,
        json_type(calls[1].arg_1) as kind,
        -- mutual information asks for the options once more, behind an empty prompt
        list_transform(
            list_filter(calls, lambda c: c.arg_0 = calls[1].arg_0), lambda c: c.arg_1 ->> '$'
        ) as options,
        try_cast(resps as json[][]) as answers
    from read
"""
_FIRST_FILTERS = """
    create table first_filters as
    select doc_id, arg_min_null(filter, line) as filter from lines group by doc_id
"""
# each sample once, also one that has not been through every filter
_KEPT = """
    create view kept as
    select lines.* from lines
    inner join first_filters
        on
            lines.doc_id is not distinct from first_filters.doc_id
            and lines.filter is not distinct from first_filters.filter
"""
_SAMPLES = """
    insert into samples
    with repeated as (
        select
            *,
            unnest(range(greatest(1, coalesce(list_max(list_transform(answers, lambda a: len(a))), 0))))
                as repeat
        from kept
    )
    select
        line,
        repeat,
        item_id,
        question_sha256,
        sha256(prompt),
        case when kind = 'VARCHAR' then options end,
        case
            when kind = 'VARCHAR' then list_transform(
                range(1, len(options) + 1),
                -- some versions write the pair of sum and greediness as one text
                lambda i: case json_type(answers[i][repeat + 1])
                    when 'ARRAY' then answers[i][repeat + 1] ->> '$[0]'
                    else regexp_extract(answers[i][repeat + 1] ->> '$', '^[(]?([^,)]+)', 1)
                end
            )
        end,
        case when kind = 'OBJECT' then answers[1][repeat + 1] ->> '$' end,
        null,
        null,
        null,
        case
            when kind is null or kind not in ('VARCHAR', 'OBJECT')
                then 'the log has neither options nor settings of a written answer'
            when answers is null then 'the log has no answer'
        end
    from repeated
"""
_VERDICTS = """
    insert into verdicts
    with of_sample as (
        select doc_id, min(line) as sample from kept group by doc_id
    )
    select
        of_sample.sample,
        0,
        'lm-eval ' || one.metric || ' (' || coalesce(lines.filter, 'no filter') || ')',
        case
            when json_type(one.value) in ('ARRAY', 'OBJECT') then cast(one.value as varchar)
            else one.value ->> '$'
        end
    from lines
    inner join of_sample on lines.doc_id = of_sample.doc_id,
        unnest(lines.graded) as u (one)
    where one.value is not null
    qualify row_number() over (partition by of_sample.sample, one.metric, lines.filter order by line) = 1
"""


def _only(kind: type) -> BeforeValidator:
    return BeforeValidator(lambda value: value if isinstance(value, kind) else None)


_Text = Annotated[str | None, _only(str)]
_Object = Annotated[dict[str, Any] | None, _only(dict)]


class _Config(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: _Text = None
    model_args: Any = None
    model_dtype: _Text = None
    model_revision: _Text = None
    model_sha: _Text = None
    limit: Any = None
    gen_kwargs: Any = None
    batch_size: Any = None
    device: Any = None
    random_seed: Any = None


class _Results(BaseModel):
    """What is used of a results file; versions of lm-eval have added fields, and renamed none of these."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    config: _Config = _Config()
    versions: _Object = None
    n_shot: _Object = None
    date: Annotated[float | None, _only(float)] = None
    lm_eval_version: _Text = None
    transformers_version: _Text = None
    model_name: _Text = None
    max_length: Annotated[int | None, _only(int)] = None
    system_instruction: _Text = None
    chat_template_sha: _Text = None


def read(con: duckdb.DuckDBPyConnection, path: Path) -> LogFacts:
    """Fill the tables of ``ingest.log_samples`` from a samples file and return what its results file says.

    Raises
    ------
    InvalidSource
        If a line is no JSON object, or none of lm-eval's; the sentence names it.
    """
    graders = _graders(path)
    metrics = ", ".join(f"{{'metric': {_quoted(name)}, 'value': {_identifier(name)}}}" for name in graders)
    columns = _COLUMNS | dict.fromkeys(graders, "JSON")
    listed = ", ".join(f"{_identifier(name)}: '{kind}'" for name, kind in columns.items())
    lines = _LINES.format(
        columns=f"{{{listed}}}",
        longest=_LONGEST_LINE,
        metrics=f"[{metrics}] as graded" if graders else "null as graded",
    )
    try:
        con.execute(lines, {"path": str(path)})
    except duckdb.InvalidInputException as error:
        raise _bad_line(path, error) from None
    con.execute(_FIRST_FILTERS)
    con.execute(_KEPT)
    con.execute(_SAMPLES)
    con.execute(
        "insert into prompts select sha256(prompt), any_value(prompt) from kept "
        "where prompt is not null group by prompt"
    )
    if graders:
        con.execute(_VERDICTS)
    filters = [name for (name,) in con.execute("select distinct filter from lines order by 1").fetchall()]
    return _facts(path, filters)


def _facts(path: Path, filters: Sequence[str | None]) -> LogFacts:
    """Return what the results file beside the samples says of the run."""
    named = _FILE.fullmatch(path.name)
    task = named["task"] if named else path.stem
    notes = ["lm-eval logs no token counts, no tokens and no log-probabilities of single tokens."]
    notes.append("lm-eval does not log whether prompt and option share a token.")
    if len(filters) > 1:
        names = ", ".join(str(name) for name in filters)
        notes.append(f"The log has every sample {len(filters)} times, once per filter ({names}): read once.")
    beside = path.with_name(f"results_{named['time']}.json") if named else None
    if beside is None or not beside.is_file():
        notes.append("No results file of the run lies beside the samples: its settings are not known.")
        return LogFacts(task, None, None, "unknown", "lm-eval", None, "unknown", notes=notes)
    results = _results(beside)
    config = results.config
    named_model = _model_of(config.model_args) or results.model_name
    model_id = named_model.rstrip("/").rpartition("/")[2] if _is_folder(named_model) else named_model
    if model_id != named_model:
        notes.append(f"The model was a folder, {named_model}: its name is taken for the model's.")
    n_shots = (results.n_shot or {}).get(task)
    protocol = "chat" if results.chat_template_sha else "plain"
    protocol += f", {n_shots} shots" if n_shots else ""
    protocol += ", system prompt" if results.system_instruction else ""
    if config.limit is not None:
        notes.append(f"The run was limited to {config.limit} questions of each task.")
    version = (results.versions or {}).get(task)
    return LogFacts(
        task=task,
        model_id=model_id,
        # an empty text where the model was a folder
        model_revision=config.model_sha or _commit(config.model_revision),
        protocol=protocol,
        engine=f"lm-eval {config.model}" if config.model else "lm-eval",
        engine_version=results.lm_eval_version,
        grader_version=f"{results.lm_eval_version or 'unknown'}, task {version}",
        dtype=config.model_dtype.removeprefix("torch.") if config.model_dtype else None,
        context_tokens=results.max_length,
        started_at=_time(results.date),
        stated={
            "task": task,
            "task_version": version,
            "transformers": results.transformers_version,
            **config.model_dump(exclude={"model_args", "model_dtype"}),
            "model_args": without_secrets(_arguments(config.model_args)),
        },
        notes=notes,
    )


def _results(path: Path) -> _Results:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            found["n_shot"] = found.get("n-shot")
        return _Results.model_validate(found)
    except (OSError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise InvalidSource(
            f"{path}: expected the results file of an lm-eval run, found none ({first}); "
            "move it away to import the samples without it, and name --model"
        ) from None


def _time(seconds: float | None) -> datetime | None:
    """Return a moment of this calendar; None for what is none."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _arguments(model_args: object) -> dict[str, object]:
    """Return the arguments of the model: an object, or one text in older versions."""
    if isinstance(model_args, str):
        pairs = (pair.partition("=") for pair in model_args.split(",") if "=" in pair)
        return {name: value for name, _, value in pairs}
    return model_args if isinstance(model_args, dict) else {}


def _model_of(model_args: object) -> str | None:
    arguments = _arguments(model_args)
    return next((str(arguments[key]) for key in ("pretrained", "model") if arguments.get(key)), None)


def _is_folder(model: str | None) -> TypeGuard[str]:
    """Tell whether a name is a path: a repository of the hub has one slash, and not in front."""
    return model is not None and (model[:1] in ("/", ".", "~") or model.count("/") > 1)


def _commit(revision: str | None) -> str | None:
    return revision if revision and re.fullmatch(r"[0-9a-f]{40}", revision) else None


def _graders(path: Path) -> list[str]:
    """Return the metrics that the first line names: each is a key of every line."""
    first = next(_objects(path), None)
    if first is None:
        raise InvalidSource(f"{path}: expected one sample per line, found an empty file")
    number, line = first
    found = line.get("metrics")
    if not {"doc", "arguments", "resps"} <= line.keys():
        raise InvalidSource(
            f"{path}: line {number}: expected doc, arguments and resps, as lm-eval's --log_samples writes "
            f"them, found {', '.join(sorted(line)) or 'no key'}"
        )
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    return [name for name in names if name in line and name not in (*_COLUMNS, _NO_GRADER)]


def _bad_line(path: Path, error: duckdb.Error) -> InvalidSource:
    """Find the line that DuckDB could not read; it counts them in another way in each version."""
    for number, line in _objects(path):
        calls = line.get("arguments")
        if not isinstance(calls, dict) or not all(isinstance(call, dict) for call in calls.values()):
            return InvalidSource(
                f"{path}: line {number}: expected arguments with gen_args_0, as lm-eval writes them since "
                f"0.4.3, found {str(calls)[:80]}"
            )
    reason = str(error).partition("\n")[0]
    return InvalidSource(f"{path}: expected one sample per line, found what cannot be read: {reason}")


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file with the numbers of their lines.

    Raises
    ------
    InvalidSource
        At the first line that is none.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                found = json.loads(text.decode("utf-8-sig"))
            except ValueError as error:
                where = f"{path}: line {number}"
                raise InvalidSource(f"{where}: expected a JSON object, found none ({error})") from None
            if not isinstance(found, dict):
                raise InvalidSource(
                    f"{path}: line {number}: expected a JSON object, found {type(found).__name__}"
                )
            yield number, found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
