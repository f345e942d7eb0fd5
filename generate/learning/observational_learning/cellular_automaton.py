"""A row of cells that all change at once by one hidden rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.contract import Guess
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Span,
    Stage,
)

Edge = Literal["ring", "empty"]
Cells = tuple[int, ...]

_MISLEADING_WIDTHS = (5, 7)


@dataclass(frozen=True, slots=True)
class Automaton:
    """What becomes of a cell per neighbourhood, how often that happens, and what is beyond the ends."""

    table: Cells
    n_steps: int
    edge: Edge


class CellularAutomaton(HiddenProcess[Automaton, Cells]):
    """Automata on a row, where a cell looks at itself and at one neighbour on each side.

    Attributes
    ----------
    n_colours
        Values of a cell.
    is_totalistic
        Whether a cell looks at the sum of the three cells alone.
    steps
        Numbers of steps between what is given and what is shown; with several, the number is hidden.
    edges
        What may be beyond the ends of a row: the other end, or a cell that is always 0.
    shown_widths, asked_widths
        Lengths of the rows that tell, and of those that are asked for.
    """

    n_colours: Annotated[int, Field(strict=True, ge=2, le=3)]
    is_totalistic: bool
    steps: Annotated[tuple[Annotated[int, Field(strict=True, ge=1, le=4)], ...], Field(min_length=1)]
    edges: Annotated[tuple[Edge, ...], Field(min_length=1)]
    shown_widths: Span
    asked_widths: Span

    def draw_rule(self, dice: Dice) -> Automaton:
        """Return an automaton."""
        table = tuple(dice.integer(0, self.n_colours - 1) for _ in range(self._n_neighbourhoods))
        return Automaton(table, dice.choice(self.steps), dice.choice(self.edges))

    def draw_given(self, dice: Dice, rule: Automaton, stage: Stage) -> Cells:
        """Return a row of cells."""
        widths = {"misleading": _MISLEADING_WIDTHS, "telling": self.shown_widths, "asked": self.asked_widths}
        return tuple(dice.integer(0, self.n_colours - 1) for _ in range(dice.integer(*widths[stage])))

    def result(self, rule: Automaton, given: Cells) -> Answer:
        """Return the row that follows."""
        return _row(self._after(np.array([rule.table]), given, rule.n_steps, rule.edge)[0])

    def decoys(self, rule: Automaton) -> Sequence[Callable[[Cells], Answer]]:
        """Return a row that stays, moves by a cell, or has its colours exchanged."""
        last = self.n_colours - 1
        return (
            _row,
            lambda given: _row((*given[1:], given[0])),
            lambda given: _row((given[-1], *given[:-1])),
            lambda given: _row([last - cell for cell in given]),
            lambda given: _row([0] * len(given)),
            lambda given: _row([last] * len(given)),
        )

    def rival_answers(
        self, shown: Sequence[Demonstration[Cells]], asked: Sequence[Cells]
    ) -> frozenset[tuple[Answer, ...]]:
        """Run all tables side by side, for each number of steps and each edge."""
        found: set[tuple[Answer, ...]] = set()
        for n_steps, edge in product(self.steps, self.edges):
            tables = _tables(self.n_colours, self._n_neighbourhoods)
            for one in shown:
                rows = self._after(tables, one.given, n_steps, edge)
                tables = tables[(rows == [int(cell) for cell in one.result]).all(axis=1)]
            rivals = [self._after(tables, given, n_steps, edge) for given in asked]
            found.update(zip(*(map(_row, rows) for rows in rivals), strict=True))
        return frozenset(found)

    def situation(self) -> str:
        """Return what is told of the automaton."""
        seen = (
            "only on the sum of the three: of itself and its neighbours on the left and on the right"
            if self.is_totalistic
            else "only on its own number and on those of its neighbours on the left and on the right"
        )
        edges = {
            "ring": "the neighbour of the last cell is the first one, and the other way round",
            "empty": "beyond both ends are cells that always hold 0",
        }
        at_ends = "; or else ".join(edges[edge] for edge in self.edges)
        which = " Which of the two it is, is hidden, and the same in all rows." if len(self.edges) > 1 else ""
        steps = (
            "Each demonstration shows a row and the same row one step later."
            if self.steps == (1,)
            else "Each demonstration shows a row and the same row some steps later, not those between; the "
            "number of steps is hidden, the same in all demonstrations, and one of "
            f"{', '.join(map(str, self.steps))}."
        )
        return (
            f"Each cell of a row holds one of the numbers {', '.join(map(str, range(self.n_colours)))}. In "
            f"a step all cells change at once. What a cell holds after a step depends {seen}. The rule is "
            "hidden; it is the same for all cells and for rows of every length. At the ends: "
            f"{at_ends}.{which} {steps}"
        )

    def form(self) -> str:
        """Return how an answer is written."""
        later = "one step later" if self.steps == (1,) else "after as many steps"
        return (
            f"You will be given further rows and asked what they are {later}. Answer with the numbers of "
            "all cells from left to right, separated by single spaces."
        )

    def written(self, given: Cells) -> str:
        """Return the row."""
        return " ".join(map(str, given))

    def ask(self, given: Cells) -> str:
        """Return the text of a question."""
        return f"What becomes of {self.written(given)} ?"

    def guess(self, given: Cells) -> Guess:
        """Guess a number for each cell."""
        return Guess(tuple(map(str, range(self.n_colours))), len(given), len(given), " ")

    def is_worth(self, stage: Stage, given: Cells, result: Answer) -> bool:
        """Ask for no row whose cells are all alike."""
        return stage != "asked" or len(set(result)) > 1

    @property
    def _n_neighbourhoods(self) -> int:
        return 3 * (self.n_colours - 1) + 1 if self.is_totalistic else self.n_colours**3

    def _after(self, tables: Ints, given: Cells, n_steps: int, edge: Edge) -> Ints:
        """Return what becomes of a row by each table: tables x cells."""
        rows = np.broadcast_to(np.array(given), (len(tables), len(given)))
        weights = (1, 1, 1) if self.is_totalistic else (self.n_colours**2, self.n_colours, 1)
        for _ in range(n_steps):
            left, right = np.roll(rows, 1, axis=1), np.roll(rows, -1, axis=1)
            if edge == "empty":
                left[:, 0] = right[:, -1] = 0
            code = weights[0] * left + weights[1] * rows + weights[2] * right
            rows = np.take_along_axis(tables, code, axis=1)
        return rows


@cache
def _tables(n_colours: int, n_neighbourhoods: int) -> Ints:
    """Return all tables, one per row."""
    numbers = np.arange(n_colours**n_neighbourhoods)[:, None]
    tables = numbers // n_colours ** np.arange(n_neighbourhoods) % n_colours
    tables.setflags(write=False)
    return tables


def _row(cells: Sequence[int] | Ints) -> Answer:
    return tuple(map(str, cells))
