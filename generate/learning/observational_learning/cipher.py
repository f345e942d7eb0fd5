"""A cipher whose letters depend on their place and on what came before; coded words are to be read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import gcd
from string import ascii_lowercase
from typing import Annotated

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

_N = len(ascii_lowercase)
_UNITS = tuple(factor for factor in range(_N) if gcd(factor, _N) == 1)
# invented words alternate these
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_MISLEADING_LENGTHS = (1, 3)
_ALONE, _AFTER_PLAIN, _AFTER_CODED = range(3)


@dataclass(frozen=True, slots=True)
class Key:
    """How words are coded.

    The letters of each whole block are put into another order: place ``k`` of the block takes the letter at
    ``order[k]``. Letters are numbered from 0; the letter at place ``k`` of the word becomes ``factor`` times
    its number, plus ``shift``, plus ``k * stride``, plus the number of the letter before it, where there is
    one: of the reordered word, of the coded word, or none, as ``chain`` says. All this wraps around at 26.
    """

    order: tuple[int, ...]
    factor: int
    shift: int
    stride: int
    chain: int


@dataclass(frozen=True, slots=True)
class Word:
    """A word that is to be coded, or one that is coded and is to be read."""

    letters: str
    is_coded: bool


class Cipher(HiddenProcess[Key, Word]):
    """Ciphers that number the letters; demonstrations code plain words, questions ask what a coded word says.

    Attributes
    ----------
    has_factor
        Whether letters may be multiplied.
    largest_block
        Letters of the largest block that may be reordered; 1: none is.
    has_chain
        Whether the letter before may be added.
    shown_lengths, asked_lengths
        Lengths of the words that tell, and of those that are asked for.
    """

    has_factor: bool
    largest_block: Annotated[int, Field(strict=True, ge=1, le=4)]
    has_chain: bool
    shown_lengths: Span
    asked_lengths: Span

    def draw_rule(self, dice: Dice) -> Key:
        """Return a key that uses all that the level has."""
        return Key(
            order=dice.choice(self._orders[1:] or self._orders),
            factor=dice.choice(self._factors[1:] or self._factors),
            shift=dice.integer(1, _N - 1),
            stride=dice.integer(1, _N - 1),
            chain=dice.choice(self._chains[1:] or self._chains),
        )

    def draw_given(self, dice: Dice, rule: Key, stage: Stage) -> Word:
        """Return a plain word, or for a question a coded one."""
        lengths = {
            "misleading": _MISLEADING_LENGTHS,
            "telling": self.shown_lengths,
            "asked": self.asked_lengths,
        }
        kinds = dice.shuffled((_CONSONANTS, _VOWELS))
        plain = "".join(dice.choice(kinds[place % 2]) for place in range(dice.integer(*lengths[stage])))
        return Word(_coded(rule, plain), True) if stage == "asked" else Word(plain, False)

    def result(self, rule: Key, given: Word) -> Answer:
        """Return the letters of the word in the other form."""
        return tuple(_read(rule, given.letters) if given.is_coded else _coded(rule, given.letters))

    def decoys(self, rule: Key) -> Sequence[Callable[[Word], Answer]]:
        """Return the cipher in which a letter always has the same code."""
        plain = Key((0,), rule.factor, rule.shift, 0, _ALONE)
        return (lambda given: self.result(plain, given),)

    def rival_answers(
        self, shown: Sequence[Demonstration[Word]], asked: Sequence[Word]
    ) -> frozenset[tuple[Answer, ...]]:
        """Try all keys, factors and strides side by side; the first letter shown fixes the shift."""
        coded = np.concatenate([_numbers("".join(one.result)) for one in shown])
        before = np.concatenate([_before(_numbers("".join(one.result))) for one in shown])
        places = np.concatenate([np.arange(len(one.result)) for one in shown])
        factors = np.array(self._factors)[:, None, None]
        strides = np.arange(_N)[:, None]
        found = set()
        for order in self._orders:
            moved = [_reordered(one.given.letters, order) for one in shown]
            plain = np.concatenate(list(map(_numbers, moved)))
            added = {
                _ALONE: np.zeros_like(plain),
                _AFTER_PLAIN: np.concatenate([_before(_numbers(word)) for word in moved]),
                _AFTER_CODED: before,
            }
            for chain in self._chains:
                # factors x strides x letters: the shift that each letter asks for
                shifts = (coded - added[chain] - factors * plain - strides * places) % _N
                for factor, stride in np.argwhere((shifts == shifts[..., :1]).all(axis=-1)).tolist():
                    key = Key(order, self._factors[factor], int(shifts[factor, stride, 0]), stride, chain)
                    found.add(tuple(self.result(key, given) for given in asked))
        return frozenset(found)

    def situation(self) -> str:
        """Return what is told of the cipher."""
        parts = []
        if self.largest_block > 1:
            parts.append(
                "The word may first be cut from its start into blocks of equal length, at most "
                f"{self.largest_block} letters, whose letters are all put into another order in the same "
                "way; letters left over at the end stay where they are."
            )
        parts.append("Letters are numbered, a = 0 to z = 25, and counting goes on at 0 after 25.")
        number = "its number times a fixed factor" if self.has_factor else "its number"
        parts.append(
            f"The code of a letter is then {number}, plus a fixed shift, plus a fixed stride times its "
            "place in the word (the first letter has place 0)."
        )
        if self.has_chain:
            parts.append(
                "From the second letter on, the number of the letter before it may be added as well: either "
                "always that of the uncoded letter before it (after reordering) or always that of the coded "
                "one."
            )
        hidden = ["the shift", "the stride"]
        if self.has_factor:
            hidden.append("the factor (an odd number below 26, but not 13)")
        if self.largest_block > 1:
            hidden.append("the blocks")
        if self.has_chain:
            hidden.append("whether and which letter is added")
        return (
            "Invented words are written in a cipher. "
            + " ".join(parts)
            + f" Hidden are {', '.join(hidden[:-1])} and {hidden[-1]}, the same for all words. Each "
            "demonstration shows a plain word and the same word coded."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be given coded words and asked what they say. Answer with the letters of the plain "
            "word, separated by single spaces."
        )

    def written(self, given: Word) -> str:
        """Return the letters of the word."""
        return " ".join(given.letters)

    def ask(self, given: Word) -> str:
        """Return the text of a question."""
        return f"Which plain word is coded as {self.written(given)} ?"

    def guess(self, given: Word) -> Guess:
        """Guess a letter for each letter."""
        return Guess(tuple(ascii_lowercase), len(given.letters), len(given.letters), " ")

    @property
    def _orders(self) -> tuple[tuple[int, ...], ...]:
        """Orders of blocks, first the one that changes nothing."""
        return (
            (0,),
            *(
                order
                for size in range(2, self.largest_block + 1)
                for order in permutations(range(size))
                if order != tuple(range(size))
            ),
        )

    @property
    def _factors(self) -> tuple[int, ...]:
        return _UNITS if self.has_factor else _UNITS[:1]

    @property
    def _chains(self) -> tuple[int, ...]:
        return (_ALONE, _AFTER_PLAIN, _AFTER_CODED) if self.has_chain else (_ALONE,)


def _coded(key: Key, plain: str) -> str:
    coded = ""
    moved = _reordered(plain, key.order)
    for place, letter in enumerate(moved):
        number = key.factor * ascii_lowercase.index(letter) + key.shift + key.stride * place
        coded += ascii_lowercase[(number + _added(key, moved, coded, place)) % _N]
    return coded


def _read(key: Key, coded: str) -> str:
    """Return the plain word of a coded one."""
    moved = ""
    undo = pow(key.factor, -1, _N)
    for place, letter in enumerate(coded):
        number = ascii_lowercase.index(letter) - key.shift - key.stride * place
        moved += ascii_lowercase[(number - _added(key, moved, coded, place)) * undo % _N]
    back = tuple(key.order.index(place) for place in range(len(key.order)))
    return _reordered(moved, back)


def _added(key: Key, moved: str, coded: str, place: int) -> int:
    """Return the number of the letter before, where one is added."""
    if place == 0 or key.chain == _ALONE:
        return 0
    return ascii_lowercase.index((moved if key.chain == _AFTER_PLAIN else coded)[place - 1])


def _reordered(word: str, order: Sequence[int]) -> str:
    size = len(order)
    n_whole = len(word) // size * size
    blocks = (word[start : start + size] for start in range(0, n_whole, size))
    return "".join(block[place] for block in blocks for place in order) + word[n_whole:]


def _numbers(word: str) -> Ints:
    return np.array([ascii_lowercase.index(letter) for letter in word], dtype=np.int64)


def _before(numbers: Ints) -> Ints:
    """Return the number before each one, and 0 before the first."""
    return np.concatenate([[0], numbers[:-1]])
