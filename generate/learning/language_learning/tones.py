"""Tones: every vowel of a word bears one, written as a mark on it."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from generate.learning.language_learning.morphemes import ALL_VOWELS

HIGH, LOW, MID, RISING = "H", "L", "M", "R"
MARKS = {HIGH: "\u0301", LOW: "\u0300", MID: "\u0304", RISING: "\u030c"}
_NAMES = {HIGH: "high", LOW: "low", MID: "mid", RISING: "rising"}
_TONES = {mark: tone for tone, mark in MARKS.items()}


@lru_cache(maxsize=100_000)
def write(letters: str, tones: tuple[str, ...]) -> str:
    """Return a word with its tones, one per vowel, in NFC."""
    left = iter(tones)
    word = "".join(letter + MARKS[next(left)] if letter in ALL_VOWELS else letter for letter in letters)
    return unicodedata.normalize("NFC", word)


@lru_cache(maxsize=100_000)
def read(word: str) -> tuple[str, tuple[str, ...]]:
    """Return the letters of a word and its tones."""
    parts = unicodedata.normalize("NFD", word)
    letters = "".join(part for part in parts if part not in _TONES)
    return letters, tuple(_TONES[part] for part in parts if part in _TONES)


def marked(vowels: Sequence[str], tones: Sequence[str]) -> tuple[str, ...]:
    """Return every vowel with every tone."""
    return tuple(write(vowel, (tone,)) for vowel in vowels for tone in tones)


def marks_told(tones: Sequence[str], vowel: str) -> str:
    """Return a list of the marks for a sentence."""
    signs = {HIGH: "acute", LOW: "grave", MID: "macron", RISING: "caron"}
    return ", ".join(f"{_NAMES[tone]} (the {signs[tone]}, as in `{write(vowel, (tone,))}`)" for tone in tones)
