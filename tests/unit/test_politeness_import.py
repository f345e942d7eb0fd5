"""Polite speech: are questions, choices and judgements of both experiments read, and faults counted?"""

import json

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest.pipeline import ingest
from ingest.politeness import SENTENCES
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import Source
from store.schemas import RAW_TABLES

PRODUCTION = "02_analysis/01_data/speaker_production.csv"
SEMANTICS = "02_analysis/01_data/literal_semantics.csv"
PRODUCTION_HEADER = '"subid","trial","item","goal","true_state","positivity","utterance"'
SEMANTICS_HEADER = '"subid","trial","item","state","positivity","utterance","judgment"'


def csv_of(header, *rows, end="\n"):
    return end.join([header, *rows]) + end


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def read(folder, path, content):
    lake, report = ingested(folder, "polite_speaker", path, content)
    assert report.failures == ()
    return rows_of(lake, "items"), rows_of(lake, "human_responses"), report


def produced(folder, *rows, **form):
    return read(folder, PRODUCTION, csv_of(PRODUCTION_HEADER, *rows, **form))


def judged(folder, *rows):
    return read(folder, SEMANTICS, csv_of(SEMANTICS_HEADER, *rows))


def test_a_speaker_chooses_one_of_eight_sentences(tmp_path):
    [item], [answer], _ = produced(tmp_path, '"a-1.json",1,"song","both","heart3","neg","bad"')
    assert item["item_id"].endswith("/3/both/song") and item["participant_id"] is None
    assert item["legal_options"] == list(SENTENCES) and len(set(SENTENCES)) == 8
    assert item["credited_options"] is None and item["mode_id"] == "politeness"
    assert json.loads(item["facts_json"]) == {"state": 3, "goal": "both", "rated": "song"}
    assert answer["response"] == "It wasn't bad"
    assert answer["participant_id"] == "speaker_production/a-1" and answer["item_id"] == item["item_id"]


def test_a_listener_says_whether_a_sentence_holds(tmp_path):
    items, answers, _ = judged(
        tmp_path,
        '"a.json",4,"poem","2","it wasn\'t ___","good",1',
        '"a.json",5,"cake","0","it was ___","amazing",0',
    )
    described = {json.loads(item["facts_json"])["described"]: item["item_id"] for item in items}
    assert [item["legal_options"] for item in items] == [["yes", "no"]] * 2
    assert {(row["item_id"], row["response"]) for row in answers} == {
        (described["it wasn't good"], "yes"),
        (described["it was amazing"], "no"),
    }


def test_what_was_rated_belongs_to_the_question_of_production_alone(tmp_path):
    produced_items, _, _ = produced(
        tmp_path / "a",
        '"a.json",1,"song","both","heart3","neg","bad"',
        '"b.json",1,"cake","both","heart3","neg","bad"',
        '"c.json",1,"cake","both","heart3","no_neg","good"',
    )
    assert [item["item_id"].rsplit("/", 1)[1] for item in produced_items] == ["cake", "song"]
    [item], answers, _ = judged(
        tmp_path / "b",
        '"a.json",4,"poem","2","it was ___","good",1',
        '"b.json",4,"cake","2","it was ___","good",0',
    )
    assert [row["item_id"] for row in answers] == [item["item_id"]] * 2
    assert "poem" not in item["prompt"] and "cake" not in item["prompt"]


@pytest.mark.parametrize("goal", ["informative", "social", "both"])
def test_the_prompt_says_mark_goal_and_sentences(tmp_path, goal):
    [item], _, _ = produced(tmp_path, f'"a.json",1,"song","{goal}","heart1","neg","bad"')
    prompt = item["prompt"]
    assert "gives the song 1 out of 3 hearts" in prompt
    assert "\n".join(SENTENCES) in prompt and prompt.endswith("Ben says:")
    assert ("make Ann feel good" in prompt) == (goal in ("social", "both"))
    assert ("how good the song really is" in prompt) == (goal in ("informative", "both"))
    assert item["template_id"] == "politeness_speaker_production"


def test_a_prompt_depends_on_the_question_alone(tmp_path):
    first = '"a.json",1,"song","both","heart3","neg","bad"'
    later = '"a.json",2,"cake","social","heart0","no_neg","good"'
    [one], _, _ = produced(tmp_path / "a", first)
    # another answer, a later trial, and another person
    items, _, _ = produced(
        tmp_path / "b",
        first.replace('"neg","bad"', '"no_neg","amazing"'),
        later,
        later.replace("a.json", "b"),
    )
    assert [item["prompt"] for item in items if item["item_id"].endswith("/song")] == [one["prompt"]]
    [yes], _, _ = judged(tmp_path / "c", '"a.json",4,"poem","2","it was ___","good",1')
    [no], _, _ = judged(tmp_path / "d", '"a.json",4,"poem","2","it was ___","good",0')
    assert yes["prompt"] == no["prompt"] and yes["facts_json"] == no["facts_json"]
    assert yes["prompt"].endswith("\nAnswer:") and "2 out of 3 hearts" in yes["prompt"]


def test_marks_and_line_ends_do_not_matter(tmp_path):
    row = '"a.json",1,"song","both","heart3","neg","bad"'
    text = "\ufeff" + csv_of(PRODUCTION_HEADER, row, end="\r\n")
    [item], [answer], _ = read(tmp_path, PRODUCTION, text)
    assert item["item_id"].endswith("/3/both/song") and answer["participant_id"] == "speaker_production/a"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (',2,"cake","both","heart3","neg","bad"', "subid is empty"),
        ('"a/b",2,"cake","both","heart3","neg","bad"', "subid is not made of letters, digits and . _ -"),
        ('"a.json",x,"cake","both","heart3","neg","bad"', "trial is not a whole number"),
        ('"a.json",1.5,"cake","both","heart3","neg","bad"', "trial is not a whole number"),
        ('"a.json",2,,"both","heart3","neg","bad"', "item is empty"),
        ('"a.json",2,"cake","rude","heart3","neg","bad"', "goal is not one of informative, social, both"),
        ('"a.json",2,"cake","both","heart4","neg","bad"', "true_state is not one of heart0 to heart3"),
        (
            '"a.json",2,"cake","both","heart3","neg","so-so"',
            "positivity and utterance do not make one of the eight sentences",
        ),
        (
            '"a.json",2,"cake","both","heart3","maybe","bad"',
            "positivity and utterance do not make one of the eight sentences",
        ),
        ('"a.json",1,"cake","both","heart3","neg","bad"', "a second response in the same trial"),
        (
            '"a.json",2,"song","both","heart3","neg","bad"',
            "a second response to the same question by the same participant",
        ),
        (
            '"c.json",2,"cake","both","heart3","neg","so-so"',
            "positivity and utterance do not make one of the eight sentences, "
            "and nothing else of c can be read",
        ),
    ],
)
def test_a_choice_that_cannot_be_read_is_counted_and_named(tmp_path, row, what):
    good = '"a.json",1,"song","both","heart3","no_neg","good"'
    _, answers, report = produced(tmp_path, good, row, good.replace("a.json", "b.json"))
    assert [answer["response"] for answer in answers] == ["It was good"] * 2
    assert report.n_source_rows == 3 and report.n_unreadable_rows == 1
    assert report.notes == (f"{PRODUCTION}: 1 rows: {what}; left out",)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('"a.json",5,"poem","5","it was ___","good",1', "state is not one of 0, 1, 2, 3"),
        (
            '"a.json",5,"poem","2","it was","good",1',
            "positivity and utterance do not make one of the eight sentences",
        ),
        ('"a.json",5,"poem","2","it was ___","good",2', "judgment is not 0 or 1"),
        ('"a.json",5,"poem","2","it was ___","good",', "judgment is not 0 or 1"),
    ],
)
def test_a_judgement_that_cannot_be_read_is_counted_and_named(tmp_path, row, what):
    _, answers, report = judged(tmp_path, '"a.json",4,"poem","1","it was ___","good",0', row)
    assert [answer["response"] for answer in answers] == ["no"]
    assert report.notes == (f"{SEMANTICS}: 1 rows: {what}; left out",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "expected the columns"),
        (csv_of(SEMANTICS_HEADER), "missing: goal, true_state; unknown: judgment, state"),
        (csv_of(PRODUCTION_HEADER, '"a.json",1,"song"'), "not readable as CSV"),
        (csv_of(PRODUCTION_HEADER).encode("utf-16"), "not UTF-8"),
        (csv_of(PRODUCTION_HEADER, '"a.json",1,"caf\u00e9').encode("cp1252"), "UTF-8"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path, content, said):
    lake, report = ingested(tmp_path, "polite_speaker", PRODUCTION, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and said in str(failure)
    assert rows_of(lake, "runs") == []


def test_a_file_without_rows_says_so_and_another_file_is_none(tmp_path):
    items, answers, report = produced(tmp_path / "a")
    assert items == [] and answers == []
    assert report.notes == (f"{PRODUCTION}: the file holds no rows",)
    _, report = ingested(tmp_path / "b", "polite_speaker", "02_analysis/01_data/other.csv", "x\n")
    assert report.n_new_files == 0 and report.failures == ()


def test_a_second_ingest_adds_nothing(tmp_path):
    content = csv_of(PRODUCTION_HEADER, '"a.json",1,"song","both","heart3","neg","bad"')
    lake, first = ingested(tmp_path, "polite_speaker", PRODUCTION, content)
    [run] = rows_of(lake, "runs")
    source = Source.model_validate(
        {
            "id": "polite_speaker",
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [{"path": PRODUCTION, "sha256": run["source_sha256"], "bytes": len(content)}],
        }
    )
    [second] = ingest(lake, [source], mirror=str(tmp_path / "mirror"))
    assert first.n_new_rows == 3 and second.n_new_rows == 0 and second.n_present_files == 1
