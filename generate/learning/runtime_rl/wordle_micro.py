"""Small Wordle: find a word from reports whose marks have to be understood first.

Every slot of a guess is judged LOCK, DRIFT or VOID. The player sees a report of marks: which mark means which
is hidden, and at higher levels one place of the report is withheld and the order of its places is hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.codes import codes_without_repeats, random_code, read_code, write_code
from generate.learning.runtime_rl.drawn_rows import every_row

_LETTERS = "PQRSTV"
_LOCK, _DRIFT, _VOID = range(3)
_MARKS = "ox+"
_WITHHELD = "."
# by row: the mark of LOCK, of DRIFT, of VOID
_MEANINGS = np.array(list(permutations(range(len(_MARKS)))), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class WordleWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    word
        The hidden word: episodes x slots.
    marks
        Numbers of the marks of LOCK, DRIFT and VOID: episodes x 3.
    is_reversed
        Whether a report begins with the last slot.
    withheld
        The place of a report that shows nothing, from 0; -1 if every place shows its mark. It is visible.
    """

    word: Ints
    marks: Ints
    is_reversed: Bools
    withheld: Ints


@dataclass(frozen=True, slots=True)
class WordleState:
    """The most slots that were right in one guess so far."""

    most_locked: Ints


class Wordle(BaseModel):
    """Words without repeated letters; guesses may repeat one.

    Attributes
    ----------
    n_slots
        Letters of a word.
    n_letters
        Letters there are, at least as many.
    is_a_place_withheld
        Whether one place of every report, drawn for the instance, shows nothing.
    may_be_reversed
        Whether reports may run from the last slot to the first: hidden, and as likely as not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_slots: Annotated[int, Field(strict=True, ge=2, le=5)]
    n_letters: Annotated[int, Field(strict=True, ge=2, le=len(_LETTERS))]
    is_a_place_withheld: bool
    may_be_reversed: bool

    @model_validator(mode="after")
    def _words_exist(self) -> "Wordle":
        if self.n_letters < self.n_slots:
            raise ValueError("expected at least as many letters as slots, since no word repeats one")
        return self

    @property
    def grammar(self) -> str:
        """How a guess is written."""
        example = write_code([slot % 2 for slot in range(self.n_slots)], self._letters)
        return f"Write a guess as its {self.n_slots} letters from slot 1 on, such as `{example}`."

    @property
    def _letters(self) -> str:
        return _LETTERS[: self.n_letters]

    @property
    def _words(self) -> Ints:
        return codes_without_repeats(self.n_letters, self.n_slots)

    def draw(self, dice: Sequence[Dice]) -> WordleWorld:
        """Draw word, meaning of the marks, order and withheld place, each as likely as any other."""
        drawn = [
            (
                one.integer(0, len(self._words) - 1),
                one.integer(0, len(_MEANINGS) - 1),
                one.integer(0, int(self.may_be_reversed)),
                one.integer(0, self.n_slots - 1) if self.is_a_place_withheld else -1,
            )
            for one in dice
        ]
        return self._worlds(np.array(drawn, dtype=np.int64).reshape(-1, 4))

    def rivals(self, world: WordleWorld, lane: int) -> WordleWorld:
        """Return every world of the level that withholds the same place."""
        counts = (len(self._words), len(_MEANINGS), 1 + self.may_be_reversed)
        return self._worlds(every_row(counts, (int(world.withheld[lane]),)))

    def introduction(self, world: WordleWorld) -> list[str]:
        """Return the rules and which place is withheld."""
        rules = (
            f"A word is hidden in slots 1 to {self.n_slots}, one letter in each. The letters are "
            f"{' '.join(self._letters)}; any {self.n_slots} different ones in any order may be the word. In "
            f"each step you enter a guess of {self.n_slots} letters, in which a letter may stand more than "
            "once.\n"
            "Every slot of the guess is judged. LOCK: its letter is that of the word in this slot. DRIFT: "
            "the word has its letter in another slot. VOID: the word does not have its letter.\n"
            f"You are told a report of {self.n_slots} marks, one per slot. The marks are "
            f"{', '.join(_MARKS[:-1])} and {_MARKS[-1]}: one of them stands for LOCK, one for DRIFT and one "
            f"for VOID, the same throughout, and you are not told which. {self._order}"
        )
        goal = f" The goal is a guess with LOCK in all {self.n_slots} slots; you are told when it is reached."
        return [rules + self._told_of(place) + goal for place in world.withheld.tolist()]

    def start(self, world: WordleWorld) -> WordleState:
        """Return the state before the first guess."""
        return WordleState(np.zeros(len(world.word), dtype=np.int64))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of the guess's letters, from 0."""
        return read_code(text, self._letters, self.n_slots)

    def step(
        self, world: WordleWorld, state: WordleState, actions: Ints, which: Bools
    ) -> tuple[WordleState, Moved]:
        """Judge one guess per episode and report it."""
        is_locked = actions == world.word
        is_in_word = (actions[:, :, None] == world.word[:, None, :]).any(axis=2)
        judged = np.where(is_locked, _LOCK, np.where(is_in_word, _DRIFT, _VOID))
        marks = np.take_along_axis(world.marks, judged, axis=1)
        report = np.where(world.is_reversed[:, None], marks[:, ::-1], marks)
        shown = np.where(np.arange(self.n_slots) == world.withheld[:, None], len(_MARKS), report)
        locked = is_locked.sum(axis=1)
        is_solved = locked == self.n_slots
        after = WordleState(np.where(which, np.maximum(state.most_locked, locked), state.most_locked))
        feedback = [
            self._told(*values) if takes_part else ""
            for *values, takes_part in zip(
                actions.tolist(), is_solved.tolist(), shown.tolist(), which.tolist(), strict=True
            )
        ]
        return after, Moved(which.copy(), is_solved, after.most_locked / self.n_slots, feedback)

    def best(self, world: WordleWorld, state: WordleState, lanes: Sequence[int]) -> list[str]:
        """Return the word."""
        return [write_code(word, self._letters) for word in world.word[list(lanes)].tolist()]

    def random(
        self, world: WordleWorld, state: WordleState, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return guesses, every one of them as likely."""
        return [random_code(one, self._letters, self.n_slots) for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: WordleWorld) -> Ints:
        """Return 1 for each episode: the word itself is a guess."""
        return np.ones(len(world.word), dtype=np.int64)

    @property
    def _order(self) -> str:
        if self.may_be_reversed:
            return (
                f"The report runs either from slot 1 to slot {self.n_slots} or from slot {self.n_slots} to "
                "slot 1, the same throughout, and you are not told which."
            )
        return f"The report runs from slot 1 to slot {self.n_slots}."

    def _told(self, guess: list[int], is_solved: bool, places: list[int]) -> str:
        """Return what is told of a guess."""
        report = "This is the word." if is_solved else write_code(places, _MARKS + _WITHHELD)
        return f"{write_code(guess, self._letters)}: {report}"

    def _told_of(self, withheld: int) -> str:
        """Return what is told of the place that is withheld."""
        if withheld < 0:
            return ""
        return (
            f" Place {withheld + 1} of the report, counted from its left end, is withheld in every step: a "
            "dot stands there instead of a mark."
        )

    def _worlds(self, drawn: Ints) -> WordleWorld:
        word, meaning, is_reversed, withheld = drawn.T
        return WordleWorld(self._words[word], _MEANINGS[meaning], is_reversed == 1, withheld.copy())
