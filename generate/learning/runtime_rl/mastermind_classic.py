"""Mastermind with a slot that distorts: find a code while one symbol of each guess is replaced unseen.

The code, the slot that distorts and the replacement are hidden. The replacement gives different symbols for
different ones, so exactly one guess becomes the code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from string import ascii_uppercase
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.codes import codes_without_repeats, random_code, read_code, write_code
from generate.learning.runtime_rl.drawn_rows import every_row

ReplacementKind = Literal["shift", "derangement"]

_SENTENCES: dict[ReplacementKind, str] = {
    "shift": (
        "it moves every symbol the same number of places, at least 1 and at most {last}, forward in the list "
        "{symbols}, from whose end it goes on at its beginning"
    ),
    "derangement": (
        "every symbol is replaced by another one, never by itself, and different symbols of the list "
        "{symbols} by different ones"
    ),
}


@dataclass(frozen=True, slots=True)
class MastermindWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    code
        The hidden code: episodes x slots.
    slot
        The slot that distorts, from 0.
    replacement
        What each symbol entered there is compared as: episodes x symbols.
    """

    code: Ints
    slot: Ints
    replacement: Ints


@dataclass(frozen=True, slots=True)
class MastermindState:
    """The most slots that were right in one guess so far."""

    most_locked: Ints


class Mastermind(BaseModel):
    """Codes without repeats; guesses may repeat a symbol.

    Attributes
    ----------
    n_slots
        Symbols of a code.
    n_symbols
        Symbols there are, at least as many.
    replacement
        ``shift``: along the list of symbols. ``derangement``: any replacement that leaves no symbol as it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_slots: Annotated[int, Field(strict=True, ge=2, le=5)]
    n_symbols: Annotated[int, Field(strict=True, ge=2, le=6)]
    replacement: ReplacementKind

    @model_validator(mode="after")
    def _codes_exist(self) -> "Mastermind":
        if self.n_symbols < self.n_slots:
            raise ValueError("expected at least as many symbols as slots, since no code repeats one")
        return self

    @property
    def grammar(self) -> str:
        """How a guess is written."""
        example = write_code([slot % 2 for slot in range(self.n_slots)], self._symbols)
        return f"Write a guess as its {self.n_slots} symbols from slot 1 on, such as `{example}`."

    @property
    def _symbols(self) -> str:
        return ascii_uppercase[: self.n_symbols]

    @property
    def _codes(self) -> Ints:
        return codes_without_repeats(self.n_symbols, self.n_slots)

    @property
    def _replacements(self) -> Ints:
        return _replacements(self.replacement, self.n_symbols)

    def draw(self, dice: Sequence[Dice]) -> MastermindWorld:
        """Draw code, slot and replacement, each of them as likely as any other."""
        drawn = [
            (
                one.integer(0, len(self._codes) - 1),
                one.integer(0, self.n_slots - 1),
                one.integer(0, len(self._replacements) - 1),
            )
            for one in dice
        ]
        return self._worlds(np.array(drawn, dtype=np.int64).reshape(-1, 3))

    def rivals(self, world: MastermindWorld, lane: int) -> MastermindWorld:
        """Return every world of the level: at the start they all look alike."""
        return self._worlds(every_row((len(self._codes), self.n_slots, len(self._replacements)), ()))

    def introduction(self, world: MastermindWorld) -> list[str]:
        """Return the rules; nothing of an instance is visible."""
        symbols = " ".join(self._symbols)
        kind = _SENTENCES[self.replacement].format(symbols=symbols, last=self.n_symbols - 1)
        text = (
            f"A code is hidden in slots 1 to {self.n_slots}, one symbol in each. The symbols are {symbols}; "
            f"any {self.n_slots} different ones in any order may be the code. In each step you enter a guess "
            f"of {self.n_slots} symbols, in which a symbol may stand more than once.\n"
            "One of the slots distorts, always the same one, and you are not told which. The symbol that "
            "you enter there is replaced before your guess is compared with the code. The replacement is "
            f"the same in every step: {kind}.\n"
            "After each step you are told two numbers about the guess as it is after the replacement. LOCK: "
            "in how many slots it holds the symbol of the code. DRIFT: how many of the other symbols of the "
            f"code stand anywhere in it. The goal is a guess with LOCK {self.n_slots}."
        )
        return [text] * len(world.code)

    def start(self, world: MastermindWorld) -> MastermindState:
        """Return the state before the first guess."""
        return MastermindState(np.zeros(len(world.code), dtype=np.int64))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of the guess's symbols, from 0."""
        return read_code(text, self._symbols, self.n_slots)

    def step(
        self, world: MastermindWorld, state: MastermindState, actions: Ints, which: Bools
    ) -> tuple[MastermindState, Moved]:
        """Compare one guess per episode with its code."""
        lanes = np.arange(len(actions))
        compared = actions.copy()
        compared[lanes, world.slot] = world.replacement[lanes, actions[lanes, world.slot]]
        locked = (compared == world.code).sum(axis=1)
        found = (compared[:, None, :] == world.code[:, :, None]).any(axis=2).sum(axis=1)
        after = MastermindState(np.where(which, np.maximum(state.most_locked, locked), state.most_locked))
        feedback = [
            f"{write_code(guess, self._symbols)}: LOCK {lock}, DRIFT {drift}." if takes_part else ""
            for guess, lock, drift, takes_part in zip(
                actions.tolist(), locked.tolist(), (found - locked).tolist(), which.tolist(), strict=True
            )
        ]
        moved = Moved(which.copy(), locked == self.n_slots, after.most_locked / self.n_slots, feedback)
        return after, moved

    def best(self, world: MastermindWorld, state: MastermindState, lanes: Sequence[int]) -> list[str]:
        """Return the guess that is the code after the replacement."""
        guesses = world.code[list(lanes)]
        for guess, lane in zip(guesses, lanes, strict=True):
            slot = world.slot[lane]
            guess[slot] = np.flatnonzero(world.replacement[lane] == guess[slot])[0]
        return [write_code(guess, self._symbols) for guess in guesses.tolist()]

    def random(
        self,
        world: MastermindWorld,
        state: MastermindState,
        lanes: Sequence[int],
        dice: Sequence[Dice],
    ) -> list[str]:
        """Return guesses, every one of them as likely."""
        return [random_code(one, self._symbols, self.n_slots) for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: MastermindWorld) -> Ints:
        """Return 1 for each episode: a replacement can be undone, so one guess becomes the code."""
        return np.ones(len(world.code), dtype=np.int64)

    def _worlds(self, drawn: Ints) -> MastermindWorld:
        code, slot, replacement = drawn.T
        return MastermindWorld(self._codes[code], slot.copy(), self._replacements[replacement])


@cache
def _replacements(kind: ReplacementKind, n_symbols: int) -> Ints:
    """Return every replacement of a kind: replacements x symbols."""
    symbols = range(n_symbols)
    if kind == "shift":
        found = [tuple((symbol + by) % n_symbols for symbol in symbols) for by in range(1, n_symbols)]
    else:
        found = [one for one in permutations(symbols) if all(map(int.__ne__, one, symbols))]
    return np.array(found, dtype=np.int64)
