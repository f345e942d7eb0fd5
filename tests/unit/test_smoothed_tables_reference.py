"""Smoothed tables: right shares, an alpha chosen by the fitting data alone, and no way around a fold."""

import math

import numpy as np
import polars as pl
import pytest
from answered import fitted, predictions, trials

from generate.agents.value_learning import Axis
from generate.contract import Training
from generate.references.smoothed_tables import SmoothedTables, cross_validated_nll
from store.errors import InvalidSource

GRID = Axis(low=0.01, high=100.0, count=41, spacing="log")
REFERENCE = SmoothedTables(alpha=GRID, n_folds=10)
ABC = ["a", "b", "c"]


def answers(responses, split="train", *, fold=None, question="q", options=ABC, experiment="grammar"):
    """One row per answer, each of another participant; ``fold`` gives the fold of each."""
    return [
        {
            "item_id": f"{experiment}/{split}/{question}/{number:04d}",
            "participant_id": f"{experiment}/{split}/{number:04d}",
            "split": split,
            "fold": None if fold is None else fold(number),
            "legal_options": options,
            "response": response,
            "facts": {"question": question, "experiment": experiment, "trial": 0},
        }
        for number, response in enumerate(responses)
    ]


def drawn(shares, n, seed, options=ABC):
    return [options[place] for place in np.random.default_rng(seed).choice(len(shares), n, p=shares)]


def parameter(estimate, name):
    return next(fit for fit in estimate.fits if fit.parameter == name)


def test_a_table_holds_the_smoothed_shares():
    rows = [*answers("aab"), *answers("c", "test")]
    [logprobs] = predictions(REFERENCE, trials(rows)).values()
    alpha = parameter(fitted(REFERENCE, trials(answers("aab"))), "alpha").value
    total = 3 + 3 * alpha
    assert np.exp(logprobs) == pytest.approx([(2 + alpha) / total, (1 + alpha) / total, alpha / total])


def test_an_answer_is_its_place_whatever_stands_for_it():
    rows = answers("aab") + answers("xxy", options=["x", "y", "z"], experiment="grammar")
    rows = [row | {"item_id": f"i{n}", "participant_id": f"p{n}"} for n, row in enumerate(rows)]
    keys = answers("k", "test", options=["k", "l", "m"])
    [logprobs] = predictions(REFERENCE, trials(rows + keys)).values()
    assert math.exp(logprobs[0]) > math.exp(logprobs[1]) > math.exp(logprobs[2])
    assert math.exp(logprobs[0] - logprobs[1]) > 1.2


def test_the_same_words_with_another_scale_are_another_question():
    few, many = ["0", "1"], [str(n) for n in range(21)]
    rows = [
        *answers(["1"] * 5, question="how many", options=few),
        *answers(["20"] * 5, question="how many", options=many),
    ]
    rows = [row | {"item_id": f"i{n}", "participant_id": f"p{n}"} for n, row in enumerate(rows)]
    tested = answers(["1"], "test", question="how many", options=few)
    tested += [answers(["3"], "test", question="how many", options=many)[0] | {"item_id": "many"}]
    found = predictions(REFERENCE, trials(rows + tested))
    assert {len(logprobs) for logprobs in found.values()} == {2, 21}
    assert all(int(np.argmax(logprobs)) == len(logprobs) - 1 for logprobs in found.values())
    assert all(np.exp(logprobs).sum() == pytest.approx(1) for logprobs in found.values())


def test_a_question_that_was_not_learned_is_uniform():
    rows = [*answers("aab"), *answers("c", "test", question="new", options=["a", "b", "c", "d"])]
    [logprobs] = predictions(REFERENCE, trials(rows)).values()
    assert logprobs == pytest.approx([math.log(1 / 4)] * 4)
    # nor is one of another experiment, whatever its words
    rows = [*answers("aab"), *answers("c", "test", experiment="logic")]
    [logprobs] = predictions(REFERENCE, trials(rows)).values()
    assert logprobs == pytest.approx([math.log(1 / 3)] * 3)


def test_a_fit_recovers_the_shares():
    shares = [0.6, 0.3, 0.08, 0.02]
    options = ["a", "b", "c", "d"]
    rows = answers(drawn(shares, 4000, 1, options), options=options)
    rows += answers("a", "test", options=options)
    [logprobs] = predictions(REFERENCE, trials(rows)).values()
    assert np.exp(logprobs) == pytest.approx(shares, abs=3 * math.sqrt(0.25 / 4000))


def test_alpha_is_small_where_people_agree_and_large_where_they_do_not():
    agreed = [row for n in range(20) for row in answers("a" * 12, question=f"q{n}")]
    guessed = [row for n in range(20) for row in answers(drawn([1 / 3] * 3, 12, n), question=f"q{n}")]
    smallest = parameter(fitted(REFERENCE, trials(agreed)), "alpha")
    largest = parameter(fitted(REFERENCE, trials(guessed)), "alpha")
    assert smallest.value == GRID.values[0] and smallest.is_at_bound
    assert largest.value > 10
    between = [
        row
        for n in range(40)
        # shares of each question from a Dirichlet of concentration 1: what add-one smoothing expects
        for row in answers(drawn(np.random.default_rng(n).dirichlet([1, 1, 1]), 12, n), question=f"q{n}")
    ]
    found = parameter(fitted(REFERENCE, trials(between)), "alpha")
    assert 0.5 < found.value < 2 and found.is_at_bound is False and found.n_training == 480


def by_hand(rows, alpha, n_folds):
    """Cross-validated loss per answer, participant by participant."""
    names = sorted({row["participant_id"] for row in rows})
    fold = {name: place % n_folds for place, name in enumerate(names)}
    total = 0.0
    for row in rows:
        others = [
            other["response"]
            for other in rows
            if fold[other["participant_id"]] != fold[row["participant_id"]]
            and other["facts"]["question"] == row["facts"]["question"]
        ]
        n_options = len(row["legal_options"])
        total -= math.log((others.count(row["response"]) + alpha) / (len(others) + alpha * n_options))
    return total / len(rows)


def test_alpha_is_the_one_under_which_left_out_participants_are_likeliest():
    rows = [
        *answers(drawn([0.5, 0.4, 0.1], 37, 1)),
        *answers(drawn([0.1, 0.1, 0.8], 23, 2), question="r"),
    ]
    estimate = fitted(REFERENCE, trials(rows))
    losses = [by_hand(rows, alpha, 10) for alpha in GRID.values]
    assert parameter(estimate, "alpha").value == GRID.values[int(np.argmin(losses))]
    assert parameter(estimate, "cross_validated_nll").value == pytest.approx(min(losses))


def test_all_answers_of_a_participant_are_left_out_together():
    # each of two people gives one answer to all questions: nobody can be predicted by the other
    rows = [
        answers([response], question=f"q{n}")[0] | {"item_id": f"{response}{n}", "participant_id": response}
        for response in "ab"
        for n in range(10)
    ]
    assert parameter(fitted(REFERENCE, trials(rows)), "alpha").value == GRID.values[-1]


def test_the_loss_without_answers_is_nothing():
    assert cross_validated_nll(np.zeros((2, 1, 3)), np.array([3]), np.array([0.1, 1.0])).tolist() == [0, 0]
    estimate = fitted(REFERENCE, trials(answers("a")).clear())
    assert estimate.fits == ()
    [logprobs] = predictions(REFERENCE, trials(answers("a", "test"))).values()
    assert logprobs == pytest.approx([math.log(1 / 3)] * 3)


def test_an_answer_outside_the_support_counts_nowhere():
    with_one = fitted(REFERENCE, trials([*answers("aab"), *answers(["x", None], question="r")]))
    assert parameter(with_one, "alpha").n_training == 3


# --- what it may learn from ---


@pytest.fixture
def both():
    """A data set with training participants, and one of ten folds without any."""
    return trials(
        [
            *answers(drawn([0.7, 0.2, 0.1], 40, 1)),
            *answers("abcab", "test"),
            *answers(drawn([0.1, 0.2, 0.7], 50, 2), "test", fold=lambda n: n % 10, experiment="logic"),
        ]
    )


class Watched(SmoothedTables):
    """Keeps what ``fit`` is shown."""

    def fit(self, training: Training):
        SHOWN.append(training.trials)
        return super().fit(training)


SHOWN = []


def test_rows_with_a_fold_are_predicted_from_the_other_folds_and_others_from_training(both):
    SHOWN.clear()
    found = predictions(Watched(alpha=GRID, n_folds=10), both)
    assert len(found) == 5 + 50 and None not in found.values()
    first, *others = SHOWN
    assert set(first["split"]) == {"train"} and first.height == 40
    assert len(others) == 10
    for fold, shown in enumerate(others):
        assert set(shown["fold"]) == set(range(10)) - {fold} and shown.height == 45


def test_a_response_changes_no_prediction_of_its_own_fold(both):
    before = predictions(REFERENCE, both)
    is_changed = pl.col("fold") == 3
    after = predictions(
        REFERENCE,
        both.with_columns(pl.when(is_changed).then(pl.lit("a")).otherwise("response").alias("response")),
    )
    key = ["item_id", "participant_id"]
    own = set(both.filter(is_changed).select(key).rows())
    without = set(both.filter(pl.col("fold").is_null()).select(key).rows())
    differing = {key for key in before if before[key] != after[key]}
    assert len(own) == 5 and not own & differing and len(without) == 45
    # those of the other folds learn from it, and those without a fold do not
    assert differing and not differing & without


def test_responses_of_the_test_change_nothing_where_there_are_training_participants(both):
    is_test = (pl.col("split") == "test") & pl.col("fold").is_null()
    changed = both.with_columns(pl.when(is_test).then(pl.lit("c")).otherwise("response").alias("response"))
    assert predictions(REFERENCE, changed) == predictions(REFERENCE, both)


def test_people_of_other_folds_who_were_asked_the_same_item_have_another_table():
    rows = answers("aaabbbcccc", "test", fold=lambda n: n % 5, experiment="logic")
    shared = trials([row | {"item_id": "shared"} for row in rows])
    found = predictions(REFERENCE, shared)
    assert len(found) == 10 and {item for item, _ in found} == {"shared"}
    assert found["shared", "logic/test/0000"] != found["shared", "logic/test/0001"]


# --- settings and faults ---


def test_alpha_must_be_positive():
    with pytest.raises(ValueError, match="alpha must be more than 0"):
        SmoothedTables(alpha=Axis(low=0.0, high=1.0, count=3), n_folds=10)


def test_an_item_without_a_question_is_refused():
    with pytest.raises(InvalidSource, match="expected question of every item, found 1 without, first i0"):
        fitted(REFERENCE, trials([{"legal_options": ABC, "response": "a", "facts": {"trial": 0}}]))
