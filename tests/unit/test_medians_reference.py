"""Training medians: is the prediction the median report of the right people to the right query?"""

from statistics import median

import numpy as np
import polars as pl
import pytest
from answered import fitted, predictions, trials

from generate.references.medians import TrainingMedian
from store.errors import InvalidSource

REFERENCE = TrainingMedian()


def reports(by_query, split="train", experiment="e1", first=0):
    """One row per report; participants are numbered within a query."""
    return [
        {
            "item_id": f"{experiment}/{split}/{query}/{first + number}",
            "participant_id": f"{experiment}/{split}/{first + number}",
            "split": split,
            "response": str(report),
            "response_number": float(report),
            "target": float(report),
            "support_low": 0.0,
            "support_high": 100.0,
            "facts": {"query": query, "experiment": experiment, "trial": 0},
        }
        for query, own in by_query.items()
        for number, report in enumerate(own)
    ]


def test_the_median_is_that_of_the_same_query_in_the_same_experiment():
    rows = [
        *reports({"rain": [10, 90, 20], "snow": [0, 100]}),
        *reports({"rain": [70]}, experiment="e2"),
        *reports({"rain": [1], "snow": [2]}, "test"),
        *reports({"rain": [3]}, "test", experiment="e2"),
    ]
    assert predictions(REFERENCE, trials(rows)) == {
        ("e1/test/rain/0", None): 20.0,
        ("e1/test/snow/0", None): (0 + 100) / 2,
        ("e2/test/rain/0", None): 70.0,
    }


def test_a_query_that_nobody_was_asked_in_training_has_no_answer():
    rows = [*reports({"rain": [10]}), *reports({"rain": [1], "hail": [2]}, "test")]
    assert predictions(REFERENCE, trials(rows)) == {
        ("e1/test/hail/0", None): None,
        ("e1/test/rain/0", None): 10.0,
    }


def test_a_fit_recovers_what_people_report_in_the_middle():
    rng = np.random.default_rng(1)
    truth = {f"q{number}": float(number * 10) for number in range(1, 10)}
    rows = reports({query: rng.normal(value, 8, 400) for query, value in truth.items()})
    found = {fit.parameter: fit for fit in fitted(REFERENCE, trials(rows)).fits}
    # the standard error of a median is 1.25 times that of the mean
    assert {name.removeprefix("e1:") for name in found} == set(truth)
    assert all(abs(found[f"e1:{query}"].value - value) < 4 * 1.25 * 8 / 20 for query, value in truth.items())
    assert {fit.n_training for fit in found.values()} == {400}


def test_an_estimate_says_whose_reports_it_has():
    frame = trials([*reports({"rain": [10, 30, 20]}), reports({"snow": [5]})[0] | {"response_number": None}])
    estimate = fitted(REFERENCE, frame)
    [fit] = estimate.fits
    assert (fit.parameter, fit.value, fit.n_training) == ("e1:rain", median([10, 30, 20]), 3)
    assert estimate.training_set == "3 reports of 3 training participants"


def test_reports_of_the_test_change_nothing():
    rows = [*reports({"rain": [10, 20]}), *reports({"rain": [1, 99]}, "test")]
    frame = trials(rows)
    is_test = pl.col("split") == "test"
    changed = frame.with_columns(
        pl.when(is_test).then(50.0).otherwise(name).alias(name) for name in ("response_number", "target")
    )
    assert predictions(REFERENCE, changed) == predictions(REFERENCE, frame)


def test_a_question_that_many_were_asked_is_predicted_once():
    asked = [{"item_id": "rain", "participant_id": f"t{n}", "split": "test"} for n in range(3)]
    facts = {"facts": {"query": "rain", "experiment": "e1"}, "response_number": 4.0}
    frame = trials([*reports({"rain": [10]}), *(row | facts for row in asked)])
    assert predictions(REFERENCE, frame) == {("rain", None): 10.0}


def test_without_an_experiment_the_data_set_counts():
    rows = reports({"rain": [10]}, experiment=None) + reports({"rain": [1]}, "test", experiment=None)
    assert predictions(REFERENCE, trials(rows)) == {("None/test/rain/0", None): 10.0}
    assert [fit.parameter for fit in fitted(REFERENCE, trials(rows[:1])).fits] == ["study:rain"]


def test_nothing_follows_from_nothing():
    frame = trials(reports({"rain": [10]}, "test"))
    assert fitted(REFERENCE, frame.clear()).fits == ()
    assert predictions(REFERENCE, frame) == {("e1/test/rain/0", None): None}


def test_an_item_without_a_query_is_refused():
    with pytest.raises(InvalidSource, match="expected query of every item, found 1 without, first i0"):
        fitted(REFERENCE, trials([{"facts": {"trial": 0}}]))
