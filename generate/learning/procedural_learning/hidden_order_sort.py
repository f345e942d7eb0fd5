"""Rows of tokens are put into a hidden order by swaps; only how many stand right is told.

The hidden order compares one part of a token first and its other part where the first is the same. Hidden are
which part comes first and how letters and digits are ranked. The order may also wind: then the second part
runs backwards behind every other value of the first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from generate.contract import Bools, Floats, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import (
    Level,
    carried,
    is_kept_for_transfer,
    told,
    whole_action,
)
from generate.learning.wording import listed

_LETTERS = ("K", "M", "R", "T", "V")
_SWAP = re.compile(
    r"(?:swap +)?([0-9]{1,6})(?: +(?:and|with) +|[ ,<>-]+)([0-9]{1,6})", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Order:
    """A hidden order of tokens.

    Attributes
    ----------
    letters, digits
        Rank of each letter and digit, from 0.
    is_letter_first
        Whether the letters are compared first.
    is_winding
        Whether the second part runs backwards behind every first part of odd rank.
    """

    letters: tuple[int, ...]
    digits: tuple[int, ...]
    is_letter_first: bool
    is_winding: bool

    def place(self, token: int) -> tuple[int, int]:
        """Return what two tokens are compared by."""
        letter, digit = divmod(token, len(self.digits))
        first, second = self.letters[letter], self.digits[digit]
        if not self.is_letter_first:
            first, second = second, first
        return first, -second if self.is_winding and first % 2 else second


@dataclass(frozen=True, slots=True)
class Rows:
    """World: tokens as they lie at the start and in their right order, episodes x places."""

    first: Ints
    goal: Ints


@dataclass(frozen=True, slots=True)
class RowsNow:
    """State: tokens as they lie now, episodes x places, and the best share that stood right."""

    tokens: Ints
    progress: Floats


class HiddenOrderSort(Level):
    """A level of hidden orders.

    Attributes
    ----------
    n_letters, n_digits
        How many there are of each.
    n_tokens
        Tokens in a row.
    may_wind
        Whether winding orders are possible; half of the orders are winding then.
    """

    n_letters: Annotated[int, Field(ge=2, le=len(_LETTERS))]
    n_digits: Annotated[int, Field(ge=2, le=9)]
    n_tokens: Annotated[int, Field(ge=3, le=9)]
    may_wind: bool

    @model_validator(mode="after")
    def _has_enough_tokens(self) -> Self:
        if self.n_tokens > self.n_letters * self.n_digits:
            raise ValueError(
                f"expected at most {self.n_letters * self.n_digits} tokens, found {self.n_tokens}"
            )
        return self

    @property
    def grammar(self) -> str:
        """How a swap is written."""
        return "Write a swap as the numbers of two places in the row, such as `2 5`; the first place is 1."

    def skill(self, dice: Dice) -> Order:
        """Draw a hidden order."""
        return Order(
            letters=tuple(dice.shuffled(range(self.n_letters))),
            digits=tuple(dice.shuffled(range(self.n_digits))),
            is_letter_first=dice.chance(0.5),
            is_winding=self.may_wind and dice.chance(0.5),
        )

    def opening(self, skill: Order) -> str:
        """Return what is known of hidden orders."""
        winding = (
            " The order may also wind: then, for every other value of the part that is compared first (the "
            "second, the fourth and so on), the tokens with this value stand in the backward order of their "
            "other part."
            if self.may_wind
            else ""
        )
        return (
            "Tokens have a letter and a digit, such as "
            f"{_name(0, self.n_digits)}. There are the letters {listed(_LETTERS[: self.n_letters])} and the "
            f"digits {listed(map(str, range(1, self.n_digits + 1)))}. All tokens have a hidden order. It "
            "compares one part of the tokens first, either the letter or the digit, and the other part only "
            "where the first is the same. Letters have a hidden order of their own, and so have digits; "
            f"neither need be the usual one.{winding} The hidden order is the same in all rounds."
        )

    def draw(self, skills: Sequence[Order], dice: Sequence[Dice]) -> Rows:
        """Draw rows that need nearly as many swaps as a row of this length can need."""
        rows = [self._row(order, own) for order, own in zip(skills, dice, strict=True)]
        goals = [sorted(row, key=order.place) for order, row in zip(skills, rows, strict=True)]
        return Rows(np.array(rows, dtype=np.int64), np.array(goals, dtype=np.int64))

    def introduction(self, world: Rows) -> list[str]:
        """Return the row, and what is told."""
        return [
            f"This row of {self.n_tokens} tokens is to be put into the hidden order, from the first token "
            f"to the last: {self._names(row)}. A move swaps the tokens of two places. After each swap you "
            "are told how many tokens stand in their right places, and not which."
            for row in world.first.tolist()
        ]

    def start(self, world: Rows) -> RowsNow:
        """Lay out the rows."""
        return RowsNow(world.first, np.zeros(len(world.first)))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of two places, from 1."""
        if (found := whole_action(_SWAP, text)) is None:
            return None
        return int(found[1]), int(found[2])

    def step(self, world: Rows, state: RowsNow, actions: Ints, which: Bools) -> tuple[RowsNow, Moved]:
        """Swap two tokens."""
        is_place = ((actions >= 1) & (actions <= self.n_tokens)).all(axis=1)
        is_legal = which & is_place & (actions[:, 0] != actions[:, 1])
        lanes = np.flatnonzero(is_legal)
        one, other = actions[lanes].T - 1
        tokens = state.tokens.copy()
        tokens[lanes, one], tokens[lanes, other] = state.tokens[lanes, other], state.tokens[lanes, one]
        n_right = (tokens == world.goal).sum(axis=1)
        progress = carried(state.progress, n_right / self.n_tokens, is_legal)

        def tell(lane: int) -> str:
            if not is_legal[lane]:
                return f"A swap needs two different places from 1 to {self.n_tokens}. Nothing was moved."
            return (
                f"The row is now {self._names(tokens[lane].tolist())}. "
                f"Tokens in their right places: {n_right[lane]} of {self.n_tokens}."
            )

        is_solved = is_legal & (n_right == self.n_tokens)
        return RowsNow(tokens, progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Rows, state: RowsNow, lanes: Sequence[int]) -> list[str]:
        """Return the swap that brings the right token to the first place that has a wrong one."""
        moves = []
        for lane in lanes:
            row, goal = state.tokens[lane].tolist(), world.goal[lane].tolist()
            place = next(place for place in range(self.n_tokens) if row[place] != goal[place])
            moves.append(f"{place + 1} {row.index(goal[place]) + 1}")
        return moves

    def random(self, world: Rows, state: RowsNow, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return any swap."""
        places = range(1, self.n_tokens + 1)
        return [" ".join(map(str, own.sample(places, 2))) for own in dice]

    def n_best(self, world: Rows) -> Ints:
        """Return how many swaps are needed: all tokens but one for each cycle of places."""
        comes_from = (world.goal[:, :, None] == world.first[:, None, :]).argmax(axis=2)
        return self.n_tokens - _n_cycles(comes_from)

    def transfer(self, skill: Order, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask for the right order of rows whose tokens never lay in one row."""
        seen: set[tuple[int, ...]] = set()

        def row() -> list[int] | None:
            tokens = dice.sample(range(self.n_letters * self.n_digits), self.n_tokens)
            key = tuple(sorted(tokens))
            if not is_kept_for_transfer(key) or key in seen:
                return None
            seen.add(key)
            return tokens

        return tuple(self._question(skill, self.until(row)) for _ in range(n_questions))

    def transfer_introduction(self, skill: Order) -> str:
        """Return what the questions ask for."""
        return (
            "Each question is a new row of tokens. Write its tokens in the hidden order, from the first to "
            "the last, separated by spaces."
        )

    def _row(self, order: Order, dice: Dice) -> list[int]:
        def row() -> list[int] | None:
            tokens = dice.sample(range(self.n_letters * self.n_digits), self.n_tokens)
            if is_kept_for_transfer(sorted(tokens)):
                return None
            goal = sorted(tokens, key=order.place)
            n_swaps = self.n_tokens - int(_n_cycles(np.array([[tokens.index(token) for token in goal]]))[0])
            return tokens if n_swaps >= self.n_tokens - 2 else None

        return self.until(row)

    def _names(self, tokens: Sequence[int]) -> str:
        return " ".join(_name(token, self.n_digits) for token in tokens)

    def _question(self, order: Order, tokens: list[int]) -> Question:
        names = tuple(_name(token, self.n_digits) for token in tokens)
        return Question(
            text=f"Put into the hidden order: {' '.join(names)}",
            answer=self._names(sorted(tokens, key=order.place)),
            match_kind="sequence",
            guess=Guess(names, self.n_tokens, self.n_tokens, " "),
            asked=tuple(tokens),
        )


def _name(token: int, n_digits: int) -> str:
    letter, digit = divmod(token, n_digits)
    return f"{_LETTERS[letter]}{digit + 1}"


def _n_cycles(permutations: Ints) -> Ints:
    """Return the number of cycles of each permutation: permutations x places."""
    n_places = permutations.shape[1]
    # every place takes the smallest place that can be reached from it; each cycle keeps one
    smallest = np.broadcast_to(np.arange(n_places), permutations.shape)
    for _ in range(n_places - 1):
        smallest = np.minimum(smallest, np.take_along_axis(smallest, permutations, axis=1))
    counts: Ints = (smallest == np.arange(n_places)).sum(axis=1)
    return counts
