"""Tiny Theory of Mind: is each story an item with its four endings, and is any other file refused whole?

What all files of questions have in common is tried here as well: lines, JSON, text, pins.
"""

import gzip
import hashlib
import io
import json
import zipfile

import pytest
from question_sets import (
    REVISION,
    changed,
    declare,
    ingested,
    items_of,
    lines,
    refusal,
    rows_of,
    sha256,
    without_runs,
)

from generate import standins
from ingest import question_files
from ingest.pipeline import IMPORTERS, ingest, upstream
from ingest.ttm import TheoryOfMindImporter
from store import command_ingest
from store.manifest import load_sources
from store.protocol import load_components, load_datasets
from store.settings import Home

N_LIKE, N_PUBLISHED = (load_datasets()[name].n_examples for name in ("ttm_like", "ttm"))
FILE = "ttm_like.jsonl"
ENDINGS = ["looks in the box.", "looks in the jar.", "asks Bo.", "leaves."]
PUBLISHED = "tiny_theory_of_mind_2000.jsonl"


def stories(n=N_LIKE):
    return [
        {
            "ind": number,
            "ctx": f"Ida puts pin {number} into the box and leaves. Bo moves it. Back again, Ida",
            "endings": ["looks in the box.", " looks in the jar.", "asks Bo. ", "leaves."],
            "label": number % 4,
            "activity_label": "Unseen move",
            "metadata": {"topic": "household"},
        }
        for number in range(n)
    ]


def refused(folder, content):
    return refusal(folder, "ttm_like", FILE, content)


def refused_for(folder, number, **fields):
    return refused(folder, lines(changed(stories(), number, **fields)))


def test_each_story_is_an_item_with_its_four_endings(tmp_path):
    items = items_of(tmp_path, "ttm_like", {FILE: lines(stories())})
    assert len(items) == N_LIKE == 400
    for number, item in enumerate(items):
        assert item == {
            "item_id": f"ttm_like-{sha256(lines(stories()))[:12]}-v1/{number}",
            "mode_id": "ttm_like",
            "source_id": "ttm_like",
            "split": None,
            "participant_id": None,
            "prompt": stories()[number]["ctx"],
            "template_id": "ttm_like-v1",
            "template_sha256": sha256(TheoryOfMindImporter.prompt_rule),
            "legal_options": ENDINGS,
            "credited_options": [ENDINGS[number % 4]],
            "support_low": None,
            "support_high": None,
            "target": None,
            "facts_json": '{"activity": "Unseen move", "topic": "household"}',
            "max_response_tokens": None,
            "weight": 1.0,
        }


def test_the_run_says_from_which_bytes_its_items_come(tmp_path):
    content = lines(stories())
    lake, report = ingested(tmp_path, "ttm_like", {FILE: content})
    [run] = rows_of(lake, "runs")
    assert run["run_id"] == f"ttm_like-{sha256(content)[:12]}-v1"
    assert (run["source_id"], run["source_sha256"]) == ("ttm_like", sha256(content))
    assert (run["importer_version"], run["planned_modes"], run["kind"]) == (1, ["ttm_like"], "items")
    assert (run["n_source_rows"], run["n_unreadable_rows"], report.notes) == (N_LIKE, 0, ())


def test_a_second_time_there_is_nothing_new(tmp_path):
    content = {FILE: lines(stories())}
    _, first = ingested(tmp_path, "ttm_like", content)
    lake, second = ingested(tmp_path, "ttm_like", content)
    assert (first.n_new_files, first.n_new_rows) == (1, N_LIKE + 1)
    assert (second.n_new_files, second.n_present_files, second.n_new_rows) == (0, 1, 0)
    assert len(rows_of(lake, "items")) == N_LIKE


def test_the_order_of_the_endings_is_not_changed_by_which_is_credited(tmp_path):
    rows = [story | {"label": 3} for story in stories()]
    items = items_of(tmp_path, "ttm_like", {FILE: lines(rows)})
    assert {tuple(item["legal_options"]) for item in items} == {tuple(ENDINGS)}
    assert {tuple(item["credited_options"]) for item in items} == {("leaves.",)}


def test_text_of_any_script_is_kept_to_the_letter(tmp_path):
    said = 'e\u0301 \u202eright to left\u202c \u2028 \U0001f642 "quoted" \\n \r\n\t end '
    rows = changed(stories(), 1, ctx=said)
    assert items_of(tmp_path, "ttm_like", {FILE: lines(rows)})[0]["prompt"] == said


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda text: "\ufeff" + text, "bom"),
        (lambda text: text.replace("\n", "\r\n"), "crlf"),
        (lambda text: text.removesuffix("\n"), "no line end after the last line"),
        (lambda text: "".join(json.dumps(json.loads(line)) + "\n" for line in text.splitlines()), "escaped"),
    ],
)
def test_what_stands_between_rows_changes_nothing(tmp_path, change, name):
    rows = changed(stories(), 7, ctx="caf\u00e9")
    plain = items_of(tmp_path / "plain", "ttm_like", {FILE: lines(rows)})
    found = items_of(tmp_path / "changed", "ttm_like", {FILE: change(lines(rows))})
    assert without_runs(found) == without_runs(plain), name


def test_two_revisions_of_a_set_in_one_lake_do_not_share_their_questions(tmp_path):
    other = changed(stories(), 1, ctx="Ida paints the box. Bo")
    for revision, rows in (("1", stories()), ("2", other)):
        lake, report = ingested(tmp_path, "ttm_like", {FILE: lines(rows)}, revision)
        assert report.n_new_rows == N_LIKE + 1
    items = rows_of(lake, "items")
    assert len({item["item_id"] for item in items}) == len(items) == 2 * N_LIKE


def test_two_files_of_questions_in_one_source_are_refused(tmp_path):
    files = {"a.jsonl": lines(stories()), "b.jsonl": lines(stories()[::-1])}
    lake, report = ingested(tmp_path, "ttm_like", files)
    said = [str(failure).split(": ", 1)[1] for failure in report.failures]
    assert said == ["expected one file of questions in ttm_like, found a.jsonl, b.jsonl"] * 2
    assert rows_of(lake, "items") == []


def test_two_stories_in_the_same_words_are_two_questions(tmp_path):
    rows = changed(stories(), 2, ctx=stories()[0]["ctx"])
    assert len(items_of(tmp_path, "ttm_like", {FILE: lines(rows)})) == N_LIKE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ctx": None}, "ctx: the field is missing"),
        ({"answer": 1}, "answer: unknown field"),
        ({"metadata": {}}, "metadata.topic: the field is missing"),
        ({"metadata": {"topic": "t", "more": 1}}, "metadata.more: unknown field"),
        ({"metadata": ["t"]}, "metadata: expected an object, found ['t']"),
        ({"ctx": ""}, "ctx: expected text, found none"),
        ({"ctx": " \n\t"}, "ctx: expected text, found none"),
        ({"ctx": 5}, "ctx: input should be a valid string, found 5"),
        ({"ctx": "a\x00b"}, "ctx: expected text, found a NUL byte in it"),
        ({"activity_label": "a\x00"}, "activity_label: expected text, found a NUL byte in it"),
        ({"label": 4}, "label: input should be less than 4, found 4"),
        ({"label": -1}, "label: input should be greater than or equal to 0, found -1"),
        ({"label": True}, "label: input should be a valid integer, found True"),
        ({"label": 1.0}, "label: input should be a valid integer, found 1.0"),
        ({"label": "1"}, "label: input should be a valid integer, found '1'"),
        ({"label": [1]}, "label: input should be a valid integer, found [1]"),
        ({"ind": False}, "ind: input should be a valid integer, found False"),
        ({"ind": -1}, "ind: input should be greater than or equal to 0, found -1"),
        ({"endings": "abcd"}, "endings: input should be a valid list, found 'abcd'"),
        ({"endings": ["a", "b", "c"]}, "endings: list should have at least 4 items after validation, not 3"),
        ({"endings": list("abcde")}, "endings: list should have at most 4 items after validation, not 5"),
        ({"endings": ["a", "b", "c", "a"]}, "endings: expected 4 different endings, found 3"),
        ({"endings": ["a", "b", "c", " a\n"]}, "endings: expected 4 different endings, found 3"),
        ({"endings": ["a", "b", "c", "  "]}, "endings.3: expected text, found none"),
        ({"endings": ["a", "b", "c", 4]}, "endings.3: input should be a valid string, found 4"),
        ({"endings": ["a", "b", "c", "d\x00"]}, "endings.3: expected text, found a NUL byte in it"),
    ],
)
def test_one_wrong_field_refuses_the_file(tmp_path, fields, said):
    found = refused_for(tmp_path, 17, **fields)
    assert found.startswith(f"line 17: {said}"), found


def test_null_is_not_an_absent_field(tmp_path):
    row = stories()[0] | {"label": None}
    content = lines([row, *stories()[1:]])
    assert refused(tmp_path, content) == "line 1: label: input should be a valid integer, found None"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON (Expecting property name"),
        ('{"ind": 1', "not JSON (Expecting ',' delimiter"),
        ('{"ind": 1} {"ind": 2}', "not JSON (Extra data"),
        ("", "not JSON (Expecting value"),
        ("   ", "not JSON (Expecting value"),
        ("[1, 2]", "expected an object, found [1, 2]"),
        ('"text"', "expected an object, found 'text'"),
        ("null", "expected an object, found None"),
        ('{"ind": NaN}', "not JSON (NaN is no number)"),
        ('{"ind": -Infinity}', "not JSON (-Infinity is no number)"),
        ('{"ind": 1, "ind": 2}', "not JSON (the key 'ind' is there twice)"),
        ('{"metadata": {"topic": "a", "topic": "b"}}', "not JSON (the key 'topic' is there twice)"),
        ('{"ctx": "a\tb"}', "not JSON (Invalid control character"),
        ('{"ctx": "\\ud800"}', "ctx: expected text, found half a surrogate pair at character 0"),
        ('{"ctx": "ok \\udc00\\ud800"}', "ctx: expected text, found half a surrogate pair at character 3"),
        ('{"ind": ' + "9" * 5000 + "}", "not JSON (Exceeds the limit"),
        ('{"ind": ' + "[" * 100_000 + "]" * 100_000 + "}", "expected a JSON value, found one that is nested"),
        ("ind,ctx,endings,label", "not JSON (Expecting value"),
    ],
)
def test_a_line_that_is_no_object_of_json_refuses_the_file(tmp_path, line, said):
    whole = lines(stories()).splitlines()
    if line.startswith('{"ctx": "') and "ud" in line:
        # a whole story, so that nothing else is wrong with it
        whole[2] = whole[2].replace(json.dumps(stories()[2]["ctx"]), line[len('{"ctx": ') : -1])
    else:
        whole[2] = line
    found = refused(tmp_path, "\n".join(whole) + "\n")
    assert found.startswith(f"line 3: {said}"), found
    assert len(found) < 300


def test_blank_lines_at_the_end_are_no_stories(tmp_path):
    assert refused(tmp_path, lines(stories()) + "\n").startswith("line 401: not JSON")


def test_bytes_that_are_not_utf_8_are_named_by_their_line(tmp_path):
    content = lines(stories()).encode().splitlines(keepends=True)
    content[4] = content[4].replace(b"Ida", b"\xff\xfe", 1)
    place = len(b"".join(content[:4])) + content[4].index(b"\xff")
    assert refused(tmp_path, b"".join(content)) == f"line 5: not UTF-8 text at byte {place}"
    assert refused(tmp_path / "16", lines(stories()).encode("utf-16")).startswith("line 1: not UTF-8 text")


def zipped(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../climbs_out.jsonl", content)
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [lambda text: gzip.compress(text.encode()), zipped])
def test_a_packed_file_is_refused_and_nothing_is_unpacked(tmp_path, pack):
    said = refused(tmp_path, pack(lines(stories())))
    assert said.startswith("line 1: not")
    assert list(tmp_path.rglob("climbs_out*")) == []


def test_an_empty_file_is_refused(tmp_path):
    assert refused(tmp_path, "") == "expected 400 questions, which ttm_like has, found 0"
    assert refused(tmp_path / "mark", "\ufeff") == "expected 400 questions, which ttm_like has, found 0"


@pytest.mark.parametrize("n", [N_LIKE - 1, N_LIKE + 1])
def test_one_story_short_or_too_many_refuses_the_file(tmp_path, n):
    assert refused(tmp_path, lines(stories(n))) == f"expected 400 questions, which ttm_like has, found {n}"


def test_an_id_that_is_there_twice_refuses_the_file(tmp_path):
    said = "row 9: expected each ind once, found 2 in row 3 too"
    assert refused_for(tmp_path, 9, ind=2) == said
    assert refused(tmp_path / "row", lines([*stories()[:8], stories()[2], *stories()[9:]])) == said


# --- what is published ---


def published(monkeypatch, content, **fields):
    return declare(monkeypatch, "ttm", revision=REVISION, source_sha256=sha256(content), **fields)


def test_the_published_stories_come_in_by_the_same_importer(tmp_path, monkeypatch):
    content = lines(stories(N_PUBLISHED))
    published(monkeypatch, content)
    items = items_of(tmp_path, "ttm", {PUBLISHED: content, "README.md": "about"}, REVISION)
    assert len(items) == N_PUBLISHED == 2000
    assert {item["mode_id"] for item in items} == {item["source_id"] for item in items} == {"ttm"}
    assert (
        items[-1]["item_id"] == f"ttm-{sha256(content)[:12]}-v1/1999" and items[-1]["template_id"] == "ttm-v1"
    )


def test_another_file_under_the_published_name_is_refused_with_both_hashes(tmp_path):
    content, component = lines(stories(N_PUBLISHED)), load_components()["ttm"]
    said = refusal(tmp_path, "ttm", PUBLISHED, content, revision=component.revision)
    assert said == (
        f"expected sha256 {component.source_sha256}, which ttm declares, found {sha256(content)}: pin the "
        "file that has it"
    )


def test_another_revision_under_the_published_name_is_refused(tmp_path):
    component, other = load_components()["ttm"], "f" * 40
    said = refusal(tmp_path, "ttm", PUBLISHED, lines(stories(N_PUBLISHED)), revision=other)
    expected = f"expected revision {component.revision}, which ttm declares, found {other}: pin that one"
    assert said == expected


def test_of_several_files_the_declared_one_is_read(tmp_path, monkeypatch):
    content = lines(stories(N_PUBLISHED))
    published(monkeypatch, content)
    others = {"train.jsonl": lines(stories(3)), PUBLISHED: content}
    assert len(items_of(tmp_path, "ttm", others, REVISION)) == N_PUBLISHED


def test_the_published_pin_is_that_of_the_component():
    source, component = load_sources()["ttm"], load_components()["ttm"]
    [file] = source.files
    assert (source.repo, source.revision) == (component.repo, component.revision)
    assert (file.path, file.sha256) == (component.source_path, component.source_sha256)
    assert source.gated and IMPORTERS["ttm"].identify(source, file) == "ttm-58827a036159-v1"


def test_every_data_set_has_an_importer_and_a_pin_or_a_way_to_pin_it():
    known = load_sources()
    for dataset in load_datasets().values():
        assert dataset.source_id in IMPORTERS, dataset
        if not dataset.is_stand_in and dataset.source_id not in known:
            component = load_components()[dataset.component_id]
            assert upstream(dataset.source_id) == f"{component.repo} --revision {component.revision}"
    assert upstream("ttm_like") is None


# --- what is made here ---


@pytest.fixture
def maker(tmp_path, monkeypatch):
    """Stand-ins that a test makes, and how often."""
    content, made = lines(stories()).encode(), []
    block = {
        "kind": "generated",
        "repo": "ttm_like",
        "revision": "1",
        "licence": "MIT",
        "description": "Stories.",
        "files": [{"path": FILE, "sha256": hashlib.sha256(content).hexdigest()}],
    }
    source = type(load_sources()["ttm"]).model_validate({"id": "ttm_like", **block})

    def write(source_id, folder):
        made.append(source_id)
        path = folder / source.mirror_path(source.files[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    monkeypatch.setattr(standins, "write", write)
    return source, made


def test_a_stand_in_is_made_once_and_needs_no_mirror(tmp_path, maker):
    source, made = maker
    lake = Home(tmp_path / "lake")
    assert [report.n_new_files for report in ingest(lake, [source], dry_run=True)] == [1]
    assert not lake.root.exists()
    reports = [command_ingest.ingest_stand_in(lake, source) for _ in range(2)]
    assert [(report.n_new_files, report.n_present_files) for report in reports] == [(1, 0), (0, 1)]
    assert [report.n_new_rows for report in reports] == [N_LIKE + 1, 0]
    assert made == ["ttm_like"]


STAND_INS = [dataset for dataset in load_datasets().values() if dataset.is_stand_in]


@pytest.mark.parametrize("dataset", STAND_INS, ids=lambda dataset: dataset.dataset_id)
def test_every_stand_in_is_made_and_comes_in_whole(tmp_path, dataset):
    lake = Home(tmp_path / "lake")
    source = load_sources()[dataset.source_id]
    report = command_ingest.ingest_stand_in(lake, source)
    assert report.failures == () and report.n_unreadable_rows == 0
    items = rows_of(lake, "items")
    assert {item["mode_id"] for item in items} == {dataset.dataset_id}
    assert len({item["item_id"] for item in items}) == len(items) == dataset.n_examples
    [run] = rows_of(lake, "runs")
    assert run["source_sha256"] == source.files[0].sha256


def test_nobody_gets_a_stand_in_who_has_not_named_it():
    made = {source.id for source in load_sources().values() if source.kind == "generated"}
    assert made & {source.id for source in command_ingest._choose(load_sources(), ())} == set()


def test_the_lake_that_cannot_hold_a_stand_in_is_one_sentence(tmp_path, maker, monkeypatch):
    source, _ = maker

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(standins, "write", full)
    with pytest.raises(command_ingest.LakeUnusable, match=r"cannot use .*standin_mirror: No space left"):
        command_ingest.ingest_stand_in(Home(tmp_path / "lake"), source)


def test_a_source_without_questions_says_so():
    with pytest.raises(question_files.InvalidSource, match="no data set of"):
        question_files.data_set(load_sources()["tomi"])
