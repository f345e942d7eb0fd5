"""A bead on a board, under a hidden pull, with hidden edges and a hidden strip that turns it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools, Ints
from generate.learning.contract import Guess
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Span,
    Stage,
)

_FASTEST = 3
_MISLEADING_TICKS = (1, 3)
_PULLS = ((1, 0), (-1, 0), (0, 1), (0, -1))
_BOUNCE, _WRAP, _STOP = range(3)
_EVERYWHERE, _LEFT, _RIGHT, _LOWER, _UPPER = range(5)
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Bead:
    """Where a bead starts, how far it goes per tick, and for how many ticks it is watched.

    Places run from 0, those to the right and further up are larger.
    """

    place: tuple[int, int]
    velocity: tuple[int, int]
    n_ticks: int


@dataclass(frozen=True, slots=True)
class Laws:
    """Laws side by side, one per entry.

    Attributes
    ----------
    pull_x, pull_y
        What is added to the velocity in each tick.
    zone
        Part of the board in which the pull acts.
    edge_x, edge_y
        What happens at the left and right edges, and at the lower and upper ones.
    turning_x, turning_y
        Column and row in which the velocities are exchanged; -1: none.
    """

    pull_x: Ints
    pull_y: Ints
    zone: Ints
    edge_x: Ints
    edge_y: Ints
    turning_x: Ints
    turning_y: Ints

    def __getitem__(self, which: Ints | Bools) -> "Laws":
        return Laws(*(getattr(self, field.name)[which] for field in fields(self)))


class SimplePhysics(HiddenProcess[Laws, Bead]):
    """Boards on which a bead moves in ticks; where it starts and where it ends are shown, not its way.

    Attributes
    ----------
    size
        Cells along each side.
    has_zones
        Whether the pull may act in one half of the board alone.
    has_turning
        Whether there may be a column or a row that exchanges the velocities.
    shown_ticks, asked_ticks
        Ticks until the end, in what tells and in what is asked for.
    """

    size: Annotated[int, Field(strict=True, ge=6, le=12, multiple_of=2)]
    has_zones: bool
    has_turning: bool
    shown_ticks: Span
    asked_ticks: Span

    def draw_rule(self, dice: Dice) -> Laws | None:
        """Return one set of laws that has all the level may have."""
        laws = self._all_laws()
        one = laws[np.array([dice.integer(0, len(laws.zone) - 1)])]
        is_plain = (self.has_zones and one.zone[0] == _EVERYWHERE) or (
            self.has_turning and one.turning_x[0] == one.turning_y[0]
        )
        return None if is_plain else one

    def draw_given(self, dice: Dice, rule: Laws, stage: Stage) -> Bead:
        """Return a bead."""
        ticks = {"misleading": _MISLEADING_TICKS, "telling": self.shown_ticks, "asked": self.asked_ticks}
        place = dice.integer(0, self.size - 1), dice.integer(0, self.size - 1)
        velocity = dice.integer(-2, 2), dice.integer(-2, 2)
        return Bead(place, velocity, dice.integer(*ticks[stage]))

    def result(self, rule: Laws, given: Bead) -> Answer:
        """Return where the bead is at the end, its column and its row."""
        return _cell(self._ends(rule, given)[0])

    def decoys(self, rule: Laws) -> Sequence[Callable[[Bead], Answer]]:
        """Return the laws without a pull and without a turn."""
        none = np.zeros(1, dtype=np.int64)
        free = Laws(none, none, none, rule.edge_x, rule.edge_y, none + _NOWHERE, none + _NOWHERE)
        return (lambda given: self.result(free, given),)

    def rival_answers(
        self, shown: Sequence[Demonstration[Bead]], asked: Sequence[Bead]
    ) -> frozenset[tuple[Answer, ...]]:
        """Move the bead by all laws side by side."""
        laws = self._all_laws()
        for one in shown:
            ends = self._ends(laws, one.given)
            laws = laws[(ends == [int(number) - 1 for number in one.result]).all(axis=1)]
        rivals = [map(_cell, self._ends(laws, given)) for given in asked]
        return frozenset(zip(*rivals, strict=True))

    def situation(self) -> str:
        """Return what is told of the board."""
        parts = [
            f"A bead moves on a board of {self.size} columns, numbered 1 to {self.size} from left to right, "
            f"and {self.size} rows, numbered 1 to {self.size} from the bottom up. Its velocity is two "
            "numbers: the columns that it goes to the right and the rows that it goes up in a tick "
            "(negative: to the left, down).",
            "In each tick, first the bead moves by its velocity, in columns and in rows at once.",
            "If it would leave the board, one of three things happens. Bounce: it comes back from the last "
            "cell by as many cells as it would have gone beyond it, and that part of its velocity changes "
            "its sign. Wrap: it comes in again from the opposite edge. Stop: it stays in the last cell, and "
            "that part of its velocity becomes 0. The left and right edges do the same one of these; the "
            "lower and upper edges do the same one of these, which may be another.",
        ]
        where = ", wherever the bead is"
        if self.has_zones:
            where = (
                " if the bead is where the pull acts: anywhere, in the left half (columns 1 to "
                f"{self.size // 2}), in the right half, in the lower half (rows 1 to {self.size // 2}) or "
                "in the upper half"
            )
        parts.append(
            "Then a pull changes the velocity by 1 in one of the four directions (right, left, up, down)"
            f"{where}. No part of the velocity goes beyond {_FASTEST} or -{_FASTEST}: it stays there."
        )
        if self.has_turning:
            parts.append(
                "Last, if the bead is in the turning strip, the two parts of its velocity are exchanged. "
                "The strip is one whole column, or one whole row, or there is none."
            )
        hidden = ["what the edges do", "where the pull goes"]
        hidden += ["where it acts"] if self.has_zones else []
        hidden += ["where the turning strip is"] if self.has_turning else []
        parts.append(
            f"Hidden, and the same in all demonstrations: {', '.join(hidden[:-1])} and {hidden[-1]}. Each "
            "demonstration shows the column and the row of the start, the velocity at the start and the "
            "number of ticks, and then the column and the row of the end."
        )
        return "\n".join(parts)

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be asked where further beads end. Answer with the column and then the row, as two "
            "numbers separated by a single space."
        )

    def written(self, given: Bead) -> str:
        """Return where and how the bead starts."""
        column, row = _cell(given.place)
        right, up = given.velocity
        return f"column {column}, row {row}, velocity ({right}, {up}), ticks {given.n_ticks}"

    def ask(self, given: Bead) -> str:
        """Return the text of a question."""
        return f"Where does the bead end that starts at {self.written(given)} ?"

    def guess(self, given: Bead) -> Guess:
        """Guess a column and a row."""
        return Guess(tuple(str(number + 1) for number in range(self.size)), 2, 2, " ")

    def _all_laws(self) -> Laws:
        return _laws(self.size, self.has_zones, self.has_turning)

    def _ends(self, laws: Laws, given: Bead) -> Ints:
        """Return where a bead ends by each of the laws: laws x (column, row), from 0."""
        x, y = (np.full(len(laws.zone), place) for place in given.place)
        right, up = (np.full(len(laws.zone), speed) for speed in given.velocity)
        for _ in range(given.n_ticks):
            x, right = self._moved(x, right, laws.edge_x)
            y, up = self._moved(y, up, laws.edge_y)
            acts = self._is_in_zone(laws.zone, x, y)
            right = np.clip(right + acts * laws.pull_x, -_FASTEST, _FASTEST)
            up = np.clip(up + acts * laws.pull_y, -_FASTEST, _FASTEST)
            turns = (x == laws.turning_x) | (y == laws.turning_y)
            right, up = np.where(turns, up, right), np.where(turns, right, up)
        return np.stack([x, y], axis=1)

    def _moved(self, place: Ints, speed: Ints, edge: Ints) -> tuple[Ints, Ints]:
        """Return where a part of the movement leads, and how fast it goes on."""
        last = self.size - 1
        beyond = place + speed
        leaves = (beyond < 0) | (beyond > last)
        bounced = np.where(beyond < 0, -beyond, 2 * last - beyond)
        at_edge = np.choose(edge, [bounced, beyond % self.size, np.clip(beyond, 0, last)])
        speed_then = np.choose(edge, [-speed, speed, np.zeros_like(speed)])
        return np.where(leaves, at_edge, beyond), np.where(leaves, speed_then, speed)

    def _is_in_zone(self, zone: Ints, x: Ints, y: Ints) -> Bools:
        half = self.size // 2
        parts = [np.ones_like(x, dtype=bool), x < half, x >= half, y < half, y >= half]
        is_in: Bools = np.choose(zone, parts)
        return is_in


@cache
def _laws(size: int, has_zones: bool, has_turning: bool) -> Laws:
    """Return all laws of a level."""
    zones = (_EVERYWHERE, _LEFT, _RIGHT, _LOWER, _UPPER) if has_zones else (_EVERYWHERE,)
    turnings = [(_NOWHERE, _NOWHERE)]
    if has_turning:
        turnings += [(place, _NOWHERE) for place in range(size)] + [
            (_NOWHERE, place) for place in range(size)
        ]
    edges = (_BOUNCE, _WRAP, _STOP)
    rows = [
        (*pull, zone, edge_x, edge_y, *turning)
        for pull, zone, edge_x, edge_y, turning in product(_PULLS, zones, edges, edges, turnings)
    ]
    return Laws(*np.array(rows).T)


def _cell(place: Sequence[int] | Ints) -> Answer:
    """Return a column and a row as they are written."""
    return tuple(str(int(number) + 1) for number in place)
