"""CogniScore, its standard errors and its comparisons once more, in plain Python from the values of items.

Nothing here comes from store, ingest, generate or models_sql, and nothing but :func:`named_draws` says how
the project draws. Scores are exact fractions; the bootstrap of :func:`replicates` takes draws of its own.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
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
