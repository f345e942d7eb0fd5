"""Item verdicts with what was asked and answered, for readers outside the store."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from store.errors import NothingToExport, WrongUsage
from store.export import matching
from store.formats import FORMULA_STARTS, Format, Sheet
from store.privacy import IDENTITIES, restricted_sources, withheld
from store.usage import require_known

# a table for reading is made in memory, and nobody reads more
MAX_ROWS_TO_READ = 20_000

_RAW_TEXT = ("status_reason", "prompt", "options", "credited_options", "response_text", "human_response")
_NUMBERS = ("value", "weight")

# A verdict names run, mode, item and episode, and of a played mode the step. Of a question about people the
# episode is whose response was predicted: the answer is that for this person, or the one for everybody. An
# episode as a whole has no text. A person has one response to an item, or several where choices were counted.
_VERDICTS = """
    with

    verdicts as (

        select
            verdicts.* exclude (is_current, replaced_by, replaced_at, part_id),
            runs.model_id,
            runs.model_revision,
            runs.source_id as source_of_run,
            cells.is_partial
        from score_versions as verdicts
        inner join stg_runs as runs using (run_id)
        inner join exported_cells as cells using (run_id, mode_id)
        where verdicts.is_current

    ),

    outputs as (

        select
            run_id, mode_id, item_id, episode_id, participant_id, prompt_sha256,
            coalesce(response_text, cast(response_number as varchar)) as response_text
        from stg_outputs
        where
            run_id in (select run_id from exported_cells)
            and mode_id in (select mode_id from exported_cells)

    ),

    answers as (

        select *, episode_id as answered_for from outputs
        union all
        select *, participant_id as answered_for from outputs
        where participant_id <> episode_id

    ),

    answers_for_all as (

        select
            run_id, mode_id, item_id,
            any_value(response_text) as response_text,
            any_value(prompt_sha256) as prompt_sha256
        from outputs
        where
            participant_id is null
            and mode_id in (select mode_id from stg_human_responses)
        group by run_id, mode_id, item_id
        having count(*) = 1

    ),

    steps as (

        select
            run_id, mode_id, episode_id, step_index, observation, legal_options, credited_options,
            prompt_sha256,
            coalesce(response_text, action) as response_text
        from stg_steps
        where
            run_id in (select run_id from exported_cells)
            and mode_id in (select mode_id from exported_cells)

    ),

    items as (

        select mode_id, item_id, source_id, participant_id, prompt, legal_options, credited_options
        from stg_items
        where mode_id in (select mode_id from exported_cells)

    ),

    people as (

        select
            mode_id, item_id, participant_id,
            string_agg(
                distinct coalesce(response, cast(response_number as varchar)), ' | '
                order by coalesce(response, cast(response_number as varchar))
            ) as response
        from stg_human_responses
        where mode_id in (select mode_id from exported_cells)
        group by mode_id, item_id, participant_id

    ),

    matched as (

        select
            verdicts.*,
            coalesce(answers.participant_id, items.participant_id, people.participant_id) as participant_id,
            coalesce(answers.prompt_sha256, answers_for_all.prompt_sha256, steps.prompt_sha256)
                as prompt_sha256,
            coalesce(steps.observation, items.prompt) as prompt_of_item,
            coalesce(steps.legal_options, items.legal_options) as options,
            coalesce(steps.credited_options, items.credited_options) as credited_options,
            coalesce(answers.response_text, answers_for_all.response_text, steps.response_text)
                as response_text,
            people.response as human_response,
            items.source_id as source_of_item
        from verdicts
        left join answers
            on
                verdicts.run_id = answers.run_id
                and verdicts.mode_id = answers.mode_id
                and verdicts.item_id = answers.item_id
                and verdicts.episode_id = answers.answered_for
        left join answers_for_all
            on
                verdicts.run_id = answers_for_all.run_id
                and verdicts.mode_id = answers_for_all.mode_id
                and verdicts.item_id = answers_for_all.item_id
        left join steps
            on
                verdicts.run_id = steps.run_id
                and verdicts.mode_id = steps.mode_id
                and verdicts.episode_id = steps.episode_id
                and verdicts.step_index = steps.step_index
        left join items
            on
                verdicts.mode_id = items.mode_id
                and verdicts.item_id = items.item_id
        left join people
            on
                verdicts.mode_id = people.mode_id
                and verdicts.item_id = people.item_id
                and coalesce(answers.participant_id, verdicts.episode_id) = people.participant_id

    )

    select
        matched.benchmark,
        matched.model_id,
        matched.model_revision,
        matched.run_id,
        matched.mode_id,
        matched.rule,
        matched.readout,
        matched.episode_id,
        matched.participant_id,
        matched.item_id,
        matched.step_index,
        matched.value,
        matched.weight,
        matched.status,
        matched.status_reason,
        coalesce(prompts.text, matched.prompt_of_item) as prompt,
        to_json(matched.options) as options,
        to_json(matched.credited_options) as credited_options,
        matched.response_text,
        matched.human_response,
        coalesce(matched.source_of_item, matched.source_of_run) as source_id,
        matched.scorer_sha,
        matched.is_partial,
        case
            when matched.source_of_item is null and matched.source_of_run is null
                then (select reason from restricted where source_id is null)
            else coalesce(of_item.reason, of_run.reason)
        end as withheld
    from matched
    left join stg_prompts as prompts using (prompt_sha256)
    left join restricted as of_item on matched.source_of_item = of_item.source_id
    left join restricted as of_run on matched.source_of_run = of_run.source_id
"""

# planned rows that a run has no verdict on, as those of one that was limited or still grows
_PARTIAL = """
    select distinct run_id, mode_id from int_unanswered
    union
    select planned.run_id, planned.mode_id
    from (
        select run_id, dataset_id as mode_id, max(n_planned) as n_planned from cognirank_scores
        group by run_id, dataset_id
        union all
        select run_id, task_id as mode_id, max(n_planned) as n_planned from learning_scores
        group by run_id, task_id
    ) as planned
    left join (
        select run_id, mode_id, count(distinct coalesce(item_id, episode_id)) as n_found
        from score_versions
        where is_current
        group by run_id, mode_id
    ) as found using (run_id, mode_id)
    where planned.n_planned > coalesce(found.n_found, 0)
"""


_SCORED = """
    select distinct run_id, mode_id, model_id
    from score_versions inner join stg_runs using (run_id)
    where is_current
    order by lower(model_id), model_id, run_id, mode_id
"""

_COLUMNS = (
    *("benchmark", "model_id", "model_revision", "run_id", "mode_id", "rule", "readout"),
    *("episode_id", "participant_id", "item_id", "step_index", "value", "weight", "status", "status_reason"),
    *("prompt", "options", "credited_options", "response_text", "human_response", "source_id"),
    *("scorer_sha", "is_partial", "withheld"),
)
_ORDER = "lower(model_id), model_id, run_id, mode_id, rule, readout, episode_id, item_id, step_index"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is exported: SQL over temporary tables of the connection, and sentences on what is left out."""

    sql: str
    notes: tuple[str, ...]


def select_scores(
    con: duckdb.DuckDBPyConnection,
    models: Sequence[str] = (),
    modes: Sequence[str] = (),
    *,
    allow_partial: bool = False,
    is_public: bool = False,
) -> Selection:
    """Choose current item verdicts: one row each, in the order of models, runs, modes, rules and items.

    Parameters
    ----------
    con
        Connection to a fresh build.
    models
        Models, runs, or shell patterns of either; empty for all.
    modes
        Modes of Table 3, data sets of CogniRank, tasks of Learning; empty for all.
    allow_partial
        Also give the verdicts of a run that lacks planned rows of a mode; ``is_partial`` marks them.
    is_public
        Leave out raw text of restricted sources: ``withheld`` then says why, and participants, episodes and
        items are numbered in place of their names, alike in all rows of the export and anew in each.

    Raises
    ------
    NothingToExport
        If nothing is scored, or nothing of what is chosen may leave without ``allow_partial``.
    WrongUsage
        If a name or a pattern matches no run, or a mode has no verdict.
    """
    scored = con.execute(_SCORED).fetchall()
    if not scored:
        raise NothingToExport("nothing is scored; run `coglake ingest` or `coglake generate`, then build")
    model_of = {run_id: model_id for run_id, _, model_id in scored}
    known_modes = sorted({mode_id for _, mode_id, _ in scored})
    require_known("mode with verdicts", modes, known_modes, f"{len(known_modes)} modes have some")
    chosen = set(matching(list(model_of), model_of, models)) if models else set(model_of)
    cells = [
        (run_id, mode_id)
        for run_id, mode_id, _ in scored
        if run_id in chosen and (not modes or mode_id in modes)
    ]
    partial = set(con.execute(_PARTIAL).fetchall())
    shown = [cell for cell in cells if allow_partial or cell not in partial]
    n_left_out = len(cells) - len(shown)
    note = f"runs of a mode that are partial, and left out: {n_left_out}; --allow-partial adds and marks them"
    if not shown:
        raise NothingToExport(note if cells else "the models that are chosen have no verdict in these modes")

    reasons = [(name, withheld(name)) for name in (None, *sorted(restricted_sources(con)))]
    _keep(con, "restricted", "source_id varchar, reason varchar", reasons)
    _keep(
        con,
        "exported_cells",
        "run_id varchar, mode_id varchar, is_partial boolean",
        [(*cell, cell in partial) for cell in shown],
    )
    salt = secrets.token_hex(16)
    columns = ", ".join(_public(column, salt) if is_public else _whole(column) for column in _COLUMNS)
    return Selection(f"select {columns} from ({_VERDICTS}) order by {_ORDER}", (note,) if n_left_out else ())


def write_scores(con: duckdb.DuckDBPyConnection, chosen: Selection, form: Format, path: Path) -> int:
    """Write the rows as CSV or JSON, without holding them all in memory; return how many they are.

    A text that a spreadsheet would run as a formula has an apostrophe before it in CSV, and an infinite value
    reads ``+∞`` in both.

    Raises
    ------
    duckdb.Error
        If the file cannot be written.
    """
    columns = ", ".join(map(_guarded if form is Format.CSV else _as_json, _COLUMNS))
    options = "format csv, header, nullstr ''" if form is Format.CSV else "format json, array true"
    target = str(path).replace("'", "''")
    [(n_rows,)] = con.execute(
        f"copy (select {columns} from ({chosen.sql})) to '{target}' ({options}, compression none)"
    ).fetchall()
    return int(n_rows)


def score_sheet(con: duckdb.DuckDBPyConnection, chosen: Selection) -> Sheet:
    """Return the rows as a table for reading.

    Raises
    ------
    WrongUsage
        If they are more than anybody reads.
    """
    columns = ", ".join(map(_as_text, _COLUMNS))
    rows = con.execute(f"select {columns} from ({chosen.sql}) limit {MAX_ROWS_TO_READ + 1}").fetchall()
    if len(rows) > MAX_ROWS_TO_READ:
        raise WrongUsage(
            f"more than {MAX_ROWS_TO_READ:,} rows are no table for reading: use --format csv or json, or "
            "choose with --models and --modes"
        )
    return Sheet(_COLUMNS, tuple(rows), notes=chosen.notes)


def _keep(
    con: duckdb.DuckDBPyConnection, table: str, columns: str, rows: Sequence[tuple[object, ...]]
) -> None:
    con.execute(f"create or replace temp table {table} ({columns})")
    values = [list(column) for column in zip(*rows, strict=True)]
    con.execute(f"insert into {table} select {', '.join('unnest(?)' for _ in values)}", values)


def _whole(column: str) -> str:
    return f"cast(null as varchar) as {column}" if column == "withheld" else column


def _public(column: str, salt: str) -> str:
    """Return SQL for a column as anyone may see it; names become numbers in an order that tells nothing.

    Without a salt that nobody knows, who has all names could order them by their hashes too.
    """
    if column in _RAW_TEXT:
        return f"case when withheld is null then {column} end as {column}"
    if column in IDENTITIES:
        number = f"dense_rank() over (partition by withheld is null order by md5('{salt}' || {column}))"
        called = f"'{IDENTITIES[column]} ' || {number}"
        return f"case when withheld is null or {column} is null then {column} else {called} end as {column}"
    return column


def _guarded(column: str) -> str:
    if column in (*_NUMBERS, "step_index", "is_partial"):
        return _as_text(column)
    text = f"cast({column} as varchar)"
    starts = ", ".join(f"chr({ord(character)})" for character in FORMULA_STARTS)
    guarded = f"case when left({text}, 1) in ({starts}) then chr(39) || {text} else {text} end"
    # line ends as in the other exports
    return f"replace(replace({guarded}, chr(13) || chr(10), chr(10)), chr(13), chr(10)) as {column}"


def _as_json(column: str) -> str:
    if column not in _NUMBERS:
        return column
    return (
        f"case when isinf({column}) then to_json({_infinite(column)}) else to_json({column}) end as {column}"
    )


def _as_text(column: str) -> str:
    if column in _NUMBERS:
        number = f"cast({column} as varchar)"
        return f"case when isinf({column}) then {_infinite(column)} else {number} end as {column}"
    return f"cast({column} as varchar) as {column}" if column in ("options", "credited_options") else column


def _infinite(column: str) -> str:
    return f"case when {column} > 0 then '+∞' else '-∞' end"
