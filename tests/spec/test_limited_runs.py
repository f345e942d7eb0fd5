"""A run that was asked a part of the questions is partial, and leaves the lake only if that is asked for."""

import csv
import io
import json
from pathlib import Path

import pytest
from support import built, coglake, copy_lake, query
from unit.test_model_runs import MODE, Talker, done, with_questions

from generate.pending import Slice
from store.settings import Home

N_QUESTIONS, LIMIT = 40, 25


@pytest.fixture(scope="module")
def limited(tmp_path_factory, empty_lake, project) -> Home:
    """A lake with one run of a model, by --limit."""
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("limited") / "lake")
    with_questions(lake, N_QUESTIONS)
    done(lake, Talker(), Slice(limit=LIMIT))
    built(lake, project)
    return lake


def exported(lake: Home, project: Path, *arguments: str) -> str:
    file = lake.root / "exported"
    shown = coglake(lake, project, "export", *arguments, "-o", str(file))
    assert shown.returncode == 0, shown.stderr
    return file.read_text(encoding="utf-8-sig")


def rows_of(lake: Home, project: Path, *arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(lake, project, *arguments, "--format", "csv"))))


def test_questions_beyond_the_limit_are_planned_rows_without_a_score(limited):
    [row] = query(limited, "select * from metrics where metric = 'accuracy'")
    assert (row["n_planned"], row["n_scored"], row["n_error"]) == (N_QUESTIONS, LIMIT, N_QUESTIONS - LIMIT)
    assert (row["value"], row["value_scored"] is None) == (None, False)
    assert row["reason"] == f"{N_QUESTIONS - LIMIT} of {N_QUESTIONS} planned rows have no answer"
    # none of the questions that were not asked was answered rightly
    assert row["value_count_as_wrong"] == pytest.approx(row["value_scored"] * LIMIT / N_QUESTIONS)
    [cell] = query(limited, "select * from table_3 where column_kind = 'model' and mode_id = $1", MODE)
    assert (cell["value"], cell["status"], cell["printed"]) == (None, "part.", "part.")


def test_a_limited_run_leaves_in_no_export_unless_partial_values_are_asked_for(limited, project):
    [row] = query(limited, "select * from metrics where metric = 'accuracy'")
    [cell] = query(limited, "select * from table_3 where column_kind = 'model' and mode_id = $1", MODE)
    for name in ("table3", "metrics"):
        kept = exported(limited, project, name, "--format", "json")
        assert not {row["value_scored"], row["se"]} & set(_numbers(json.loads(kept))), name
        assert cell["printed_partial"] not in kept
    [shown] = [each for each in rows_of(limited, project, "table3") if "part." in each.values()]
    [partial] = [
        each
        for each in rows_of(limited, project, "table3", "--allow-partial")
        if each["Task mode"] == shown["Task mode"]
    ]
    assert cell["printed_partial"] in partial.values()


def _numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in _numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []
