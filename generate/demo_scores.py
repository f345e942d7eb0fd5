"""Published scores of the demo's archive, stated apart from the SQL: the audit compares with them.

Labels and rules are those of the archive; a score that needs a fit is None, and stays empty in the file.
"""

import math
from collections.abc import Callable, Mapping
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

# column name -> one value per row, in file order
Table = dict[str, NDArray[Any]]
# label -> value, in the order of the archive's columns; None: not computed
Scores = Mapping[str, float | None]

FLAGS = ("present bias", "subaddictivity", "delay-speedup asymmetry-1", "delay-length asymmetry-2")


def _mean(values: NDArray[Any]) -> float:
    return math.fsum(values.tolist()) / values.size


def score_reward(label: str, *not_computed: str) -> Callable[[Table], Scores]:
    """Return the rule of mean reward in points; the fits that the archive puts beside it are not computed."""
    return lambda table: {label: _mean(table["reward"]), **dict.fromkeys(not_computed)}


def score_restless(table: Table) -> Scores:
    """Mean reward, confidence and accuracy; quadratic score rule on raw and on min-max scaled confidence."""
    accurate, confidence = table["accurate"], table["confidence"]
    low, high = confidence.min(), confidence.max()
    scaled = (confidence - low) / (high - low) if high > low else confidence
    return {
        "rewards mean": _mean(table["reward"]),
        "meta-cognitive sensitivity": _mean(1 - (accurate - confidence) * (accurate - confidence)),
        "confidence mean": _mean(confidence),
        "mean accuracy": _mean(accurate),
        "adjusted qsr": _mean(1 - (accurate - scaled) * (accurate - scaled)),
    }


def score_balloons(table: Table) -> Scores:
    """Mean reward, mean pumps, and mean reward where the balloon did not explode."""
    return {
        "Average rewards": _mean(table["reward"]),
        "Risk": _mean(table["pumps"]),
        "Adj Risk": _mean(table["reward"][~table["exploded"]]),
    }


def score_urn(table: Table) -> Scores:
    """One minus the mean absolute error; prior and likelihood weights by OLS of logits without intercept."""
    prior = table["prior"]
    likelihood = np.where(table["red_observation"], table["lh"], 1 - table["lh"])
    report = np.clip(table["left_pred"], 1e-5, 1 - 1e-5)
    posterior = prior * likelihood / (prior * likelihood + (1 - prior) * (1 - likelihood))
    x, z, y = ([math.log(p / (1 - p)) for p in column.tolist()] for column in (prior, likelihood, report))
    xx, zz, xz, xy, zy = (math.fsum(map(mul, *pair)) for pair in ((x, x), (z, z), (x, z), (x, y), (z, y)))
    # the last digits of a logarithm differ between machines; adding 0.0 turns -0.0 into 0.0
    prior_weight = round((xy * zz - zy * xz) / (xx * zz - xz * xz), 9) + 0.0
    likelihood_weight = round((zy * xx - xy * xz) / (xx * zz - xz * xz), 9) + 0.0
    return {
        "1 - Difference to bayes optimal posterior prediction": 1 - _mean(np.abs(posterior - report)),
        "prior weighting": prior_weight,
        "likelihood weighting": likelihood_weight,
        "prior / likelihood": prior_weight / likelihood_weight,
        "prior - likelihood": prior_weight - likelihood_weight,
    }


def score_offers(table: Table) -> Scores:
    """Score and flags of one run, as they are."""
    flags = {flag: _mean(table[flag]) for flag in FLAGS}
    return {"temporal discounting score": _mean(table["score"]), **flags}


def score_two_step(table: Table) -> Scores:
    """Mean reward, and the reward x common interaction on taking the same ship in the run's next row."""
    is_stay, has_next = table["action1"][1:] == table["action1"][:-1], table["run"][1:] == table["run"][:-1]
    is_rewarded, is_common = table["reward"][:-1] == 1, (table["action1"] == table["state"])[:-1]

    def stay(rewarded: bool, common: bool) -> float:
        return _mean(is_stay[has_next & (is_rewarded == rewarded) & (is_common == common)])

    # with -1/+1 coding the saturated OLS model is these four means
    interaction = stay(True, True) - stay(True, False) - stay(False, True) + stay(False, False)
    return {"rewards mean": _mean(table["reward"]), "interaction effect": interaction / 4}
