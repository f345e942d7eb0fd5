"""Pragmatic questions and what people chose: are both read from all the forms in which the files come?"""

import hashlib
import json
import unicodedata

import pyarrow.dataset as ds
import pytest

from ingest.pipeline import ingest
from ingest.pragmatics import PragmaticsImporter
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import Source
from store.schemas import RAW_TABLES
from store.settings import Home

RESPONSES = "human_data/fj/Human_Irony.csv"
SCENARIOS = "fj_raw_data/IronyScenarios.txt"
OPTIONS = "fj_raw_data/IronyOptions.txt"
KEYS = "fj_raw_data/IronyKeySimple.txt"
HEADER = '"","pKey","itemNum","Correct","Task","OptionChosen"'

# two scenarios of three options; of each the second is right
QUESTIONS = {
    SCENARIOS: "IV\t1\tA kettle leaks. What is meant?\nIV\t2\tA train is late. What is meant?",
    OPTIONS: "\n".join(
        f"IV\t{item}\t{option}\tReading {option} of {item}." for item in (1, 2) for option in (1, 2, 3)
    ),
    KEYS: "\n".join(
        f"IV\t{item}\t{option}\t{'Correct' if option == 2 else 'Incorrect'}"
        for item in (1, 2)
        for option in (1, 2, 3)
    ),
}


def responses(*rows, header=HEADER, end="\n"):
    """Each row is (participant, item, correct, chosen), or a whole line."""
    lines = [
        row if isinstance(row, str) else '"{}",{},{},{},"IV","{}"'.format(place, *row)
        for place, row in enumerate(rows, start=1)
    ]
    return end.join([header, *lines]) + end


def source_of(folder, files):
    """Put the files of a test into a mirror and return the source that pins them."""
    contents = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    source = Source.model_validate(
        {
            "id": "pragmatics",
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [
                {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
                for path, data in sorted(contents.items())
            ],
        }
    )
    for file in source.files:
        path = folder / "mirror" / source.mirror_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.path])
    return source


def ingested(folder, *rows, **files):
    """Import responses to the questions above; ``files`` replaces some of them, by constant."""
    names = {"scenarios": SCENARIOS, "options": OPTIONS, "keys": KEYS, "responses": RESPONSES}
    given = {names[name]: text for name, text in files.items()}
    source = source_of(folder, QUESTIONS | {RESPONSES: responses(*rows)} | given)
    lake = Home(folder / "lake")
    [report] = ingest(lake, [source], mirror=str(folder / "mirror"))
    return lake, report


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def read(folder, *rows, **files):
    lake, report = ingested(folder, *rows, **files)
    assert report.failures == ()
    return rows_of(lake, "items"), rows_of(lake, "human_responses"), report


def refusal(folder, *rows, **files):
    lake, report = ingested(folder, *rows, **files)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and rows_of(lake, "runs") == []
    return str(failure)


def test_people_share_the_item_of_a_scenario(tmp_path):
    items, answers, report = read(tmp_path, (7, 1, 1, "Answer2"), (8, 1, 0, "Answer3"), (8, 2, 1, "Answer2"))
    assert report.n_source_rows == 3 and report.n_unreadable_rows == 0
    assert [item["item_id"].rsplit("/", 1)[1] for item in items] == ["1", "2"]
    first = items[0]
    assert first["participant_id"] is None and first["split"] is None and first["target"] is None
    assert first["mode_id"] == "pragmatic_interpretation" and first["legal_options"] == ["1", "2", "3"]
    assert json.loads(first["facts_json"]) == {"phenomenon": "Irony", "scenario": 1}
    assert [(row["participant_id"], row["item_id"]) for row in answers] == [
        ("7", first["item_id"]),
        ("8", first["item_id"]),
        ("8", items[1]["item_id"]),
    ]


def test_a_choice_is_the_number_at_which_the_prompt_shows_its_option(tmp_path):
    rows = [
        (participant, item, int(participant == 2), f"Answer{participant}")
        for item in (1, 2)
        for participant in (1, 2, 3)
    ]
    items, answers, _ = read(tmp_path, *rows)
    prompts = {item["item_id"]: item["prompt"] for item in items}
    for answer in answers:
        item = answer["item_id"].rsplit("/", 1)[1]
        line = f"{answer['response']}) Reading {answer['participant_id']} of {item}."
        assert line in prompts[answer["item_id"]].splitlines()
    # the second option is right in the files: it is shown third, then first
    assert [item["credited_options"] for item in items] == [["3"], ["1"]]


def test_a_pair_of_sentences_is_judged_by_two_verdicts(tmp_path):
    files = {
        "fj_raw_data/CoherenceInferenceScenarios.txt": "CIV\t1\tIt rained. The street is wet.\r\n"
        "CIV\t2\tIt rained. The goat sings.",
        "fj_raw_data/CoherenceInferenceKeySimple.txt": "CIV\t1\tCoherent\r\nCIV\t2\tIncoherent",
        "human_data/fj/Human_CoherenceInference.csv": f"{HEADER}\n"
        '"1",7,1,1,"CIV","Coherent"\n"2",7,2,0,"CIV","Coherent"\n"3",8,2,0,"CIV","Answer1"\n',
    }
    source = source_of(tmp_path, files)
    [report] = ingest(Home(tmp_path / "lake"), [source], mirror=str(tmp_path / "mirror"))
    assert report.failures == ()
    items = rows_of(Home(tmp_path / "lake"), "items")
    answers = rows_of(Home(tmp_path / "lake"), "human_responses")
    shown = [[line for line in item["prompt"].splitlines() if line[1:2] == ")"] for item in items]
    assert shown == [["1) Incoherent", "2) Coherent"], ["1) Coherent", "2) Incoherent"]]
    assert [item["credited_options"] for item in items] == [["2"], ["2"]]
    # Coherent, twice; Answer1 is the number of an option that is not numbered here
    assert [answer["response"] for answer in answers] == ["2", "1"]
    assert report.n_unreadable_rows == 1


def test_a_prompt_depends_on_the_question_alone(tmp_path):
    one, _, _ = read(tmp_path / "a", (7, 1, 1, "Answer2"), (7, 2, 1, "Answer2"))
    # another answer, other people, and another right option
    keys = QUESTIONS[KEYS].replace("Correct", "Incorrect").replace("InIncorrect", "Incorrect")
    keys = keys.replace("1\t3\tIncorrect", "1\t3\tCorrect").replace("2\t1\tIncorrect", "2\t1\tCorrect")
    other, _, _ = read(tmp_path / "b", (9, 1, 0, "Answer1"), (8, 2, 0, "Answer3"), keys=keys)
    assert [item["prompt"] for item in one] == [item["prompt"] for item in other]
    assert [item["facts_json"] for item in one] == [item["facts_json"] for item in other]
    assert [item["credited_options"] for item in other] == [["1"], ["3"]]


def test_a_prompt_holds_scenario_and_options_and_ends_where_the_answer_begins(tmp_path):
    [first, _], _, _ = read(tmp_path, (7, 1, 1, "Answer2"))
    assert "A kettle leaks. What is meant?" in first["prompt"]
    assert "1) Reading 3 of 1.\n2) Reading 1 of 1.\n3) Reading 2 of 1.\n" in first["prompt"]
    assert "(1, 2, 3)" in first["prompt"] and first["prompt"].endswith("\nAnswer:")
    assert first["template_id"] == "pragmatics" and len(first["template_sha256"]) == 64


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_end_as_they_like(tmp_path, end):
    files = {
        name: QUESTIONS[path].replace("\n", end)
        for name, path in (("scenarios", SCENARIOS), ("options", OPTIONS), ("keys", KEYS))
    }
    items, answers, _ = read(tmp_path, (7, 2, 1, "Answer2"), **files)
    assert len(items) == 2 and [row["response"] for row in answers] == ["1"]


def test_texts_come_with_marks_quotes_breaks_and_decomposed_letters(tmp_path):
    decomposed = unicodedata.normalize("NFD", "Zoë says: “Très bien.”")
    scenarios = (
        f'\ufeff1\t"{decomposed} ""Oh yes.""\r  What is meant?\r"\r\n2\tHe said, "Well,  well."\r\n\r\n'
    )
    items, _, _ = read(tmp_path, (7, 1, 1, "Answer2"), scenarios=scenarios)
    assert 'Zoë says: “Très bien.” "Oh yes." What is meant?\n' in items[0]["prompt"]
    assert 'He said, "Well, well."\n' in items[1]["prompt"]


def test_letters_written_as_in_html_are_letters(tmp_path):
    scenarios = "1\tA caf&eacute; &amp; a bar.&nbsp; What now?\n2\tSalt & pepper, R&D; what?"
    options = QUESTIONS[OPTIONS].replace("Reading 3 of 1.", "A cafe&#769;.")
    items, _, _ = read(tmp_path, (7, 1, 1, "Answer2"), scenarios=scenarios, options=options)
    assert "A caf\u00e9 & a bar. What now?\n" in items[0]["prompt"]
    assert "1) A caf\u00e9.\n" in items[0]["prompt"]
    assert "Salt & pepper, R&D; what?\n" in items[1]["prompt"]


def test_a_key_may_repeat_the_text_of_its_option(tmp_path):
    keys = QUESTIONS[KEYS].replace("\tCorrect", "\tsome text\tCorrect")
    items, _, _ = read(tmp_path, (7, 1, 1, "Answer2"), keys=keys)
    assert [item["credited_options"] for item in items] == [["3"], ["1"]]


def test_responses_with_mark_and_crlf_and_columns_in_another_order_are_read(tmp_path):
    header = '\ufeff"OptionChosen","pKey","itemNum","Correct","Task",""'
    text = responses('"Answer2",7,1,1,"IV","1"', header=header, end="\r\n")
    _, [answer], _ = read(tmp_path, responses=text)
    assert answer["participant_id"] == "7" and answer["response"] == "3"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('"9",,1,1,"IV","Answer2"', "pKey is empty"),
        ('"9",../x,1,1,"IV","Answer2"', "pKey is not made of letters, digits and . _ -"),
        ('"9",7,2,1,"HV","Answer2"', "Task is not IV"),
        ('"9",7,77,1,"IV","Answer2"', "itemNum is not the number of a scenario"),
        ('"9",7,two,1,"IV","Answer2"', "itemNum is not the number of a scenario"),
        ('"9",7,2.4,1,"IV","Answer2"', "itemNum is not the number of a scenario"),
        ('"9",7,2,0,"IV","Answer4"', "OptionChosen is not one of the options"),
        ('"9",7,2,0,"IV","Coherent"', "OptionChosen is not one of the options"),
        ('"9",7,2,0,"IV",', "OptionChosen is not one of the options"),
        ('"9",7,2,NA,"IV","Answer2"', "Correct is not 0 or 1"),
        ('"9",7,2,0,"IV","Answer2"', "Correct contradicts the key"),
        ('"9",7,1,0,"IV","Answer3"', "a second response to the same question by the same participant"),
        (
            '"9",9,2,0,"IV","Answer9"',
            "OptionChosen is not one of the options, and nothing else of 9 can be read",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_counted_and_named(tmp_path, row, what):
    _, answers, report = read(tmp_path, (7, 1, 1, "Answer2"), (8, 1, 1, "Answer2"), row)
    assert [answer["participant_id"] for answer in answers] == ["7", "8"]
    assert report.n_source_rows == 3 and report.n_unreadable_rows == 1
    assert f"{RESPONSES}: 1 rows: {what}; left out" in report.notes


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"responses": ""}, "expected the columns (no name), pKey, itemNum, "),
        ({"responses": responses(header=HEADER + ',""')}, "column (no name) appears more than once"),
        ({"responses": responses(header=HEADER.replace('"Task"', '"Kind"'))}, "missing: Task; unknown: Kind"),
        ({"responses": responses('"1",7,1,1,"IV"')}, "not readable as CSV"),
        ({"responses": responses().encode("utf-16")}, "not UTF-8"),
        ({"scenarios": "IV\t1\tcaf\u00e9".encode("cp1252")}, "IronyScenarios.txt: not UTF-8 text at byte 8"),
        ({"scenarios": 'IV\t1\t"no end'}, "IronyScenarios.txt: not readable as tab-separated text"),
        ({"scenarios": "IV\tone\tA text."}, "IronyScenarios.txt: expected numbers and a text"),
        ({"scenarios": ""}, "a scenario for every option"),
        ({"scenarios": QUESTIONS[SCENARIOS] + "\nIV\t3\tA text."}, "two or more options, numbered from 1"),
        ({"scenarios": QUESTIONS[SCENARIOS] + "\nIV\t2\tA text."}, "each scenario once"),
        ({"options": QUESTIONS[OPTIONS] + "\nIV\t2\t4\tA text."}, "a key for every option"),
        ({"options": QUESTIONS[OPTIONS] + "\nIV\t2\t3\tA text."}, "each option once"),
        (
            {"options": QUESTIONS[OPTIONS].replace("Reading 3 of 1.", "")},
            "a text for every scenario and option",
        ),
        ({"keys": QUESTIONS[KEYS].replace("1\t3\tIncorrect", "1\t3\tCorrect")}, "one right option"),
        (
            {"keys": QUESTIONS[KEYS].replace("1\t3\tIncorrect", "1\t3\tPerhaps")},
            "or numbers and a verdict",
        ),
    ],
)
def test_files_that_are_not_what_they_should_be_are_refused(tmp_path, files, said):
    assert said in refusal(tmp_path, (7, 1, 1, "Answer2"), **files)


def test_responses_without_their_questions_are_refused(tmp_path):
    source = source_of(tmp_path, {RESPONSES: responses((7, 1, 1, "Answer2")), KEYS: QUESTIONS[KEYS]})
    [report] = ingest(Home(tmp_path / "lake"), [source], mirror=str(tmp_path / "mirror"))
    [failure] = report.failures
    assert f"expected {OPTIONS}, {SCENARIOS} in the same source" in str(failure)


def test_a_file_without_responses_is_a_run_with_its_questions(tmp_path):
    lake, report = ingested(tmp_path)
    assert report.failures == () and rows_of(lake, "human_responses") == []
    [run] = rows_of(lake, "runs")
    assert run["notes"] == ["the file holds no rows"] and run["model_id"] == "Irony"


def test_other_words_of_a_question_are_another_run_and_other_files_are_none(tmp_path):
    importer = PragmaticsImporter()
    ids = set()
    for place, options in enumerate((QUESTIONS[OPTIONS], QUESTIONS[OPTIONS] + " ")):
        source = source_of(tmp_path / str(place), QUESTIONS | {OPTIONS: options, RESPONSES: responses()})
        found = {file.path: importer.identify(source, file) for file in source.files}
        assert [path for path, run_id in found.items() if run_id] == [RESPONSES]
        ids.add(found[RESPONSES])
    assert len(ids) == 2


def test_a_second_ingest_adds_nothing(tmp_path):
    lake, first = ingested(tmp_path, (7, 1, 1, "Answer2"))
    source = source_of(tmp_path, QUESTIONS | {RESPONSES: responses((7, 1, 1, "Answer2"))})
    [second] = ingest(lake, [source], mirror=str(tmp_path / "mirror"))
    assert first.n_new_rows == 4 and second.n_new_rows == 0 and second.n_present_files == 1
