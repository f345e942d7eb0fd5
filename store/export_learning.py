"""The Learning report for readers outside the store."""

from collections.abc import Sequence

import duckdb

from store.errors import CheckFailed, NothingToExport
from store.export import matching
from store.formats import Sheet

_REPORT = """
    select
        run_id, model_id, model_revision, protocol, category, score_scored, se, floor, ceiling,
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
_HEADERS = (
    "Model",
    "Revision",
    "Protocol",
    "Category",
    "Score",
    "SE",
    "Floor",
    "Ceiling",
    "Tasks",
    "Tasks planned",
    "Of older instances",
    "Withheld because",
    "No floor because",
    "Evaluation",
)
_FIRST_PRINTED, _N_PRINTED = 4, 7


def export_learning(
    con: duckdb.DuckDBPyConnection,
    categories: Sequence[str],
    models: Sequence[str] = (),
    allow_partial: bool = False,
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
    for run_id, *named, score, se, floor, ceiling, n_tasks, n_planned, n_older, reason, no_floor in found:
        if run_id not in chosen:
            continue
        # score, error, floor and ceiling are over the same tasks
        is_part = 0 < n_tasks < n_planned
        n_withheld += is_part and not allow_partial
        shown = [
            None if is_part and not allow_partial else _four_decimals(number)
            for number in (score, se, floor, ceiling)
        ]
        if is_part:
            shown = [None if number is None else f"{number}s" for number in shown]
        rows.append((*named, *shown, n_tasks, n_planned, n_older, reason, no_floor, run_id))
    note = f"partial scores withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    return Sheet(
        headers=_HEADERS,
        rows=tuple(rows),
        printed=frozenset(range(_FIRST_PRINTED, _FIRST_PRINTED + _N_PRINTED)),
        notes=(note,) if n_withheld else (),
    )


def _four_decimals(value: float | None) -> str | None:
    """Print a score, rounded as C's printf does; the only place where it is."""
    return None if value is None else f"{value:.4f}"
