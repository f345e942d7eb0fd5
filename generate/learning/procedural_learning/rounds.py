"""What the families of procedural learning share: levels, drawing, what is kept for transfer, attempts.

Rounds are drawn one by one, from thousands of instances or more, so the same one hardly ever comes twice in
an episode. Of what transfer questions are made, no round ever is.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from generate.contract import Bools, Floats
from store.errors import InvalidSource

T = TypeVar("T")

# a line that is longer than any action is not searched for one
_LONGEST_ACTION = 200

_MOST_TRIES = 5_000


class Level(BaseModel):
    """Constants of one difficulty level."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def until(self, attempt: Callable[[], T | None]) -> T:
        """Return what the first attempt gives that gives anything.

        Raises
        ------
        InvalidSource
            If none of many does: the constants of the level hardly ever allow an instance.
        """
        for _ in range(_MOST_TRIES):
            if (found := attempt()) is not None:
                return found
        raise InvalidSource(
            f"{self!r}: expected constants that allow an instance, found none in {_MOST_TRIES} draws; "
            "change the level in manifests/learning/procedural_learning.toml"
        )


@dataclass(frozen=True, slots=True)
class Attempts:
    """State of a game in which an attempt leaves nothing behind but what it told.

    Attributes
    ----------
    progress
        Best value so far, per episode.
    """

    progress: Floats


def is_kept_for_transfer(numbers: Iterable[int]) -> bool:
    """Return whether an instance, given as whole numbers, is one of which no round is ever made.

    A third of all instances are, whatever the skill: so transfer questions never occurred in practice.
    """
    checksum = 0
    for number in numbers:
        checksum = (31 * checksum + number) % 1009
    return checksum % 3 == 0


def whole_action(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match of a line that is an action, a full stop at its end aside; None where it is none."""
    if len(text) > _LONGEST_ACTION:
        return None
    return pattern.fullmatch(text.removesuffix(".").rstrip())


def carried(best: Floats, reached: Floats, which: Bools) -> Floats:
    """Return the best progress so far, of which only the episodes that take part may gain."""
    return np.where(which, np.maximum(best, reached), best)


def told(which: Bools, tell: Callable[[int], str]) -> list[str]:
    """Return the feedback of the episodes that take part, and nothing for the others."""
    feedback = [""] * which.size
    for lane in np.flatnonzero(which).tolist():
        feedback[lane] = tell(lane)
    return feedback
