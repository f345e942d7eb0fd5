"""``coglake trace``: what it prints, what it refuses, and what it leaves out."""

import hashlib
import json
import re
import shlex
import shutil

import duckdb
import pytest
from support import copy_lake
from typer.testing import CliRunner

from store import command_trace, trace_cognirank, trace_learning, trace_table3
from store.cli import app
from store.trace_files import RawRows
from store.trace_record import Trace


@pytest.fixture
def trace(demo_lake, project, monkeypatch):
    """The command as it is typed, in the folder of the project."""
    monkeypatch.setenv("COGLAKE_HOME", str(demo_lake.root))
    monkeypatch.chdir(project)

    def typed(*arguments: str):
        return CliRunner().invoke(app, ["trace", *arguments])

    return typed


def printed(result):
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(result):
    assert result.exit_code == 2, result.output
    [sentence] = result.stderr.splitlines()
    assert result.stdout == ""
    return sentence


# ---- what is printed ----


def test_a_cell_goes_from_its_print_to_its_bytes(trace, demo_lake):
    page = printed(trace("restless_bandit", "demo-bayes"))
    [part] = (demo_lake.raw / "steps").glob("run=demo_archive-RestlessBandit-demo-bayes-*/*.parquet")
    assert page.startswith("Restless bandit, demo-bayes: 72.4\n")
    for expected in (
        "rule credited_choice: Of a mode that is played",
        "800 planned = 800 scored + 0 unparsed + 0 error + 0 too long + 0 missing option",
        "with metric = better_arm, scale = 100.0",
        "steps: 5 of 800 rows",
        f"{hashlib.sha256(part.read_bytes()).hexdigest()} {part.stat().st_size:>9,} bytes {part}",
        "kind: archived",
        "licence: MIT",
    ):
        assert expected in page
    assert len(re.findall("^SQL over .*, which gives 72.375$", page, flags=re.MULTILINE)) == 2


def test_a_mode_goes_by_its_label_and_capitals_do_not_count(trace):
    assert trace("Restless bandit", "Demo-Bayes").stdout == trace("restless_bandit", "demo-bayes").stdout


@pytest.mark.parametrize(("n_rows", "n_shown"), [("0", 0), ("3", 3)])
def test_as_many_raw_rows_as_are_asked_for(trace, n_rows, n_shown):
    page = printed(trace("bart", "demo-greedy", "--rows", n_rows))
    assert page.count("demo_archive-BART-demo-greedy-") - page.count("run_id = ") > n_shown
    assert (
        len(re.findall(r"^ +demo_archive-BART-demo-greedy-.*banked|exploded", page, re.MULTILINE)) == n_shown
    )


def test_json_has_every_row_and_is_strict(trace):
    told = json.loads(printed(trace("bart", "demo-greedy", "--json")), parse_constant=pytest.fail)
    assert len(told["rows"]["steps"]) == told["counts"]["n_planned"] == 450
    assert [query["value"] for query in told["queries"]] == [told["value"]] * 2


def test_another_metric_of_the_mode(trace):
    page = printed(trace("bart", "demo-greedy", "--metric", "mean_pumps"))
    assert "metric: mean_pumps, in pumps" in page
    assert "rule action_count" in page


def test_an_empty_cell_says_why_and_what_would_fill_it(trace):
    page = printed(trace("rlwm", "demo-bayes"))
    assert page.startswith("RLWM, demo-bayes: n.e.\n")
    assert "why it is empty: no run of this mode" in page
    assert "what would fill it: a source in which demo-bayes was asked all of it" in page
    assert "0 planned = 0 scored" in page
    told = json.loads(printed(trace("rlwm", "demo-bayes", "--json")))
    assert (told["value"], told["rows"], told["parts"], told["queries"]) == (None, {}, [], [])


def test_an_expectation_without_items_comes_from_what_is_declared(trace):
    page = printed(trace("rlwm", "uniform"))
    assert page.startswith("RLWM, uniform: 33.3\n")
    assert "declared_n_legal" in page


def test_a_reference_that_was_not_run_says_how_to_run_it(trace):
    assert "`coglake generate --agent thompson`" in printed(trace("stationary_bandits", "reference"))


def test_what_would_fill_a_score_can_be_pasted_and_is_for_models_alone():
    with duckdb.connect() as con:
        con.execute("create table stg_runs as select 'a; b' as model_id, 'model' as kind")
        con.execute("insert into stg_runs values ('expert', 'reference')")
        [table_3, cognirank, learning] = [
            trace_table3._advice(con, "bart", {"column_kind": "model", "model_id": "a; b"}),
            trace_cognirank._advice("a; b"),
            trace_learning._advice(con, "a; b"),
        ]
        assert trace_learning._advice(con, "expert") is None
    for advice in (table_3, cognirank, learning):
        assert "a; b" in shlex.split(advice.split("`")[1])


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("restles_bandit", "demo-bayes"),
            "restles_bandit: there is no such mode, component, category or task; ",
        ),
        (
            ("bart", "demo-bays"),
            "demo-bays: there is no such column or model of bart; did you mean demo-bayes",
        ),
        (("bart", "demo-bayes", "--metric", "mean_pump"), "--metric mean_pump: did you mean mean_pumps"),
        (("bayesian_urn", "uniform", "--metric", "prior_weight"), "no exact expectation is declared for it"),
        (("cogniscore", "demo-bayes"), "cogniscore: nobody was asked it in this lake"),
        (("'; drop table metrics; --", "demo-bayes"), "there is no such mode"),
        (("bart", "x" * 300), f"{'x' * 300}: there is no such column or model of bart"),
    ],
)
def test_an_unknown_name_is_one_sentence(trace, arguments, sentence):
    assert sentence in refused(trace(*arguments))


def test_a_lake_that_is_not_built_is_one_sentence(trace, tmp_path, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    result = trace("bart", "uniform")
    assert result.exit_code == 15
    assert result.stderr.count("\n") == 1
    assert "nothing is built yet" in result.stderr


def test_a_lake_that_was_copied_is_one_sentence(trace, tmp_path, demo_lake, monkeypatch):
    copy = copy_lake(demo_lake, tmp_path / "copy")
    monkeypatch.setenv("COGLAKE_HOME", str(copy.root))
    result = trace("bart", "demo-bayes")
    assert result.exit_code == 15
    assert "copied or moved" in result.stderr


def test_rows_that_came_after_the_build_are_one_sentence(trace, demo_lake):
    late = demo_lake.raw / "steps" / "run=late" / f"part-{'0' * 64}.parquet"
    late.parent.mkdir()
    try:
        late.touch()
        result = trace("bart", "demo-bayes")
    finally:
        shutil.rmtree(late.parent)
    assert result.exit_code == 15
    assert "the raw rows changed since the build" in result.stderr


# ---- what is left out ----


def test_public_shows_no_raw_text_of_a_restricted_source_and_the_same_score(trace, monkeypatch):
    whole = json.loads(printed(trace("bayesian_urn", "demo-greedy", "--json")))
    monkeypatch.setattr(command_trace, "restricted_sources", lambda con: frozenset({"demo_archive"}))
    for arguments in (("--json",), ()):
        page = printed(trace("bayesian_urn", "demo-greedy", "--public", *arguments))
        for row in whole["rows"]["items"]:
            assert row["facts_json"] not in page
    told = json.loads(printed(trace("bayesian_urn", "demo-greedy", "--public", "--json")))
    assert told["value"] == whole["value"]
    for table, rows in told["rows"].items():
        assert len(rows) == len(whole["rows"][table]) > 0
        assert {row["withheld"] for row in rows} == {"withheld: demo_archive is not public"}
        assert not any(
            row.get(name) for row in rows for name in ("response_text", "target", "response_number")
        )


def test_public_names_no_item_that_stands_for_an_expectation(monkeypatch):
    monkeypatch.setattr(command_trace, "restricted_sources", lambda con: frozenset({"private"}))
    kind = {"first_item_id": "anna/0", "n_items": 3, "target": 0.5, "facts_json": "said", "expectation": 0.25}
    found = Trace(
        cell={},
        value=0.25,
        value_scored=0.25,
        reason=None,
        advice=None,
        formulas=(),
        parameters={},
        counts={},
        uncertainty={},
        versions=(),
        expectations=(kind,),
        rows=(RawRows("items", "", 3, ("private",)),),
    )
    with duckdb.connect() as con:
        told = json.loads("".join(command_trace.document(con, found, is_public=True)))
    [shown] = told["expectations"]
    assert (shown["first_item_id"], shown["target"], shown["facts_json"]) == (None, None, None)
    assert (shown["n_items"], shown["expectation"]) == (3, 0.25)


def test_public_shows_a_public_source_as_it_is(trace):
    assert trace("bart", "demo-bayes", "--public").stdout == trace("bart", "demo-bayes").stdout
