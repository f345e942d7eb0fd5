"""Item verdicts as a file: does each stand beside what was asked and answered, and is no run half there?"""

import csv
import io
import json

import duckdb
import pytest

from store import command_export_scores, export_scores
from store.errors import NothingToExport, WrongUsage
from store.export_scores import score_sheet, select_scores, write_scores
from store.formats import Format
from store.manifest import load_sources
from store.schemas import RAW_TABLES

PUBLIC = "tomi"
FORMULA = '=HYPERLINK("x")'
VERDICT = {
    "benchmark": "s1cogbench",
    "run_id": "run",
    "mode_id": "asked",
    "episode_id": "e",
    "item_id": None,
    "step_index": None,
    "rule": "rule",
    "readout": None,
    "value": 1.0,
    "weight": 1.0,
    "status": "ok",
    "status_reason": None,
    "part_id": "part",
    "scorer_sha": "sha",
    "is_current": True,
    "replaced_by": None,
    "replaced_at": None,
}


def sql_type(kind):
    named = {"int32": "integer", "int8": "integer", "int64": "bigint", "double": "double", "bool": "boolean"}
    return "varchar[]" if str(kind).startswith("list<item: string") else named.get(str(kind), "varchar")


class Build:
    """A build with the relations that an export reads."""

    def __init__(self):
        self.con = duckdb.connect()
        for table in ("runs", "outputs", "steps", "items", "human_responses", "prompts"):
            columns = ", ".join(f"{field.name} {sql_type(field.type)}" for field in RAW_TABLES[table])
            self.con.execute(f"create table stg_{table} ({columns})")
        typed = {"step_index": "integer", "value": "double", "weight": "double", "is_current": "boolean"}
        columns = ", ".join(f"{name} {typed.get(name, 'varchar')}" for name in VERDICT)
        self.con.execute(f"create table score_versions ({columns})")
        self.con.execute("create table int_unanswered (run_id varchar, mode_id varchar)")
        self.con.execute("create table cognirank_scores (run_id varchar, dataset_id varchar, n_planned int)")
        self.con.execute("create table learning_scores (run_id varchar, task_id varchar, n_planned int)")
        self.run("run")

    def add(self, table, **row):
        named = ", ".join(row)
        places = ", ".join("?" for _ in row)
        self.con.execute(f"insert into {table} ({named}) values ({places})", list(row.values()))

    def run(self, run_id, model_id="model", source_id=PUBLIC):
        self.add("stg_runs", run_id=run_id, kind="archived", model_id=model_id, source_id=source_id)

    def verdict(self, **row):
        self.add("score_versions", **(VERDICT | row))

    def rows(self, *arguments, **choices):
        chosen = select_scores(self.con, *arguments, **choices)
        sheet = score_sheet(self.con, chosen)
        return [dict(zip(sheet.headers, row, strict=True)) for row in sheet.rows]


@pytest.fixture
def build():
    build = Build()
    yield build
    build.con.close()


def test_the_source_of_these_tests_is_public():
    assert not load_sources()[PUBLIC].is_restricted


def test_an_answer_stands_beside_its_prompt_as_it_was_asked(build):
    build.verdict(item_id="i")
    build.add(
        "stg_items",
        mode_id="asked",
        item_id="i",
        source_id=PUBLIC,
        prompt="as written",
        legal_options=["a", "b"],
        credited_options=["a"],
    )
    build.add(
        "stg_outputs",
        run_id="run",
        mode_id="asked",
        item_id="i",
        episode_id="e",
        response_text="a",
        prompt_sha256="hash",
    )
    build.add(
        "stg_outputs", run_id="run", mode_id="asked", item_id="i", episode_id="other", response_text="b"
    )
    build.add("stg_prompts", prompt_sha256="hash", text="as asked")
    [row] = build.rows()
    assert (row["prompt"], row["response_text"], row["source_id"]) == ("as asked", "a", PUBLIC)
    assert (json.loads(row["options"]), json.loads(row["credited_options"])) == (["a", "b"], ["a"])
    build.con.execute("delete from stg_prompts")
    assert [row["prompt"] for row in build.rows()] == ["as written"]


def test_a_step_stands_beside_what_was_seen(build):
    build.verdict(step_index=1)
    for step, action in enumerate("xy"):
        build.add(
            "stg_steps",
            run_id="run",
            mode_id="asked",
            episode_id="e",
            step_index=step,
            observation=f"seen {step}",
            action=action,
            legal_options=["x", "y"],
        )
    [row] = build.rows()
    assert (row["prompt"], row["response_text"], row["step_index"]) == ("seen 1", "y", 1)


def test_one_answer_to_a_question_of_many_people_stands_beside_each_of_their_responses(build):
    build.add("stg_items", mode_id="asked", item_id="i", source_id=PUBLIC, prompt="?")
    build.add(
        "stg_outputs", run_id="run", mode_id="asked", item_id="i", episode_id="whole", response_text="a"
    )
    for person, response in (("anna", "a"), ("bert", "b")):
        build.verdict(item_id="i", episode_id=person)
        build.add(
            "stg_human_responses", mode_id="asked", item_id="i", participant_id=person, response=response
        )
    found = [(row["participant_id"], row["response_text"], row["human_response"]) for row in build.rows()]
    assert found == [("anna", "a", "a"), ("bert", "a", "b")]


def test_an_answer_for_one_person_stands_beside_this_person_alone(build):
    build.add("stg_items", mode_id="asked", item_id="i", source_id=PUBLIC, prompt="?")
    for person, number in (("anna", 1.0), ("bert", 2.0)):
        build.verdict(item_id="i", episode_id=person)
        build.add(
            "stg_outputs",
            run_id="run",
            mode_id="asked",
            item_id="i",
            episode_id=f"session {person}",
            participant_id=person,
            response_number=number,
        )
        build.add(
            "stg_human_responses",
            mode_id="asked",
            item_id="i",
            participant_id=person,
            response_number=number + 0.5,
        )
    found = [(row["participant_id"], row["response_text"], row["human_response"]) for row in build.rows()]
    assert found == [("anna", "1.0", "1.5"), ("bert", "2.0", "2.5")]


def test_choices_that_were_counted_are_one_row(build):
    build.verdict(item_id="i", episode_id="anna")
    build.add("stg_items", mode_id="asked", item_id="i", source_id=PUBLIC, participant_id="anna")
    build.add("stg_outputs", run_id="run", mode_id="asked", item_id="i", episode_id="anna")
    for response in "ba":
        build.add(
            "stg_human_responses", mode_id="asked", item_id="i", participant_id="anna", response=response
        )
    assert [row["human_response"] for row in build.rows()] == ["a | b"]


def test_verdicts_of_an_older_rule_are_not_exported(build):
    build.verdict(scorer_sha="new")
    build.verdict(scorer_sha="old", is_current=False)
    assert [row["scorer_sha"] for row in build.rows()] == ["new"]


# --- partial runs ---


def test_a_run_that_lacks_planned_rows_leaves_only_marked(build):
    build.run("limited")
    build.verdict()
    build.verdict(run_id="limited")
    build.add("int_unanswered", run_id="limited", mode_id="asked")
    assert [(row["run_id"], row["is_partial"]) for row in build.rows()] == [("run", False)]
    assert select_scores(build.con).notes == (
        "runs of a mode that are partial, and left out: 1; --allow-partial adds and marks them",
    )
    found = [(row["run_id"], row["is_partial"]) for row in build.rows(allow_partial=True)]
    assert found == [("limited", True), ("run", False)]
    with pytest.raises(NothingToExport, match="left out: 1; --allow-partial"):
        select_scores(build.con, ["limited"])


@pytest.mark.parametrize(
    ("table", "column"), [("cognirank_scores", "dataset_id"), ("learning_scores", "task_id")]
)
def test_so_does_one_of_the_other_benchmarks(build, table, column):
    build.verdict(item_id="i")
    build.add(table, run_id="run", n_planned=1, **{column: "asked"})
    assert len(build.rows()) == 1
    build.add(table, run_id="run", n_planned=2, **{column: "asked"})
    with pytest.raises(NothingToExport):
        select_scores(build.con)


# --- public rows ---


def test_people_of_a_restricted_source_are_numbered_anew_in_each_export(build):
    names = [f"p{number:02}" for number in range(20)]
    build.run("private", source_id="stranger")
    for place, name in enumerate(names):
        build.verdict(run_id="private", episode_id=name, value=float(place))

    def numbered():
        rows = build.rows(is_public=True)
        assert [row["episode_id"] for row in rows] == sorted(f"episode {place + 1}" for place in range(20))
        return tuple(row["episode_id"] for row in sorted(rows, key=lambda row: float(row["value"])))

    # the hashes of known names can be put in order by anybody, so their order must not be the numbers'
    assert len({numbered() for _ in range(3)}) == 3


# --- choosing ---


def test_models_and_modes_are_chosen_and_an_unknown_one_is_refused(build):
    build.run("second", model_id="other")
    build.verdict()
    build.verdict(mode_id="played")
    build.verdict(run_id="second")
    assert [(row["run_id"], row["mode_id"]) for row in build.rows(["mod*"])] == [
        ("run", "asked"),
        ("run", "played"),
    ]
    assert [row["run_id"] for row in build.rows(["second"])] == ["second"]
    assert [row["mode_id"] for row in build.rows((), ["played"])] == ["played"]
    with pytest.raises(NothingToExport, match="no verdict in these modes"):
        select_scores(build.con, ["other"], ["played"])
    with pytest.raises(WrongUsage, match="no such mode with verdicts; did you mean asked"):
        select_scores(build.con, (), ["aksed"])
    with pytest.raises(WrongUsage, match="no such model"):
        select_scores(build.con, ["'; drop table stg_runs; --"])


def test_nothing_scored_is_nothing_to_export(build):
    with pytest.raises(NothingToExport, match="nothing is scored"):
        select_scores(build.con)


# --- forms ---


def written(build, folder, form):
    path = folder / f"o'clock.{form}"
    n_rows = write_scores(build.con, select_scores(build.con), form, path)
    return n_rows, path.read_text(encoding="utf-8")


def test_no_text_is_a_formula_in_csv_and_a_number_stays_one(build, tmp_path):
    build.run("@run", model_id="+model")
    for step, text in enumerate((FORMULA, "\tx", "-1", "a\r\nb\rc", 'say "a", b', "plain")):
        build.verdict(run_id="@run", step_index=step, value=-0.5, episode_id="-e")
        build.add(
            "stg_steps", run_id="@run", mode_id="asked", episode_id="-e", step_index=step, observation=text
        )
    n_rows, text = written(build, tmp_path, Format.CSV)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert n_rows == len(rows) == 6
    assert [row["prompt"] for row in rows] == [
        f"'{FORMULA}",
        "'\tx",
        "'-1",
        "a\nb\nc",
        'say "a", b',
        "plain",
    ]
    first = rows[0]
    assert (first["model_id"], first["run_id"], first["episode_id"]) == ("'+model", "'@run", "'-e")
    assert (first["value"], first["readout"], first["is_partial"]) == ("-0.5", "", "false")


def test_json_is_strict_and_an_infinite_value_reads_as_in_other_exports(build, tmp_path):
    for step, value in enumerate((float("inf"), float("-inf"), None, 0.1 + 0.2)):
        build.verdict(step_index=step, value=value)
    _, text = written(build, tmp_path, Format.JSON)

    def refuse(constant):
        raise AssertionError(constant)

    rows = json.loads(text, parse_constant=refuse)
    assert [row["value"] for row in rows] == ["+∞", "-∞", None, 0.1 + 0.2]
    _, text = written(build, tmp_path, Format.CSV)
    assert [row["value"] for row in csv.DictReader(io.StringIO(text))] == ["+∞", "-∞", "", str(0.1 + 0.2)]


def test_what_is_written_to_standard_output_is_the_table_alone(build, monkeypatch, capfd):
    build.verdict()
    monkeypatch.setattr(command_export_scores, "connect", lambda lake: build.con)
    monkeypatch.setattr(command_export_scores, "require_fresh", lambda *_: None)
    command_export_scores.run(
        Format.CSV, (), (), allow_partial=False, is_public=False, output="-", as_json=False
    )
    assert capfd.readouterr().out.startswith("benchmark,model_id,")


def test_a_table_for_reading_has_a_limit(build, monkeypatch):
    monkeypatch.setattr(export_scores, "MAX_ROWS_TO_READ", 2)
    for step in range(2):
        build.verdict(step_index=step)
    assert len(build.rows()) == 2
    build.verdict(step_index=2)
    with pytest.raises(WrongUsage, match="more than 2 rows are no table for reading"):
        build.rows()
