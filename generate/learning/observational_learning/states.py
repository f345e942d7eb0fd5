"""Machines with hidden states, which are numbered in the order in which runs first reach them."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar

from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import HiddenProcess, RuleT, Span, Stage
from generate.learning.observational_learning.search import Table

# kinds of cells in the table of a machine; the other parts of a cell are the state and the symbol read
WRITES, MOVES_TO = "writes", "moves to"


class ReadingMachine(HiddenProcess[RuleT, tuple[str, ...]]):
    """A machine with hidden states that reads one symbol after the other.

    Attributes
    ----------
    misleading_lengths, shown_lengths, asked_lengths
        Lengths of the sequences that mislead, that tell, and that are asked for.
    """

    misleading_lengths: ClassVar[tuple[int, int]]
    shown_lengths: Span
    asked_lengths: Span

    @property
    @abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """What can be read."""

    def draw_given(self, dice: Dice, rule: RuleT, stage: Stage) -> tuple[str, ...]:
        """Return symbols to read."""
        lengths = {
            "misleading": self.misleading_lengths,
            "telling": self.shown_lengths,
            "asked": self.asked_lengths,
        }
        return tuple(dice.choice(self.symbols) for _ in range(dice.integer(*lengths[stage])))

    def written(self, given: tuple[str, ...]) -> str:
        """Return the symbols read."""
        return " ".join(given)

    def ask(self, given: tuple[str, ...]) -> str:
        """Return the text of a question."""
        return f"What does the machine write for {self.written(given)} ?"


def states_to_try(decided: Table, n_states: int) -> range:
    """Return the states that were reached, and one more; further ones would be the same by another number."""
    n_reached = 1 + max((state for (kind, *_), state in decided.items() if kind == MOVES_TO), default=0)
    return range(min(n_reached + 1, n_states))


def all_states_matter(table: Table, n_states: int, symbols: Sequence[str]) -> bool:
    """Return whether each state can be reached from state 0, and some input tells it from each other one."""
    reached = {0}
    waiting = [0]
    while waiting:
        state = waiting.pop()
        new = {table[MOVES_TO, state, symbol] for symbol in symbols} - reached
        reached |= new
        waiting.extend(new)
    if len(reached) < n_states:
        return False
    # states are alike until what they write differs, then until where they lead differs
    kinds: dict[int, Hashable] = dict.fromkeys(range(n_states), 0)
    for _ in range(n_states):
        kinds = {
            state: (
                tuple(table[WRITES, state, symbol] for symbol in symbols),
                tuple(kinds[table[MOVES_TO, state, symbol]] for symbol in symbols),
            )
            for state in range(n_states)
        }
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds.values()))}
        kinds = {state: numbers[kind] for state, kind in kinds.items()}
    return len(set(kinds.values())) == n_states
