"""Where does a number come from? Every score of a lake is traced, and worked out again from its raw rows."""

import csv
import hashlib
import io
import json
import math
import os
import random
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pytest import approx
from spec import trace_reader
from support import ROOT, SOURCE_ID, built, copy_project, query
from test_cogniscore import PUBLISHED, Answers, evaluate, plant_items
from test_uniform import add_run

from generate import demo_archive
from generate.learning import agent_runs
from generate.learning.families import load_families
from generate.pipeline import ensure_items, generate, is_ready, plan
from generate.schedule import load_agents, load_schedules
from ingest.pipeline import ingest
from store import command_trace
from store.database import connect
from store.errors import LakeUnusable
from store.manifest import load_sources
from store.privacy import PublicRows
from store.query import ask
from store.settings import Home
from store.trace import trace
from store.trace_files import lines
from store.trace_sql_rules import RULES
from store.trace_sql_uniform import EXPECTATIONS

Row = dict[str, Any]

# one small family of each category of Learning, so that every rule is among them
FAMILIES = ("blocking", "set_property", "agreement", "affine_chain", "hanoi_two", "password_machine")
LEARNERS = ("oracle", "random", "expert")
ENGINE = "engine"


def manifest(name: str, folder: Path = ROOT) -> list[dict[str, str]]:
    with (folder / "manifests" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ---- the lake of the demo with few families of Learning, answers of an engine, and answers to CogniRank ----


@pytest.fixture(scope="module")
def small_project(tmp_path_factory) -> Path:
    folder = copy_project(tmp_path_factory.mktemp("trace") / "project")
    tasks = manifest("learning_tasks")
    with (folder / "manifests" / "learning_tasks.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(tasks[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in tasks if row["family_id"] in FAMILIES)
    return folder


@pytest.fixture(scope="module")
def lake(tmp_path_factory, small_project) -> Home:
    folder = tmp_path_factory.mktemp("traced")
    demo_archive.write(folder / "mirror")
    lake = Home(folder / "lake")
    [report] = ingest(lake, [load_sources()[SOURCE_ID]], mirror=str(folder / "mirror"))
    assert report.failures == ()
    schedules = load_schedules()
    for schedule in schedules.values():
        ensure_items(lake, schedule)
    # the uniform agent plays in no cell
    agents = [agent for agent in load_agents().values() if is_ready(agent) and agent.id != "uniform"]
    generate(lake, plan(lake, agents, schedules))
    learners = [agent for name, agent in agent_runs.load_agents().items() if name in LEARNERS]
    families = {name: family for name, family in load_families().items() if name in FAMILIES}
    agent_runs.generate(lake, agent_runs.plan(lake, learners, families), lambda *_: None)
    plant_answers(lake)
    for questions in PUBLISHED.values():
        plant_items(lake, questions)
    evaluate(lake, "able", [Answers(each, drawn(name, each)) for name, each in PUBLISHED.items()])
    evaluate(lake, "unable", [Answers(each, drawn(name, each)) for name, each in list(PUBLISHED.items())[1:]])
    built(lake, small_project)
    return lake


def drawn(name: str, questions: Any) -> list[float]:
    rng = random.Random(name)
    return [rng.choice((0.0, 1.0)) for _ in questions.strata]


def plant_answers(lake: Home) -> None:
    """An engine that gives log-probabilities, with ties, and one that writes; people answer several times."""
    rng = random.Random("trace")
    for mode_id, kinds in (("politeness", (2, 3, 5)), ("rlwm", (3,)), ("false_belief_qa", (2,))):
        items = [
            {
                "item_id": f"{mode_id}/{place}",
                "legal_options": [f"option {letter}" for letter in "abcde"[: rng.choice(kinds)]],
                "credited_options": ["option a"],
                "weight": rng.choice((1.0, 2.5)),
            }
            for place in range(40)
        ]
        tables = {"items": items}
        if mode_id != "false_belief_qa":
            tables["human_responses"] = [
                {
                    "item_id": item["item_id"],
                    "participant_id": f"p{person}",
                    "response": rng.choice(item["legal_options"]),
                    "weight": rng.choice((1.0, 0.25)),
                }
                for item in items
                for person in range(rng.randint(1, 4))
            ]
        add_run(lake, f"items-{mode_id}", mode_id, tables, kind="items")
        outputs = [{"item_id": item["item_id"], "episode_id": item["item_id"]} for item in items]
        if mode_id == "false_belief_qa":
            said = {"option a": " option A.", "option b": "I say option b, no doubt"}
            outputs = [row | {"response_text": said[rng.choice(sorted(said))]} for row in outputs]
            answered: dict[str, list[Row]] = {"outputs": outputs}
        else:
            # of one mode, somebody did what the engine takes for impossible
            did = tables["human_responses"][0] if mode_id == "politeness" else {}
            impossible = (did.get("item_id"), did.get("response"))
            options = [
                {
                    "item_id": item["item_id"],
                    "episode_id": item["item_id"],
                    "option_index": index,
                    "option": option,
                }
                | {"logprob_nats": -float(rng.randint(1, 4)) - 700.0}
                | ({"logprob_nats": -math.inf} if (item["item_id"], option) == impossible else {})
                for item in items
                for index, option in enumerate(item["legal_options"])
            ]
            answered = {"outputs": outputs, "output_options": options}
        add_run(lake, f"{ENGINE}-{mode_id}", mode_id, answered, kind="model", model_id=ENGINE)


@pytest.fixture
def traced(lake, small_project, monkeypatch) -> Callable[..., Row]:
    """The command, with --json, in the folder of the project."""
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
    monkeypatch.chdir(small_project)

    def told(mode: str, column: str, **choices: Any) -> Row:
        with redirect_stdout(io.StringIO()) as said:
            command_trace.run(mode, column, as_json=True, **choices)
        found: Row = json.loads(
            said.getvalue(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
        )
        return found

    return told


def assert_comes_out(found: Row, printed: str | None = None) -> None:
    """The value is that of the raw rows alone, by a reader that knows nothing of the store."""
    where = (found["cell"]["mode_id"], found["cell"]["column_id"], found["cell"]["metric"])
    worked_out = trace_reader.value_of(found)
    expected = trace_reader.number(found["value"] if found["value"] is not None else "inf")
    assert worked_out == approx(expected, rel=1e-12, abs=1e-15), where
    if printed is not None:
        assert trace_reader.printed(found) == printed, where


# ---- every score ----

COLUMNS = ("uniform", "reference", "demo-uniform", "demo-greedy", "demo-bayes", ENGINE)
COUNTS = ("n_planned", "n_scored", "n_unparsed", "n_error", "n_too_long", "n_missing_option")


@pytest.mark.parametrize("column", COLUMNS)
def test_every_cell_of_table_3_comes_out_of_its_raw_rows_and_every_empty_one_says_why(lake, traced, column):
    cells = query(lake, "select * from table_3 where column_id = $1 order by mode_id", column)
    assert len(cells) == 27
    for cell in cells:
        told = traced(cell["mode_id"], column)
        assert told["cell"]["printed"] == cell["printed"]
        assert {name: told["counts"].get(name, 0) for name in COUNTS} == {name: cell[name] for name in COUNTS}
        if cell["value"] is None:
            assert told["value"] is None
            assert told["reason"] == cell["reason"] is not None
        else:
            assert_comes_out(told, cell["printed"])


def test_no_column_of_the_demo_is_left_out(lake):
    assert {row["column_id"] for row in query(lake, "select column_id from table_3")} == set(COLUMNS)


def test_every_other_metric_comes_out_of_its_raw_rows(lake, traced):
    measured = query(
        lake,
        """
        with others as (
            select mode_id, metric, rule, uniform_rule from s1cogbench_metrics where not is_primary
        )

        select others.mode_id, others.metric, cells.column_id, others.rule
        from others
        inner join metrics using (mode_id, metric)
        inner join table_3 as cells using (run_id, mode_id)
        where metrics.value is not null and metrics.n_planned < 20000
        union all
        select others.mode_id, others.metric, 'uniform', others.uniform_rule
        from others
        inner join uniform using (mode_id, metric)
        where uniform.value is not null
        order by all
        """,
    )
    for row in measured:
        assert_comes_out(traced(row["mode_id"], row["column_id"], metric=row["metric"]))
    rules = {row["rule"] for row in measured if row["column_id"] != "uniform"}
    expectations = {row["rule"] for row in measured if row["column_id"] == "uniform"}
    primary = {row["rule"] for row in manifest("s1cogbench_metrics") if row["is_primary"] == "true"}
    # those of transitions are of a stand-in, which fills no cell
    assert (rules | primary) - {None} >= RULES - NOT_OF_TABLE_3 - {"perseveration", "set_loss"}
    assert expectations >= {"bart_pumps", "expected_reward", "mouselab_reveals", "perseveration", "set_loss"}


NOT_OF_TABLE_3 = {"answer_match", "normalised_likelihood", "verdict"}


@pytest.mark.parametrize("category", sorted({row["category"] for row in manifest("learning_tasks")}))
def test_every_category_of_learning_and_each_of_its_tasks_come_out_of_their_replies(lake, traced, category):
    reports = query(lake, "select * from learning_report where category = $1", category)
    assert any(report["score"] is not None for report in reports)
    for report in reports:
        told = traced(category, report["run_id"])
        assert told["value"] == report["score"]
        if report["score"] is None:
            assert told["reason"] == report["reason"] is not None
            continue
        assert len(told["nested"]) == report["n_tasks"] == 3
        for task in (told, *told["nested"]):
            assert_comes_out(task)


def test_a_cogniscore_and_each_of_its_components_come_out_of_their_answers(lake, traced):
    told = traced("CogniScore", "able")
    [found] = query(lake, "select * from cogniscore where run_id = 'able'")
    assert told["value"] == found["cogniscore"] is not None
    assert_comes_out(told)
    for row in query(lake, "select * from cognirank_scores where evaluation_id = 'able'"):
        component = traced(row["component_id"], "hub/able", metric=row["metric"])
        assert component["value"] == row["value"] is not None
        assert_comes_out(component)


def test_a_cogniscore_without_a_component_says_which(traced):
    told = traced("cogniscore", "unable")
    assert told["value"] is None
    assert "smolcua: no run" in told["reason"]
    assert [row["component_id"] for row in told["components"] if row["value"] is None] == ["smolcua"]


# ---- what stands around the rows ----

SCORES = """
    select mode_id, column_id from table_3 where value is not null
    union all
    select component_id, evaluation_id from cognirank_scores where value is not null and is_primary
    union all
    select min(task_id), run_id
    from learning_scores
    inner join learning_tasks using (task_id)
    where value is not null
    group by score_rule, run_id
    order by all
"""


def test_the_sql_that_is_shown_gives_the_value_when_it_is_pasted(lake, small_project):
    con = connect(lake)
    try:
        found = [
            trace(con, lake, small_project, mode_id, column_id)
            for mode_id, column_id in con.execute(SCORES).fetchall()
        ]
    finally:
        con.close()
    for score in found:
        assert len(score.queries) == 2
        for shown in score.queries:
            [[value, *_]] = ask(lake, shown.sql).rows
            assert value == approx(score.value, rel=1e-9, abs=1e-12), shown.sql


def test_parts_hold_the_rows_and_are_the_files_that_they_say(lake, traced):
    told = traced("two_step", "demo-greedy")
    [part] = told["parts"]
    path = Path(part["path"])
    assert path.is_relative_to(lake.raw / "steps")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == part["sha256"]
    assert {row["part_id"] for row in told["rows"]["steps"]} == {part["sha256"][:16]}
    assert len(told["rows"]["steps"]) == pq.read_metadata(path).num_rows
    [run] = told["runs"]
    [source] = told["sources"]
    pin = load_sources()[SOURCE_ID]
    assert source["uri"] == run["source_uri"] in {pin.uri(file) for file in pin.files}
    assert source["sha256"] in {file.sha256 for file in pin.files}
    assert (source["revision"], source["licence"]) == (pin.revision, pin.licence)


def test_an_exact_expectation_lists_its_kinds_of_items_and_the_schedule_that_drew_them(traced):
    told = traced("BART", "uniform")
    maxima = [json.loads(kind["facts_json"])["maximum"] for kind in told["expectations"]]
    assert sorted(maxima) == [8, 32, 128]
    mean = sum(kind["weight"] * kind["expectation"] for kind in told["expectations"]) / 450
    assert mean == approx(told["value"], rel=1e-12)
    [source] = told["sources"]
    assert source["seeds"] == load_schedules()["bart"].seeds.model_dump()
    assert {part["raw_table"] for part in told["parts"]} == {"items"}


def test_a_reference_shows_what_it_was_fitted_to(lake, small_project):
    con = connect(lake)
    try:
        found = trace(con, lake, small_project, "two_step", "reference")
        [rows] = [rows for rows in found.rows if rows.raw_table == "fits"]
        fits = [json.loads(line) for line in lines(con, rows, None, PublicRows(frozenset()))]
    finally:
        con.close()
    [declared] = [row for row in manifest("s1cogbench_references") if row["mode_id"] == "two_step"]
    assert found.reference is not None
    assert found.reference["exposure"] == declared["exposure"]
    recorded = {
        (row["participant_id"], row["parameter"]): float(row["value"])
        for row in manifest("reference_fits")
        if row["agent_id"] == declared["agent_id"]
    }
    fitted = {(row["participant_id"], row["parameter"]): row["value"] for row in fits}
    assert len({participant for participant, _ in fitted}) == 40
    assert fitted == {key: recorded[key] for key in fitted}


def test_versions_are_those_of_the_verdicts_and_of_the_mart(lake, traced):
    told = traced("restless_bandit", "demo-bayes")
    [cell] = query(
        lake, "select * from table_3 where mode_id = 'restless_bandit' and column_id = 'demo-bayes'"
    )
    [rule] = query(
        lake,
        "select distinct scorer_sha from int_scored where run_id = $1 and rule = 'credited_choice'",
        cell["run_id"],
    )
    assert [row["sha256"] for row in told["versions"]] == [rule["scorer_sha"], cell["scorer_sha"]]


def test_a_part_with_other_bytes_is_told_in_a_sentence(lake, small_project):
    con = connect(lake)
    try:
        path = Path(trace(con, lake, small_project, "bart", "demo-bayes").parts[0].path)
        data = path.read_bytes()
        try:
            # a reader takes no notice of who says that he wrote the file
            path.write_bytes(data.replace(b"parquet-cpp", b"Parquet-cpp"))
            with pytest.raises(LakeUnusable, match="expected the bytes that its name is the hash of"):
                trace(con, lake, small_project, "bart", "demo-bayes")
        finally:
            path.write_bytes(data)
    finally:
        con.close()


# ---- formulas ----


def test_everything_that_makes_a_number_has_one_formula_and_no_formula_is_of_nothing():
    metrics = manifest("s1cogbench_metrics")
    used = {
        "rule": {row["rule"] for row in (*metrics, *manifest("cognirank_metrics"))},
        "estimator": {row["estimator"] for row in metrics},
        "uniform_rule": {row["uniform_rule"] for row in metrics},
        "learning_rule": {row["score_rule"] for row in manifest("learning_tasks")},
        "composite": {"uniform", "cognirank_component", "cogniscore", "learning_task", "learning_category"},
    }
    named = {kind: [row["name"] for row in manifest("formulas") if row["kind"] == kind] for kind in used}
    assert {kind: sorted(names - {""}) for kind, names in used.items()} == {
        kind: sorted(names) for kind, names in named.items()
    }


@pytest.mark.parametrize("row", manifest("formulas"), ids=lambda row: f"{row['kind']}-{row['name']}")
def test_a_formula_says_which_file_computes_it(row):
    path = ROOT / row["source"]
    assert path.is_file()
    if row["kind"] in ("rule", "uniform_rule", "learning_rule"):
        assert path.stem.endswith(f"__{row['name']}")


def test_every_rule_has_sql_that_gives_a_value_again():
    metrics = manifest("s1cogbench_metrics")
    rules = {row["rule"] for row in (*metrics, *manifest("cognirank_metrics"))} - {""}
    assert rules == RULES
    assert {row["uniform_rule"] for row in metrics} - {""} == EXPECTATIONS.keys()


# ---- the archive ----


@pytest.mark.mirror
def test_every_score_of_archived_engines_comes_out_of_its_raw_rows(tmp_path, project, monkeypatch):
    lake = Home(tmp_path / "lake")
    [report] = ingest(lake, [load_sources()["cogbench"]], mirror=os.environ["COGLAKE_MIRROR"])
    assert report.failures == ()
    built(lake, project)
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
    monkeypatch.chdir(project)
    # the SQL over raw rows of every metric is run by the trace itself, which raises if it gives another value
    con = connect(lake)
    try:
        measured = con.execute(OF_ARCHIVE).fetchall()
        assert len(measured) > 50
        for mode_id, column_id, metric in measured:
            found = trace(con, lake, project, mode_id, column_id, metric=metric)
            assert found.value_scored is None or found.queries
    finally:
        con.close()


OF_ARCHIVE = """
    select cells.mode_id, cells.column_id, metrics.metric
    from table_3 as cells
    inner join metrics using (run_id, mode_id)
    where cells.column_id in ('claude-2', 'human', 'text-davinci-003')
    order by all
"""
