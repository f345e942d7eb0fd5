"""Which questions of a run have no answer yet, straight from the parts of a lake.

Millions of planned questions are a few columns in DuckDB; prompts are read batch by batch.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from generate.questions import Brought
from store.lake import batch_parts, run_parts
from store.settings import Home


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of the questions or episodes of a mode is done here.

    Attributes
    ----------
    limit
        The first so many questions in the order of the hashes of their ids, or the first episodes of the
        schedule; None for all.
    shard, n_shards
        Every ``n_shards``-th of them, from ``shard`` on; both count from 0.
    """

    limit: int | None = None
    shard: int = 0
    n_shards: int = 1

    @property
    def suffix(self) -> str:
        """What tells the lock of this part from those of others."""
        return "" if self.n_shards == 1 else f".{self.shard}-of-{self.n_shards}"


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions of a mode, and the run that answers them.

    Attributes
    ----------
    brought
        Runs that brought the questions.
    run_id
        The run whose answers count; None if there is none yet.
    """

    mode_id: str
    brought: Mapping[str, Brought]
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """What there is to ask.

    Attributes
    ----------
    n_chosen, n_pending
        Questions of the slice, and those of them without an answer.
    batches
        The latter in the order of the parts. Columns: ``item_id``, ``participant_id``, ``prompt``,
        ``legal_options``, ``max_response_tokens`` (the question's own budget, null if it has none).
    """

    n_chosen: int
    n_pending: int
    batches: Iterator[pa.Table]


@contextmanager
def pending(lake: Home, questions: Questions, part: Slice, batch_size: int) -> Iterator[Pending]:
    """Look up what has no answer; the batches can be read inside ``with``.

    Raises
    ------
    LakeUnusable
        If a batch of the run cannot be read.
    """
    with closing(duckdb.connect()) as con:
        _view_asked(con, lake, questions)
        limit = "" if part.limit is None else f"order by md5(item_id), item_id limit {part.limit}"
        con.execute(f"create view limited as select item_id from asked {limit}")
        con.execute(
            f"""
            create view chosen as
            select item_id from limited
            where ('0x' || left(md5(item_id), 8))::ubigint % {part.n_shards} = {part.shard}
            """
        )
        parts = batch_parts(lake, questions.run_id, "outputs") if questions.run_id is not None else []
        answered = f"select item_id from {_scan(parts)}" if parts else "select '' as item_id where false"
        con.execute(f"create table answered as {answered}")
        con.execute("create view pending as select item_id from chosen anti join answered using (item_id)")
        n_chosen, n_pending = _row(
            con, "select (select count(*) from chosen), (select count(*) from pending)"
        )
        yield Pending(n_chosen, n_pending, _batches(con, batch_size))


def templates_of(lake: Home, questions: Questions) -> list[str] | None:
    """Return the hashes of the templates of all questions that are asked; None if nothing is."""
    if not _parts(lake, questions):
        return None
    with closing(duckdb.connect()) as con:
        _view_asked(con, lake, questions)
        query = "select list(distinct template_sha256 order by template_sha256), count(*) from asked"
        templates, n_asked = _row(con, query)
    return list(templates or []) if n_asked else None


def _view_asked(con: duckdb.DuckDBPyConnection, lake: Home, questions: Questions) -> None:
    """Name the questions of the test that have a prompt."""
    items = _scan(_parts(lake, questions))
    # where all parts are of an older version, no question has a budget of its own
    columns = {name for name, *_ in con.execute(f"describe select * from {items}").fetchall()}
    budget = "max_response_tokens" if "max_response_tokens" in columns else "null::integer"
    con.execute(
        f"""
        create view asked as
        select
            item_id, participant_id, prompt, legal_options, template_sha256,
            {budget} as max_response_tokens
        from {items}
        where mode_id = '{questions.mode_id}' and coalesce(split, 'test') = 'test' and prompt is not null
        """
    )


def _parts(lake: Home, questions: Questions) -> list[Path]:
    return [
        path
        for run_id, run in sorted(questions.brought.items())
        for path in run_parts(lake, "items", run_id, run.parts)
    ]


def _scan(parts: list[Path]) -> str:
    files = ", ".join("'" + str(path).replace("'", "''") + "'" for path in parts)
    # parts of an older version lack columns that came later
    return f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"


def _row(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    # all rows, so that the connection is free for the next query
    (row,) = con.execute(query).fetchall()
    return row


def _batches(con: duckdb.DuckDBPyConnection, batch_size: int) -> Iterator[pa.Table]:
    relation = con.sql(
        """
        select
            asked.item_id, asked.participant_id, asked.prompt, asked.legal_options,
            asked.max_response_tokens
        from asked semi join pending using (item_id)
        """
    )
    held: list[pa.RecordBatch] = []
    for batch in relation.to_arrow_reader(batch_size):
        held.append(batch)
        while sum(rows.num_rows for rows in held) >= batch_size:
            rows = pa.Table.from_batches(held)
            yield rows.slice(0, batch_size)
            held = rows.slice(batch_size).to_batches()
    if any(rows.num_rows for rows in held):
        yield pa.Table.from_batches(held)
