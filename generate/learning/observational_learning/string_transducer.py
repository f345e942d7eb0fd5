"""A transducer that copies, drops, repeats or replaces letters, as its hidden mode has it."""

from collections.abc import Callable, Iterator, Sequence
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

_LETTERS = ("a", "b", "c", "d")
_COPY, _DROP, _TWICE, _NEXT = range(4)
_TOLD = (
    "it writes the letter",
    "it writes nothing",
    "it writes the letter twice",
    "it writes the letter that comes next (after the last letter comes the first)",
)
_MOST_WRITTEN = 2


class StringTransducer(ReadingMachine[Table]):
    """Transducers with at most so many modes; the length of what they write tells nothing by itself.

    Attributes
    ----------
    n_modes
        Modes, each of which matters.
    n_letters
        Letters that are read and written.
    n_actions
        Things that can be done with a letter: copy, drop, write twice, write the next one.
    """

    n_modes: Annotated[int, Field(strict=True, ge=2, le=4)]
    n_letters: Annotated[int, Field(strict=True, ge=2, le=len(_LETTERS))]
    n_actions: Annotated[int, Field(strict=True, ge=3, le=len(_TOLD))]

    misleading_lengths = (2, 3)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is read and written."""
        return _LETTERS[: self.n_letters]

    def draw_rule(self, dice: Dice) -> Table | None:
        """Return a transducer of which no mode is superfluous, and which does all that can be done."""
        table: dict[Any, Any] = {}
        for mode in range(self.n_modes):
            for letter in self.symbols:
                table[WRITES, mode, letter] = dice.integer(0, self.n_actions - 1)
                table[MOVES_TO, mode, letter] = dice.integer(0, self.n_modes - 1)
        done = {value for (kind, *_), value in table.items() if kind == WRITES}
        if len(done) < self.n_actions or not all_states_matter(table, self.n_modes, self.symbols):
            return None
        return table

    def result(self, rule: Table, given: tuple[str, ...]) -> Answer:
        """Return the letters written."""
        return tuple(self._run(rule, given))

    def decoys(self, rule: Table) -> Sequence[Callable[[tuple[str, ...]], Answer]]:
        """Return the transducer that stays in its first mode."""
        stays = {cell: 0 if cell[0] == MOVES_TO else action for cell, action in rule.items()}
        return (lambda given: tuple(self._run(stays, given)),)

    def rival_answers(
        self, shown: Sequence[Demonstration[tuple[str, ...]]], asked: Sequence[tuple[str, ...]]
    ) -> frozenset[tuple[Answer, ...]]:
        """Search all transducers with at most as many modes."""
        return answers_of_tables(self._run, self._options, shown, asked)

    def situation(self) -> str:
        """Return what is told of the transducer."""
        return (
            f"A machine reads a word of the letters {', '.join(self.symbols)}, letter by letter, and "
            f"writes another word. It has at most {self.n_modes} hidden modes and begins every word in the "
            f"same one. For each letter it does one of {self.n_actions} things: "
            f"{'; '.join(_TOLD[: self.n_actions])}. Then it goes to a mode, which may be the one it is in. "
            "Which of these things it does, and to which mode it goes, depends on its mode and on the "
            "letter read, and on nothing else. How the machine is made is hidden."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be asked what the machine makes of further words. Answer with all the letters that it "
            "writes, in their order, separated by single spaces."
        )

    def guess(self, given: tuple[str, ...]) -> Guess:
        """Guess letters, up to twice as many as are read."""
        return Guess(self.symbols, 1, _MOST_WRITTEN * len(given), " ")

    def _options(self, cell: tuple[str, int, str], decided: Table) -> range:
        return range(self.n_actions) if cell[0] == WRITES else states_to_try(decided, self.n_modes)

    def _run(self, table: Table, given: tuple[str, ...]) -> Iterator[str]:
        """Write letter by letter; where the last letter leads does not matter and is not looked at."""
        mode = 0
        before = None
        for letter in given:
            if before is not None:
                mode = table[MOVES_TO, mode, before]
            action = table[WRITES, mode, letter]
            if action == _NEXT:
                yield self.symbols[(self.symbols.index(letter) + 1) % self.n_letters]
            elif action != _DROP:
                yield letter
            if action == _TWICE:
                yield letter
            before = letter
