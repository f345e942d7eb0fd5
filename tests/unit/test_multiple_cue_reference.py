"""Multiple-cue updating: does it learn from feedback as its formula says, and does a fit find the truth?"""

import math
from itertools import product

import numpy as np
import polars as pl
import pytest
from answered import fitted, nll, predictions, trials

from generate.references.multiple_cue import MultipleCueUpdating
from store.errors import InvalidSource

REFERENCE = MultipleCueUpdating()
STEPS = [str(value) for value in range(10, 100, 10)]
WORDS = ["tiny", "small", "low", "lower", "middle", "upper", "high", "huge", "giant"]
# length of the cue vector (5, 5), and the step of the scale
CUE_UNIT, RESPONSE_UNIT = math.sqrt(50), 10.0


def additive(cues):
    return 50 + 10 * (cues[0] - cues[1])


def expected(cues, feedback, rate, inverse_temperature, initial_weight):
    """The model trial by trial in plain Python: log-probabilities of the nine responses."""
    weights = [initial_weight] * len(cues[0])
    for trial, shown in zip(cues, feedback, strict=True):
        scaled = [cue / CUE_UNIT for cue in trial]
        criterion = sum(weight * cue for weight, cue in zip(weights, scaled, strict=True))
        scores = [-inverse_temperature * (criterion - place) ** 2 for place in range(1, 10)]
        norm = math.log(sum(map(math.exp, scores)))
        yield [score - norm for score in scores]
        if shown is not None:
            error = shown / RESPONSE_UNIT - criterion
            weights = [weight + rate * error * cue for weight, cue in zip(weights, scaled, strict=True)]


def simulated(participants, n_trials, parameters, *, seed, experiment="e1", n_shown=None, rule=additive):
    """Sessions of people who judge as the model says; feedback ends after ``n_shown`` trials."""
    rng = np.random.default_rng(seed)
    rows = []
    for participant in participants:
        cues = [[5, 5], *rng.integers(1, 6, (n_trials - 1, 2)).tolist()]
        shown = [min(max(rule(pair), 10), 90) for pair in cues]
        feedback = [value if n_shown is None or t < n_shown else None for t, value in enumerate(shown)]
        for trial, logprobs in enumerate(expected(cues, feedback, *parameters)):
            cumulative = np.cumsum(np.exp(logprobs))
            response = int((cumulative < rng.random()).sum())
            rows.append(
                {
                    "item_id": f"{experiment}/{participant}/{trial}",
                    "participant_id": f"{experiment}/{participant}",
                    "split": "test" if participant.startswith("t") else "train",
                    "legal_options": STEPS,
                    "target": feedback[trial],
                    "response": STEPS[min(response, 8)],
                    "facts": {"trial": trial, "cues": cues[trial], "experiment": experiment},
                }
            )
    return rows


@pytest.fixture(scope="module")
def people():
    """Six training and two test participants of each of two experiments."""
    names = [f"a{n}" for n in range(6)] + ["t0", "t1"]
    return trials(
        [
            *simulated(names, 60, (0.2, 0.3, 3.0), seed=1, n_shown=45),
            *simulated(names, 40, (0.05, 1.0, 5.0), seed=2, experiment="e2"),
        ]
    )


@pytest.fixture(scope="module")
def estimate(people):
    return fitted(REFERENCE, people.filter(pl.col("split") == "train"))


def test_a_fit_recovers_the_parameters(people, estimate):
    found = {fit.parameter: fit for fit in estimate.fits}
    for experiment, truth, n in [("e1", (0.2, 0.3, 3.0), 360), ("e2", (0.05, 1.0, 5.0), 240)]:
        for name, value in zip(
            ("learning_rate", "inverse_temperature", "initial_weight"), truth, strict=True
        ):
            fit = found[f"{experiment}:{name}"]
            assert fit.value == pytest.approx(value, rel=0.25), (experiment, name)
            assert fit.is_converged and fit.is_at_bound is False and fit.n_training == n
        assert found[f"{experiment}:n_converged"].value == 27
        assert found[f"{experiment}:cue_unit"].value == pytest.approx(CUE_UNIT)
        assert found[f"{experiment}:response_unit"].value == RESPONSE_UNIT
    assert estimate.training_set == "600 responses of 12 training participants, per experiment"


def test_predictions_are_those_of_the_formula(people, estimate):
    own = people.filter(pl.col("participant_id") == "e1/t0")
    found = {fit.parameter: fit.value for fit in estimate.fits}
    parameters = [found[f"e1:{name}"] for name in ("learning_rate", "inverse_temperature", "initial_weight")]
    cues = own["facts_json"].str.json_decode(pl.Struct({"cues": pl.List(pl.Float64)})).struct.field("cues")
    by_hand = list(expected(cues.to_list(), own["target"].to_list(), *parameters))
    logprobs = REFERENCE.predict(estimate, own)["logprobs_nats"].to_list()
    assert np.allclose(logprobs, by_hand, atol=1e-10)


def test_the_loss_of_a_fit_is_that_of_its_predictions(people, estimate):
    training = people.filter((pl.col("split") == "train") & pl.col("item_id").str.starts_with("e1"))
    [loss] = [fit.value for fit in estimate.fits if fit.parameter == "e1:negative_log_likelihood"]
    assert nll(training, REFERENCE.predict(estimate, training)) == pytest.approx(loss)


def test_a_fit_is_better_than_chance_on_other_people(people, estimate):
    tested = people.filter(pl.col("split") == "test")
    assert nll(tested, REFERENCE.predict(estimate, tested)) / tested.height < math.log(9) - 0.3


def test_the_order_of_rows_means_nothing(people, estimate):
    shuffled = people.sample(fraction=1.0, shuffle=True, seed=3)
    again = REFERENCE.predict(estimate, shuffled).sort("item_id")
    assert again.equals(REFERENCE.predict(estimate, people).sort("item_id"))
    assert [fit.value for fit in fitted(REFERENCE, shuffled.filter(pl.col("split") == "train")).fits] == (
        pytest.approx([fit.value for fit in estimate.fits], rel=1e-3)
    )


def test_responses_of_the_test_change_nothing(people):
    is_test = pl.col("split") == "test"
    changed = people.with_columns(pl.when(is_test).then(pl.lit("90")).otherwise("response").alias("response"))
    assert predictions(REFERENCE, changed) == predictions(REFERENCE, people)


@pytest.mark.parametrize("column", ["response", "target"])
def test_what_comes_later_changes_nothing_before(people, estimate, column):
    own = people.filter(pl.col("participant_id") == "e1/t0")
    trial = pl.int_range(pl.len())
    value = pl.lit("10") if column == "response" else pl.lit(90.0)
    changed = own.with_columns(pl.when(trial >= 20).then(value).otherwise(column).alias(column))
    before = REFERENCE.predict(estimate, own)["logprobs_nats"].to_list()
    after = REFERENCE.predict(estimate, changed)["logprobs_nats"].to_list()
    # the feedback of trial 20 is seen after its response
    assert after[:21] == before[:21]
    assert (after == before) is (column == "response")


def test_nothing_is_learned_without_feedback(estimate):
    rows = [
        {
            "item_id": f"{trial}",
            "legal_options": STEPS,
            "facts": {"trial": trial, "cues": [4, 2], "experiment": "e1"},
            "target": target,
        }
        for trial, target in enumerate([None, None, 90.0, None])
    ]
    first, second, third, fourth = REFERENCE.predict(estimate, trials(rows))["logprobs_nats"].to_list()
    assert first == second == third != fourth


def test_feedback_that_followed_no_response_is_learned_from(estimate):
    row = {"legal_options": STEPS, "target": 90.0, "response": None}
    rows = [row | {"facts": {"trial": trial, "cues": [4, 2], "experiment": "e1"}} for trial in range(2)]
    frame = trials(rows)
    assert fitted(REFERENCE, frame).fits == ()
    first, second = REFERENCE.predict(estimate, frame)["logprobs_nats"].to_list()
    assert second[8] > first[8]


def test_words_stand_for_their_place(people, estimate):
    """The same study told in words: options by place, feedback as the place."""
    in_words = people.with_columns(
        pl.lit(WORDS).alias("legal_options"),
        pl.col("target") / 10,
        pl.col("response").replace_strict(STEPS, WORDS),
    )
    told = fitted(REFERENCE, in_words.filter(pl.col("split") == "train"))
    for one, other in zip(told.fits, estimate.fits, strict=True):
        if not one.parameter.endswith("response_unit"):
            assert one.value == pytest.approx(other.value, rel=1e-3)


def test_an_experiment_without_training_participants_is_not_predicted(people, estimate):
    other = trials(simulated(["t9"], 3, (0.1, 0.1, 0.0), seed=4, experiment="e3"))
    assert REFERENCE.predict(estimate, other).is_empty()
    assert set(predictions(REFERENCE, pl.concat([people, other]))) == {
        (item, None) for item in [*people.filter(pl.col("split") == "test")["item_id"], *other["item_id"]]
    }
    assert fitted(REFERENCE, people.clear()).parameters == {}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([{"trial": 0}], "expected cues of every item, found 1 without, first i0"),
        ([{"cues": [1, 2]}], "expected trial of every item"),
        ([{"trial": 0, "cues": "many"}], "expected objects with trial, cues, experiment"),
        ([{"trial": 0, "cues": [1]}, {"trial": 1, "cues": [1, 2]}], "expected as many cues in every trial"),
        ([{"trial": 0, "cues": [1]}, {"trial": 0, "cues": [1]}], "expected each trial of a participant once"),
    ],
)
def test_an_item_of_another_kind_is_refused(facts, said):
    frame = trials([{"legal_options": STEPS, "response": "10", "facts": one} for one in facts])
    with pytest.raises(InvalidSource, match=said):
        fitted(REFERENCE, frame)


def test_the_starts_are_27():
    from generate.references import multiple_cue

    assert len(list(product(*multiple_cue._STARTS))) == 27
