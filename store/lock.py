"""One file that says what a build was made of and what came out, and how another lake compares with it."""

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import duckdb
from jinja2 import Environment
from pydantic import BaseModel, ConfigDict, ValidationError

from store import database
from store.errors import LakeUnusable, WrongUsage, first_line
from store.export import coglake_version
from store.formats import to_json
from store.freshness import require_fresh
from store.lake import changed_parts, part_paths, run_parts
from store.manifest import load_sources
from store.mart_hashes import mart_hashes
from store.revision import git_sha
from store.schemas import RAW_TABLES
from store.settings import Home

_PACKAGES = ("duckdb", "dbt-core", "dbt-duckdb", "pyarrow", "polars", "numpy", "scipy")
_N_SHOWN = 3

# in the order in which a reader mends them
_ADVICE = {
    "packages": "install the expected versions (`make setup` in a clone of the lock's commit does)",
    "project": "use the project at the lock's commit",
    "sources": "restore the pins in manifests/sources.toml",
    "runs": "ingest, import or generate what is missing, and move the folders raw/*/run=<run id> of what is "
    "too many to another lake",
    "raw parts": "copy the expected parts from the lake that was locked, and move others out of raw/; "
    "`coglake verify` names what is damaged",
    "rules": "the project is the same, so what compiles it is not: compare `pip freeze` of both machines",
    "marts": "rows and project are the same: compare `coglake export metrics --format csv` of both lakes",
}

_RUNS = """
    select run_id, model_id, model_revision, protocol, source_id, source_uri, source_sha256,
        case when parts is null and identity_sha256 is null then null else coalesce(parts, []) end as parts
    from read_parquet(?, union_by_name = true, hive_partitioning = false)
    order by run_id
"""
_BATCHES = """
    select run_id, flatten(list(parts)) as parts
    from read_parquet(?, union_by_name = true, hive_partitioning = false)
    group by run_id
"""
_RULES = """
    select rule, string_agg(distinct scorer_sha, ', ' order by scorer_sha)
    from score_versions
    where is_current
    group by rule
    order by rule
"""


class _Part(BaseModel):
    """A piece of a lock; nothing in it is optional and nothing else may be there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourcePins(_Part):
    """A source as the manifest pins it: revision, and sha256 of every file by path."""

    revision: str
    files: dict[str, str]


class RunRecord(_Part):
    """Whose answers a run holds, how they were got, and the file they came from, if any."""

    model_id: str
    model_revision: str | None
    protocol: str | None
    source_id: str | None
    source_uri: str | None
    source_sha256: str | None


class MartRecord(_Part):
    """Number of rows of a mart, and the hash of what they hold."""

    n_rows: int
    sha256: str


class Inputs(_Part):
    """What decides a build before it begins.

    Attributes
    ----------
    packages
        Version by name.
    project_sha256
        Hash of models, macros, manifests and data tests, as ``build_log`` has it.
    sources
        Those that a run of the lake comes from.
    raw_parts
        Sha256 of the parts of a run by raw table, by run.
    """

    packages: dict[str, str]
    project_sha256: str
    sources: dict[str, SourcePins]
    runs: dict[str, RunRecord]
    raw_parts: dict[str, dict[str, tuple[str, ...]]]


class Results(_Part):
    """What a build makes of its inputs: version by rule, and hash by mart."""

    rules: dict[str, str]
    marts: dict[str, MartRecord]


class Lock(_Part):
    """What a lock file holds.

    Attributes
    ----------
    git_sha
        Commit of the project; null outside a repository. Told, not compared: ``project_sha256`` is.
    platform
        System, processor and C library, whose logarithms may differ in the last bit. Told, not compared.
    """

    lock_version: Literal[1]
    git_sha: str | None
    platform: dict[str, str]
    inputs: Inputs
    results: Results


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is otherwise here than in a lock; null for what is not there."""

    kind: str
    name: str
    expected: str | None
    found: str | None


def take_lock(lake: Home, project: Path) -> Lock:
    """Return the lock of the last full build.

    Raises
    ------
    NothingToExport
        If there is none, or if it is not of the raw rows and the project as they are now.
    LakeUnusable
        If the lake is locked or damaged, or a raw part is not the one it is named for.
    """
    con = database.connect(lake)
    try:
        require_fresh(con, lake, project)
        inputs = read_inputs(lake, project)
        damaged = damaged_parts(lake, inputs)
        if damaged:
            raise LakeUnusable(_sentence("raw parts", damaged))
        return Lock(
            lock_version=1,
            git_sha=git_sha(project),
            platform=_platform(),
            inputs=inputs,
            results=_results(con, project),
        )
    finally:
        con.close()


def read_inputs(lake: Home, project: Path) -> Inputs:
    """Return what a build of ``lake`` would start from; a raw part counts by its name.

    Raises
    ------
    LakeUnusable
        If a part of ``runs`` or ``batches`` cannot be read.
    InvalidSource
        If the manifest of sources is not valid.
    """
    runs = _rows(lake, _RUNS, "runs")
    batches = {row["run_id"]: row["parts"] for row in _rows(lake, _BATCHES, "batches")}
    pins = load_sources(project / "manifests" / "sources.toml")
    named = {row["run_id"]: _named(row["parts"], batches.get(row["run_id"])) for row in runs}
    return Inputs(
        packages=_packages(),
        project_sha256=_project_sha256(project),
        sources={
            source_id: SourcePins(
                revision=pins[source_id].revision,
                files={file.path: file.sha256 for file in pins[source_id].files},
            )
            for source_id in sorted({row["source_id"] for row in runs} & pins.keys())
        },
        runs={
            row["run_id"]: RunRecord.model_validate({name: row[name] for name in RunRecord.model_fields})
            for row in runs
        },
        raw_parts={run_id: dict(_parts(lake, run_id, parts)) for run_id, parts in named.items()},
    )


def damaged_parts(lake: Home, inputs: Inputs) -> list[Difference]:
    """Hash the raw parts of the lake's runs again, and return those whose bytes are others."""
    findings = changed_parts([lake.raw / name for name in _part_names(inputs)])
    return [
        Difference("raw parts", str(Path(each.path).relative_to(lake.raw)), each.expected, each.found)
        for each in findings
    ]


def input_differences(lock: Lock, lake: Home, project: Path) -> list[Difference]:
    """Compare what a build would start from with a lock; raw parts by their bytes.

    Raises
    ------
    LakeUnusable, InvalidSource
        As :func:`read_inputs` does.
    """
    found = read_inputs(lake, project)
    return [*_differences(_inputs_by_kind(lock.inputs), _inputs_by_kind(found)), *damaged_parts(lake, found)]


def result_differences(lock: Lock, lake: Home, project: Path) -> list[Difference]:
    """Compare what the last full build made with a lock.

    Raises
    ------
    NothingToExport
        If raw rows or project changed since that build began.
    LakeUnusable
        If the lake is locked or damaged.
    """
    con = database.connect(lake)
    try:
        require_fresh(con, lake, project)
        found = _results(con, project)
    finally:
        con.close()
    return _differences(_results_by_kind(lock.results), _results_by_kind(found))


def sentences(lock: Lock, differences: Iterable[Difference]) -> list[str]:
    """Say what differs and what to do: one sentence per kind, with the first few differences."""
    by_kind: dict[str, list[Difference]] = {}
    for difference in differences:
        by_kind.setdefault(difference.kind, []).append(difference)
    said = [_sentence(kind, by_kind[kind]) for kind in _ADVICE if kind in by_kind]
    if "project" in by_kind and lock.git_sha:
        said.append(f"the lock was written at commit {lock.git_sha}")
    here = _platform()
    if "marts" in by_kind and lock.platform != here:
        said.append(
            f"the lock was written on {' '.join(lock.platform.values())}, this is {' '.join(here.values())}: "
            "logarithms of another C library may differ in the last bit"
        )
    return said


def write_text(lock: Lock) -> str:
    """Return the text of a lock file; the same lock is the same text."""
    return to_json(lock.model_dump())


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises
    ------
    WrongUsage
        If it cannot be read or is no lock file of this version.
    """
    try:
        return Lock.model_validate_json(path.read_bytes())
    except OSError as error:
        raise WrongUsage(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        raise WrongUsage(
            f"{path}: expected a lock file as `coglake lock` writes it, found another ({first_line(error)}); "
            "write it again where it was made"
        ) from None


def _packages() -> dict[str, str]:
    major, minor, _ = platform.python_version_tuple()
    return {
        "coglake": coglake_version(),
        "python": f"{major}.{minor}",
        **{name: version(name) for name in _PACKAGES},
    }


def _project_sha256(project: Path) -> str:
    """Return the fingerprint of the project as a build of it would log it; there may be no database yet."""
    macros = (project / "macros" / "build_log.sql").read_text(encoding="utf-8")
    # SQL, never a page
    environment = Environment(autoescape=False)  # noqa: S701
    fingerprints = environment.from_string(macros + "{{ create_fingerprints() }}").render()
    with duckdb.connect() as con:
        con.execute(fingerprints)
        return str(con.execute("select project_sha256(?)", [str(project.resolve())]).fetchall()[0][0])


def _platform() -> dict[str, str]:
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": " ".join(filter(None, platform.libc_ver())) or "unknown",
    }


def _rows(lake: Home, query: str, table: str) -> list[dict[str, Any]]:
    """Answer a question to one raw table with the rows of committed runs."""
    paths = [str(path) for path in part_paths(lake, table)]
    if not paths:
        return []
    with duckdb.connect() as con:
        try:
            result = con.execute(query, [paths])
            names = [column[0] for column in result.description or ()]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        except duckdb.Error as error:
            raise database.explain(error, lake) or LakeUnusable(f"{lake.raw}: {error}") from error


def _named(parts: list[str] | None, of_batches: list[str] | None) -> frozenset[str] | None:
    """Return the parts that a run or its batches name; None if it is of a version that named none."""
    return None if parts is None and of_batches is None else frozenset([*(parts or ()), *(of_batches or ())])


def _parts(lake: Home, run_id: str, named: frozenset[str] | None) -> Iterable[tuple[str, tuple[str, ...]]]:
    for table in sorted(RAW_TABLES):
        # what commits a run names the other parts, and itself nowhere
        counted = None if table in ("runs", "batches") else named
        paths = run_parts(lake, table, run_id, counted)
        if paths:
            yield table, tuple(path.stem.removeprefix("part-") for path in paths)


def _results(con: duckdb.DuckDBPyConnection, project: Path) -> Results:
    return Results(
        rules=dict(con.execute(_RULES).fetchall()),
        marts={
            name: MartRecord(n_rows=mart.n_rows, sha256=mart.sha256)
            for name, mart in mart_hashes(con, project).items()
        },
    )


def _part_names(inputs: Inputs) -> list[str]:
    return [
        f"{table}/run={run_id}/part-{sha256}.parquet"
        for run_id, tables in inputs.raw_parts.items()
        for table, hashes in tables.items()
        for sha256 in hashes
    ]


def _inputs_by_kind(inputs: Inputs) -> dict[str, dict[str, str]]:
    """Return every input as text, by kind and name."""
    sources = {f"{source_id} revision": pins.revision for source_id, pins in inputs.sources.items()}
    for source_id, pins in inputs.sources.items():
        sources |= {f"{source_id} {path}": f"sha256 {sha256}" for path, sha256 in pins.files.items()}
    return {
        "packages": inputs.packages,
        "project": {"models_sql, macros, manifests": f"sha256 {inputs.project_sha256}"},
        "sources": sources,
        "runs": {
            run_id: ", ".join(f"{name} {value}" for name, value in run if value is not None)
            for run_id, run in inputs.runs.items()
        },
        "raw parts": {name: "a part" for name in _part_names(inputs)},
    }


def _results_by_kind(results: Results) -> dict[str, dict[str, str]]:
    return {
        "rules": results.rules,
        "marts": {
            name: f"{mart.n_rows:,} rows with sha256 {mart.sha256}" for name, mart in results.marts.items()
        },
    }


def _differences(
    expected: Mapping[str, Mapping[str, str]], found: Mapping[str, Mapping[str, str]]
) -> list[Difference]:
    return [
        Difference(kind, name, values.get(name), found[kind].get(name))
        for kind, values in expected.items()
        for name in sorted(values.keys() | found[kind].keys())
        if values.get(name) != found[kind].get(name)
    ]


def _sentence(kind: str, differences: list[Difference]) -> str:
    shown = "; ".join(
        f"{each.name}: expected {each.expected or 'none'}, found {each.found or 'none'}"
        for each in differences[:_N_SHOWN]
    )
    n_more = len(differences) - _N_SHOWN
    return f"{kind}: {shown}{f'; and {n_more:,} more' if n_more > 0 else ''}; {_ADVICE[kind]}"
