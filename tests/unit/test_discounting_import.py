"""Choices between rewards: is every choice a response, with the choices before it and nothing more?"""

import csv
import gzip
import io
import json
import os
import re
from collections import defaultdict
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest.discounting import DelayDiscountingImporter
from ingest.pipeline import ingest
from ingest.self_regulation import MODES
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES
from store.settings import Home

FOLDER = "Data/Complete_02-16-2019/Individual_Measures"
MEASURES = [measure for measure, mode in MODES.items() if mode.startswith("temporal_discounting")]
KIRBY = f"{FOLDER}/kirby.csv.gz"
HBAYESDM = "commons/extdata/dd_exampleData.txt"
COLUMNS = ("", "worker_id", "time_elapsed", "trial_id", "exp_stage", "stimulus", "key_press", "choice")
HBAYESDM_COLUMNS = (
    "subjID",
    "trial",
    "delay_later",
    "amount_later",
    "delay_sooner",
    "amount_sooner",
    "choice",
)
LEFT, RIGHT = 81, 80


def screen(*rewards):
    return "".join(f"<p><i>${amount}<br>{delay}</font></i></p>" for amount, delay in rewards)


def question(
    participant,
    number,
    *,
    left=("20", "today"),
    right=("25", "5 days"),
    key=LEFT,
    is_later_right=True,
    **changed,
):
    chooses_later = (key == RIGHT) == is_later_right
    row = {
        "": f"{participant}_{number}",
        "worker_id": participant,
        "time_elapsed": str(1000 * (number + 1)),
        "trial_id": "stim",
        "exp_stage": "test",
        "stimulus": screen(left, right),
        "key_press": f"{key}.0",
        "choice": "larger_later" if chooses_later else "smaller_sooner",
    }
    return row | {name: str(value) for name, value in changed.items()}


def session(participant="p1", keys=(LEFT, RIGHT, LEFT), amounts=("30", "40", "50")):
    """Return a question for practice, and one for each of the keys."""
    practice = question(participant, 0, right=("21", "2 days"), key=RIGHT, exp_stage="practice", choice="")
    asked = [
        question(participant, number, right=(amount, "1 week"), key=key)
        for number, (key, amount) in enumerate(zip(keys, amounts, strict=True), start=1)
    ]
    return [practice, *asked]


def packed(rows, columns=COLUMNS):
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(buffer.getvalue().encode())


def example(participant="1", choices=("0", "1", "1"), amounts=("10.5", "38", "13.4")):
    return [
        dict(zip(HBAYESDM_COLUMNS, (participant, str(trial), "6", amount, "0", "10", choice), strict=True))
        for trial, (choice, amount) in enumerate(zip(choices, amounts, strict=True), start=1)
    ]


def tabbed(rows, columns=HBAYESDM_COLUMNS):
    lines = ["\t".join(columns), *("\t".join(row[name] for name in columns) for row in rows)]
    return "\n".join(lines) + "\n"


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, content, path=KIRBY, source_id="self_regulation"):
    content = packed(content) if isinstance(content, list) else content
    lake, report = ingested(folder, source_id, path, content)
    assert report.failures == (), report.failures
    return rows_of(lake, "items"), rows_of(lake, "human_responses"), report


def imported_example(folder, content):
    content = tabbed(content) if isinstance(content, list) else content
    return imported(folder, content, HBAYESDM, "hbayesdm")


def refusal(folder, content, path=KIRBY, source_id="self_regulation"):
    lake, report = ingested(folder, source_id, path, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    assert rows_of(lake, "runs") == []
    where = f"generated://handwritten@1/{path}: "
    assert str(failure).startswith(where), failure
    return str(failure).removeprefix(where)


@pytest.mark.parametrize("measure", MEASURES)
def test_each_choice_is_an_item_and_a_response(tmp_path, measure):
    path = f"{FOLDER}/{measure}.csv.gz"
    items, responses, report = imported(tmp_path, session(), path)
    assert [response["response"] for response in responses] == ["$20 today", "$40 in 1 week", "$20 today"]
    for number, (item, response) in enumerate(zip(items, responses, strict=True)):
        later = f"${(30, 40, 50)[number]} in 1 week"
        assert item["legal_options"] == ["$20 today", later] and item["credited_options"] == [later]
        assert item["item_id"] == response["item_id"] and item["item_id"].endswith(f"/p1/{number}")
        assert (item["mode_id"], item["source_id"]) == (MODES[measure], "self_regulation")
        assert item["participant_id"] == response["participant_id"] == "p1"
        assert item["split"] is None and response["split"] is None
        facts = {"trial": number, "options": [[20.0, 0.0], [30.0 + 10 * number, 7.0]]}
        assert json.loads(item["facts_json"]) == facts
    practice = f"{path}: 1 rows: a question for practice; in the history, and not asked"
    assert (report.n_source_rows, report.notes) == (4, (practice,))


def test_a_prompt_has_the_choices_before_it(tmp_path):
    items, _, _ = imported(tmp_path, session())
    assert items[2]["prompt"].split("\n\n", 1)[1] == (
        "For practice: $20 today or $21 in 2 days? You choose $21 in 2 days.\n"
        "Question 1: $20 today or $30 in 1 week? You choose $20 today.\n"
        "Question 2: $20 today or $40 in 1 week? You choose $40 in 1 week.\n"
        "Question 3: $20 today or $50 in 1 week? You choose"
    )
    assert {item["template_id"] for item in items} == {"discounting"}


@pytest.mark.parametrize("number", range(3))
def test_a_prompt_has_neither_its_own_answer_nor_the_future(tmp_path, number):
    keys, amounts = (LEFT, RIGHT, LEFT), ("30", "40", "50")
    plain, _, _ = imported(tmp_path / "plain", session())
    other_keys = keys[:number] + tuple(LEFT + RIGHT - key for key in keys[number:])
    other_amounts = amounts[: number + 1] + ("99",) * (2 - number)
    changed, _, _ = imported(tmp_path / "changed", session(keys=other_keys, amounts=other_amounts))
    for earlier in range(number + 1):
        for key in ("prompt", "facts_json", "legal_options", "credited_options"):
            assert plain[earlier][key] == changed[earlier][key]
    if number < 2:
        assert plain[number + 1]["prompt"] != changed[number + 1]["prompt"]


def test_sides_are_those_of_the_screen_and_options_are_not(tmp_path):
    shown = {"left": ("1,000.00", "6 months"), "right": ("500.00", "immediately"), "is_later_right": False}
    rows = [question("p1", 0, key=LEFT, **shown), question("p1", 1, key=RIGHT, **shown)]
    items, responses, report = imported(tmp_path, rows)
    options = ["$500.00 immediately", "$1,000.00 in 6 months"]
    assert [item["legal_options"] for item in items] == [options] * 2
    assert [response["response"] for response in responses] == options[::-1]
    assert items[0]["prompt"].endswith("Question 1: $1,000.00 in 6 months or $500.00 immediately? You choose")
    assert json.loads(items[0]["facts_json"])["options"] == [[500.0, 0.0], [1000.0, 180.0]]
    assert report.n_unreadable_rows == 0


@pytest.mark.parametrize(
    ("delay", "days"),
    [("1 day", 1), ("117 days", 117), ("2 weeks", 14), ("1 month", 30), ("1 year", 365), ("25 years", 9125)],
)
def test_delays_are_read_as_days(tmp_path, delay, days):
    items, _, _ = imported(tmp_path, [question("p1", 0, right=("25.50", delay))])
    assert json.loads(items[0]["facts_json"])["options"][1] == [25.5, days]
    assert items[0]["credited_options"] == [f"$25.50 in {delay}"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key_press": "-1.0"}, "key_press is not one of 80, 81"),
        ({"key_press": "13.0"}, "key_press is not one of 80, 81"),
        ({"key_press": ""}, "key_press is not one of 80, 81"),
        ({"choice": "smaller_sooner"}, "choice contradicts key_press"),
        ({"choice": ""}, "choice contradicts key_press"),
        ({"choice": "both"}, "choice contradicts key_press"),
    ],
)
def test_a_question_without_a_valid_choice_is_history_and_no_item(tmp_path, changed, said):
    rows = session()
    rows[2] |= changed
    items, responses, report = imported(tmp_path, rows)
    assert [json.loads(item["facts_json"])["trial"] for item in items] == [0, 2] and len(responses) == 2
    note = f"{KIRBY}: 1 rows: {said}; not asked, and in the history a question without a choice"
    # the question for practice is noted too, and could be read
    assert note in report.notes and report.n_unreadable_rows == 1
    assert "Question 2: $20 today or $40 in 1 week? You choose nothing.\n" in items[-1]["prompt"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"trial_id": "instruction"}, "there is no question on the screen"),
        ({"exp_stage": ""}, "exp_stage is not one of practice, test"),
        ({"stimulus": ""}, "stimulus does not show two amounts with their delays"),
        ({"stimulus": screen(("20", "today"))}, "stimulus does not show two amounts with their delays"),
        (
            {"stimulus": screen(("20", "today"), ("30", "soon"))},
            "stimulus does not show two amounts with their delays",
        ),
        (
            {"stimulus": screen(("20", "today"), ("30", "immediately"))},
            "both rewards come at the same time",
        ),
        ({"worker_id": ""}, "worker_id is empty"),
        ({"time_elapsed": "late"}, "time_elapsed is not a number"),
        *(
            ({"stimulus": screen(*rewards)}, "stimulus does not show two amounts with their delays")
            for rewards in (
                (("20", "today"), ("30", "99999999999 days")),
                (("20", "today"), ("30", "9999999 years")),
                (("20", "today"), ("9" * 400, "5 days")),
                ((",", "today"), ("30", "5 days")),
            )
        ),
    ],
)
def test_a_question_that_cannot_be_read_is_left_out_and_counted(tmp_path, changed, said):
    rows = session()
    rows[2] |= changed
    items, responses, report = imported(tmp_path, rows)
    assert len(items) == len(responses) == 2 and report.n_source_rows == 4
    assert f"{KIRBY}: 1 rows: {said}; left out" in report.notes
    assert "$40" not in items[-1]["prompt"]


def test_a_participant_without_a_valid_choice_is_named(tmp_path):
    items, _, report = imported(tmp_path, session() + session("p2", keys=(-1, -1, -1)))
    assert {item["participant_id"] for item in items} == {"p1"}
    assert report.notes[-1] == f"{KIRBY}: 4 rows: no response of p2 can be read"
    # the questions for practice could be read
    assert report.n_unreadable_rows == 3


@pytest.mark.parametrize("changed", [{"stimulus": ""}, {"trial_id": "instruction"}, {"": ""}])
def test_a_participant_without_a_question_that_can_be_read_is_named(tmp_path, changed):
    _, _, report = imported(tmp_path, session() + [row | changed for row in session("p2")])
    assert report.notes[-1] == f"{KIRBY}: 4 rows: no response of p2 can be read"


def test_the_numbers_of_the_screens_are_their_order_whatever_the_clock_says(tmp_path):
    rows = session()
    rows[3]["time_elapsed"] = "-5000"
    items, _, report = imported(tmp_path / "back", rows)
    plain, _, _ = imported(tmp_path / "plain", session())
    assert [item["prompt"] for item in items] == [item["prompt"] for item in plain]
    note = f"{KIRBY}: 4 rows: the clock of p1 is set back in between; in the order of their numbers"
    assert note in report.notes and report.n_unreadable_rows == 0


def test_a_screen_that_is_there_twice_refuses_the_file(tmp_path):
    rows = session()
    said = refusal(tmp_path, packed([*rows, rows[1]]))
    assert said == "expected each screen once, found several at one place, the first is that of p1 at 2000 ms"


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_refuses_the_file(tmp_path, column):
    said = refusal(tmp_path, packed(session(), columns=[name for name in COLUMNS if name != column]))
    assert said.endswith(f"; missing: {column or '(no name)'}")


def test_each_example_choice_is_an_item_and_a_response(tmp_path):
    items, responses, report = imported_example(tmp_path, example() + example("2", choices="101"))
    assert [response["response"] for response in responses[:3]] == [
        "10 now",
        "38 in 6 days",
        "13.4 in 6 days",
    ]
    assert [item["participant_id"] for item in items] == ["dd-1"] * 3 + ["dd-2"] * 3
    assert items[0]["legal_options"] == ["10 now", "10.5 in 6 days"]
    assert items[0]["credited_options"] == ["10.5 in 6 days"]
    assert json.loads(items[0]["facts_json"]) == {"trial": 0, "options": [[10.0, 0.0], [10.5, 6.0]]}
    assert {item["mode_id"] for item in items} == {"temporal_discounting_hbayesdm"}
    assert items[2]["prompt"].split("\n\n", 1)[1] == (
        "Question 1: 10 now or 10.5 in 6 days? You choose 10 now.\n"
        "Question 2: 10 now or 38 in 6 days? You choose 38 in 6 days.\n"
        "Question 3: 10 now or 13.4 in 6 days? You choose"
    )
    assert (report.n_source_rows, report.n_unreadable_rows) == (6, 0)


@pytest.mark.parametrize("number", range(3))
def test_an_example_prompt_has_neither_its_own_answer_nor_the_future(tmp_path, number):
    choices, amounts = ("0", "1", "1"), ("10.5", "38", "13.4")
    plain, _, _ = imported_example(tmp_path / "plain", example())
    other_choices = choices[:number] + tuple(str(1 - int(choice)) for choice in choices[number:])
    other_amounts = amounts[: number + 1] + ("99",) * (2 - number)
    changed, _, _ = imported_example(
        tmp_path / "changed", example(choices=other_choices, amounts=other_amounts)
    )
    for earlier in range(number + 1):
        for key in ("prompt", "facts_json", "legal_options"):
            assert plain[earlier][key] == changed[earlier][key]
    if number < 2:
        assert plain[number + 1]["prompt"] != changed[number + 1]["prompt"]


def test_one_day_is_no_days(tmp_path):
    rows = example()
    rows[0] |= {"delay_later": "1"}
    items, _, _ = imported_example(tmp_path, rows)
    assert items[0]["credited_options"] == ["10.5 in 1 day"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"choice": "2"},
            "choice is not one of 0, 1; not asked, and in the history a question without a choice",
        ),
        (
            {"choice": ""},
            "choice is not one of 0, 1; not asked, and in the history a question without a choice",
        ),
        *(
            (changed, "an amount is not a number below a billion; left out")
            for changed in (
                {"amount_later": "much"},
                {"amount_sooner": "-5"},
                {"amount_later": "1000000000"},
                {"amount_later": "9" * 400},
            )
        ),
        ({"delay_later": "1.5"}, "a delay is not a number of days; left out"),
        ({"delay_sooner": "6"}, "the later reward does not come later; left out"),
        ({"trial": "last"}, "trial is not a whole number; left out"),
        ({"trial": "1.4"}, "trial is not a whole number; left out"),
        ({"subjID": ""}, "subjID is not made of letters, digits and . _ -; left out"),
    ],
)
def test_an_example_that_cannot_be_read_is_counted_and_named(tmp_path, changed, said):
    rows = example()
    rows[1] |= changed
    items, responses, report = imported_example(tmp_path, rows)
    assert len(items) == len(responses) == 2
    assert report.notes == (f"{HBAYESDM}: 1 rows: {said}",)


@pytest.mark.parametrize("changed", [{"choice": ""}, {"trial": ""}, {"amount_later": ""}])
def test_a_participant_of_the_example_without_a_response_is_named(tmp_path, changed):
    _, _, report = imported_example(tmp_path, example() + [row | changed for row in example("2")])
    assert report.notes[-1] == f"{HBAYESDM}: 3 rows: no response of dd-2 can be read"
    assert report.n_unreadable_rows == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (tabbed(example()).replace("\n", "\t\t\n"), "column (no name) appears more than once"),
        (tabbed(example()).replace("choice", "chosen"), "expected the columns subjID, trial, "),
        (tabbed(example(), HBAYESDM_COLUMNS[:-1]), "expected the columns subjID, trial, "),
        (tabbed(example(), (*HBAYESDM_COLUMNS, "trial")), "column trial appears more than once"),
        (tabbed(example()).replace("\t", ","), "expected the columns subjID, trial, "),
        ("", "expected the columns subjID, trial, "),
        (
            tabbed(example() + example()[:1]),
            "expected each question once, found 1 several times, the first is ",
        ),
        (tabbed(example()) + "1\t2\n", "not readable as CSV (line 5: "),
        (tabbed(example()).encode() + b"\xff\t1\t1\t1\t1\t1\t1\n", "not UTF-8 text at byte "),
    ],
)
def test_an_example_file_of_another_form_is_refused(tmp_path, content, said):
    assert refusal(tmp_path, content, HBAYESDM, "hbayesdm").startswith(said)


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text], ids=["crlf", "bom"]
)
def test_line_ends_and_marks_change_nothing(tmp_path, change):
    plain, _, _ = imported_example(tmp_path / "plain", example())
    changed, _, report = imported_example(tmp_path / "changed", change(tabbed(example())))
    assert [item["prompt"] for item in plain] == [item["prompt"] for item in changed]
    assert report.n_unreadable_rows == 0


def test_an_example_file_without_choices_is_a_run_without_rows(tmp_path):
    items, responses, report = imported_example(tmp_path, [])
    assert items == responses == [] and report.notes == (f"{HBAYESDM}: the file holds no rows",)


def test_other_examples_hold_no_rows(tmp_path):
    source = load_sources()["hbayesdm"]
    run_ids = {file.path: DelayDiscountingImporter().identify(source, file) for file in source.files}
    assert {path: run_id for path, run_id in run_ids.items() if run_id} == {
        HBAYESDM: "hbayesdm-dd_exampleData-57b605a6f7d6-v1"
    }
    other = next(file for file in source.files if file.path != HBAYESDM)
    with pytest.raises(InvalidSource, match="not a file of delay discounting"):
        DelayDiscountingImporter().read(source, other, tmp_path)


@pytest.mark.mirror
def test_everybody_answered_in_the_order_of_the_file(tmp_path):
    lake, source = Home(tmp_path / "lake"), load_sources()["self_regulation"]
    [report] = ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    backward = [note for note in report.notes if "set back" in note]
    assert len(backward) == 1 and ": 90 rows: the clock of s175 is set back" in backward[0]

    asked = defaultdict(list)
    for item in sorted(rows_of(lake, "items"), key=lambda item: json.loads(item["facts_json"])["trial"]):
        asked[item["mode_id"], item["participant_id"]].append(item)
    for file in source.files:
        measure = Path(file.path).name.partition(".")[0]
        shown = defaultdict(list)
        with gzip.open(Path(os.environ["COGLAKE_MIRROR"]) / source.mirror_path(file), "rt") as rows:
            for row in csv.DictReader(rows):
                if measure == "recent_probes" and row["key_press"] != "-1.0":
                    shown[row["worker_id"]].append((re.findall("[A-Z]", row["stim"]), row["probe_letter"]))
                elif row["trial_id"] == "stim" and row["exp_stage"] == "test":
                    shown[row["worker_id"]].append(set(re.findall(r"\$([0-9.,]+)<", row["stimulus"])))
        assert len(shown) == 522
        for participant, screens in shown.items():
            items = asked[MODES[measure], participant]
            if measure == "recent_probes":
                facts = [json.loads(item["facts_json"]) for item in items]
                assert [(fact["letters"], fact["probe"]) for fact in facts] == screens
            else:
                amounts = [
                    {option.split()[0].removeprefix("$") for option in item["legal_options"]}
                    for item in items
                ]
                assert amounts == screens
                # and so do the questions that the last prompt remembers
                lines = re.findall(r"Question [0-9]+: (.*)\? You choose", items[-1]["prompt"])
                assert [set(re.findall(r"\$([0-9.,]+)", line)) for line in lines] == screens
