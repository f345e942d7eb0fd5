"""Strings of letters, accepted for what stands where."""

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.learning.concept_formation.properties import Kind, PropertyConcept
from generate.learning.concept_formation.rules import column, compared, equal, remainders
from generate.learning.wording import listed


class StringPattern(PropertyConcept[str]):
    """A hidden property of one string.

    Attributes
    ----------
    letters
        The letters of which strings consist.
    lengths
        How long strings may be, in letters.
    """

    letters: Annotated[str, Field(min_length=2, max_length=6)]
    lengths: Annotated[tuple[int, ...], Field(min_length=1)]

    def inputs(self) -> Sequence[str]:
        """Return all strings of these lengths."""
        return ["".join(letters) for n in self.lengths for letters in product(self.letters, repeat=n)]

    def situation(self) -> str:
        """Return what the inputs are."""
        return (
            f"You are shown strings of {listed([str(n) for n in self.lengths], 'or')} letters, each of them "
            f"{listed(self.letters, 'or')}, written with a space between letters."
        )

    def written(self, given: str) -> str:
        """Return the letters with spaces between."""
        return " ".join(given)

    def kinds_known(self) -> Mapping[str, Kind]:
        """Return properties of the ends, of what is inside, of order and of numbers."""
        strings = self.inputs()
        counts = {letter: column(s.count(letter) for s in strings) for letter in self.letters}
        return {
            "first": Kind(
                "The string begins with a certain letter.",
                np.array([[s[0] == x for s in strings] for x in self.letters]),
            ),
            "last": Kind(
                "The string ends with a certain letter.",
                np.array([[s[-1] == x for s in strings] for x in self.letters]),
            ),
            "contains": Kind(
                "The string contains a certain letter.",
                np.array([[x in s for s in strings] for x in self.letters]),
            ),
            "neighbours": Kind(
                "The string contains a certain letter directly followed by a certain letter; the two may be "
                "the same.",
                np.array([[x + y in s for s in strings] for x, y in product(self.letters, repeat=2)]),
            ),
            "before": Kind(
                "A certain letter stands somewhere before a certain other letter, not necessarily directly.",
                np.array(
                    [
                        [x in s and y in s[s.index(x) :] for s in strings]
                        for x, y in permutations(self.letters, 2)
                    ]
                ),
            ),
            "count": Kind(
                "A certain letter occurs at least, or at most, a certain number of times.",
                np.concatenate([compared(count, range(max(self.lengths) + 1)) for count in counts.values()]),
            ),
            "parity": Kind(
                "A certain letter occurs an even number of times (or not at all), or an odd number of times.",
                np.concatenate([remainders(count, (2,)) for count in counts.values()]),
            ),
            "ends_alike": Kind(
                "The string begins and ends with the same letter.",
                np.array([[s[0] == s[-1] for s in strings]]),
            ),
            "doubled": Kind(
                "Some letter is directly followed by the same letter.",
                np.array([[any(x + x in s for x in self.letters) for s in strings]]),
            ),
            "mirror": Kind(
                "The string reads the same forwards and backwards.",
                np.array([[s == s[::-1] for s in strings]]),
            ),
            "n_different": Kind(
                "The string has a certain number of different letters.",
                equal(column(len(set(s)) for s in strings), range(1, len(self.letters) + 1)),
            ),
        }
