"""Vowels that agree: eight vowels in three dimensions, and which of a root's vowels rules its endings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

# place in the string: 1 if low, plus 2 if back, plus 4 if rounded
VOWELS = "ie\u0268ay\u00f8uo"
LOW, BACK, ROUND = range(3)
DIMENSIONS = (LOW, BACK, ROUND)
CONTROLLERS = ("first", "last", "any 0", "any 1")

VOWEL_TABLE = "\n".join(
    (
        "        front spread   front rounded   back spread   back rounded",
        "high         i               y              \u0268              u",
        "low          e               \u00f8              a              o",
    )
)


@dataclass(frozen=True, slots=True)
class Harmony:
    """One harmony.

    Attributes
    ----------
    dimension
        What vowels agree in: 0 height, 1 backness, 2 rounding.
    controller
        Which vowel of a root rules: the first, the last, or one with value 0 or 1 wherever it stands.
    neutral
        The pair of vowels that takes no part, named by its vowel of value 0; None: every vowel takes part.
    default
        What holds where no vowel of a root takes part.
    """

    dimension: int
    controller: str
    neutral: str | None = None
    default: int = 0

    def value_of(self, vowel: str) -> int | None:
        """Return a vowel's value in the dimension, None if it takes no part."""
        return _value_of(self, vowel)

    def agreeing(self, word: str, value: int) -> str:
        """Return a word with the vowels that take part at a value."""
        return _agreeing(self, word, value)

    def ruling(self, word: str) -> int:
        """Return the value that the endings of a root get."""
        return _ruling(self, word)


@lru_cache(maxsize=10_000)
def _value_of(harmony: Harmony, vowel: str) -> int | None:
    place = VOWELS.index(vowel)
    value = place >> harmony.dimension & 1
    return None if VOWELS[place - (value << harmony.dimension)] == harmony.neutral else value


@lru_cache(maxsize=100_000)
def _agreeing(harmony: Harmony, word: str, value: int) -> str:
    said = []
    for sound in word:
        old = harmony.value_of(sound) if sound in VOWELS else None
        step = 0 if old is None else (value - old) << harmony.dimension
        said.append(VOWELS[VOWELS.index(sound) + step] if step else sound)
    return "".join(said)


@lru_cache(maxsize=100_000)
def _ruling(harmony: Harmony, word: str) -> int:
    heard = (harmony.value_of(sound) for sound in word if sound in VOWELS)
    values = [value for value in heard if value is not None]
    if not values:
        return harmony.default
    if harmony.controller in ("first", "last"):
        return values[0 if harmony.controller == "first" else -1]
    strong = int(harmony.controller[-1])
    return strong if strong in values else 1 - strong


def paradigms(endings: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return every series of features with at most one of each group, in order; none of them is empty."""
    groups: Iterable[tuple[tuple[str, ...], ...]] = product(
        *[((), *((feature,) for feature in group)) for group in endings]
    )
    series = [tuple(feature for part in parts for feature in part) for parts in groups]
    return [features for features in series if features]


def rulers_told(n_controllers: int) -> str:
    """Return a phrase that names the first rules of :data:`CONTROLLERS`: which vowel of a root decides."""
    return "the first or the last vowel of the root" + (
        ", or one kind of vowel wherever in the root it stands, so that the other kind decides only where "
        "that one is absent"
        if n_controllers > 2
        else ""
    )


def order_told(endings: Sequence[Sequence[str]]) -> str:
    """Return a sentence on the order of the endings."""
    groups = ", then ".join(" or ".join(group) for group in endings)
    return (
        "Each feature is marked by one ending, which holds a vowel. A word has at most one ending of each of "
        f"these groups, in this order after the root: {groups}."
        if len(endings) > 1
        else f"Each feature ({groups}) is marked by one ending, which holds a vowel and follows the root."
    )
