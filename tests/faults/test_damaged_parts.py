"""Parts that are cut, flipped, emptied, foreign or misplaced: a build refuses them and counts none of them.

A raw table is one glob, and DuckDB reads what it can: a flipped bit is often another number, and a part in
other columns changes the type of a column for the whole table. So each case says what must be told; that the
build has no second look at such rows is the point.
"""

import hashlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from store import lake as raw
from store.cli import app
from store.errors import LakeUnusable
from store.schemas import RAW_TABLES
from store.settings import Home

RUN = "r1"
N_ROWS = 120


def rows_of(table: str) -> pa.Table:
    """Rows in which hardly two cells of a column are equal, so that every byte of a part matters."""
    schema = RAW_TABLES[table]
    columns = [
        pa.array([cell(field.type, field.name, row) for row in range(N_ROWS)], field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def cell(kind: pa.DataType, name: str, row: int) -> object:
    if name == "run_id":
        return RUN
    if pa.types.is_list(kind):
        return [cell(kind.value_type, name, row)]
    if pa.types.is_boolean(kind):
        return row % 2 == 0
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return row
    return row / 7 if pa.types.is_floating(kind) else f"{name} {row}"


def as_parquet(rows: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return buffer.getvalue()


def flipped(data: bytes) -> bytes:
    """Return ``data`` with one bit turned over, in the pages and not in the footer."""
    draw = random.Random(hashlib.sha256(data).digest())
    position = draw.randrange(len(data) // 10, len(data) // 2)
    return data[:position] + bytes([data[position] ^ (1 << draw.randrange(8))]) + data[position + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut by one byte": lambda data: data[:-1],
    "one bit flipped": flipped,
    "zeros": lambda data: bytes(len(data)),
    "text": lambda _: b"item_id,mode_id\n1,bart\n" * 40,
    "other columns": lambda _: as_parquet(pa.table({"a": [1, 2, 3]})),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Home:
    """A lake with one part in every raw table; a test puts back what it damages."""
    lake = Home(tmp_path_factory.mktemp("parts") / "lake")
    raw.ensure_schema_parts(lake)
    for table in RAW_TABLES:
        raw.append(lake, table, rows_of(table), RUN)
    return lake


@pytest.fixture
def command(lake, monkeypatch) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command on the lake and gives its exit code and what it complained of."""
    monkeypatch.setenv("COGLAKE_HOME", str(lake.root))

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, done.stderr

    return run


def part_of(lake: Home, table: str) -> Path:
    [path] = (lake.raw / table / f"run={RUN}").glob("part-*.parquet")
    return path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", RAW_TABLES)
def test_a_build_refuses_a_damaged_part_and_goes_on_once_it_is_restored(lake, command, table, damage):
    path = part_of(lake, table)
    data = path.read_bytes()
    path.write_bytes(DAMAGES[damage](data))
    try:
        exit_code, complaint = command("build")
        assert (exit_code, complaint.count("\n")) == (14, 1)
        assert str(path) in complaint
        assert hashlib.sha256(data).hexdigest() in complaint
        assert "restore the file from a copy" in complaint
        assert command("verify")[0] == 1
        assert [found.path for found in raw.verify(lake, {}) if "content" in found.problem] == [str(path)]
    finally:
        path.write_bytes(data)
    raw.require_sound(lake)


@pytest.mark.parametrize("table", RAW_TABLES)
def test_every_bit_of_a_part_counts_although_duckdb_reads_on(tmp_path, table):
    # what makes the hash needed: among single flips some leave a part that reads without an error
    lake = Home(tmp_path / "lake")
    raw.ensure_schema_parts(lake)
    path = raw.append(lake, table, rows_of(table), RUN).path
    data = path.read_bytes()
    for seed in range(20):
        draw = random.Random(f"{table} {seed}")
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(LakeUnusable, match="the content is not the one the file is named for"):
            raw.require_sound(lake)


# --- parts of others ---


def adopted(lake: Home, table: str, data: bytes, run_id: str = "stranger") -> Path:
    """Put bytes into the lake under the name that a part of theirs has."""
    path = lake.raw / table / f"run={run_id}" / f"part-{hashlib.sha256(data).hexdigest()}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def as_text(rows: pa.Table) -> pa.Table:
    """Return the same columns as text, which makes the union of the files text."""
    schema = pa.schema([pa.field(name, pa.string()) for name in rows.column_names])
    columns = [pa.array(map(str, rows[name].to_pylist()), pa.string()) for name in rows.column_names]
    return pa.Table.from_arrays(columns, schema=schema)


@pytest.mark.parametrize("table", RAW_TABLES)
@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(lambda _: pa.table({"a": [1, 2, 3]}), id="of another program"),
        pytest.param(as_text, id="all columns as text"),
        pytest.param(
            lambda rows: rows.append_column("mood", pa.array(["fine"] * N_ROWS)), id="one column more"
        ),
    ],
)
def test_a_whole_part_in_other_columns_is_refused_by_name(lake, command, table, foreign):
    path = adopted(lake, table, as_parquet(foreign(rows_of(table))))
    try:
        exit_code, complaint = command("build")
        assert (exit_code, complaint.count("\n")) == (14, 1)
        assert f"{path}: the columns are not those of {table}" in complaint
        assert [found.path for found in raw.doctor(lake) if "columns" in found.problem] == [str(path)]
    finally:
        path.unlink()
        path.parent.rmdir()
    raw.require_sound(lake)


def test_a_part_in_the_folder_of_another_table_is_refused(lake):
    path = adopted(lake, "outputs", part_of(lake, "steps").read_bytes())
    try:
        with pytest.raises(LakeUnusable, match="the columns are not those of outputs"):
            raw.require_sound(lake)
    finally:
        path.unlink()
        path.parent.rmdir()


@pytest.mark.parametrize(
    "name", ["part-{} (1).parquet", "part-{}.copy.parquet", "part-old.parquet", "part-.parquet"]
)
def test_a_renamed_copy_that_the_glob_would_read_is_refused(lake, name):
    part = part_of(lake, "steps")
    copy = part.with_name(name.format(raw.run_parts(lake, "steps", RUN, None)[0].stem.removeprefix("part-")))
    copy.write_bytes(part.read_bytes())
    try:
        with pytest.raises(LakeUnusable, match="this does not belong to the lake") as caught:
            raw.require_sound(lake)
        assert str(copy) in str(caught.value) and "move it out of raw/" in str(caught.value)
    finally:
        copy.unlink()


def test_a_part_under_the_hash_of_another_is_refused(lake):
    part = part_of(lake, "steps")
    other = part.with_name(f"part-{'0' * 64}.parquet")
    part.rename(other)
    try:
        with pytest.raises(LakeUnusable, match=f"expected sha256 {'0' * 64}"):
            raw.require_sound(lake)
    finally:
        other.rename(part)


def test_a_folder_that_is_no_run_is_refused_and_a_note_beside_the_parts_is_not(lake):
    note = lake.raw / "steps" / "README.txt"
    note.write_text("copied from the other machine")
    folder = lake.raw / "steps" / "run=a copy of r1"
    folder.mkdir()
    try:
        with pytest.raises(LakeUnusable, match="run=a copy of r1"):
            raw.require_sound(lake)
        folder.rmdir()
        raw.require_sound(lake)
    finally:
        note.unlink()


def test_several_are_counted_and_the_first_is_named(lake):
    parts = [part_of(lake, table) for table in ("fits", "outputs", "steps")]
    contents = [path.read_bytes() for path in parts]
    for path in parts:
        path.write_bytes(b"")
    try:
        with pytest.raises(LakeUnusable, match="`coglake verify` name 2 more") as caught:
            raw.require_sound(lake)
        assert str(caught.value).startswith(str(parts[0]))
    finally:
        for path, data in zip(parts, contents, strict=True):
            path.write_bytes(data)
