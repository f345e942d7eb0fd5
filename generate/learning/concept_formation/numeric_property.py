"""Two-digit numbers, accepted for their remainders or their digits."""

from collections.abc import Mapping, Sequence

from generate.learning.concept_formation.properties import Kind, PropertyConcept
from generate.learning.concept_formation.rules import column, compared, equal, remainders, stacked

_NUMBERS = range(10, 100)


class NumericProperty(PropertyConcept[int]):
    """A hidden property of one number."""

    def inputs(self) -> Sequence[int]:
        """Return the numbers from 10 to 99."""
        return _NUMBERS

    def situation(self) -> str:
        """Return what the inputs are."""
        return "You are shown whole numbers from 10 to 99."

    def written(self, given: int) -> str:
        """Return a number in digits."""
        return str(given)

    def kinds_known(self) -> Mapping[str, Kind]:
        """Return properties of the number as a whole, of one digit and of both."""
        number = column(_NUMBERS)
        tens, units = number // 10, number % 10
        total, gap = tens + units, abs(tens - units)
        return {
            "remainder": Kind(
                "The number leaves a certain remainder, 0 included, when it is divided by 2, 3, 4, 5 or 6.",
                remainders(number, range(2, 7)),
            ),
            "last_digit": Kind(
                "The last digit is at least, or at most, a certain digit.", compared(units, range(10))
            ),
            "first_digit": Kind(
                "The first digit is at least, or at most, a certain digit.", compared(tens, range(1, 10))
            ),
            "digit_order": Kind(
                "The first digit is larger than, smaller than, or the same as the last digit.",
                stacked((tens > units, tens < units, tens == units)),
            ),
            "digit_sum": Kind(
                "The sum of the two digits is at least, or at most, a certain number.",
                compared(total, range(1, 19)),
            ),
            "digit_sum_remainder": Kind(
                "The sum of the two digits leaves a certain remainder when it is divided by 2, 3, 4 or 5.",
                remainders(total, range(2, 6)),
            ),
            "digit_difference": Kind(
                "The larger digit minus the smaller digit is at least, or at most, a certain number.",
                compared(gap, range(10)),
            ),
            "has_digit": Kind(
                "At least one of the two digits is a certain digit.",
                equal(tens, range(10)) | equal(units, range(10)),
            ),
        }
