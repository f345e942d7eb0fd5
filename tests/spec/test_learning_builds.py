"""What builds do to scores of Learning: what is new is read once, what changed is read again, a dialogue that
grows is one, and its instances may come later."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from spec.learning_lakes import (
    MODELS,
    NOON,
    Asked,
    Instances,
    Played,
    declare,
    exam,
    practice,
    requests,
    run_row,
    task,
)
from support import built, copy_lake, copy_project, query

from store.lake import commit_batch, open_run
from store.schemas import RUNS
from store.settings import Home

INCREMENTAL = ("int_learning_answers", "int_learning_turns")
SHEET, LESSON, SKILL = "sheet_1", "lesson_1", "skill_1"
TASKS = [
    task(SHEET, "fraction_correct", n_test_items=2),
    task(LESSON, "active_induction", free_threshold=3, initial_examples=3, max_examples=5, n_test_items=2),
    task(SKILL, "procedural", practice_rounds=2, budget_steps=4, min_explore_steps=1, n_test_items=2),
]
QUESTIONS = [Asked("yes"), Asked("*no*")]


@pytest.fixture(scope="module")
def learning_project(tmp_path_factory) -> Path:
    project = copy_project(tmp_path_factory.mktemp("builds") / "project")
    declare(project, TASKS)
    return project


def commit_instances(lake: Home, made_for: Sequence[Mapping[str, object]] = ()) -> None:
    instances = Instances(made_for=made_for)
    for row in TASKS:
        instances.add(row["task_id"], f"{row['task_id']}/0", QUESTIONS)
    instances.commit(lake)


def played(run_id: str, *said: str) -> Played:
    run = Played(run_id, run_id)
    run.episode(SHEET, f"{SHEET}/0", [exam(*said)])
    run.episode(LESSON, f"{LESSON}/0", [*requests(1), exam(*said)])
    run.episode(SKILL, f"{SKILL}/0", practice([4, 1], 4, *said))
    return run


@pytest.fixture(scope="module")
def first(tmp_path_factory, learning_project) -> Home:
    """One run, built once. Read only."""
    lake = Home(tmp_path_factory.mktemp("first") / "lake")
    commit_instances(lake)
    played("one", "yes", "no").commit(lake)
    built(lake, learning_project, select=MODELS)
    return lake


def values(lake: Home) -> dict[tuple[str, str], float | None]:
    rows = query(lake, "select run_id, task_id, value from int_learning_episodes")
    return {(row["run_id"], row["task_id"]): row["value"] for row in rows}


def parts_read(lake: Home, model: str) -> set[str]:
    """Return the parts that the last build read for a model."""
    path = lake.root / "target" / "compiled" / "coglake" / "models_sql" / "intermediate" / "learning"
    listed = re.search(r"where part_id in \((.*?)\)", (path / f"{model}.sql").read_text())
    return set(re.findall(r"[0-9a-f]{16}", listed[1])) if listed else set()


def shas(lake: Home, model: str) -> set[str]:
    return {row["scorer_sha"] for row in query(lake, f"select distinct scorer_sha from {model}")}


def test_what_was_asked_under_other_parameters_is_not_scored_by_those_of_now(tmp_path, learning_project):
    lake = Home(tmp_path / "lake")
    decisive = ("free_threshold", "initial_examples", "max_examples", "n_test_items")
    decisive += ("budget_steps", "min_explore_steps", "practice_rounds")
    made_for = [{"task_id": row["task_id"]} | {name: row.get(name) for name in decisive} for row in TASKS]
    made_for[1] |= {"max_examples": 4, "free_threshold": None}
    commit_instances(lake, made_for)
    played("one", "yes", "no").commit(lake)
    built(lake, learning_project, select=MODELS)
    found = values(lake)
    assert found["one", LESSON] is None
    assert found["one", SHEET] == 1.0
    assert found["one", SKILL] is not None
    [row] = query(lake, f"select status, status_reason from int_learning_episodes where task_id = '{LESSON}'")
    assert (row["status"], row["status_reason"]) == (
        "error",
        "asked before its row of learning_tasks was changed: free_threshold, max_examples",
    )


def test_a_dialogue_is_read_once_and_a_new_one_alone(tmp_path, first, learning_project):
    lake = copy_lake(first, tmp_path / "lake")
    before = values(lake)
    built(lake, learning_project, select=MODELS)
    assert [parts_read(lake, model) for model in INCREMENTAL] == [set(), set()]
    assert values(lake) == before
    played("two", "no", "no").commit(lake)
    built(lake, learning_project, select=MODELS)
    [part] = query(lake, "select distinct part_id from stg_steps where run_id = 'two'")
    assert [parts_read(lake, model) for model in INCREMENTAL] == [{part["part_id"]}] * 2
    assert values(lake).items() >= before.items()
    assert values(lake)["two", SHEET] == 1 / 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # the right answer then keeps its marks, which the reply does not have
        ("    *_`\"''“”", "    _`\"''“”", 1 / 2),
        ("[.)=\\-])(.*)'", "[.)=])(.*)'", 1.0),
    ],
    ids=["what is left out around an answer", "what stands behind a number"],
)
def test_whoever_changes_how_answers_are_read_has_all_of_them_read_again(tmp_path, first, old, new, expected):
    lake, project = copy_lake(first, tmp_path / "lake"), tmp_path / "project"
    copy_project(project)
    declare(project, TASKS)
    # they would not let it pass
    (project / "models_sql" / "intermediate" / "learning" / "_learning_unit_tests.yml").unlink()
    path = project / "macros" / "learning.sql"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    rules = [
        *INCREMENTAL[:1],
        "int_learning__fraction_correct",
        "int_learning__active_induction",
        "int_learning__procedural",
    ]
    before = {model: shas(lake, model) for model in rules}
    built(lake, project, select=MODELS)
    after = {model: shas(lake, model) for model in rules}
    assert all(len(after[model]) == 1 and after[model].isdisjoint(before[model]) for model in rules)
    assert parts_read(lake, INCREMENTAL[0]) != set()
    assert (values(first)["one", SHEET], values(lake)["one", SHEET]) == (1.0, expected)


def test_a_dialogue_that_grows_is_scored_as_one_and_again_when_it_has_grown(
    tmp_path, first, learning_project
):
    lake = copy_lake(first, tmp_path / "lake")
    whole = played("growing", "yes", "no")
    run = run_row("growing", list(whole.planned)) | {
        "evaluation_id": "growing",
        "identity_sha256": "growing",
        "identity_json": '{"items": ["instances"]}',
        "started_at": None,
    }
    open_run(lake, pa.Table.from_pylist([run], RUNS))
    steps = whole.rows.arrow()
    # a batch holds a reply or two of each episode
    first_batch = [place for place, index in enumerate(steps["step_index"].to_pylist()) if index < 2]
    second_batch = [place for place in range(steps.num_rows) if place not in first_batch]
    for batch in (first_batch, second_batch):
        commit_batch(
            lake,
            "growing",
            [("steps", steps.take(batch))],
            n_requests=len(batch),
            environment={},
            started_at=NOON,
        )
        built(lake, learning_project, select=MODELS)
        found = {task_id: value for (run_id, task_id), value in values(lake).items() if run_id == "growing"}
        if batch is first_batch:
            assert found[SHEET] == 1.0 and found[LESSON] is None and found[SKILL] is None
    assert found == {task_id: values(first)["one", task_id] for task_id in (SHEET, LESSON, SKILL)}
    turns = query(lake, "select count(*) as n from int_learning_turns where run_id = 'growing'")
    # one of a sheet, one of a lesson, two rounds and what is asked after them
    assert turns == [{"n": 1 + 1 + 3}]


def test_instances_may_come_after_the_dialogue(tmp_path, first, learning_project):
    lake = Home(tmp_path / "lake")
    played("one", "yes", "no").commit(lake)
    built(lake, learning_project, select=MODELS)
    assert values(lake) == {}
    [row] = query(lake, f"select * from learning_scores where task_id = '{SHEET}'")
    assert row["value"] is None
    assert row["reason"] == "the lake holds no instance of the task that this run was asked"
    commit_instances(lake)
    built(lake, learning_project, select=MODELS)
    assert values(lake) == values(first)


def test_a_lake_without_learning_reads_no_steps_for_it(demo_lake):
    assert [parts_read(demo_lake, model) for model in INCREMENTAL] == [set(), set()]
    assert query(demo_lake, "select count(*) as n from learning_report") == [{"n": 0}]
