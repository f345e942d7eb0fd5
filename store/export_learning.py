"""The Learning report for readers outside the store."""

from collections.abc import Sequence

import duckdb

from store.errors import CheckFailed, NothingToExport
from store.export import matching
from store.formats import Sheet
from store.uncertainty import Error, Uncertainty, groups

_REPORT = """
    select
        run_id, model_id, model_revision, protocol, category, score_scored, se, ci_low, ci_high,
        floor, ceiling,
        n_tasks, n_planned, n_older_tasks, reason, floor_because
    from learning_report
    order by lower(model_id), model_id, run_id, array_position($categories, category)
"""
_MIXED_SCORERS = """
    select task_id, string_agg(distinct scorer_sha, ', ' order by scorer_sha)
    from learning_scores
    where scorer_sha is not null
    group by task_id
    having count(distinct scorer_sha) > 1
    order by task_id
"""
_BEFORE_SCORE = ("Model", "Revision", "Protocol", "Category")
_AFTER_SCORE = (
    "Floor",
    "Ceiling",
    "Tasks",
    "Tasks planned",
    "Of older instances",
    "Withheld because",
    "No floor because",
    "Evaluation",
)
# floor, ceiling, and three counts
_N_PRINTED_AFTER = 5


def export_learning(
    con: duckdb.DuckDBPyConnection,
    categories: Sequence[str],
    models: Sequence[str] = (),
    allow_partial: bool = False,
    beside: Uncertainty | None = None,
) -> Sheet:
    """Return the Learning report: six rows per evaluation, one per category.

    Parameters
    ----------
    con
        Connection to a fresh build.
    categories
        The categories in their order.
    models
        Models, evaluations, or shell patterns of either; empty for all.
    allow_partial
        Print what a category comes to over the tasks that have a value, if not all have; it ends in ``s``.
    beside
        What stands beside the score, and in forms for reading in its cell; if nothing is asked for, the
        standard error in a column of its own.

    Raises
    ------
    NothingToExport
        If neither a model nor an agent was asked.
    WrongUsage
        If a name or a pattern matches no evaluation.
    CheckFailed
        If one task was scored by two versions of its rule.
    """
    if mixed := con.execute(_MIXED_SCORERS).fetchall():
        task_id, hashes = mixed[0]
        raise CheckFailed(
            f"{task_id}: expected one version of its scorer, found {hashes}; run `coglake build`"
        )
    found = con.execute(_REPORT, {"categories": list(categories)}).fetchall()
    if not found:
        raise NothingToExport(
            "nobody was asked the Learning tasks; run `coglake generate --agent oracle --benchmark learning`"
        )
    model_of = {run_id: model_id for run_id, model_id, *_ in found}
    chosen = set(matching(list(model_of), model_of, models)) if models else set(model_of)
    rows: list[tuple[object, ...]] = []
    n_withheld = 0
    for (
        run_id,
        *named,
        score,
        se,
        low,
        high,
        floor,
        ceiling,
        n_tasks,
        n_planned,
        n_older,
        why,
        no_floor,
    ) in found:
        if run_id not in chosen:
            continue
        # score, error, floor and ceiling are over the same tasks
        is_part = 0 < n_tasks < n_planned
        n_withheld += is_part and not allow_partial
        mark = "s" if is_part else ""
        printed = (
            _four_decimals(score, mark),
            *Error(se, low, high).beside(beside or Uncertainty.SE, _four_decimals, mark),
            _four_decimals(floor, mark),
            _four_decimals(ceiling, mark),
        )
        if is_part and not allow_partial:
            printed = (None,) * len(printed)
        rows.append((*named, *printed, n_tasks, n_planned, n_older, why, no_floor, run_id))
    note = f"partial scores withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    errors = beside.headers("Score") if beside else ("SE",)
    first = len(_BEFORE_SCORE)
    n_printed = 1 + len(errors) + _N_PRINTED_AFTER
    return Sheet(
        headers=(*_BEFORE_SCORE, "Score", *errors, *_AFTER_SCORE),
        rows=tuple(rows),
        printed=frozenset(range(first, first + n_printed)),
        notes=(note,) if n_withheld else (),
        beside=groups([first], 1 + len(errors)) if beside else (),
    )


def _four_decimals(value: float | None, mark: str = "") -> str | None:
    """Print a score, rounded as C's printf does; the only place where it is."""
    return None if value is None else f"{value:.4f}{mark}"
