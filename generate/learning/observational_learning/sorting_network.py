"""A network of hidden comparators that exchanges numbers on some places of a list."""

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.contract import Guess
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Stage,
)

# where the smaller number goes, and where the larger one goes
Comparator = tuple[int, int]
Network = tuple[Comparator, ...]
Numbers = tuple[int, ...]


class SortingNetwork(HiddenProcess[Network, Numbers]):
    """Networks of so many comparators, which may put the smaller number on either of two places.

    Attributes
    ----------
    n_places
        Numbers in a list.
    n_comparators
        Comparators, one after the other.
    largest_shown, largest_asked
        Largest number in the lists that are shown, and in those that are asked for.
    """

    n_places: Annotated[int, Field(strict=True, ge=3, le=6)]
    n_comparators: Annotated[int, Field(strict=True, ge=2, le=5)]
    largest_shown: Annotated[int, Field(strict=True, ge=6)]
    largest_asked: Annotated[int, Field(strict=True, ge=6)]

    def draw_rule(self, dice: Dice) -> Network | None:
        """Return a network whose comparators all do something and touch all places."""
        network = tuple(dice.choice(self._comparators) for _ in range(self.n_comparators))
        repeats = any(set(first) == set(second) for first, second in pairwise(network))
        touched = {place for comparator in network for place in comparator}
        return None if repeats or len(touched) < self.n_places else network

    def draw_given(self, dice: Dice, rule: Network, stage: Stage) -> Numbers:
        """Return a list in which no number is there twice."""
        largest = self.largest_asked if stage == "asked" else self.largest_shown
        return tuple(dice.sample(range(1, largest + 1), self.n_places))

    def result(self, rule: Network, given: Numbers) -> Answer:
        """Return the list that leaves the network."""
        numbers = list(given)
        for smaller, larger in rule:
            numbers[smaller], numbers[larger] = sorted((numbers[smaller], numbers[larger]))
        return tuple(map(str, numbers))

    def decoys(self, rule: Network) -> Sequence[Callable[[Numbers], Answer]]:
        """Return lists that are put in rising or falling order, stay as they are, or are turned round."""
        return (
            lambda given: tuple(map(str, sorted(given))),
            lambda given: tuple(map(str, sorted(given, reverse=True))),
            lambda given: tuple(map(str, given)),
            lambda given: tuple(map(str, given[::-1])),
        )

    def pattern(self, given: Numbers) -> Numbers:
        """Return the ranks: the network sees no more of a list."""
        ranks = sorted(given)
        return tuple(ranks.index(number) for number in given)

    def rival_answers(
        self, shown: Sequence[Demonstration[Numbers]], asked: Sequence[Numbers]
    ) -> frozenset[tuple[Answer, ...]]:
        """Grow all networks side by side, comparator by comparator, on everything shown and asked at once."""
        given = np.array([self.pattern(one.given) for one in shown] + [self.pattern(one) for one in asked])
        goals = np.array([[one.given.index(int(number)) for number in one.result] for one in shown])
        # the number that has to be on each place at the end, as its rank
        goals = np.take_along_axis(given[: len(shown)], goals, axis=1)
        pairs = np.array(self._comparators)
        lists = given[None].astype(np.int8)
        last = np.full(1, -1)
        for n_left in range(self.n_comparators - 1, -1, -1):
            parents, added = np.nonzero(self._is_ordered[last])
            grown = lists[parents]
            rows = np.arange(len(grown))[:, None]
            lists_of_rows = np.arange(given.shape[0])[None]
            first, second = pairs[added, 0][:, None], pairs[added, 1][:, None]
            before = grown[rows, lists_of_rows, first], grown[rows, lists_of_rows, second]
            grown[rows, lists_of_rows, first] = np.minimum(*before)
            grown[rows, lists_of_rows, second] = np.maximum(*before)
            # a comparator mends two places at most
            n_wrong = (grown[:, : len(shown)] != goals).any(axis=1).sum(axis=1)
            fits = n_wrong <= 2 * n_left
            lists, last = grown[fits], added[fits]
        rivals = {ends.tobytes(): ends for ends in lists[:, len(shown) :]}
        return frozenset(
            tuple(
                tuple(str(sorted(numbers)[rank]) for rank in ranks)
                for numbers, ranks in zip(asked, ends.tolist(), strict=True)
            )
            for ends in rivals.values()
        )

    def situation(self) -> str:
        """Return what is told of the network."""
        return (
            f"A list of {self.n_places} numbers, whose places are numbered 1 to {self.n_places} from the "
            f"left, goes through {self.n_comparators} comparators, one after the other. A comparator "
            "belongs to two places. It compares the numbers that are there, puts the smaller one on a "
            "certain one of its two places, which may be the left or the right one, and the larger one on "
            "the other, and leaves all other numbers where they are. Hidden, and the same for all lists, is "
            "which two places each comparator belongs to and on which of them it puts the smaller number. "
            "Each demonstration shows a list before and after."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be given further lists and asked what leaves the comparators. Answer with all numbers "
            "of the list in their order, separated by single spaces."
        )

    def written(self, given: Numbers) -> str:
        """Return the list."""
        return " ".join(map(str, given))

    def ask(self, given: Numbers) -> str:
        """Return the text of a question."""
        return f"What becomes of the list {self.written(given)} ?"

    def guess(self, given: Numbers) -> Guess:
        """Guess numbers of the list."""
        return Guess(tuple(map(str, given)), self.n_places, self.n_places, " ")

    @property
    def _comparators(self) -> tuple[Comparator, ...]:
        return tuple(permutations(range(self.n_places), 2))

    @property
    def _is_ordered(self) -> Bools:
        """Whether a comparator may follow another one: last + 1 row for none x comparators.

        Of two that share no place, which do the same in either order, the one listed first comes first. One
        on the same two places as the one before it undoes that one, and is kept: the network has as many
        comparators as are told.
        """
        pairs = self._comparators
        follows = [[bool(set(before) & set(after)) or before < after for after in pairs] for before in pairs]
        return np.array([*follows, [True] * len(pairs)])
