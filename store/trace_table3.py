"""The way from a cell of Table 3, or another metric of its mode, to its raw rows."""

import shlex
from dataclasses import fields
from pathlib import Path

import duckdb

from store.errors import WrongUsage
from store.export import near
from store.settings import Home
from store.trace_files import Row, asked, pins
from store.trace_names import Named
from store.trace_record import (
    COUNTS,
    UNCERTAINTY,
    Query,
    Trace,
    checked,
    chosen,
    formulas,
    unscored,
    versions,
)
from store.trace_rows import answers, decisions, gathered, questions
from store.trace_sql import Estimate, Raw, quoted
from store.trace_sql_rules import from_raw, from_verdicts, reads_options, reads_responses, reads_steps
from store.trace_sql_uniform import of_uniform, of_uniform_verdicts


def trace_cell(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, named: Named, metric: str | None
) -> Trace:
    """Trace a cell, or another metric of its mode.

    Raises
    ------
    WrongUsage
        If the mode has no such metric, or the column is an expectation and the metric has none.
    """
    [mode] = asked(con, "select * from s1cogbench_modes where mode_id = $1", named.mode_id)
    declared = {
        row["metric"]: row
        for row in asked(con, "select * from s1cogbench_metrics where mode_id = $1", named.mode_id)
    }
    [cell] = asked(
        con, "select * from int_cells where mode_id = $1 and column_id = $2", named.mode_id, named.column_id
    )
    if metric is not None and metric not in declared:
        raise WrongUsage(
            f"--metric {metric}: {near(metric, declared) or 'no such metric'}; "
            f"{named.mode_id} has {', '.join(declared)}"
        )
    parameters = declared[metric] if metric else next(row for row in declared.values() if row["is_primary"])
    if cell["column_kind"] == "uniform":
        return _expected(con, lake, project, mode, parameters, cell)
    return _acted(con, lake, project, mode, parameters, cell)


# ---- what somebody did ----


def _acted(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, mode: Row, parameters: Row, cell: Row
) -> Trace:
    run_id, mode_id = cell["run_id"], mode["mode_id"]
    estimate, rule = _estimate(parameters), parameters["rule"]
    measured = _measured(con, parameters, run_id)
    if not parameters["is_primary"]:
        cell |= _printed(con, measured, mode["decimals"])
    is_played = mode["is_played"]
    if run_id is None:
        raw = Raw({})
    elif reads_steps(rule, is_played=is_played):
        raw = decisions(con, lake, mode_id, run_id)
    else:
        raw = answers(
            con, lake, mode_id, run_id, has_options=reads_options(rule), has_responses=reads_responses(rule)
        )
    rows, parts, runs = gathered(con, lake, raw)
    scored_by: list[Row] = []
    failed: tuple[Row, ...] = ()
    if rule is not None and run_id is not None:
        of_run = {"run_id": run_id, "mode_id": mode_id}
        scored_by = versions(con, f"rule {rule}", f"int_scored__{rule}", **of_run)
        failed = unscored(con, f"int_scored__{rule}", **of_run)
    queries: list[Query] = []
    if run_id is not None and cell["value_scored"] is not None:
        by_verdicts = from_verdicts(estimate, rule, run_id, mode_id)
        if by_verdicts is not None:
            queries.append(checked(con, "the verdicts", by_verdicts, cell["value_scored"]))
        by_rows = from_raw(estimate, rule, raw, is_played=is_played)
        queries.append(checked(con, "raw rows", by_rows, cell["value_scored"], raw))
    return Trace(
        cell=_head(mode, parameters, cell),
        value=cell["value"],
        value_scored=cell["value_scored"],
        reason=cell["reason"],
        advice=None if cell["value"] is not None else _advice(con, mode_id, cell),
        formulas=formulas(con, ("rule", rule), ("estimator", parameters["estimator"])),
        parameters=parameters,
        counts=chosen(cell | measured, COUNTS),
        uncertainty=chosen(cell | measured, UNCERTAINTY),
        versions=(
            *scored_by,
            *([{"of": "metric", "sha256": cell["scorer_sha"]}] if cell["scorer_sha"] else []),
        ),
        unscored=failed,
        queries=tuple(queries),
        reference=_reference(con, mode_id) if cell["column_kind"] == "reference" else None,
        rows=rows,
        parts=parts,
        runs=runs,
        sources=pins(runs, project),
    )


def _measured(con: duckdb.DuckDBPyConnection, parameters: Row, run_id: str | None) -> Row:
    found = asked(
        con,
        "select * from metrics where run_id = $1 and mode_id = $2 and metric = $3",
        run_id,
        parameters["mode_id"],
        parameters["metric"],
    )
    return found[0] if found else {}


def _printed(con: duckdb.DuckDBPyConnection, measured: Row, decimals: int) -> Row:
    """Return what the cell of another metric would be, by the rules of those of Table 3."""
    value, scored = measured.get("value"), measured.get("value_scored")
    status = "complete" if value is not None else "part." if scored is not None else "n.a."
    [[printed]] = con.execute(
        """
        select coalesce(
            case when isinf($1::double) then '+∞' else format('{:.' || $2 || 'f}', $1::double) end, $3
        )
        """,
        [value, decimals, status],
    ).fetchall()
    return {
        "value": value,
        "value_scored": scored,
        "status": status,
        "printed": printed,
        "reason": measured.get("reason", "the run holds no rows for this metric"),
        "scorer_sha": measured.get("scorer_sha"),
    }


def _reference(con: duckdb.DuckDBPyConnection, mode_id: str) -> Row:
    [row] = asked(con, "select * from s1cogbench_references where mode_id = $1", mode_id)
    return row


def _advice(con: duckdb.DuckDBPyConnection, mode_id: str, cell: Row) -> str | None:
    """Return what would fill a cell, where its reason does not say so already."""
    if cell["column_kind"] in ("uniform", "reference"):
        return None
    kinds = {
        kind
        for (kind,) in con.execute(
            "select distinct kind from stg_runs where model_id = $1", [cell["model_id"]]
        ).fetchall()
    }
    if "model" in kinds:
        model = shlex.quote(cell["model_id"])
        return f"`coglake generate --model {model} --modes {mode_id}` asks what is missing"
    return (
        f"a source in which {cell['model_id']} was asked all of it: `coglake ingest --list` names the "
        "sources, and `coglake import` reads the log of another harness"
    )


# ---- exact expectations ----


def _expected(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, mode: Row, parameters: Row, cell: Row
) -> Trace:
    mode_id, metric, rule = mode["mode_id"], parameters["metric"], parameters["uniform_rule"]
    if rule is None:
        raise WrongUsage(f"--metric {metric}: no exact expectation is declared for it, so uniform has none")
    [found] = asked(con, "select * from uniform where mode_id = $1 and metric = $2", mode_id, metric)
    if not parameters["is_primary"]:
        cell |= _printed(con, found | {"value_scored": found["value"]}, mode["decimals"])
        cell["status"] = "n.e." if found["value"] is None else "complete"
        cell["printed"] = cell["printed"] if found["value"] is not None else cell["status"]
    raw = questions(con, lake, mode_id, is_per_response=parameters["is_per_response"])
    rows, parts, runs = gathered(con, lake, raw)
    queries: list[Query] = []
    if found["value"] is not None:
        over_kinds = of_uniform_verdicts(rule, metric, mode_id)
        queries = [
            checked(con, "the expectations", over_kinds, found["value"]),
            checked(con, "raw rows", of_uniform(_estimate(parameters), rule, raw), found["value"], raw),
        ]
    return Trace(
        cell=_head(mode, parameters, cell),
        value=cell["value"],
        value_scored=cell["value_scored"],
        reason=cell["reason"],
        advice=None,
        formulas=formulas(con, ("uniform_rule", rule), ("composite", "uniform")),
        parameters=parameters | {"declared_n_legal": mode["declared_n_legal"]},
        counts={"n_items": found["n_items"]},
        uncertainty={},
        versions=(
            *versions(con, f"uniform rule {rule}", f"int_uniform__{rule}", mode_id=mode_id, metric=metric),
            {"of": "expectation", "sha256": found["scorer_sha"]},
        ),
        queries=tuple(queries),
        expectations=tuple(_kinds(con, rule, metric, mode_id)),
        rows=rows,
        parts=parts,
        runs=runs,
        sources=pins(runs, project),
    )


def _kinds(con: duckdb.DuckDBPyConnection, rule: str, metric: str, mode_id: str) -> list[Row]:
    """Return the kinds of items with the expectation of each; what a kind has in common decides it."""
    return asked(
        con,
        f"""
        select
            items.item_id as first_item_id, items.n_items, items.weight, items.n_legal, items.n_credited,
            items.support_low, items.support_high, items.target, items.facts_json, known.expectation
        from int_uniform_items as items
        left join int_uniform__{rule} as known
            on
                items.mode_id = known.mode_id
                and items.metric = known.metric
                and items.item_id is not distinct from known.item_id
        where items.mode_id = {quoted(mode_id)} and items.metric = {quoted(metric)}
        order by items.weight desc, items.item_id
        """,
    )


# ---- both ----


def _estimate(parameters: Row) -> Estimate:
    return Estimate(**{each.name: parameters[each.name] for each in fields(Estimate)})


def _head(mode: Row, parameters: Row, cell: Row) -> Row:
    return {
        "benchmark": "s1cogbench",
        "mode_id": mode["mode_id"],
        "label": mode["label"],
        "column_id": cell["column_id"],
        "column_kind": cell["column_kind"],
        "model_id": cell["model_id"],
        "run_id": cell["run_id"],
        "metric": parameters["metric"],
        "is_primary": parameters["is_primary"],
        "unit": parameters["unit"],
        "direction": mode["direction"],
        "is_played": mode["is_played"],
        "decimals": mode["decimals"],
        "printed": cell["printed"],
        "status": cell["status"],
    }
