"""Layers only point one way, and both sides of each contract say the same."""

import ast
import csv
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from store.schemas import RAW_TABLES

PROJECT = Path(__file__).resolve().parents[2]
MODELS = PROJECT / "models_sql"
SCORED = MODELS / "intermediate" / "scored"
UNIFORM = MODELS / "intermediate" / "uniform"
LEARNING = MODELS / "intermediate" / "learning"
DATA_TESTS = PROJECT / "tests" / "data"


def python_files(package):
    return sorted((PROJECT / package).rglob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def packages_of(path):
    return {name.split(".")[0] for name in imported(path)}


def properties(key):
    for path in sorted(MODELS.rglob("*.yml")):
        yield from yaml.safe_load(path.read_text(encoding="utf-8")).get(key, [])


def seed(name):
    with (PROJECT / "manifests" / f"{name}.csv").open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("path", python_files("ingest"), ids=lambda path: path.name)
def test_ingest_knows_the_store_alone(path):
    assert not packages_of(path) & {"generate"}


@pytest.mark.parametrize("path", python_files("generate"), ids=lambda path: path.name)
def test_generate_knows_the_store_alone(path):
    assert not packages_of(path) & {"ingest"}


@pytest.mark.parametrize(
    "path",
    # commands put the layers together; they are loaded when their command runs
    [path for path in python_files("store") if not path.name.startswith("command_")],
    ids=lambda path: path.name,
)
def test_the_store_knows_no_layer_above_it(path):
    assert not packages_of(path) & {"ingest", "generate"}


@pytest.mark.parametrize("path", python_files("store"), ids=lambda path: path.name)
def test_no_engine_is_imported_by_the_store(path):
    assert not packages_of(path) & {"torch", "transformers", "vllm"}


def test_the_verifier_is_imported_only_by_what_its_own_environment_runs():
    # it needs packages that nothing else does, and what it is given may never end
    of_verifier = {"reasoning_core", "pebble"}
    files = [path for package in ("ingest", "generate", "store") for path in python_files(package)]
    importing = {path.relative_to(PROJECT).as_posix() for path in files if packages_of(path) & of_verifier}
    assert importing <= {"generate/verifier/worker.py", "generate/standins/pile_like.py"}


def test_arrow_schemas_and_source_yaml_declare_the_same_columns_in_the_same_order():
    (raw,) = properties("sources")
    declared = {table["name"]: [column["name"] for column in table["columns"]] for table in raw["tables"]}
    assert declared == {table: schema.names for table, schema in RAW_TABLES.items()}


def test_every_model_has_a_description_that_starts_with_its_grain():
    described = {model["name"]: " ".join(model["description"].split()) for model in properties("models")}
    models = {path.stem for path in MODELS.rglob("*.sql")}
    assert set(described) == models
    assert [name for name, text in described.items() if not text.startswith("Grain: one row per")] == []


def test_every_rule_file_is_in_the_stack_and_every_rule_is_declared():
    files = {path.stem.removeprefix("int_scored__") for path in SCORED.glob("int_scored__*.sql")}
    stack = (MODELS / "intermediate" / "int_scored.sql").read_text(encoding="utf-8")
    assert set(re.findall(r"ref\('int_scored__(\w+)'\)", stack)) == files
    declared = [*seed("s1cogbench_metrics"), *seed("cognirank_metrics")]
    assert {row["rule"] for row in declared if row["rule"]} == files


def test_a_rule_scores_the_benchmark_that_declares_it():
    # a rule that asked another manifest for its modes would find none, and score nothing
    of_cognirank = {row["rule"] for row in seed("cognirank_metrics")}
    assert of_cognirank.isdisjoint(row["rule"] for row in seed("s1cogbench_metrics"))
    for path in SCORED.glob("int_scored__*.sql"):
        calls = re.findall(r"(?:scored_rule|modes_scored_by)\([^)]*\)", path.read_text(encoding="utf-8"))
        is_asked = ["benchmark='cognirank'" in call for call in calls]
        assert calls, path.name
        assert set(is_asked) == {path.stem.removeprefix("int_scored__") in of_cognirank}, path.name


def test_every_rule_of_learning_is_declared_and_in_the_stack_and_names_itself_as_its_file_does():
    files = {path.stem.removeprefix("int_learning__"): path for path in LEARNING.glob("int_learning__*.sql")}
    assert {row["score_rule"] for row in seed("learning_tasks")} == files.keys()
    stack = (LEARNING / "int_learning_scored.sql").read_text(encoding="utf-8")
    assert set(re.findall(r"ref\('int_learning__(\w+)'\)", stack)) == files.keys()
    for rule, path in files.items():
        text = path.read_text(encoding="utf-8")
        assert f"learning_rule('{rule}')" in text, path.name
        assert f"learning_episodes_of('{rule}'" in text, path.name
        # every parameter is a column of the task's row, and none is a number of the document
        assert re.findall(r"(?<![\w.])0\.\d+", text) == [], path.name


def test_every_uniform_rule_file_is_in_the_stack_and_every_uniform_rule_is_declared():
    files = {path.stem.removeprefix("int_uniform__") for path in UNIFORM.glob("int_uniform__*.sql")}
    stack = (MODELS / "intermediate" / "int_uniform.sql").read_text(encoding="utf-8")
    assert set(re.findall(r"ref\('int_uniform__(\w+)'\)", stack)) == files
    assert {row["uniform_rule"] for row in seed("s1cogbench_metrics") if row["uniform_rule"]} == files


def test_the_uniform_cell_is_the_expectation_of_the_primary_metric():
    metrics = [row for row in seed("s1cogbench_metrics") if row["is_primary"] == "true"]
    assert {row["mode_id"]: row["uniform_rule"] for row in metrics} == {
        row["mode_id"]: row["uniform_rule"] for row in seed("s1cogbench_modes")
    }
    # the printed one of these stands with the modes
    assert [row["metric"] for row in metrics if row["uniform_printed"]] == []


def test_every_rule_names_itself_as_its_file_does():
    for path in UNIFORM.glob("int_uniform__*.sql"):
        rule = path.stem.removeprefix("int_uniform__")
        text = path.read_text(encoding="utf-8")
        assert f"uniform_rule('{rule}')" in text, path.name
        # what it reads are the items of that rule, by its own condition or by the macro's
        assert f"uniform_rule = '{rule}'" in text or f"    '{rule}',\n" in text, path.name
    for path in SCORED.glob("int_scored__*.sql"):
        rule = path.stem.removeprefix("int_scored__")
        text = path.read_text(encoding="utf-8")
        assert f"scored_rule('{rule}'" in text, path.name
        named = ("quadratic_scores", "card_transitions", "likelihoods_of_people")
        assert f"'{rule}' as rule" in text or any(f"{name}('{rule}'" in text for name in named), path.name


def test_every_rule_has_a_unit_test():
    tested = {test["model"] for test in properties("unit_tests")}
    rules = {path.stem for path in SCORED.glob("int_scored__*.sql")}
    rules |= {path.stem for path in MODELS.rglob("int_uniform__*.sql")}
    rules |= {path.stem for path in MODELS.rglob("int_*metrics__*.sql")}
    rules |= {path.stem for path in LEARNING.glob("int_learning__*.sql")}
    rules |= {"int_answers", "int_learning_answers", "int_learning_turns"}
    assert rules - tested == set()


def test_every_mode_has_one_primary_metric_by_its_own_rule():
    metrics = [row for row in seed("s1cogbench_metrics") if row["is_primary"] == "true"]
    assert {row["mode_id"]: row["rule"] for row in metrics} == {
        row["mode_id"]: row["scored_rule"] for row in seed("s1cogbench_modes")
    }


def test_no_mode_is_named_in_sql():
    modes = {row["mode_id"] for row in seed("s1cogbench_modes")}
    # names of rules, which modes of one kind carry too
    modes -= {row["uniform_rule"] for row in seed("s1cogbench_metrics")}
    for path in [*MODELS.rglob("*.sql"), *(PROJECT / "macros").glob("*.sql")]:
        text = path.read_text(encoding="utf-8")
        assert [mode for mode in modes if f"'{mode}'" in text] == [], path.name


def test_no_task_and_no_family_of_learning_is_named_in_sql():
    names = {row[key] for row in seed("learning_tasks") for key in ("task_id", "family_id", "source_id")} - {
        ""
    }
    for path in [*MODELS.rglob("*.sql"), *(PROJECT / "macros").glob("*.sql"), *DATA_TESTS.rglob("*.sql")]:
        words = set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))
        assert words & names == set(), path.name


def test_no_component_and_no_data_set_is_named_in_sql():
    # a mart that has a column for each takes their names from its contract
    names = {row["component_id"] for row in seed("cognirank_components")}
    names |= {row["dataset_id"] for row in seed("cognirank_datasets")}
    names |= {row["source_id"] for row in seed("cognirank_datasets")}
    for path in [*MODELS.rglob("*.sql"), *(PROJECT / "macros").glob("*.sql"), *DATA_TESTS.rglob("*.sql")]:
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        assert words & names == set(), path.name


def test_no_grader_and_no_part_of_a_response_is_named_in_sql():
    graders = tomllib.loads((PROJECT / "manifests" / "graders.toml").read_text(encoding="utf-8"))
    named = {*graders} | {rule for grader in graders.values() for rule in grader["answer_rules"]}
    for path in [*MODELS.rglob("*.sql"), *(PROJECT / "macros").glob("*.sql"), *DATA_TESTS.rglob("*.sql")]:
        text = path.read_text(encoding="utf-8")
        assert [name for name in named if name in text] == [], path.name


def test_published_labels_point_to_declared_metrics():
    declared = {(row["mode_id"], row["metric"]) for row in seed("s1cogbench_metrics")}
    for row in seed("published_labels"):
        assert row["metric"] or row["note"], row["label"]
        if row["metric"]:
            assert (row["mode_id"], row["metric"]) in declared, row["label"]


def test_no_model_is_external():
    # dbt-duckdb writes an empty external model as one row of nulls
    for path in [*MODELS.rglob("*.sql"), PROJECT / "dbt_project.yml"]:
        assert "external" not in path.read_text(encoding="utf-8").replace("external_location", ""), path.name
