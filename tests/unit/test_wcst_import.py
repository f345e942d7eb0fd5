"""Card-sorting files: is every trial an item with its prompt, and every choice a response or a gap?"""

import json
import os
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest.pipeline import ingest, listing
from ingest.wcst import CardSortingImporter
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES
from store.settings import Home

CONTROLS = "data/processed/interim/raw_data_controls.csv"
HEADER = (
    "card_shown,correct_card,card_chosen_if_perseveration,trial_in_a_sequence,name_of_task,card_shape,"
    "card_number,card_color,rt,is_correct,chosen_card,is_error,is_perseverative_error,"
    "is_non_perseverative_error,subj_name,block"
)
COLUMNS = HEADER.split(",")

# a green star, alone: key card 2 by colour, 4 by form, 1 by number
GREEN_STAR = {
    "card_shown": "30",
    "correct_card": "4",
    "card_chosen_if_perseveration": "0",
    "trial_in_a_sequence": "1",
    "name_of_task": "shape",
    "card_shape": "star",
    "card_number": "1",
    "card_color": "green",
    "rt": "812",
    "is_correct": "1",
    "chosen_card": "4",
    "is_error": "0",
    "is_perseverative_error": "0",
    "is_non_perseverative_error": "0",
    "subj_name": "wcst_a.txt",
    "block": "1",
}


def csv_of(*rows, columns=COLUMNS):
    lines = [",".join(columns)]
    lines += [",".join((GREEN_STAR | row).get(column, "") for column in columns) for row in rows]
    return "\n".join(lines) + "\n"


def imported(folder, content, path=CONTROLS):
    lake, report = ingested(folder, "wcst_prl", path, content)
    assert report.failures == ()
    return {table: rows_of(lake, table) for table in ("items", "human_responses", "runs")}, report


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def refusal(folder, content):
    _, report = ingested(folder, "wcst_prl", CONTROLS, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    return str(failure)


def test_a_trial_becomes_an_item_and_a_response(tmp_path):
    tables, report = imported(
        tmp_path, csv_of({}, {"trial_in_a_sequence": "2", "is_correct": "2", "chosen_card": "1"})
    )
    [run] = tables["runs"]
    assert run["kind"] == "items" and run["agent_kind"] == "human" and run["model_id"] == "controls"
    assert run["planned_modes"] == ["wcst_prediction_prl"] and run["source_id"] == "wcst_prl"
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (2, 0, [])
    assert run["run_id"].startswith("wcst_prl-controls-") and len(run["parts"]) == 2
    first, second = tables["items"]
    assert first["item_id"] == f"{run['run_id']}/wcst_a.txt/0"
    assert second["item_id"] == f"{run['run_id']}/wcst_a.txt/1"
    assert first["participant_id"] == "wcst_a.txt" and first["mode_id"] == "wcst_prediction_prl"
    assert first["legal_options"] == ["1", "2", "3", "4"] and first["credited_options"] == ["4"]
    assert json.loads(first["facts_json"]) == {"trial": 0, "matches": [2, 4, 1]}
    assert first["weight"] == 1 and first["split"] == "test" and first["template_id"] == "wcst_prediction"
    assert [(row["response"], row["split"]) for row in tables["human_responses"]] == [
        ("4", "test"),
        ("1", "test"),
    ]
    assert [row["item_id"] for row in tables["human_responses"]] == [first["item_id"], second["item_id"]]
    assert report.notes == ()


@pytest.mark.parametrize(("rule", "right"), [("color", "2"), ("shape", "4"), ("number", "1")])
def test_the_right_card_is_the_one_that_the_rule_matches(tmp_path, rule, right):
    tables, _ = imported(
        tmp_path, csv_of({"name_of_task": rule, "correct_card": right, "chosen_card": right})
    )
    [item] = tables["items"]
    assert item["credited_options"] == [right]
    assert set(json.loads(item["facts_json"])) == {"trial", "matches"}


def test_trials_are_numbered_by_block_and_place_whatever_the_order_of_lines_and_columns(tmp_path):
    rows = [
        {"block": "2", "trial_in_a_sequence": "1", "card_number": "3"},
        {"block": "10", "trial_in_a_sequence": "1", "card_number": "4"},
        {"block": "1", "trial_in_a_sequence": "2", "card_number": "2"},
        {"block": "1", "trial_in_a_sequence": "1"},
        {"subj_name": "wcst_b.txt", "block": "7"},
    ]
    tables, _ = imported(tmp_path, csv_of(*rows, columns=COLUMNS[::-1]))
    facts = [(item["participant_id"], json.loads(item["facts_json"])) for item in tables["items"]]
    assert [(who, fact["trial"], fact["matches"][2]) for who, fact in facts] == [
        ("wcst_a.txt", 0, 1),
        ("wcst_a.txt", 1, 2),
        ("wcst_a.txt", 2, 3),
        ("wcst_a.txt", 3, 4),
        ("wcst_b.txt", 0, 1),
    ]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        # the card of such a row is that of the trial before
        ({"is_correct": "3"}, "no card was chosen in time"),
        ({"is_correct": "3", "chosen_card": "0"}, "no card was chosen in time"),
        ({"is_correct": "2", "chosen_card": "0"}, "chosen_card is not one of 1, 2, 3, 4"),
        ({"chosen_card": ""}, "chosen_card is not one of 1, 2, 3, 4"),
        ({"is_correct": "2"}, "is_correct contradicts chosen_card"),
        ({"chosen_card": "1"}, "is_correct contradicts chosen_card"),
        ({"is_correct": "yes"}, "is_correct is not one of 1, 2, 3"),
        ({"is_correct": ""}, "is_correct is not one of 1, 2, 3"),
    ],
)
def test_a_response_that_cannot_be_read_is_left_out_and_counted(tmp_path, cells, reason):
    tables, report = imported(tmp_path, csv_of(cells, {"trial_in_a_sequence": "2"}))
    assert len(tables["items"]) == 2
    assert [row["item_id"].rsplit("/")[-1] for row in tables["human_responses"]] == ["1"]
    [run] = tables["runs"]
    assert run["notes"] == [f"1 rows: {reason}; no response"] and run["n_unreadable_rows"] == 1
    assert report.n_unreadable_rows == 1 and reason in report.notes[0]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"name_of_task": "size"}, "name_of_task is not one of color, shape, number"),
        ({"correct_card": "2", "chosen_card": "2"}, "correct_card is not the one that the rule matches"),
        ({"correct_card": "", "is_correct": "2"}, "correct_card is not the one that the rule matches"),
    ],
)
def test_a_card_that_cannot_be_judged_credits_none(tmp_path, cells, reason):
    tables, _ = imported(tmp_path, csv_of(cells))
    [item] = tables["items"]
    assert item["credited_options"] is None and item["prompt"] is not None
    assert json.loads(item["facts_json"])["matches"] == [2, 4, 1]
    assert tables["runs"][0]["notes"] == [f"1 rows: {reason}; no card is credited"]


def test_a_row_with_two_flaws_names_both(tmp_path):
    tables, _ = imported(tmp_path, csv_of({}, {"block": "2", "name_of_task": "size", "is_correct": "3"}))
    assert len(tables["items"]) == 2 and len(tables["human_responses"]) == 1
    assert tables["runs"][0]["notes"] == [
        "1 rows: name_of_task is not one of color, shape, number; no card is credited, "
        "and no card was chosen in time; no response"
    ]


@pytest.mark.parametrize("cells", [{"card_color": "pink"}, {"card_number": "5"}, {"card_shape": ""}])
def test_a_card_that_cannot_be_shown_is_no_question_and_counts_as_a_trial(tmp_path, cells):
    tables, _ = imported(tmp_path, csv_of(cells, {"trial_in_a_sequence": "2"}))
    [item] = tables["items"]
    assert json.loads(item["facts_json"])["trial"] == 1
    assert "Card 1: not on record. You chose key card 4: right.\n\nCard 2: one green star." in item["prompt"]
    assert [row["item_id"] for row in tables["human_responses"]] == [item["item_id"]]
    assert tables["runs"][0]["notes"] == ["1 rows: a feature of the card is not known; left out"]


# --- prompts ---

SESSION = [
    {"trial_in_a_sequence": "1"},
    {
        "trial_in_a_sequence": "2",
        **{"card_shape": "cross", "card_number": "2", "card_color": "red"},
        **{"correct_card": "3", "chosen_card": "1", "is_correct": "2"},
    },
    {"trial_in_a_sequence": "3", "is_correct": "3", "chosen_card": "1"},
    {"trial_in_a_sequence": "4", "is_correct": "2"},
    {
        "trial_in_a_sequence": "1",
        **{"block": "2", "name_of_task": "color", "card_number": "3"},
        **{"correct_card": "2", "chosen_card": "2"},
    },
]

LINES = [
    "Card 1: one green star. You chose key card 4: right.\n",
    "Card 2: two red crosses. You chose key card 1: wrong.\n",
    "Card 3: one green star. You did not choose in time.\n",
    "Card 4: one green star. What you chose is not on record.\n",
]


def test_a_prompt_remembers_every_trial_before_it(tmp_path):
    tables, _ = imported(tmp_path, csv_of(*SESSION))
    found = [item["prompt"] for item in tables["items"]]
    for number, prompt in enumerate(found):
        assert f"Your cards so far:\n{''.join(LINES[:number]) or 'none' + chr(10)}\n" in prompt
        assert prompt.endswith("You may choose key card 1, 2, 3 or 4.\nYou choose key card")
    assert "\nCard 5: three green stars. You may choose" in found[4]


@pytest.mark.parametrize("trial", range(5))
def test_a_prompt_neither_knows_the_choice_nor_the_rule_nor_what_came_after(tmp_path, trial):
    other = {"is_correct": "2", "chosen_card": "3", "name_of_task": "color", "correct_card": "2"}
    later = [row | {"card_number": "4"} | other for row in SESSION[trial + 1 :]]
    before, _ = imported(tmp_path / "a", csv_of(*SESSION))
    after, _ = imported(tmp_path / "b", csv_of(*SESSION[:trial], SESSION[trial] | other, *later))
    for old, new in list(zip(before["items"], after["items"], strict=True))[: trial + 1]:
        assert new["prompt"] == old["prompt"] and new["facts_json"] == old["facts_json"]
    if trial < 4:
        assert after["items"][trial + 1]["prompt"] != before["items"][trial + 1]["prompt"]


def test_every_fifth_participant_is_in_the_test_and_others_are_not_asked(tmp_path):
    rows = [{"subj_name": f"p{number:02}"} for number in reversed(range(12))]
    # who never chose in time cannot be predicted
    rows += [{"subj_name": "p000", "is_correct": "3"}]
    tables, _ = imported(tmp_path, csv_of(*rows))
    splits = {item["participant_id"]: item["split"] for item in tables["items"]}
    assert [name for name, split in splits.items() if split == "test"] == ["p00", "p05", "p10"]
    for item in tables["items"]:
        is_asked = item["split"] == "test"
        assert [item[name] is not None for name in ("prompt", "template_id", "template_sha256")] == [
            is_asked
        ] * 3
    assert all(row["split"] == splits[row["participant_id"]] for row in tables["human_responses"])
    assert len(tables["human_responses"]) == 12


def test_what_others_sorted_is_in_no_prompt(tmp_path):
    alone, _ = imported(tmp_path / "a", csv_of(*SESSION))
    others = [{"subj_name": f"wcst_b{number}", "card_number": "2"} for number in range(5)]
    among, _ = imported(tmp_path / "b", csv_of(*others[:2], *SESSION, *others[2:]))
    found = [item["prompt"] for item in among["items"] if item["participant_id"] == "wcst_a.txt"]
    assert found == [item["prompt"] for item in alone["items"]]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"subj_name": ""}, "subj_name is empty"),
        ({"subj_name": "a/b"}, "subj_name is not made of letters, digits and . _ -"),
        ({"block": "first"}, "block is not a whole number"),
        ({"block": "1.5"}, "block is not a whole number"),
        ({"trial_in_a_sequence": ""}, "trial_in_a_sequence is not a whole number"),
        ({"trial_in_a_sequence": "1.4"}, "trial_in_a_sequence is not a whole number"),
    ],
)
def test_a_row_without_a_place_is_left_out_and_counted(tmp_path, cells, reason):
    tables, _ = imported(tmp_path, csv_of(cells, {"block": "2"}))
    [item] = tables["items"]
    assert json.loads(item["facts_json"])["trial"] == 0
    assert tables["runs"][0]["notes"] == [f"1 rows: {reason}; left out"]


@pytest.mark.parametrize("cells", [{"is_correct": "3"}, {"block": "last"}, {"card_color": "", "rt": ""}])
def test_a_participant_without_a_response_is_named(tmp_path, cells):
    unread = [{"subj_name": "b", "trial_in_a_sequence": place} | cells for place in "12"]
    unread[1] |= {"is_correct": "3"}
    tables, report = imported(tmp_path, csv_of({}, *unread))
    [run] = tables["runs"]
    assert run["notes"][-1] == "2 rows: no response of b can be read"
    # named beside its flaws, not counted with them
    assert report.n_unreadable_rows == 2 and len(tables["human_responses"]) == 1


def test_a_file_without_trials_is_a_run_without_items(tmp_path):
    tables, _ = imported(tmp_path, HEADER + "\n")
    assert tables["items"] == tables["human_responses"] == []
    assert tables["runs"][0]["notes"] == ["the file holds no rows"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "missing: block, card_chosen"),
        (csv_of({}, columns=COLUMNS[:-1]), "missing: block; unknown: none"),
        (csv_of({}, columns=[*COLUMNS, "group"]), "missing: none; unknown: group"),
        (csv_of({}, columns=[*COLUMNS, "block"]), "column block appears more than once"),
        (csv_of({}, columns=[*COLUMNS, ""]), "missing: none; unknown: (no name)"),
        (csv_of({}, columns=[*COLUMNS, "", ""]), "column (no name) appears more than once"),
        (csv_of({}) + "1,2\n", "not readable as CSV (line 3: Expected Number of Columns"),
        (csv_of({}).encode() + b"\xff", "not UTF-8 text at byte"),
        # further on than the line of names is read ahead
        (csv_of(*[{}] * 300).encode() + b"\xff", "not readable as CSV"),
        ('"' + "a" * 200_000, "no line of column names (field larger than field limit"),
        (b"\xff\xfe" + csv_of({}).encode(), "not UTF-8 text at byte 0"),
        (
            csv_of({}, {}, {"block": "2"}),
            "expected each trial once, found 1 several times, the first is trial 1 in block 1 of wcst_a.txt",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, content, sentence):
    assert sentence in refusal(tmp_path, content)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    tables, _ = imported(tmp_path, b"\xef\xbb\xbf" + csv_of({}).encode())
    assert len(tables["items"]) == 1


def test_the_selection_for_another_study_holds_no_rows_of_its_own():
    source = load_sources()["wcst_prl"]
    run_ids = [CardSortingImporter().identify(source, file) for file in source.files]
    assert [run_id and run_id.split("-")[1] for run_id in run_ids] == ["controls", "patients", None]


def test_a_file_that_holds_no_trials_cannot_be_read_as_one(tmp_path):
    source = load_sources()["wcst_prl"]
    with pytest.raises(InvalidSource, match="not a file of trials"):
        CardSortingImporter().read(source, source.files[-1], tmp_path / "any.csv")


@pytest.mark.mirror
def test_the_public_files_have_the_counts_that_were_measured(tmp_path):
    source = load_sources()["wcst_prl"]
    lake = Home(tmp_path / "lake")
    [report] = ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    assert report.failures == () and report.n_source_rows == 60 * (278 + 56)
    items, responses = rows_of(lake, "items"), rows_of(lake, "human_responses")
    assert len(items) == 60 * (278 + 56)
    # 51 and 11 choices came too late, and 7 contradict what was said about them
    assert report.n_unreadable_rows == 51 + 7 + 11
    assert len(responses) == 60 * (278 + 56) - (51 + 7 + 11)
    assert len({item["participant_id"] for item in items}) == 278 + 56
    right = {item["item_id"]: item["credited_options"] for item in items}
    n_right = sum([response["response"]] == right[response["item_id"]] for response in responses)
    assert n_right == 13_447 + 2_668
    # the right card is one that the card matches in a dimension
    assert all(
        int(item["credited_options"][0]) in json.loads(item["facts_json"])["matches"] for item in items
    )
    # every fifth of 278 controls and of 56 patients
    n_asked = {item["participant_id"] for item in items if item["split"] == "test"}
    assert len(n_asked) == 56 + 12
    assert sum(item["prompt"] is not None for item in items) == 60 * (56 + 12)
    [state] = listing(lake, [source])
    assert state.state == "imported"
    assert Path(lake.raw / "human_responses").is_dir()
