"""Worlds as rows of numbers: all that makes one, drawn again until it is one that can be played."""

from collections.abc import Callable, Sequence

import numpy as np
from pydantic import BaseModel

from generate.contract import Bools, Ints
from generate.learning.dice import Dice
from store.errors import InvalidSource

_MOST_DRAWS = 2000


def accepted_rows(
    family: BaseModel,
    dice: Sequence[Dice],
    draw: Callable[[Dice], Sequence[int]],
    accepts: Callable[[Ints], Bools],
) -> Ints:
    """Draw a row per dice, again and again where it is not accepted.

    Parameters
    ----------
    family
        Whose worlds they are, for the error.
    draw
        Draws the numbers of one world.
    accepts
        Says of each of several rows whether it makes a world that can be played. What it says of one must not
        depend on the others.

    Returns
    -------
    Ints
        Episodes x numbers.

    Raises
    ------
    InvalidSource
        If the constants of the family leave none, or too few to be found.
    """
    rows: list[Sequence[int]] = [()] * len(dice)
    left = np.arange(len(dice))
    for _ in range(_MOST_DRAWS):
        for lane in left.tolist():
            rows[lane] = draw(dice[lane])
        left = left[~accepts(np.array([rows[lane] for lane in left.tolist()], dtype=np.int64))]
        if not left.size:
            return np.array(rows, dtype=np.int64)
    raise InvalidSource(
        f"{type(family).__name__}: expected constants that leave worlds which can be solved, found none in "
        f"{_MOST_DRAWS} draws with {family!r}; change them"
    )


def every_row(counts: Sequence[int], visible: Sequence[int]) -> Ints:
    """Return a row for every combination of hidden numbers, each below its count, and the visible ones."""
    hidden = np.indices(tuple(counts)).reshape(len(counts), -1).T
    return np.hstack([hidden, np.tile(np.array(visible, dtype=np.int64), (len(hidden), 1))])
