"""Do 42 real courses of practice come out of the SQL with the composite that was published for each?"""

import csv
import json
import os
from pathlib import Path

import pytest
from pytest import approx
from support import built, copy_project, query

from store.settings import Home

pytestmark = pytest.mark.mirror

N_ROUNDS = 5


@pytest.fixture(scope="module")
def golden() -> list[dict[str, str]]:
    path = Path(os.environ["COGLAKE_MIRROR"]).parent / "golden_procedural.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the mirror")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def computed(tmp_path_factory, golden) -> dict[str, float]:
    """Return what the audited formulas give for each row, by its place."""
    folder = tmp_path_factory.mktemp("published")
    project = copy_project(folder / "project")
    path = project / "manifests" / "learning_examples.csv"
    with path.open(newline="", encoding="utf-8") as file:
        columns = csv.DictReader(file).fieldnames
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        for place, row in enumerate(golden):
            rounds = [float(row[f"r{number}"]) for number in range(1, N_ROUNDS + 1)]
            inputs = {"rounds": rounds, "transfer": float(row["transfer"])}
            writer.writerow(
                {
                    "example_id": f"golden_{place}",
                    "rule": "procedural",
                    "part": "score",
                    "inputs_json": json.dumps(inputs),
                    "printed": f"{float(row['published_score']):.4f}",
                    "printed_decimals": "4",
                    "disagrees": "false",
                }
            )
    lake = Home(folder / "lake")
    built(lake, project, select=["learning_tasks", "learning_examples", "audit_learning_examples"])
    rows = query(lake, "select * from audit_learning_examples where example_id like 'golden_%'")
    return {row["example_id"]: row["computed"] for row in rows}


def test_every_published_composite_of_practice_is_met(golden, computed):
    assert len(computed) == len(golden) == 42
    differing = [
        (row, computed[f"golden_{place}"])
        for place, row in enumerate(golden)
        if computed[f"golden_{place}"] != approx(float(row["published_score"]), abs=1e-4 + 1e-12)
    ]
    assert differing == []


def test_the_guard_and_the_floor_are_among_the_rows(golden):
    # a golden file without them would prove less than it seems to
    published = [float(row["published_score"]) for row in golden]
    assert published.count(0.0) == 3
    assert any(row["r1"] == "0.1" or row["r5"] == "0.1" for row in golden)
