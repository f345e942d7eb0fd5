"""Do the agents of Learning score what docs/benchmarks/learning.md says, on the instances of the manifests?

Each reply goes the whole way: dialogues, raw rows, the SQL that reads and compares, the marts, the export.
"""

import csv
import io
import json
import re
from math import hypot, sqrt
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest import approx
from support import built, copy_lake, query
from typer.testing import CliRunner

from generate.learning.agent_runs import generate, load_agents, plan
from generate.learning.families import load_families
from generate.learning.instances import dialogue_of
from store.cli import app
from store.learning_tasks import CATEGORIES, load_tasks
from store.settings import Home

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "learning.md"
TASKS = [task for task in load_tasks().values() if task.family_id is not None]
FAMILIES = load_families()
BY_CATEGORY = {
    category: [family for family in FAMILIES.values() if family.category == category]
    for category in CATEGORIES
}

# instances of each task behind the document's figures, and in the manifests
N_MEASURED, N_INSTANCES = 120, 4


# ---- what the document says ----


class Measured(NamedTuple):
    mean: float
    se: float
    n_decimals: int = 3


def measured(cell: str) -> Measured:
    """Return what a cell such as ``0.278 ± 0.014`` says."""
    found = re.fullmatch(r"(\d\.(\d{3,4}))(?: ± (\d\.\d{3,4}))?", cell)
    assert found, cell
    return Measured(float(found[1]), float(found[3] or 0), len(found[2]))


def documented() -> dict[str, dict[str, str]]:
    """Return the cells of each family by the title of their column."""
    rows: dict[str, dict[str, str]] = {}
    titles: list[str] = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            titles = []
        elif not titles:
            titles = cells
        elif titles[0] == "Family" and (name := re.fullmatch(r"`(\w+)`", cells[0])):
            assert name[1] not in rows, f"{name[1]} has two rows"
            rows[name[1]] = dict(zip(titles, cells, strict=True))
    return rows


ROWS = documented()


def test_every_family_has_a_row_and_every_row_a_family():
    assert set(ROWS) == set(FAMILIES)
    assert f"learning_floors.py --instances {N_MEASURED}`" in one_line(DOCUMENT)


def test_a_row_says_what_is_hidden_what_changes_and_how_many_rules_there_are():
    for family, row in ROWS.items():
        assert all(row[title] for title in ("Hidden", "Levels change", "Space", "Floor", "Ceiling")), family


def test_the_example_is_what_a_model_is_told():
    family = FAMILIES["blocking"]
    dialogue = dialogue_of(family, family.tasks[0])
    [told] = re.findall(r"```text\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    # long lines are broken in the document
    assert told.split() == (dialogue.messages(dialogue.start())[0] or "").split()
    answers = [question.answer for question in dialogue.questions[0]]
    assert f"answers are {', '.join(answers[:-1])} and {answers[-1]}:" in one_line(DOCUMENT)


def one_line(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


# ---- what is played ----


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("floors") / "lake")
    generate(lake, plan(lake, list(load_agents().values()), FAMILIES), lambda *_: None)
    built(lake, project)
    return lake


@pytest.fixture(scope="module")
def scores(lake) -> dict[tuple[str, str], dict]:
    rows = query(lake, "select * from learning_scores")
    return {(row["model_id"], row["task_id"]): row for row in rows}


@pytest.fixture(scope="module")
def of_families(lake) -> dict[tuple[str, str], Measured]:
    """Return the mean over the tasks of each family, and its standard error over instances."""
    rows = query(
        lake,
        """
        select model_id, family_id, avg(value) as mean, sqrt(sum(se * se)) / count(*) as se
        from learning_scores group by model_id, family_id
        """,
    )
    return {(row["model_id"], row["family_id"]): Measured(row["mean"], row["se"]) for row in rows}


def test_every_task_has_a_value_from_every_agent_that_plays_it(scores):
    expected = {
        (agent.id, task.task_id)
        for agent in load_agents().values()
        for task in TASKS
        if not agent.categories or task.category in agent.categories
    }
    assert set(scores) == expected
    assert {key: row["reason"] for key, row in scores.items() if row["value"] is None} == {}
    assert {row["n_scored"] for row in scores.values()} == {N_INSTANCES}


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_oracle_has_the_most_that_the_formula_gives(scores, category):
    tasks = [task for task in TASKS if task.category == category]
    found = {task.task_id: scores["oracle", task.task_id] for task in tasks}
    assert {name: row["value"] for name, row in found.items()} == {
        name: approx(row["ceiling"], abs=1e-12) for name, row in found.items()
    }
    if category == "procedural_learning":
        # getting better is paid for, so one who is perfect from the first round on has less
        assert all(0.95 < row["ceiling"] < 1 for row in found.values())
    else:
        assert {row["value"] for row in found.values()} == {1.0}


def test_right_answers_are_right_by_the_strict_match_too(scores):
    for task in TASKS:
        row = scores["oracle", task.task_id]
        assert row["strict_value"] == row["value"], task.task_id
        assert (row["n_ambiguous"] or 0, row["n_unanswered"] or 0) == (0, 0), task.task_id


def test_silence_earns_nothing_anywhere_and_is_no_failure(scores):
    for task in TASKS:
        row = scores["silent", task.task_id]
        assert row["value"] == 0.0, task.task_id
        assert (row["n_unanswered"] or 0) == N_INSTANCES * (task.n_test_items or 0), task.task_id


def test_a_question_that_is_repeated_as_its_answer_is_wrong(lake):
    rows = query(
        lake,
        """
        select item_id, prompt, credited_options[1] as answer from stg_items
        where facts_json ->> '$.match_kind' = 'substring'
        """,
    )
    assert len(rows) > 500
    assert [row for row in rows if row["answer"].lower() in row["prompt"].lower()] == []


def test_who_has_the_skill_before_practice_earns_all_but_half_of_the_trajectory(scores):
    for family in BY_CATEGORY["procedural_learning"]:
        for task in family.tasks:
            # a flat course is worth half of its quarter
            assert scores["expert", task.task_id]["value"] == approx(1 - 0.25 / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("agent", "title"),
    [("random", "Floor"), ("prober", "Prober"), ("expert", "Expert"), ("oracle", "Ceiling")],
)
def test_agents_score_what_is_documented(of_families, agent, title):
    players = {family: row for family, row in ROWS.items() if title in row}
    assert {family for name, family in of_families if name == agent} == set(players)
    for family, row in players.items():
        said, found = measured(row[title]), of_families[agent, family]
        # two samples of one mean; few instances may all have one score and then seem to have no error
        se = max(found.se, said.se * sqrt(N_MEASURED / N_INSTANCES))
        apart = 4 * hypot(said.se, se) + 0.5001 / 10**said.n_decimals
        assert found.mean == approx(said.mean, abs=apart), (family, said, found)


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_report_puts_a_score_between_its_floor_and_its_ceiling(lake, of_families, category):
    rows = {row["model_id"]: row for row in query(lake, "from learning_report where category = ?", category)}
    floor = sum(of_families["random", family.id].mean for family in BY_CATEGORY[category])
    for agent in ("random", "silent", "oracle"):
        assert rows[agent]["floor"] == approx(floor / len(BY_CATEGORY[category])), agent
    assert rows["random"]["score"] == rows["random"]["floor"]
    assert rows["oracle"]["score"] == approx(rows["oracle"]["ceiling"], abs=1e-12)
    assert rows["oracle"]["n_tasks"] == 3 * len(BY_CATEGORY[category])


# ---- what is exported ----


def exported(lake: Home, form: str, monkeypatch, project) -> str:
    monkeypatch.chdir(project)
    command = ["export", "learning", "--format", form, "-o", "-"]
    result = CliRunner().invoke(app, command, env={"COGLAKE_HOME": str(lake.root)})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_report_is_exported_with_six_rows_for_each_agent(lake, project, monkeypatch):
    rows = list(csv.DictReader(io.StringIO(exported(lake, "csv", monkeypatch, project))))
    found = [(row["Model"], row["Category"]) for row in rows]
    assert found == [(agent, category) for agent in sorted(load_agents()) for category in CATEGORIES]
    for row in rows:
        if row["Model"] == "silent":
            assert row["Score"] == "0.0000"
        if row["Model"] == "oracle":
            assert row["Score"] == row["Ceiling"]
        if row["Model"] == "prober" and row["Category"] != "runtime_rl":
            assert (row["Score"], row["Withheld because"]) == ("", "no task of the category was asked")


def test_all_forms_of_the_export_say_the_same(lake, project, monkeypatch):
    of_csv = list(csv.DictReader(io.StringIO(exported(lake, "csv", monkeypatch, project))))
    of_json = json.loads(exported(lake, "json", monkeypatch, project))
    assert [row["Evaluation"] for row in of_json] == [row["Evaluation"] for row in of_csv]
    assert [row["Score"] or "" for row in of_json] == [row["Score"] for row in of_csv]
    of_md = exported(lake, "md", monkeypatch, project).splitlines()
    assert len(of_md) == 2 + len(of_csv)
    for line, row in zip(of_md[2:], of_csv, strict=True):
        cells = [cell.strip().replace("\\_", "_") for cell in line.strip().strip("|").split("|")]
        assert (cells[0], cells[3], cells[4]) == (row["Model"], row["Category"], row["Score"])
