"""Stand-ins: what a generator makes is what is pinned, and nothing else is ever written."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generate import standins
from generate.standins import MAKERS, Maker, differences, generator_sha256, revision, write
from store.errors import InvalidSource
from store.manifest import Source, load_sources
from store.protocol import load_datasets

SOURCES = load_sources()
# what is made anew; the other one is a file of the project
MADE = [name for name, maker in MAKERS.items() if not maker.is_committed]


@pytest.fixture(scope="module")
def contents():
    return {name: maker.content() for name, maker in MAKERS.items()}


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A generator that can be changed: returns the function that writes it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(standins, "MAKERS", {"toy": Maker("toy_rows")})

    def wrote(text: str) -> None:
        (tmp_path / "toy_rows.py").write_bytes(text.encode())
        sys.modules.pop("toy_rows", None)
        # a file that is changed twice within a second may have the same time
        for compiled in tmp_path.rglob("*.pyc"):
            compiled.unlink()

    yield wrote
    sys.modules.pop("toy_rows", None)


ROWS = '{"id":1,"text":"é"}\n{"id":2,"text":"ß"}\n'
TOY = 'REVISION = "3"\n\n\ndef rows():\n    return [{"id": 1, "text": "é"}, {"id": 2, "text": "ß"}]\n'


def pinned(content: str, version: str, kind: str = "generated") -> Source:
    data = content.encode()
    file = {"path": "toy.jsonl", "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return Source(
        id="toy", kind=kind, repo="toy", revision=version, licence="MIT", description="A toy.", files=[file]
    )


def test_every_stand_in_of_the_protocol_has_a_generator_and_a_pin():
    declared = {row.source_id for row in load_datasets().values() if row.is_stand_in}
    assert set(MAKERS) == declared <= set(SOURCES)
    assert all(SOURCES[name].kind == "generated" and SOURCES[name].n_files == 1 for name in MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_now_is_what_is_pinned(name):
    # a difference says what to do: a changed generator is a new revision, pinned anew in sources.toml
    assert differences(SOURCES[name]) == ()


@pytest.mark.parametrize("name", MADE)
def test_a_stand_in_has_as_many_rows_as_the_protocol_declares(contents, name):
    (dataset,) = (row for row in load_datasets().values() if row.source_id == name)
    assert contents[name].count(b"\n") == dataset.n_examples


@pytest.mark.parametrize("name", MADE)
def test_a_line_is_one_compact_object_in_plain_utf8(contents, name):
    for line in contents[name].decode().splitlines(keepends=True):
        again = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
        assert f"{again}\n" == line


def test_the_order_of_sets_and_the_time_zone_change_nothing(contents):
    program = (
        "import hashlib\n"
        "from generate.standins import MAKERS\n"
        "print(hashlib.sha256(MAKERS['ttm_like'].content()).hexdigest())\n"
        "from generate.standins import marc_like\n"
        "print([marc_like._draw_puzzle(name, 0, 0, set()) for name in marc_like.FAMILIES])\n"
    )
    project = Path(__file__).resolve().parents[2]
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(project)},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    (one,) = said
    assert one.startswith(hashlib.sha256(contents["ttm_like"]).hexdigest())


def test_a_file_is_written_where_a_mirror_keeps_it(contents, tmp_path):
    path = write("ttm_like", tmp_path)
    source = SOURCES["ttm_like"]
    assert path == tmp_path / "generated" / "ttm_like" / revision("ttm_like") / "ttm_like.jsonl"
    assert path == tmp_path / source.mirror_path(source.files[0])
    assert path.read_bytes() == contents["ttm_like"]
    assert write("ttm_like", tmp_path) == path
    assert list(path.parent.iterdir()) == [path]


def test_a_revision_names_the_version_and_the_text_of_the_generator(toy):
    toy(TOY)
    sha256 = hashlib.sha256(TOY.encode()).hexdigest()
    assert generator_sha256("toy") == sha256
    assert revision("toy") == f"3-{sha256[:12]}"


def test_line_ends_of_a_checkout_are_no_change_of_a_generator(toy):
    toy(TOY)
    before = generator_sha256("toy")
    toy(TOY.replace("\n", "\r\n"))
    assert generator_sha256("toy") == before


def test_the_text_of_every_file_of_a_generator_counts(toy, tmp_path):
    words = tmp_path / "words.txt"
    words.write_bytes(b"one\r\ntwo\r\n")
    text = f"from pathlib import Path\n\nSOURCES = (Path(__file__), Path({str(words)!r}))\n{TOY}"
    toy(text)
    assert generator_sha256("toy") == hashlib.sha256(text.encode() + b"one\ntwo\n").hexdigest()


@pytest.mark.parametrize("name", MAKERS)
def test_a_generator_names_every_module_of_stand_ins_that_it_is_made_of(name):
    module = MAKERS[name].load()
    files, ahead = set(), {Path(module.__file__)}
    while ahead:
        files |= ahead
        text = "".join(path.read_text(encoding="utf-8") for path in ahead)
        named = set(re.findall(r"from generate\.standins\.(\w+) import", text))
        for several in re.findall(r"from generate\.standins import ([\w, ]+)", text):
            named |= set(several.split(", "))
        ahead = {Path(standins.__file__).with_name(f"{part}.py") for part in named} - files
    assert set(getattr(module, "SOURCES", [Path(module.__file__)])) == files


def test_a_changed_row_is_a_difference_that_says_what_to_do(toy):
    toy(TOY)
    source = pinned(ROWS, revision("toy"))
    assert differences(source) == ()
    changed = ROWS.replace("ß", "ss")
    toy(TOY.replace("ß", "ss"))
    of_bytes, of_revision = differences(source)
    assert of_bytes == (
        f"[toy] files: expected sha256 {source.files[0].sha256}, but toy_rows makes "
        f"{hashlib.sha256(changed.encode()).hexdigest()} ({len(changed.encode())} bytes); if the change is "
        "meant, raise REVISION there, and pin these bytes under the revision that it then has"
    )
    assert of_revision == (
        f"[toy] revision: expected {source.revision!r}, but toy_rows is {revision('toy')!r}; "
        "if the change is meant, pin that revision"
    )


def test_a_changed_comment_is_another_revision_of_the_same_bytes(toy):
    toy(TOY)
    source = pinned(ROWS, revision("toy"))
    toy(f"# why\n{TOY}")
    (difference,) = differences(source)
    assert difference.startswith("[toy] revision: ")


def test_other_bytes_than_the_pinned_ones_are_never_written(toy, monkeypatch, tmp_path):
    toy(TOY)
    source = pinned(ROWS, revision("toy"))
    monkeypatch.setattr(standins, "load_sources", lambda: {"toy": source})
    mirror = tmp_path / "mirror"
    path = write("toy", mirror)
    assert path.read_text(encoding="utf-8") == ROWS
    toy(TOY.replace("ß", "ss"))
    with pytest.raises(InvalidSource, match=r"sources\.toml: \[toy\] files: expected sha256"):
        write("toy", mirror)
    # what was there stays
    assert path.read_text(encoding="utf-8") == ROWS


def test_a_stand_in_is_one_generated_file(toy, monkeypatch, tmp_path):
    toy(TOY)
    published = pinned(ROWS, "0" * 40).model_copy(update={"kind": "hub_dataset"})
    monkeypatch.setattr(standins, "load_sources", lambda: {"toy": published})
    with pytest.raises(InvalidSource, match="expected one file of kind generated, found 1 of hub_dataset"):
        write("toy", tmp_path)


def test_a_stand_in_without_a_pin_is_not_written(toy, monkeypatch, tmp_path):
    toy(TOY)
    monkeypatch.setattr(standins, "load_sources", dict)
    with pytest.raises(InvalidSource, match=r"sources\.toml: expected a block \[toy\], found none"):
        write("toy", tmp_path)


def test_what_is_no_stand_in_is_refused_by_name(tmp_path):
    with pytest.raises(InvalidSource, match="marc: expected a stand-in, one of marc_like, pile_like"):
        write("marc", tmp_path)


def test_a_committed_file_is_taken_as_it_is(contents):
    from generate.standins import pile_like

    assert contents["pile_like"] == pile_like.path().read_bytes()
