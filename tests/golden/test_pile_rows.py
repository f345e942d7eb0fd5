"""Do the 357 rows of the official generators go through the importer of Procedural Pile to the letter?"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from ingest.procedural_pile import Problem
from ingest.question_files import read_rows

pytestmark = pytest.mark.mirror


@pytest.fixture(scope="module")
def path() -> Path:
    return Path(os.environ["COGLAKE_MIRROR"]).parent / "pile_rows.jsonl"


def test_every_row_is_a_problem_to_the_letter(path):
    rows = read_rows(path, path.name, Problem)
    assert [row.model_dump() for row in rows] == [json.loads(line) for line in path.open(encoding="utf-8")]
    assert set(Counter(row.task for row in rows).values()) == {7} and len(rows) == 357 == 51 * 7


def test_every_row_says_in_its_metadata_which_family_it_is_of(path):
    rows = read_rows(path, path.name, Problem)
    assert [json.loads(row.metadata)["_task"] for row in rows] == [row.task for row in rows]
