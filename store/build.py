"""Run ``dbt build`` in this process and say what it did."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from store import console, database
from store.errors import CheckFailed, LakeUnusable, WrongUsage
from store.freshness import has_table, is_proved
from store.lake import ensure_schema_parts, require_sound
from store.settings import Home

# how dbt calls the end of a node, and how the report does
_OUTCOMES = {"success": "ok", "pass": "ok", "warn": "ok", "no-op": "ok", "skipped": "skipped"}
_KINDS = {
    "model": "models",
    "seed": "seeds",
    "test": "tests",
    "unit_test": "unit tests",
    "operation": "hooks",
}

_PUBLISHED = """
    select
        metric,
        count(*) filter (agrees),
        count(*) filter (not agrees),
        count(*) filter (agrees is null)
    from audit_published_cells
    group by metric
    order by metric
"""
_COVERAGE = "select count(*) filter (not is_complete), count(*) from audit_coverage"


class _Event(Protocol):
    """What is used of an event of dbt."""

    info: Any
    data: Any


@dataclass(frozen=True, slots=True)
class Count:
    """Nodes of one kind by how they ended."""

    kind: str
    ok: int
    failed: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that failed, what dbt says of it in one line, and the file with its query."""

    kind: str
    name: str
    message: str
    query: str | None


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What one build did."""

    counts: tuple[Count, ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    elapsed_s: float

    def require_success(self) -> None:
        """Raise ``CheckFailed`` that names what failed, if anything did."""
        if self.failures:
            names = ", ".join(f"{failure.kind} {failure.name}" for failure in self.failures)
            raise CheckFailed(f"the build failed: {names}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many published cells of one metric agree with the computed ones; not all can be compared."""

    metric: str
    n_agree: int
    n_disagree: int
    n_not_comparable: int


@dataclass(frozen=True, slots=True)
class Audit:
    """How the marts compare with what is published, and how many metrics lack a planned row."""

    published: tuple[Comparison, ...]
    n_incomplete: int
    n_metrics: int


def build(
    lake: Home,
    project: Path,
    *,
    select: Sequence[str] = (),
    threads: int | None = None,
    full_refresh: bool = False,
    quiet: bool = True,
) -> BuildReport:
    """Build the marts of ``lake`` with the dbt project in ``project``.

    Parameters
    ----------
    lake
        Lake whose raw rows are read and whose database is written.
    project
        Folder with ``dbt_project.yml`` and ``profiles.yml``.
    select
        dbt node selection; empty for everything.
    threads
        Number of dbt threads; None for the profile's.
    full_refresh
        Build incremental tables anew.
    quiet
        Show no progress bar.

    Returns
    -------
    BuildReport
        Also when a test or a model failed.

    Raises
    ------
    WrongUsage
        If ``select`` matches nothing.
    CheckFailed
        If dbt cannot read the project.
    LakeUnusable
        If the lake is locked, damaged or out of space, or a raw part is not what its name says.
    """
    # dbt would do this too, but could not say in one line that a lake cannot be written
    ensure_schema_parts(lake)
    require_sound(lake)
    database.require_duckdb(lake)
    target = str(lake.root.resolve() / "target")
    arguments = ["build", "--project-dir", str(project), "--profiles-dir", str(project)]
    # a folder per lake, so that builds of two lakes do not write the same files
    arguments += ["--target-path", target, "--log-path", target, "--log-level-file", "none"]
    arguments += ["--log-level", "none", "--no-use-colors", "--no-send-anonymous-usage-stats"]
    for selection in select:
        arguments += ["--select", selection]
    if threads is not None:
        arguments += ["--threads", str(threads)]
    if full_refresh:
        arguments.append("--full-refresh")
    if not select and is_proved(lake, project):
        # unit tests prove the rules on rows of their own: the same rules need no second proof
        arguments += ["--exclude-resource-type", "unit_test"]

    start = time.monotonic()
    with _home(lake), nullcontext() if quiet else console.progress("build") as step:
        result, warnings = _invoke(arguments, step)
    if result.exception is not None:
        raise _cause(result.exception, lake)
    nodes = result.result.results
    if select and not nodes:
        raise WrongUsage(f"--select {' '.join(select)}: matches no model, seed or test")
    failures = tuple(_failures(nodes))
    for failure in failures:
        if unusable := database.explain(failure.message, lake):
            raise unusable
    return BuildReport(_counts(nodes), failures, tuple(warnings), time.monotonic() - start)


def _cause(error: BaseException, lake: Home) -> BaseException:
    """Return what to raise for an exception that ended dbt before any node did."""
    if isinstance(error, KeyboardInterrupt):
        return error
    message = _one_line(str(error))
    if isinstance(error, OSError):
        return LakeUnusable(f"{lake.root}: cannot be written ({message})")
    return database.explain(message, lake) or CheckFailed(f"dbt cannot build: {message}")


def audit(lake: Home) -> Audit:
    """Read the summary of the audit tables; empty where a table is not built."""
    con = database.connect(lake)
    try:
        published = con.execute(_PUBLISHED).fetchall() if has_table(con, "audit_published_cells") else []
        coverage = con.execute(_COVERAGE).fetchall() if has_table(con, "audit_coverage") else [(0, 0)]
    finally:
        con.close()
    return Audit(tuple(Comparison(*row) for row in published), *coverage[0])


@contextmanager
def _home(lake: Home) -> Iterator[None]:
    """Point the profile at ``lake``, whatever folder dbt works in."""
    before = os.environ.get("COGLAKE_HOME")
    os.environ["COGLAKE_HOME"] = str(lake.root.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ["COGLAKE_HOME"]
        else:
            os.environ["COGLAKE_HOME"] = before


def _invoke(arguments: list[str], step: console.Step | None) -> tuple[Any, list[str]]:
    """Run dbt; return its result and its warnings."""
    # dbt takes three seconds to import, which no other command should wait for
    runner_class = import_module("dbt.cli.main").dbtRunner
    connections = import_module("dbt.adapters.duckdb.connections").DuckDBConnectionManager
    warnings: list[str] = []
    n_done = 0
    n_nodes = 0

    def listen(event: _Event) -> None:
        nonlocal n_done, n_nodes
        if event.info.level == "warn":
            warnings.append(_one_line(event.info.msg))
        if event.info.name == "LogStartLine":
            n_nodes = event.data.total
        elif event.info.name == "NodeFinished":
            n_done += 1
            if step is not None:
                step(n_done, n_nodes, event.data.node_info.node_name)

    try:
        result = runner_class(callbacks=[listen]).invoke(arguments)
    finally:
        # dbt keeps the file open for writing, and then this process could not open it to read
        environment = connections._ENV
        connections.close_all_connections()
        if environment is not None:
            environment.close()
    return result, warnings


def _counts(nodes: Sequence[Any]) -> tuple[Count, ...]:
    ends = Counter(
        (str(node.node.resource_type), _OUTCOMES.get(str(node.status), "failed")) for node in nodes
    )
    return tuple(
        Count(label, ends[kind, "ok"], ends[kind, "failed"], ends[kind, "skipped"])
        for kind, label in _KINDS.items()
        if any(found == kind for found, _ in ends)
    )


def _failures(nodes: Sequence[Any]) -> Iterator[Failure]:
    for node in nodes:
        if str(node.status) not in _OUTCOMES:
            yield Failure(
                kind=str(node.node.resource_type).replace("_", " "),
                name=node.node.name,
                message=_one_line(node.message or "no message"),
                # a seed has no query
                query=getattr(node.node, "compiled_path", None),
            )


def _one_line(message: str) -> str:
    """Join the lines of a message of dbt, without the carets under code and the trace of its macros."""
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(" ".join(line for line in lines if line.strip("^") and not line.startswith(">")).split())
