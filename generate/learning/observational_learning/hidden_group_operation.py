"""An operation that makes a group of some numbers, and that looks like addition at first."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from generate.learning.contract import Guess, MatchKind
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Span,
    Stage,
)

Table = tuple[tuple[int, ...], ...]

# every group of an order, by permutations that generate it, written as cycles
_GENERATORS: dict[int, tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]] = {
    6: (
        (((0, 1, 2), (3, 4)),),
        (((0, 1, 2),), ((0, 1),)),
    ),
    8: (
        (((0, 1, 2, 3, 4, 5, 6, 7),),),
        (((0, 1, 2, 3),), ((4, 5),)),
        (((0, 1),), ((2, 3),), ((4, 5),)),
        (((0, 1, 2, 3),), ((0, 2),)),
        (((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 4, 2, 6), (1, 7, 3, 5))),
    ),
    12: (
        (((0, 1, 2), (3, 4, 5, 6)),),
        (((0, 1, 2),), ((3, 4),), ((5, 6),)),
        (((0, 1, 2),), ((0, 1), (2, 3))),
        (((0, 1, 2),), ((0, 1),), ((3, 4),)),
        (((0, 1, 2),), ((0, 1), (3, 4, 5, 6))),
    ),
}
# numbers that are neutral or small look like ordinary addition
_MOST_SMALL = 3


class HiddenGroupOperation(HiddenProcess[Table, tuple[int, ...]]):
    """Group operations on the numbers from 0, of any group of the order and under any names of its elements.

    The neutral element is 0, which is not told but is seen in the misleading demonstrations.

    Attributes
    ----------
    order
        How many numbers there are.
    asked_lengths
        How many numbers are combined in a question.
    """

    order: Literal[6, 8, 12]
    asked_lengths: Span

    @property
    def match_kind(self) -> MatchKind:
        """Answers are single numbers."""
        return "integer"

    def draw_rule(self, dice: Dice) -> Table | None:
        """Return a table of the operation."""
        group = dice.choice(_groups(self.order))
        number = [0, *dice.shuffled(range(1, self.order))]
        table = [[0] * self.order for _ in number]
        for left, row in enumerate(group):
            for right, product in enumerate(row):
                table[number[left]][number[right]] = number[product]
        return tuple(map(tuple, table))

    def draw_given(self, dice: Dice, rule: Table, stage: Stage) -> tuple[int, ...]:
        """Return numbers to combine from left to right."""
        if stage == "misleading":
            # the first impression is of small numbers, whose sum is one of the numbers too
            small = dice.integer(1, _MOST_SMALL), dice.integer(1, _MOST_SMALL)
            alone = dice.integer(1, self.order - 1)
            return dice.choice([small, (0, alone), (alone, 0)])
        if stage == "telling":
            return dice.integer(1, self.order - 1), dice.integer(1, self.order - 1)
        n_combined = dice.integer(*self.asked_lengths)
        return tuple(dice.integer(1, self.order - 1) for _ in range(n_combined))

    def result(self, rule: Table, given: tuple[int, ...]) -> Answer:
        """Return what all the numbers give."""
        return (str(_combined(rule, given)),)

    def decoys(self, rule: Table) -> Sequence[Callable[[tuple[int, ...]], Answer]]:
        """Return addition, which begins anew at 0 where there is no such number."""
        return (lambda given: (str(sum(given) % self.order),),)

    def rival_answers(
        self, shown: Sequence[Demonstration[tuple[int, ...]]], asked: Sequence[tuple[int, ...]]
    ) -> frozenset[tuple[Answer, ...]]:
        """Search every group of the order under all names of its elements."""
        found: set[tuple[Answer, ...]] = set()
        for group in _groups(self.order):
            _Names(group, shown, asked, found).search()
            if len(found) > 1:
                break
        return frozenset(found)

    def situation(self) -> str:
        """Return what is told of the operation."""
        return (
            f"A hidden operation @ combines two of the numbers 0 to {self.order - 1} into one of them. The "
            "order may matter: x @ y need not be y @ x. Known for certain: (x @ y) @ z is always the same "
            "as x @ (y @ z); some number n leaves every number as it is, x @ n = n @ x = x; and every "
            "number x has a partner y with x @ y = y @ x = n. Nothing else is known of it: the numbers are "
            "mere names."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return "You will be asked for the result of further combinations. Answer with one number."

    def written(self, given: tuple[int, ...]) -> str:
        """Return the numbers with the operation between them."""
        return " @ ".join(map(str, given))

    def ask(self, given: tuple[int, ...]) -> str:
        """Return the text of a question."""
        return f"What is {self.written(given)} ?"

    def guess(self, given: tuple[int, ...]) -> Guess:
        """Guess one of the numbers."""
        return Guess(tuple(map(str, range(self.order))))


class _Names:
    """Search of the names that the elements of one group may have.

    Two numbers whose elements are known fix the element of their result; so can a result and one number.
    """

    def __init__(
        self,
        group: Table,
        shown: Sequence[Demonstration[tuple[int, ...]]],
        asked: Sequence[tuple[int, ...]],
        found: set[tuple[Answer, ...]],
    ) -> None:
        self._group = group
        self._inverse = [row.index(0) for row in group]
        self._facts = [(*one.given, int(one.result[0])) for one in shown]
        self._asked = asked
        self._found = found
        # numbers that many facts are about come first
        self._numbers = sorted(
            range(len(group)), key=lambda number: -sum(fact.count(number) for fact in self._facts)
        )

    def search(self, element_of: tuple[int | None, ...] | None = None) -> None:
        """Try all that fits what is known so far; two different answers end the search."""
        known = self._followed(list(element_of or [None] * len(self._group)))
        if known is None or len(self._found) > 1:
            return
        unknown = next((number for number in self._numbers if known[number] is None), None)
        if unknown is None:
            self._found.add(self._answers(known))
            return
        for element in range(len(self._group)):
            if element not in known:
                known[unknown] = element
                self.search(tuple(known))
                known[unknown] = None

    def _followed(self, element_of: list[int | None]) -> list[int | None] | None:
        """Return all that the facts say then, or None if they contradict it."""
        is_new = True
        while is_new:
            is_new = False
            for left, right, product in self._facts:
                for number, element in self._implied(element_of, left, right, product):
                    if element_of[number] is None and element not in element_of:
                        element_of[number] = element
                        is_new = True
                    elif element_of[number] != element:
                        return None
        return element_of

    def _implied(
        self, element_of: list[int | None], left: int, right: int, product: int
    ) -> Sequence[tuple[int, int]]:
        # a number that leaves another one as it is, is neutral
        if product == left:
            return ((right, 0),)
        if product == right:
            return ((left, 0),)
        first, second, third = element_of[left], element_of[right], element_of[product]
        if first is not None and second is not None:
            return ((product, self._group[first][second]),)
        if first is not None and third is not None:
            return ((right, self._group[self._inverse[first]][third]),)
        if second is not None and third is not None:
            return ((left, self._group[third][self._inverse[second]]),)
        return ()

    def _answers(self, element_of: Sequence[int | None]) -> tuple[Answer, ...]:
        elements = [element for element in element_of if element is not None]
        return tuple(
            (str(elements.index(_combined(self._group, [elements[number] for number in numbers]))),)
            for numbers in self._asked
        )


def _combined(table: Table, numbers: Sequence[int]) -> int:
    total = numbers[0]
    for number in numbers[1:]:
        total = table[total][number]
    return total


@cache
def _groups(order: int) -> tuple[Table, ...]:
    """Return the table of every group of an order; its element 0 is neutral."""
    return tuple(map(_table, _GENERATORS[order]))


def _table(generators: Sequence[tuple[tuple[int, ...], ...]]) -> Table:
    n_points = 1 + max(point for cycles in generators for cycle in cycles for point in cycle)
    steps = []
    for cycles in generators:
        moved = list(range(n_points))
        for cycle in cycles:
            for point, following in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                moved[point] = following
        steps.append(tuple(moved))
    elements = [tuple(range(n_points))]
    # the list grows while it is walked, until nothing new comes
    for element in elements:
        for step in steps:
            product = _after(element, step)
            if product not in elements:
                elements.append(product)
    return tuple(tuple(elements.index(_after(first, second)) for second in elements) for first in elements)


def _after(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(second[point] for point in first)
