"""Questions that were ingested, and what people answered: what agents are asked and references learn from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from store.errors import LakeUnusable
from store.lake import part_paths, run_parts
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

_BRINGS_ITEMS = ["items", "schedule"]
# all that may be known of an item, which is not its prompt: a long text that only models need
_COLUMNS = (
    "item_id",
    "participant_id",
    "split",
    "legal_options",
    "credited_options",
    "support_low",
    "support_high",
    "target",
    "facts_json",
    "weight",
)


def runs_of(lake: Home) -> pa.Table:
    """Return ``raw/runs``.

    Raises
    ------
    LakeUnusable
        If it cannot be read.
    """
    parts = [str(path) for path in part_paths(lake, "runs")]
    if not parts:
        return RUNS.empty_table()
    try:
        return ds.dataset(parts, schema=RUNS).to_table()
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"{lake.raw / 'runs'}: {error}; run `coglake doctor`") from error


@dataclass(frozen=True, slots=True)
class Brought:
    """A run that brought questions.

    Attributes
    ----------
    dataset
        Experiment or sample within the source.
    parts
        Hashes of the parts that it committed; None for a run of an older version, of which all parts count.
    """

    dataset: str
    parts: Sequence[str] | None


def item_runs(runs: pa.Table, mode_id: str, source_id: str) -> dict[str, Brought]:
    """Return the runs that brought a mode's items, by their ids: of each file its newest reading."""
    # and not those that answer them
    bringing = runs.filter((pc.field("source_id") == source_id) & pc.field("kind").isin(_BRINGS_ITEMS))
    found = [run for run in bringing.to_pylist() if mode_id in run["planned_modes"]]
    newest: dict[str, dict[str, Any]] = {}
    for run in sorted(found, key=lambda run: run["importer_version"] or 0):
        newest[run["source_uri"] or run["run_id"]] = run
    return {run["run_id"]: Brought(run["model_id"], run["parts"]) for run in newest.values()}


def questions(lake: Home, brought: Mapping[str, Brought], mode_id: str) -> pa.Table:
    """Return the questions of the test that some runs brought, without their prompts, by ``item_id``."""
    items = _rows(lake, "items", brought, mode_id, _COLUMNS)
    is_asked = pc.fill_null(pc.equal(items["split"], "test"), True)
    return items.filter(is_asked).sort_by("item_id")


def trials(lake: Home, brought: Mapping[str, Brought], mode_id: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a mode's questions with what people answered, and parameters that came with them.

    Parameters
    ----------
    brought
        As :func:`item_runs` returns it.

    Returns
    -------
    tuple
        Frames with the columns that :class:`generate.contract.Training` names. A question that nobody
        answered is one row without a response.
    """
    datasets = pl.DataFrame(
        {"run_id": list(brought), "dataset": [run.dataset for run in brought.values()]},
        schema={"run_id": str, "dataset": str},
    )
    items = pl.DataFrame(_rows(lake, "items", brought, mode_id, _COLUMNS))
    answers = ("item_id", "participant_id", "response", "response_number", "fold", "weight")
    responses = pl.DataFrame(_rows(lake, "human_responses", brought, mode_id, answers)).drop("run_id")
    answered = (
        items.join(responses, on="item_id", how="left", suffix="_of_response")
        .with_columns(
            pl.col("participant_id").is_null().alias("is_shared"),
            pl.coalesce("participant_id_of_response", "participant_id").alias("participant_id"),
            pl.coalesce("weight_of_response", "weight").alias("weight"),
        )
        .drop("participant_id_of_response", "weight_of_response")
        .sort("participant_id", "item_id")
    )
    fits = pl.DataFrame(_rows(lake, "fits", brought, mode_id))
    return _with_dataset(answered, datasets), _with_dataset(fits, datasets)


def _with_dataset(rows: pl.DataFrame, datasets: pl.DataFrame) -> pl.DataFrame:
    return rows.join(datasets, on="run_id", how="left").drop("run_id")


def _rows(
    lake: Home, table: str, brought: Mapping[str, Brought], mode_id: str, columns: Collection[str] = ()
) -> pa.Table:
    """Return the rows of one mode that some runs brought, with their ``run_id``."""
    names = [name for name in columns or RAW_TABLES[table].names if name != "run_id"]
    of_mode = pc.field("mode_id") == mode_id
    found = [
        rows_of_run(lake, table, run_id, brought[run_id].parts, names, of_mode) for run_id in sorted(brought)
    ]
    labelled = [
        rows.append_column("run_id", pa.repeat(run_id, rows.num_rows))
        for run_id, rows in zip(sorted(brought), found, strict=True)
    ]
    nothing = RAW_TABLES[table].empty_table().select(names).append_column("run_id", pa.array([], pa.string()))
    return pa.concat_tables([nothing, *labelled])


def rows_of_run(
    lake: Home,
    table: str,
    run_id: str,
    committed: Sequence[str] | None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Return the rows of a raw table that one run committed.

    Parameters
    ----------
    committed
        Hashes of the run's parts; None for a run of an older version, which names none: all count.
    columns
        Columns to read; all if None.
    where
        Condition on the rows; none if None.

    Raises
    ------
    LakeUnusable
        If a part cannot be read.
    """
    return rows_of_parts(table, run_parts(lake, table, run_id, committed), columns, where)


def rows_of_parts(
    table: str,
    parts: Sequence[Path],
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Return the rows that some parts of a raw table hold; parameters as in :func:`rows_of_run`.

    Raises
    ------
    LakeUnusable
        If a part cannot be read.
    """
    schema = RAW_TABLES[table]
    names = schema.names if columns is None else list(columns)
    if not parts:
        return schema.empty_table().select(names)
    try:
        return ds.dataset([str(path) for path in parts], schema=schema).to_table(names, where)
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"raw/{table}: {error}; run `coglake doctor`") from error
