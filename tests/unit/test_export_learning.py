"""The table of Learning: which rows are there and in which order, what is printed, and what is refused."""

import csv
import io
import json

import duckdb
import pytest

from store.errors import CheckFailed, NothingToExport, WrongUsage
from store.export_learning import export_learning
from store.formats import Format, render
from store.uncertainty import Uncertainty

# neither in the order of letters nor in that of the rows
CATEGORIES = ("runtime_rl", "concept_formation", "associative_learning")
HEADERS = (
    "Model",
    "Revision",
    "Protocol",
    "Category",
    "Score",
    "SE",
    "Floor",
    "Ceiling",
    "Tasks",
    "Tasks planned",
    "Of older instances",
    "Withheld because",
    "No floor because",
    "Evaluation",
)
NUMBERS = ("Score", "SE", "Floor", "Ceiling")


@pytest.fixture
def con():
    """Marts as the build makes them: a model under two protocols, one that was asked a part, an agent."""
    with duckdb.connect() as con:
        con.execute(
            """
            create table learning_report (
                run_id varchar, model_id varchar, model_revision varchar, protocol varchar, category varchar,
                score double, score_scored double, se double, floor double, floor_because varchar,
                ceiling double, n_tasks bigint, n_planned bigint, n_older_tasks bigint, reason varchar,
                ci_low double, ci_high double
            );
            insert into learning_report by position
            select *, score_scored - 0.0625, score_scored + 0.0625 from (values
                ('b-chat', 'hub/B', 'abc', '=chat', 'associative_learning',
                    0.00005, 0.00005, 0.25, 0.125, null, 1, 24, 24, 24, null),
                ('b-chat', 'hub/B', 'abc', '=chat', 'runtime_rl',
                    1, 1, 0, 0.14064, null, 1, 24, 24, 0, null),
                ('b-chat', 'hub/B', 'abc', '=chat', 'concept_formation',
                    null, null, null, null, 'no task has a score', 1, 0, 24, 0, 'no task of it was asked'),
                ('a-plain', 'hub/a', null, 'plain', 'concept_formation',
                    null, 0.5, 0.03125, 0.4, null, 0.98, 3, 24, 1, '3 of 24 tasks | have a score'),
                ('b-plain', 'hub/B', 'abc', 'plain', 'runtime_rl',
                    0, 0, 0, null, 'never played', 1, 24, 24, 0, null),
                ('random', 'random', null, null, 'runtime_rl',
                    0.125, 0.125, 0, 0.125, null, 1, 24, 24, 0, null)
            ) as t(run_id, model_id, model_revision, protocol, category, score, score_scored, se, floor,
                floor_because, ceiling, n_tasks, n_planned, n_older_tasks, reason);
            create table learning_scores (task_id varchar, scorer_sha varchar);
            insert into learning_scores values ('t_1', 'x'), ('t_1', null), ('t_1', 'x'), ('t_2', 'y');
            """
        )
        yield con


def rows_of(sheet):
    return {(row[-1], row[3]): dict(zip(sheet.headers, row, strict=True)) for row in sheet.rows}


def test_rows_are_by_model_and_evaluation_and_categories_in_their_order(con):
    sheet = export_learning(con, CATEGORIES)
    assert sheet.headers == HEADERS
    assert [(row[0], row[-1], row[3]) for row in sheet.rows] == [
        ("hub/a", "a-plain", "concept_formation"),
        ("hub/B", "b-chat", "runtime_rl"),
        ("hub/B", "b-chat", "concept_formation"),
        ("hub/B", "b-chat", "associative_learning"),
        ("hub/B", "b-plain", "runtime_rl"),
        ("random", "random", "runtime_rl"),
    ]


def test_numbers_have_four_decimals_rounded_as_printf_does(con):
    found = rows_of(export_learning(con, CATEGORIES))
    # the double next to 0.00005 is above it
    assert [found["b-chat", "associative_learning"][name] for name in NUMBERS] == [
        "0.0001",
        "0.2500",
        "0.1250",
        "1.0000",
    ]
    assert found["b-chat", "runtime_rl"]["Floor"] == "0.1406"


def test_what_is_missing_is_empty_and_says_why(con):
    found = rows_of(export_learning(con, CATEGORIES))
    unasked = found["b-chat", "concept_formation"]
    # the ceiling is then that of all tasks
    assert [unasked[name] for name in NUMBERS] == [None, None, None, "1.0000"]
    assert unasked["Withheld because"] == "no task of it was asked"
    assert unasked["No floor because"] == "no task has a score"
    unplayed = found["b-plain", "runtime_rl"]
    assert (unplayed["Score"], unplayed["Floor"]) == ("0.0000", None)
    assert (unplayed["Withheld because"], unplayed["No floor because"]) == (None, "never played")


def test_a_part_of_the_tasks_is_printed_on_request_only_and_each_number_is_marked(con):
    withheld = export_learning(con, CATEGORIES)
    part = rows_of(withheld)["a-plain", "concept_formation"]
    assert [part[name] for name in NUMBERS] == [None] * 4
    assert (part["Tasks"], part["Tasks planned"]) == (3, 24)
    assert withheld.notes == (
        "partial scores withheld: 1; --allow-partial prints what could be scored, marked s",
    )
    printed = export_learning(con, CATEGORIES, allow_partial=True)
    part = rows_of(printed)["a-plain", "concept_formation"]
    assert [part[name] for name in NUMBERS] == ["0.5000s", "0.0312s", "0.4000s", "0.9800s"]
    assert printed.notes == ()
    whole = rows_of(printed)["b-chat", "runtime_rl"]
    assert [whole[name] for name in NUMBERS] == ["1.0000", "0.0000", "0.1406", "1.0000"]


def test_scores_of_older_instances_are_told_apart(con):
    found = rows_of(export_learning(con, CATEGORIES))
    assert {key: row["Of older instances"] for key, row in found.items() if row["Of older instances"]} == {
        ("b-chat", "associative_learning"): 24,
        ("a-plain", "concept_formation"): 1,
    }


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (["hub/B"], {"b-chat", "b-plain"}),
        (["b-plain"], {"b-plain"}),
        (["hub/*"], {"a-plain", "b-chat", "b-plain"}),
        (["*-plain", "random"], {"a-plain", "b-plain", "random"}),
        (["random", "r*"], {"random"}),
    ],
)
def test_models_are_chosen_by_name_evaluation_or_pattern(con, models, expected):
    sheet = export_learning(con, CATEGORIES, models)
    assert {row[-1] for row in sheet.rows} == expected
    # whoever is left out is not counted either
    assert bool(sheet.notes) == ("a-plain" in expected)


@pytest.mark.parametrize("name", ["hub/C", "x*", ""])
def test_a_name_that_matches_nobody_is_refused(con, name):
    with pytest.raises(WrongUsage):
        export_learning(con, CATEGORIES, ["hub/B", name])


def test_one_task_is_never_printed_with_two_versions_of_its_rule(con):
    con.execute("insert into learning_scores values ('t_2', 'z')")
    with pytest.raises(CheckFailed, match="t_2: expected one version of its scorer, found y, z"):
        export_learning(con, CATEGORIES)


def test_without_evaluations_there_is_nothing_to_export(con):
    con.execute("delete from learning_report")
    with pytest.raises(
        NothingToExport, match="coglake generate --agent oracle --benchmark learning"
    ) as found:
        export_learning(con, CATEGORIES)
    assert found.value.exit_code == 15


def test_forms_say_the_same(con):
    sheet = export_learning(con, CATEGORIES, ["a-plain", "b-chat"], allow_partial=True)
    lines = list(csv.DictReader(io.StringIO(render(sheet, Format.CSV))))
    records = json.loads(render(sheet, Format.JSON))
    assert len(lines) == len(records) == 4
    for line, record in zip(lines, records, strict=True):
        # a spreadsheet would read the protocol as a formula
        assert line.pop("Protocol").removeprefix("'") == record.pop("Protocol")
        assert line == {name: "" if value is None else str(value) for name, value in record.items()}
    header, _, first, *_ = render(sheet, Format.MD).splitlines()
    assert header.startswith("| Model | Revision |")
    assert "3 of 24 tasks \\| have a score" in first and "0.5000s" in first


def test_an_interval_stands_beside_the_score_or_with_it(con):
    sheet = export_learning(con, CATEGORIES, ["a-plain", "b-chat"], beside=Uncertainty.CI)
    assert sheet.headers[4:8] == ("Score", "Score CI low", "Score CI high", "Floor")
    found = rows_of(sheet)
    chat = found["b-chat", "runtime_rl"]
    assert (chat["Score CI low"], chat["Score CI high"], chat["Floor"]) == ("0.9375", "1.0625", "0.1406")
    # no more of a part leaves than of its score
    assert found["a-plain", "concept_formation"]["Score CI low"] is None
    printed = export_learning(con, CATEGORIES, ["a-plain"], allow_partial=True, beside=Uncertainty.CI)
    assert "0.5000s \\[0.4375s, 0.5625s\\] | 0.4000s |" in render(printed, Format.MD)


def test_a_standard_error_is_read_with_the_score(con):
    sheet = export_learning(con, CATEGORIES, ["b-chat"], beside=Uncertainty.SE)
    assert sheet.headers[4:7] == ("Score", "Score SE", "Floor")
    assert "1.0000 ± 0.0000 | 0.1406 |" in render(sheet, Format.MD)
