"""Measure what CogniScores, their intervals, ranks and paired comparisons cost beside the rest of a build.

Models that answer by chance are planted at the sizes of the manifests, 3,870 items each, and the lake is
built by the command line in a process of its own. Answers are planted as a run leaves them, so the rules that
score items are a part of it. Run ``python benchmarks/cogniscore.py``; it prints a markdown table and leaves
no file behind.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from archive import MIB, Measured, run
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from store.lake import commit
from store.protocol import Component, Dataset, Metric, datasets_of, load_components, load_metrics
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

# nodes of a build by what they are for
PARTS = {
    "item rules": (
        "model.int_scored__answer_match",
        "model.int_scored__normalised_likelihood",
        "model.int_scored__verdict",
        "model.int_answers",
    ),
    "items and scores": (
        "model.int_cognirank_runs",
        "model.int_cognirank_questions",
        "model.int_cognirank_items",
        "model.int_cognirank_components",
    ),
    "replicates": ("model.int_cognirank_replicates", "model.int_cognirank_composites"),
    "pairs and ranks": ("model.cogniscore_pairs", "model.cogniscore_ranks"),
}
N_FAMILIES = 55
OPTIONS = tuple("abcd")


def items_of(component: Component, dataset: Dataset) -> list[dict[str, Any]]:
    """Return items of the component's form, parts of one size and families nearly so."""
    rows = []
    for place in range(dataset.n_examples):
        facts: dict[str, object] = {"format": "word"}
        if component.stratum_fact:
            facts[component.stratum_fact] = place * component.n_strata // dataset.n_examples
        if component.cluster_fact:
            facts[component.cluster_fact] = f"family {place % N_FAMILIES}"
        is_chosen = component.max_response_tokens is None
        rows.append(
            {
                "item_id": f"{dataset.dataset_id}/{place:05}",
                "mode_id": dataset.dataset_id,
                "source_id": dataset.source_id,
                "facts_json": json.dumps(facts),
                "legal_options": list(OPTIONS) if is_chosen else None,
                "credited_options": [OPTIONS[0] if is_chosen else "right"],
                "weight": 1.0,
            }
        )
    return rows


def answers_to(
    dataset: Dataset, metrics: list[Metric], run_id: str, rng: np.random.Generator
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield raw rows of a model that is right half of the time."""
    keys = [
        {"run_id": run_id, "item_id": item_id, "mode_id": dataset.dataset_id, "episode_id": item_id}
        for item_id in (f"{dataset.dataset_id}/{place:05}" for place in range(dataset.n_examples))
    ]
    is_right = rng.random(len(keys)) < 0.5
    yield (
        "outputs",
        [
            {**key, "response_text": "right" if right else "wrong", "status": "ok"}
            for key, right in zip(keys, is_right, strict=True)
        ],
    )
    rule = metrics[0].rule
    if rule == "normalised_likelihood":
        nats = rng.normal(-5, 1, (len(keys), len(OPTIONS)))
        yield (
            "output_options",
            [
                {
                    **key,
                    "option_index": index,
                    "option": option,
                    "logprob_nats": min(float(nats[row, index]), 0),
                }
                | {"n_tokens": 2, "n_characters": 9, "n_bytes": 9, "status": "ok"}
                for row, key in enumerate(keys)
                for index, option in enumerate(OPTIONS)
            ],
        )
    if rule == "verdict":
        yield (
            "verdicts",
            [
                {**key, "grader_id": metric.grader_id, "grader_version": metric.grader_version}
                | {"answer_rule": metric.readout, "verdict": float(right) * 0.75, "status": "ok"}
                for metric in metrics
                for key, right in zip(keys, is_right, strict=True)
            ],
        )


def plant(lake: Home, n_models: int) -> None:
    """Write items and the answers of each model."""

    def run_row(run_id: str, dataset: Dataset, columns: Mapping[str, Any]) -> pa.Table:
        row = {"run_id": run_id, "planned_modes": [dataset.dataset_id], "source_id": dataset.source_id}
        return pa.Table.from_pylist([row | {"notes": [], "agent_kind": "none"} | dict(columns)], RUNS)

    rng = np.random.default_rng(0)
    for component in load_components().values() if n_models else ():
        dataset = datasets_of(component.component_id, is_stand_in=False)
        metrics = [each for each in load_metrics() if each.component_id == component.component_id]
        imported = {"kind": "items", "model_id": "none", "source_sha256": component.source_sha256}
        rows = pa.Table.from_pylist(items_of(component, dataset), RAW_TABLES["items"])
        run_id = f"items-{dataset.dataset_id}"
        commit(lake, run_id, [("items", rows)], run_row(run_id, dataset, imported))
        for model in range(n_models):
            run_id = f"model-{model:03}-{dataset.dataset_id}"
            evaluated = {"kind": "model", "model_id": f"model {model}", "evaluation_id": f"model-{model:03}"}
            tables = [
                (name, pa.Table.from_pylist(rows, RAW_TABLES[name]))
                for name, rows in answers_to(dataset, metrics, run_id, rng)
            ]
            commit(lake, run_id, tables, run_row(run_id, dataset, evaluated))


def seconds(root: Path) -> dict[str, float]:
    """Return what dbt says each node of the last build took."""
    results = json.loads((root / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return {
        ".".join((each["unique_id"].split(".")[0], each["unique_id"].split(".")[2])): each["execution_time"]
        for each in results
    }


def measure(n_models: int) -> tuple[Measured, dict[str, float]]:
    """Build a lake with some models: the whole command, and the seconds of each part of CogniRank."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "lake"
        plant(Home(root), n_models)
        measured = run(root, str(n_models), ["build"], None)
        took = seconds(root)
        return measured, {part: sum(took[name] for name in names) for part, names in PARTS.items()}


def main() -> None:
    """Measure an empty lake, one model, and as many as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", type=int, default=[0, 1, 14])
    chosen = parser.parse_args()
    shown = Table(box=MARKDOWN)
    for title in ("models", *(f"{part} s" for part in PARTS), "whole build s", "peak MiB", "load"):
        shown.add_column(title, justify="right", no_wrap=True)
    for n_models in chosen.models:
        measured, parts = measure(n_models)
        shown.add_row(
            str(n_models),
            *(f"{took:.2f}" for took in parts.values()),
            f"{measured.wall_s:.1f}",
            f"{measured.peak_rss / MIB:,.0f}",
            f"{measured.load:.1f}",
        )
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
