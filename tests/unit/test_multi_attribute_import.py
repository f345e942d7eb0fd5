"""Files of multi-attribute choice: do trials and frequencies become questions, responses and weights?"""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import rdata
from handwritten import ingested

from ingest.multi_attribute import MultiAttributeImporter
from ingest.questions import imported as run_of
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES

FREQUENCIES, TRIALS = "data/hilbig2014.RData", "data/heck2017_raw.RData"
CUES = [f"{option}{cue}" for option in "ab" for cue in (1, 2, 3, 4)]
COLUMNS = [
    *("vp", "trial", "pattern", "ttb", "eqw", "wadd", "logoddsdiff", "ttbsteps", "itemtype"),
    *("reversedorder", "choice", "rt", "choice.rev", *CUES),
]
TEXTS = ("pattern", "ttb", "eqw", "wadd", "choice", "choice.rev")
TRIAL = (
    dict(vp=101, trial=1, pattern="7", ttb="A", eqw="guess", wadd="A", logoddsdiff=0.8, ttbsteps=1)
    | {"itemtype": 2, "reversedorder": 0, "choice": "A", "rt": 900, "choice.rev": "A"}
    | dict(zip(CUES, (1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0), strict=True))
)


def saved(folder, name, frame):
    folder.mkdir(exist_ok=True)
    rdata.write_rda(folder / "written.RData", {name: frame}, compression="gzip")
    return (folder / "written.RData").read_bytes()


def trials_file(folder, rows, columns=COLUMNS):
    cells = [TRIAL | row for row in rows]
    return saved(
        folder,
        "heck2017_raw",
        pd.DataFrame(
            {
                column: pd.Series([cell.get(column) for cell in cells], dtype=_dtype(column))
                for column in columns
            }
        ),
    )


def _dtype(column):
    return object if column in TEXTS else float


def frequencies_file(folder, rows):
    return saved(folder, "hilbig2014", pd.DataFrame(rows, columns=["B1", "B2", "B3"], dtype=float))


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, path, content):
    lake, report = ingested(folder, "multinomineq", path, content)
    assert report.failures == ()
    return {table: rows_of(lake, table) for table in ("items", "human_responses", "runs")}, report


def refusal(folder, path, content):
    _, report = ingested(folder, "multinomineq", path, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    assert "\n" not in str(failure)
    return str(failure)


def session(participant, choices):
    """Trials of one participant, whose first cue tells them apart."""
    return [
        {"vp": participant, "trial": number, "choice": choice, "a1": 1.0 if number % 2 else -1.0}
        for number, choice in enumerate(choices, start=1)
    ]


def thirteen(choices="AB"):
    """Thirteen participants: the last is the test."""
    return [row for participant in range(1, 14) for row in session(participant, choices)]


# --- single trials ---


def test_a_trial_becomes_an_item_and_a_response(tmp_path):
    tables, report = imported(tmp_path, TRIALS, trials_file(tmp_path, session(101, "AB")))
    [run] = tables["runs"]
    assert (run["model_id"], run["kind"]) == ("heck2017", "items")
    assert run["planned_modes"] == ["multi_attribute_choice_heck2017"]
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (2, 0, [])
    first, second = tables["items"]
    assert first["item_id"] == f"{run['run_id']}/101/0" and first["participant_id"] == "heck2017-101"
    assert first["legal_options"] == ["A", "B"] and first["credited_options"] is None
    assert json.loads(second["facts_json"]) == {"trial": 1, "options": [[-1, -1, 1, -1], [-1, 1, 1, -1]]}
    assert [(row["response"], row["weight"]) for row in tables["human_responses"]] == [("A", 1), ("B", 1)]
    assert first["split"] == "train" and first["prompt"] is None and report.notes == ()


def test_every_thirteenth_participant_of_the_file_is_the_test(tmp_path):
    rows = [row for participant in range(30, 0, -1) for row in session(participant, "AB")]
    tables, _ = imported(tmp_path, TRIALS, trials_file(tmp_path, rows))
    for table in ("items", "human_responses"):
        tested = {row["participant_id"] for row in tables[table] if row["split"] == "test"}
        assert tested == {"heck2017-18", "heck2017-5"}
    for item in tables["items"]:
        assert (item["prompt"] is not None) == (item["split"] == "test") == (item["template_id"] is not None)


def prompts(folder, rows):
    tables, _ = imported(folder, TRIALS, trials_file(folder, rows))
    run_id = tables["runs"][0]["run_id"]
    return {item["item_id"].removeprefix(run_id): item["prompt"] for item in tables["items"]}


def test_a_prompt_holds_the_choices_before(tmp_path):
    rows = thirteen("ABA")
    found = prompts(tmp_path, rows[::-1] + session(14, "A"))
    [said] = {prompt.partition("\n\n")[2] for name, prompt in found.items() if prompt and name.endswith("/2")}
    assert said.splitlines() == [
        "Product A: + - + -. Product B: - + + -. You choose product A.",
        "Product A: - - + -. Product B: - + + -. You choose product B.",
        "Product A: + - + -. Product B: - + + -. You choose product",
    ]


def test_a_prompt_says_neither_its_answer_nor_what_came_later(tmp_path):
    rows = thirteen("ABAB")
    changed = [
        row | {"choice": "B" if row["choice"] == "A" else "A"} if row["trial"] >= 3 else row for row in rows
    ]
    changed[-1] |= {"b4": 1.0}
    before, after = prompts(tmp_path / "before", rows), prompts(tmp_path / "after", changed)
    same = [name for name in before if before[name] and before[name] == after[name]]
    assert same == ["/13/0", "/13/1", "/13/2"]
    changed[-1] |= {"b4": -1.0}
    # the choice of trial 2 is history in trial 3 alone
    again = prompts(tmp_path / "again", changed)
    assert before["/13/3"] != again["/13/3"]


@pytest.mark.parametrize(
    ("cells", "note", "n_items", "n_responses"),
    [
        ({"vp": None}, "vp is not a whole number; left out", 2, 2),
        ({"trial": 1.5}, "trial is not a whole number; left out", 2, 2),
        ({"a3": 0.0}, "a cue is not -1 or 1; left out", 2, 2),
        ({"b4": None}, "a cue is not -1 or 1; left out", 2, 2),
        ({"choice": "C"}, "choice is not A or B; no response", 3, 2),
        ({"choice": None}, "choice is not A or B; no response", 3, 2),
    ],
)
def test_what_cannot_be_read_is_counted_and_named(tmp_path, cells, note, n_items, n_responses):
    rows = session(101, "ABA")
    rows[1] |= cells
    tables, report = imported(tmp_path, TRIALS, trials_file(tmp_path, rows))
    assert report.notes == (f"{TRIALS}: 1 rows: {note}",) and report.n_unreadable_rows == 1
    assert len(tables["items"]) == n_items and len(tables["human_responses"]) == n_responses


def test_a_participant_without_a_choice_is_named_and_never_the_test(tmp_path):
    rows = [row | ({"choice": None} if row["vp"] == 13 else {}) for row in thirteen()]
    tables, report = imported(tmp_path, TRIALS, trials_file(tmp_path, [*rows, *session(14, "AA")]))
    assert report.notes == (
        f"{TRIALS}: 2 rows: choice is not A or B; no response",
        f"{TRIALS}: 2 rows: no response of heck2017-13 can be read",
    )
    assert report.n_unreadable_rows == 2
    assert {item["participant_id"] for item in tables["items"] if item["split"] == "test"} == {"heck2017-14"}


def test_a_participant_without_a_trial_that_has_a_place_is_named(tmp_path):
    lost = [row | {"trial": 1.5} for row in session(102, "AB")]
    _, report = imported(tmp_path, TRIALS, trials_file(tmp_path, [*session(101, "AB"), *lost]))
    assert f"{TRIALS}: 2 rows: no response of heck2017-102 can be read" in report.notes


def test_a_trial_that_is_there_twice_refuses_the_file(tmp_path):
    rows = session(101, "AB") + session(101, "B")
    assert refusal(tmp_path, TRIALS, trials_file(tmp_path, rows)).endswith(
        "expected each trial once, found 1 several times, the first is trial 1 of participant 101"
    )


def test_another_object_or_other_columns_refuse_the_file(tmp_path):
    swapped = refusal(tmp_path / "swapped", TRIALS, frequencies_file(tmp_path, [[1, 2, 3]]))
    assert swapped.endswith("expected the object heck2017_raw, found hilbig2014")
    lacking = refusal(tmp_path / "lacking", TRIALS, trials_file(tmp_path, session(1, "A"), COLUMNS[:-1]))
    assert lacking.endswith("missing: b4; unknown: none")


# --- frequencies ---


def test_frequencies_become_responses_that_weigh_as_much(tmp_path):
    tables, report = imported(tmp_path, FREQUENCIES, frequencies_file(tmp_path, [[0, 31, 32], [5, 8, 1]]))
    [run] = tables["runs"]
    assert run["planned_modes"] == ["multi_attribute_choice_frequencies"] and run["n_source_rows"] == 2
    assert len(tables["items"]) == 2 * 3 and report.notes == ()
    assert sum(row["weight"] for row in tables["human_responses"]) == 2 * 96
    found = {
        (row["participant_id"], row["item_id"].rpartition("/")[2], row["response"]): row["weight"]
        for row in tables["human_responses"]
    }
    assert {key[1:]: weight for key, weight in found.items() if key[0] == "hilbig2014-1"} == {
        ("type_1", "A"): 32,
        ("type_2", "A"): 1,
        ("type_2", "B"): 31,
        ("type_3", "B"): 32,
    }


def test_an_item_type_has_the_cues_of_the_manual_and_no_trial(tmp_path):
    tables, _ = imported(tmp_path, FREQUENCIES, frequencies_file(tmp_path, [[1, 2, 3]]))
    assert [json.loads(item["facts_json"]) for item in tables["items"]] == [
        {"trial": None, "options": [[1, 1, 1, -1], [-1, 1, -1, 1]]},
        {"trial": None, "options": [[1, -1, -1, -1], [-1, 1, 1, -1]]},
        {"trial": None, "options": [[1, 1, 1, -1], [-1, 1, 1, 1]]},
    ]


def test_what_was_chosen_how_often_is_not_in_the_prompt(tmp_path):
    rows = [[1, 2, 3]] * 12
    asked = []
    for name, last in (("few", [0, 0, 0]), ("many", [32, 31, 30])):
        content = frequencies_file(tmp_path / name, [*rows, last])
        tables, _ = imported(tmp_path / name, FREQUENCIES, content)
        asked.append([item["prompt"] for item in tables["items"] if item["split"] == "test"])
    assert asked[0] == asked[1]
    assert asked[0][1].endswith("right.\n\nProduct A: + - - -. Product B: - + + -. You choose product")


@pytest.mark.parametrize(
    ("frequencies", "note", "n_responses"),
    [
        ([0, 33, 0], "B2 not a whole number from 0 to 32; no response to this item type", 2),
        ([-1, 0, 0.5], "B1, B3 not a whole number from 0 to 32; no response to this item type", 1),
        ([None, None, 40], "B1, B2, B3 not a whole number from 0 to 32; no response to this item type", 0),
    ],
)
def test_frequencies_out_of_range_are_counted_and_named(tmp_path, frequencies, note, n_responses):
    content = frequencies_file(tmp_path, [[0, 0, 0], frequencies])
    tables, report = imported(tmp_path, FREQUENCIES, content)
    lost = () if n_responses else (f"{FREQUENCIES}: 1 rows: no response of hilbig2014-2 can be read",)
    assert report.notes == (f"{FREQUENCIES}: 1 rows: {note}", *lost) and report.n_unreadable_rows == 1
    assert len(tables["items"]) == 6
    second = [row for row in tables["human_responses"] if row["participant_id"] == "hilbig2014-2"]
    assert len(second) == n_responses


# --- what the project keeps ---


def test_two_responses_of_one_person_to_one_item_must_be_frequencies():
    source = load_sources()["multinomineq"]
    [file, *_] = [file for file in source.files if file.path == FREQUENCIES]
    rows = [
        {"item_id": "i", "mode_id": "m", "source_id": source.id, "participant_id": "p", "weight": 1.0}
        | {"response": response}
        for response in ("A", "B")
    ]

    def run(rows, are_frequencies):
        return run_of(
            source,
            file,
            run_id="r",
            importer_version=1,
            dataset="d",
            modes=["m"],
            tables={"human_responses": pa.Table.from_pylist(rows)},
            n_source_rows=2,
            are_frequencies=are_frequencies,
        )

    assert run(rows, True).rows[0].rows.num_rows == 2
    with pytest.raises(InvalidSource, match="item_id and participant_id once"):
        run(rows, False)
    with pytest.raises(InvalidSource, match="participant_id and response once"):
        run([rows[0], rows[0]], True)


def test_pinned_files_have_a_run_each():
    source = load_sources()["multinomineq"]
    runs = [MultiAttributeImporter().identify(source, file) for file in source.files]
    assert [run.split("-")[1] for run in runs] == ["heck2017", "hilbig2014"]
    other = source.files[0].model_copy(update={"path": "data/regenwetter2012.RData"})
    assert MultiAttributeImporter().identify(source, other) is None
