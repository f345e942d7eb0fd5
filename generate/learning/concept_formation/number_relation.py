"""Two or three numbers, accepted for how they are related."""

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.concept_formation.properties import Kind, PropertyConcept
from generate.learning.concept_formation.rules import compared, equal, remainders, stacked


class NumberRelation(PropertyConcept[tuple[int, ...]]):
    """A hidden relation between two numbers, or between three different ones.

    Attributes
    ----------
    n_numbers
        How many numbers are related.
    highest
        They are whole numbers from 1 to this one.
    """

    n_numbers: Literal[2, 3]
    highest: Annotated[int, Field(ge=6)]

    def inputs(self) -> Sequence[tuple[int, ...]]:
        """Return all pairs, or all triples of different numbers."""
        numbers = range(1, self.highest + 1)
        return list(product(numbers, repeat=2) if self.n_numbers == 2 else permutations(numbers, 3))

    def situation(self) -> str:
        """Return what the inputs are."""
        if self.n_numbers == 2:
            return (
                f"You are shown ordered pairs of whole numbers from 1 to {self.highest}, written as (4, 6)."
            )
        return (
            f"You are shown triples of three different whole numbers from 1 to {self.highest}, written as "
            "(4, 6, 1)."
        )

    def written(self, given: tuple[int, ...]) -> str:
        """Return the numbers in brackets."""
        return f"({', '.join(map(str, given))})"

    def kinds_known(self) -> Mapping[str, Kind]:
        """Return relations of the pairs, or of the triples."""
        columns = np.array(self.inputs()).T
        return self._of_pairs(*columns) if self.n_numbers == 2 else self._of_triples(*columns)

    def _of_pairs(self, first: Ints, second: Ints) -> Mapping[str, Kind]:
        top = self.highest
        return {
            "lead": Kind(
                "The first number minus the second is at least, or at most, a certain number, which may be "
                "negative.",
                compared(first - second, range(1 - top, top)),
            ),
            "distance": Kind(
                "The larger of the two minus the smaller one is at least, or at most, a certain number.",
                compared(abs(first - second), range(top)),
            ),
            "sum": Kind(
                "The sum of the two is at least, or at most, a certain number.",
                compared(first + second, range(2, 2 * top + 1)),
            ),
            "sum_remainder": Kind(
                "The sum of the two leaves a certain remainder when it is divided by 2, 3 or 4.",
                remainders(first + second, range(2, 5)),
            ),
            "multiple": Kind(
                "The first is a multiple of the second; or the second is a multiple of the first; or one of "
                "the two, whichever, is a multiple of the other. A number is a multiple of itself.",
                stacked(
                    (
                        first % second == 0,
                        second % first == 0,
                        (first % second == 0) | (second % first == 0),
                    )
                ),
            ),
            "line": Kind(
                "Twice the one number minus the other is at least, or at most, a certain number, which may "
                "be negative; either of the two may be the doubled one.",
                np.concatenate(
                    [
                        compared(2 * one - other, range(2 - top, 2 * top))
                        for one, other in ((first, second), (second, first))
                    ]
                ),
            ),
            "product_remainder": Kind(
                "The product of the two leaves a certain remainder when it is divided by 2, 3 or 4.",
                remainders(first * second, range(2, 5)),
            ),
        }

    def _of_triples(self, first: Ints, second: Ints, third: Ints) -> Mapping[str, Kind]:
        numbers = np.stack([first, second, third])
        low, middle, high = np.sort(numbers, axis=0)
        total = numbers.sum(axis=0)
        one_step, next_step = abs(first - second), abs(second - third)
        return {
            "rank": Kind(
                "A certain one of the first, the second and the third number is the largest, or the "
                "smallest, or the middle one in size.",
                np.concatenate([numbers == low, numbers == middle, numbers == high]),
            ),
            "total": Kind(
                "The sum of all three is at least, or at most, a certain number.",
                compared(total, range(6, 3 * self.highest - 2)),
            ),
            "total_remainder": Kind(
                "The sum of all three leaves a certain remainder when it is divided by 2, 3 or 4.",
                remainders(total, range(2, 5)),
            ),
            "balance": Kind(
                "A certain one of the three is larger than the sum of the two others.",
                2 * numbers > total,
            ),
            "steps": Kind(
                "The distance between the first and the second (the larger minus the smaller) is larger "
                "than, smaller than, or the same as the distance between the second and the third.",
                stacked((one_step > next_step, one_step < next_step, one_step == next_step)),
            ),
            "spread": Kind(
                "The largest minus the smallest is at least, or at most, a certain number.",
                compared(high - low, range(2, self.highest)),
            ),
            "middle": Kind(
                "The middle one in size is at least, or at most, a certain number.",
                compared(middle, range(2, self.highest)),
            ),
            "n_odd": Kind(
                "A certain number of the three, from none to all, are odd.",
                equal((numbers % 2).sum(axis=0), range(4)),
            ),
        }
