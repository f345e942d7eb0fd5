"""Codes: short rows of symbols that are guessed."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import permutations, product

import numpy as np

from generate.contract import Ints
from generate.learning.dice import Dice


@cache
def codes_without_repeats(n_symbols: int, n_slots: int) -> Ints:
    """Return every code that holds no symbol twice, in the order of the symbols: codes x slots."""
    return _fixed(list(permutations(range(n_symbols), n_slots)))


@cache
def codes_without_doubles(n_symbols: int, n_slots: int) -> Ints:
    """Return every code that holds no symbol twice in a row, in the order of the symbols: codes x slots."""
    codes = product(range(n_symbols), repeat=n_slots)
    return _fixed([code for code in codes if all(map(int.__ne__, code, code[1:]))])


def read_code(text: str, symbols: str, n_slots: int) -> tuple[int, ...] | None:
    """Return the symbols' numbers of a guess, or None where the text is not one.

    Capitals do not matter; spaces, commas and hyphens between symbols are passed over.
    """
    if not _pattern(symbols, n_slots).fullmatch(text):
        return None
    return tuple(symbols.index(symbol) for symbol in text.upper() if symbol in symbols)


def write_code(code: Sequence[int], symbols: str) -> str:
    """Return a code as it is written."""
    return "".join(symbols[number] for number in code)


def random_code(dice: Dice, symbols: str, n_slots: int) -> str:
    """Return a guess, every one of them as likely."""
    return "".join(dice.choice(symbols) for _ in range(n_slots))


@cache
def _pattern(symbols: str, n_slots: int) -> re.Pattern[str]:
    # without ASCII, letters of other scripts would count as capitals of these
    symbol = f"[{symbols}]"
    return re.compile(rf"{symbol}(?:[\s,-]*{symbol}){{{n_slots - 1}}}\.?", re.ASCII | re.IGNORECASE)


def _fixed(codes: list[tuple[int, ...]]) -> Ints:
    array = np.array(codes, dtype=np.int64)
    array.flags.writeable = False
    return array
