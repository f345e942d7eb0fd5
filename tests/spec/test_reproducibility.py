"""Do two clones with the same raw rows make the same marts, whatever the machine is set to, and is anything
else refused?"""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from support import MARTS, built, coglake, copy_project, mart_hashes, query
from typer.testing import CliRunner

from store import lock as locks
from store.cli import app
from store.lake import part_paths
from store.lock import Lock, read_lock, write_text
from store.settings import Home

# builds of one lake beyond the first; more of them for whoever doubts
N_BUILDS = int(os.environ.get("COGLAKE_N_BUILDS", "2"))
HERE = {"TZ": "UTC", "LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "1", "COGLAKE_THREADS": "1"}
THERE = {
    "TZ": "Asia/Tokyo",
    "LC_ALL": "tr_TR.UTF-8",
    "LANG": "de_DE.UTF-8",
    "PYTHONHASHSEED": "4242",
    "COGLAKE_THREADS": "4",
}


def clone(folder: Path, *, duckdb_threads: int) -> Path:
    """Copy the project; its profile gives DuckDB another number of threads, dbt's come by the environment."""
    copy_project(folder)
    profiles = yaml.safe_load((folder / "profiles.yml").read_text())
    profiles["coglake"]["outputs"]["lake"]["settings"] = {"threads": duckdb_threads}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profiles))
    return folder


def done(result: CompletedProcess[str]) -> CompletedProcess[str]:
    assert result.returncode == 0, result.stderr
    return result


@dataclass(frozen=True)
class Clones:
    """Two clones with a lake each, both built and locked, the second against the lock of the first."""

    project: Path
    lake: Home
    lock: Path
    other_project: Path
    other_lake: Home
    other_lock: Path
    said: str  # by the second build


@pytest.fixture(scope="module")
def clones(tmp_path_factory, demo_lake, empty_lake) -> Clones:
    folder = tmp_path_factory.mktemp("clones")
    project = clone(folder / "one", duckdb_threads=1)
    other_project = clone(folder / "an other clöne", duckdb_threads=4)
    lake, other_lake = Home(folder / "lake"), Home(folder / "it's a lake, too")
    for raw, home in ((demo_lake.raw, lake), (lake.raw, other_lake)):
        home.root.mkdir()
        shutil.copytree(raw, home.raw)
        # the rules are proved there: no second proof of the same ones
        shutil.copy(empty_lake.database, home.database)
        if home is lake:
            for arguments in (("--agent", "uniform"), ("--agent", "random", "--benchmark", "learning")):
                modes = ("--modes", "lights_out" if "learning" in arguments else "bart")
                done(coglake(lake, project, "generate", *arguments, *modes))
    locked, other = folder / "coglake.lock", folder / "other.lock"
    done(coglake(lake, project, "build", **HERE))
    done(coglake(lake, project, "lock", "-o", str(locked), **HERE))
    second = done(coglake(other_lake, other_project, "build", "--locked", str(locked), **THERE))
    done(coglake(other_lake, other_project, "lock", "-o", str(other), **THERE))
    return Clones(project, lake, locked, other_project, other_lake, other, second.stdout)


# --- the same goes in, the same comes out ---


def test_two_clones_with_other_threads_time_zone_and_locale_have_one_lock(clones):
    assert clones.other_lock.read_bytes() == clones.lock.read_bytes()
    lock = read_lock(clones.lock)
    n_rules, n_marts = len(lock.results.rules), len(lock.results.marts)
    assert f"as locked: {n_rules} rules and {n_marts} marts\n" in clones.said


def test_a_reader_of_the_rows_finds_the_same_in_both(clones):
    # by a hash that is computed in Python from fetched rows
    assert mart_hashes(clones.lake) == mart_hashes(clones.other_lake)


def test_a_lock_names_all_marts_and_every_rule_that_scored(clones):
    lock = read_lock(clones.lock)
    scored = query(
        clones.lake,
        "select distinct rule from int_scored union select distinct score_rule from int_learning_episodes",
    )

    assert set(MARTS) <= set(lock.results.marts)
    assert "audit_score_history" not in lock.results.marts
    assert lock.results.rules.keys() == {row["rule"] for row in scored}
    assert {"credited_choice", "runtime_rl"} <= lock.results.rules.keys()
    assert all(len(sha256) == 64 for sha256 in lock.results.rules.values())
    for mart in ("metrics", "table_3", "learning_scores", "uniform"):
        assert (
            lock.results.marts[mart].n_rows == query(clones.lake, f"select count(*) as n from {mart}")[0]["n"]
        )
        assert lock.results.marts[mart].n_rows > 0


def test_a_lock_has_the_hash_of_the_project_that_the_build_logged(clones):
    logged = query(clones.lake, "select project_sha256 from build_log order by started_at desc limit 1")

    assert read_lock(clones.lock).inputs.project_sha256 == logged[0]["project_sha256"]


def test_a_lock_holds_every_part_of_the_lake_but_those_without_rows(clones):
    inputs = read_lock(clones.lock).inputs
    named = {
        f"{table}/run={run_id}/part-{sha256}.parquet"
        for run_id, tables in inputs.raw_parts.items()
        for table, hashes in tables.items()
        for sha256 in hashes
    }

    parts = {str(path.relative_to(clones.lake.raw)) for path in part_paths(clones.lake)}
    assert named == {part for part in parts if "run=_schema" not in part}
    assert inputs.runs.keys() == inputs.raw_parts.keys()


def test_building_again_and_anew_at_one_and_four_threads_gives_the_same_marts(clones):
    lock = read_lock(clones.lock)

    for n in range(N_BUILDS):
        built(clones.lake, clones.project, threads=(4, 1)[n % 2], full_refresh=n % 2 == 0)

        assert locks.result_differences(lock, clones.lake, clones.project) == []


# --- anything else is refused ---


@pytest.fixture
def copied(clones, tmp_path, monkeypatch) -> tuple[Home, Path, Path]:
    """A lake, a project and a lock file for one test to change; commands run there."""
    lake, project = Home(tmp_path / "lake"), copy_project(tmp_path / "project")
    shutil.copytree(clones.lake.root, lake.root, ignore=shutil.ignore_patterns("target"))
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
    monkeypatch.chdir(project)
    locked = Path(shutil.copy(clones.lock, tmp_path))
    return lake, project, locked


def n_builds(lake: Home) -> int:
    return query(lake, "select count(*) as n from build_log")[0]["n"]


def refused(lake: Home, locked: Path) -> tuple[list[Mapping[str, str | None]], str]:
    """Try to build, which must be refused before anything is; return what differs and what was said."""
    before = n_builds(lake)
    result = CliRunner().invoke(app, ["build", "--locked", str(locked), "--json"])

    assert result.exit_code == 1, result.stderr
    assert n_builds(lake) == before
    answer = json.loads(result.stdout)
    assert answer["build"] is answer["audit"] is None
    kinds = ", ".join(dict.fromkeys(difference["kind"] for difference in answer["differences"]))
    lines = result.stderr.splitlines()
    assert lines[-1] == f"error: {locked}: not built, since what goes in differs from the lock: {kinds}"
    return answer["differences"], result.stderr


def test_another_version_of_a_package_is_refused(copied, monkeypatch):
    lake, _, locked = copied
    installed = locks.version("duckdb")
    monkeypatch.setattr(
        locks, "version", lambda name, find=locks.version: "0.1" if name == "duckdb" else find(name)
    )

    differences, said = refused(lake, locked)

    assert differences == [{"kind": "packages", "name": "duckdb", "expected": installed, "found": "0.1"}]
    assert f"differs: packages: duckdb: expected {installed}, found 0.1; install the expected" in said


@pytest.mark.parametrize(
    "path", ["models_sql/marts/table_3.sql", "macros/exact.sql", "manifests/s1cogbench_metrics.csv"]
)
def test_another_project_is_refused(copied, path):
    lake, project, locked = copied
    with (project / path).open("a") as file:
        file.write("\n")

    [difference], said = refused(lake, locked)

    assert difference["kind"] == "project"
    assert difference["expected"] == f"sha256 {read_lock(locked).inputs.project_sha256}"
    assert "differs: project: models_sql, macros, manifests: expected sha256" in said


def test_another_pin_of_a_source_in_the_lake_is_refused_and_of_another_source_is_not(copied):
    lake, project, locked = copied
    manifest = project / "manifests" / "sources.toml"
    [mine] = read_lock(locked).inputs.sources.values()
    path, pinned = next(iter(mine.files.items()))
    others = tomllib.loads(manifest.read_text())["cogbench"]["files"][0]["sha256"]
    manifest.write_text(manifest.read_text().replace(pinned, "e" * 64).replace(others, "f" * 64))

    differences, said = refused(lake, locked)

    assert differences == [
        {
            "kind": "sources",
            "name": f"demo_archive {path}",
            "expected": f"sha256 {pinned}",
            "found": f"sha256 {'e' * 64}",
        }
    ]
    assert "restore the pins in manifests/sources.toml" in said


def a_run_with_steps(lake: Home) -> str:
    return next(path.parent.name for path in part_paths(lake, "steps") if path.parent.name != "run=_schema")


def test_a_run_that_is_gone_is_refused(copied):
    lake, _, locked = copied
    run = a_run_with_steps(lake)
    for folder in lake.raw.glob(f"*/{run}"):
        shutil.rmtree(folder)

    differences, said = refused(lake, locked)

    assert {each["kind"] for each in differences} == {"runs", "raw parts"}
    [gone] = [each for each in differences if each["kind"] == "runs"]
    assert (f"run={gone['name']}", gone["found"]) == (run, None)
    assert "expected model_id" in said
    assert "found none" in said


def test_a_run_too_many_is_refused(copied):
    lake, project, locked = copied
    done(coglake(lake, project, "generate", "--agent", "uniform", "--modes", "bayesian_urn"))

    differences, said = refused(lake, locked)

    assert {each["kind"] for each in differences} == {"runs", "raw parts"}
    assert {each["expected"] for each in differences} == {None}
    assert "move the folders raw/*/run=<run id>" in said


def test_a_flipped_bit_in_a_part_is_refused(copied):
    lake, _, locked = copied
    part = next(path for path in part_paths(lake, "steps") if path.parent.name == a_run_with_steps(lake))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)

    [difference], said = refused(lake, locked)

    assert (difference["kind"], difference["name"]) == ("raw parts", str(part.relative_to(lake.raw)))
    assert difference["expected"] == f"sha256 {part.stem.removeprefix('part-')}"
    assert "`coglake verify` names what is damaged" in said


def test_a_part_that_is_gone_is_refused(copied):
    lake, _, locked = copied
    part = next(path for path in part_paths(lake, "steps") if path.parent.name == a_run_with_steps(lake))
    part.unlink()

    [difference], _ = refused(lake, locked)

    assert (difference["kind"], difference["found"]) == ("raw parts", None)


def test_a_part_that_no_run_names_is_no_difference(copied):
    lake, project, locked = copied
    part = next(path for path in part_paths(lake, "steps") if path.parent.name == a_run_with_steps(lake))
    shutil.copy(part, part.with_name(f"part-{'0' * 64}.parquet"))

    assert locks.input_differences(read_lock(locked), lake, project) == []


def test_other_rules_or_marts_than_the_locked_ones_fail_the_build(copied):
    _, _, locked = copied
    lock = read_lock(locked)
    marts = dict(lock.results.marts)
    marts["table_3"] = marts["table_3"].model_copy(update={"sha256": "0" * 64})
    rules = lock.results.rules | {"credited_choice": "1" * 64}
    changed = Lock.model_validate(lock.model_dump() | {"results": {"rules": rules, "marts": marts}})
    locked.write_text(write_text(changed))

    result = CliRunner().invoke(app, ["build", "--locked", str(locked), "--json"])

    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["build"]["failures"] == []
    assert [(each["kind"], each["name"]) for each in answer["differences"]] == [
        ("rules", "credited_choice"),
        ("marts", "table_3"),
    ]
    n_rows = f"{lock.results.marts['table_3'].n_rows:,}"
    assert f"table_3: expected {n_rows} rows with sha256 {'0' * 64}, found {n_rows} rows" in result.stderr
    assert result.stderr.splitlines()[-1] == (
        f"error: {locked}: built, but what came out differs from the lock: rules, marts"
    )


# --- writing a lock ---


@pytest.fixture
def built_here(clones, monkeypatch) -> Home:
    """The first lake itself, since a copy has to be built before it can be locked; read only."""
    monkeypatch.setenv("COGLAKE_HOME", str(clones.lake.root))
    monkeypatch.chdir(clones.project)
    return clones.lake


@contextmanager
def another_file(path: Path, content: bytes) -> Iterator[None]:
    """Put other bytes into a file, or make it, and undo that."""
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(content)
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


def test_no_lock_is_written_of_rows_that_were_added_after_the_build(built_here, tmp_path):
    part = next(path for path in part_paths(built_here, "steps"))

    with another_file(part.with_name(f"part-{'0' * 64}.parquet"), part.read_bytes()):
        result = CliRunner().invoke(app, ["lock", "-o", str(tmp_path / "coglake.lock")])

    assert result.exit_code == 15
    assert "the raw rows changed since the build" in result.stderr
    assert not (tmp_path / "coglake.lock").exists()


def test_no_lock_is_written_of_a_part_whose_bytes_changed_after_the_build(built_here, tmp_path):
    run = a_run_with_steps(built_here)
    part = next(path for path in part_paths(built_here, "steps") if path.parent.name == run)
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1

    with another_file(part, bytes(content)):
        result = CliRunner().invoke(app, ["lock", "-o", str(tmp_path / "coglake.lock")])

    assert result.exit_code == 14
    assert f"error: raw parts: {part.relative_to(built_here.raw)}: expected sha256" in result.stderr
    assert not (tmp_path / "coglake.lock").exists()


def test_the_command_says_what_the_lock_holds_and_no_folder_is_in_it(built_here, tmp_path):
    locked = tmp_path / "coglake.lock"
    result = CliRunner().invoke(app, ["lock", "-o", str(locked), "--json"])

    assert result.exit_code == 0, result.stderr
    said, lock = json.loads(result.stdout), read_lock(locked)
    assert said["runs"] == len(lock.inputs.runs)
    assert said["marts"] == len(lock.results.marts)
    assert str(built_here.root.parent) not in locked.read_text()
