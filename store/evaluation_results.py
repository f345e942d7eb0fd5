"""What the last build says of an evaluation, beside what its runner knows of it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import duckdb

from store.evaluation_files import ComponentRecord, RunRecord
from store.protocol import load_components, load_metrics

_SCORES = """
    select * exclude (evaluation_id, model_id, model_revision)
    from cognirank_scores
    where evaluation_id = ?
    order by component_id, is_primary desc, metric
"""
_COMPOSITE = """
    select cogniscore, withheld_because, cogniscore_standin, standin_datasets, ci_low, ci_high
    from cogniscore
    where run_id = ?
"""
_ITEMS = """
    select rule, readout, item_id, any_value(value) filter (where status = 'ok'), count(*)
    from int_scored
    where run_id = ?
    group by rule, readout, item_id
"""
_WITHHELD = ("cogniscore", "cogniscore_standin", "ci_low", "ci_high")


def results_of(con: duckdb.DuckDBPyConnection | None, record: RunRecord) -> dict[str, Any]:
    """Return the content of ``results.json``: every component, with its value or the reason why it has none.

    Parameters
    ----------
    con
        Connection to a build of all that the record's runs answered; None if there is nothing to build.
    """
    scores = _rows(con, _SCORES, record.evaluation_id)
    composites = _rows(con, _COMPOSITE, record.evaluation_id)
    components = {
        name: _component(
            name, record.components[name], [row for row in scores if row["component_id"] == name]
        )
        for name in load_components()
    }
    return {
        "model": record.model,
        "revision": record.revision,
        "release_id": record.release_id,
        "evaluation_id": record.evaluation_id,
        "components": components,
        **_composite(record, components, composites),
        "deviations": record.deviations,
        "is_context_extension": record.context.is_extension,
        "trust_remote_code": record.trust_remote_code,
        "failure": record.failure,
    }


def item_scores(
    con: duckdb.DuckDBPyConnection, component_id: str, run_id: str
) -> dict[str, dict[str, float | None]]:
    """Return the value of each item by metric; of an item that was scored twice there is none."""
    found: dict[tuple[str, str | None], dict[str, float | None]] = defaultdict(dict)
    for rule, readout, item_id, value, n in con.execute(_ITEMS, [run_id]).fetchall():
        found[rule, readout][item_id] = value if n == 1 else None
    return {
        metric.metric: found[metric.rule, metric.readout]
        for metric in load_metrics()
        if metric.component_id == component_id
    }


def _component(component_id: str, record: ComponentRecord, scores: list[dict[str, Any]]) -> dict[str, Any]:
    component = load_components()[component_id]
    units = {metric.metric: metric.unit for metric in load_metrics() if metric.component_id == component_id}
    told: dict[str, Any] = {
        "label": component.label,
        "dataset_id": record.dataset_id,
        "is_stand_in": record.is_stand_in,
        "weight": f"{component.weight_numerator}/{component.weight_denominator}",
        "chance_pct": component.chance_pct,
        "state": record.state,
        "run_id": record.run_id,
        "value": None,
        "reason": record.reason or _not_run(record),
        "metrics": {},
    }
    standing = {row["run_id"] for row in scores}
    if record.run_id not in standing:
        if standing:
            told["reason"] = f"another run of this evaluation counts: {', '.join(sorted(standing))}"
        return told
    for row in scores:
        told["metrics"][row["metric"]] = {
            "unit": units.get(row["metric"]),
            **{
                name: cell
                for name, cell in row.items()
                if name not in ("run_id", "component_id", "dataset_id", "is_stand_in", "metric")
            },
        }
        if row["is_primary"]:
            # a component that failed has no value, whatever could be scored
            told["value"] = row["value"] if record.state == "complete" else None
            told["reason"] = None if told["value"] is not None else row["reason"] or told["reason"]
    return told


def _not_run(record: ComponentRecord) -> str:
    return f"the component is {record.state}"


def _composite(
    record: RunRecord, components: Mapping[str, Mapping[str, Any]], composites: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the composite; it is withheld where the components here are not those that it is made of."""
    without = [f"{name}: {told['reason']}" for name, told in components.items() if told["value"] is None]
    if composites and not without:
        return composites[0]
    reasons = "; ".join(([record.failure] if record.failure else []) + without)
    withheld = dict.fromkeys(_WITHHELD)
    return {
        **withheld,
        "withheld_because": reasons or "the last build has no such evaluation",
        "standin_datasets": ", ".join(
            component.dataset_id for component in record.components.values() if component.is_stand_in
        )
        or None,
    }


def _rows(
    con: duckdb.DuckDBPyConnection | None, query: str, evaluation_id: str | None
) -> list[dict[str, Any]]:
    if con is None:
        return []
    result = con.execute(query, [evaluation_id])
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
