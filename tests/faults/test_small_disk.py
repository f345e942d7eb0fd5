"""A disk that runs full and a lake that nobody may write to, met by every command that writes.

The disk is a real one of a few megabytes, so that DuckDB, parquet, dbt and this project meet the same error.
Each command ends in one sentence; once there is space again the same command ends as if nothing had been.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from mounted import Disk, Mounts
from support import mart_hashes, raw_hashes

from generate import demo_archive
from store.settings import Home

HASHES = """
import json, sys
from pathlib import Path
from store.lake import doctor, require_sound
from store.settings import Home
from support import mart_hashes, raw_hashes
lake = Home(Path(sys.argv[2]))
if sys.argv[1] == "raw":
    require_sound(lake)
    problems = [found.problem for found in doctor(lake) if "never finished" not in found.problem]
    print(json.dumps([raw_hashes(lake), problems]))
else:
    print(json.dumps(mart_hashes(lake)))
"""


@pytest.fixture(scope="module")
def mounts() -> Iterator[Mounts]:
    with Mounts() as mounts:
        yield mounts


@pytest.fixture
def disk(mounts, tmp_path) -> Disk:
    (tmp_path / "disk").mkdir()
    return mounts.small_disk(tmp_path / "disk", megabytes=160)


@pytest.fixture(scope="module")
def mirror(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    demo_archive.write(folder)
    return folder


def is_one_sentence(done: CompletedProcess[str], exit_code: int, words: str) -> bool:
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    assert words in done.stderr
    return "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def whole_raw(mounts: Mounts, lake: Path) -> dict[str, str]:
    """Return the raw files of a lake on a disk, of which none is damaged and nothing else is left behind."""
    hashes, problems = json.loads(mounts.python(HASHES, "raw", str(lake)))
    assert problems == []
    return hashes


def test_an_ingest_onto_a_full_disk_goes_on_where_it_stopped(mounts, disk, mirror, project, demo_lake):
    lake = disk.folder / "lake"
    command = ("ingest", "demo_archive", "--mirror", str(mirror))
    found: dict[str, str] = {}
    for n_free_kib in (0, 900):
        disk.fill(n_free_kib)
        assert is_one_sentence(mounts.coglake(lake, project, *command), 14, "o space left")
        before, found = found, whole_raw(mounts, lake)
        # nothing is lost, and what comes is whole
        assert before.items() <= found.items() <= raw_hashes(demo_lake).items()
    assert found
    disk.clear()
    done = mounts.coglake(lake, project, *command)
    assert done.returncode == 0, done.stderr
    # zero-row parts come with the first build
    named = {path: sha256 for path, sha256 in raw_hashes(demo_lake).items() if "run=_schema" not in path}
    assert whole_raw(mounts, lake) == named


GENERATES = {
    "agents": ("generate", "--agent", "uniform", "--modes", "bart"),
    "agents of Learning": ("generate", "--agent", "silent", "--benchmark", "learning", "--modes", "blocking"),
}


@pytest.mark.parametrize("command", GENERATES.values(), ids=GENERATES)
def test_a_generation_onto_a_full_disk_goes_on_where_it_stopped(mounts, disk, project, command):
    lake = disk.folder / "lake"
    for n_free_kib in (0, 8, 16):
        disk.fill(n_free_kib)
        assert is_one_sentence(mounts.coglake(lake, project, *command), 14, "o space left")
        whole_raw(mounts, lake)
    disk.clear()
    assert mounts.coglake(lake, project, *command).returncode == 0
    untroubled = disk.folder / "untroubled"
    assert mounts.coglake(untroubled, project, *command).returncode == 0
    one, other = (
        {path: sha256 for path, sha256 in whole_raw(mounts, folder).items() if not path.startswith("runs/")}
        for folder in (lake, untroubled)
    )
    # rows of runs hold times; all else is the same bytes
    assert one == other and one


def test_builds_and_exports_on_a_full_disk_go_on_where_they_stopped(mounts, disk, project, demo_lake):
    lake = disk.folder / "lake"
    mounts.done("cp", "-r", str(demo_lake.root), str(lake))
    mounts.done("rm", "-rf", str(lake / "target"))
    # space for nothing, for what dbt writes but not for DuckDB, for both but not for all
    for n_free_kib in (200, 13_000):
        disk.fill(n_free_kib)
        done = mounts.coglake(lake, project, "build", "--full-refresh")
        assert is_one_sentence(done, 14, "o space left"), done.stderr
        refused = mounts.coglake(lake, project, "export", "table3", "-o", "-")
        assert is_one_sentence(refused, 15, "run `coglake build`")
    disk.clear()
    done = mounts.coglake(lake, project, "build")
    assert done.returncode == 0, done.stderr
    assert json.loads(mounts.python(HASHES, "marts", str(lake))) == mart_hashes(demo_lake)

    exported = lake / "exports" / "table3.csv"
    disk.fill(0)
    for command in (("export", "table3"), ("lock", "-o", str(disk.folder / "coglake.lock"))):
        assert is_one_sentence(mounts.coglake(lake, project, *command), 14, "o space left")
    assert mounts.done("find", str(lake / "exports"), str(disk.folder), "-name", "*.tmp", "-type", "f") == ""
    disk.clear()
    assert mounts.coglake(lake, project, "export", "table3").returncode == 0
    printed = mounts.coglake(lake, project, "export", "table3", "-o", "-")
    assert mounts.done("cat", str(exported)) == printed.stdout


# --- nobody may write ---

READS = {
    "status": (("status",), "marts: fresh"),
    "sql": (("sql", "select count(*) as n from stg_steps", "--json"), '"n"'),
    "verify": (("verify",), ""),
    "export to standard output": (("export", "table3", "-o", "-"), "Task mode"),
    "ingest of what is there": (("ingest", "demo_archive"), "0 new"),
}
WRITES = {
    "build": (("build",), 14, "cannot be"),
    "build of all anew": (("build", "--full-refresh"), 14, "cannot be"),
    "ingest of something new": (("ingest", "ttm_like"), 14, "ead-only"),
    "generate": (GENERATES["agents"], 14, "nothing was added"),
    "generate of Learning": (GENERATES["agents of Learning"], 14, "nothing was added"),
    "task": (("task", "bayesian_urn", "-o", "{lake}/task"), 14, "nothing was added"),
    "import": (("import", "lm-eval", "{log}", "--mode", "bayesian_urn"), 14, "nothing was added"),
    "export": (("export", "table3"), 2, "cannot be written (Read-only file system)"),
    "lock": (("lock", "-o", "{lake}/coglake.lock"), 2, "cannot be written (Read-only file system)"),
    "protocol of CogniRank": (("cognirank", "--extract-only", "{lake}/protocol"), 2, "ead-only"),
}


@pytest.fixture(scope="module")
def protected(mounts, demo_lake) -> Home:
    """The demo lake, which nobody may write to."""
    mounts.write_protect(demo_lake.root)
    return demo_lake


@pytest.mark.parametrize(("command", "words"), READS.values(), ids=READS)
def test_a_protected_lake_can_be_read(mounts, protected, project, command, words):
    done = mounts.coglake(protected.root, project, *command)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


@pytest.mark.parametrize(("command", "exit_code", "words"), WRITES.values(), ids=WRITES)
def test_what_would_write_to_a_protected_lake_says_so(
    mounts, protected, project, tmp_path, command, exit_code, words
):
    (tmp_path / "samples_x.jsonl").write_text("{}\n")
    arguments = [part.format(lake=protected.root, log=tmp_path / "samples_x.jsonl") for part in command]
    assert is_one_sentence(mounts.coglake(protected.root, project, *arguments), exit_code, words)


def test_doctor_names_the_folders_that_cannot_be_written_to(mounts, protected, project):
    done = mounts.coglake(protected.root, project, "doctor", "--json")
    assert done.returncode == 1
    assert {found["path"] for found in json.loads(done.stdout)} == {str(protected.root), str(protected.raw)}


def test_an_export_into_a_protected_folder_leaves_the_lake_and_the_folder_as_they_are(
    mounts, project, demo_lake, tmp_path
):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "table3.csv").write_text("older")
    mounts.write_protect(folder)
    target = str(folder / "table3.csv")
    done = mounts.coglake(demo_lake.root, project, "export", "table3", "-o", target)
    assert is_one_sentence(done, 2, f"{target}: cannot be written (Read-only file system)")
    assert mounts.done("ls", str(folder)) == "table3.csv\n"
    assert (folder / "table3.csv").read_text() == "older"
