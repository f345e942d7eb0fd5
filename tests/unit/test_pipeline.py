"""Ingest: each pinned file becomes rows exactly once, and one bad file does not stop the others."""

import hashlib
import time
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import pipeline
from ingest.contract import Imported, RawRows
from ingest.pipeline import ingest, listing
from store import lake as raw
from store.errors import ChecksumMismatch, InvalidSource, LakeUnusable, SourceUnavailable
from store.lake import append, committed_runs, part_paths
from store.manifest import PinnedFile, Source
from store.schemas import PUBLISHED, RUNS
from store.settings import Home

REVISION = "0123456789" * 4
FILES = {"a.txt": b"1\n2\n", "b.txt": b"3\n4\n5\n", "c.txt": b"6\n"}
N_LINES = 2 + 3 + 1


class LineImporter:
    """Makes one published score of each line; a line that is no number is unreadable."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        if not file.path.endswith(".txt"):
            return None
        return f"{source.id}-{file.path}-{file.sha256[:12]}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        lines = path.read_text().splitlines()
        if lines == ["not ours"]:
            raise InvalidSource("line 1 is not ours")
        run_id = self.identify(source, file)
        scores = [
            {
                "source_id": source.id,
                "source_uri": source.uri(file),
                "mode_id": "bart",
                "model_id": "fake",
                "episode_id": str(number),
                "label": "score",
                "value": float(line) if line.isdecimal() else None,
            }
            for number, line in enumerate(lines)
        ]
        run = {
            "run_id": run_id,
            "kind": "published",
            "model_id": "fake",
            "agent_kind": "none",
            "planned_modes": ["bart"],
            "source_id": source.id,
            "n_source_rows": len(lines),
            "notes": [],
        }
        n_unreadable = sum(score["value"] is None for score in scores)
        return Imported(
            run_id=run_id,
            rows=(
                RawRows("published", pa.Table.from_pylist(scores, schema=PUBLISHED)),
                RawRows("runs", pa.Table.from_pylist([run], schema=RUNS)),
            ),
            n_source_rows=len(lines),
            n_unreadable_rows=n_unreadable,
            notes=(f"{n_unreadable} rows: not a number",) if n_unreadable else (),
        )


@pytest.fixture(autouse=True)
def importers(monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "IMPORTERS", {"lines": LineImporter()})


@pytest.fixture
def lake(tmp_path) -> Home:
    return Home(tmp_path / "lake")


@pytest.fixture
def mirror(tmp_path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    return folder


def mirrored(
    mirror: Path, files: dict[str, bytes] = FILES, source_id: str = "lines", **changes: object
) -> Source:
    """Put files into the mirror and return the source that pins them.

    Kind ``generated`` has no upstream, so a test that passes cannot have asked the network.
    """
    pins = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for path, data in files.items()
    ]
    block = {
        "id": source_id,
        "kind": "generated",
        "repo": source_id,
        "revision": "1",
        "licence": "MIT",
        "description": "Lines.",
        "files": pins,
    }
    source = Source.model_validate(block | changes)
    for file in source.files:
        path = mirror / source.mirror_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[file.path])
    return source


def values(lake: Home) -> list[float | None]:
    tables = [pq.ParquetFile(path).read(["value"]) for path in part_paths(lake, "published")]
    return sorted(value for table in tables for value in table["value"].to_pylist())


def content(lake: Home) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in part_paths(lake)}


def test_every_file_becomes_rows_in_the_order_of_the_manifest(lake, mirror):
    calls = []
    [report] = ingest(
        lake, [mirrored(mirror)], mirror=str(mirror), on_progress=lambda *call: calls.append(call)
    )
    assert (report.n_files, report.n_new_files, report.n_present_files) == (3, 3, 0)
    assert report.n_source_rows == N_LINES
    assert report.n_new_rows == N_LINES + 3  # and one row in runs for each file
    assert (report.notes, report.failures) == ((), ())
    assert values(lake) == [1, 2, 3, 4, 5, 6]
    assert calls == [("lines", 1, 3, "a.txt"), ("lines", 2, 3, "b.txt"), ("lines", 3, 3, "c.txt")]


def test_twice_is_nothing_new_and_nothing_is_fetched(lake, mirror):
    source = mirrored(mirror)
    ingest(lake, [source], mirror=str(mirror))
    before = content(lake)
    for path in mirror.rglob("*.txt"):
        path.unlink()
    for cached in lake.cache.glob("sha256/*/*"):
        cached.unlink()
    [report] = ingest(lake, [source], mirror=str(mirror))
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (0, 3, 0)
    assert content(lake) == before


def test_killed_between_tables_and_run_again_completes_without_doubling(lake, mirror, monkeypatch):
    source = mirrored(mirror)

    def killed(lake: Home, table: str, rows: pa.Table, run_id: str):
        if table == "runs" and "b.txt" in run_id:
            raise KeyboardInterrupt
        return append(lake, table, rows, run_id)

    with monkeypatch.context() as patch:
        patch.setattr(raw, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            ingest(lake, [source], mirror=str(mirror))
    assert values(lake) == [1, 2, 3, 4, 5]  # b.txt is written but not committed
    assert len(committed_runs(lake)) == 1

    [report] = ingest(lake, [source], mirror=str(mirror))
    assert (report.n_new_files, report.n_present_files) == (2, 1)
    assert report.n_new_rows == 1 + 1 + 1  # the run of b.txt; the score and the run of c.txt
    assert values(lake) == [1, 2, 3, 4, 5, 6]
    assert len(committed_runs(lake)) == 3


def test_a_file_added_to_the_pins_is_the_only_new_one(lake, mirror):
    ingest(lake, [mirrored(mirror)], mirror=str(mirror))
    [report] = ingest(lake, [mirrored(mirror, FILES | {"d.txt": b"7\n"})], mirror=str(mirror))
    assert (report.n_new_files, report.n_present_files) == (1, 3)
    assert values(lake) == [1, 2, 3, 4, 5, 6, 7]


def test_one_tampered_file_does_not_stop_the_others(lake, mirror):
    source = mirrored(mirror)
    (mirror / source.mirror_path(source.files[1])).write_bytes(b"33\n4\n5\n")
    [report] = ingest(lake, [source], mirror=str(mirror))
    assert (report.n_new_files, report.n_present_files) == (2, 0)
    [failure] = report.failures
    assert isinstance(failure, ChecksumMismatch)
    assert str(failure).startswith("generated://lines@1/b.txt: expected sha256")
    assert values(lake) == [1, 2, 6]
    assert [state.state for state in listing(lake, [source])] == ["partly imported (2 of 3 files)"]


def test_one_unreadable_file_is_named_even_if_the_importer_does_not(lake, mirror):
    source = mirrored(mirror, FILES | {"b.txt": b"not ours"})
    [report] = ingest(lake, [source], mirror=str(mirror))
    [failure] = report.failures
    assert isinstance(failure, InvalidSource)
    assert str(failure) == "generated://lines@1/b.txt: line 1 is not ours"
    assert values(lake) == [1, 2, 6]


def test_unreadable_rows_are_counted_and_their_file_is_named(lake, mirror):
    [report] = ingest(lake, [mirrored(mirror, {"a.txt": b"1\nx\ny\n"})], mirror=str(mirror))
    assert (report.n_source_rows, report.n_unreadable_rows) == (3, 2)
    assert report.notes == ("a.txt: 2 rows: not a number",)


def test_a_file_without_rows_for_the_store_is_not_even_fetched(lake, mirror):
    source = mirrored(mirror, FILES | {"readme.md": b"about"})
    (mirror / source.mirror_path(source.files[3])).unlink()
    [report] = ingest(lake, [source], mirror=str(mirror))
    assert (report.n_files, report.n_new_files) == (4, 3)
    assert report.notes == ("1 of 4 files hold no rows for the store",)
    assert [state.state for state in listing(lake, [source])] == ["imported"]


def test_a_source_that_cannot_be_reached_stops_and_keeps_what_is_there(lake, mirror):
    source = mirrored(mirror)
    (mirror / source.mirror_path(source.files[1])).unlink()
    with pytest.raises(SourceUnavailable, match=r"generated://lines@1/b\.txt"):
        ingest(lake, [source], mirror=str(mirror))
    assert values(lake) == [1, 2]


def test_a_lake_that_cannot_be_written_stops(lake, mirror, monkeypatch):
    def full(*_: object) -> None:
        raise LakeUnusable("no space left")

    monkeypatch.setattr(raw, "append", full)
    with pytest.raises(LakeUnusable):
        ingest(lake, [mirrored(mirror)], mirror=str(mirror))


def test_after_an_error_no_further_file_is_asked_for(lake, mirror, monkeypatch):
    source = mirrored(mirror, {f"{number:03}.txt": b"%d\n" % number for number in range(100)})
    asked = []

    def fetch(_: pipeline.Fetcher, source: Source, file: PinnedFile) -> Path:
        asked.append(file)
        if len(asked) > 1:
            time.sleep(0.05)
        raise SourceUnavailable("gone")

    monkeypatch.setattr(pipeline.Fetcher, "fetch", fetch)
    with pytest.raises(SourceUnavailable, match="gone"):
        ingest(lake, [source], mirror=str(mirror))
    assert len(asked) < 100


def test_a_dry_run_counts_and_writes_nothing(lake, mirror):
    source = mirrored(mirror)
    [report] = ingest(lake, [source], mirror=str(mirror), dry_run=True)
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (3, 0, 0)
    assert not lake.root.exists()
    ingest(lake, [source], mirror=str(mirror))
    [report] = ingest(lake, [source], mirror=str(mirror), dry_run=True)
    assert (report.n_new_files, report.n_present_files) == (0, 3)


def test_a_source_without_an_importer_is_fetched_and_verified(lake, mirror):
    source = mirrored(mirror, source_id="later")
    [planned] = ingest(lake, [source], mirror=str(mirror), dry_run=True)
    assert planned.notes == ("no importer yet",)
    [first] = ingest(lake, [source], mirror=str(mirror))
    [second] = ingest(lake, [source], mirror=str(mirror))
    assert (first.n_new_files, first.n_present_files, first.n_new_rows) == (3, 0, 0)
    assert (second.n_new_files, second.n_present_files, second.n_new_rows) == (0, 3, 0)
    assert first.notes == second.notes == ("pinned and verified; no importer yet",)
    assert part_paths(lake) == []


def test_without_an_importer_a_damaged_cache_is_noticed(lake, mirror):
    source = mirrored(mirror, source_id="later")
    ingest(lake, [source], mirror=str(mirror))
    for path in [*lake.cache.glob("sha256/*/*"), *mirror.rglob("*.txt")]:
        path.write_bytes(b"damaged")
    [report] = ingest(lake, [source], mirror=str(mirror))
    assert (report.n_new_files, report.n_present_files, len(report.failures)) == (0, 0, 3)
    assert report.notes == ("no importer yet",)


def test_several_sources_have_one_report_each(lake, mirror):
    sources = [mirrored(mirror), mirrored(mirror, {"x.csv": b"x"}, source_id="later")]
    assert [report.source_id for report in ingest(lake, sources, mirror=str(mirror))] == ["lines", "later"]


def test_the_list_follows_a_source_from_its_pin_to_its_rows(lake, mirror):
    source = mirrored(mirror)
    [state] = listing(lake, [source])
    assert (state.id, state.pin, state.licence) == ("lines", "lines@1", "MIT")
    assert (state.n_files, state.bytes, state.n_rows, state.state) == (3, 2 * N_LINES, 0, "not fetched")
    assert not lake.root.exists()

    with pipeline.Fetcher(lake, str(mirror)) as fetcher:
        fetcher.fetch(source, source.files[0])
        assert [state.state for state in listing(lake, [source])] == ["not fetched"]
        for file in source.files:
            fetcher.fetch(source, file)
    assert [state.state for state in listing(lake, [source])] == ["cached, not imported"]

    ingest(lake, [source], mirror=str(mirror))
    [state] = listing(lake, [source])
    assert (state.n_rows, state.state) == (N_LINES, "imported")


def test_the_list_cuts_a_commit_to_twelve_digits(lake, mirror):
    source = mirrored(mirror, kind="github", repo="owner/lines", revision=REVISION)
    assert [state.pin for state in listing(lake, [source])] == [f"owner/lines@{REVISION[:12]}"]


def test_the_list_says_what_a_gated_source_needs(lake, mirror, monkeypatch):
    source = mirrored(
        mirror, source_id="later", kind="hub_dataset", repo="owner/later", revision=REVISION, gated=True
    )
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert [state.state for state in listing(lake, [source])] == ["gated: set HF_TOKEN"]
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")
    assert [state.state for state in listing(lake, [source])] == ["not fetched"]
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    ingest(lake, [source], mirror=str(mirror))
    assert [state.state for state in listing(lake, [source])] == ["cached, not imported"]


def test_the_list_of_a_damaged_lake_is_one_sentence(lake, mirror):
    source = mirrored(mirror)
    ingest(lake, [source], mirror=str(mirror))
    part_paths(lake, "runs")[0].write_bytes(b"not parquet")
    with pytest.raises(LakeUnusable, match="coglake doctor"):
        listing(lake, [source])
