"""The way from a printed score to the rows, files and pins that it comes from."""

from pathlib import Path

import duckdb

from store.errors import WrongUsage
from store.freshness import require_fresh
from store.settings import Home
from store.trace_cognirank import trace_cogniscore, trace_component
from store.trace_learning import trace_category, trace_task
from store.trace_names import find
from store.trace_record import Trace
from store.trace_table3 import trace_cell


def trace(
    con: duckdb.DuckDBPyConnection,
    lake: Home,
    project: Path,
    mode: str,
    column: str,
    *,
    metric: str | None = None,
    is_nested: bool = False,
) -> Trace:
    """Trace one score.

    Parameters
    ----------
    con
        Connection to the built lake.
    mode
        Mode of Table 3 or its label; ``cogniscore``, or a component or data set of CogniRank; a category or
        task of Learning.
    column
        Column or model of Table 3, ``uniform`` and ``reference`` among them; an evaluation, run or model.
    metric
        Another metric than the primary one of the mode or component.
    is_nested
        Trace also what a score is put together of.

    Raises
    ------
    NothingToExport
        If nothing is built, the build is stale, or the lake was moved since.
    WrongUsage
        If a name is unknown, or means several scores.
    LakeUnusable
        If a file of the trace is gone or is not what it was.
    CheckFailed
        If the value does not come out again.
    """
    require_fresh(con, lake, project)
    named = find(con, mode, column)
    if metric is not None and named.kind not in ("cell", "component"):
        raise WrongUsage(f"--metric belongs to modes and components; {named.mode_id} has one score")
    match named.kind:
        case "cell":
            return trace_cell(con, lake, project, named, metric)
        case "component":
            return trace_component(con, lake, project, named, metric)
        case "cogniscore":
            return trace_cogniscore(con, lake, project, named, is_nested=is_nested)
        case "task":
            return trace_task(con, lake, project, named)
        case "category":
            return trace_category(con, lake, project, named, is_nested=is_nested)
