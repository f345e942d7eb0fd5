"""Files of an evaluation: whole or absent, named by hash, and refused once somebody changed them."""

import json
import os
import subprocess

import pytest

from store.errors import ChecksumMismatch, InvalidSource, LakeUnusable, WrongUsage
from store.evaluation_files import (
    RUN,
    SUMS,
    ComponentRecord,
    ContextRecord,
    ModelFolder,
    RunRecord,
    begin_writing,
    json_lines,
    names_in,
    read_records,
    read_release,
    require_unchanged,
    write_sums,
    write_whole,
)
from store.protocol import load_components
from store.settings import Home

PART = "c" * 64


def record(**changes):
    given = {
        "model": "org/model",
        "revision": "0" * 40,
        "release_id": "a" * 64,
        "generation_id": "b" * 64,
        "engine": "hf",
        "asked_dtype": "bfloat16",
        "context": ContextRecord(requested_tokens=4096),
        "trust_remote_code": False,
        "components": {
            name: ComponentRecord(dataset_id=name, source_id=name, is_stand_in=False)
            for name in load_components()
        },
        "started_at": "2026-11-30T00:00:00+00:00",
    }
    return RunRecord.model_validate(given | changes)


@pytest.fixture
def folder(tmp_path):
    """A model's folder with results and the log of a component."""
    made = ModelFolder(tmp_path / "out" / "model@00000000", record())
    made.write({"results.json": "{}\n"})
    made.write_component("ttm", {"log.txt": "begins\n"}, state="running")
    return made


@pytest.fixture
def lake(tmp_path):
    return Home(tmp_path / "lake")


def stored(folder):
    return json.loads((folder.path / RUN).read_text())


# --- writing ---


def test_run_json_names_the_other_files_and_is_read_as_it_was_written(folder):
    assert set(stored(folder)["files"]) == {"results.json", "ttm/log.txt"}
    assert stored(folder)["components"]["ttm"]["state"] == "running"
    assert read_records(folder.path.parent) == {folder.path.name: folder.record}


def test_a_file_that_is_about_to_change_is_not_named_until_it_is_there(folder, lake, monkeypatch):
    named = []
    replace = os.replace

    def spy(self, target):
        named.append((self.name, set(stored(folder)["files"])))
        replace(self, target)

    monkeypatch.setattr("pathlib.Path.replace", spy)
    folder.write({"results.json": '{"a": 1}\n'})
    monkeypatch.undo()

    (moment,) = [files for name, files in named if name.startswith(".results.json")]
    assert moment == {"ttm/log.txt"}
    require_unchanged(folder.path.parent, lake)


def test_a_file_that_is_taken_away_is_not_named_any_more(folder, lake):
    folder.write(without=("results.json", "never.json"))
    assert not (folder.path / "results.json").exists()
    assert set(stored(folder)["files"]) == {"ttm/log.txt"}
    require_unchanged(folder.path.parent, lake)


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LakeUnusable, match="free some space and run the same command again"):
        write_whole(path, "new")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_folder_in_the_place_of_a_file_is_wrong_usage(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUsage, match="cannot be written"):
        write_whole(tmp_path / "file" / "below", "text")


def test_lines_are_strict_json_and_one_line_each_whatever_was_answered():
    rows = [{"text": "\u2028\u202e\x00\n\x85", "nats": float("-inf"), "more": [float("nan"), 1.5]}]
    text = json_lines(rows)

    assert text.isascii() and len(text.splitlines()) == 1
    assert json.loads(text, parse_constant=pytest.fail) == rows[0] | {"nats": None, "more": [None, 1.5]}


def test_sums_are_those_of_the_command_of_that_name_and_cover_every_other_file(folder):
    root = folder.path.parent
    (root / "a name with spaces").write_text("x")
    write_sums(root)

    command = ["sha256sum", "--check", "--strict", SUMS]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(names_in(root)) - 1 == 4


def test_before_anything_changes_the_sums_and_what_a_killed_writer_left_are_taken_away(folder):
    root = folder.path.parent
    write_sums(root)
    (folder.path / f".results.json.{os.getpid()}.tmp").write_text("ha")
    begin_writing(root)

    assert sorted(names_in(root)) == [
        f"{folder.path.name}/{name}" for name in ("results.json", "run.json", "ttm/log.txt")
    ]


# --- what was changed ---


@pytest.mark.parametrize("name", ["results.json", "ttm/log.txt"])
@pytest.mark.parametrize("has_sums", [True, False], ids=["sums", "killed before the sums"])
@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_file_that_was_changed_or_is_gone_is_named(folder, lake, name, has_sums, change):
    root, path = folder.path.parent, folder.path / name
    if has_sums:
        write_sums(root)
    require_unchanged(root, lake)
    path.write_text("other") if change == "edit" else path.unlink()

    with pytest.raises(ChecksumMismatch, match=name):
        require_unchanged(root, lake)


def test_a_part_that_is_not_in_the_lake_is_named(folder, lake):
    folder.write_component("ttm", run_id="model-ttm-1", parts={"outputs": [PART]}, state="complete")
    with pytest.raises(ChecksumMismatch, match=f"run=model-ttm-1/part-{PART}"):
        require_unchanged(folder.path.parent, lake)


# --- lists that are damaged, or lead out ---


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nonsense", "line 1: expected a sha256 and a file, found 'nonsense'"),
        (f"{'0' * 63}  release.json", "expected a sha256 and a file"),
        (f"{'0' * 64} *release.json", "expected a sha256 and a file"),
        (f"{'0' * 64}  ../outside", "expected a path that stays in"),
        (f"{'0' * 64}  model/../../outside", "expected a path that stays in"),
        (f"{'0' * 64}  /etc/passwd", "expected a path that stays in"),
        (f"{'0' * 64}  a\\b", "expected a path that stays in"),
        (f"{'0' * 64}  ./a", "expected a path that stays in"),
        (f"{'0' * 64}  a\u202eb", "expected a path that stays in"),
        (f"{'0' * 64}  gone", "expected the file that SHA256SUMS"),
    ],
)
def test_damaged_sums_are_told_in_one_sentence(folder, lake, line, sentence):
    root = folder.path.parent
    (root / SUMS).write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises((InvalidSource, ChecksumMismatch)) as refused:
        require_unchanged(root, lake)

    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_sums_that_leave_out_what_states_the_other_hashes_are_refused(folder, lake):
    root = folder.path.parent
    write_sums(root)
    lines = (root / SUMS).read_text().splitlines(keepends=True)
    (root / SUMS).write_text("".join(line for line in lines if RUN not in line))
    with pytest.raises(ChecksumMismatch, match=f"expected a line for {folder.path.name}/{RUN}, found none"):
        require_unchanged(root, lake)


def test_sums_that_are_no_text_are_told_in_one_sentence(folder, lake):
    (folder.path.parent / SUMS).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSource, match=r"SHA256SUMS: cannot be read"):
        require_unchanged(folder.path.parent, lake)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "damaged, or of another version"),
        (b'{"format": 2}', "damaged, or of another version"),
    ],
    ids=["empty", "half", "bytes", "deep", "list", "version"],
)
def test_a_damaged_run_json_is_told_in_one_sentence(folder, content, sentence):
    (folder.path / RUN).write_bytes(content)
    with pytest.raises(InvalidSource, match=sentence) as refused:
        read_records(folder.path.parent)
    assert str(folder.path / RUN) in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"files": {"../other": "0" * 64}}, "expected a path that stays in"),
        ({"files": {"/etc/passwd": "0" * 64}}, "expected a path that stays in"),
        ({"files": {"": "0" * 64}}, "expected a path that stays in"),
        ({"files": {"results.json": "0" * 63}}, "damaged, or of another version"),
        ({"revision": "main"}, "damaged, or of another version"),
        ({"components": {"ttm": {"dataset_id": "ttm"}}}, "damaged, or of another version"),
        ({"components": {}}, "expected the components smolcua, marc, procedural_pile, ttm, found "),
        ({"unknown": 1}, "damaged, or of another version"),
    ],
)
def test_a_run_json_that_says_what_it_cannot_is_refused(folder, changes, sentence):
    write_whole(folder.path / RUN, json.dumps(stored(folder) | changes))
    with pytest.raises(InvalidSource, match=sentence):
        read_records(folder.path.parent)


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "../../outside", "parts": {"outputs": [PART]}},
        {"run_id": "..", "parts": {"outputs": [PART]}},
        {"parts": {"../outputs": [PART]}},
        {"parts": {"elsewhere": [PART]}},
    ],
)
def test_parts_that_lead_out_of_the_lake_are_refused(folder, changes):
    said = stored(folder)
    said["components"]["ttm"] |= changes
    write_whole(folder.path / RUN, json.dumps(said))
    with pytest.raises(InvalidSource, match="expected parts of raw tables"):
        read_records(folder.path.parent)


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "/etc"])
def test_a_link_that_leads_out_is_refused(folder, tmp_path, lake, target):
    (tmp_path / "secret").write_text("x")
    (folder.path.parent / "link").symlink_to(target)
    with pytest.raises(InvalidSource, match="expected a path that stays in"):
        names_in(folder.path.parent)
    with pytest.raises(InvalidSource, match="expected a path that stays in"):
        require_unchanged(folder.path.parent, lake)


@pytest.mark.parametrize("name", ["two\nlines", "\udcff"], ids=["newline", "no UTF-8"])
def test_a_name_that_sums_cannot_hold_is_refused_before_they_are_written(folder, name):
    (folder.path / name).touch()
    with pytest.raises(InvalidSource, match="expected a path that stays in"):
        write_sums(folder.path.parent)


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["pipe", "dangling link"]
)
def test_what_cannot_be_hashed_is_refused_and_named(folder, lake, make):
    make(folder.path / "odd")
    with pytest.raises(InvalidSource, match="found 'model@00000000/odd', which is neither: take it away"):
        require_unchanged(folder.path.parent, lake)


def test_the_folder_of_a_model_that_is_a_link_leading_out_is_refused(folder, tmp_path):
    folder.path.rename(tmp_path / "elsewhere")
    folder.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSource, match="expected a path that stays in"):
        read_records(folder.path.parent)


@pytest.mark.parametrize("content", ["{}", "[]", '{"release_id": 1}', "no"])
def test_a_damaged_release_is_told_in_one_sentence(tmp_path, content):
    assert read_release(tmp_path) is None
    (tmp_path / "release.json").write_text(content)
    with pytest.raises(InvalidSource, match=r"release.json: "):
        read_release(tmp_path)
