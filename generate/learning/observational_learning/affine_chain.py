"""Letters that stand for hidden affine maps; a chain of letters is applied to a number or a point."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.contract import Guess, MatchKind
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Span,
    Stage,
)

_LETTERS = ("P", "Q", "R")
_FACTORS = (-3, -2, -1, 1, 2, 3)
_LARGEST_SHIFT = {1: 9, 2: 3}


@dataclass(frozen=True, slots=True)
class Chain:
    """Letters, and the number or point that they are applied to."""

    letters: str
    start: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Maps:
    """Which map each letter stands for, as its place among all maps; whether the last letter comes first."""

    places: tuple[int, ...]
    is_backward: bool


class AffineChain(HiddenProcess[Maps, Chain]):
    """Chains of affine maps of integers, or of integer points; in which direction a chain is read is hidden.

    Attributes
    ----------
    n_dimensions
        1: integers; 2: points.
    n_letters
        Letters whose map is hidden.
    shown_lengths, asked_lengths
        Lengths of the chains that tell, and of those that are asked for.
    """

    n_dimensions: Annotated[int, Field(strict=True, ge=1, le=2)]
    n_letters: Annotated[int, Field(strict=True, ge=2, le=len(_LETTERS))]
    shown_lengths: Span
    asked_lengths: Span

    @property
    def match_kind(self) -> MatchKind:
        """Answers are numbers, or points of two."""
        return "integer" if self.n_dimensions == 1 else "sequence"

    def draw_rule(self, dice: Dice) -> Maps | None:
        """Return maps, none of which only shifts."""
        matrices, _ = _maps(self.n_dimensions)
        places = tuple(dice.integer(0, len(matrices) - 1) for _ in range(self.n_letters))
        is_plain = (matrices[list(places)] == np.eye(self.n_dimensions)).all(axis=(1, 2))
        return None if is_plain.any() else Maps(places, dice.chance(0.5))

    def draw_given(self, dice: Dice, rule: Maps, stage: Stage) -> Chain:
        """Return a chain; the first impression is of chains of one letter, which read the same both ways."""
        letters = _LETTERS[: self.n_letters]
        if stage == "misleading":
            chain = dice.choice(letters) * dice.integer(1, 2)
        else:
            lengths = self.shown_lengths if stage == "telling" else self.asked_lengths
            chain = "".join(dice.choice(letters) for _ in range(dice.integer(*lengths)))
        return Chain(chain, tuple(dice.integer(-5, 5) for _ in range(self.n_dimensions)))

    def result(self, rule: Maps, given: Chain) -> Answer:
        """Return where the chain ends."""
        ends = self._ends(np.array([rule.places]), given, rule.is_backward)
        return tuple(map(str, ends[0].tolist()))

    def decoys(self, rule: Maps) -> Sequence[Callable[[Chain], Answer]]:
        """Return the same maps, with chains read in the other direction."""
        other = Maps(rule.places, not rule.is_backward)
        return (lambda given: self.result(other, given),)

    def rival_answers(
        self, shown: Sequence[Demonstration[Chain]], asked: Sequence[Chain]
    ) -> frozenset[tuple[Answer, ...]]:
        """Run all choices of maps side by side; a letter's map is chosen when it is first met."""
        found: set[tuple[Answer, ...]] = set()
        for is_backward in (False, True):
            choices = np.full((1, self.n_letters), -1)
            waiting = list(shown)
            while waiting:
                one = min(waiting, key=lambda one: len(_unmet(choices, one.given.letters)))
                waiting.remove(one)
                choices = self._chosen(choices, one.given.letters)
                ends = self._ends(choices, one.given, is_backward)
                choices = choices[(ends == [int(number) for number in one.result]).all(axis=1)]
            for given in asked:
                choices = self._chosen(choices, given.letters)
            rivals = [self._ends(choices, given, is_backward).tolist() for given in asked]
            found.update(tuple(tuple(map(str, end)) for end in ends) for ends in zip(*rivals, strict=True))
        return frozenset(found)

    def situation(self) -> str:
        """Return what is told of the maps."""
        letters = _LETTERS[: self.n_letters]
        shift = _LARGEST_SHIFT[self.n_dimensions]
        if self.n_dimensions == 1:
            rule = (
                f"it turns a number x into a x + b, where a is one of {', '.join(map(str, _FACTORS))} and b "
                f"is a whole number from {-shift} to {shift}; a and b are hidden and may differ from letter "
                "to letter"
            )
            start = "number"
        else:
            rule = (
                "it turns a point (x, y) into (a x + b y + c, d x + e y + f), where a, b, d and e are each "
                f"-1, 0 or 1, a e - b d is 1 or -1, and c and f are whole numbers from {-shift} to {shift}; "
                "all of these are hidden and may differ from letter to letter"
            )
            start = "point"
        return (
            f"Each of the letters {', '.join(letters[:-1])} and {letters[-1]} stands for a map: {rule}. A "
            f"chain such as {''.join(letters)} applies the maps of its letters to a {start}, one after the "
            "other, each to what the one before gave. Whether a chain is read from left to right or from "
            "right to left is hidden too; it is the same for all chains."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        if self.n_dimensions == 1:
            return "You will be asked what further chains give. Answer with one number."
        return (
            "You will be asked what further chains give. Answer with the two numbers of the point, first x "
            "and then y, separated by a single space."
        )

    def written(self, given: Chain) -> str:
        """Return the chain and its start."""
        return f"{given.letters} on {' '.join(map(str, given.start))}"

    def ask(self, given: Chain) -> str:
        """Return the text of a question."""
        return f"What does {self.written(given)} give?"

    def guess(self, given: Chain) -> Guess:
        """Guess numbers that are not large."""
        return Guess(tuple(map(str, range(-30, 31))), self.n_dimensions, self.n_dimensions, " ")

    def parts(self, given: Chain) -> frozenset[Hashable]:
        """Return the letters of a chain."""
        return frozenset(given.letters)

    def _chosen(self, choices: Ints, letters: str) -> Ints:
        """Return the choices with each possible map for each letter that is met for the first time."""
        n_maps = len(_maps(self.n_dimensions)[0])
        for column in _unmet(choices, letters):
            n_choices = len(choices)
            choices = np.repeat(choices, n_maps, axis=0)
            choices[:, column] = np.tile(np.arange(n_maps), n_choices)
        return choices

    def _ends(self, choices: Ints, given: Chain, is_backward: bool) -> Ints:
        """Return where a chain ends for each choice of maps: choices x dimensions."""
        matrices, shifts = _maps(self.n_dimensions)
        ends = np.broadcast_to(np.array(given.start), (len(choices), self.n_dimensions))
        for letter in reversed(given.letters) if is_backward else given.letters:
            chosen = choices[:, _LETTERS.index(letter)]
            ends = (matrices[chosen] * ends[:, None, :]).sum(axis=2) + shifts[chosen]
        return ends


def _unmet(choices: Ints, letters: str) -> list[int]:
    """Return the columns of the letters for which no map is chosen yet."""
    return sorted(
        {_LETTERS.index(letter) for letter in letters if (choices[:, _LETTERS.index(letter)] < 0).any()}
    )


@cache
def _maps(n_dimensions: int) -> tuple[Ints, Ints]:
    """Return all maps: matrices, maps x dimensions x dimensions, and shifts, maps x dimensions."""
    if n_dimensions == 1:
        matrices = np.array(_FACTORS).reshape(-1, 1, 1)
    else:
        entries = np.array(list(product((-1, 0, 1), repeat=4))).reshape(-1, 2, 2)
        determinants = entries[:, 0, 0] * entries[:, 1, 1] - entries[:, 0, 1] * entries[:, 1, 0]
        matrices = entries[abs(determinants) == 1]
    largest = _LARGEST_SHIFT[n_dimensions]
    shifts = np.array(list(product(range(-largest, largest + 1), repeat=n_dimensions)))
    return np.repeat(matrices, len(shifts), axis=0), np.tile(shifts, (len(matrices), 1))
