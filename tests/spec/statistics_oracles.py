"""Values, standard errors, intervals and comparisons once more, from the values of items.

CogniScore is in plain Python; estimates of one value are those of statsmodels and SciPy. Nothing here comes
from store, ingest, generate or models_sql, and nothing but :func:`named_draws` says how the project draws.
Scores are exact fractions; the bootstrap of :func:`replicates` takes draws of its own.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import statsmodels.api as sm
from numpy.typing import ArrayLike, NDArray
from scipy import stats

WEIGHTS = {"smolcua": 30, "marc": 25, "procedural_pile": 25, "ttm": 15}
WEIGHT_SUM = 95


@dataclass(frozen=True)
class Answered:
    """One item: its share of the credit, its weight, its part, and the group that it depends on."""

    value: float
    weight: float = 1.0
    stratum: str = ""
    cluster: str | None = None  # None: depends on no other


def strata(items: Sequence[Answered]) -> dict[str, list[Answered]]:
    """Return the items of each part, parts by name."""
    parts: dict[str, list[Answered]] = defaultdict(list)
    for item in items:
        parts[item.stratum].append(item)
    return dict(sorted(parts.items()))


def clusters(part: Sequence[Answered]) -> list[list[Answered]]:
    """Return the items that depend on each other, groups by name; items of no group in the order given."""
    groups: dict[str, list[Answered]] = defaultdict(list)
    for place, item in enumerate(part):
        groups[f"{place:09}" if item.cluster is None else item.cluster].append(item)
    return [groups[name] for name in sorted(groups)]


def weighted_mean(items: Sequence[Answered]) -> Fraction:
    """Return the exact weighted mean."""
    total = sum((Fraction(item.weight) * Fraction(item.value) for item in items), Fraction())
    return total / sum((Fraction(item.weight) for item in items), Fraction())


def score(items: Sequence[Answered]) -> Fraction:
    """Return the exact score, 0 to 100: the mean over parts of the weighted means within them."""
    parts = strata(items).values()
    return 100 * sum(map(weighted_mean, parts), Fraction()) / len(parts)


def composite(scores: Mapping[str, Fraction]) -> Fraction | None:
    """Return the exact CogniScore; None unless every component has a score."""
    if scores.keys() != WEIGHTS.keys():
        return None
    return sum((WEIGHTS[name] * scores[name] for name in WEIGHTS), Fraction()) / WEIGHT_SUM


def standard_error(items: Sequence[Answered]) -> float | None:
    """Return the linearised standard error of :func:`score`; None where a part has one cluster."""
    variance = 0.0
    parts = strata(items).values()
    for part in parts:
        groups = clusters(part)
        if len(groups) < 2:
            return None
        mean = float(weighted_mean(part))
        weight = math.fsum(item.weight for item in part)
        pulls = [math.fsum(item.weight * (item.value - mean) for item in group) / weight for group in groups]
        variance += len(groups) / (len(groups) - 1) * math.fsum(pull * pull for pull in pulls)
    return 100 * math.sqrt(variance) / len(parts)


def mcnemar(values: Sequence[float], other_values: Sequence[float]) -> float:
    """Return the exact two-sided p of McNemar's test."""
    more = sum(one > another for one, another in zip(values, other_values, strict=True))
    less = sum(one < another for one, another in zip(values, other_values, strict=True))
    return 1.0 if more + less == 0 else float(stats.binomtest(more, more + less, 0.5).pvalue)


def replicates(runs: Sequence[Sequence[Answered]], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return ``n`` bootstrap scores of each run, of shape runs x replicates, from common draws."""
    scores = np.zeros((len(runs), n))
    divided = [strata(items) for items in runs]
    for name in divided[0]:
        groups = [clusters(parts[name]) for parts in divided]
        drawn = rng.integers(len(groups[0]), size=(n, len(groups[0])))
        for row, of_run in enumerate(groups):
            sums = np.array([sum(item.weight * item.value for item in group) for group in of_run])
            weights = np.array([sum(item.weight for item in group) for group in of_run])
            scores[row] += sums[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    return 100 * scores / len(divided[0])


def named_draws(seed: str, n: int) -> list[int]:
    """Return the n draws from 1..n that a seed names: 8 hex digits of a hash each."""
    digits = "".join(hashlib.md5(f"{seed}/{block}".encode()).hexdigest() for block in range(-(-n // 4)))
    return [1 + (int(digits[8 * place : 8 * place + 8], 16) * n >> 32) for place in range(n)]


def named_replicate(dataset: str, items: Sequence[Answered], replicate: int) -> Fraction:
    """Return the exact score in one replicate, by the draws that the project declares."""
    parts = strata(items)
    means = []
    for name, part in parts.items():
        groups = clusters(part)
        drawn = named_draws(f"cognirank/{dataset}/{name}/{replicate}", len(groups))
        means.append(weighted_mean([item for place in drawn for item in groups[place - 1]]))
    return 100 * sum(means, Fraction()) / len(means)


def tied_groups(n: int, differs: Mapping[tuple[int, int], bool]) -> list[int]:
    """Return the group of each of ``n`` ranked places; ``differs[i, j]`` says it of places i < j."""
    groups: list[int] = []
    leader = 0
    for place in range(n):
        if place and differs[leader, place]:
            leader = place
        groups.append((groups[-1] if place else 0) + (leader == place))
    return groups


# ---- one value ----


class Estimate(NamedTuple):
    """A value with its standard error and 95 % interval; None where there is none."""

    value: float
    se: float | None
    low: float | None
    high: float | None
    n_clusters: int


def clustered(
    values: ArrayLike, weights: ArrayLike, clusters: Sequence[str], predictors: ArrayLike | None = None
) -> tuple[Any, int]:
    """Return statsmodels' weighted least squares, and how many clusters there are.

    Without predictors a constant is fitted. The covariance is robust to dependence within clusters.
    """
    groups = np.unique(np.asarray(clusters), return_inverse=True)[1]
    n_clusters = int(groups.max()) + 1
    observed = np.asarray(values, dtype=float)
    x = np.ones((len(observed), 1)) if predictors is None else np.asarray(predictors, dtype=float)
    # its correction has a factor for the number of predictors, which is no part of ours
    fit = sm.WLS(observed, x, weights=np.asarray(weights, dtype=float)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    return fit, n_clusters


def corrected(n_clusters: int) -> float:
    """Return the factor of a standard error of so many clusters."""
    return math.sqrt(n_clusters / (n_clusters - 1))


def mean_of(
    values: Sequence[float], weights: Sequence[float], clusters: Sequence[str], scale: float = 1
) -> Estimate:
    """Return the weighted mean; no error with one cluster, nor where clusters agree and values do not."""
    if len(set(clusters)) == 1:
        return Estimate(scale * float(np.average(values, weights=weights)), None, None, None, 1)
    fit, n_clusters = clustered(values, weights, clusters)
    value = float(fit.params[0])
    se = corrected(n_clusters) * float(fit.bse[0])
    weighed = [v for v, w in zip(values, weights, strict=True) if w > 0]
    if min(weighed) == max(weighed):
        se = 0.0
    elif se <= 1e-12 * abs(value):
        return Estimate(scale * value, None, None, None, n_clusters)
    half = float(stats.t(n_clusters - 1).ppf(0.975)) * se
    return Estimate(scale * value, scale * se, scale * (value - half), scale * (value + half), n_clusters)


def trimmed_mean_of(values: Sequence[float], clusters: Sequence[str], share: float) -> Estimate:
    """Return the mean of what is above the quantile at ``share``, with the Winsorised standard error."""
    observed = np.asarray(values, dtype=float)
    cut = np.quantile(observed, share)
    kept = observed[observed > cut]
    whole = mean_of(list(np.maximum(observed, cut)), [1.0] * len(observed), clusters)
    if whole.se is None:
        return whole._replace(value=float(kept.mean()))
    se = whole.se * len(observed) / len(kept)
    half = float(stats.t(whole.n_clusters - 1).ppf(0.975)) * se
    value = float(kept.mean())
    return Estimate(value, se, value - half, value + half, whole.n_clusters)


def coefficient_of(
    observed: ArrayLike, predictors: ArrayLike, contrast: Sequence[float], clusters: Sequence[str]
) -> Estimate:
    """Return a contrast of the coefficients of ordinary least squares."""
    fit, n_clusters = clustered(observed, np.ones(len(np.asarray(observed))), clusters, predictors)
    test = fit.t_test(np.asarray(contrast, dtype=float))
    value, se = float(test.effect.item()), corrected(n_clusters) * float(test.sd.item())
    half = float(stats.t(n_clusters - 1).ppf(0.975)) * se
    return Estimate(value, se, value - half, value + half, n_clusters)


def mean_of_two_means(one: Sequence[float], other: Sequence[float]) -> Estimate:
    """Return the mean of two independent means: half of Welch's comparison of one with minus the other."""
    welch = stats.ttest_ind(one, [-value for value in other], equal_var=False)
    interval = welch.confidence_interval(0.95)
    value = (math.fsum(one) / len(one) + math.fsum(other) / len(other)) / 2
    return Estimate(
        value, float(value / welch.statistic), interval.low / 2, interval.high / 2, len(one) + len(other)
    )
