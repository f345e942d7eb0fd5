"""Keys move a pointer by hidden rules; a password has to bring it past given positions.

Every key multiplies the position by a hidden factor, adds a hidden number, and keeps the remainder. The
machine stops at the first position that is missed and tells where the pointer is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import gcd
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import Attempts, Level, carried, told, whole_action
from generate.learning.wording import listed

_KEYS = ("a", "b", "c", "d", "e")
_N_CHECKS = 4
_KEYS_PER_CHECK = 2
_N_PRESSED = _N_CHECKS * _KEYS_PER_CHECK
_KEYS_PER_ANSWER = 3
_N_ANSWERS = 3
_WHEN = ("second", "fourth", "sixth", "eighth")
_WORD = re.compile(r"[a-z](?:[ ,-]*[a-z])*", re.IGNORECASE | re.ASCII)
_LETTER = re.compile("[a-z]")


@dataclass(frozen=True, slots=True)
class Keys:
    """What each key does: it multiplies the position by a factor and adds a number."""

    factors: tuple[int, ...]
    additions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Locks:
    """World: where the pointer starts, where it must be (episodes x checks), where keys take it.

    ``moves`` has, per episode, key and position, the position after the key.
    """

    starts: Ints
    checks: Ints
    moves: Ints


class PasswordMachine(Level):
    """A level of hidden machines.

    Attributes
    ----------
    n_positions
        Of the pointer.
    n_keys
        Of the machine.
    largest_factor
        Factors go from 1 to this number.
    """

    n_positions: Annotated[int, Field(ge=3, le=99)]
    n_keys: Annotated[int, Field(ge=2, le=len(_KEYS))]
    largest_factor: Annotated[int, Field(ge=1, le=9)]

    @property
    def grammar(self) -> str:
        """How a password is written."""
        example = [place % self.n_keys for place in range(_N_PRESSED)]
        return f"Write a password as {_N_PRESSED} keys, such as `{_written(example)}`."

    def skill(self, dice: Dice) -> Keys:
        """Draw what the keys do; no two do the same, and each does something."""
        factors = [
            factor for factor in range(1, self.largest_factor + 1) if gcd(factor, self.n_positions) == 1
        ]
        possible = [pair for pair in product(factors, range(self.n_positions)) if pair != (1, 0)]
        drawn = dice.sample(possible, self.n_keys)
        return Keys(tuple(factor for factor, _ in drawn), tuple(addition for _, addition in drawn))

    def opening(self, skill: Keys) -> str:
        """Return what is known of hidden machines."""
        last = self.n_positions - 1
        multiplies = (
            f"multiplies the position by a hidden whole number from 1 to {self.largest_factor}, then adds"
            if self.largest_factor > 1
            else "adds"
        )
        return (
            f"The pointer of a machine stands at one of the positions 0 to {last}. The keys "
            f"{listed(_KEYS[: self.n_keys])} move it. Each key {multiplies} a hidden whole number from 0 to "
            f"{last}, and if the result is {self.n_positions} or more, only the remainder of its division "
            f"by {self.n_positions} counts. The hidden numbers belong to the key; no two keys do the same, "
            "and no key leaves all positions as they are. They are the same in all rounds."
        )

    def draw(self, skills: Sequence[Keys], dice: Sequence[Dice]) -> Locks:
        """Draw where the pointer starts and a password, whose positions must be met."""
        tables = [self._moves(keys) for keys in skills]
        starts, checks = [], []
        for moves, own in zip(tables, dice, strict=True):
            starts.append(own.integer(0, self.n_positions - 1))
            checks.append(self._positions(moves, starts[-1], self._pressed(own, _N_PRESSED), _KEYS_PER_CHECK))
        return Locks(
            np.array(starts, dtype=np.int64),
            np.array(checks, dtype=np.int64),
            np.array(tables, dtype=np.int64),
        )

    def introduction(self, world: Locks) -> list[str]:
        """Return where the pointer stands and must come, and what is told."""
        return [
            f"At the start of every attempt, the pointer stands at {start}. Find a password of {_N_PRESSED} "
            "keys that brings it to "
            + listed(f"{check} after the {when} key" for check, when in zip(checks, _WHEN, strict=True))
            + f". A move is an attempt with all {_N_PRESSED} keys; a key may be used more than once. The "
            f"machine tells where the pointer is after the {listed(_WHEN)} key, and stops as soon as that "
            "is wrong."
            for start, checks in zip(world.starts.tolist(), world.checks.tolist(), strict=True)
        ]

    def start(self, world: Locks) -> Attempts:
        """Nothing was tried."""
        return Attempts(np.zeros(world.starts.size))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of keys, and the first of them as places in the alphabet; 0 fills up."""
        if not whole_action(_WORD, text):
            return None
        keys = [ord(letter) - ord("a") for letter in _LETTER.findall(text.lower())]
        if max(keys) >= self.n_keys:
            return None
        return (len(keys), *(keys + [0] * _N_PRESSED)[:_N_PRESSED])

    def step(self, world: Locks, state: Attempts, actions: Ints, which: Bools) -> tuple[Attempts, Moved]:
        """Try a password."""
        lanes = np.arange(len(actions))
        is_legal = which & (actions[:, 0] == _N_PRESSED)
        reached = np.empty_like(world.checks)
        position = world.starts
        for pressed in range(_N_PRESSED):
            position = world.moves[lanes, actions[:, 1 + pressed], position]
            if pressed % _KEYS_PER_CHECK == _KEYS_PER_CHECK - 1:
                reached[:, pressed // _KEYS_PER_CHECK] = position
        n_met = np.cumprod(reached == world.checks, axis=1).sum(axis=1)
        progress = carried(state.progress, n_met / _N_CHECKS, is_legal)

        def tell(lane: int) -> str:
            if not is_legal[lane]:
                return f"A password has {_N_PRESSED} keys, found {actions[lane, 0]}. Nothing was tried."
            met = [
                f"After the {when} key the pointer is at {position}, as it must be."
                for when, position in zip(_WHEN, world.checks[lane, : n_met[lane]], strict=False)
            ]
            if n_met[lane] == _N_CHECKS:
                return " ".join(met)
            check = n_met[lane]
            missed, wanted = reached[lane, check], world.checks[lane, check]
            stopped = f"After the {_WHEN[check]} key it is at {missed}, not at {wanted}: the machine stops."
            return " ".join([*met, stopped])

        is_solved = is_legal & (n_met == _N_CHECKS)
        return Attempts(progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Locks, state: Attempts, lanes: Sequence[int]) -> list[str]:
        """Return the first password, in the order of the alphabet, that is right."""
        passwords = []
        for lane in lanes:
            moves, keys = world.moves[lane], []
            for here, there in pairwise([world.starts[lane], *world.checks[lane]]):
                keys += next(
                    [one, other]
                    for one, other in product(range(self.n_keys), repeat=_KEYS_PER_CHECK)
                    if moves[other, moves[one, here]] == there
                )
            passwords.append(_written(keys))
        return passwords

    def random(self, world: Locks, state: Attempts, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return any password."""
        return [_written(self._pressed(own, _N_PRESSED)) for own in dice]

    def n_best(self, world: Locks) -> Ints:
        """Return how many attempts are needed: one."""
        return np.ones(world.starts.size, dtype=np.int64)

    def transfer(self, skill: Keys, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask where the pointer is while longer words are typed, which no attempt can have had."""
        moves, seen = self._moves(skill), set[tuple[int, ...]]()

        def word() -> tuple[int, ...] | None:
            asked = (
                dice.integer(0, self.n_positions - 1),
                *self._pressed(dice, _N_ANSWERS * _KEYS_PER_ANSWER),
            )
            if asked in seen:
                return None
            seen.add(asked)
            return asked

        return tuple(self._question(moves, self.until(word)) for _ in range(n_questions))

    def transfer_introduction(self, skill: Keys) -> str:
        """Return what the questions ask for."""
        return (
            f"Each question names a start and {_N_ANSWERS * _KEYS_PER_ANSWER} keys for the same "
            "machine, which does not stop now. Write where the pointer is after the third, the sixth and the "
            "ninth key: three numbers separated by spaces, such as `4 0 7`."
        )

    def _moves(self, keys: Keys) -> list[list[int]]:
        """Return the position after each key from each position."""
        return [
            [(factor * position + addition) % self.n_positions for position in range(self.n_positions)]
            for factor, addition in zip(keys.factors, keys.additions, strict=True)
        ]

    def _pressed(self, dice: Dice, n: int) -> list[int]:
        return [dice.integer(0, self.n_keys - 1) for _ in range(n)]

    def _positions(self, moves: list[list[int]], start: int, keys: Sequence[int], every: int) -> list[int]:
        """Return where the pointer is after every so many keys."""
        positions = [start]
        for key in keys:
            positions.append(moves[key][positions[-1]])
        return positions[every::every]

    def _question(self, moves: list[list[int]], asked: tuple[int, ...]) -> Question:
        start, *keys = asked
        reached = self._positions(moves, start, keys, _KEYS_PER_ANSWER)
        return Question(
            text=f"Start {start}, keys {_written(keys)}",
            answer=" ".join(map(str, reached)),
            match_kind="sequence",
            guess=Guess(tuple(map(str, range(self.n_positions))), _N_ANSWERS, _N_ANSWERS, " "),
            asked=asked,
        )


def _written(keys: Sequence[int]) -> str:
    return " ".join(_KEYS[key] for key in keys)
