"""The table of CogniScores: what is printed, what stays empty, and which rows are there."""

import csv
import io
import json

import duckdb
import pytest

from store.errors import CheckFailed, NothingToExport, WrongUsage
from store.export import export_cogniscore
from store.formats import Format, render
from store.uncertainty import Uncertainty

HEADERS = (
    "Rank",
    "Ranked by",
    "Model",
    "Revision",
    "Clicks",
    "Grids",
    "CogniScore",
    "95% CI",
    "Tied group",
    "Stand-in score",
    "Stand-ins",
    "Withheld because",
    "Context",
    "Context extended",
    "Custom code",
    "Protocol",
    "Deviations",
    "Evaluation",
)


@pytest.fixture
def con():
    """Marts as the build makes them: two ranked models, a stand-in, and one that failed."""
    with duckdb.connect() as con:
        con.execute(
            """
            create table cognirank_components as from (values
                ('grids', 2, 'Grids'), ('clicks', 1, 'Clicks')
            ) as t(component_id, display_order, label);
            create table cognirank_scores (
                evaluation_id varchar, component_id varchar, dataset_id varchar, is_stand_in boolean,
                metric varchar, is_primary boolean, value double, value_scored double, scorer_sha varchar,
                se double, ci_low double, ci_high double
            );
            insert into cognirank_scores by position
            select *, value_scored / 10, value_scored - 2, value_scored + 2 from (values
                ('a-1', 'clicks', 'clicks', false, 'm', true, 61.25, 61.25, 'x'),
                ('a-1', 'clicks', 'clicks', false, 'other', false, 99, 99, 'x'),
                ('a-1', 'grids', 'grids', false, 'm', true, 40.125, 40.125, 'x'),
                ('b-1', 'clicks', 'clicks', false, 'm', true, 70.005, 70.005, 'x'),
                ('b-1', 'grids', 'grids', false, 'm', true, 0, 0, 'x'),
                ('c-1', 'clicks', 'clicks_like', true, 'm', true, 12.5, 12.5, 'x'),
                ('c-1', 'grids', 'grids', false, 'm', true, 7, 7, 'x'),
                ('d-1', 'clicks', 'clicks_like', true, 'm', true, null, null, null),
                ('d-1', 'grids', 'grids', false, 'm', true, null, 33.3, 'x')
            ) as t(evaluation_id, component_id, dataset_id, is_stand_in, metric, is_primary, value,
                value_scored, scorer_sha);
            create table cogniscore (
                run_id varchar, model_id varchar, model_revision varchar, cogniscore double,
                cogniscore_standin double, withheld_because varchar, ci_low double, ci_high double,
                context_tokens integer, is_context_extension boolean, generation_id varchar,
                deviations varchar, trust_remote_code boolean, se double
            );
            insert into cogniscore by position
            select *, coalesce(cogniscore, cogniscore_standin) / 5 from (values
                ('d-1', 'hub/d', null, null, null, 'clicks: a stand-in; grids: 3 of 4', null, null, null,
                    false, null, null, false),
                ('a-1', 'hub/a', 'abc', 48.428947368421052, null, null, 40.1, 55.555, 4096, true,
                    '0123456789abcdef', null, true),
                ('c-1', 'hub/c', '', null, 9.75, 'clicks: a stand-in (clicks_like)', 5, 15, 2048, false,
                    '0123456789abcdef', '=float32', false),
                ('b-1', 'hub/b', 'def', 50.125, null, null, 45.5, 60, 4096, false,
                    '0123456789abcdef', null, false)
            ) as t(run_id, model_id, model_revision, cogniscore, cogniscore_standin, withheld_because,
                ci_low, ci_high, context_tokens, is_context_extension, generation_id, deviations,
                trust_remote_code);
            create table cogniscore_ranks as from (values
                ('cogniscore', 1, 'b-1', 1, 'clicks, grids', '0123456789abcdef', null),
                ('cogniscore', 2, 'a-1', 1, 'clicks, grids', '0123456789abcdef', null),
                ('cogniscore_standin', 1, 'c-1', 1, 'clicks_like, grids', '0123456789abcdef', '=float32')
            ) as t(ranked, rank, run_id, tied_group, datasets, generation_id, deviations);
            """
        )
        yield con


def by_model(sheet):
    return {row[2]: dict(zip(sheet.headers, row, strict=True)) for row in sheet.rows}


def test_rows_are_by_rank_and_what_has_none_comes_last(con):
    sheet = export_cogniscore(con)
    assert sheet.headers == HEADERS
    assert [(row[0], row[1], row[2]) for row in sheet.rows] == [
        (1, "CogniScore", "hub/b"),
        (2, "CogniScore", "hub/a"),
        (1, "stand-in score", "hub/c"),
        (None, None, "hub/d"),
    ]


def test_numbers_have_two_decimals_rounded_as_printf_does(con):
    found = by_model(export_cogniscore(con))
    # the doubles next to 70.005 and 40.125: the first is below its decimal, the second is it, and even
    assert (found["hub/b"]["Clicks"], found["hub/a"]["Grids"]) == ("70.00", "40.12")
    assert (found["hub/a"]["CogniScore"], found["hub/b"]["Grids"]) == ("48.43", "0.00")
    assert found["hub/a"]["95% CI"] == "40.10 to 55.55"
    assert found["hub/a"]["Protocol"] == "0123456789ab"


def test_a_stand_in_is_never_in_the_column_of_its_component(con):
    found = by_model(export_cogniscore(con))["hub/c"]
    assert (found["Clicks"], found["Grids"], found["CogniScore"]) == (None, "7.00", None)
    assert (found["Stand-in score"], found["Stand-ins"]) == ("9.75", "clicks_like 12.50")
    assert found["Withheld because"] == "clicks: a stand-in (clicks_like)"


def test_a_part_of_the_items_is_printed_on_request_only_and_marked(con):
    sheet = export_cogniscore(con)
    found = by_model(sheet)["hub/d"]
    assert (found["Grids"], found["Stand-ins"]) == (None, "clicks_like without a score")
    assert sheet.notes == (
        "partial scores withheld: 1; --allow-partial prints what could be scored, marked s",
    )
    sheet = export_cogniscore(con, allow_partial=True)
    assert by_model(sheet)["hub/d"]["Grids"] == "33.30s"
    assert by_model(sheet)["hub/d"]["CogniScore"] is None
    assert sheet.notes == ()


def test_models_are_chosen_by_name_evaluation_or_pattern(con):
    for wanted, models in {
        ("hub/a",): ["hub/a"],
        ("a-1",): ["hub/a"],
        ("*/[ab]",): ["hub/b", "hub/a"],
        ("hub/d", "b-*"): ["hub/b", "hub/d"],
    }.items():
        assert [row[2] for row in export_cogniscore(con, wanted).rows] == models
    with pytest.raises(WrongUsage, match=r"--models hub/x: no such model; did you mean"):
        export_cogniscore(con, ["hub/x"])


def test_what_is_missing_is_empty_in_csv_and_null_in_json(con):
    sheet = export_cogniscore(con, ["hub/d"])
    [row] = csv.DictReader(io.StringIO(render(sheet, Format.CSV)))
    empty = ("Rank", "Ranked by", "Revision", "Clicks", "Grids", "CogniScore", "95% CI", "Context")
    assert {row[name] for name in empty} == {""}
    [record] = json.loads(render(sheet, Format.JSON))
    assert {record[name] for name in empty} == {None}
    assert record["Custom code"] is False


def test_every_form_can_be_read(con):
    sheet = export_cogniscore(con)
    assert "| 2 | CogniScore | hub/a | abc | 61.25 | 40.12 | 48.43 |" in render(sheet, Format.MD)
    rows = list(csv.reader(io.StringIO(render(sheet, Format.CSV))))
    # a sentence that a spreadsheet would run is guarded
    assert rows[3][16] == "'=float32"


def test_without_an_evaluation_there_is_nothing(con):
    con.execute("delete from cogniscore")
    with pytest.raises(NothingToExport, match="no model was evaluated on CogniRank; run `coglake cognirank"):
        export_cogniscore(con)


def test_a_data_set_scored_by_two_rule_versions_is_not_exported(con):
    con.execute("update cognirank_scores set scorer_sha = 'y' where evaluation_id = 'b-1'")
    with pytest.raises(CheckFailed, match="clicks: expected one version of the scorer of m, found x, y"):
        export_cogniscore(con)


def test_beside_each_score_stands_its_error(con):
    sheet = export_cogniscore(con, beside=Uncertainty.SE)
    assert sheet.headers[4:14] == (
        "Clicks",
        "Clicks SE",
        "Grids",
        "Grids SE",
        "CogniScore",
        "CogniScore SE",
        "95% CI",
        "Tied group",
        "Stand-in score",
        "Stand-in score SE",
    )
    found = by_model(sheet)
    assert (found["hub/a"]["Clicks SE"], found["hub/a"]["CogniScore SE"]) == ("6.12", "9.69")
    assert found["hub/a"]["Stand-in score SE"] is None
    # the error of a stand-in score is in no other column, and none is where no score is
    assert (found["hub/c"]["CogniScore SE"], found["hub/c"]["Stand-in score SE"]) == (None, "1.95")
    assert (found["hub/c"]["Clicks SE"], found["hub/d"]["Grids SE"]) == (None, None)


def test_the_interval_of_a_part_is_marked_as_its_score_is(con):
    sheet = export_cogniscore(con, ["hub/d"], allow_partial=True, beside=Uncertainty.CI)
    [row] = by_model(sheet).values()
    assert (row["Grids"], row["Grids CI low"], row["Grids CI high"]) == ("33.30s", "31.30s", "35.30s")
    assert "| 33.30s \\[31.30s, 35.30s\\] |" in render(sheet, Format.MD)


def test_what_is_read_has_score_and_interval_in_one_cell(con):
    page = render(export_cogniscore(con, ["hub/a"], beside=Uncertainty.CI), Format.HTML)
    assert ">61.25 [59.25, 63.25]<" in page and ">48.43 [40.10, 55.55]<" in page
