"""Sounds, roots and affixes of the invented languages, and how a word is asked for.

Every string is NFC. A *sound* is a letter together with what stands on or after it: combining marks and the
sign of pharyngealisation.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from generate.learning.dice import Dice
from store.errors import InvalidSource

PHARYNGEAL = "\u02e4"
PLAIN_VOWELS = ("a", "e", "i", "o", "u")

_SOUND = re.compile(f".[\u0300-\u036f{PHARYNGEAL}]*")
_CONSONANTS = tuple("bdfghjklmnprstvwz")
_MAX_ROOT_TRIES = 5_000


@dataclass(frozen=True, slots=True)
class Cue:
    """A root with its meaning and the grammatical features of the form that is asked for."""

    root: str
    gloss: str
    features: tuple[str, ...]

    @property
    def text(self) -> str:
        """The cue as it is printed."""
        return " + ".join((f"`{self.root}` '{self.gloss}'", *self.features))

    @property
    def bare(self) -> str:
        """What one answers who changes nothing."""
        return self.root


@lru_cache(maxsize=100_000)
def sounds(word: str) -> tuple[str, ...]:
    """Return the sounds of a word."""
    return tuple(_SOUND.findall(word))


def listed(symbols: Iterable[str]) -> str:
    """Return symbols for a sentence, each between backticks."""
    return " ".join(f"`{symbol}`" for symbol in symbols)


def spread(dice: Dice, options: Sequence[object], n: int) -> list[int]:
    """Return the places of ``n`` options in random order, all of them about as often."""
    places: list[int] = []
    while len(places) < n:
        places += dice.shuffled(range(len(options)))
    return places[:n]


def consonants(dice: Dice, n: int, needed: str = "") -> tuple[str, ...]:
    """Draw the consonants of a language, ``needed`` among them, in alphabetical order."""
    others = [letter for letter in _CONSONANTS if letter not in needed]
    return tuple(sorted([*needed, *dice.sample(others, n - len(needed))]))


def spell(dice: Dice, shape: str, consonants: Sequence[str], vowels: Sequence[str]) -> str:
    """Return a random string of a shape such as ``CVC``."""
    return "".join(dice.choice(vowels if place == "V" else consonants) for place in shape)


def affixes(
    dice: Dice, n: int, shapes: Sequence[str], consonants: Sequence[str], vowels: Sequence[str]
) -> list[str]:
    """Return ``n`` different affixes, none of which begins or ends another."""
    found: list[str] = []
    while len(found) < n:
        affix = spell(dice, dice.choice(shapes), consonants, vowels)
        if not any(
            one.startswith(other) or one.endswith(other)
            for mine in found
            for one, other in ((affix, mine), (mine, affix))
        ):
            found.append(affix)
    return found


class Vocabulary:
    """Roots of one language, each drawn once and with a meaning of its own.

    Parameters
    ----------
    make
        Draws the form of a root.
    meanings
        Glosses, of which each is used once, in random order.
    """

    def __init__(self, dice: Dice, make: Callable[[Dice], str], meanings: Sequence[str]) -> None:
        self._dice = dice
        self._make = make
        self._meanings = dice.shuffled(meanings)
        self._used: set[str] = set()

    def draw(self, accept: Callable[[str], bool]) -> tuple[str, str]:
        """Return a new root that is accepted, and its gloss."""
        if not self._meanings:
            raise InvalidSource(
                f"expected at most {len(self._used)} roots of a language, found that more are needed; "
                "lower max_examples or n_test_items in manifests/learning_tasks.csv"
            )
        for _ in range(_MAX_ROOT_TRIES):
            root = self._make(self._dice)
            if root not in self._used and accept(root):
                self._used.add(root)
                return root, self._meanings.pop()
        raise InvalidSource(
            f"expected a new root of the kind that is needed within {_MAX_ROOT_TRIES} draws, found none "
            f"beside {len(self._used)} others; lower max_examples in manifests/learning_tasks.csv"
        )
