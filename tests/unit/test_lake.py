"""The raw layer: what may enter a part, what a part is called, and what verify and doctor say."""

import datetime as dt
import hashlib
import math
import os
import random
import re
import time

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from store import lake as raw
from store.errors import InvalidSource, LakeUnusable
from store.schemas import RAW_TABLES
from store.settings import Home

PINNED = {"github://o/r@1/a.csv": "a" * 64}


@pytest.fixture
def lake(tmp_path):
    return Home(tmp_path / "lake")


def fits(values=(0.5, 1.5), **columns):
    """Rows of the table ``fits``, one for each value."""
    rows = pa.table(
        {
            "run_id": ["r1"] * len(values),
            "mode_id": ["bart"] * len(values),
            "family": ["softmax"] * len(values),
            "participant_id": pa.nulls(len(values)),
            "fold": pa.array(range(len(values)), pa.int64()),
            "seed": pa.nulls(len(values)),
            "training_set": pa.nulls(len(values)),
            "parameter": ["beta"] * len(values),
            "value": pa.array(values, pa.float64(), from_pandas=False),
            "is_at_bound": [False] * len(values),
            "is_converged": pa.nulls(len(values)),
            "n_training": pa.nulls(len(values)),
            "provenance": ["fitted"] * len(values),
        }
    )
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def run_row(run_id="r1", uri=None, sha256=None, day=1):
    """One row of the table ``runs``, started on that day."""
    row = {name: None for name in RAW_TABLES["runs"].names} | {
        "run_id": run_id,
        "kind": "import",
        "model_id": "m",
        "agent_kind": "model",
        "planned_modes": ["bart"],
        "source_uri": uri,
        "source_sha256": sha256,
        "notes": [],
        "started_at": dt.datetime(2026, 1, day, tzinfo=dt.UTC),
    }
    return pa.Table.from_pylist([row], schema=RAW_TABLES["runs"])


def read(lake, table):
    """The rows as every build reads them: by a glob over the whole table."""
    pattern = str(lake.raw / table / "*" / "*.parquet")
    return duckdb.execute("select * from read_parquet(?, hive_partitioning = false)", [pattern]).fetchall()


def files(lake):
    return sorted(path for path in lake.root.rglob("*") if path.is_file())


def commit(lake, run_id="r1", day=1):
    """Commit a run with one part in ``fits``; its row in ``runs`` differs by day."""
    return raw.commit(lake, run_id, [("fits", fits(run_id=pa.array([run_id] * 2)))], run_row(run_id, day=day))


@pytest.mark.parametrize(
    ("tables", "row", "where"),
    [([("fits", fits())], "r2", "fits"), ([], "r1", "runs")],
)
def test_rows_that_name_another_run_are_not_committed(lake, tables, row, where):
    with pytest.raises(InvalidSource, match=f"{where}: expected rows of run r2, found some of 'r1'"):
        raw.commit(lake, "r2", tables, run_row(row))
    assert raw.part_paths(lake) == []


def test_a_batch_with_rows_of_another_run_is_not_committed(lake):
    raw.open_run(lake, run_row("r2"))
    with pytest.raises(InvalidSource, match="fits: expected rows of run r2, found some of 'r1'"):
        raw.commit_batch(
            lake,
            "r2",
            [("fits", fits())],
            n_requests=1,
            environment={},
            started_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        )
    assert raw.part_paths(lake, "batches") == raw.part_paths(lake, "fits") == []


def flip_one_bit(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


# --- what a part is ---


def test_a_part_is_named_by_run_and_by_the_sha256_of_its_bytes(lake):
    part = raw.append(lake, "fits", fits(), "r1")

    digest = hashlib.sha256(part.path.read_bytes()).hexdigest()
    assert part == raw.Part(lake.raw / "fits" / "run=r1" / f"part-{digest}.parquet", n_rows=2, is_new=True)
    assert files(lake) == [part.path]
    assert pq.ParquetFile(part.path).schema_arrow.equals(RAW_TABLES["fits"])


def test_parts_that_nobody_committed_are_not_among_those_that_count(lake):
    commit(lake, "r1")
    stray = raw.append(lake, "fits", fits((7.0,)), "r1")
    raw.append(lake, "fits", fits((8.0,)), "r2")
    counted = raw.committed_paths(lake, "fits")
    assert len(counted) == 1
    assert stray.path not in counted


def test_a_batch_commits_its_parts_and_no_others(lake):
    run = run_row("grows")
    raw.open_run(lake, run)
    raw.append(lake, "fits", fits((7.0,)), "grows")
    started = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for value in (1.0, 2.0):
        rows = fits((value,), run_id=pa.array(["grows"]))
        raw.commit_batch(lake, "grows", [("fits", rows)], n_requests=1, environment={}, started_at=started)
    raw.open_run(lake, run)
    paths = raw.batch_parts(lake, "grows", "fits")
    assert sorted(pl.read_parquet(paths, hive_partitioning=False)["value"]) == [1.0, 2.0]
    assert raw.committed_paths(lake, "fits") == paths
    assert len(raw.part_paths(lake, "runs")) == 1


def test_the_same_rows_twice_are_one_part(lake):
    first = raw.append(lake, "fits", fits(), "r1")
    second = raw.append(lake, "fits", fits(), "r1")

    assert (first.is_new, second.is_new) == (True, False)
    assert files(lake) == [first.path] == [second.path]
    assert len(read(lake, "fits")) == 2


def test_the_same_rows_under_another_run_are_another_part(lake):
    raw.append(lake, "fits", fits(), "r1")
    assert raw.append(lake, "fits", fits(), "r2").is_new
    assert len(read(lake, "fits")) == 4


def test_equal_rows_are_one_part_however_they_are_cut_into_chunks(lake):
    # more text than one page holds, so that pages end where the chunks make them end
    draw = random.Random(0)
    n = 40_000
    texts = pa.array([f"{draw.random()}" * draw.randrange(6) for _ in range(n)])
    rows = fits([0.5] * n, family=texts, participant_id=texts)
    chunked = pa.concat_tables([rows.slice(start, 777) for start in range(0, n, 777)])

    assert raw.append(lake, "fits", rows, "r1").is_new
    assert not raw.append(lake, "fits", chunked, "r1").is_new


def test_a_thread_of_duckdb_finds_a_row_group_of_its_own(lake):
    n = 2 * raw._ROWS_PER_GROUP + 1
    part = raw.append(lake, "fits", fits([0.5] * n), "r1")
    assert pq.ParquetFile(part.path).metadata.num_row_groups == 3


def test_no_rows_are_still_a_readable_part(lake):
    part = raw.append(lake, "fits", fits(()), "r1")
    assert part.n_rows == 0
    assert read(lake, "fits") == []


def test_a_lake_path_with_spaces_quotes_and_unicode_works(tmp_path):
    lake = Home(tmp_path / """it's "my" läke 100%""")
    raw.ensure_schema_parts(lake)
    part = raw.append(lake, "fits", fits(), "model@1.0_a-b")

    assert len(read(lake, "fits")) == 2
    assert raw.verify(lake, {}) == []
    assert raw.part_paths(lake, "fits")[-1] == part.path
    part.path.write_bytes(b"no parquet")
    (finding,) = raw.verify(lake, {})
    assert finding.path == str(part.path)


# --- what rows may enter ---


def test_nan_and_infinity_are_values_and_not_nulls(lake):
    raw.append(lake, "fits", fits([math.nan, math.inf, -math.inf]), "r1")
    values = [row[RAW_TABLES["fits"].names.index("value")] for row in read(lake, "fits")]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


def test_text_in_a_number_column_is_refused_and_not_parsed(lake):
    with pytest.raises(InvalidSource, match="fits: column value: expected double, found string"):
        raw.append(lake, "fits", fits(value=pa.array(["0.5", "1.5"])), "r1")
    assert files(lake) == []


def test_a_number_in_a_text_column_is_refused_and_not_printed(lake):
    with pytest.raises(
        InvalidSource, match="fits: column family: expected string without nulls, found int64"
    ):
        raw.append(lake, "fits", fits(family=pa.array([1, 2])), "r1")


def test_a_fraction_column_is_refused_where_integers_belong(lake):
    with pytest.raises(InvalidSource, match="fits: column fold: expected int32, found double"):
        raw.append(lake, "fits", fits(fold=pa.array([1.0, 2.0])), "r1")


def test_an_integer_that_does_not_fit_is_refused_and_not_wrapped(lake):
    with pytest.raises(InvalidSource, match="fits: column fold: expected int32, found int64 with a value"):
        raw.append(lake, "fits", fits(fold=pa.array([1, 2**31])), "r1")


def test_a_missing_column_is_refused_and_not_filled_with_nulls(lake):
    with pytest.raises(InvalidSource, match="fits: column seed: expected int64, found no such column"):
        raw.append(lake, "fits", fits().drop_columns(["seed"]), "r1")


def test_an_extra_column_is_refused_and_not_dropped(lake):
    rows = fits().append_column("brier", pa.array([0.1, 0.2]))
    with pytest.raises(InvalidSource, match="fits: column brier: expected no such column, found one"):
        raw.append(lake, "fits", rows, "r1")


def test_a_column_that_comes_twice_is_refused(lake):
    rows = fits().append_column("value", pa.array([0.1, 0.2]))
    with pytest.raises(
        InvalidSource, match="fits: column value: expected double, found 2 columns of that name"
    ):
        raw.append(lake, "fits", rows, "r1")


@pytest.mark.parametrize(
    "nulls", [pa.nulls(2), pa.array(["a", None]), pa.DictionaryArray.from_arrays([0, 1], ["a", None])]
)
def test_a_null_where_none_may_be_is_refused(lake, nulls):
    with pytest.raises(InvalidSource, match=r"fits: column family: .* without nulls, found [12] nulls in 2"):
        raw.append(lake, "fits", fits(family=nulls), "r1")


def test_a_time_without_a_zone_is_refused_because_it_could_mean_any(lake):
    rows = run_row().drop_columns(["started_at"])
    naive = pa.array([0], pa.timestamp("us"))
    with pytest.raises(
        InvalidSource, match=r"started_at: expected timestamp\[us, tz=UTC\], found timestamp\[us\]"
    ):
        raw.append(lake, "runs", rows.append_column("started_at", naive), "r1")


def test_text_that_is_not_utf8_is_refused_before_it_makes_the_table_unreadable(lake):
    broken = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    with pytest.raises(InvalidSource, match=r"fits: column family: .*UTF8"):
        raw.append(lake, "fits", fits(family=broken), "r1")


def test_columns_of_another_order_and_width_are_the_same_part(lake):
    frame = pl.from_arrow(fits())
    first = raw.append(lake, "fits", fits(), "r1")
    # polars hands over large or view strings and its own order
    second = raw.append(lake, "fits", frame.select(sorted(frame.columns)).to_arrow(), "r1")
    third = raw.append(lake, "fits", fits(family=pa.array(["softmax"] * 2).dictionary_encode()), "r1")
    assert (first.is_new, second.is_new, third.is_new) == (True, False, False)


def test_lists_of_nothing_and_lists_of_wide_text_are_accepted(lake):
    n_before = len(RAW_TABLES["runs"])
    rows = run_row()
    for name, column in {
        "notes": pa.array([[]], pa.list_(pa.null())),
        "planned_modes": pa.array([["a", "b"]], pa.large_list(pa.large_string())),
    }.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    part = raw.append(lake, "runs", rows, "r1")
    stored = pq.ParquetFile(part.path).read().to_pylist()[0]
    assert (stored["notes"], stored["planned_modes"], len(stored)) == ([], ["a", "b"], n_before)


@pytest.mark.parametrize("run_id", ["", "a/b", "..\\x", "a b", "é", "a\n", "_schema", "x" * 201, "a=b", "*"])
def test_a_run_id_that_could_leave_its_folder_is_refused(lake, run_id):
    with pytest.raises(InvalidSource, match="fits: expected a run id of 1 to 200 letters"):
        raw.append(lake, "fits", fits(), run_id)
    assert not lake.root.exists()


def test_an_unknown_table_is_refused_with_the_known_ones(lake):
    with pytest.raises(InvalidSource, match=r"fit: expected a raw table \(items, .*fits"):
        raw.append(lake, "fit", fits(), "r1")


# --- the part without rows ---


def test_every_table_of_a_fresh_lake_can_be_read(lake):
    raw.ensure_schema_parts(lake)
    assert {table: read(lake, table) for table in RAW_TABLES} == {table: [] for table in RAW_TABLES}
    assert len(raw.part_paths(lake)) == len(RAW_TABLES)
    assert raw.committed_runs(lake) == frozenset()
    assert raw.doctor(lake) == []


def test_parts_without_rows_are_not_written_again(lake, monkeypatch):
    raw.ensure_schema_parts(lake)
    before = {path: path.stat().st_mtime_ns for path in files(lake)}
    monkeypatch.setattr(raw, "_write_part", None)
    raw.ensure_schema_parts(lake)
    assert {path: path.stat().st_mtime_ns for path in files(lake)} == before


def test_an_outdated_or_damaged_part_without_rows_is_replaced(lake):
    folder = lake.raw / "fits" / "run=_schema"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"old": pa.array([], pa.int8())}), folder / f"part-{'0' * 64}.parquet")
    (folder / f"part-{'1' * 64}.parquet").write_bytes(b"PAR1")

    raw.ensure_schema_parts(lake)

    (part,) = raw.part_paths(lake, "fits")
    assert pq.ParquetFile(part).schema_arrow.equals(RAW_TABLES["fits"])


def test_two_writers_of_the_part_without_rows_leave_one_and_never_none(lake):
    raw.ensure_schema_parts(lake)
    (part,) = raw.part_paths(lake, "fits")
    # what another version of pyarrow would write beside ours: same schema, other bytes
    pq.write_table(RAW_TABLES["fits"].empty_table(), part.with_name(f"part-{'f' * 64}.parquet"))
    raw.ensure_schema_parts(lake)
    assert raw.part_paths(lake, "fits") == [part]


# --- which runs count ---


def test_a_run_counts_once_its_row_in_runs_is_written(lake):
    raw.append(lake, "fits", fits(), "r1")
    assert raw.committed_runs(lake) == frozenset()
    raw.append(lake, "runs", run_row(), "r1")
    assert raw.committed_runs(lake) == {"r1"}


def test_an_empty_run_folder_left_by_a_kill_commits_nothing(lake):
    (lake.raw / "runs" / "run=r1").mkdir(parents=True)
    assert raw.committed_runs(lake) == frozenset()
    assert raw.doctor(lake) == []


def test_a_run_is_committed_once_with_the_names_of_its_parts(lake):
    rows, run = commit(lake, day=1)
    again, same_run = commit(lake, day=2)

    assert (rows.is_new, run.is_new) == (True, True)
    assert (again, same_run) == (
        raw.Part(rows.path, n_rows=2, is_new=False),
        raw.Part(run.path, n_rows=1, is_new=False),
    )
    assert raw.part_paths(lake) == [rows.path, run.path]
    (stored,) = pq.ParquetFile(run.path).read().to_pylist()
    assert (stored["parts"], stored["started_at"].day) == ([rows.sha256], 1)


def test_a_run_without_rows_of_its_own_is_committed(lake):
    (run,) = raw.commit(lake, "r1", [], run_row())
    assert pq.ParquetFile(run.path).read().to_pylist()[0]["parts"] == []
    assert raw.committed_runs(lake) == {"r1"}


def test_a_run_that_only_began_is_committed_and_its_other_parts_do_not_count(lake):
    raw.append(lake, "fits", fits([9.0]), "r1")
    rows, run = commit(lake)
    assert run.is_new
    assert pq.ParquetFile(run.path).read().to_pylist()[0]["parts"] == [rows.sha256]


def test_the_lock_lies_outside_the_raw_tables_and_is_no_finding(lake):
    raw.ensure_schema_parts(lake)
    commit(lake)
    assert (lake.root / "commit.lock").is_file()
    assert (raw.doctor(lake), raw.verify(lake, {})) == ([], [])


@pytest.mark.parametrize("tables", [[], [("fits", fits())]])
def test_a_run_id_that_could_leave_its_folder_is_not_committed(lake, tables):
    with pytest.raises(InvalidSource, match="runs: expected a run id of 1 to 200 letters"):
        raw.commit(lake, "../r1", tables, run_row())
    assert not lake.root.exists()


def test_a_lake_that_is_not_there_has_no_parts_and_no_runs(lake):
    assert (raw.part_paths(lake), raw.committed_runs(lake), raw.verify(lake, {})) == ([], frozenset(), [])


# --- verify ---


def test_one_flipped_bit_is_found_with_both_hashes(lake):
    part = raw.append(lake, "fits", fits(), "r1")
    expected = part.path.stem.removeprefix("part-")
    flip_one_bit(part.path, at=part.path.stat().st_size // 3)
    found = hashlib.sha256(part.path.read_bytes()).hexdigest()

    (finding,) = raw.verify(lake, {})

    assert (finding.path, finding.expected, finding.found) == (
        str(part.path),
        f"sha256 {expected}",
        f"sha256 {found}",
    )
    assert "raw/*/run=r1" in finding.advice


def test_a_cached_file_with_other_bytes_is_found(lake):
    right, wrong = (hashlib.sha256(text).hexdigest() for text in (b"right", b"wrong"))
    for name in (right, wrong):
        path = lake.cache / "sha256" / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"right")

    (finding,) = raw.verify(lake, {})

    assert (finding.path, finding.found) == (str(path), f"sha256 {right}")
    assert "coglake ingest" in finding.advice


def test_a_source_with_another_pin_or_none_is_found(lake):
    uri, sha256 = next(iter(PINNED.items()))
    raw.append(lake, "runs", run_row("pinned", uri, sha256), "pinned")
    raw.append(lake, "runs", run_row("generated"), "generated")
    assert raw.verify(lake, PINNED) == []

    raw.append(lake, "runs", run_row("moved", uri, "b" * 64), "moved")
    raw.append(lake, "runs", run_row("unknown", uri + ".old", sha256), "unknown")
    raw.append(lake, "runs", run_row("without", "x", None), "without")
    moved, unknown, without = raw.verify(lake, PINNED)

    assert "run moved comes from github://o/r@1/a.csv" in moved.problem
    assert (moved.expected, moved.found) == (f"sha256 {'a' * 64}", f"sha256 {'b' * 64}")
    assert (unknown.expected, unknown.found) == ("a pin of it in the manifests", "none")
    assert "run without comes from x" in without.problem


def test_a_damaged_part_of_runs_is_a_finding_and_not_a_crash(lake):
    part = raw.append(lake, "runs", run_row(), "r1")
    part.path.write_bytes(part.path.read_bytes()[:-9])
    assert [finding.path for finding in raw.verify(lake, {})] == [str(part.path)]


@pytest.mark.parametrize("check", [lambda lake: raw.verify(lake, {}), raw.doctor])
def test_a_committed_part_that_is_gone_is_found(lake, check):
    raw.ensure_schema_parts(lake)
    rows, other = (raw.append(lake, "fits", fits(), run_id) for run_id in ("r1", "r2"))
    raw.commit_parts(lake, "r1", [rows], run_row("r1"))
    raw.commit_parts(lake, "r2", [other], run_row("r2"))
    assert check(lake) == []
    # the same bytes in another run are not this run's part
    assert rows.sha256 == other.sha256
    rows.path.unlink()

    (finding,) = check(lake)

    assert finding.path == str(lake.raw / "*" / "run=r1" / rows.path.name)
    assert finding.problem == "run r1 was committed with this part, and it is gone"
    assert (finding.expected, finding.found) == (f"sha256 {rows.sha256}", "no such file")
    assert finding.advice == raw._restore(rows.path)


def test_a_run_of_before_parts_were_named_lacks_none(lake):
    schema = RAW_TABLES["runs"]
    older = run_row().drop_columns(["parts"])
    path = lake.raw / "runs" / "run=r1" / f"part-{'0' * 64}.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(older.cast(schema.remove(schema.get_field_index("parts"))), path)
    assert raw.doctor(lake) == []


@pytest.mark.parametrize("check", [lambda lake: raw.verify(lake, {}), raw.doctor])
@pytest.mark.parametrize("column", ["run_id", "parts", "source_uri"])
def test_a_part_of_runs_in_columns_of_another_kind_is_no_crash(lake, check, column):
    rows, run = commit(lake)
    odd = pq.ParquetFile(run.path).read()
    odd = odd.set_column(odd.column_names.index(column), column, pa.array([7]))
    pq.write_table(odd, run.path)
    rows.path.unlink()
    assert {finding.path for finding in check(lake)} == {str(run.path)}


def test_no_flipped_bit_in_a_part_of_runs_is_a_crash(lake):
    _, run = commit(lake)
    whole = run.path.read_bytes()
    for at in range(0, len(whole), 37):
        flip_one_bit(run.path, at)
        assert str(run.path) in {finding.path for finding in raw.verify(lake, PINNED)}, at
        raw.doctor(lake)
        run.path.write_bytes(whole)


def test_a_part_that_cannot_be_opened_is_a_finding_and_not_a_crash(lake):
    path = lake.raw / "fits" / "run=r1" / f"part-{'0' * 64}.parquet"
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere")
    (finding,) = raw.verify(lake, {})
    assert finding.found == "no readable file (No such file or directory)"


# --- doctor ---


def test_a_whole_lake_has_no_findings_and_doctor_changes_nothing(lake):
    raw.ensure_schema_parts(lake)
    raw.append(lake, "fits", fits(), "r1")
    raw.append(lake, "runs", run_row(), "r1")
    with duckdb.connect(str(lake.database)) as built:
        built.execute("create table t as select 1 as a")
    before = {path: path.stat().st_mtime_ns for path in files(lake)}
    assert raw.doctor(lake) == []
    assert {path: path.stat().st_mtime_ns for path in files(lake)} == before


@pytest.mark.parametrize(
    "where",
    [
        "raw/.tmp/stray.tmp",
        "cache/.tmp/stray.tmp",
        "exports/.table3.csv.0f.tmp",
        "coglake.duckdb.tmp/duckdb_temp_storage_DEFAULT-0.tmp",
    ],
)
def test_a_stray_temporary_file_is_named_with_its_age(lake, where):
    raw.ensure_schema_parts(lake)
    stray = lake.root / where
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"PAR1")
    two_hours_ago = time.time() - 2 * 60 * 60
    os.utime(stray, (two_hours_ago, two_hours_ago))

    (finding,) = raw.doctor(lake)

    assert (finding.path, finding.found) == (str(stray), "4 bytes, last written 120 min ago")
    assert "delete it once no command is running" in finding.advice


@pytest.mark.parametrize("n_kept", [0, 3, 8, 200])
def test_a_truncated_part_is_named(lake, n_kept):
    part = raw.append(lake, "fits", fits(), "_whole")
    raw.append(lake, "runs", run_row(), "_whole")
    part.path.write_bytes(part.path.read_bytes()[:n_kept])

    (finding,) = raw.doctor(lake)

    assert finding.path == str(part.path)
    assert finding.problem == "the part is damaged, so the whole table cannot be read"
    assert "raw/*/run=_whole" in finding.advice


def test_a_part_with_the_columns_of_another_version_is_named(lake):
    raw.append(lake, "runs", run_row(), "r1")
    path = lake.raw / "fits" / "run=r1" / f"part-{'0' * 64}.parquet"
    path.parent.mkdir(parents=True)
    schema = RAW_TABLES["fits"]
    older = schema.remove(schema.get_field_index("value")).append(
        pa.field("score", pa.int8(), nullable=False)
    )
    pq.write_table(older.empty_table(), path)

    (finding,) = raw.doctor(lake)

    assert finding.path == str(path)
    assert (finding.expected, finding.found) == ("value: double", "score: int8 not null")


def test_foreign_files_are_named_once_each(lake):
    raw.ensure_schema_parts(lake)
    foreign = [
        lake.raw / "fits" / "notes.txt",
        lake.raw / "fits" / "run=r1" / "copy of part.parquet",
        lake.raw / "fits" / "run=a b",
        lake.raw / "scores",
    ]
    foreign[1].parent.mkdir()
    foreign[2].mkdir()
    foreign[3].mkdir()
    for path in (foreign[0], foreign[1], foreign[3] / "x.parquet", foreign[3] / "y.parquet"):
        path.write_bytes(b"x")

    findings = raw.doctor(lake)

    assert {finding.path for finding in findings} == {str(path) for path in foreign}
    assert {finding.advice for finding in findings} == {"move it out of raw/"}


def test_rows_of_a_run_that_was_never_finished_are_named(lake):
    raw.append(lake, "fits", fits(), "half")
    raw.append(lake, "published", RAW_TABLES["published"].empty_table(), "half")
    raw.append(lake, "fits", fits(), "whole")
    raw.append(lake, "runs", run_row("whole"), "whole")

    (finding,) = raw.doctor(lake)

    assert finding.problem == "run half has rows in fits, published but was never finished"
    assert "it resumes" in finding.advice


def test_a_run_that_was_committed_twice_is_named(lake):
    rows, run = commit(lake, "r1", day=1)
    commit(lake, "r2")
    # as versions without a lock wrote it
    raw.append(lake, "runs", run_row("r1", day=2), "r1")

    (finding,) = raw.doctor(lake)

    assert (finding.path, finding.found) == (str(run.path.parent), "2 parts")
    assert finding.problem == "run r1 is committed twice, which fails every build"
    assert "keep one of these parts" in finding.advice
    assert "raw/*/run=r1" in finding.advice
    # the advice helps
    for path in raw.part_paths(lake, "runs"):
        if path.parent == run.path.parent and path != run.path:
            path.unlink()
    assert rows.path.is_file()
    assert raw.doctor(lake) == []


def test_a_lake_half_made_has_no_unfinished_run(lake):
    raw.ensure_schema_parts(lake)
    (part,) = raw.part_paths(lake, "runs")
    part.unlink()
    assert raw.doctor(lake) == []


def test_a_damaged_database_is_named(lake):
    raw.ensure_schema_parts(lake)
    lake.database.write_bytes(b"no database" * 1000)
    (finding,) = raw.doctor(lake)
    assert finding.path == str(lake.database)
    assert "delete it" in finding.found


def test_a_lake_that_is_missing_or_a_file_is_said_to_be(lake):
    (finding,) = raw.doctor(lake)
    assert (finding.path, finding.found) == (str(lake.root), "nothing")
    assert "COGLAKE_HOME" in finding.advice
    lake.root.write_text("")
    (finding,) = raw.doctor(lake)
    assert finding.found == "a file"


def test_a_folder_without_write_permission_is_named(lake, monkeypatch):
    raw.ensure_schema_parts(lake)
    # root may write anywhere, so the answer of the system is replaced
    monkeypatch.setattr(os, "access", lambda folder, _: folder != lake.raw)
    (finding,) = raw.doctor(lake)
    assert finding.path == str(lake.raw)
    assert re.fullmatch(r"mode [0-7]+", finding.found)


def test_a_folder_that_cannot_be_listed_is_a_sentence(lake, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(type(lake.raw), "iterdir", refuse)
    with pytest.raises(
        LakeUnusable, match=r"raw.*: cannot be listed \(Permission denied\); make it readable"
    ):
        raw.part_paths(lake)
