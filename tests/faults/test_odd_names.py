"""Names that a spreadsheet, SQL, a shell, a template, a pattern or a disk would read as something else.

A model may be called anything: each of these is the name of one whose log is imported, scored, exported in
every form, and asked for in every command that takes a name.
"""

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import built, query
from typer.testing import CliRunner, Result

from generate.model_runs import run_id_of
from generate.weights import Weights
from store.cli import app
from store.formats import Format, Sheet, render
from store.lake import append
from store.schemas import RAW_TABLES
from store.settings import Home

MODE = "bayesian_urn"
NAMES = {
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+cmd|'x'!A0",
    "minus": "-2+3",
    "at": "@SUM(1+1)*cmd|'x'!A0",
    "tab": "\t=1+1",
    "carriage return": "\r=1+1",
    "line break": "two\n=1+1",
    "statement": "'; drop table metrics; --",
    "union": "x' union select * from build_log --",
    "quotes": "a\"b'c`d\\e$$f",
    "template": "{{ 7 * 7 }} {% raw %} ${HOME} $(id) %s %(a)s {0}",
    "pattern": "*",
    "class of a pattern": "[a-z]?",
    "path": "../../../etc/passwd",
    "separators": "a,b;c|d\te",
    "markup": "<script>alert(1)</script> & \\textbf{x} [link](javascript:x) | ~ ^ _",
    "other scripts": "模型 é e\u0301 \u202egnp.exe",
    "option": "--help",
    "null": "null",
    "column": "uniform",
    "number": "1e5",
    "long": "owner/" + "m" * 294,
}
# what a spreadsheet takes for the beginning of a formula
FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")


def log_of(folder: Path, number: int, answer: str) -> Path:
    """Write a log of lm-eval in which the first questions are answered."""
    folder.mkdir(exist_ok=True)
    lines = [
        {
            "doc_id": doc,
            "doc": {"item_id": f"{MODE}@2/20261801/{doc}"},
            "target": "0",
            "arguments": {"gen_args_0": {"arg_0": f"question {doc}", "arg_1": {"until": ["\n"]}}},
            "resps": [[answer]],
            "filtered_resps": [answer],
            "filter": "none",
            "metrics": [],
            "doc_hash": "d",
            "prompt_hash": "p",
            "target_hash": "t",
        }
        for doc in range(2)
    ]
    path = folder / f"samples_urn_{number}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def run(project) -> Callable[..., Result]:
    """Return a function that runs a command on a lake, in the folder of the project."""

    def command(lake: Home, *arguments: str) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project)
            patch.setenv("COGLAKE_HOME", str(lake.root))
            done = CliRunner().invoke(app, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        # 70 is how a bug ends
        assert done.exit_code in (0, 1, 2, 10, 14, 15), done.stderr
        assert "Traceback" not in done.stderr
        return done

    return command


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project, run) -> Home:
    """A lake with one imported log of each model, built."""
    folder = tmp_path_factory.mktemp("names")
    lake = Home(folder / "lake")
    lake.root.mkdir()
    shutil.copy(empty_lake.database, lake.root)
    for number, name in enumerate(NAMES.values()):
        path = log_of(folder / "logs", number, f"0.{number + 10}")
        done = run(lake, "import", "lm-eval", str(path), "--mode", MODE, f"--model={name}")
        assert done.exit_code == 0, (name, done.stderr)
    built(lake, project)
    return lake


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_every_name_is_kept_as_it_is(lake):
    found = {row["model_id"] for row in query(lake, "select distinct model_id from metrics")}
    assert found == set(NAMES.values())
    # and nothing was dropped on the way
    assert query(lake, "select count(*) as n from build_log")[0]["n"] > 0
    planned = query(lake, "select n_planned, n_scored from metrics where metric = 'posterior_mae'")
    assert {(row["n_planned"], row["n_scored"]) for row in planned} == {(400, 2)}


@pytest.mark.parametrize("table", ["table3", "metrics", "scores"])
def test_no_cell_of_a_csv_file_is_a_formula(lake, run, table):
    written = run(lake, "export", table, "--allow-partial", "-o", str(lake.root / f"{table}.csv"))
    assert written.exit_code == 0, written.stderr
    found = cells((lake.root / f"{table}.csv").read_text(encoding="utf-8"))
    assert len(found) > 1 and {len(row) for row in found} == {len(found[0])}
    formulas = [cell for row in found for cell in row if FORMULA.match(cell) and not is_number(cell)]
    assert formulas == []
    shown = {text for row in found for cell in row for text in (cell, cell.removeprefix("'"))}
    shown |= {cell.removesuffix(" (model)") for cell in shown}
    # a lone carriage return is a line break there, which the reader would take for the end of a row
    assert {name.replace("\r", "\n") for name in NAMES.values()} <= shown


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number, a marked partial one, or infinite."""
    return bool(re.fullmatch(r"[+-](∞|[0-9.]+(e[+-]?[0-9]+)?s?)", cell))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_every_text_column_of_a_csv_file_is_guarded_wherever_it_stands(start):
    text = f"{start}1+cmd|' /C calc'!A0"
    header, *rows = cells(render(Sheet((text, "b", text), ((text, 1.5, text), (None, -2, text))), Format.CSV))
    guarded = "'" + text.replace("\r", "\n")
    assert header == [guarded, "b", guarded]
    assert rows == [[guarded, "1.5", guarded], ["", "-2", guarded]]


@pytest.mark.parametrize("table", ["table3", "metrics", "scores"])
@pytest.mark.parametrize("form", [form.value for form in Format])
def test_every_form_of_every_export_can_be_read(lake, run, table, form):
    path = lake.root / f"{table}.{form}"
    done = run(lake, "export", table, "--allow-partial", "--format", form, "-o", str(path))
    if done.exit_code == 2:
        # a form that this table is not written in
        assert form in done.stderr and done.stderr.count("\n") == 1
        return
    assert done.exit_code == 0, done.stderr
    text = path.read_text(encoding="utf-8")
    match form:
        case "json":
            rows = json.loads(text, parse_constant=refuse)
            assert {NAMES["statement"], NAMES["markup"]} <= {
                cell for row in rows for cell in (*row, *row.values()) if isinstance(cell, str)
            }
        case "html":
            assert "<script>" not in text and "&lt;script&gt;" in text
        case "latex":
            assert r"\textbf{x}" not in text and r"\textbackslash{}textbf" in text
        case "md":
            lines = [line for line in text.splitlines() if line]
            borders = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
            assert len(borders) == 1, "a name left its cell"


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_model_is_found_by_its_own_name_and_by_no_other(lake, run, name):
    done = run(lake, "export", "table3", "--format", "json", "-o", "-", f"--models={name}")
    assert done.exit_code == 0, done.stderr
    [columns] = {tuple(row) for row in json.loads(done.stdout)}
    # that of the uniform agent has its name already
    column = f"{name} (model)" if name == NAMES["column"] else name
    assert columns[columns.index("Uniform") + 1 : columns.index("Reference")] == (column,)
    quoted = name.replace("'", "''")
    asked = f"select distinct model_id from metrics where model_id = '{quoted}'"
    done = run(lake, "sql", asked, "--json")
    assert json.loads(done.stdout) == [{"model_id": name}]


COMMANDS: dict[str, tuple[str, ...]] = {
    "trace": ("trace", "--json", "--", MODE, "{}"),
    "mode of trace": ("trace", "--json", "--", "{}", "uniform"),
    "metric of trace": ("trace", MODE, "uniform", "--metric={}"),
    "compare": ("compare", "--json", "--", "{}", NAMES["formula"]),
    "compare with itself": ("compare", "--json", "--", "{}", "{}"),
    "mode of compare": ("compare", NAMES["formula"], NAMES["plus"], "--modes={}"),
    "margin of compare": ("compare", NAMES["formula"], NAMES["plus"], "--margin={}=1"),
    "diff": ("diff", "--json", "--", "latest", "{}"),
    "export of cogniscore": ("export", "cogniscore", "--models={}"),
    "export of learning": ("export", "learning", "--models={}"),
    "export of scores": ("export", "scores", "--models={}", "--format", "json", "-o", "-"),
    "mode of export": ("export", "scores", "--modes={}", "-o", "-"),
    "sql": ("sql", "--", "{}"),
    "mode of generate": ("generate", "--agent", "uniform", "--modes={}", "--dry-run"),
    "agent": ("generate", "--agent={}", "--dry-run", "--modes", "bart"),
    "source": ("ingest", "--dry-run", "--", "{}"),
    "mode of task": ("task", "-o", "task", "--", "{}"),
    "mode of import": ("import", "lm-eval", "nowhere.jsonl", "--mode={}"),
    "file of import": ("import", "lm-eval", f"--mode={MODE}", "--", "{}"),
    "model of grade": ("grade", "--models={}"),
    "agent of fit": ("fit", "--", "{}"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_that_takes_a_name_takes_any_or_refuses_it_in_a_sentence(lake, run, command):
    before = query(lake, "select count(*) as n from metrics")
    for name in NAMES.values():
        done = run(lake, *(part.replace("{}", name) for part in command))
        if done.exit_code not in (0, 1):
            assert done.stderr.strip(), name
            # usage of an option may take the lines of the command line's own parser
            assert done.stderr.count("\n") == 1 or "Usage:" in done.stderr, (name, done.stderr)
        if "--json" in command and done.stdout:
            json.loads(done.stdout, parse_constant=refuse)
    assert query(lake, "select count(*) as n from metrics") == before


def test_runs_of_models_that_are_called_anything_have_ids_of_their_own_that_name_a_folder(tmp_path):
    lake, ids = Home(tmp_path / "lake"), set()
    for name in NAMES.values():
        weights = Weights(name, "0" * 40, name, is_folder=False)
        run_id = run_id_of(weights, MODE, {"model_id": name}, 0)
        part = append(lake, "fits", RAW_TABLES["fits"].empty_table(), run_id)
        assert part.is_new and part.path.parent.parent == lake.raw / "fits"
        ids.add(run_id)
    assert len(ids) == len(NAMES)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan", "inf"])
def test_a_number_of_a_log_that_is_none_never_enters_a_mean(tmp_path, run, number):
    lake = Home(tmp_path / "lake")
    path = log_of(tmp_path / "log", 0, "ANSWER")
    # as a text that a model wrote, and as a number in the file
    path.write_text(
        path.read_text()
        .replace('"ANSWER"', f'"{number}"')
        .replace('"target": "0"', f'"target": {bare(number)}')
    )
    done = run(lake, "import", "lm-eval", str(path), "--mode", MODE, "--model", "m", "--json")
    if done.exit_code != 0:
        assert (done.exit_code, done.stderr.count("\n")) == (10, 1)
        return
    [report] = json.loads(done.stdout, parse_constant=refuse)["runs"]
    assert report["n_source_rows"] == 2
    assert all(math.isfinite(value) for value in report.values() if isinstance(value, float))


def bare(number: str) -> str:
    """Return a number as Python's own writer puts it into JSON."""
    return {"nan": "NaN", "inf": "Infinity"}.get(number, number)
