"""Lakes that are copied, moved, or lie behind a link in a folder with an odd name; databases that are none; a
clock that was set back."""

import datetime as dt
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from support import built, mart_hashes, raw_hashes
from typer.testing import CliRunner, Result

import generate.pipeline
import store.lake as raw
from generate.pipeline import generate as let_play
from generate.pipeline import plan
from generate.schedule import load_agents, load_schedules
from store.cli import app
from store.errors import NothingToExport
from store.freshness import builds, require_fresh
from store.settings import Home

# what DuckDB, dbt, jinja and a shell would each read as something else, and no name of a file may be longer
ODD = "it's a \"lake\"; -- {{ drop }} $HOME 'x' % ünïcode 模型 é" + " long" * 30


@pytest.fixture
def run(project, monkeypatch) -> Callable[..., Result]:
    """Return a function that runs a command on a lake, in the folder of the project."""
    monkeypatch.chdir(project)

    def command(lake: Home, *arguments: str) -> Result:
        monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
        done = CliRunner().invoke(app, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return command


def assert_told(done: Result, exit_code: int, *words: str) -> None:
    assert done.exit_code == exit_code, (done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1
    assert [word for word in words if word not in done.stderr] == []


# --- other folders ---


def test_a_moved_lake_says_so_and_a_build_mends_it_even_behind_a_link_with_an_odd_name(
    tmp_path, demo_lake, project, run
):
    target = tmp_path / ODD.replace("{", "(").replace("}", ")")
    shutil.copytree(demo_lake.root, target)
    (tmp_path / "a link").symlink_to(target)
    lake = Home(tmp_path / "a link")

    # the original is still there, and its rows must not be taken for those of the copy
    moved = f"its views read the raw rows in {demo_lake.root.resolve()}"
    assert_told(run(lake, "export", "table3", "-o", "-"), 15, moved, "run `coglake build`")
    assert_told(run(lake, "sql", "select count(*) from stg_steps"), 15, moved, "run `coglake build`")
    assert moved in run(lake, "status").stdout
    # marts hold their rows
    assert run(lake, "sql", "select count(*) from metrics").exit_code == 0

    built(lake, project)
    assert mart_hashes(lake) == mart_hashes(demo_lake)
    assert (
        run(lake, "export", "table3", "-o", "-").stdout
        == run(demo_lake, "export", "table3", "-o", "-").stdout
    )
    rows = run(lake, "sql", "select count(*) from stg_steps", "--json").stdout
    assert rows == run(demo_lake, "sql", "select count(*) from stg_steps", "--json").stdout
    for name in ("verify", "doctor"):
        assert run(lake, name).exit_code == 0, name


@pytest.mark.parametrize("character", ["*", "?", "[x]", "#", "{x}"])
def test_a_folder_that_duckdb_would_read_as_a_pattern_is_refused(tmp_path, run, character):
    for name in ("status", "doctor", "build", "verify"):
        assert_told(run(Home(tmp_path / f"a{character}b"), name), 2, "choose a path without")


def test_a_name_that_the_disk_cannot_hold_is_a_sentence(tmp_path, run):
    lake = Home(tmp_path / ("x" * 300))
    for command in (
        ("build",),
        ("ingest", "demo_archive"),
        ("generate", "--agent", "uniform", "--modes", "bart"),
    ):
        assert_told(run(lake, *command), 14, "File name too long")


# --- databases that are none ---


def sqlite_file(path: Path) -> None:
    with sqlite3.connect(path) as con:
        con.execute("create table metrics (value real)")
    con.close()


BROKEN: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 3]),
    "of sqlite": lambda path: (path.unlink(), sqlite_file(path)),
    "text": lambda path: path.write_text("mode_id,value\n" * 1000),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_database_is_told_with_the_way_out_and_raw_rows_stay(tmp_path, demo_lake, run, damage):
    lake = Home(tmp_path / "lake")
    lake.root.mkdir()
    (lake.root / "raw").symlink_to(demo_lake.raw)
    shutil.copy(demo_lake.database, lake.root)
    BROKEN[damage](lake.database)
    for command in (("sql", "from metrics"), ("export", "table3")):
        assert_told(run(lake, *command), 14, str(lake.database), "delete it", "raw rows are untouched")
    status = run(lake, "status")
    assert status.exit_code == 0 and "damaged, or not a DuckDB database" in status.stdout
    assert run(lake, "doctor").exit_code == 1
    assert run(lake, "verify").exit_code == 0


def test_a_build_into_a_broken_database_leaves_it_and_starts_anew_once_it_is_deleted(
    tmp_path, empty_lake, project, run
):
    lake = Home(tmp_path / "lake")
    lake.root.mkdir()
    lake.database.write_bytes(empty_lake.database.read_bytes()[:20_000])
    assert_told(run(lake, "build"), 14, "damaged, or not a DuckDB database", "run `coglake build`")
    lake.database.unlink()
    shutil.copy(empty_lake.database, lake.root)
    built(lake, project)
    assert mart_hashes(lake) == mart_hashes(empty_lake)


# --- a lake that is copied while it is written ---


def copied_as_it_is(lake: Home, folder: Path) -> None:
    """Copy what is new, folder by folder as rsync does; a file that goes meanwhile is left out."""
    for path in sorted(lake.root.rglob("*")):
        target = folder / path.relative_to(lake.root)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not target.exists():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            except FileNotFoundError:
                target.unlink(missing_ok=True)


def test_a_copy_taken_during_a_generation_has_whole_parts_only_and_a_second_copy_completes_it(tmp_path):
    lake, folder = Home(tmp_path / "lake"), tmp_path / "copy"
    agent = load_agents()["uniform"]
    tasks = plan(
        lake, [agent], load_schedules(), ["bart", "two_step", "restless_bandit", "horizon_autonomous"]
    )
    assert len(tasks) > 2
    seen = []
    is_done = threading.Event()

    def copy_again_and_again() -> None:
        while not is_done.is_set():
            copied_as_it_is(lake, folder)
            seen.append(len(raw.part_paths(Home(folder))))

    copier = threading.Thread(target=copy_again_and_again)
    copier.start()
    try:
        let_play(lake, tasks, lambda *_: copied_as_it_is(lake, tmp_path / "between"))
    finally:
        is_done.set()
        copier.join()

    # parts of a run may be missing or not yet named, but none is half of itself
    for copy in (Home(folder), Home(tmp_path / "between")):
        assert raw.changed_parts(raw.part_paths(copy)) == []
        raw.require_sound(copy)
        copied_as_it_is(lake, copy.root)
        parts = {path: sha256 for path, sha256 in raw_hashes(copy).items() if not path.startswith(".tmp")}
        assert parts == raw_hashes(lake)
        assert raw.verify(copy, {}) == []
    assert len(set(seen)) > 1, "nothing was copied in between"


# --- a clock that goes backwards ---


class BackwardClock(dt.datetime):
    """A clock that is an hour earlier each time it is asked."""

    n_asked = 0

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
        cls.n_asked += 1
        return dt.datetime(2026, 1, 2, tzinfo=tz) - dt.timedelta(hours=cls.n_asked)


def test_a_clock_that_goes_backwards_changes_no_row_but_the_times_of_runs(tmp_path, monkeypatch):
    agent, schedules = load_agents()["uniform"], load_schedules()
    lakes = Home(tmp_path / "lake"), Home(tmp_path / "backward")
    let_play(lakes[0], plan(lakes[0], [agent], schedules, ["bart"]))
    monkeypatch.setattr(generate.pipeline, "datetime", BackwardClock)
    reports = let_play(lakes[1], plan(lakes[1], [agent], schedules, ["bart"]))
    assert BackwardClock.n_asked > 1 and [report.is_new for report in reports] == [True]
    one, other = (
        {path: sha256 for path, sha256 in raw_hashes(lake).items() if "runs/run=uniform" not in path}
        for lake in lakes
    )
    assert one == other
    # done is done, whatever the clock says
    [again] = let_play(lakes[1], plan(lakes[1], [agent], schedules, ["bart"]))
    assert not again.is_new
    assert raw.doctor(lakes[1]) == raw.verify(lakes[1], {}) == []


def test_builds_are_in_the_order_they_were_made_and_not_in_that_of_the_clock(tmp_path, monkeypatch):
    monkeypatch.setattr("store.freshness._fingerprints", lambda *_: ("raw", "project"))
    lake = Home(tmp_path / "lake")
    with duckdb.connect() as con:
        con.execute(
            """
            create table build_log (
                invocation_id varchar, command varchar, is_full boolean, started_at timestamptz,
                finished_at timestamptz, status varchar, n_failed integer,
                raw_sha256 varchar, project_sha256 varchar
            );
            insert into build_log values
                ('first', 'build', true, '2026-05-01 12:00:00+00', null, 'success', 0, 'raw', 'project');
            """
        )
        assert require_fresh(con, lake, tmp_path).invocation_id == "first"
        # a day earlier by the clock
        con.execute(
            """
            insert into build_log values
                ('second', 'build', true, '2026-04-30 12:00:00+00', null, 'running', null, 'raw', 'project')
            """
        )
        assert [build.invocation_id for build in builds(con)] == ["second", "first"]
        # it left new marts beside old ones
        with pytest.raises(NothingToExport, match="did not end"):
            require_fresh(con, lake, tmp_path)
        con.execute("update build_log set status = 'failed', n_failed = 1 where invocation_id = 'second'")
        with pytest.raises(NothingToExport, match="1 failed"):
            require_fresh(con, lake, tmp_path)
        con.execute("update build_log set status = 'success' where invocation_id = 'second'")
        assert require_fresh(con, lake, tmp_path).invocation_id == "second"


def test_the_age_of_a_stray_file_from_the_future_is_zero(tmp_path, monkeypatch):
    lake = Home(tmp_path / "lake")
    raw.ensure_schema_parts(lake)
    (lake.raw / ".tmp" / "steps-x.parquet.tmp").write_text("half")
    monkeypatch.setattr(raw, "time", SimpleNamespace(time=lambda: 0.0))
    [finding] = raw.doctor(lake)
    assert finding.found == "4 bytes, last written 0 min ago"
