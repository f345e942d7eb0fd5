"""The way from a score of Learning, of a category or of one task, to replies and questions."""

import shlex
from pathlib import Path

import duckdb

from store.settings import Home
from store.trace_files import Row, asked, pins, run_records
from store.trace_names import Named
from store.trace_record import (
    COUNTS,
    UNCERTAINTY,
    Query,
    Trace,
    checked,
    chosen,
    formulas,
    unscored,
    versions,
)
from store.trace_rows import dialogues, gathered
from store.trace_sql import quoted
from store.trace_sql_learning import of_instances

_PRINTED_DECIMALS = 3
_MEASURES = (
    "accuracy",
    "efficiency",
    "success",
    "progress",
    "transfer",
    "asymptote",
    "trajectory",
    "consistency",
)


def trace_task(con: duckdb.DuckDBPyConnection, lake: Home, project: Path, named: Named) -> Trace:
    """Trace what one evaluation or run scored in a task."""
    [task] = asked(con, "select * from learning_tasks where task_id = $1", named.mode_id)
    [score] = asked(
        con,
        "select * from int_learning_scores where task_id = $1 and evaluation_or_run_id = $2",
        named.mode_id,
        named.column_id,
    )
    run_id, rule = score["run_id"], task["score_rule"]
    raw = dialogues(con, lake, named.mode_id, run_id, score["item_run_id"])
    rows, parts, runs = gathered(con, lake, raw)
    queries: list[Query] = []
    if score["value_scored"] is not None:
        by_verdicts = (
            "select avg(value) as value, count(*) as n_scored\nfrom int_learning_episodes\n"
            f"where run_id = {quoted(run_id)} and task_id = {quoted(named.mode_id)} and status = 'ok'"
        )
        queries.append(checked(con, "the verdicts", by_verdicts, score["value_scored"]))
    if score["value"] is not None:
        queries.append(checked(con, "raw rows", of_instances(task, raw), score["value"], raw))
    value = score["value"]
    return Trace(
        cell=_head(named, task["label"], score, value, run_id) | {"category": task["category"]},
        value=value,
        value_scored=score["value_scored"],
        reason=score["reason"],
        advice=None if value is not None else _advice(con, score["model_id"]),
        formulas=formulas(con, ("learning_rule", rule), ("composite", "learning_task")),
        parameters=task,
        counts=chosen(score, COUNTS),
        uncertainty=chosen(score, UNCERTAINTY),
        versions=(
            *versions(con, f"rule {rule}", f"int_learning__{rule}", run_id=run_id, mode_id=named.mode_id),
            *([{"of": "task", "sha256": score["scorer_sha"]}] if score["scorer_sha"] else []),
        ),
        unscored=unscored(con, "int_learning_episodes", run_id=run_id, task_id=named.mode_id),
        queries=tuple(queries),
        components=tuple(_instances(con, run_id, named.mode_id)),
        rows=rows,
        parts=parts,
        runs=runs,
        sources=pins(runs, project),
    )


def trace_category(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, named: Named, *, is_nested: bool
) -> Trace:
    """Trace what one evaluation scored in a category: the mean of its tasks."""
    [report] = asked(
        con,
        "select * from learning_report where category = $1 and run_id = $2",
        named.mode_id,
        named.column_id,
    )
    tasks = asked(
        con,
        """
        select
            tasks.task_id, tasks.label, tasks.score_rule, scores.value, scores.se, scores.n_planned,
            scores.n_scored, runs.run_id, scores.scorer_sha,
            coalesce(scores.reason, case when runs.run_id is null then 'not asked' end) as reason
        from learning_tasks as tasks
        left join learning_scores as scores on tasks.task_id = scores.task_id and scores.run_id = $2
        left join int_learning_scores as runs
            on tasks.task_id = runs.task_id and runs.evaluation_or_run_id = $2
        where tasks.category = $1 and tasks.family_id is not null
        order by tasks.task_id
        """,
        named.mode_id,
        named.column_id,
    )
    value = report["score"]
    queries: list[Query] = []
    if report["score_scored"] is not None:
        sql = (
            "select avg(value) as value, count(value) as n_tasks\nfrom learning_scores\n"
            f"where\n    run_id = {quoted(named.column_id)}\n    and category = {quoted(named.mode_id)}\n"
            "    and family_id is not null"
        )
        queries = [checked(con, "the tasks", sql, report["score_scored"])]
    runs = run_records(con, lake, [row["run_id"] for row in tasks if row["run_id"] is not None])
    nested = tuple(
        trace_task(con, lake, project, Named("task", row["task_id"], named.column_id))
        for row in (tasks if is_nested else ())
        if row["run_id"] is not None
    )
    return Trace(
        cell=_head(named, named.mode_id, report, value, None),
        value=value,
        value_scored=report["score_scored"],
        reason=report["reason"],
        advice=None if value is not None else _advice(con, report["model_id"]),
        formulas=formulas(con, ("composite", "learning_category")),
        parameters={},
        counts={
            "n_tasks_planned": report["n_planned"],
            "n_tasks": report["n_tasks"],
            "n_episodes_planned": report["n_episodes_planned"],
            "n_episodes": report["n_episodes"],
        },
        uncertainty=chosen(report, UNCERTAINTY),
        versions=({"of": "category", "sha256": report["scorer_sha"]},) if report["scorer_sha"] else (),
        queries=tuple(queries),
        components=tuple(tasks),
        nested=nested,
        runs=runs,
        sources=pins(runs, project),
    )


def _head(named: Named, label: str, score: Row, value: float | None, run_id: str | None) -> Row:
    return {
        "benchmark": "learning",
        "mode_id": named.mode_id,
        "label": label,
        "column_id": named.column_id,
        "column_kind": "evaluation",
        "model_id": score["model_id"],
        "run_id": run_id,
        "metric": "score",
        "is_primary": True,
        "unit": "share",
        "direction": "higher",
        "decimals": _PRINTED_DECIMALS,
        "printed": "n.e." if value is None else f"{value:.{_PRINTED_DECIMALS}f}",
        "status": "complete" if value is not None else "part.",
    }


def _instances(con: duckdb.DuckDBPyConnection, run_id: str, task_id: str) -> list[Row]:
    """Return the instances of a task with what each was given, and for what."""
    return asked(
        con,
        f"""
        select
            episode_id, value, {", ".join(_MEASURES)}, examples_used, solved_at_reply, n_replies,
            status, status_reason
        from int_learning_episodes
        where run_id = $1 and task_id = $2
        order by episode_id
        """,
        run_id,
        task_id,
    )


def _advice(con: duckdb.DuckDBPyConnection, model_id: str) -> str | None:
    """Return what would fill a score, if a model can be asked: an agent plays what it was made for."""
    if not asked(con, "select 1 from stg_runs where model_id = $1 and kind = 'model' limit 1", model_id):
        return None
    return f"`coglake generate --benchmark learning --model {shlex.quote(model_id)}` asks what is missing"
