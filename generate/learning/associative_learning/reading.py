"""What follows from a log, for one who weighs all trials at once and for one who takes them one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from generate.contract import Bools, Ints
from generate.learning.associative_learning.asked import Rules, Setup


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of a log: what the trial consisted of, and which outcome it had."""

    setup: Setup
    outcome: int


def all_roles(n_parts: int, n_roles: int) -> Ints:
    """Return every combination of roles: worlds x parts."""
    return np.indices((n_roles,) * n_parts).reshape(n_parts, -1).T


def agreeing(rules: Rules, worlds: Ints, shown: Sequence[Trial]) -> Ints:
    """Return the worlds that agree with every trial."""
    for trial in shown:
        worlds = worlds[rules.outcomes(worlds, trial.setup) == trial.outcome]
    return worlds


def agreeing_one_at_a_time(rules: Rules, worlds: Ints, shown: Sequence[Trial]) -> Ints:
    """Return the worlds that are left to a reader who never combines two trials.

    The reader knows the rules. A trial alone rules out roles of single parts; that is remembered, and trials
    are gone through until nothing new follows. What two trials say together about several parts is missed.
    """
    while True:
        n_before = len(worlds)
        for trial in shown:
            agree = worlds[rules.outcomes(worlds, trial.setup) == trial.outcome]
            worlds = worlds[_has_roles_of(worlds, agree)]
        if len(worlds) == n_before:
            return worlds


def n_unresolved(worlds: Ints) -> int:
    """Return how many parts do not have the same role in all of some worlds."""
    return int((worlds != worlds[0]).any(axis=0).sum())


def _has_roles_of(worlds: Ints, others: Ints) -> Bools:
    """Return which worlds have no role of a part that none of some others has."""
    has_all = np.ones(len(worlds), dtype=np.bool_)
    for part in range(worlds.shape[1]):
        is_possible = np.zeros(int(worlds[:, part].max()) + 1, dtype=np.bool_)
        is_possible[others[:, part]] = True
        has_all &= is_possible[worlds[:, part]]
    return has_all
