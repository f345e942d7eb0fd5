"""Split halves: are the two means of a halving those of halves that share nobody?"""

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from pytest import approx

from generate.contract import PredictsPeople, Training
from generate.references.split_halves import SplitHalf
from generate.schedule import load_agents


def trials(reports):
    """Return the reports of each item, one per participant."""
    rows = [
        {"item_id": item, "participant_id": f"p{who:03}", "response_number": report}
        for item, values in reports.items()
        for who, report in enumerate(values)
    ]
    schema = {"item_id": pl.String, "participant_id": pl.String, "response_number": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def halvings(reports, n=200, first_seed=7):
    reference = SplitHalf(n_halvings=n, first_seed=first_seed)
    frame = reports if isinstance(reports, pl.DataFrame) else trials(reports)
    return reference.predict(reference.fit(Training(frame.clear(), pl.DataFrame())), frame)


def test_every_report_is_in_one_half():
    # powers of two: a sum tells which they are
    values = [float(2**power) for power in range(6)]
    found = halvings({"q": values})
    first, second = found["response_number"] * 3, found["target"] * 3
    assert (first + second).to_list() == approx([sum(values)] * 200)
    assert all(round(total).bit_count() == 3 for total in first)
    # all ways of choosing three of six come up
    assert first.round(6).n_unique() == 20


def test_of_an_odd_number_the_half_that_predicts_has_one_less():
    found = halvings({"q": [1.0, 2.0, 4.0]})
    assert set(found["response_number"].to_list()) == {1.0, 2.0, 4.0}
    assert set(found["target"].to_list()) == {1.5, 2.5, 3.0}


def test_each_halving_has_its_seed_and_every_item():
    found = halvings({"q": [1.0, 2.0], "r": [3.0, 4.0, 5.0]}, n=3)
    assert found.columns == ["item_id", "halving", "response_number", "target"]
    assert found["halving"].to_list() == [7, 7, 8, 8, 9, 9]
    assert found["item_id"].to_list() == ["q", "r"] * 3


def test_the_same_seed_gives_the_same_halves_whatever_the_order_of_rows():
    reports = {"q": [1.0, 5.0, 9.0, 13.0], "r": [2.0, 3.0]}
    found = halvings(reports)
    assert found.equals(halvings(trials(reports).sample(fraction=1, shuffle=True, seed=1)))
    one = halvings(reports, n=1, first_seed=50)
    assert one.equals(found.filter(pl.col("halving") == 50))
    assert not halvings(reports, first_seed=1000)["target"].equals(found["target"])


def test_a_report_of_one_half_does_not_move_the_mean_of_the_other():
    values = [1.0, 2.0, 4.0, 8.0]
    before, after = halvings({"q": values}), halvings({"q": [*values[:3], 80.0]})
    in_first = before["response_number"] * 2 >= 8
    # whoever reported 8 is in the same half as before
    assert before["target"].filter(in_first).equals(after["target"].filter(in_first))
    assert before["response_number"].filter(~in_first).equals(after["response_number"].filter(~in_first))
    assert 0 < in_first.sum() < 200


def test_items_are_split_independently():
    values = [float(2**power) for power in range(6)]
    found = halvings({"q": values, "r": values})
    by_item = found.pivot("item_id", index="halving", values="response_number")
    assert (by_item["q"] != by_item["r"]).mean() > 0.8


def test_one_report_has_no_halves_and_none_no_item():
    frame = pl.concat(
        [trials({"q": [1.0, 2.0], "r": [3.0]}), trials({"s": [4.0]}).with_columns(response_number=None)]
    )
    assert set(halvings(frame)["item_id"]) == {"q"}
    assert halvings({"r": [3.0]}).height == 0 and halvings({}).height == 0


def test_the_difference_is_as_wide_as_theory_says():
    rng = np.random.default_rng(3)
    reports = {f"q{item:03}": list(rng.normal(50, 10, 40)) for item in range(300)}
    found = halvings(reports, n=50)
    errors = (found["response_number"] - found["target"]).abs()
    # two means of 20 reports each: E|difference| = sd sqrt(2 / 20) sqrt(2 / pi)
    assert errors.mean() == approx(10 * (2 / 20) ** 0.5 * (2 / np.pi) ** 0.5, rel=0.03)


def test_it_learns_nothing_and_is_declared_so():
    agent = load_agents()["split_half"]
    reference = agent.made()
    assert isinstance(reference, PredictsPeople) and reference.exposure == "other_participants"
    assert reference.n_halvings == 1000 and agent.provenance == "human"
    assert agent.predicts == ("nonliteral_number",)
    with pytest.raises(ValidationError):
        SplitHalf(n_halvings=0, first_seed=1)
