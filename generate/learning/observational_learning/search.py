"""Search of all rules that fit, where a rule is a table of cells and a run looks at few of them.

A cell is decided when the first run looks at it: whatever the cells that no run looks at hold, the answers
are the same, so that no rule is left out and most are never written down.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from generate.learning.observational_learning.demonstrations import Answer, Demonstration

GivenT = TypeVar("GivenT", bound=Hashable)

# what a cell is, and what it may hold, is for the family to say
Table = Mapping[Any, Any]
Outputs = Callable[[Table, GivenT], Iterator[str]]
Options = Callable[[Any, Table], Sequence[Any]]


class Refuted(Exception):
    """A rule cannot even be run on an input that is known to run."""


class _Undecided(Exception):
    def __init__(self, cell: Hashable) -> None:
        super().__init__(cell)
        self.cell = cell


class _Decided(dict[Hashable, Any]):
    def __missing__(self, cell: Hashable) -> Any:  # noqa: ANN401
        raise _Undecided(cell)


def answers_of_tables(
    outputs: Outputs[GivenT],
    options: Options,
    shown: Sequence[Demonstration[GivenT]],
    asked: Sequence[GivenT],
) -> frozenset[tuple[Answer, ...]]:
    """Return what the tables that fit all that is shown make of the inputs asked; two answers end the search.

    Parameters
    ----------
    outputs
        Elements that a table makes of an input, one by one; raises :class:`Refuted` where it cannot be run.
    options
        Values that a cell may have, given the cells decided before.
    """
    search = _Search(outputs, options, asked)
    search.explore(shown)
    return frozenset(search.found)


class _Search(Generic[GivenT]):
    """What is decided so far, and the answers found; see :func:`answers_of_tables`."""

    def __init__(self, outputs: Outputs[GivenT], options: Options, asked: Sequence[GivenT]) -> None:
        self._outputs = outputs
        self._options = options
        self._asked = asked
        self._decided = _Decided()
        self.found: set[tuple[Answer, ...]] = set()

    def explore(self, waiting: Sequence[Demonstration[GivenT]]) -> None:
        """Try all that fits what is decided; some demonstrations wait for more than that."""
        try:
            waiting, cell = self._checked(waiting)
            if not waiting:
                self.found.add(tuple(tuple(self._outputs(self._decided, given)) for given in self._asked))
                return
        except Refuted:
            return
        except _Undecided as undecided:
            cell = undecided.cell
        for value in self._options(cell, self._decided):
            self._decided[cell] = value
            self.explore(waiting)
            del self._decided[cell]
            if len(self.found) > 1:
                return

    def _checked(
        self, waiting: Sequence[Demonstration[GivenT]]
    ) -> tuple[list[Demonstration[GivenT]], Hashable]:
        """Return the demonstrations that wait for cells, and the cell that the first of them waits for.

        All are run at once: one further on may refute already what is decided.
        """
        still_waiting = []
        cells = []
        for one in waiting:
            try:
                if not _makes(self._outputs(self._decided, one.given), one.result):
                    raise Refuted
            except _Undecided as undecided:
                still_waiting.append(one)
                cells.append(undecided.cell)
        return still_waiting, cells[0] if cells else None


def _makes(outputs: Iterator[str], result: Answer) -> bool:
    """Return whether the elements are those of a result; none is asked for after one that is not."""
    n_made = 0
    for element in outputs:
        if n_made == len(result) or element != result[n_made]:
            return False
        n_made += 1
    return n_made == len(result)
