"""Which raw rows a score was made of: conditions that open no file but those that hold them."""

from dataclasses import replace

import duckdb

from store.settings import Home
from store.trace_files import Part, RawRows, Row, part_ids, parts_of, raw_rows, run_records, views_over
from store.trace_sql import Raw, in_parts

# raw tables of what is asked, whose rows name their source themselves
_ASKED = ("items", "human_responses")


def decisions(con: duckdb.DuckDBPyConnection, lake: Home, mode_id: str, run_id: str) -> Raw:
    """Return the decisions of a run in one mode."""
    ids = {"steps": part_ids(con, "steps", run_id=run_id, mode_id=mode_id)} | _fits(con, mode_id, run_id)
    where = {name: in_parts(some, mode_id, run_id) for name, some in ids.items()}
    return Raw(where, run_id=run_id, mode_id=mode_id, files=views_over(con, lake, ids))


def answers(
    con: duckdb.DuckDBPyConnection,
    lake: Home,
    mode_id: str,
    run_id: str,
    *,
    has_options: bool = False,
    has_responses: bool = False,
    has_verdicts: bool = False,
) -> Raw:
    """Return the answers of a run to the items of one mode, with the items.

    Parameters
    ----------
    has_options
        With the log-probabilities of options.
    has_responses
        With what people did who were asked the same.
    has_verdicts
        With what graders said of the answers.
    """
    of_run = [
        "outputs",
        *(["output_options"] if has_options else []),
        *(["verdicts"] if has_verdicts else []),
    ]
    ids = {name: part_ids(con, name, run_id=run_id, mode_id=mode_id) for name in of_run}
    where = {name: in_parts(some, mode_id, run_id) for name, some in ids.items()}
    # a run may bring its own items; otherwise they are anywhere among those of the mode
    own = part_ids(con, "items", run_id=run_id, mode_id=mode_id)
    of_mode = {"items": own or part_ids(con, "items", mode_id=mode_id)}
    if has_responses:
        of_mode["human_responses"] = part_ids(con, "human_responses", mode_id=mode_id)
    asked = f"item_id in (select item_id from stg_outputs where {where['outputs']})"
    where |= {name: f"{in_parts(some, mode_id)} and {asked}" for name, some in of_mode.items()}
    fits = _fits(con, mode_id, run_id)
    where |= {name: in_parts(some, mode_id, run_id) for name, some in fits.items()}
    raw = Raw(where, run_id=run_id, mode_id=mode_id, files=views_over(con, lake, ids | of_mode | fits))
    return replace(raw, is_text_read=_is_text_alone(con, raw))


def questions(con: duckdb.DuckDBPyConnection, lake: Home, mode_id: str, *, is_per_response: bool) -> Raw:
    """Return the items that a mode's exact expectation is over, with human responses if it counts these."""
    counted = [
        part_id
        for (part_id,) in con.execute(
            "select distinct part_id from int_item_parts where mode_id = $1 order by part_id", [mode_id]
        ).fetchall()
    ]
    if not counted:
        return Raw({}, mode_id=mode_id)
    ids = {"items": counted}
    where = {"items": f"{in_parts(counted, mode_id)} and is_asked"}
    if is_per_response:
        ids["human_responses"] = part_ids(con, "human_responses", mode_id=mode_id)
        asked = f"item_id in (select item_id from stg_items where {where['items']})"
        where["human_responses"] = f"{in_parts(ids['human_responses'], mode_id)} and {asked}"
    raw = Raw(where, mode_id=mode_id, files=views_over(con, lake, ids))
    if is_per_response and not _any(
        con, raw, f"select 1 from stg_human_responses where {where['human_responses']}"
    ):
        return replace(raw, where={"items": where["items"]})
    return raw


def dialogues(
    con: duckdb.DuckDBPyConnection, lake: Home, task_id: str, run_id: str, item_run_id: str | None
) -> Raw:
    """Return the replies of a run in one task of Learning, and the instances that it was asked."""
    ids = {"steps": part_ids(con, "steps", run_id=run_id, mode_id=task_id)}
    where = {"steps": in_parts(ids["steps"], task_id, run_id)}
    if item_run_id is not None:
        ids["items"] = part_ids(con, "items", run_id=item_run_id, mode_id=task_id)
        where["items"] = in_parts(ids["items"], task_id)
    return Raw(where, run_id=run_id, mode_id=task_id, files=views_over(con, lake, ids))


def gathered(
    con: duckdb.DuckDBPyConnection, lake: Home, raw: Raw
) -> tuple[tuple[RawRows, ...], tuple[Part, ...], tuple[Row, ...]]:
    """Return rows, the parts that hold them, and the records of all runs that these belong to."""
    parts = parts_of(con, lake, raw)
    runs = run_records(con, lake, [*(part.run_id for part in parts), *([raw.run_id] if raw.run_id else [])])
    of_run = [run["source_id"] for run in runs if run["run_id"] == raw.run_id]
    of_asked = [
        source_id
        for table in _ASKED
        if table in raw.where
        for (source_id,) in con.execute(
            raw.over_files(
                f"select distinct source_id from stg_{table} where {raw.where[table]} order by source_id"
            )
        ).fetchall()
    ]
    rows = tuple(
        raw_rows(con, raw, table, of_asked if table in _ASKED else [*of_run, *of_asked])
        for table in raw.where
    )
    return rows, parts, runs


def _fits(con: duckdb.DuckDBPyConnection, mode_id: str, run_id: str) -> dict[str, list[str]]:
    """Return the parts with the fitted parameters that a run acted by, if any."""
    fits = part_ids(con, "fits", run_id=run_id, mode_id=mode_id)
    return {"fits": fits} if fits else {}


def _is_text_alone(con: duckdb.DuckDBPyConnection, raw: Raw) -> bool:
    """Tell whether some answers are a text and nothing else, so that it must have been read."""
    options = raw.where.get("output_options")
    given = (
        ""
        if options is None
        else f"and item_id not in (select item_id from stg_output_options where {options})"
    )
    return _any(
        con,
        raw,
        f"""
        select 1 from stg_outputs
        where
            {raw.where["outputs"]}
            and status = 'ok' and response_text is not null
            and response_number is null and report_spacing is null {given}
        """,
    )


def _any(con: duckdb.DuckDBPyConnection, raw: Raw, query: str) -> bool:
    return bool(con.execute(raw.over_files(f"{query} limit 1")).fetchall())
