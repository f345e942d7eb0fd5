"""Opening the built database, and what a user reads when DuckDB refuses."""

import os
import subprocess
import sys
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import database
from store import lake as raw
from store.errors import LakeUnusable, NothingToExport
from store.settings import Home

HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / """it's a "läke" of mine""")
    lake.root.mkdir()
    with duckdb.connect(str(lake.database)) as built:
        built.execute("create table t as select timestamptz '2026-01-01 00:00:00+00' as moment")
    return lake


@contextmanager
def held_by_another_process(lake):
    script = lake.root / "hold.py"
    script.write_text(HOLD)
    command = [sys.executable, str(script), str(lake.database), "--token=secret"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield holder
        holder.stdin.close()


def refusal(query):
    """The error that DuckDB really raises, whichever version is installed."""
    with pytest.raises(duckdb.Error) as caught:
        duckdb.connect().execute(query).fetchall()
    return caught.value


def as_dbt_prints(error):
    indented = "\n".join(f"  {line}" for line in str(error).splitlines())
    return f"Runtime Error in model stg_fits (models_sql/staging/stg_fits.sql)\n{indented}"


# --- connect ---


def test_a_reader_opens_what_was_built_and_cannot_write(lake):
    with database.connect(lake) as connection:
        assert connection.execute("select count(*) from t").fetchall() == [(1,)]
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            connection.execute("create table u (a int)")


def test_a_writer_is_asked_for_by_name(lake):
    with database.connect(lake, read_only=False) as connection:
        connection.execute("create table u (a int)")
    with database.connect(lake) as connection:
        assert connection.execute("from u").fetchall() == []


def test_no_progress_bar_is_drawn_into_what_is_written(lake):
    # without a file to run, DuckDB takes the process for a session, and draws on standard output there
    code = (
        "import sys, pathlib; from store import database, settings\n"
        "connection = database.connect(settings.Home(pathlib.Path(sys.argv[1])))\n"
        "for one in (connection, connection.cursor()):\n"
        "    print(one.execute(\"select current_setting('enable_progress_bar')\").fetchall()[0][0])"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code, str(lake.root)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["False", "False"]


def test_times_are_utc_wherever_the_machine_stands(lake):
    code = (
        "import sys, pathlib; from store import database, settings\n"
        "connection = database.connect(settings.Home(pathlib.Path(sys.argv[1])))\n"
        "for one in (connection, connection.cursor()):\n"
        "    print(one.execute('select moment::varchar from t').fetchall()[0][0])"
    )
    environment = os.environ | {"TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code, str(lake.root)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["2026-01-01 00:00:00+00"] * 2


@pytest.mark.parametrize("read_only", [True, False])
def test_a_lake_that_was_never_built_says_so_and_no_file_appears(tmp_path, read_only):
    lake = Home(tmp_path)
    with pytest.raises(NothingToExport, match=r"coglake.duckdb: .*run `coglake build` first"):
        database.connect(lake, read_only=read_only)
    assert not lake.database.exists()


def test_a_locked_database_names_the_process_but_not_its_secrets(lake):
    with held_by_another_process(lake) as holder:
        for read_only in (True, False):
            with pytest.raises(LakeUnusable) as caught:
                database.connect(lake, read_only=read_only)
        held_by = database.lock_holder(lake)
        (finding,) = raw.doctor(lake)

    message = str(caught.value)
    assert str(lake.database) in message
    assert f"(PID {holder.pid})" in message
    assert " hold.py " in message
    assert "secret" not in message
    assert "\n" not in message
    assert held_by in message
    assert (finding.path, finding.found) == (str(lake.database), held_by)


def test_a_database_nobody_holds_has_no_holder(lake, tmp_path):
    assert database.lock_holder(lake) is None
    assert database.lock_holder(Home(tmp_path / "none")) is None


def test_an_open_writer_in_this_process_is_said_to_be_here(lake):
    with (
        database.connect(lake, read_only=False),
        pytest.raises(LakeUnusable, match="this process has it open"),
    ):
        database.connect(lake)


def damaged_copies(content):
    """Every way a file on disk goes wrong: emptied, cut, overwritten, flipped."""
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    return {
        "empty": b"",
        "cut in the header": content[:100],
        "cut in the middle": content[: len(content) // 2],
        "something else": b"PK" * 5000,
        "zeros at the end": content[: 3 * 4096] + bytes(len(content) - 3 * 4096),
    }


@pytest.mark.parametrize(
    "damage", ["empty", "cut in the header", "cut in the middle", "something else", "zeros at the end"]
)
def test_a_damaged_database_is_one_sentence_with_the_way_out(lake, damage):
    lake.database.write_bytes(damaged_copies(lake.database.read_bytes())[damage])
    with pytest.raises(LakeUnusable) as caught:
        database.connect(lake)
    assert str(caught.value).startswith(f"{lake.database}: damaged, or not a DuckDB database; delete it")
    assert "run `coglake build`: raw rows are untouched" in str(caught.value)


def test_a_folder_in_place_of_the_database_is_no_reason_to_delete_it(lake):
    lake.database.unlink()
    lake.database.mkdir()
    with pytest.raises(LakeUnusable, match=r"cannot be opened \(.*Is a directory.*\)$"):
        database.connect(lake)


# --- explain ---


def test_a_killed_build_with_a_damaged_log_is_a_damaged_database(lake):
    text = 'Failure while replaying WAL file "/l/coglake.duckdb.wal": Corrupt WAL file: entry at byte 162'
    error = database.explain(as_dbt_prints(text), lake)
    assert isinstance(error, LakeUnusable)
    assert "delete it and coglake.duckdb.wal" in str(error)


def test_a_database_of_a_newer_duckdb_asks_for_that_version(lake):
    text = (
        "IO Error: Trying to read a database file with version number 69, but we can only read versions "
        "between 64 and 68.\nThe database file was created with a newer version of DuckDB."
    )
    assert f"written by a newer DuckDB than {duckdb.__version__}" in str(database.explain(text, lake))


@pytest.mark.parametrize(
    "text",
    [
        'IO Error: Could not write file "/l/coglake.duckdb": No space left on device',
        "Out of Memory Error: failed to offload data block of size 256.0 KiB (0 bytes/0 bytes used).\n"
        "This limit was set by the 'max_temp_directory_size' setting.",
        "IO Error: Could not write file: Disk quota exceeded",
    ],
)
def test_a_full_disk_is_said_in_one_sentence(lake, text):
    error = database.explain(as_dbt_prints(text), lake)
    assert isinstance(error, LakeUnusable)
    assert str(error).startswith(f"{lake.root}: no space left on the disk; free some")


def test_a_lock_that_dbt_reports_names_the_process(lake):
    text = (
        f'IO Error: Could not set lock on file "{lake.database}": Conflicting lock is held in /usr/bin/thing '
        f"(PID {2**22 + 1}). See also https://duckdb.org/docs/current/connect/concurrency"
    )
    assert str(database.explain(as_dbt_prints(text), lake)) == (
        f"{lake.database}: locked by /usr/bin/thing (PID {2**22 + 1}); wait until it ends, then try again"
    )


def test_a_lock_without_a_known_holder_is_still_a_lock(lake):
    text = 'IO Error: Could not set lock on file "/nfs/coglake.duckdb": No locks available'
    assert str(database.explain(text, lake)).startswith("/nfs/coglake.duckdb: locked by another process;")


@pytest.mark.parametrize("n_kept", [0, 7, 300])
def test_a_truncated_part_is_named_from_the_error_of_the_whole_glob(lake, n_kept):
    folder = lake.raw / "fits" / "run=r1"
    folder.mkdir(parents=True)
    whole, cut = folder / "part-0.parquet", folder / "part-1.parquet"
    pq.write_table(pa.table({"a": range(1000)}), whole)
    cut.write_bytes(whole.read_bytes()[:n_kept])
    pattern = str(lake.raw / "fits/*/*.parquet").replace("'", "''")

    error = database.explain(as_dbt_prints(refusal(f"select sum(a) from read_parquet('{pattern}')")), lake)

    assert isinstance(error, LakeUnusable)
    assert str(error).startswith(f"{cut}: a damaged parquet file; `coglake doctor`")


def test_a_part_damaged_inside_is_named(lake):
    path = lake.root / "part.parquet"
    pq.write_table(pa.table({"a": range(100_000)}), path, compression="zstd")
    zstd_magic = b"\x28\xb5\x2f\xfd"
    path.write_bytes(path.read_bytes().replace(zstd_magic, b"1234"))
    name = str(path).replace("'", "''")

    error = database.explain(refusal(f"select sum(a) from read_parquet('{name}')"), lake)

    assert str(error).startswith(f"{path}: a damaged parquet file")


@pytest.mark.parametrize("text", ["TProtocolException: Invalid data", "don't know what type: \x0f"])
def test_a_damaged_part_without_a_name_sends_the_user_to_doctor(lake, text):
    error = database.explain(text, lake)
    assert str(error).startswith(f"{lake.raw}: holds a damaged parquet file; `coglake doctor`")


@pytest.mark.parametrize(
    "query", ["select nothing", "from read_parquet('/nowhere/*.parquet')", "select 1 +", "select 'x'::int"]
)
def test_an_error_about_the_query_is_left_alone(lake, query):
    assert database.explain(refusal(query), lake) is None
