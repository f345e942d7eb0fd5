"""A Mealy machine in which two pairs of states look the same until one goes further."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

from pydantic import Field

from generate.learning.contract import Guess
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
)
from generate.learning.observational_learning.search import Table, answers_of_tables
from generate.learning.observational_learning.states import (
    MOVES_TO,
    WRITES,
    ReadingMachine,
    all_states_matter,
    states_to_try,
)

_READ = ("a", "b")
_WRITTEN = ("p", "q")
# states 0..3 in two pairs that write the same
_ALIASES = ((0, 1), (2, 3))


@dataclass(frozen=True, slots=True)
class Machine:
    """What is written, and the state that follows, per state and symbol; the same with one state per pair."""

    table: Table
    merged: Table


class HiddenStateMachine(ReadingMachine[Machine]):
    """Machines with at most so many states, whose runs are shown from the start, symbol by symbol.

    Attributes
    ----------
    n_states
        States, four of which are the two pairs that write the same symbols.
    """

    n_states: Annotated[int, Field(strict=True, ge=4, le=6)]

    misleading_lengths = (3, 4)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is read."""
        return _READ

    def draw_rule(self, dice: Dice) -> Machine | None:
        """Return a machine of which no state is superfluous."""
        order = dice.shuffled(range(self.n_states))
        twin = {order[second]: order[first] for first, second in _ALIASES}
        # what states write for the symbols; states that are no pair differ in it
        looks = dice.shuffled(list(product(_WRITTEN, repeat=len(_READ))))
        look_of = {state: looks.pop() for state in order if state not in twin}
        table: dict[Any, Any] = {}
        for state in range(self.n_states):
            for symbol, written in zip(_READ, look_of[twin.get(state, state)], strict=True):
                table[WRITES, state, symbol] = written
                table[MOVES_TO, state, symbol] = dice.integer(0, self.n_states - 1)
        if not all_states_matter(table, self.n_states, _READ):
            return None
        merged = {
            cell: twin.get(value, value) if cell[0] == MOVES_TO else value for cell, value in table.items()
        }
        return Machine(table, merged)

    def result(self, rule: Machine, given: tuple[str, ...]) -> Answer:
        """Return the symbols written."""
        return tuple(_run(rule.table, given))

    def decoys(self, rule: Machine) -> Sequence[Callable[[tuple[str, ...]], Answer]]:
        """Return the machine in which one state stands for each pair."""
        return (lambda given: tuple(_run(rule.merged, given)),)

    def rival_answers(
        self, shown: Sequence[Demonstration[tuple[str, ...]]], asked: Sequence[tuple[str, ...]]
    ) -> frozenset[tuple[Answer, ...]]:
        """Search all machines with at most as many states."""
        return answers_of_tables(_run, self._options, shown, asked)

    def situation(self) -> str:
        """Return what is told of the machine."""
        return (
            f"A machine has at most {self.n_states} inner states, which nobody sees. It reads a sequence of "
            f"the symbols {' and '.join(_READ)}, one after the other. For each symbol read it writes one of "
            f"the symbols {' and '.join(_WRITTEN)} and then goes to a state, which may be the one it is in. "
            "What it writes and where it goes depend on its state and on the symbol read, and on nothing "
            "else. Before each sequence it is set back to the same first state. Two states may well write "
            "the same symbols and yet lead elsewhere. How the machine is made is hidden."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be asked what the machine writes for further sequences. Answer with all the symbols "
            "that it writes, in their order, separated by single spaces."
        )

    def guess(self, given: tuple[str, ...]) -> Guess:
        """Guess a symbol for each one read."""
        return Guess(_WRITTEN, len(given), len(given), " ")

    def _options(self, cell: tuple[str, int, str], decided: Table) -> Sequence[int | str]:
        return _WRITTEN if cell[0] == WRITES else states_to_try(decided, self.n_states)


def _run(table: Table, given: tuple[str, ...]) -> Iterator[str]:
    """Write symbol by symbol; where the last symbol leads does not matter and is not looked at."""
    state = 0
    before = None
    for symbol in given:
        if before is not None:
            state = table[MOVES_TO, state, before]
        yield table[WRITES, state, symbol]
        before = symbol
