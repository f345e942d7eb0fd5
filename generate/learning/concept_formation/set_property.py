"""Sets of numbers, accepted for their members as a whole."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.learning.concept_formation.properties import Kind, PropertyConcept
from generate.learning.concept_formation.rules import column, compared, equal, remainders
from generate.learning.wording import listed


class SetProperty(PropertyConcept[tuple[int, ...]]):
    """A hidden property of one set, whatever the order of its members.

    Attributes
    ----------
    highest
        Members are whole numbers from 1 to this one.
    sizes
        How many members a set may have.
    """

    highest: Annotated[int, Field(ge=5)]
    sizes: Annotated[tuple[int, ...], Field(min_length=1)]

    def inputs(self) -> Sequence[tuple[int, ...]]:
        """Return all sets of these sizes, as ascending members."""
        numbers = range(1, self.highest + 1)
        return [members for size in self.sizes for members in combinations(numbers, size)]

    def situation(self) -> str:
        """Return what the inputs are."""
        sizes = listed([str(size) for size in self.sizes], "or")
        return (
            f"You are shown sets of {sizes} different whole numbers "
            f"from 1 to {self.highest}, written in ascending order as {{2, 3, 5}}."
        )

    def written(self, given: tuple[int, ...]) -> str:
        """Return the members in braces."""
        return f"{{{', '.join(map(str, given))}}}"

    def kinds_known(self) -> Mapping[str, Kind]:
        """Return properties of single members, of numbers of members and of sums."""
        sets = self.inputs()
        numbers = range(1, self.highest + 1)
        smallest, largest = column(members[0] for members in sets), column(members[-1] for members in sets)
        total = column(sum(members) for members in sets)
        n_odd = column(sum(member % 2 for member in members) for members in sets)
        size = column(len(members) for members in sets)
        gap = column(min(b - a for a, b in pairwise(members)) for members in sets)
        most = max(self.sizes)
        return {
            "member": Kind(
                "A certain number is in the set.",
                np.array([[number in members for members in sets] for number in numbers]),
            ),
            "smallest": Kind(
                "The smallest member is at least, or at most, a certain number.",
                compared(smallest, numbers),
            ),
            "largest": Kind(
                "The largest member is at least, or at most, a certain number.",
                compared(largest, numbers),
            ),
            "size": Kind(
                "The set has at least, or at most, a certain number of members.",
                compared(size, range(min(self.sizes), most + 1)),
            ),
            "sum": Kind(
                "The sum of the members is at least, or at most, a certain number.",
                compared(total, range(int(total.min()), int(total.max()) + 1)),
            ),
            "sum_remainder": Kind(
                "The sum of the members leaves a certain remainder when it is divided by 2, 3 or 4.",
                remainders(total, range(2, 5)),
            ),
            "n_odd": Kind(
                "At least, or at most, a certain number of members are odd.",
                compared(n_odd, range(most + 1)),
            ),
            "n_even": Kind(
                "At least, or at most, a certain number of members are even.",
                compared(size - n_odd, range(most + 1)),
            ),
            "spread": Kind(
                "The largest member minus the smallest is at least, or at most, a certain number.",
                compared(largest - smallest, range(1, self.highest)),
            ),
            "closest": Kind(
                "The smallest difference between two members is a certain number.",
                equal(gap, range(1, self.highest)),
            ),
        }
