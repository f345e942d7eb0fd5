"""Recent probes: is every key that was pressed a response, with what was seen before it and nothing more?"""

import csv
import gzip
import hashlib
import io
import json

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest import self_regulation
from ingest.recent_probes import SPLIT_SEED
from ingest.self_regulation import MODES, SelfRegulationImporter
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES

FOLDER = "Data/Complete_02-16-2019/Individual_Measures"
FILE = f"{FOLDER}/recent_probes.csv.gz"
COLUMNS = (
    "",
    "worker_id",
    "time_elapsed",
    "trial_id",
    "exp_stage",
    "stim",
    "probe_letter",
    "key_press",
    "correct_response",
    "correct",
)
SETS = ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX")


def is_in_test(participant):
    """The split, derived by other means than the importer's SQL."""
    digest = int(hashlib.sha256(f"{SPLIT_SEED}/{participant}".encode()).hexdigest()[:8], 16)
    return digest <= 0x19999999


def participant_in(split):
    return next(f"p{n}" for n in range(1000) if is_in_test(f"p{n}") == (split == "test"))


TESTED, TRAINED = participant_in("test"), participant_in("train")


def trial(participant, number, *, probe="A", key=37, stage="test", **changed):
    """Return one row; the probe A is in the first set of four."""
    letters = SETS[number % 4]
    right = 37 if probe in letters else 39
    row = {
        "": f"recent_probes_{participant}_{number}",
        "worker_id": participant,
        "time_elapsed": str(1000 * (number + 1)),
        "trial_id": "probe",
        "exp_stage": stage,
        "stim": str(list(letters)),
        "probe_letter": probe,
        "key_press": f"{key}.0",
        "correct_response": f"{right}.0",
        "correct": "1.0" if key == right else "0.0",
    }
    return row | {name: str(value) for name, value in changed.items()}


def session(participant, keys=(37, 39, 37, 39), n_practice=1, probes="AGAG"):
    return [
        trial(participant, number, probe=probe, key=key, stage="practice" if number < n_practice else "test")
        for number, (key, probe) in enumerate(zip(keys, probes, strict=True))
    ]


def packed(rows, columns=COLUMNS, change=lambda text: text):
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(change(buffer.getvalue()).encode())


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, rows, **how):
    lake, report = ingested(folder, "self_regulation", FILE, packed(rows, **how))
    assert report.failures == (), report.failures
    return rows_of(lake, "items"), rows_of(lake, "human_responses"), report


def refusal(folder, content):
    lake, report = ingested(folder, "self_regulation", FILE, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    assert rows_of(lake, "runs") == []
    where = f"generated://handwritten@1/{FILE}: "
    assert str(failure).startswith(where), failure
    return str(failure).removeprefix(where)


def test_each_key_that_was_pressed_is_an_item_and_a_response(tmp_path):
    items, responses, report = imported(tmp_path, session(TESTED))
    assert [response["response"] for response in responses] == ["left", "right", "left", "right"]
    assert [item["credited_options"] for item in items] == [["left"], ["left"], ["right"], ["right"]]
    for number, (item, response) in enumerate(zip(items, responses, strict=True)):
        assert item["item_id"] == response["item_id"] and item["item_id"].endswith(f"/{TESTED}/{number}")
        assert (item["mode_id"], item["source_id"]) == ("recent_probes", "self_regulation")
        assert item["participant_id"] == response["participant_id"] == TESTED
        assert item["split"] == response["split"] == "test" and item["weight"] == 1.0
        assert item["legal_options"] == ["left", "right"]
        facts = {"trial": number, "letters": list(SETS[number]), "probe": "AGAG"[number]}
        assert json.loads(item["facts_json"]) == facts
    assert (report.n_source_rows, report.n_unreadable_rows, report.notes) == (4, 0, ())


def test_training_participants_have_no_prompt(tmp_path):
    items, responses, _ = imported(tmp_path, session(TRAINED) + session(TESTED))
    by_split = {"train": TRAINED, "test": TESTED}
    assert {item["participant_id"] for item in items if item["prompt"] is None} == {TRAINED}
    assert {(item["split"], item["participant_id"]) for item in items} == set(by_split.items())
    assert all(by_split[response["split"]] == response["participant_id"] for response in responses)


def test_the_split_of_a_participant_depends_on_nobody_else(tmp_path):
    people = [f"p{number}" for number in range(60)]
    one = trial("p", 0)
    items, _, _ = imported(tmp_path / "all", [one | {"worker_id": person} for person in people])
    assert {item["participant_id"] for item in items if item["split"] == "test"} == {
        person for person in people if is_in_test(person)
    }
    items, _, _ = imported(tmp_path / "some", [one | {"worker_id": person} for person in people[::7]])
    assert {item["participant_id"] for item in items if item["split"] == "test"} == {
        person for person in people[::7] if is_in_test(person)
    }


def test_a_prompt_has_the_trials_before_it(tmp_path):
    items, _, _ = imported(tmp_path, session(TESTED, keys=(39, -1, 37, 39), n_practice=2))
    history = [item["prompt"].split("\n\n", 1)[1] for item in items]
    assert history == [
        "Trial 1. Letters: A B C D E F. Probe: A. You press:",
        "Trial 1. Letters: A B C D E F. Probe: A. You press: right. Incorrect.\n"
        "Trial 2. Letters: G H I J K L. Probe: G. You press: nothing. No response detected.\n"
        "Trial 3. Letters: M N O P Q R. Probe: A. You press:",
        "Trial 1. Letters: A B C D E F. Probe: A. You press: right. Incorrect.\n"
        "Trial 2. Letters: G H I J K L. Probe: G. You press: nothing. No response detected.\n"
        "Trial 3. Letters: M N O P Q R. Probe: A. You press: left.\n"
        "Trial 4. Letters: S T U V W X. Probe: G. You press:",
    ]
    assert {item["template_id"] for item in items} == {"recent_probes"}


@pytest.mark.parametrize("number", range(4))
def test_a_prompt_has_neither_its_own_answer_nor_the_future(tmp_path, number):
    plain, _, _ = imported(tmp_path / "plain", session(TESTED))
    other_keys = [76 - key if n >= number else key for n, key in enumerate((37, 39, 37, 39))]
    other_probes = "AGAG"[: number + 1] + "ZZZZ"[number + 1 :]
    changed, _, _ = imported(tmp_path / "changed", session(TESTED, keys=other_keys, probes=other_probes))
    for earlier in range(number + 1):
        for key in ("prompt", "facts_json", "legal_options"):
            assert plain[earlier][key] == changed[earlier][key]
    if number < 3:
        assert plain[number + 1]["prompt"] != changed[number + 1]["prompt"]


def test_another_participant_changes_nothing(tmp_path):
    alone, _, _ = imported(tmp_path / "alone", session(TESTED))
    among, _, _ = imported(
        tmp_path / "among", session("q1") + session(TESTED) + session("q2", keys=(39,) * 4)
    )
    mine = [item for item in among if item["participant_id"] == TESTED]
    assert [item["prompt"] for item in mine] == [item["prompt"] for item in alone]


def test_rows_in_another_order_are_the_same_session(tmp_path):
    ordered, _, _ = imported(tmp_path / "ordered", session(TESTED))
    mixed, _, _ = imported(tmp_path / "mixed", session(TESTED)[::-1])
    assert [item["prompt"] for item in ordered] == [item["prompt"] for item in mixed]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key_press": "-1.0", "correct": "0.0"}, "no key was pressed in time"),
        ({"key_press": "38.0", "correct": "0.0"}, "key_press is not one of 37, 39, -1"),
        ({"key_press": ""}, "key_press is not one of 37, 39, -1"),
        ({"key_press": "left"}, "key_press is not one of 37, 39, -1"),
        ({"key_press": "37.5"}, "key_press is not one of 37, 39, -1"),
        ({"correct": "1.0"}, "correct contradicts key_press"),
        ({"correct": ""}, "correct contradicts key_press"),
    ],
)
def test_a_trial_without_a_valid_key_is_history_and_no_item(tmp_path, changed, said):
    rows = session(TESTED)
    rows[2] |= {"key_press": "37.0", "correct": "0.0"} | changed
    items, responses, report = imported(tmp_path, rows)
    assert [json.loads(item["facts_json"])["trial"] for item in items] == [0, 1, 3]
    assert len(responses) == 3 and report.n_unreadable_rows == 1
    assert report.notes == (f"{FILE}: 1 rows: {said}; not asked, and in the history a trial without a key",)
    pressed = "nothing" if "-1.0" in changed.values() else "an unknown key"
    assert f"Trial 3. Letters: M N O P Q R. Probe: A. You press: {pressed}.\n" in items[-1]["prompt"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"trial_id": "fixation"}, "there is no probe on the screen"),
        ({"trial_id": ""}, "there is no probe on the screen"),
        ({"exp_stage": "pause"}, "exp_stage is not one of practice, test"),
        ({"stim": "['A', 'B']"}, "stim is not a list of six letters"),
        ({"stim": "['A', 'A', 'B', 'C', 'D', 'E']"}, "stim is not a list of six letters"),
        ({"stim": ""}, "stim is not a list of six letters"),
        ({"stim": "ABCDEF"}, "stim is not a list of six letters"),
        ({"probe_letter": "AB"}, "probe_letter is not a letter"),
        ({"probe_letter": ""}, "probe_letter is not a letter"),
        ({"correct_response": "37.0"}, "correct_response contradicts the letters"),
        ({"correct_response": ""}, "correct_response contradicts the letters"),
        ({"worker_id": ""}, "worker_id is empty"),
        ({"worker_id": "a/b"}, "worker_id is not made of letters, digits and . _ -"),
        ({"time_elapsed": "late"}, "time_elapsed is not a number"),
        ({"": "recent_probes"}, "the name of the row does not end in the number of a screen"),
        ({"": ""}, "the name of the row does not end in the number of a screen"),
    ],
)
def test_a_trial_that_cannot_be_read_is_left_out_and_counted(tmp_path, changed, said):
    rows = session(TESTED)
    rows[2] |= changed
    items, responses, report = imported(tmp_path, rows)
    assert [json.loads(item["facts_json"])["probe"] for item in items] == ["A", "G", "G"]
    assert len(responses) == 3 and report.n_source_rows == 4
    assert report.notes == (f"{FILE}: 1 rows: {said}; left out",)


def test_a_participant_without_a_valid_key_is_named(tmp_path):
    lost = [row | {"correct": "0.0"} for row in session("p0", keys=(-1, -1, 38, -1))]
    items, _, report = imported(tmp_path, lost + session(TESTED))
    assert {item["participant_id"] for item in items} == {TESTED}
    assert report.notes[-1] == f"{FILE}: 4 rows: no response of p0 can be read"
    assert report.n_unreadable_rows == 4


@pytest.mark.parametrize("changed", [{"stim": ""}, {"trial_id": "fixation"}, {"time_elapsed": ""}])
def test_a_participant_without_a_trial_that_can_be_read_is_named(tmp_path, changed):
    _, _, report = imported(tmp_path, [row | changed for row in session("p0")] + session(TESTED))
    assert report.notes[-1] == f"{FILE}: 4 rows: no response of p0 can be read"
    assert report.n_unreadable_rows == 4


def test_a_clock_that_is_set_back_changes_no_history_and_is_noted(tmp_path):
    plain, _, _ = imported(tmp_path / "plain", session(TESTED))
    rows = session(TESTED)
    for number in (2, 3):
        rows[number]["time_elapsed"] = str(number - 10**9)
    items, _, report = imported(tmp_path / "back", rows + session("q1"))
    assert [item["prompt"] for item in plain] == [
        item["prompt"] for item in items if item["participant_id"] == TESTED
    ]
    assert report.notes == (
        f"{FILE}: 4 rows: the clock of {TESTED} is set back in between; in the order of their numbers",
    )
    assert report.n_unreadable_rows == 0


def test_a_screen_that_is_there_twice_refuses_the_file(tmp_path):
    rows = session(TESTED)
    for name, other, place in (
        ("copy", {}, "at 2000 ms"),
        ("time", {"": f"recent_probes_{TESTED}_9"}, "at 2000 ms"),
        ("number", {"time_elapsed": "9000"}, "with number 1"),
    ):
        said = refusal(tmp_path / name, packed([*rows, rows[1] | other]))
        assert said == (
            f"expected each screen once, found several at one place, the first is that of {TESTED} {place}"
        )


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_refuses_the_file(tmp_path, column):
    said = refusal(tmp_path, packed(session(TESTED), columns=[name for name in COLUMNS if name != column]))
    assert said.startswith("expected the columns worker_id, time_elapsed, ")
    assert said.endswith(f"; missing: {column or '(no name)'}")


def test_columns_in_another_order_and_others_change_nothing(tmp_path):
    plain, _, _ = imported(tmp_path / "plain", session(TESTED))
    columns = [*reversed(COLUMNS), "rt", "battery name"]
    others, _, _ = imported(tmp_path / "others", session(TESTED), columns=columns)
    assert [item["prompt"] for item in plain] == [item["prompt"] for item in others]


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text], ids=["crlf", "bom"]
)
def test_line_ends_and_marks_change_nothing(tmp_path, change):
    plain, _, _ = imported(tmp_path / "plain", session(TESTED))
    changed, _, report = imported(tmp_path / "changed", session(TESTED), change=change)
    assert [item["prompt"] for item in plain] == [item["prompt"] for item in changed]
    assert report.n_unreadable_rows == 0


def test_a_file_without_trials_is_a_run_without_rows(tmp_path):
    items, responses, report = imported(tmp_path, [])
    assert items == responses == [] and report.notes == (f"{FILE}: the file holds no rows",)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-12], "not readable as gzip ("),
        (lambda data: data[:20], "not readable as gzip ("),
        (lambda data: data[:-6] + b"\0\0" + data[-4:], "not readable as gzip (CRC check failed"),
        (lambda data: b"worker_id\n", "not readable as gzip (Not a gzipped file"),
        (lambda data: b"", "expected the columns "),
        (lambda data: gzip.compress(b""), "expected the columns "),
    ],
    ids=["cut", "cut early", "checksum", "no gzip", "empty", "empty inside"],
)
def test_a_damaged_file_is_refused(tmp_path, damage, said):
    assert refusal(tmp_path, damage(packed(session(TESTED)))).startswith(said)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(self_regulation, "_MAX_BYTES", 100)
    said = refusal(tmp_path, packed(session(TESTED)))
    assert said == "expected at most 100 bytes when unpacked, found more"


@pytest.mark.parametrize("place", [0, 400_000])
def test_text_that_is_not_utf_8_is_refused(tmp_path, place):
    text = gzip.decompress(packed([trial(f"p{number}", 0) for number in range(5000)]))
    broken = text[:place] + b"\xff\xfe" + text[place:]
    said = refusal(tmp_path, gzip.compress(broken))
    assert "not UTF-8 text at byte 0" in said or "UTF-8" in said


def test_a_row_with_too_many_cells_is_refused(tmp_path):
    content = gzip.compress(gzip.decompress(packed(session(TESTED))) + b"a,b,c,d,e,f,g,h,i,j,k,l\n")
    assert refusal(tmp_path, content).startswith("not readable as CSV (line 6: ")


def test_which_files_are_modes(tmp_path):
    source = load_sources()["self_regulation"]
    importer = SelfRegulationImporter()
    found = {file.path: importer.identify(source, file) for file in source.files}
    assert {path.rsplit("/", 1)[1].split(".")[0] for path in found} == set(MODES)
    assert found[FILE] == "self_regulation-recent_probes-b76deb2e80e1-v2"
    other = source.files[0].model_copy(update={"path": f"{FOLDER}/stroop.csv.gz"})
    assert importer.identify(source, other) is None
    with pytest.raises(InvalidSource, match="not a measure that is a mode"):
        importer.read(source, other, tmp_path)
