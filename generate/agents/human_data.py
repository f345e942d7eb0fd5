"""Responses of human participants in the lake: what the parameters of a reference are fitted to."""

import pyarrow as pa
import pyarrow.compute as pc

from generate.questions import rows_of_run, runs_of
from store.errors import SourceUnavailable
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
    runs = runs_of(lake)
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
    return tuple(rows_of_run(lake, table, run["run_id"], run["parts"]) for table in tables)
