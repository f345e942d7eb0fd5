"""What lies under a score: parts of raw tables and their bytes, run records, pins, and the rows."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from store.errors import LakeUnusable
from store.manifest import load_sources
from store.privacy import PublicRows
from store.settings import Home
from store.trace_sql import Raw, quoted

_BATCH = 4096
# the files of a raw table, as its staging view names them; a view's text doubles the quotes of a path
_ALL_PARTS = re.compile(r"'(?:[^']|'')+/raw/[a-z_]+/run=\*/part-\*\.parquet'")
# what store.lake calls the run of parts without rows; that module takes longer to load than a trace
_SCHEMA_RUN = "_schema"

_ORDER = {
    "steps": "mode_id, episode_id, step_index",
    "outputs": "episode_id, item_id, participant_id",
    "output_options": "episode_id, item_id, participant_id, option_index",
    "items": "mode_id, item_id",
    "human_responses": "item_id, participant_id, response, part_id",
    "verdicts": "item_id, episode_id, answer_rule",
    "fits": "participant_id, fold, seed, parameter",
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One parquet part that holds rows of a trace.

    Attributes
    ----------
    sha256
        Hash of the bytes as they are now, which is also what the file is named by.
    """

    raw_table: str
    run_id: str
    path: str
    sha256: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows of one raw table that belong to a trace.

    Attributes
    ----------
    query
        SQL that reads them, in the order in which they are shown.
    source_ids
        Sources whose text they hold, of the run and of what it was asked; None stands for a run without one.
    """

    raw_table: str
    query: str
    n_rows: int
    source_ids: tuple[str | None, ...]


def asked(con: duckdb.DuckDBPyConnection, query: str, *values: object) -> list[Row]:
    """Return the rows of a query, one mapping each."""
    result = con.execute(query, values)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def part_ids(
    con: duckdb.DuckDBPyConnection, raw_table: str, *, run_id: str | None = None, mode_id: str | None = None
) -> list[str]:
    """Return the committed parts of a raw table, of one run or those that hold a mode."""
    query = """
        select distinct part_id from stg_parts
        where
            raw_table = $1
            and ($2::varchar is null or run_id = $2)
            and ($3::varchar is null or mode_id = $3)
        order by part_id
    """
    return [part_id for (part_id,) in con.execute(query, [raw_table, run_id, mode_id]).fetchall()]


def views_over(
    con: duckdb.DuckDBPyConnection, lake: Home, part_ids: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return the query of the staging view of some raw tables, over some of their parts alone."""
    return {name: _view_over(con, name, _listed(con, lake, name, ids)) for name, ids in part_ids.items()}


def _view_over(con: duckdb.DuckDBPyConnection, raw_table: str, files: str) -> str:
    [(view,)] = con.execute(
        "select sql from duckdb_views() where view_name = $1 and schema_name = 'main'", [f"stg_{raw_table}"]
    ).fetchall()
    query = str(view).partition(" AS ")[2].rstrip().rstrip(";")
    # by a function, because what stands in a path means nothing here
    return _ALL_PARTS.sub(lambda _: files, query)


def _listed(con: duckdb.DuckDBPyConnection, lake: Home, raw_table: str, ids: Sequence[str]) -> str:
    """Return the files of some parts as SQL lists them."""
    paths = [path for _, path in _located(con, lake, raw_table, ids)]
    # the part without rows has every column, also those that came after the others were written
    files = [*paths, *(lake.raw / raw_table / f"run={_SCHEMA_RUN}").glob("part-*.parquet")]
    return f"[{', '.join(quoted(str(path.resolve())) for path in files)}]"


def parts_of(con: duckdb.DuckDBPyConnection, lake: Home, raw: Raw) -> tuple[Part, ...]:
    """Find the parts that hold the rows of a score, and hash them again.

    Raises
    ------
    LakeUnusable
        If a file is gone or its bytes are not those that it is named by.
    """
    return tuple(
        _hashed(raw_table, run_id, path)
        for raw_table, condition in raw.where.items()
        for run_id, path in _located(
            con,
            lake,
            raw_table,
            [
                part_id
                for (part_id,) in con.execute(
                    raw.over_files(f"select distinct part_id from stg_{raw_table} where {condition}")
                ).fetchall()
            ],
        )
    )


def _located(
    con: duckdb.DuckDBPyConnection, lake: Home, raw_table: str, ids: Sequence[str]
) -> list[tuple[str, Path]]:
    """Return run and file of some parts."""
    named = con.execute(
        """
        select distinct run_id, part_id from stg_parts
        where raw_table = $1 and list_contains($2::varchar[], part_id)
        order by run_id, part_id
        """,
        [raw_table, list(ids)],
    ).fetchall()
    return [(run_id, _found(lake.raw / raw_table / f"run={run_id}", part_id)) for run_id, part_id in named]


def _found(folder: Path, part_id: str) -> Path:
    path = next(iter(folder.glob(f"part-{part_id}*.parquet")), None)
    if path is None:
        raise LakeUnusable(
            f"{folder}: expected part-{part_id}*.parquet, found no such file; run `coglake verify`"
        )
    return path


def _hashed(raw_table: str, run_id: str, path: Path) -> Part:
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    if path.stem != f"part-{sha256}":
        raise LakeUnusable(
            f"{path}: expected the bytes that its name is the hash of, found sha256 {sha256[:12]}...; "
            "run `coglake verify`"
        )
    return Part(raw_table, run_id, str(path), sha256, len(data))


def run_records(con: duckdb.DuckDBPyConnection, lake: Home, run_ids: Iterable[str]) -> tuple[Row, ...]:
    """Return what each run says of itself, but for the names of its parts."""
    return tuple(record for run_id in sorted(set(run_ids)) for record in _record(con, lake, run_id))


def _record(con: duckdb.DuckDBPyConnection, lake: Home, run_id: str) -> list[Row]:
    # a view over all runs would open every one of them
    times = """
        strftime({}(started_at) at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC') as started_at,
        strftime({}(finished_at) at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC') as finished_at
    """
    records = asked(
        con,
        f"""
        select * exclude (parts, started_at, finished_at), {times.format("", "")}
        from {_folders(lake, "runs", run_id)}
        where run_id = $1
        """,
        run_id,
    )
    if records and records[0]["started_at"] is None:
        # a run that grows has the times of its batches
        [spans] = asked(
            con,
            f"""
            select {times.format("min", "max")}
            from {_folders(lake, "batches", run_id)}
            where run_id = $1
            """,
            run_id,
        )
        records[0] |= spans
    return records


def _folders(lake: Home, raw_table: str, run_id: str) -> str:
    """Return the parts of one run as SQL reads them, with the columns of now."""
    folder = lake.raw.resolve() / raw_table
    runs = [name for name in (run_id, _SCHEMA_RUN) if (folder / f"run={name}").is_dir()]
    files = ", ".join(quoted(str(folder / f"run={name}" / "part-*.parquet")) for name in runs)
    return f"read_parquet([{files}], hive_partitioning = false, union_by_name = true)"


def pins(records: Iterable[Row], project: Path) -> tuple[Row, ...]:
    """Return where the rows of some runs come from: pinned files, or schedules of environments made here."""
    sources = load_sources(project / "manifests" / "sources.toml")
    schedules = tomllib.loads((project / "manifests" / "environments.toml").read_text(encoding="utf-8"))
    found: dict[tuple[object, ...], Row] = {}
    for record in records:
        source_id = record["source_id"]
        pin: Row = {
            "source_id": source_id,
            "uri": record["source_uri"],
            "sha256": record["source_sha256"],
            "importer_version": record["importer_version"],
        }
        if source_id in sources:
            source = sources[source_id]
            pin |= {
                "repo": source.address,
                "revision": source.revision,
                "licence": source.licence,
                "is_restricted": source.is_restricted,
                "description": source.description,
            }
        elif source_id in schedules:
            schedule = schedules[source_id]
            pin |= {
                "repo": "manifests/environments.toml",
                "revision": f"version {schedule['version']}",
                "seeds": schedule.get("seeds"),
                "constants": schedule.get("constants"),
                "description": schedule["description"],
            }
        found[tuple(str(pin[key]) for key in ("source_id", "uri", "sha256", "importer_version"))] = pin
    return tuple(found.values())


def raw_rows(
    con: duckdb.DuckDBPyConnection, raw: Raw, raw_table: str, source_ids: Iterable[str | None]
) -> RawRows:
    """Count the rows of a score in one raw table, and say how to read the columns that hold something."""
    relation = f"(select * from stg_{raw_table} where {raw.where[raw_table]})"
    found = con.sql(raw.over_files(f"select * from stg_{raw_table}"))
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    counts = ", ".join(f'count("{name}") as "{name}"' for name in types)
    [held] = asked(con, raw.over_files(f'select count(*) as "number of rows", {counts} from {relation}'))
    cells = ", ".join(f"{quoted(name)}: {_cell(name, kind)}" for name, kind in types.items() if held[name])
    query = f"select to_json({{{cells}}}) from {relation} order by {_ORDER[raw_table]}" if cells else ""
    n_rows = int(held["number of rows"])
    return RawRows(
        raw_table, raw.over_files(query) if query else "", n_rows, tuple(dict.fromkeys(source_ids))
    )


def _cell(name: str, kind: str) -> str:
    """Return a column as JSON holds it: what is infinite is a text there, since JSON has no such number."""
    finite = "case when not isfinite({0}) then to_json(cast({0} as varchar)) else to_json({0}) end"
    if kind == "DOUBLE":
        return finite.format(f'"{name}"')
    if kind == "DOUBLE[]":
        return f'list_transform("{name}", lambda number: {finite.format("number")})'
    return f'"{name}"'


def lines(
    con: duckdb.DuckDBPyConnection,
    rows: RawRows,
    restricted: frozenset[str] | None,
    shown: PublicRows,
    most: int | None = None,
) -> Iterator[str]:
    """Yield the rows as JSON objects, one a line.

    Parameters
    ----------
    restricted
        Sources whose raw text is left out; None to show all.
    shown
        Leaves it out, and calls the same row by the same name in every table.
    most
        Rows to yield; None for all.
    """
    if not rows.query or most == 0:
        return
    hidden = (
        [] if restricted is None else [each for each in rows.source_ids if each is None or each in restricted]
    )
    query = shown.shuffled(rows.query) if hidden else rows.query
    result = con.cursor().execute(query if most is None else f"{query} limit {most}")
    while batch := result.fetchmany(_BATCH):
        for (line,) in batch:
            if not hidden:
                yield line
            else:
                public = shown.of(rows.raw_table, json.loads(line), hidden[0])
                yield json.dumps(public, ensure_ascii=False, allow_nan=False)
