"""The way from a CogniScore, or a component of it, to its raw rows."""

import shlex
from pathlib import Path

import duckdb

from store.errors import WrongUsage
from store.export import near
from store.settings import Home
from store.trace_files import asked, pins, run_records
from store.trace_names import COGNISCORE, Named
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
from store.trace_rows import answers, gathered
from store.trace_sql import Estimate, quoted
from store.trace_sql_rules import of_component, of_component_verdicts, reads_options

_PRINTED_DECIMALS = 2


def trace_component(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, named: Named, metric: str | None
) -> Trace:
    """Trace what one evaluation scored in a component, or another metric of it.

    Raises
    ------
    WrongUsage
        If the component has no such metric.
    """
    scores = {
        row["metric"]: row
        for row in asked(
            con,
            "select * from cognirank_scores where evaluation_id = $1 and $2 in (component_id, dataset_id)",
            named.column_id,
            named.mode_id,
        )
    }
    if metric is not None and metric not in scores:
        raise WrongUsage(
            f"--metric {metric}: {near(metric, scores) or 'no such metric'}; "
            f"{named.mode_id} has {', '.join(scores)}"
        )
    score = scores[metric] if metric else next(row for row in scores.values() if row["is_primary"])
    [component] = asked(
        con, "select * from cognirank_components where component_id = $1", score["component_id"]
    )
    [declared] = asked(
        con,
        "select * from cognirank_metrics where component_id = $1 and metric = $2",
        score["component_id"],
        score["metric"],
    )
    rule, run_id, dataset_id = declared["rule"], score["run_id"], score["dataset_id"]
    estimate = Estimate(
        metric=score["metric"], estimator="mean", scale=declared["scale"], readout=declared["readout"]
    )
    raw = answers(
        con, lake, dataset_id, run_id, has_options=reads_options(rule), has_verdicts=rule == "verdict"
    )
    rows, parts, runs = gathered(con, lake, raw)
    queries: list[Query] = []
    if score["value_scored"] is not None:
        by_verdicts = of_component_verdicts(estimate, run_id)
        queries.append(checked(con, "the verdicts", by_verdicts, score["value_scored"]))
    if score["value"] is not None:
        grader = (declared["grader_id"], declared["grader_version"]) if declared["grader_id"] else None
        by_rows = of_component(estimate, rule, raw, component["stratum_fact"], grader)
        queries.append(checked(con, "raw rows", by_rows, score["value"], raw))
    value, of_run = score["value"], {"run_id": run_id, "metric": score["metric"]}
    return Trace(
        cell={
            "benchmark": "cognirank",
            "mode_id": score["component_id"],
            "label": component["label"],
            "dataset_id": dataset_id,
            "is_stand_in": score["is_stand_in"],
            "column_id": score["evaluation_id"],
            "column_kind": "evaluation",
            "model_id": score["model_id"],
            "run_id": run_id,
            "metric": score["metric"],
            "is_primary": score["is_primary"],
            "unit": declared["unit"],
            "direction": "higher",
            "decimals": _PRINTED_DECIMALS,
            "printed": "withheld" if value is None else f"{value:.{_PRINTED_DECIMALS}f}",
            "status": "complete" if value is not None else "part.",
        },
        value=value,
        value_scored=score["value_scored"],
        reason=score["reason"],
        advice=None if value is not None else _advice(score["model_id"]),
        formulas=formulas(con, ("rule", rule), ("composite", "cognirank_component")),
        parameters=declared | chosen(component, ("stratum_fact", "n_strata", "cluster_fact", "n_examples")),
        counts=chosen(score, COUNTS),
        uncertainty=chosen(score, UNCERTAINTY),
        versions=(
            *versions(con, f"rule {rule}", "int_cognirank_items", **of_run),
            *([{"of": "component", "sha256": score["scorer_sha"]}] if score["scorer_sha"] else []),
        ),
        unscored=unscored(con, "int_cognirank_items", **of_run),
        queries=tuple(queries),
        rows=rows,
        parts=parts,
        runs=runs,
        sources=pins(runs, project),
    )


def trace_cogniscore(
    con: duckdb.DuckDBPyConnection, lake: Home, project: Path, named: Named, *, is_nested: bool
) -> Trace:
    """Trace the CogniScore of one evaluation, or what it comes to with stand-ins."""
    [found] = asked(con, "select * from cogniscore where run_id = $1", named.column_id)
    components = asked(
        con,
        """
        select
            components.component_id, components.label,
            components.weight_numerator, components.weight_denominator,
            scores.dataset_id, scores.is_stand_in, scores.metric, scores.value, scores.se, scores.n_clusters,
            scores.n_planned, scores.n_scored, scores.run_id, scores.scorer_sha,
            coalesce(scores.reason, case when scores.run_id is null then 'no run' end) as reason
        from cognirank_components as components
        left join cognirank_scores as scores
            on
                components.component_id = scores.component_id
                and scores.is_primary
                and scores.evaluation_id = $1
        order by components.display_order
        """,
        named.column_id,
    )
    is_stand_in = found["cogniscore"] is None and found["cogniscore_standin"] is not None
    value = found["cogniscore_standin"] if is_stand_in else found["cogniscore"]
    queries: list[Query] = []
    if value is not None:
        sql = (
            "select\n    sum(components.weight_numerator * scores.value)\n"
            "    / any_value(components.weight_denominator) as value\n"
            "from cognirank_scores as scores\njoin cognirank_components as components\n"
            "    on scores.component_id = components.component_id\n"
            f"where scores.is_primary and scores.evaluation_id = {quoted(named.column_id)}"
        )
        queries = [checked(con, "the components", sql, value)]
    runs = run_records(con, lake, [row["run_id"] for row in components if row["run_id"] is not None])
    nested = tuple(
        trace_component(con, lake, project, Named("component", row["component_id"], named.column_id), None)
        for row in (components if is_nested else ())
        if row["run_id"] is not None
    )
    return Trace(
        cell={
            "benchmark": "cognirank",
            "mode_id": COGNISCORE,
            "label": "CogniScore",
            "is_stand_in": is_stand_in,
            "column_id": named.column_id,
            "column_kind": "evaluation",
            "model_id": found["model_id"],
            "run_id": None,
            "metric": "cogniscore_standin" if is_stand_in else COGNISCORE,
            "is_primary": True,
            "unit": "percent",
            "direction": "higher",
            "decimals": _PRINTED_DECIMALS,
            "printed": "withheld" if value is None else f"{value:.{_PRINTED_DECIMALS}f}",
            "status": "complete" if value is not None else "part.",
        },
        value=value,
        value_scored=value,
        reason=found["withheld_because"],
        advice=None if value is not None else _advice(found["model_id"]),
        formulas=formulas(con, ("composite", COGNISCORE)),
        parameters={},
        counts={
            "n_components": len(components),
            "n_scored": sum(row["value"] is not None for row in components),
        },
        uncertainty=chosen(found, UNCERTAINTY),
        versions=tuple(
            {"of": f"component {row['component_id']}", "sha256": row["scorer_sha"]}
            for row in components
            if row["scorer_sha"]
        ),
        queries=tuple(queries),
        components=tuple(components),
        nested=nested,
        runs=runs,
        sources=pins(runs, project),
    )


def _advice(model_id: str) -> str:
    return f"`coglake cognirank --models {shlex.quote(model_id)}` asks what is missing"
