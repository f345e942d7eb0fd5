"""Exports: what a cell prints, when an export is refused, and that no name breaks a file format."""

import csv
import errno
import io
import json
from pathlib import Path

import duckdb
import pytest

from store.errors import CheckFailed, LakeUnusable, NothingToExport, WrongUsage
from store.export import export_table3, write_export
from store.export_metrics import export_metrics
from store.formats import Format, Sheet, render, to_json
from store.freshness import Build, require_fresh
from store.settings import Home
from store.uncertainty import Uncertainty

PUBLISHED_HEADERS = ("Domain", "Task mode", "Primary target", "Better direction", "Uniform")


@pytest.fixture
def con():
    """A database with two modes and the cells of four columns, as the marts hold them."""
    with duckdb.connect() as con:
        con.execute(
            """
            create table s1cogbench_modes as from (values
                ('urn', 2, null, 'Evidence', 'Bayesian urn', 'Posterior MAE', 'lower', 3),
                ('other_cue', 3, 'cue', 'Evidence', 'Other data', 'Human NLL', 'lower', 3),
                ('cue', 1, null, 'Evidence', 'Multiple-cue judgment', 'Human NLL', 'lower', 3)
            ) as t(mode_id, display_order, variant_of, domain, label, primary_target, direction, decimals);
            create table s1cogbench_references as from (values
                ('cue', '†', 'human fit', 1)
            ) as t(mode_id, reference_mark, reference_type, decimals);
            create table table_3 (
                mode_id varchar, column_id varchar, column_kind varchar, value double, value_scored double,
                status varchar, printed varchar, printed_partial varchar, reason varchar, scorer_sha varchar,
                model_id varchar, se double, ci_low double, ci_high double
            );
            insert into table_3 (
                mode_id, column_id, column_kind, value, value_scored, status, printed, printed_partial,
                reason, scorer_sha, se, ci_low, ci_high
            ) values
                ('urn', 'uniform', 'uniform', 0.3487, null, 'complete', '0.349', null, null, 'a',
                    null, null, null),
                ('cue', 'uniform', 'uniform', 2.1972, null, 'complete', '2.197', null, null, 'b',
                    null, null, null),
                ('cue', 'reference', 'reference', 2.0291, null, 'complete', '2.029', null, null, 'b',
                    0.0996, 1.8, 2.25),
                ('urn', 'qwen', 'model', 0.246, null, 'complete', '0.246', null, null, 'a',
                    0.00123, -0.24849, 0.25),
                ('cue', 'qwen', 'model', null, 0.206, 'part.', 'part.', '0.206s', '9 unparsed', 'b',
                    12.34, -20, 20.5),
                ('cue', 'Jev', 'model', 'inf', null, 'complete', '+∞', null, null, 'b', null, null, null),
                ('urn', 'Jev', 'model', null, null, 'n.f.', 'n.f.', null, null, null, null, null, null),
                ('urn', 'people', 'human', 0.1, null, 'complete', '0.100', null, null, 'a', 0, 0.1, 0.1);
            """
        )
        yield con


# --- Table 3 ---


def test_columns_and_rows_are_in_the_published_order(con):
    sheet = export_table3(con)

    assert sheet.headers == (
        *PUBLISHED_HEADERS,
        "Jev",
        "qwen",
        "Reference",
        "Reference mark",
        "Reference type",
    )
    assert [row[1] for row in sheet.rows] == ["Multiple-cue judgment", "Bayesian urn"]
    assert sheet.rows[0][4:] == ("2.197", "+∞", "part.", "2.029", "†", "human fit")


def test_a_cell_without_a_row_is_not_evaluated_and_a_mode_without_a_reference_keeps_its_row(con):
    # neither Jev's status nor the missing reference of the urn becomes an empty or zero cell
    assert export_table3(con).rows[1][4:] == ("0.349", "n.f.", "0.246", "n.e.", "", "")


def test_a_partial_cell_is_withheld_and_the_reader_is_told(con):
    sheet = export_table3(con, ["qwen"])

    assert sheet.rows[0][5] == "part."
    assert sheet.notes == (
        "partial cells withheld: 1; --allow-partial prints what could be scored, marked s",
    )


def test_allow_partial_prints_the_marked_value(con):
    sheet = export_table3(con, ["qwen"], allow_partial=True)

    assert sheet.rows[0][5] == "0.206s"
    assert sheet.notes == ()


def test_models_keep_the_order_asked_for_and_patterns_expand_once(con):
    headers = export_table3(con, ["qw*", "people", "*"]).headers

    assert headers[5:-3] == ("qwen", "people", "Jev")


def test_a_model_stands_for_all_its_columns_and_a_pattern_may_name_either(con):
    con.execute(
        "insert into table_3 (mode_id, column_id, column_kind, status, model_id) values "
        "('cue', 'hub/small@01234567 (chat)', 'model', 'n.e.', 'hub/small'), "
        "('cue', 'hub/small@01234567 (plain)', 'model', 'n.e.', 'hub/small'), "
        "('cue', 'hub/small@89abcdef (chat)', 'model', 'n.e.', 'hub/small')"
    )
    chat, plain, other = (
        "hub/small@01234567 (chat)",
        "hub/small@01234567 (plain)",
        "hub/small@89abcdef (chat)",
    )

    assert export_table3(con, ["hub/small"]).headers[5:-3] == (chat, plain, other)
    assert export_table3(con, [plain]).headers[5:-3] == (plain,)
    assert export_table3(con, ["*@01234567*"]).headers[5:-3] == (chat, plain)
    assert export_table3(con, ["*small", "qwen"]).headers[5:-3] == (chat, plain, other, "qwen")
    with pytest.raises(WrongUsage, match=r"--models hub/smal: no such model; did you mean hub/small\?"):
        export_table3(con, ["hub/smal"])


def test_an_id_with_pattern_characters_is_itself_first(con):
    con.execute(
        "insert into table_3 (mode_id, column_id, column_kind, status) values ('cue', 'q*', 'model', 'n.e.')"
    )

    assert export_table3(con, ["q*"]).headers[5:-3] == ("q*",)


def test_a_model_may_be_called_as_another_column_is(con):
    con.execute(
        "insert into table_3 (mode_id, column_id, column_kind, status, printed) values "
        "('cue', 'uniform', 'model', 'complete', '9.999'), ('cue', 'Domain', 'model', 'complete', '8.888')"
    )

    assert export_table3(con, ["uniform", "Domain"]).rows[0][4:7] == ("2.197", "9.999", "8.888")


def test_an_unknown_model_is_refused_with_the_close_ones(con):
    with pytest.raises(WrongUsage, match=r"--models qwem: no such model; did you mean qwen\?"):
        export_table3(con, ["qwem"])
    with pytest.raises(WrongUsage, match="--models zz\\*: no such model; 3 models are there"):
        export_table3(con, ["zz*"])


def test_a_mode_scored_by_two_rule_versions_is_not_exported(con):
    con.execute("update table_3 set scorer_sha = 'old' where column_id = 'qwen' and mode_id = 'urn'")

    with pytest.raises(CheckFailed, match="urn: expected one version of its scorer, found a, old"):
        export_table3(con)


# --- uncertainty ---


def test_beside_an_estimate_stands_its_error_in_a_column_of_its_own(con):
    sheet = export_table3(con, ["qwen", "people", "Jev"], beside=Uncertainty.SE)

    assert sheet.headers[4:-2] == (
        "Uniform",
        "qwen",
        "qwen SE",
        "people",
        "people SE",
        "Jev",
        "Jev SE",
        "Reference",
        "Reference SE",
    )
    # two significant digits; a value without spread is known exactly, an infinite one has no error
    assert sheet.rows[1][4:-2] == ("0.349", "0.246", "0.0012", "0.100", "0.000", "n.f.", None, "n.e.", None)
    assert sheet.rows[0][4:-2] == ("2.197", "part.", None, "n.e.", None, "+∞", None, "2.029", "0.10")


def test_an_interval_has_as_many_decimals_as_the_error_and_no_fewer_than_the_value(con):
    sheet = export_table3(con, ["qwen"], beside=Uncertainty.CI)

    assert sheet.headers[5:8] == ("qwen", "qwen CI low", "qwen CI high")
    assert sheet.rows[1][5:8] == ("0.246", "-0.2485", "0.2500")
    assert sheet.rows[0][8:11] == ("2.029", "1.800", "2.250")
    # a number below zero is no formula
    assert ",0.246,-0.2485,0.2500," in render(sheet, Format.CSV)


def test_the_error_of_a_partial_cell_leaves_with_its_value_only_and_is_marked(con):
    assert export_table3(con, ["qwen"], beside=Uncertainty.SE).rows[0][5:7] == ("part.", None)
    shown = export_table3(con, ["qwen"], allow_partial=True, beside=Uncertainty.SE)
    assert shown.rows[0][5:7] == ("0.206s", "12s")
    shown = export_table3(con, ["qwen"], allow_partial=True, beside=Uncertainty.CI)
    assert shown.rows[0][5:8] == ("0.206s", "-20.000s", "20.500s")


@pytest.mark.parametrize(
    ("form", "error", "interval"),
    [
        (Format.MD, "| 0.246 ± 0.0012 |", "| 0.246 \\[-0.2485, 0.2500\\] |"),
        (Format.LATEX, r"& 0.246 $\pm$ 0.0012 &", r"& 0.246 {[}-0.2485, 0.2500] &"),
        (Format.HTML, ">0.246 ± 0.0012<", ">0.246 [-0.2485, 0.2500]<"),
    ],
)
def test_what_is_read_has_value_and_error_in_one_cell(con, form, error, interval):
    with_se = render(export_table3(con, ["qwen"], beside=Uncertainty.SE), form)
    with_ci = render(export_table3(con, ["qwen"], beside=Uncertainty.CI), form)

    assert error in with_se and " SE" not in with_se
    assert interval in with_ci and "CI low" not in with_ci


def test_data_have_value_and_error_apart(con):
    [cue, urn] = json.loads(render(export_table3(con, ["qwen"], beside=Uncertainty.CI), Format.JSON))

    assert (urn["qwen"], urn["qwen CI low"], urn["qwen CI high"]) == ("0.246", "-0.2485", "0.2500")
    assert (cue["qwen"], cue["qwen CI low"], cue["Reference CI low"]) == ("part.", None, "1.800")


# --- metrics ---


@pytest.fixture
def metrics(con):
    """One complete metric, one with rows missing, an infinite one."""
    con.execute(
        """
        create table metrics as from (values
            ('r1', 'cue', 'nll', 0.5::double, 0.5::double, 0.25::double, 0.0::double, 1.0::double, 4, 'x'),
            ('r2', 'cue', 'nll', null, 0.75, -0.5, -1.5, 2.5, 3, 'x'),
            ('r3', 'cue', 'nll', 'inf', 'inf', null, null, null, 4, 'x'),
            ('r4', 'cue', 'nll', null, null, null, null, null, 0, 'x')
        ) as t(run_id, mode_id, metric, value, value_scored, se, ci_low, ci_high, n_scored, scorer_sha)
        """
    )
    return con


def test_an_infinite_metric_is_text_in_json_because_it_is_a_value(metrics):
    rows = json.loads(render(export_metrics(metrics), Format.JSON))

    assert [(row["value"], row["se"]) for row in rows] == [
        (0.5, 0.25),
        (None, None),
        ("+∞", None),
        (None, None),
    ]


def test_an_incomplete_metric_shows_its_counts_alone(metrics):
    sheet = export_metrics(metrics)

    assert sheet.rows[1] == ("r2", "cue", "nll", None, None, None, None, None, 3, "x")
    assert sheet.rows[0] == ("r1", "cue", "nll", 0.5, 0.5, 0.25, 0.0, 1.0, 4, "x")
    assert sheet.notes == (
        "partial values withheld: 1; --allow-partial shows what could be scored, marked s",
    )


def test_on_request_every_number_of_an_incomplete_metric_is_marked(metrics):
    sheet = export_metrics(metrics, allow_partial=True)

    assert sheet.rows[1] == ("r2", "cue", "nll", None, "0.75s", "-0.5s", "-1.5s", "2.5s", 3, "x")
    assert sheet.notes == ()
    # marked or not, it is a number and no formula
    assert render(sheet, Format.CSV).splitlines()[2] == "r2,cue,nll,,0.75s,-0.5s,-1.5s,2.5s,3,x"


def test_the_error_of_a_metric_stands_beside_the_value_that_it_is_of(metrics):
    sheet = export_metrics(metrics, beside=Uncertainty.CI)

    assert sheet.headers[3:8] == (
        "value",
        "value_scored",
        "value_scored CI low",
        "value_scored CI high",
        "se",
    )
    assert sheet.rows[0][3:8] == (0.5, 0.5, 0.0, 1.0, 0.25)
    assert "| 0.5 | 0.5 ± 0.25 |" in render(export_metrics(metrics, beside=Uncertainty.SE), Format.MD)


def test_a_metric_of_two_rule_versions_is_not_exported(metrics):
    metrics.execute("update metrics set scorer_sha = 'y' where run_id = 'r3'")

    with pytest.raises(CheckFailed, match="cue: expected one version of the rule of nll, found x, y"):
        export_metrics(metrics)


# --- forms ---


def cells(sheet: Sheet) -> list[list[str]]:
    return list(csv.reader(io.StringIO(render(sheet, Format.CSV), newline="")))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "=cmd|' /C calc'!A0"])
def test_a_name_cannot_be_a_formula_in_a_spreadsheet(name):
    header, row = cells(Sheet((name,), ((name,),)))

    assert header[0].startswith("'") and row[0].startswith("'")


def test_printed_numbers_are_never_guarded():
    row = ("-0.25", "-0.2s", "+∞", -0.25, None)

    assert cells(Sheet(("a", "b", "c", "d", "e"), (row,), printed=frozenset({0, 1, 2})))[1] == [
        "-0.25",
        "-0.2s",
        "+∞",
        "-0.25",
        "",
    ]


@pytest.mark.parametrize("name", ['a,b"c', "two\nlines", "ünïcode 模型", " spaced ", ""])
def test_a_name_survives_csv(name):
    assert cells(Sheet((name, "x"), ((name, "x"),)))[1] == [name, "x"]


def test_a_lone_carriage_return_does_not_split_a_csv_row():
    assert cells(Sheet(("m",), (("a\rb",),))) == [["m"], ["a\nb"]]


def test_markdown_keeps_a_name_in_its_cell():
    sheet = Sheet(("a|b", "x_y"), (("*bold* `code` <b>", "two\nlines"),), printed=frozenset({1}))

    assert render(sheet, Format.MD) == (
        "| a\\|b | x\\_y |\n| --- | ---: |\n| \\*bold\\* \\`code\\` \\<b\\> | two lines |\n"
    )


def test_latex_escapes_every_special_character_once():
    row = (r"50% of $5 & #1 {x_y} ~^\ ", "[1]", "*", "+∞", "-∞")

    assert render(Sheet(("n", "b", "s", "p", "m"), (row,)), Format.LATEX).splitlines()[4] == (
        r"50\% of \$5 \& \#1 \{x\_y\} \textasciitilde{}\textasciicircum{}\textbackslash{}  & "
        r"{[}1] & {*} & $+\infty$ & $-\infty$ \\"
    )


def test_html_shows_markup_as_text():
    page = render(Sheet(("<i>",), (('<script>alert("x")</script>',),)), Format.HTML)

    assert "<script>" not in page and "<i>" not in page
    assert "&lt;script&gt;" in page


def test_json_is_strict_and_keeps_every_column():
    sheet = Sheet(("a", "a", "b"), ((float("nan"), float("inf"), {"k": [1.5, float("-inf")]}),))

    assert json.loads(render(sheet, Format.JSON), parse_constant=pytest.fail) == [
        {"a": None, "a_2": None, "b": {"k": [1.5, None]}}
    ]


# --- freshness ---


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    lake.raw.mkdir(parents=True)
    return lake


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project" / "models_sql").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def log(lake, project):
    """A build log, its writer, and fingerprints that are the list of files."""
    with duckdb.connect() as con:
        con.execute(
            """
            create table build_log (
                invocation_id varchar, command varchar, is_full boolean, started_at timestamptz,
                finished_at timestamptz, status varchar, n_failed integer,
                raw_sha256 varchar, project_sha256 varchar
            );
            create macro raw_sha256(home) as (select 'raw' || count(*) from glob(home || '/raw/*'));
            create macro project_sha256(folder) as (
                select 'project' || count(*) from glob(folder || '/models_sql/*')
            );
            """
        )

        def add(hour: int, status: str, *, is_full: bool = True, n_failed: int = 0) -> None:
            con.execute(
                """
                insert into build_log
                select ?, 'build', ?, make_timestamptz(2026, 1, 2, ?, 0, 0, 'UTC'), null, ?, ?,
                    raw_sha256(?), project_sha256(?)
                """,
                [f"id{hour}", is_full, hour, status, n_failed, str(lake.root), str(project)],
            )

        yield con, add


def test_a_full_success_is_fresh(log, lake, project):
    con, add = log
    add(1, "success")
    add(2, "success", is_full=False)

    assert require_fresh(con, lake, project).invocation_id == "id1"


def test_without_a_build_there_is_nothing(log, lake, project):
    with pytest.raises(NothingToExport, match=r"nothing is built yet; run `coglake build`"):
        require_fresh(log[0], lake, project)
    with duckdb.connect() as empty, pytest.raises(NothingToExport, match="nothing is built yet"):
        require_fresh(empty, lake, project)


def test_parts_alone_are_no_build(log, lake, project):
    con, add = log
    add(1, "success", is_full=False)

    with pytest.raises(
        NothingToExport, match="only parts were built so far, last on 2026-01-02 01:00:00 UTC"
    ):
        require_fresh(con, lake, project)


@pytest.mark.parametrize("is_full", [True, False])
def test_a_failed_build_after_the_last_success_is_named(log, lake, project, is_full):
    con, add = log
    add(1, "success")
    add(2, "failed", n_failed=3, is_full=is_full)
    # a part that succeeds later does not mend what the failed build left
    add(3, "success", is_full=False)

    with pytest.raises(NothingToExport, match=r"the build of 2026-01-02 02:00:00 UTC failed \(3 failed\)"):
        require_fresh(con, lake, project)


def test_an_interrupted_build_is_named(log, lake, project):
    con, add = log
    add(1, "success")
    add(2, "running")

    with pytest.raises(NothingToExport, match="the build of 2026-01-02 02:00:00 UTC did not end"):
        require_fresh(con, lake, project)


def test_a_success_after_a_failure_is_fresh(log, lake, project):
    con, add = log
    add(1, "failed", n_failed=1)
    add(2, "success")

    assert require_fresh(con, lake, project).invocation_id == "id2"


def test_new_raw_rows_make_the_build_stale(log, lake, project):
    con, add = log
    add(1, "success")
    (lake.raw / "new").touch()

    with pytest.raises(NothingToExport, match=r"the raw rows changed .* \(expected raw0, found raw1\)"):
        require_fresh(con, lake, project)


def test_a_changed_project_makes_the_build_stale_even_after_a_partial_build(log, lake, project):
    con, add = log
    add(1, "success")
    (project / "models_sql" / "new.sql").touch()
    add(2, "success", is_full=False)

    with pytest.raises(NothingToExport, match=r"models_sql, macros or manifests changed .* found project1"):
        require_fresh(con, lake, project)


# --- files ---

BUILD = Build(
    "id1", True, "2026-01-02 01:00:00 UTC", "2026-01-02 01:00:09 UTC", "success", 0, "raw0", "project0"
)
SHEET = Sheet(("a",), (("+∞",),))


def test_the_file_is_replaced_whole_and_says_where_it_comes_from(tmp_path):
    path = tmp_path / "new folder" / "table3.csv"
    for _ in range(2):
        provenance = write_export(path, SHEET, Format.CSV, BUILD)

    assert path.read_text(encoding="utf-8") == "a\n+∞\n"
    stated = json.loads(provenance.read_text(encoding="utf-8"))
    assert (stated["raw_sha256"], stated["project_sha256"], stated["build_id"]) == ("raw0", "project0", "id1")
    assert sorted(each.name for each in path.parent.iterdir()) == ["table3.csv", "table3.csv.provenance.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table3.csv"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))

    with pytest.raises(WrongUsage, match=r"table3.csv: cannot be written \(Permission denied\)"):
        write_export(path, SHEET, Format.CSV, BUILD)
    assert [each.name for each in tmp_path.iterdir()] == ["table3.csv"]
    assert path.read_text() == "old"


def test_a_full_disk_is_not_the_users_mistake(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "os.fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device"))
    )

    with pytest.raises(LakeUnusable, match="free some space"):
        write_export(tmp_path / "table3.csv", SHEET, Format.CSV, BUILD)


def test_a_place_that_cannot_hold_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(WrongUsage, match="expected a file, found a folder or device"):
        write_export(tmp_path, SHEET, Format.CSV, BUILD)
    with pytest.raises(WrongUsage, match="cannot be written"):
        write_export(tmp_path / "file" / "table3.csv", SHEET, Format.CSV, BUILD)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_export(tmp_path / "link.csv", SHEET, Format.CSV, BUILD)

    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text(encoding="utf-8") == "a\n+∞\n"


def test_dataclasses_and_paths_become_json():
    assert json.loads(to_json({"build": BUILD, "path": Path("x")}))["build"]["is_full"] is True


def test_a_partial_build_of_an_edited_project_is_seen_after_the_edit_is_taken_back(log, lake, project):
    con, add = log
    add(1, "success")
    edited = project / "models_sql" / "new.sql"
    edited.touch()
    add(2, "success", is_full=False)
    edited.unlink()
    con.execute("update build_log set project_sha256 = 'another' where not is_full")

    with pytest.raises(
        NothingToExport, match=r"the partial build of .* was of other rows or another project"
    ):
        require_fresh(con, lake, project)
