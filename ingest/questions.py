"""What importers of human responses share: how their tables and their faults become a run."""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.contract import Imported, RawRows, with_every_column
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.schemas import RAW_TABLES, RUNS


def imported(
    source: Source,
    file: PinnedFile,
    *,
    run_id: str,
    importer_version: int,
    dataset: str,
    modes: Sequence[str],
    tables: Mapping[str, pa.Table],
    n_source_rows: int,
    flaws: Sequence[tuple[str, int]] = (),
    set_aside: Collection[str] = (),
    are_frequencies: bool = False,
) -> Imported:
    """Return the run that a file of questions and human responses becomes.

    Parameters
    ----------
    dataset
        Experiment or sample within the source; ``model_id`` of the run.
    tables
        Rows by raw table (``items``, ``human_responses``, ``fits``, ``published``); columns that were not
        read may be absent. A table without rows is left out.
    n_source_rows
        Data rows of the file.
    flaws
        What could not be read and what became of it, with the number of source rows: the raw tables have no
        status, so a note is what keeps such a row from being lost without a trace.
    set_aside
        Those of the sentences in ``flaws`` that are of rows which could be read, and are no questions.
    are_frequencies
        Whether a participant's choices in one item were only counted: then each option that was chosen is a
        row, and its weight is how often. Otherwise a participant has one row per item.

    Raises
    ------
    InvalidSource
        If an item that a model may be asked has no prompt, or two rows claim one key.
    """
    where = source.uri(file)
    conformed = {
        table: with_every_column(rows, RAW_TABLES[table]) for table, rows in tables.items() if rows.num_rows
    }
    if items := conformed.get("items"):
        _require_prompts(items, where)
        _require_one_row(items, ["item_id"], where)
    if responses := conformed.get("human_responses"):
        key = ["item_id", "participant_id"]
        _require_one_row(responses, [*key, "response"] if are_frequencies else key, where)
    n_unreadable = sum(count for what, count in flaws if what not in set_aside)
    notes = tuple(f"{count:,} rows: {what}" for what, count in flaws)
    notes = notes if n_source_rows else ("the file holds no rows",)
    run = {
        "run_id": run_id,
        "kind": "items",
        "model_id": dataset,
        "agent_kind": "human",
        "planned_modes": list(modes),
        "source_id": source.id,
        "source_uri": where,
        "source_sha256": file.sha256,
        "importer_version": importer_version,
        "n_source_rows": n_source_rows,
        "n_unreadable_rows": n_unreadable,
        "notes": notes,
    }
    runs = RawRows("runs", pa.Table.from_pylist([run], schema=RUNS))
    rows = tuple(RawRows(table, found) for table, found in conformed.items())
    return Imported(run_id, (*rows, runs), n_source_rows, n_unreadable, notes)


def _require_prompts(items: pa.Table, where: str) -> None:
    asked = pc.fill_null(pc.not_equal(items["split"], "train"), True)
    lacking = items.filter(pc.and_(asked, pc.is_null(items["prompt"])))
    if lacking.num_rows:
        raise InvalidSource(
            f"{where}: expected a prompt for every question, found {lacking.num_rows} without one, first "
            f"{lacking['item_id'][0]}"
        )


def _require_one_row(table: pa.Table, key: list[str], where: str) -> None:
    counts = table.group_by(key).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        first = ", ".join(str(twice[name][0]) for name in key)
        raise InvalidSource(
            f"{where}: expected each {' and '.join(key)} once, found {twice.num_rows} several times, "
            f"first {first}"
        )
