"""Several commands on one lake at the same time: each does all its work, or says in one line who is at it."""

import json
import os
import time

import duckdb
import pytest
from fault_lakes import WRITERS, assert_one_sentence, rows_that_count
from support import mart_hashes

from store import lake as raw

N_WRITERS = 8

SQL = "select count(*) as n, count(distinct (mode_id, column_id)) as n_cells from table_3"
N_CELLS = "select count(*) from table_3"


@pytest.mark.parametrize("name", WRITERS)
def test_eight_processes_that_do_the_same_add_it_once(kill_server, whole, tmp_path, name):
    lake = whole.without(name, tmp_path / "lake")
    jobs = [kill_server.start(lake.root, *whole.commands[name]) for _ in range(N_WRITERS)]
    for ended in [kill_server.end(job) for job in jobs]:
        assert (ended.returncode, "Traceback" in ended.complaint) == (0, False), ended.complaint
    assert rows_that_count(lake) == whole.rows
    assert raw.doctor(lake) == []


def test_eight_processes_add_different_rows_during_a_build(kill_server, whole, tmp_path):
    # a lake that has nothing yet; each writer is there twice
    lake = whole.without_all(tmp_path / "lake")
    build = kill_server.start(lake.root, "build")
    wait_until_it_writes(lake)
    jobs = [kill_server.start(lake.root, *whole.commands[name]) for name in WRITERS * (N_WRITERS // 4)]
    for ended in [kill_server.end(job) for job in (build, *jobs)]:
        assert (ended.returncode, "Traceback" in ended.complaint) == (0, False), ended.complaint
    assert rows_that_count(lake) == whole.rows
    # rows came after the build had begun, so nothing is exported of it
    assert_one_sentence(kill_server.run(lake.root, "export", "table3"), 15)

    built = kill_server.run(lake.root, "build")
    assert built.returncode == 0, built.complaint
    assert mart_hashes(lake) == whole.marts


def test_during_a_build_others_are_told_who_is_at_it_and_see_no_half_of_it(kill_server, whole, tmp_path):
    lake = whole.built_copy(tmp_path / "lake")
    before = table_3(kill_server, lake)
    first = kill_server.start(lake.root, "build")
    wait_until_it_writes(lake)
    second = kill_server.start(lake.root, "build")
    for arguments in (("sql", SQL), ("export", "table3"), ("export", "metrics")):
        told = kill_server.run(lake.root, *arguments)
        assert_one_sentence(told, 14)
        assert f"(PID {first.pid})" in told.complaint
    assert kill_server.run(lake.root, "status").returncode == 0

    told = kill_server.end(second)
    assert_one_sentence(told, 14)
    assert f"(PID {first.pid})" in told.complaint
    ended = kill_server.end(first)
    assert ended.returncode == 0, ended.complaint
    assert table_3(kill_server, lake) == before
    assert mart_hashes(lake) == whole.marts


def test_a_build_that_meets_an_open_reader_says_who_reads(kill_server, whole, tmp_path):
    lake = whole.lake
    with duckdb.connect(str(lake.database), read_only=True) as reader:
        told = kill_server.run(lake.root, "build")
        assert_one_sentence(told, 14)
        assert f"(PID {os.getpid()})" in told.complaint
        assert reader.execute(N_CELLS).fetchall() > [(0,)]
    # nothing was begun, so the last build still counts
    ended = kill_server.run(lake.root, "export", "table3", "-o", str(tmp_path / "table3.csv"))
    assert ended.returncode == 0, ended.complaint


def table_3(server, lake):
    ended = server.run(lake.root, "sql", SQL, "--json")
    assert ended.returncode == 0, ended.complaint
    return json.loads(ended.output)


def wait_until_it_writes(lake):
    """Wait until a build has the database, without opening it, which would be in its way."""
    journal = lake.database.with_name(f"{lake.database.name}.wal")
    end = time.monotonic() + 120
    while not journal.exists():
        assert time.monotonic() < end, "the build never began to write"
        time.sleep(0.01)
