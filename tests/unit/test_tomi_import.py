"""ToMi: is every question of the test split an item with two containers, and is a bad zip refused?"""

import io
import json
import unicodedata
import zipfile

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest import tomi
from ingest.tomi import ToMiImporter
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES

ZIP = "tomi_balanced_story_types.zip"
FOLDER = "tomi_balanced_story_types"
STORY = (
    "Ida came into the attic.",
    "The pin is in the red_tin.",
    "Bo moved the pin to the blue_jar.",
    "Bo left",
)
QUESTIONS = {
    "memory": ("Where was the pin at the beginning?", "red_tin", "memory"),
    "reality": ("Where is the pin really?", "blue_jar", "reality"),
    "first_order": ("Where will Ida look for the pin?", "red_tin", "first_order_0_tom"),
    "second_order": (
        "Where does Bo think that Ida searches for the pin?",
        "blue_jar",
        "second_order_1_no_tom",
    ),
}


def told(*sentences, question="Where is the pin really?", answer="blue_jar", first=1):
    lines = [*sentences, f"{question}\t{answer}\t1"]
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, start=first))


def traced(kind="reality", story_type="false_belief"):
    return f"enter_agent_0,agent_1_exits,{kind},{story_type}\n"


def zipped(questions, traces, **others):
    """Return a zip; ``others`` are members of the folder, by name without its ending."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{FOLDER}/fb_all_test.txt", questions)
        archive.writestr(f"{FOLDER}/fb_all_test.trace", traces)
        for name, text in others.items():
            archive.writestr(f"{FOLDER}/{name}.txt", text)
    return buffer.getvalue()


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, questions, traces, **others):
    lake, report = ingested(folder, "tomi", ZIP, zipped(questions, traces, **others))
    assert report.failures == (), report.failures
    return rows_of(lake, "items"), report


def refusal(folder, content):
    lake, report = ingested(folder, "tomi", ZIP, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    assert rows_of(lake, "runs") == []
    where = f"generated://handwritten@1/{ZIP}: "
    assert str(failure).startswith(where), failure
    return str(failure).removeprefix(where)


def test_each_question_is_an_item_with_both_containers(tmp_path):
    questions = "".join(
        told(*STORY, question=asked, answer=answer) for asked, answer, _ in QUESTIONS.values()
    )
    traces = "".join(traced(kind) for _, _, kind in QUESTIONS.values())
    items, report = imported(tmp_path, questions, traces)
    assert len(items) == 4 and (report.n_source_rows, report.n_unreadable_rows) == (4, 0)
    for number, (item, (kind, (asked, answer, _))) in enumerate(zip(items, QUESTIONS.items(), strict=True)):
        assert item["item_id"].endswith(f"/0/{number}")
        assert (item["mode_id"], item["source_id"], item["split"]) == ("false_belief_qa", "tomi", "test")
        assert item["legal_options"] == ["blue_jar", "red_tin"] and item["credited_options"] == [answer]
        assert item["participant_id"] is None and item["weight"] == 1.0
        facts = {"story": 0, "question_type": kind, "story_type": "false_belief"}
        assert json.loads(item["facts_json"]) == facts
        assert "\n".join(STORY) in item["prompt"] and asked in item["prompt"]
        assert item["prompt"].endswith("Containers: blue_jar, red_tin\nAnswer:")
        assert item["template_id"] == "false_belief" and len(item["template_sha256"]) == 64


def test_a_prompt_does_not_depend_on_the_answer(tmp_path):
    by_answer = [
        imported(tmp_path / answer, told(*STORY, answer=answer), traced())[0][0]
        for answer in ("blue_jar", "red_tin")
    ]
    assert len({item["prompt"] for item in by_answer}) == len({item["facts_json"] for item in by_answer}) == 1
    assert [item["legal_options"] for item in by_answer] == [["blue_jar", "red_tin"]] * 2
    assert [item["credited_options"] for item in by_answer] == [["blue_jar"], ["red_tin"]]


def test_the_order_of_the_containers_does_not_tell_where_the_object_is(tmp_path):
    back = ("The pin is in the blue_jar.", "Bo moved the pin to the red_tin.")
    items, _ = imported(tmp_path, told(*STORY) + told(*back, answer="red_tin"), traced() * 2)
    assert [item["legal_options"] for item in items] == [["blue_jar", "red_tin"]] * 2


def test_where_other_things_are_is_no_container_of_the_object(tmp_path):
    others = ("The blue_jar is in the attic.", "The cup is in the drawer.", "Bo moved the cup to the sink.")
    items, _ = imported(tmp_path, told(*others, *STORY), traced())
    assert items[0]["legal_options"] == ["blue_jar", "red_tin"]


def test_a_story_that_is_told_again_later_keeps_its_number(tmp_path):
    other = ("The pin is in the box.", "Bo moved the pin to the crate.")
    questions = (
        told(*STORY)
        + told(*other, answer="crate")
        + told(*STORY, question="Where was the pin at the beginning?", answer="red_tin")
    )
    items, _ = imported(tmp_path, questions, traced() * 2 + traced("memory"))
    assert [item["item_id"].split("/", 1)[1] for item in items] == ["0/0", "0/1", "1/0"]


def test_questions_of_other_splits_are_counted_and_not_asked(tmp_path):
    others = {"fb_all_train": told(*STORY) * 3, "fb_all_val": told(*STORY) * 2}
    items, report = imported(tmp_path, told(*STORY), traced(), **others)
    assert len(items) == 1 and report.n_source_rows == 6
    note = "5 rows: questions of the splits train and val, which nobody is asked; left out"
    assert report.notes == (f"{ZIP}: {note}",)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda text: text.replace("\n", "\r\n"), "crlf"),
        (lambda text: "\ufeff" + text, "bom"),
        (lambda text: text.rstrip("\n"), "no newline at the end"),
        (lambda text: text + "\n\n", "blank lines at the end"),
    ],
)
def test_line_ends_and_marks_change_nothing(tmp_path, change, name):
    plain, _ = imported(tmp_path / "plain", told(*STORY), traced())
    changed, report = imported(tmp_path / "changed", change(told(*STORY)), change(traced()))
    assert report.n_unreadable_rows == 0
    for key in ("prompt", "legal_options", "credited_options", "facts_json"):
        assert plain[0][key] == changed[0][key], (name, key)


def test_composed_and_decomposed_letters_are_the_same_container(tmp_path):
    story = ("The pin is in the caf\u00e9.", "Bo moved the pin to the blue_jar.")
    decomposed = unicodedata.normalize("NFD", "caf\u00e9")
    items, _ = imported(tmp_path, told(*story, answer=decomposed), traced())
    assert items[0]["credited_options"] == ["caf\u00e9"] and "caf\u00e9" in items[0]["legal_options"]


@pytest.mark.parametrize(
    ("broken", "kind", "flaw"),
    [
        (told(*STORY).replace("3 ", "4 "), "reality", "not numbered from 1"),
        (told(*STORY).replace("\t1\n", "\n"), "reality", "not numbered from 1"),
        ("".join(f"{n} {line}\n" for n, line in enumerate(STORY, 1)), "reality", "not numbered from 1"),
        (told(*STORY, question="Why is the pin there?"), "reality", "the question is of no known kind"),
        (told(*STORY), "memory", "the trace is of another kind than the question"),
        (told(*STORY), "reality_9", "the trace is of another kind than the question"),
        (told(STORY[0], STORY[1]), "reality", "the object is not put into two containers"),
        (
            told(*STORY, "Bo moved the pin to the sack."),
            "reality",
            "the object is not put into two containers",
        ),
        (told(*STORY, answer="attic"), "reality", "the answer is none of the two containers"),
    ],
)
def test_a_question_that_cannot_be_read_is_counted_and_named(tmp_path, broken, kind, flaw):
    items, report = imported(tmp_path, told(*STORY) + broken, traced() + traced(kind))
    assert len(items) == 1 and (report.n_source_rows, report.n_unreadable_rows) == (2, 1)
    [note] = report.notes
    assert note.startswith(f"{ZIP}: 1 rows: ") and flaw in note and note.endswith("; left out")


def test_a_question_that_is_asked_twice_of_a_story_is_left_out_once(tmp_path):
    items, report = imported(tmp_path, told(*STORY) * 2, traced() * 2)
    assert len(items) == 1
    assert "1 rows: the story was told with this question before; left out" in report.notes[0]


def test_a_trace_without_kinds_is_a_flaw(tmp_path):
    items, report = imported(tmp_path, told(*STORY), "enter_agent_0\n")
    assert items == [] and "the trace has no kinds of question and story" in report.notes[0]


def test_traces_that_do_not_match_in_number_refuse_the_file(tmp_path):
    said = refusal(tmp_path, zipped(told(*STORY), traced() * 2))
    assert said == f"expected one line of {FOLDER}/fb_all_test.trace per question, found 2 for 1"


def test_a_zip_without_stories_is_a_run_without_rows(tmp_path):
    items, report = imported(tmp_path, "", "")
    assert items == [] and report.notes == (f"{ZIP}: the file holds no rows",)


@pytest.mark.parametrize(
    "path", ["../out.txt", "a/../../out.txt", "/etc/out.txt", "C:/out.txt", "..\\out.txt"]
)
def test_a_member_that_climbs_out_refuses_the_zip(tmp_path, path):
    buffer = io.BytesIO(zipped(told(*STORY), traced()))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(path, "x")
    assert refusal(tmp_path, buffer.getvalue()) == f"expected members inside the zip, found the path {path!r}"


def test_a_member_that_is_there_twice_refuses_the_zip(tmp_path):
    buffer = io.BytesIO(zipped(told(*STORY), traced()))
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(f"{FOLDER}/fb_all_test.txt", "x")
    said = refusal(tmp_path, buffer.getvalue())
    assert said == f"expected each member once, found {FOLDER}/fb_all_test.txt several times"


def test_a_zip_without_the_test_split_is_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{FOLDER}/fb_all_test.txt", told(*STORY))
    said = refusal(tmp_path, buffer.getvalue())
    assert said == f"expected the member {FOLDER}/fb_all_test.trace, found none of this name"


def test_an_encrypted_member_is_refused(tmp_path):
    data = bytearray(zipped(told(*STORY), traced()))
    # bit 0 of the flags in the directory's first entry
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refusal(tmp_path, bytes(data)) == f"{FOLDER}/fb_all_test.txt is encrypted"


def test_a_member_that_is_too_large_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(tomi, "_MAX_MEMBER_BYTES", 1000)
    said = refusal(tmp_path, zipped(told(*STORY) * 100, traced() * 100))
    assert said.startswith(f"expected members of at most 1,000 bytes, found {FOLDER}/fb_all_test.txt of ")


def test_a_member_that_is_larger_than_it_claims_is_damaged(tmp_path):
    data = bytearray(zipped(told(*STORY) * 100, traced() * 100))
    # unpacked size in the directory's first entry
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = (10).to_bytes(4, "little")
    assert refusal(tmp_path, bytes(data)).startswith("not readable as zip (")


@pytest.mark.parametrize("damage", [lambda data: data[:-30], lambda data: b"", lambda data: b"no zip at all"])
def test_a_damaged_zip_is_refused(tmp_path, damage):
    assert refusal(tmp_path, damage(zipped(told(*STORY), traced()))).startswith("not readable as zip (")


def test_a_member_with_a_wrong_checksum_is_refused(tmp_path):
    data = bytearray(zipped(told(*STORY), traced()))
    data[data.index(b"fb_all_test.txt") + 20] ^= 0xFF
    assert refusal(tmp_path, bytes(data)).startswith("not readable as zip (")


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    content = zipped(told(*STORY).encode() + b"\xff", traced())
    assert refusal(tmp_path, content).startswith(f"{FOLDER}/fb_all_test.txt is not UTF-8 text at byte ")


def test_other_files_of_the_repository_hold_no_rows(tmp_path):
    source = load_sources()["tomi"]
    run_ids = {file.path: ToMiImporter().identify(source, file) for file in source.files}
    assert run_ids == {"tomi/world.json": None, ZIP: f"tomi-{FOLDER}-d8389ecf0974-v1"}
    world = next(file for file in source.files if file.path != ZIP)
    with pytest.raises(InvalidSource, match="not the zip of the stories"):
        ToMiImporter().read(source, world, tmp_path)
