"""What is left of the raw layer when a writer dies, the disk fills, or several write at once."""

import errno
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import lake as raw
from store.errors import LakeUnusable
from store.schemas import RAW_TABLES
from store.settings import Home

N_ROWS = 500

# a writer that appends its own rows for ever, or n_parts of them, or commits a run that says who did it
WRITER = '''
import datetime as dt
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
from store import lake as raw
from store.schemas import RAW_TABLES
from store.settings import Home

lake, n_rows = Home(Path(sys.argv[1])), int(sys.argv[2])

def rows(name, run_id):
    """Rows that no other name has."""
    return pa.Table.from_pylist(
        [{column: None for column in RAW_TABLES["fits"].names}
         | {"run_id": run_id, "mode_id": "bart", "family": name, "parameter": str(i), "provenance": "fitted"}
         for i in range(n_rows)],
        schema=RAW_TABLES["fits"],
    )

def write(name, n_parts):
    for i in range(n_parts):
        raw.append(lake, "fits", rows(f"{name}-{i}", str(name)), str(name))

def commit(run_id, k):
    """Commit a run as the k-th process: all write the same rows, each with a time of its own."""
    schema = RAW_TABLES["runs"]
    row = dict.fromkeys(schema.names) | {
        "run_id": run_id, "kind": "import", "model_id": "m", "agent_kind": "model",
        "planned_modes": ["bart"], "notes": [],
        "started_at": dt.datetime(2026, 1, 1 + k, tzinfo=dt.UTC),
    }
    tables = [("fits", rows(run_id, run_id))]
    return raw.commit(lake, run_id, tables, pa.Table.from_pylist([row], schema))[-1]
'''


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    raw.ensure_schema_parts(lake)
    return lake


def start(lake, code):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", WRITER + code, str(lake.root), str(N_ROWS)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def output_of(lake, code):
    with start(lake, code) as process:
        output = process.stdout.read()
    assert process.returncode == 0
    return output


def count_rows(lake):
    pattern = str(lake.raw / "fits" / "*" / "*.parquet")
    return duckdb.execute(
        "select count(*), count(distinct (family, parameter)) from read_parquet(?)", [pattern]
    )


def rows_of(n):
    columns = {field.name: pa.nulls(n, field.type) for field in RAW_TABLES["fits"]}
    for name in ("mode_id", "family", "parameter", "provenance"):
        columns[name] = pa.array([f"{name} {i}" for i in range(n)])
    return pa.table(columns | {"run_id": pa.repeat("r1", n)})


def run_row(run_id):
    row = dict.fromkeys(RAW_TABLES["runs"].names) | {
        "run_id": run_id,
        "kind": "import",
        "model_id": "m",
        "agent_kind": "model",
        "planned_modes": ["bart"],
        "notes": [],
    }
    return pa.Table.from_pylist([row], RAW_TABLES["runs"])


def assert_only_whole_parts(lake):
    """Every part is whole, the glob reads all rows, and doctor names the temporary files and nothing else."""
    parts = [path for path in raw.part_paths(lake, "fits") if path.parent.name != "run=_schema"]
    assert raw.verify(lake, {}) == []
    assert {pq.ParquetFile(path).metadata.num_rows for path in parts} <= {N_ROWS}
    assert count_rows(lake).fetchall() == [(N_ROWS * len(parts), N_ROWS * len(parts))]
    stray = {str(path) for path in (lake.raw / ".tmp").iterdir()}
    findings = [finding for finding in raw.doctor(lake) if "never finished" not in finding.problem]
    assert {finding.path for finding in findings} == stray
    return len(parts), len(stray)


# --- a writer is killed ---


def test_kill_9_at_many_moments_leaves_whole_parts_and_temporary_files_only(lake):
    # children of one process, so that thirty kills cost one start of Python
    code = """
write("first", 1)
for k in range(30):
    child = os.fork()
    if child == 0:
        write(k, 10**9)
    time.sleep(0.003 * k)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
    output_of(lake, code)
    n_parts, _ = assert_only_whole_parts(lake)
    assert n_parts > 1


def test_kill_9_between_any_two_steps_leaves_a_part_or_none(tmp_path):
    n_left = {  # step that the writer does not survive: parts, temporary files
        "raw.pq.ParquetWriter.write_table": (0, 1),  # the file is open and holds no footer
        "raw.os.fsync": (0, 1),  # all is written, nothing is flushed
        "raw.hashlib.file_digest": (0, 1),
        "raw.Path.rename": (0, 1),  # the run folder is there and empty
        "raw._flush_folder": (1, 0),  # renamed
    }
    lakes = {step: Home(tmp_path / step) for step in n_left}
    for lake in lakes.values():
        raw.ensure_schema_parts(lake)
        (lake.raw / "fits" / "run=x").mkdir()
    code = f"""
def die(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

root = lake.root
for step in {list(n_left)}:
    lake = Home(root / step)
    child = os.fork()
    if child == 0:
        owner, _, name = step.rpartition(".")
        setattr(eval(owner), name, die)
        write("x", 1)
        os._exit(0)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""
    assert output_of(Home(tmp_path), code) == "9\n" * len(n_left)
    assert {step: assert_only_whole_parts(lake) for step, lake in lakes.items()} == n_left

    # the same command again ends where an unbroken one would have ended
    output_of(
        Home(tmp_path),
        f"""
root = lake.root
for step in {list(n_left)}:
    lake = Home(root / step)
    write("x", 1)
""",
    )
    assert {assert_only_whole_parts(lake)[0] for lake in lakes.values()} == {1}


# --- several write at once ---


def test_four_processes_append_at_once_and_a_reader_never_sees_half_a_file(lake):
    n_processes, n_parts = 4, 15
    code = f"""
children = []
for k in range({n_processes}):
    child = os.fork()
    if child == 0:
        write(k, {n_parts})
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""
    seen = [0]
    with start(lake, code) as process:
        while process.poll() is None:
            ((n_rows, n_distinct),) = count_rows(lake).fetchall()
            assert n_rows == n_distinct
            assert n_rows % N_ROWS == 0
            seen.append(n_rows)
        assert json.loads(process.stdout.read()) == [0] * n_processes

    assert seen == sorted(seen)
    assert assert_only_whole_parts(lake) == (n_processes * n_parts, 0)


def test_four_processes_that_do_the_same_in_a_fresh_lake_add_each_part_once(tmp_path):
    lake = Home(tmp_path / "lake")
    code = """
children = []
for k in range(4):
    child = os.fork()
    if child == 0:
        raw.ensure_schema_parts(lake)
        write("same", 5)
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""
    assert json.loads(output_of(lake, code)) == [0] * 4
    assert assert_only_whole_parts(lake) == (5, 0)
    assert len(raw.part_paths(lake)) == len(RAW_TABLES) + 5


@pytest.mark.parametrize("n_processes", [3, 8])
def test_processes_that_commit_one_run_at_once_leave_one_row_of_it(tmp_path, n_processes):
    lake, n_runs = Home(tmp_path / "lake"), 10
    code = f"""
start_at = time.monotonic() + 0.2
children = []
for k in range({n_processes}):
    child = os.fork()
    if child == 0:
        time.sleep(start_at - time.monotonic())
        is_new = [commit(f"r{{i}}", k).is_new for i in range({n_runs})]
        (lake.root / f"new-{{k}}").write_text(repr([int(new) for new in is_new]))
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""
    assert json.loads(output_of(lake, code)) == [0] * n_processes

    # every run has one part, and one process that says it wrote it
    for i in range(n_runs):
        (run,) = (lake.raw / "runs" / f"run=r{i}").iterdir()
        (rows,) = (lake.raw / "fits" / f"run=r{i}").iterdir()
        (row,) = pq.ParquetFile(run).read(columns=["parts"]).to_pylist()
        assert row["parts"] == [rows.stem.removeprefix("part-")]
    is_new = [json.loads((lake.root / f"new-{k}").read_text()) for k in range(n_processes)]
    assert [sum(of_run) for of_run in zip(*is_new, strict=True)] == [1] * n_runs
    assert (raw.verify(lake, {}), raw.doctor(lake)) == ([], [])


HOLDER = """
def stop(*_args):
    print("held", flush=True)
    time.sleep(600)

append = raw.append
raw.append = lambda lake, table, *rest: stop() if table == "runs" else append(lake, table, *rest)
commit("r1", 0)
"""


def test_kill_9_while_a_run_is_committed_does_not_block_the_next(lake, monkeypatch):
    with start(lake, HOLDER) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            monkeypatch.setattr(raw, "_LOCK_WAIT_S", 0.2)
            message = "commit.lock: cannot be locked to commit run r2 .*another process has held it"
            with pytest.raises(LakeUnusable, match=message) as caught:
                raw.commit(lake, "r2", [], run_row("r2"))
            assert "\n" not in str(caught.value)
            assert raw.committed_runs(lake) == frozenset()
        finally:
            holder.send_signal(signal.SIGKILL)
    assert output_of(lake, 'print(commit("r1", 1).is_new)') == "True\n"
    assert raw.committed_runs(lake) == {"r1"}
    assert raw.doctor(lake) == []


def test_a_run_that_is_committed_meanwhile_is_not_written_again(lake, monkeypatch):
    append = raw.append

    def append_after_another(lake, table, rows, run_id):
        part = append(lake, table, rows, run_id)
        if table == "fits":
            output_of(lake, 'commit("r1", 1)')
        return part

    monkeypatch.setattr(raw, "append", append_after_another)
    *_, run = raw.commit(lake, "r1", [("fits", rows_of(3))], run_row("r1"))
    monkeypatch.undo()
    assert not run.is_new
    assert raw.part_paths(lake, "runs")[-1] == run.path
    assert len(raw.part_paths(lake, "runs")) == 2
    # what the loser wrote is named by no run, which no build counts and no check minds
    assert (raw.verify(lake, {}), raw.doctor(lake)) == ([], [])


# --- the disk says no ---


def files(lake):
    return sorted(path for path in lake.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", ["open", "fsync", "rename"])
def test_a_disk_that_refuses_leaves_nothing_behind(lake, monkeypatch, code, step):
    def refuse(*_args, **_options):
        raise OSError(code, os.strerror(code))

    before = files(lake)
    owner = {"open": Path, "fsync": os, "rename": Path}[step]
    monkeypatch.setattr(owner, step, refuse)
    with pytest.raises(LakeUnusable) as caught:
        raw.append(lake, "fits", rows_of(3), "r1")
    monkeypatch.undo()

    message = str(caught.value)
    assert caught.value.exit_code == 14
    assert str(lake.raw / "fits" / "run=r1") in message
    assert f"({os.strerror(code)}); nothing was added" in message
    assert "\n" not in message
    assert files(lake) == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_lake_that_cannot_be_locked_is_a_sentence_and_commits_nothing(lake, monkeypatch, code):
    def refuse(_lock, *_args, **_options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(raw.FileLock, "acquire", refuse)
    with pytest.raises(LakeUnusable) as caught:
        raw.commit(lake, "r1", [("fits", rows_of(3))], run_row("r1"))
    message = str(caught.value)
    assert caught.value.exit_code == 14
    assert message.startswith(f"{lake.root / 'commit.lock'}: cannot be locked to commit run r1 (")
    assert f"({os.strerror(code)}): remove the cause" in message
    assert "\n" not in message
    assert raw.committed_runs(lake) == frozenset()

    monkeypatch.undo()
    rows, run = raw.commit(lake, "r1", [("fits", rows_of(3))], run_row("r1"))
    assert (rows.is_new, run.is_new) == (False, True)


def test_a_folder_in_the_place_of_the_lock_is_a_sentence(lake):
    (lake.root / "commit.lock").mkdir()
    with pytest.raises(LakeUnusable, match=r"commit.lock: cannot be locked .*\(Is a directory\)"):
        raw.commit(lake, "r1", [], run_row("r1"))


def test_a_real_write_error_in_the_middle_of_a_file_leaves_nothing_behind(lake):
    # a limit on the size of a file stops the writer as a full disk does
    code = """
import resource
from store.errors import LakeUnusable
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    write("x", 1)
except LakeUnusable as error:
    print(error)
"""
    before = files(lake)
    message = output_of(lake, code)
    assert "(File too large); nothing was added" in message
    assert files(lake) == before


def test_a_folder_that_cannot_be_flushed_is_not_reported_as_nothing_added(lake, monkeypatch):
    raw.append(lake, "fits", rows_of(3), "r1")

    def refuse(_folder):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(raw, "_flush_folder", refuse)
    with pytest.raises(LakeUnusable, match="the part is in place but may not outlast a power cut"):
        raw.append(lake, "fits", rows_of(4), "r1")
    monkeypatch.undo()
    assert not raw.append(lake, "fits", rows_of(4), "r1").is_new


def test_a_file_system_that_cannot_flush_folders_still_takes_parts(lake, monkeypatch):
    flush = os.fsync

    def refuse_folders(handle):
        if Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        flush(handle)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    assert raw.append(lake, "fits", rows_of(3), "r1").is_new


def test_a_file_in_the_place_of_a_folder_is_a_sentence(lake):
    (lake.raw / "fits" / "run=r1").write_text("")
    with pytest.raises(LakeUnusable, match="File exists"):
        raw.append(lake, "fits", rows_of(3), "r1")
    assert list((lake.raw / ".tmp").iterdir()) == []


def test_an_interrupt_from_the_keyboard_leaves_nothing_behind(lake, monkeypatch):
    def interrupt(_handle):
        raise KeyboardInterrupt

    before = files(lake)
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        raw.append(lake, "fits", rows_of(3), "r1")
    assert files(lake) == before


def test_hashing_does_not_hold_a_whole_file_in_memory(lake):
    big = lake.cache / "sha256" / "ab" / "ab"
    big.parent.mkdir(parents=True)
    with big.open("wb") as file:
        file.truncate(64 * 2**20)
    tracemalloc.start()
    try:
        assert len(raw.verify(lake, {})) == 1
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
