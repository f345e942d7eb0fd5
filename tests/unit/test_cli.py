"""The command line: exit codes, one-line errors, strict output, and what a command may load or change."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import store.export
import store.export_learning
import store.lake
from generate.contract import EngineFacts
from ingest.pipeline import SourceReport
from store import command_demo, command_generate_model, command_ingest, errors, query
from store.build import BuildReport, build
from store.cli import app
from store.formats import Sheet
from store.lake import append, ensure_schema_parts
from store.manifest import Source
from store.schemas import RUNS
from store.settings import Home

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "ingest",
    "pin",
    "generate",
    "cognirank",
    "grade",
    "task",
    "import",
    "fit",
    "build",
    "lock",
    "trace",
    "diff",
    "compare",
    "export",
    "sql",
    "status",
    "verify",
    "doctor",
    "demo",
)
TABLE_3 = """
    create table s1cogbench_modes as
    select 'cue' as mode_id, 1 as display_order, null as variant_of, 'Evidence' as domain,
        'Cue | judgment' as label, 'Human NLL' as primary_target, 'lower' as direction, 3 as decimals;
    create table s1cogbench_references as
    select 'cue' as mode_id, '†' as reference_mark, 'human fit' as reference_type;
    create table table_3 as
    select *, null::double as se, null::double as ci_low, null::double as ci_high
    from (values
        ('cue', 'uniform', 'uniform', null, 2.197::double, 'complete', '2.197', null, 'a'),
        ('cue', 'org/model,1', 'model', 'org/model', 'inf', 'complete', '+∞', null, 'a'),
        ('cue', 'half', 'model', 'org/model', null, 'part.', 'part.', '0.206s', 'a')
    ) as t(mode_id, column_id, column_kind, model_id, value, status, printed, printed_partial, scorer_sha);
    create view raw_runs as select * from read_parquet('{raw}/runs/*/*.parquet');
    create table build_log (
        invocation_id varchar, command varchar, is_full boolean, started_at timestamptz,
        finished_at timestamptz, status varchar, n_failed integer, raw_sha256 varchar, project_sha256 varchar
    );
    create macro raw_sha256(home) as (
        select 'raw' || count(*) from glob(home || '/raw/*/*/part-*.parquet')
    );
    create macro project_sha256(folder) as (
        select 'project' || count(*) from glob(folder || '/models_sql/*')
    );
    insert into build_log select 'id1', 'build', true, now(), now(), 'success', 0,
        raw_sha256('{home}'), project_sha256('{project}');
"""


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """An empty lake beside an empty project, which is the current folder."""
    project = tmp_path / "project"
    (project / "models_sql").mkdir(parents=True)
    (project / "dbt_project.yml").touch()
    monkeypatch.chdir(project)
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    monkeypatch.delenv("COGLAKE_DEBUG", raising=False)
    return Home(tmp_path / "lake")


@pytest.fixture
def built(lake):
    """A lake with one run and a small Table 3, built and fresh."""
    ensure_schema_parts(lake)
    run = {
        "run_id": "r1",
        "kind": "archived",
        "model_id": "m",
        "agent_kind": "x",
        "planned_modes": [],
        "notes": [],
    }
    append(lake, "runs", pa.Table.from_pylist([run], schema=RUNS), "r1")
    with duckdb.connect(str(lake.database)) as con:
        con.execute(TABLE_3.format(raw=lake.raw, home=lake.root, project=Path.cwd()))
    return lake


def coglake(*arguments: str):
    """Run a command and return its result; a traceback in it is a failure of the test."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    return result


def run_python(code: str, *, check: bool = True, **options: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=check, **options
    )


# --- all commands ---


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    result = coglake(command, "--help")

    assert result.exit_code == 0
    assert f"Example: coglake {command}" in result.stdout


def test_no_command_is_left_out_of_these_tests():
    assert tuple(command.name or command.callback.__name__ for command in app.registered_commands) == COMMANDS


def test_version():
    assert coglake("--version").stdout == f"coglake {store.export.coglake_version()}\n"


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["export"], ["export", "table4"], ["build", "--threads", "0"], ["sql"]]
)
def test_wrong_usage_is_2(arguments):
    assert coglake(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CheckFailed, 1),
        (errors.WrongUsage, 2),
        (errors.InvalidSource, 10),
        (errors.ChecksumMismatch, 11),
        (errors.SourceUnavailable, 12),
        (errors.EngineFailed, 13),
        (errors.LakeUnusable, 14),
        (errors.NothingToExport, 15),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(lake, monkeypatch, error, code):
    def fail(*_: object) -> None:
        raise error("expected this,\n  found that")

    monkeypatch.setattr(query, "ask", fail)
    result = coglake("sql", "select 1")

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: expected this, found that\n"


def test_a_lock_in_a_duckdb_error_is_explained(lake, monkeypatch):
    def fail(*_: object) -> None:
        raise duckdb.IOException(
            'IO Error: Could not set lock on file "x": Conflicting lock is held in p (PID 0)'
        )

    monkeypatch.setattr(query, "ask", fail)
    result = coglake("sql", "select 1")

    assert result.exit_code == 14
    assert result.stderr.startswith("error: x: locked by ")


def test_a_bug_is_told_in_one_line_unless_debugging(lake, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(query, "ask", fail)
    result = coglake("sql", "select 1")
    assert result.exit_code == 70
    assert result.stderr.count("\n") == 1
    assert "KeyError: 'gone'; this is a bug" in result.stderr and "COGLAKE_DEBUG=1" in result.stderr

    monkeypatch.setenv("COGLAKE_DEBUG", "1")
    assert "Traceback" in CliRunner().invoke(app, ["sql", "select 1"]).stderr


def test_an_interrupt_is_130(lake, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(query, "ask", fail)
    result = coglake("sql", "select 1")

    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_reader_that_stops_early_is_no_error(built):
    command = "from store.cli import app; app(['sql', 'from range(100000)', '--json'])"
    reading = subprocess.Popen(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    reading.stdout.readline()
    reading.stdout.close()

    assert reading.stderr.read() == b""
    reading.stderr.close()
    assert reading.wait() == 141


def test_status_loads_neither_dbt_nor_an_engine_nor_a_network_client(built):
    run_python(
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from store.cli import app\n"
        "assert CliRunner().invoke(app, ['status', '--json']).exit_code == 0\n"
        "heavy = {'dbt', 'torch', 'vllm', 'transformers', 'polars', 'httpx', 'huggingface_hub'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )


def test_help_of_an_evaluation_names_every_flag():
    said = coglake("cognirank", "--help").stdout
    for flag in (
        "--model ",
        "--models",
        "--model-revision",
        "--output-dir",
        "--resume",
        "--dry-run",
        "--verify",
        "--print-requirements",
        "--extract-only",
        "--eval-context",
        "--trust-remote-code",
        "--engine",
        "--dtype",
        "--limit",
        "--stand-in",
        "--repeat",
        "--json",
    ):
        assert flag in said


def test_help_does_not_even_load_duckdb():
    run_python(
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from store.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "assert not {'duckdb', 'pyarrow', 'dbt', 'polars'} & set(sys.modules)\n"
    )


# --- generate ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--agent", "uniform", "--limit", "2"), "--limit goes with --model, found it beside --agent"),
        (("--agent", "uniform", "--engine", "vllm"), "--engine goes with --model, found it beside --agent"),
        (
            ("--model", "m", "--engine", "hf", "--concurrency", "16"),
            "--concurrency goes with --engine openai",
        ),
        (("--model", "m", "--timeout", "600"), "--timeout goes with --engine openai, found --engine vllm"),
        (("--model", "m", "--tokenizer", "t"), "--tokenizer goes with --engine openai, found --engine vllm"),
        (("--model", "m", "--base-url", "http://a"), "--base-url goes with --engine openai"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    monkeypatch.delenv("COGLAKE_DEBUG", raising=False)
    result = coglake("generate", *arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "lake").exists()


def test_a_mode_that_is_left_out_is_named(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    facts = EngineFacts("hf", "1", "float32", 2048, 2048, has_chat_template=False, n_leading_bos=0)
    monkeypatch.setattr(command_generate_model, "describe", lambda settings: facts)
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    modes = ("--modes", "bayesian_urn", "--modes", "recent_probes")
    result = coglake("generate", "--model", str(tmp_path), *modes, "--dry-run", "--json")

    assert result.exit_code == 0
    assert [run["mode_id"] for run in json.loads(result.stdout)["runs"]] == ["bayesian_urn"]
    assert "warning: recent_probes: left out" in result.stderr
    assert not (tmp_path / "lake").exists()


# --- sql ---


@pytest.mark.parametrize(
    "sql",
    [
        "with q as (select 1 as a) select * from q",
        "from table_3",
        "describe table_3",
        "show tables",
        "summarize table_3",
        "pivot table_3 on status using count(*) group by mode_id",
        "with q as (pivot table_3 on status using count(*)) from q -- and no more",
        "values (1);",
        "from raw_runs",
    ],
)
def test_sql_answers_what_reads(built, sql):
    result = coglake("sql", sql, "--json")

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("insert into table_3 (mode_id) values ('x')", "insert"),
        ("copy table_3 to '{raw}/x.csv'", "copy"),
        ("copy (pivot table_3 on status using count(*)) to '{raw}/x.csv'", ""),
        ("explain analyze copy table_3 to '{raw}/x.csv'", "explain"),
        ("explain analyze copy (pivot table_3 on status using count(*)) to '{raw}/x.csv'", ""),
        ("create temp table x as pivot table_3 on status using count(*)", ""),
        ("attach '{raw}/x.duckdb' as x", "attach"),
        ("export database '{raw}/x'", "export"),
        ("create table x as select 1", "create"),
        ("drop table table_3", "drop"),
        ("set threads = 1", "set"),
        ("install httpfs", "load"),
        ("pragma version", "pragma"),
        ("call pragma_version()", "call"),
        ("checkpoint", "call"),
        ("select 1; select 2", "select and select"),
        ("select 1; drop table table_3", "select and drop"),
        ("pivot table_3 on status using count(*); select 1", "multi and select"),
        ("", "nothing"),
        ("/* only a remark */", "nothing"),
        ("selec 1", ""),
        ("select * from nowhere", ""),
        ("select * from read_csv('/etc/passwd')", ""),
        ("select * from read_text('{home}/coglake.duckdb')", ""),
        ("select 1 as a from table_3 where printed = error('x')", ""),
    ],
)
def test_sql_refuses_everything_else_and_changes_no_file(built, sql, found):
    before = {path: path.stat().st_mtime_ns for path in built.root.rglob("*")}
    result = coglake("sql", sql.format(raw=built.raw, home=built.root), "--json")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert result.stderr.endswith(f"found {found}\n") or not found
    assert {path: path.stat().st_mtime_ns for path in built.root.rglob("*")} == before


def test_sql_json_is_strict(built):
    result = coglake(
        "sql", "select 'nan'::double as a, value as b from table_3 where printed = '+∞'", "--json"
    )

    assert json.loads(result.stdout, parse_constant=pytest.fail) == [{"a": None, "b": None}]


def test_sql_draws_a_table_and_writes_other_forms(built):
    assert "org/model,1" in coglake("sql", "select column_id from table_3").stdout
    assert coglake("sql", "select '[red]x' as a", "--format", "csv").stdout == "a\n[red]x\n"
    assert "[red]x" in coglake("sql", "select '[red]x' as a").stdout


def test_sql_without_a_build_is_15(lake):
    assert coglake("sql", "select 1").exit_code == 15


def test_sql_on_a_damaged_database_is_14(lake):
    lake.root.mkdir()
    lake.database.write_bytes(b"not a database" * 1000)

    assert coglake("sql", "select 1").exit_code == 14


# --- export ---


def test_export_writes_the_file_and_prints_its_path(built):
    result = coglake("export", "table3")

    assert result.stdout == f"{built.exports / 'table3.csv'}\n"
    assert (built.exports / "table3.csv").read_text(encoding="utf-8") == (
        'Domain,Task mode,Primary target,Better direction,Uniform,half,"org/model,1",'
        "Reference,Reference mark,Reference type\n"
        "Evidence,Cue | judgment,Human NLL,lower,2.197,part.,+∞,n.e.,†,human fit\n"
    )
    assert "--allow-partial" in result.stderr
    assert (built.exports / "table3.csv.provenance.json").is_file()


def test_a_model_with_a_comma_is_one_model(built):
    result = coglake("export", "table3", "--models", "org/model,1", "-o", "-", "--format", "json")

    assert list(json.loads(result.stdout)[0])[5] == "org/model,1"


def test_a_model_stands_for_all_its_columns(built):
    result = coglake("export", "table3", "--models", "org/model", "--format", "json", "-o", "-")

    (row,) = json.loads(result.stdout)
    assert [column for column in row if column in ("half", "org/model,1")] == ["half", "org/model,1"]


def test_export_json_says_where_the_file_is(built, tmp_path):
    result = coglake("export", "table3", "-o", str(tmp_path / "t.md"), "--format", "md", "--json")

    assert json.loads(result.stdout) == {
        "file": str(tmp_path / "t.md"),
        "provenance": str(tmp_path / "t.md.provenance.json"),
        "n_rows": 1,
    }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["table3", "--models", "haf"], 2),
        (["metrics", "--models", "half"], 2),
        (["table3", "--modes", "cue"], 2),
        (["table3", "--with", "luck"], 2),
        (["table3", "-o", "-", "--json"], 2),
        (["table3", "-o", "."], 2),
    ],
)
def test_export_refusals(built, arguments, code):
    assert coglake("export", *arguments).exit_code == code


def test_export_of_cogniscores_takes_models_and_partial_components(built, monkeypatch):
    asked = []

    def export_cogniscore(con, models, allow_partial, beside):
        asked.append((list(models), allow_partial, beside))
        return Sheet(("Model", "CogniScore"), (("org/model", None),), notes=("a component is partial",))

    monkeypatch.setattr(store.export, "export_cogniscore", export_cogniscore)
    arguments = ("--models", "org/*", "--allow-partial", "--with", "ci", "--format", "json", "-o", "-")
    result = coglake("export", "cogniscore", *arguments)

    assert json.loads(result.stdout) == [{"Model": "org/model", "CogniScore": None}]
    assert result.stderr == "a component is partial\n"
    assert asked == [(["org/*"], True, "ci")]


def test_export_of_learning_takes_models_and_partial_categories(built, monkeypatch):
    asked = []

    def export_learning(con, categories, models, allow_partial, beside):
        asked.append((len(categories), list(models), allow_partial, beside))
        return Sheet(("Model", "Score"), (("org/model", None),), notes=("a category is partial",))

    monkeypatch.setattr(store.export_learning, "export_learning", export_learning)
    result = coglake("export", "learning", "--models", "org/*", "--allow-partial", "-o", "-")

    assert result.stdout.splitlines()[0] == "Model,Score"
    assert result.stderr == "a category is partial\n"
    assert asked == [(6, ["org/*"], True, None)]


def test_grade_passes_the_models_on(lake, monkeypatch):
    from store import command_grade

    asked = []
    monkeypatch.setattr(command_grade, "run", lambda models, *, as_json: asked.append((models, as_json)))
    coglake("grade", "--models", "org/a", "--models", "org/b", "--json")
    coglake("grade")
    assert asked == [(["org/a", "org/b"], True), (None, False)]


@pytest.mark.parametrize("status", ["failed", "running"])
def test_export_after_a_build_that_did_not_succeed_is_15(built, status):
    with duckdb.connect(str(built.database)) as con:
        con.execute("insert into build_log (started_at, status, is_full) values (now(), ?, true)", [status])

    result = coglake("export", "table3")
    assert (result.exit_code, result.stdout) == (15, "")
    assert not built.exports.exists()


def test_export_after_new_raw_rows_or_a_changed_project_is_15(built):
    Path("models_sql/new.sql").touch()
    assert "models_sql, macros or manifests changed" in coglake("export", "table3").stderr

    append(built, "runs", RUNS.empty_table(), "r2")
    result = coglake("export", "table3")
    assert result.exit_code == 15
    assert "the raw rows changed" in result.stderr


# --- status, verify, doctor ---


def test_status_counts_rows_and_says_fresh_or_why_not(built):
    found = json.loads(coglake("status", "--json").stdout)

    assert {"table": "runs", "n_rows": 1, "n_parts": 1} in found["tables"]
    assert (found["runs"], found["last_build"]["status"], found["why_stale"]) == (
        {"archived": 1},
        "success",
        None,
    )
    assert "marts: fresh" in coglake("status").stdout

    append(built, "runs", RUNS.empty_table(), "r2")
    assert "the raw rows changed" in json.loads(coglake("status", "--json").stdout)["why_stale"]


def test_status_of_an_empty_or_broken_lake_is_an_answer(lake):
    assert "nothing is built yet" in coglake("status").stdout

    lake.root.mkdir()
    lake.database.write_bytes(b"not a database" * 1000)
    result = coglake("status", "--json")
    assert result.exit_code == 0
    assert "damaged" in json.loads(result.stdout)["why_stale"]


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_findings_are_printed_and_end_with_1(built, monkeypatch, command):
    finding = store.lake.Finding("raw/x", "the content differs", "sha256 a", "sha256 b", "fetch it again")
    monkeypatch.setattr(store.lake, command, lambda *_: [finding])
    monkeypatch.setattr("store.manifest.load_sources", dict)

    result = coglake(command)
    assert result.exit_code == 1
    assert result.stdout == (
        "raw/x: the content differs\n  expected: sha256 a\n  found: sha256 b\n  advice: fetch it again\n"
    )
    as_json = coglake(command, "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)[0]["found"] == "sha256 b"


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_nothing_found_is_0(built, monkeypatch, command):
    monkeypatch.setattr("store.manifest.load_sources", dict)

    assert coglake(command).exit_code == 0
    assert json.loads(coglake(command, "--json").stdout) == []


# --- ingest ---


def source(source_id: str, *, gated: bool = False) -> Source:
    file = {"path": "a.csv", "sha256": "0" * 64}
    block = {
        "kind": "github",
        "repo": f"o/{source_id}",
        "revision": "0" * 40,
        "licence": "MIT",
        "description": "d",
    }
    return Source.model_validate({"id": source_id, **block, "gated": gated, "files": [file]})


def report(source_id: str, **counts: object) -> SourceReport:
    zero = dict.fromkeys(
        ("n_files", "n_new_files", "n_present_files", "n_new_rows", "n_source_rows", "n_unreadable_rows"), 0
    )
    return SourceReport(**({"source_id": source_id, "notes": (), "failures": ()} | zero | counts))


@pytest.fixture
def upstream(lake, monkeypatch):
    """Two sources and, by source, what ingesting it gives: a report, or an error to raise."""
    known = {"tomi": source("tomi"), "pile": source("pile", gated=True), "bart": source("bart")}
    outcomes: dict[str, SourceReport | errors.StoreError] = {name: report(name) for name in known}
    asked = []

    def fake(_: Home, sources: list[Source], **options: object) -> list[SourceReport]:
        asked.append((sources[0].id, options["mirror"], options["dry_run"]))
        outcome = outcomes[sources[0].id]
        if isinstance(outcome, errors.StoreError):
            raise outcome
        return [outcome]

    monkeypatch.setattr(command_ingest, "load_sources", lambda: known)
    monkeypatch.setattr(command_ingest, "ingest", fake)
    monkeypatch.delenv("COGLAKE_MIRROR", raising=False)
    return outcomes, asked


def test_ingest_says_what_is_new(upstream):
    outcomes, asked = upstream
    outcomes["tomi"] = report(
        "tomi", n_new_files=2, n_new_rows=1500, n_source_rows=700, n_unreadable_rows=3, notes=("n",)
    )

    result = coglake("ingest", "tomi", "--mirror", "m")
    assert result.exit_code == 0
    assert result.stdout == (
        "tomi: 2 new, 0 present; 1,500 rows written from 700 read; "
        "3 have no usable response; notes say why\n"
        "  n\n"
    )
    assert asked == [("tomi", "m", False)]
    outcomes["tomi"] = report("tomi", n_present_files=2)
    assert coglake("ingest", "tomi", "--dry-run").stdout == "tomi: 0 to import, 2 present\n"


def test_the_mirror_comes_from_the_environment(upstream, monkeypatch):
    monkeypatch.setenv("COGLAKE_MIRROR", "from-environment")
    coglake("ingest", "bart")

    assert upstream[1] == [("bart", "from-environment", False)]


def test_an_unknown_source_is_refused_before_any_work(upstream):
    result = coglake("ingest", "tomi", "tome")

    assert (result.exit_code, upstream[1]) == (2, [])
    assert "tome: no such source; did you mean tomi?" in result.stderr


def test_a_gated_source_does_not_keep_the_others_out(upstream):
    outcomes, asked = upstream
    outcomes["pile"] = errors.SourceUnavailable("pile: set HF_TOKEN")

    result = coglake("ingest", "--json")
    assert result.exit_code == 12
    assert [name for name, _, _ in asked] == ["tomi", "pile", "bart"]
    assert json.loads(result.stdout)["errors"] == ["pile: set HF_TOKEN"]


def test_an_unreachable_upstream_stops_after_what_was_done_is_told(upstream):
    outcomes, asked = upstream
    outcomes["tomi"] = report("tomi", failures=(errors.ChecksumMismatch("tomi: found another file"),))
    outcomes["pile"] = report("pile")
    outcomes["bart"] = errors.SourceUnavailable("bart: no answer")

    result = coglake("ingest", "tomi", "bart", "pile")
    assert result.exit_code == 11
    assert [name for name, _, _ in asked] == ["tomi", "bart"]
    assert result.stdout == "tomi: 0 new, 0 present\n"
    assert result.stderr == "error: bart: no answer\nerror: tomi: found another file\n"


def test_list_asks_nothing_of_upstream(upstream):
    result = coglake("ingest", "--list", "--json")

    assert [state["id"] for state in json.loads(result.stdout)] == ["tomi", "pile", "bart"]
    assert upstream[1] == []
    assert "not fetched" in coglake("ingest", "--list", "tomi").stdout


# --- build ---

PROJECT = {
    "dbt_project.yml": """
        name: small
        version: "1.0"
        profile: small
        model-paths: [models_sql]
        flags: {send_anonymous_usage_stats: false}
    """,
    "profiles.yml": """
        small:
          target: lake
          outputs:
            lake: {type: duckdb, path: "{{ env_var('COGLAKE_HOME') }}/coglake.duckdb", threads: 1}
    """,
    "models_sql/good.sql": "select 1 as a union all select 2",
    "models_sql/_models.yml": """
        models:
          - name: good
            columns:
              - name: a
                data_tests: [unique]
    """,
}


@pytest.fixture
def dbt_project(lake):
    """A dbt project with one model and one test, as the current folder."""
    for name, content in PROJECT.items():
        Path(name).write_text(dedent(content))
    return lake


def test_a_build_reports_counts_and_leaves_the_database_readable(dbt_project):
    found = build(dbt_project, Path.cwd())

    assert [(count.kind, count.ok, count.failed) for count in found.counts] == [
        ("models", 1, 0),
        ("tests", 1, 0),
    ]
    assert query.ask(dbt_project, "from good").rows == ((1,), (2,))
    # the second build in one process opens it for writing again
    assert coglake("build", "--json").exit_code == 0


def test_a_failed_test_is_1_and_named_with_its_query(dbt_project):
    Path("models_sql/good.sql").write_text("select 1 as a union all select 1")
    Path("models_sql/after.sql").write_text("select * from {{ ref('good') }}")

    result = coglake("build", "--json")
    assert result.exit_code == 1
    assert result.stderr.endswith("error: the build failed: test unique_good_a\n")
    found = json.loads(result.stdout)["build"]
    assert [failure["message"] for failure in found["failures"]] == [
        "Got 1 result, configured to fail if != 0"
    ]
    assert Path(found["failures"][0]["query"]).is_file()
    assert {"kind": "models", "ok": 1, "failed": 0, "skipped": 1} in found["counts"]


def test_a_project_that_dbt_cannot_read_is_1_in_one_line(dbt_project):
    Path("models_sql/good.sql").write_text("select {{")

    result = coglake("build")
    assert result.exit_code == 1
    assert "dbt cannot build: Compilation Error in model good" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_selection_of_nothing_is_2(dbt_project):
    assert coglake("build", "--select", "nonsense").exit_code == 2


def test_a_locked_lake_is_14_and_names_the_process(dbt_project):
    dbt_project.root.mkdir()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb; c = duckdb.connect({str(dbt_project.database)!r}); print(flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        holder.stdout.readline()
        result = coglake("build")
    finally:
        holder.communicate(b"\n")
    assert result.exit_code == 14
    assert f"(PID {holder.pid})" in result.stderr


def test_a_build_leaves_the_environment_as_it_was(dbt_project, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", "elsewhere")
    build(dbt_project, Path.cwd())

    assert os.environ["COGLAKE_HOME"] == "elsewhere"
    assert not Path("elsewhere").exists()


# --- demo ---


def test_demo_says_each_step_and_shows_what_was_played(built, monkeypatch):
    monkeypatch.setattr(command_demo, "load_sources", lambda: {"demo_archive": source("demo_archive")})
    monkeypatch.setattr(command_demo, "write", lambda folder: [folder / "a.csv"])
    monkeypatch.setattr(command_demo, "ingest", lambda *_, **__: [report("demo_archive", n_new_files=1)])
    monkeypatch.setattr(command_demo, "load_agents", dict)
    monkeypatch.setattr(command_demo, "load_schedules", dict)
    monkeypatch.setattr(command_demo, "load_families", dict)
    monkeypatch.setattr(command_demo.agent_runs, "load_agents", lambda: dict.fromkeys(("oracle", "random")))
    monkeypatch.setattr(command_demo, "export_learning", lambda *_: Sheet(("Model",), (("oracle",),)))
    monkeypatch.setattr(command_demo, "build", lambda *_, **__: BuildReport((), (), (), 0.1))
    with duckdb.connect(str(built.database)) as con:
        con.execute("alter table table_3 add column value_scored double")
        con.execute("update table_3 set se = 0.01234 where column_id = 'org/model,1'")
        con.execute(
            "create table audit_references as select * from (values ('cue', 'double', 0.5, 0.25, false), "
            "('cue', 'played', 0.5, 0.25, true)) as t (mode_id, agent_id, value, se, fills_cell)"
        )
        con.execute(
            "create table learning_report as select * from (values "
            "('runtime_rl', 'oracle', 24, 1.0, 1.0, 0.0), ('runtime_rl', 'random', 24, 1.0, 0.16, 0.02)) "
            "as t (category, model_id, n_planned, ceiling, score, se)"
        )

    for _ in range(2):
        result = coglake("demo")
        assert result.exit_code == 0
        steps = [line[:3] for line in result.stderr.splitlines() if line[1:3] == "/4"]
        assert steps == ["1/4", "2/4", "3/4", "4/4"]
        assert str(built.exports / "table3.csv") in result.stderr
        assert "+∞ ± 0.0123" in result.stdout
        assert "Cue | judgment: double scores 0.500 ± 0.2500, a stand-in" in result.stdout
        assert "played scores" not in result.stdout
        assert "0.160 ± 0.020" in result.stdout
        assert (built.exports / "learning.csv").read_text(encoding="utf-8") == "Model\noracle\n"
    assert "Cue | judgment" in (built.exports / "table3.csv").read_text(encoding="utf-8")
    done = coglake("demo", "--json")
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["rows"][0]["Uniform"] == "2.197"
    assert json.loads(done.stdout)["learning"][0]["oracle"] == "1.000 ± 0.000"
