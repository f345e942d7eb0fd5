"""Whether the marts are whole and match the raw rows and the project as they are now."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from store.database import connect, require_own_rows
from store.errors import NothingToExport, StoreError
from store.settings import Home

_BUILD_AGAIN = "run `coglake build`"


@dataclass(frozen=True, slots=True)
class Build:
    """One row of ``build_log``; times are UTC text. The last two are None of a build of an older version."""

    invocation_id: str
    is_full: bool
    started_at: str
    finished_at: str | None
    status: str
    n_failed: int | None
    raw_sha256: str
    project_sha256: str
    git_sha: str | None = None
    manifest_sha256: str | None = None


def builds(con: duckdb.DuckDBPyConnection) -> list[Build]:
    """Return every build of this database, newest first."""
    if not has_table(con, "build_log"):
        return []
    rows = con.execute(
        """
        select
            invocation_id,
            is_full,
            strftime(started_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC'),
            strftime(finished_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC'),
            status,
            n_failed,
            raw_sha256,
            project_sha256,
            git_sha,
            manifest_sha256
        from (
            select rowid as number, * from build_log
            union all by name
            -- columns that the log of an older version lacks
            select null::varchar as git_sha, null::varchar as manifest_sha256 where false
        )
        -- the order of the builds, also where the clock was set back between them
        order by number desc
        """
    ).fetchall()
    return [Build(*row) for row in rows]


def require_fresh(con: duckdb.DuckDBPyConnection, lake: Home, project: Path) -> Build:
    """Return the build that the marts come from.

    Raises
    ------
    NothingToExport
        If there is none, if a later one failed or did not end, or if the raw rows or the project changed
        or the lake was moved since.
    """
    log = builds(con)
    last = log[0] if log else None
    full = next(
        (index for index, build in enumerate(log) if build.is_full and build.status == "success"), None
    )
    # marts are rebuilt one by one: a broken build may have left new ones beside old ones
    broken = next((build for build in log[:full] if build.status != "success"), None)
    if last is None:
        raise NothingToExport(f"{lake.database}: nothing is built yet; {_BUILD_AGAIN} first")
    if broken is not None and broken.status == "failed":
        raise NothingToExport(
            f"the build of {broken.started_at} failed ({_nodes(broken.n_failed)}); "
            f"{_BUILD_AGAIN} and mend what it names"
        )
    if broken is not None:
        raise NothingToExport(
            f"the build of {broken.started_at} did not end: it was stopped or runs now; {_BUILD_AGAIN} again"
        )
    if full is None:
        raise NothingToExport(
            f"only parts were built so far, last on {last.started_at}; {_BUILD_AGAIN} without --select"
        )
    built = log[full]
    require_own_rows(con, lake)
    raw_sha256, project_sha256 = _fingerprints(con, lake, project)
    if raw_sha256 != built.raw_sha256:
        raise NothingToExport(
            f"the raw rows changed since the build of {built.started_at} "
            f"(expected {built.raw_sha256[:12]}, found {raw_sha256[:12]}); {_BUILD_AGAIN}"
        )
    if project_sha256 != built.project_sha256:
        raise NothingToExport(
            f"models_sql, macros or manifests changed since the build of {built.started_at} "
            f"(expected {built.project_sha256[:12]}, found {project_sha256[:12]}); {_BUILD_AGAIN}"
        )
    for build in log[:full]:
        # a partial build of another state left its marts beside those of the full one before it
        if (build.raw_sha256, build.project_sha256) != (raw_sha256, project_sha256):
            raise NothingToExport(
                f"the partial build of {build.started_at} was of other rows or another project; "
                f"{_BUILD_AGAIN} without --select"
            )
    return built


def is_proved(lake: Home, project: Path) -> bool:
    """Tell whether a full build of this very project and DuckDB version succeeded before."""
    try:
        con = connect(lake)
    except StoreError:
        return False
    try:
        done = {build.project_sha256 for build in builds(con) if build.is_full and build.status == "success"}
        return bool(done) and _fingerprints(con, lake, project)[1] in done
    finally:
        con.close()


def has_table(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Tell whether schema ``main`` has a table or view of that name."""
    query = "select 1 from information_schema.tables where table_schema = 'main' and table_name = ?"
    return bool(con.execute(query, [name]).fetchall())


def _nodes(n_failed: int | None) -> str:
    return "the cause is in its output" if not n_failed else f"{n_failed} failed"


def _fingerprints(con: duckdb.DuckDBPyConnection, lake: Home, project: Path) -> tuple[str, str]:
    """Return the fingerprints of the raw rows and of the project as they are now."""
    row = con.execute(
        "select raw_sha256(?), project_sha256(?)", [str(lake.root.resolve()), str(project.resolve())]
    ).fetchall()[0]
    return str(row[0]), str(row[1])
