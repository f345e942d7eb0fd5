"""Hashes of what tables hold, what a lock says of a lake, and how a difference is told."""

import hashlib
import json
import math
import random
import struct
from dataclasses import astuple
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest
from support import ROOT
from typer.testing import CliRunner

from store import lock as locks
from store.cli import app
from store.errors import LakeUnusable, WrongUsage
from store.lake import append, commit, commit_batch, open_run
from store.lock import (
    Difference,
    Lock,
    Results,
    input_differences,
    read_inputs,
    read_lock,
    sentences,
    write_text,
)
from store.mart_hashes import mart_hashes, relation_hash
from store.schemas import FITS, RUNS
from store.settings import Home

# --- hashes of tables ---

# every type that a mart has, and values that are easily taken for each other
ODD = """
    create table odd as
    select * from (values
        ('a', 0.1::double, 1::bigint, true, timestamptz '2026-01-01 00:00:00+00', ['a', 'b'], 1::hugeint),
        ('', -0.0::double, -1::bigint, false, null, ['a, b'], 170141183460469231731687303715884105727),
        (null, 0.0::double, null, null, timestamptz '2026-07-01 12:30:00.123456+02', [], null),
        ('~', 'nan'::double, 0::bigint, true, null, null, 0::hugeint),
        ('1:a~', 'inf'::double, 0::bigint, true, null, [null], 0::hugeint),
        ('nˤ ü', 5e-324::double, 0::bigint, true, null, ['NULL'], 0::hugeint),
        (chr(10) || '2:ab', 1.7976931348623157e308::double, 0::bigint, true, null, [''], 0::hugeint)
    ) as rows (word, number, whole, is_so, moment, list_of, large)
"""


@pytest.fixture
def con():
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        yield connection


def hashed_in_python(con, columns):
    """The hash of a table by another hand: rows are fetched, and all text is made here."""

    def cell(value):
        match value:
            case None:
                return "~"
            case bool():
                written = "true" if value else "false"
            case float():
                written = repr(value).replace("e-0", "e-")
            case datetime():
                written = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
                written += f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
            case _:
                written = str(value)
        return f"{len(written.encode())}:{written}"

    rows = con.execute(f"select {', '.join(sorted(columns))} from odd").fetchall()
    hashes = sorted(hashlib.sha256("".join(map(cell, row)).encode()).hexdigest() for row in rows)
    heading = ", ".join(f"{name} {columns[name]}" for name in sorted(columns))
    return len(rows), hashlib.sha256("\n".join([heading, *hashes]).encode()).hexdigest()


def test_the_hash_is_that_of_the_described_text(con):
    con.execute(ODD)
    con.execute("alter table odd drop column list_of")
    columns = {
        "word": "VARCHAR",
        "number": "DOUBLE",
        "whole": "BIGINT",
        "is_so": "BOOLEAN",
        "moment": "TIMESTAMP WITH TIME ZONE",
        "large": "HUGEINT",
    }

    assert astuple(relation_hash(con, "odd")) == hashed_in_python(con, columns)


def test_the_order_of_rows_and_columns_threads_and_time_zone_do_not_matter(con):
    con.execute(ODD)
    con.execute("create table many as select odd.*, i from odd cross join range(30000) as t (i)")
    first = relation_hash(con, "many")
    con.execute("create table mixed as select i, * exclude (i) from many order by hash(i * 7), word")

    for threads, zone in ((1, "Asia/Tokyo"), (4, "America/Los_Angeles")):
        con.execute(f"set threads = {threads}; set TimeZone = '{zone}'")
        assert relation_hash(con, "mixed") == first
    assert first.n_rows == 7 * 30000


def test_every_bit_of_a_double_counts(con):
    dice = random.Random(20260101)
    drawn = [struct.unpack("<d", dice.randbytes(8))[0] for _ in range(20_000)]
    numbers = [number for number in drawn if not math.isnan(number)]

    texts = [
        row[0] for row in con.execute("select cast(unnest(?::double[]) as varchar)", [numbers]).fetchall()
    ]

    assert [struct.pack("<d", float(text)) for text in texts] == [struct.pack("<d", x) for x in numbers]


@pytest.mark.parametrize(
    "change",
    [
        "update odd set number = number + 0.2::double - 0.2::double where word = 'a'",
        "update odd set word = null where word = ''",
        "update odd set word = null where word = '~'",
        "update odd set list_of = ['a', 'b'] where list_of = ['a, b']",
        "update odd set list_of = ['NULL'] where list_of = [null]",
        "update odd set list_of = [] where list_of is null",
        "update odd set moment = moment + interval 1 microsecond",
        "delete from odd where word = 'a'",
        "insert into odd select * from odd where word = 'a'",
        "alter table odd rename column word to name",
        "alter table odd alter column whole type integer",
    ],
)
def test_any_change_of_the_content_changes_the_hash(con, change):
    con.execute(ODD)
    before = relation_hash(con, "odd")

    con.execute(change)

    assert relation_hash(con, "odd").sha256 != before.sha256


def test_zero_and_minus_zero_have_other_hashes(con):
    con.execute(
        "create table zero as select 0.0::double as x; create table minus as select -0.0::double as x"
    )

    assert relation_hash(con, "zero") != relation_hash(con, "minus")


def test_text_that_moves_from_one_cell_to_the_next_changes_the_hash(con):
    con.execute("create table t as select 'ab' as first, 'c' as second")
    before = relation_hash(con, "t")

    con.execute("update t set first = 'a', second = 'bc'")

    assert relation_hash(con, "t") != before


def test_an_empty_table_is_hashed_by_its_columns(con):
    con.execute("create table t (a integer); create table other (b integer)")

    assert relation_hash(con, "t").n_rows == 0
    assert relation_hash(con, "t").sha256 == hashlib.sha256(b"a INTEGER\n").hexdigest()
    assert relation_hash(con, "t") != relation_hash(con, "other")


def test_what_earlier_builds_found_is_no_part_of_the_hashes(con, tmp_path):
    for path in ("marts/table_3", "marts/score_versions", "audit/audit_score_history"):
        file = tmp_path / "models_sql" / f"{path}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    con.execute("create table table_3 as select 1 as value")
    con.execute("create table audit_score_history as select now() as built_at")
    con.execute("create table score_versions as select 1.5::double as value, true as is_current")
    before = mart_hashes(con, tmp_path)

    con.execute(
        "insert into score_versions values (2.5, false); insert into audit_score_history values (now())"
    )

    assert mart_hashes(con, tmp_path) == before
    assert before.keys() == {"table_3", "score_versions"}
    con.execute("update score_versions set value = 1.25 where is_current")
    assert mart_hashes(con, tmp_path)["score_versions"] != before["score_versions"]


# --- what goes in ---


def run_row(run_id, **values):
    row = {"run_id": run_id, "kind": "archived", "model_id": "m", "agent_kind": "model", "planned_modes": []}
    return pa.Table.from_pylist([row | {"notes": []} | values], schema=RUNS)


def fit_rows(run_id, value):
    row = {"run_id": run_id, "mode_id": "bart", "family": "f", "parameter": "p", "provenance": "a test"}
    return pa.Table.from_pylist([row | {"value": value}], schema=FITS)


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    commit(lake, "r1", [("fits", fit_rows("r1", 0.5))], run_row("r1", source_id="cogbench", protocol="p"))
    open_run(lake, run_row("grows", identity_sha256="0" * 64, parts=None))
    return lake


def add_batch(lake, value):
    commit_batch(
        lake,
        "grows",
        [("fits", fit_rows("grows", value))],
        n_requests=1,
        environment={},
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def lock_of(lake, **changes):
    results = Results(rules={"a_rule": "0" * 64}, marts={})
    return Lock(
        lock_version=1,
        git_sha="c0ffee",
        platform={"system": "Linux", "machine": "x86_64", "libc": "glibc 2.36"},
        inputs=read_inputs(lake, ROOT),
        results=results,
    ).model_copy(update=changes)


def test_a_lock_holds_the_parts_that_runs_and_batches_name(lake):
    add_batch(lake, 0.25)
    append(lake, "fits", fit_rows("r1", 9.0), "r1")  # its writer died before it committed
    append(lake, "fits", fit_rows("lost", 9.0), "lost")

    inputs = read_inputs(lake, ROOT)

    shape = {
        run: {table: len(parts) for table, parts in of_run.items()}
        for run, of_run in inputs.raw_parts.items()
    }
    assert shape == {"r1": {"fits": 1, "runs": 1}, "grows": {"batches": 1, "fits": 1, "runs": 1}}
    [sha256] = inputs.raw_parts["r1"]["fits"]
    part = lake.raw / "fits" / "run=r1" / f"part-{sha256}.parquet"
    assert hashlib.sha256(part.read_bytes()).hexdigest() == sha256


def test_a_run_of_an_older_version_names_no_parts_and_all_count(lake):
    append(lake, "fits", fit_rows("old", 1.0), "old")
    append(lake, "runs", run_row("old"), "old")

    assert read_inputs(lake, ROOT).raw_parts["old"].keys() == {"fits", "runs"}


def test_only_sources_that_a_run_comes_from_are_pinned(lake):
    [(source_id, pins)] = read_inputs(lake, ROOT).sources.items()

    assert source_id == "cogbench"
    assert len(pins.revision) == 40
    assert len(pins.files) > 100


def test_a_batch_more_is_a_difference_of_the_raw_parts_alone(lake):
    lock = lock_of(lake)
    assert input_differences(lock, lake, ROOT) == []

    add_batch(lake, 0.75)

    differences = input_differences(lock, lake, ROOT)
    assert [each.kind for each in differences] == ["raw parts", "raw parts"]
    assert [each.name.split("/")[:2] for each in differences] == [
        ["batches", "run=grows"],
        ["fits", "run=grows"],
    ]
    assert {each.expected for each in differences} == {None}


def test_a_damaged_part_of_runs_is_one_sentence(lake):
    [path] = (lake.raw / "runs" / "run=r1").iterdir()
    path.write_bytes(b"not parquet")

    with pytest.raises(LakeUnusable, match=r"damaged parquet file; `coglake doctor`"):
        read_inputs(lake, ROOT)


# --- the file ---


def test_a_lock_file_is_read_as_it_was_written(lake, tmp_path):
    lock, path = lock_of(lake), tmp_path / "coglake.lock"
    path.write_text(write_text(lock))

    assert read_lock(path) == lock
    assert write_text(read_lock(path)) == path.read_text()
    assert path.read_text().endswith("}\n")


def test_runs_and_their_parts_are_listed_in_the_order_of_their_names(lake):
    for run_id in ("b", "a.9", "c"):
        commit(lake, run_id, [("fits", fit_rows(run_id, 1.0))], run_row(run_id))

    written = json.loads(write_text(lock_of(lake)))["inputs"]

    assert list(written["runs"]) == sorted(written["runs"]) == list(written["raw_parts"])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "EOF"),
        ("[1]", "object"),
        ('{"lock_version": 1}', "git_sha: Field required"),
        ('{"lock_version": 2}', "lock_version: Input should be 1"),
    ],
)
def test_another_file_than_a_lock_is_one_sentence(tmp_path, content, found):
    path = tmp_path / "coglake.lock"
    path.write_text(content)

    with pytest.raises(WrongUsage, match=f"expected a lock file as `coglake lock` writes it.*{found}"):
        read_lock(path)


def test_a_lock_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(WrongUsage, match=r"none\.lock: cannot be read \(No such file or directory\)"):
        read_lock(tmp_path / "none.lock")


# --- what is said ---


def test_each_kind_is_one_sentence_with_its_first_three_differences(lake):
    runs = [Difference("runs", f"r{i}", None, "model_id m") for i in range(5)]
    package = Difference("packages", "duckdb", "2.0.1", "1.5.5")

    [first, second] = sentences(lock_of(lake), [*runs, package])

    assert first.startswith("packages: duckdb: expected 2.0.1, found 1.5.5; install")
    assert "r0: expected none, found model_id m; r1" in second
    assert "r2" in second
    assert "r3" not in second
    assert "; and 2 more; ingest" in second


def test_another_project_comes_with_the_commit_of_the_lock(lake):
    difference = Difference("project", "models_sql", "sha256 1", "sha256 2")

    assert sentences(lock_of(lake), [difference])[1] == "the lock was written at commit c0ffee"


def test_other_marts_on_another_platform_come_with_both(lake, monkeypatch):
    difference = Difference("marts", "table_3", "1 rows", "2 rows")
    lock = lock_of(lake)
    monkeypatch.setattr(locks.platform, "machine", lambda: "aarch64")

    [_, platform] = sentences(lock, [difference])

    assert "written on Linux x86_64 glibc 2.36, this is" in platform
    assert "aarch64" in platform


# --- commands ---


def test_a_lake_without_a_build_has_no_lock(lake, tmp_path, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))

    result = CliRunner().invoke(app, ["lock", "-o", str(tmp_path / "coglake.lock")])

    assert result.exit_code == 15
    assert "nothing is built yet" in result.stderr
    assert not (tmp_path / "coglake.lock").exists()


def test_a_lock_is_of_a_whole_build():
    result = CliRunner().invoke(app, ["build", "--locked", "any.lock", "--select", "table_3"])

    assert result.exit_code == 2
    assert result.stderr == "error: --locked: a lock is of a full build: leave out --select\n"
