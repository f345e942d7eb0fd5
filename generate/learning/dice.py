"""Chance of the tasks: draws that are the same on every machine and with every version of NumPy."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_N_WORDS = 2**64


class Dice:
    """Draws of one instance, named by a key.

    Raw words of PCG64 stay the same between versions of NumPy, which its distributions do not.

    Parameters
    ----------
    key
        What names the draws, such as family, level, seed and purpose. Keys that differ anywhere give draws
        that have nothing to do with each other.
    """

    def __init__(self, *key: str | int) -> None:
        self._key = key
        digest = hashlib.sha256(repr(key).encode()).digest()
        self._words = np.random.PCG64(int.from_bytes(digest))

    def named(self, *more: str | int) -> "Dice":
        """Return dice of a longer key: what is drawn with them changes nothing here."""
        return Dice(*self._key, *more)

    def uniform(self) -> float:
        """Return a number on [0, 1)."""
        return float(int(self._words.random_raw()) >> 11) * 2.0**-53

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included, each as likely."""
        n = high - low + 1
        if n < 1:
            raise ValueError(f"expected low <= high, found {low} and {high}")
        # words past the last whole multiple of n would make some integers likelier
        while (word := int(self._words.random_raw())) >= _N_WORDS - _N_WORDS % n:
            pass
        return low + word % n

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.uniform() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options, each as likely."""
        return options[self.integer(0, len(options) - 1)]

    def sample(self, options: Sequence[T], n: int) -> list[T]:
        """Return ``n`` options in random order, none of them twice."""
        if n > len(options):
            raise ValueError(f"expected at most {len(options)} to be drawn, found {n}")
        left = list(options)
        for place in range(n):
            other = self.integer(place, len(left) - 1)
            left[place], left[other] = left[other], left[place]
        return left[:n]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in random order."""
        return self.sample(options, len(options))
