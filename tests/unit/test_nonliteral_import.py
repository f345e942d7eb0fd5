"""Nonliteral numbers: is every mean made of the ratings that are kept beside it?"""

import json

import pyarrow.dataset as ds
import pytest
from handwritten import ingested
from pytest import approx

from store.errors import InvalidSource
from store.lake import part_paths
from store.schemas import RAW_TABLES

PRICES = "paper/pnas2014/Data/Experiment1/experiment1-raw.csv"
AFFECT = "paper/pnas2014/Data/Experiment3b/experiment3b-raw.csv"
PRICES_HEADER = (
    "participant,domain,utterance,utteranceType,utteranceExact,utteranceRounded,state,stateType,stateRounded,"
    "stateProb,affectProb,order"
)
AFFECT_HEADER = "workerID,domain,stateRounded,stateType,affectProb,order"


def price(participant=1, domain="watch", utterance=1001, state=50, rating="0.5", affect="0.9"):
    return f"{participant},{domain},{utterance},sharp,1003,1000,{state},round,50,{rating},{affect},1"


def csv_of(*rows, header=PRICES_HEADER, end="\n"):
    return end.join([header, *rows]) + end


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def read(folder, content, path=PRICES):
    lake, report = ingested(folder, "hyperbole", path, content)
    assert report.failures == ()
    return rows_of(lake, "items"), rows_of(lake, "human_responses"), report


def test_the_target_is_the_mean_of_the_ratings_as_they_are(tmp_path):
    # ratings of one page need not add up to one
    rows = [price(1, rating="0.9"), price(2, rating="0.125"), price(1, state=51, rating="0.9")]
    items, ratings, _ = read(tmp_path, csv_of(*rows))
    first, second = items
    assert first["item_id"].endswith("/watch/1001/50") and first["participant_id"] is None
    assert (first["support_low"], first["support_high"]) == (0, 100)
    assert first["legal_options"] is None and first["mode_id"] == "nonliteral_number"
    assert first["target"] == (90 + 12.5) / 2 and second["target"] == 90
    assert [(row["participant_id"], row["response_number"], row["response"]) for row in ratings] == [
        ("experiment1/1", 90, None),
        ("experiment1/1", 90, None),
        ("experiment1/2", 12.5, None),
    ]
    assert json.loads(first["facts_json"]) == {"domain": "watch", "utterance": 1001, "state": 50}


def test_a_rating_of_the_price_itself_names_sharp_numbers_as_experiment_1_does(tmp_path):
    content = csv_of("1,laptop,500,round,0.5,1", "1,laptop,500,sharp,0.75,2", header=AFFECT_HEADER)
    items, ratings, _ = read(tmp_path, content, AFFECT)
    assert [json.loads(item["facts_json"]) for item in items] == [
        {"domain": "laptop", "state": 500},
        {"domain": "laptop", "state": 501},
    ]
    assert [item["target"] for item in items] == [50, 75]
    assert {row["participant_id"] for row in ratings} == {"experiment3b/1"}
    assert "a laptop. It cost 500 dollars." in items[0]["prompt"]


def test_the_prompt_says_what_was_said_and_which_price_is_rated(tmp_path):
    rows = [price(1, "electric kettle", 1000, state) for state in (50, 51, 10001)]
    items, _, _ = read(tmp_path, csv_of(*rows))
    prompt = {json.loads(item["facts_json"])["state"]: item["prompt"] for item in items}[51]
    assert "bought an electric kettle" in prompt and '"It cost 1000 dollars."' in prompt
    assert "50, 51, 10001" in prompt and "cost 51 dollars? Reply with a number from 0" in prompt
    assert prompt.endswith("\nAnswer:")


def test_a_prompt_depends_on_the_question_alone(tmp_path):
    [one], _, _ = read(tmp_path / "a", csv_of(price(1, rating="0.1")))
    # other ratings, of more people, and another question
    items, _, _ = read(
        tmp_path / "b", csv_of(price(1, rating="0.8"), price(2, rating="1"), price(1, "laptop", rating="0"))
    )
    [other] = [item for item in items if item["item_id"].endswith("/watch/1001/50")]
    assert other["prompt"] == one["prompt"] and other["facts_json"] == one["facts_json"]
    assert other["target"] == 90 and one["target"] == 10


def test_marks_and_line_ends_do_not_matter(tmp_path):
    [item], [rating], _ = read(tmp_path, "\ufeff" + csv_of(price(rating="0.3"), end="\r\n"))
    assert item["target"] == approx(30) and rating["response_number"] == item["target"]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (price("", rating="0"), "the participant is not made of letters, digits and . _ -"),
        (price("a b"), "the participant is not made of letters, digits and . _ -"),
        (price(1, domain="", state=51), "domain is not made of words"),
        (price(1, domain="w/x", state=51), "domain is not made of words"),
        (price(1, utterance="NA"), "utterance is not a whole number"),
        (price(1, utterance="1001.7"), "utterance is not a whole number"),
        (price(1, utterance=-1001), "a price is not positive"),
        (price(1, state=0), "a price is not positive"),
        (price(1, state="50.4"), "the price is not a whole number, round or sharp"),
        (price(1, state="NA"), "the price is not a whole number, round or sharp"),
        (price(1, state=51, rating="NA"), "stateProb is not a number"),
        (price(1, state=51, rating=""), "stateProb is not a number"),
        (price(1, state=51, rating="nan"), "stateProb is not a number"),
        (price(1, state=51, rating="1.025"), "stateProb is not between 0 and 1"),
        (price(1, state=51, rating="-0.025"), "stateProb is not between 0 and 1"),
        (price(1, rating="0.9"), "a second rating of the same question by the same participant"),
        (price(9, rating="NA"), "stateProb is not a number, and nothing else of 9 can be read"),
    ],
)
def test_a_rating_that_cannot_be_read_is_counted_and_named(tmp_path, row, what):
    [item], ratings, report = read(tmp_path, csv_of(price(1), row, price(2)))
    assert item["target"] == 50 and len(ratings) == 2
    assert report.n_source_rows == 3 and report.n_unreadable_rows == 1
    assert f"{PRICES}: 1 rows: {what}; left out" in report.notes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "expected the columns"),
        (csv_of(header=AFFECT_HEADER), "missing: "),
        (csv_of("1,watch"), "not readable as CSV"),
        (csv_of().encode("utf-16"), "not UTF-8"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path, content, said):
    lake, report = ingested(tmp_path, "hyperbole", PRICES, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and said in str(failure)
    assert rows_of(lake, "runs") == []


def test_normalised_ratings_and_other_experiments_are_not_read(tmp_path):
    for place, path in enumerate(
        ("Experiment1/experiment1-normalized.csv", "Experiment2/experiment2-raw.csv")
    ):
        _, report = ingested(tmp_path / str(place), "hyperbole", f"paper/pnas2014/Data/{path}", "x\n")
        assert report.n_new_files == 0 and report.failures == ()
