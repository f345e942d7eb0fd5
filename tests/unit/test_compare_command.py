"""``coglake compare``: which names it takes, what it prints, and when it ends with an error."""

import csv
import io
import json

import pytest
from spec.paired_lakes import PairedLake, Verdict
from typer.testing import CliRunner

from store import command_compare
from store.cli import app
from store.command_compare import drawn, read_margins
from store.compare import Compared, compare, resolve
from store.errors import WrongUsage
from store.freshness import Build

NLL, ACCURACY, POINTS, VARIANT = "politeness", "false_belief_qa", "bart", "weather_prediction_hmmr"
BUILD = Build("build", True, "2026-01-02", None, "success", 0, "raw", "project")


def answers(*values, status="ok"):
    return [Verdict(f"e{i}", value, item=f"i{i}", status=status) for i, value in enumerate(values)]


@pytest.fixture
def lake():
    """Two models: apart in one mode, alike in another, and on other items in a third."""
    lake = PairedLake()
    lake.add("org/one", ACCURACY, answers(1, 1, 1, 1, 1, 1, 0, 0))
    lake.add("org/two", ACCURACY, answers(0, 0, 0, 0, 0, 0, 0, 1))
    lake.add("org/one", POINTS, answers(-1.0, 2.0, 4.5))
    lake.add("org/two", POINTS, answers(-2.0, 2.5, 3.0))
    lake.add("org/one", NLL, answers(1.0, 2.0))
    return lake


@pytest.fixture
def command(lake, monkeypatch):
    """The command on that lake."""
    monkeypatch.setattr(command_compare, "connect", lambda _: lake.con.cursor())
    monkeypatch.setattr(command_compare, "require_fresh", lambda *_: BUILD)

    def run(*arguments):
        result = CliRunner().invoke(app, ["compare", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


# --- names ---


def test_a_name_is_a_column_or_the_only_column_of_a_model_or_a_run(lake):
    lake.con.execute("update table_3 set model_id = 'model' where column_id = 'org/one'")
    assert resolve(lake.con, "org/one") == Compared("org/one", "column")
    assert resolve(lake.con, "model") == Compared("org/one", "column")
    assert resolve(lake.con, "org/two-bart") == Compared("org/two-bart", "run")


def test_a_model_with_several_columns_is_named_by_one_of_them(lake):
    lake.con.execute("update table_3 set model_id = 'model' where column_kind = 'model'")
    with pytest.raises(
        WrongUsage, match=r"model: 2 columns are of this model \(org/one, org/two\); name one"
    ):
        resolve(lake.con, "model")


def test_a_wrong_name_brings_the_names_like_it(lake):
    with pytest.raises(WrongUsage, match=r"org/on: no such column .* did you mean org/one.*\?"):
        resolve(lake.con, "org/on")
    with pytest.raises(WrongUsage, match="zzz: no such column of Table 3, model or run; `coglake status`"):
        resolve(lake.con, "zzz")


@pytest.mark.parametrize("name", ["'; drop table table_3; --", 'a" or 1=1', "%", "x" * 400, ""])
def test_a_name_is_never_a_piece_of_sql(lake, name):
    with pytest.raises(WrongUsage):
        resolve(lake.con, name)
    assert lake.con.execute("select count(*) from table_3").fetchall()[0][0] > 0
    lake.add(name, ACCURACY, answers(1, 1, 1, 1, 1, 1, 1, 1))
    [found] = compare(lake.con, resolve(lake.con, name), resolve(lake.con, "org/two"), [ACCURACY])
    assert found.difference == 100 * 7 / 8


def test_the_reference_is_a_column_and_the_exact_expectation_is_not_compared(lake):
    lake.con.execute(
        "insert into table_3 select mode_id, 'reference', 'reference', 'r', run_id, value, null from table_3 "
        "where column_id = 'org/two'"
    )
    assert resolve(lake.con, "reference") == Compared("reference", "column")
    # the agent behind a reference has one column for all modes, under another name
    with pytest.raises(WrongUsage, match="r: no such column"):
        resolve(lake.con, "r")
    with pytest.raises(WrongUsage, match="uniform: this column is an exact expectation"):
        resolve(lake.con, "uniform")


def test_two_runs_compare_as_their_columns_do(lake):
    columns = compare(lake.con, Compared("org/one", "column"), Compared("org/two", "column"), [ACCURACY])
    of_runs = [resolve(lake.con, f"org/{n}-{ACCURACY}") for n in ("one", "two")]
    assert compare(lake.con, *of_runs, [ACCURACY]) == columns


def test_other_data_of_a_mode_are_compared_when_named(lake):
    for model in ("org/one", "org/two"):
        lake.add(model, VARIANT, answers(1, 0, 1, float(model == "org/one")))
    # a variant fills no cell of Table 3
    lake.con.execute("insert into substitutes from table_3 where mode_id = ?", [VARIANT])
    lake.con.execute("delete from table_3 where mode_id = ?", [VARIANT])
    one, two = resolve(lake.con, "org/one"), resolve(lake.con, "org/two")
    assert len(compare(lake.con, one, two)) == 27
    [found] = compare(lake.con, one, two, [VARIANT])
    assert (found.status, found.difference) == ("tested", 25.0)


# --- margins ---


def test_margins_are_numbers_above_zero_by_mode():
    assert read_margins(["bart=2", "politeness=1e-2"]) == {"bart": 2.0, "politeness": 0.01}


@pytest.mark.parametrize(
    "text", ["bart", "bart=", "=2", "bart=x", "bart=0", "bart=-1", "bart=nan", "bart=inf"]
)
def test_a_margin_that_is_none_is_refused(text):
    with pytest.raises(WrongUsage, match="expected MODE=VALUE with a value above 0, such as bart=2"):
        read_margins([text])


def test_a_mode_has_one_margin():
    with pytest.raises(WrongUsage, match="--margin bart=3: bart has a margin already"):
        read_margins(["bart=2", "bart=3"])


def test_a_stated_margin_takes_the_place_of_that_of_the_manifest(lake):
    one, two = resolve(lake.con, "org/one"), resolve(lake.con, "org/two")
    by_default = {each.mode_id: each for each in compare(lake.con, one, two)}
    stated = {each.mode_id: each for each in compare(lake.con, one, two, margins={ACCURACY: 60, POINTS: 3})}
    assert (by_default[ACCURACY].margin, by_default[POINTS].margin) == (5, None)
    assert (stated[ACCURACY].margin, stated[POINTS].margin) == (60, 3)
    # a wider margin is easier to keep
    assert stated[ACCURACY].equivalence_p < by_default[ACCURACY].equivalence_p


# --- the command ---


def test_a_table_is_drawn_with_a_row_for_every_mode(command):
    result = command("org/one", "org/two")
    assert result.exit_code == 0
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    [qa] = [list(filter(None, line)) for line in lines if "False-belief QA" in "".join(line)]
    assert [cell.strip() for cell in qa[:5]] == ["False-belief QA", "percent", "75.00", "12.50", "62.50"]
    # 6 against 1 of 7 flips: 2 (1 + 7) / 2^7
    assert {"0/6/1/1", "0.125"} <= {cell.strip() for cell in qa}
    assert sum("neither has a run of this mode" in "".join(line) for line in lines) == 27 - 3
    assert "org/two" in result.stdout and "B has no answer of this mode" in result.stdout
    assert "bart: no test of equivalence: no margin is stated" in result.stderr


def test_missing_pairs_end_with_one_after_all_rows_are_printed(command, lake):
    lake.add("org/two", NLL, answers(1.0))
    result = command("org/one", "org/two")
    assert result.exit_code == 1
    assert "62.50" in result.stdout and "pairs are missing" in result.stdout
    assert "politeness: B lacks 1 of 2 pairs: episode e1 item i1" in result.stderr
    assert "error: org/one and org/two were not scored on the same items in politeness" in result.stderr
    # no part of the item of another mode
    assert command("org/one", "org/two", "--modes", ACCURACY).exit_code == 0


def test_json_has_every_number_and_no_other_text(command, lake):
    lake.add("org/two", NLL, answers(float("inf"), 2.0))
    result = command("org/one", "org/two", "--json")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (found["a"], found["b"]) == (
        {"name": "org/one", "kind": "column"},
        {"name": "org/two", "kind": "column"},
    )
    assert (found["build_id"], found["n_tested"], len(found["rows"])) == ("build", 2, 27)
    rows = {row["mode_id"]: row for row in found["rows"]}
    assert rows[ACCURACY]["p"] == rows[ACCURACY]["mcnemar_p"] == 2 * (1 + 7) / 2**7
    # JSON has no infinity; the reason is there
    assert (rows[NLL]["value_b"], rows[NLL]["reason"]) == (None, "the value of B is infinite")


def test_data_are_unrounded_and_what_is_read_is_rounded(command):
    arguments = ("org/one", "org/two", "--modes", POINTS, "--format")
    [row] = csv.DictReader(io.StringIO(command(*arguments, "csv").stdout))
    # differences 1, -1/2 and 3/2
    assert float(row["difference"]) == pytest.approx(2 / 3)
    assert len(row["se"]) > 10
    markdown = command(*arguments, "md").stdout
    assert "| BART | points | 1.833 | 1.167 | 0.667 | 0.601 | \\[-1.919, 3.252\\] |" in markdown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["org/one", "org/one"], "expected two to compare, found the same twice"),
        (["org/one", "org/tow"], "did you mean org/two"),
        (["org/one", "org/two", "--modes", "bort"], "--modes bort: no such mode; did you mean bart?"),
        (["org/one", "org/two", "--modes", "bart", "--margin", "two_step=1"], "these are bart"),
        (["org/one", "org/two", "--margin", "bart=0"], "expected MODE=VALUE"),
    ],
)
def test_a_wrong_call_is_one_sentence(command, arguments, said):
    result = command(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr and result.stderr.count("\n") == 1


def test_columns_without_a_number_are_left_out(lake):
    one, two = resolve(lake.con, "org/one"), resolve(lake.con, "org/two")
    sheet = drawn(compare(lake.con, one, two, [POINTS]), one, two)
    assert "McNemar p" not in sheet.headers and "Margin" not in sheet.headers
    assert sheet.headers[:5] == ("Task mode", "Unit", "A: org/one", "B: org/two", "A - B")
