"""Numbers, accepted for lying in a range, outside one, or in one of two."""

from itertools import combinations
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from generate.contract import Bools, Ints
from generate.learning.concept_formation.concepts import LABEL_FORM, LABELS, LabelledConcept, Space, space_of

Shape = Literal["inside", "one_range", "two_ranges"]


class NumericInterval(LabelledConcept[int]):
    """Hidden ranges of the numbers from 1 upwards.

    Attributes
    ----------
    n_blocks
        Into how many blocks of neighbouring numbers the line is cut; a range consists of whole blocks.
    width
        How many numbers a block has.
    shape
        ``inside``: the accepted numbers are one range. ``one_range``: the accepted or the rejected numbers
        are. ``two_ranges``: the accepted or the rejected numbers are one range or two.
    """

    n_blocks: Annotated[int, Field(ge=8, le=100)]
    width: Annotated[int, Field(ge=1)] = 1
    shape: Shape

    def space(self) -> Space:
        """Return the ranges by how often the label changes along the line: once, twice and so on."""
        most = 4 if self.shape == "two_ranges" else 2
        tables = {str(n): self._changing(n) for n in range(1, most + 1)}
        hidden = ["3", "4"] if self.shape == "two_ranges" else ["2"]
        return space_of(range(1, self.n_blocks * self.width + 1), LABELS, tables, hidden)

    def introduction(self) -> str:
        """Return the line, its blocks and how many ranges there may be."""
        last = self.n_blocks * self.width
        ranges = {
            "inside": "The accepted numbers form one unbroken range of neighbouring numbers.",
            "one_range": "Either the accepted numbers or the rejected numbers form one unbroken range of "
            "neighbouring numbers.",
            "two_ranges": "Either the accepted numbers or the rejected numbers form one unbroken range of "
            "neighbouring numbers, or two such ranges.",
        }[self.shape]
        blocks = ""
        if self.width > 1:
            blocks = (
                f" The line is cut into blocks of {self.width} numbers, 1 to {self.width}, {self.width + 1} "
                f"to {2 * self.width} and so on up to {last}; all numbers of a block have the same label."
            )
        return (
            f"You are shown whole numbers from 1 to {last}. Some are accepted and all others are rejected, "
            f"by a rule that never changes.\n{ranges}{blocks}\n{LABEL_FORM}"
        )

    def written(self, given: int) -> str:
        """Return a number in digits."""
        return str(given)

    def _changing(self, n_changes: int) -> Bools:
        """Return the rules whose label changes so often along the line."""
        # a change at k: the blocks before k and from k on are labelled differently
        changes = np.array(list(combinations(range(1, self.n_blocks), n_changes)))
        blocks = np.arange(self.n_blocks)
        n_before = (changes[:, :, None] <= blocks).sum(axis=1)
        accepted = np.concatenate([n_before % 2 == 1, n_before % 2 == 0])
        if self.shape == "inside":
            accepted = accepted[_n_ranges(accepted) == 1]
        return np.repeat(accepted, self.width, axis=1)


def _n_ranges(accepted: Bools) -> Ints:
    """Return how many ranges of accepted blocks each rule has."""
    begins = accepted[:, 1:] & ~accepted[:, :-1]
    n_ranges: Ints = accepted[:, 0] + begins.sum(axis=1, dtype=np.int64)
    return n_ranges
