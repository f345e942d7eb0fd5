"""What is asked about a log of trials, and what is the right answer.

A causal world says what each part of a situation does: one integer, its role, per part. The worlds that agree
with a log are rows of an array; a word is the right answer if all of them give it, and UNKNOWN if they
disagree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from generate.contract import Ints

UNKNOWN = "UNKNOWN"

Setup = tuple[int, ...]


class Rules(Protocol):
    """How causes bring about what is observed."""

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return what each world makes of a trial.

        Parameters
        ----------
        worlds
            Worlds x parts: roles.
        setup
            What the trial consists of, such as the parts that are present.

        Returns
        -------
        Ints
            One outcome per world, counted from 0.
        """
        ...


@dataclass(frozen=True, slots=True)
class WhichRole:
    """What one part does; ``labels`` has a word for each role."""

    part: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhichOutcome:
    """What a trial that was never made leads to; ``labels`` has a word for each outcome."""

    setup: Setup
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HowMany:
    """The number of questions that have a word as their right answer."""

    of: tuple[WhichRole | WhichOutcome, ...]
    label: str


@dataclass(frozen=True, slots=True)
class HowFew:
    """The smallest number of parts that can have a role, or the largest."""

    role: int
    is_largest: bool


@dataclass(frozen=True, slots=True)
class HowManyWorlds:
    """The number of worlds that agree with the log."""


Word = WhichRole | WhichOutcome
Number = HowMany | HowFew | HowManyWorlds
Asked = Word | Number


def right_answer(rules: Rules, worlds: Ints, asked: Asked) -> str:
    """Return the right answer when one of some worlds, at least one, is the true one."""
    match asked:
        case WhichRole(part, labels):
            return _common(worlds[:, part], labels)
        case WhichOutcome(setup, labels):
            return _common(rules.outcomes(worlds, setup), labels)
        case HowMany(of, label):
            return str(sum(right_answer(rules, worlds, one) == label for one in of))
        case HowFew(role, is_largest):
            n_parts = (worlds == role).sum(axis=1)
            return str(int(n_parts.max() if is_largest else n_parts.min()))
        case HowManyWorlds():
            return str(len(worlds))


def _common(values: Ints, labels: Sequence[str]) -> str:
    first = int(values[0])
    return labels[first] if (values == first).all() else UNKNOWN
