"""Responses of human participants in the lake: what the parameters of a reference are fitted to."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from store.errors import LakeUnusable, SourceUnavailable
from store.lake import part_paths
from store.schemas import RAW_TABLES
from store.settings import Home


def human_rows(
    lake: Home, tables: tuple[str, ...], *, source_id: str, model_id: str, mode_id: str
) -> tuple[pa.Table, ...]:
    """Return what one sample of participants did, from the run that committed it.

    Where a file was read by importers of several versions, the newest reading is the one.

    Parameters
    ----------
    tables
        Raw tables to read; one result each.
    source_id, model_id, mode_id
        The source, the name of the sample in it, and the mode.

    Raises
    ------
    SourceUnavailable
        If the lake does not hold exactly one such run.
    LakeUnusable
        If a part cannot be read.
    """
    runs = _read("runs", [str(path) for path in part_paths(lake, "runs")])
    is_sample = pc.and_kleene(pc.equal(runs["source_id"], source_id), pc.equal(runs["model_id"], model_id))
    held = [run for run in runs.filter(is_sample).to_pylist() if mode_id in run["planned_modes"]]
    newest = max((run["importer_version"] or 0 for run in held), default=0)
    found = [run for run in held if (run["importer_version"] or 0) == newest]
    if len(found) != 1:
        raise SourceUnavailable(
            f"{lake.root}: expected one run with the participants `{model_id}` of {source_id} in {mode_id}, "
            f"found {len(found)}; run `coglake ingest {source_id}` in a new lake first"
        )
    [run] = found
    return tuple(_read(table, _committed_parts(lake, table, run["run_id"], run["parts"])) for table in tables)


def _committed_parts(lake: Home, table: str, run_id: str, committed: list[str] | None) -> list[str]:
    """Return a run's parts of one table; in a run of an older version, which names none, all count."""
    paths = sorted((lake.raw / table / f"run={run_id}").glob("part-*.parquet"))
    return [str(path) for path in paths if committed is None or path.stem.removeprefix("part-") in committed]


def _read(table: str, paths: list[str]) -> pa.Table:
    if not paths:
        return RAW_TABLES[table].empty_table()
    try:
        return ds.dataset(paths, schema=RAW_TABLES[table]).to_table()
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"raw/{table}: {error}; run `coglake doctor`") from error
