"""Ablaut: features change the vowels, and at length the consonants, inside the root."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product

from generate.learning.language_learning.patterns import Patterned
from generate.learning.language_learning.words import PLAIN_VOWELS

# in the order of the second formant; vowels are shifted along this row
_ROW = "uoaei"


def _shift(by: int) -> Callable[[str], str]:
    return lambda vowel: _ROW[(_ROW.index(vowel) + by) % len(_ROW)]


def _step(by: int) -> Callable[[str], str]:
    return lambda vowel: _ROW[min(max(_ROW.index(vowel) + by, 0), len(_ROW) - 1)]


def _becomes(new: str) -> Callable[[str], str]:
    return lambda _: new


# what may happen to a vowel; the row closes into a ring (ring) or ends (step)
_CHANGES: Mapping[str, Callable[[str], str]] = {
    **{f"ring {by}": _shift(by) for by in (1, 2, 3, 4)},
    "step up": _step(1),
    "step down": _step(-1),
    "mirror": lambda vowel: _ROW[len(_ROW) - 1 - _ROW.index(vowel)],
    **{f"becomes {vowel}": _becomes(vowel) for vowel in PLAIN_VOWELS},
}
_PLACES = ("first", "last", "all")
# what may happen to the vowels of a root together
_EXCHANGES = ("exchange", "first to last", "last to first")
_VOICED = dict(zip("ptksfbdgzv", "bdgzvptksf", strict=True))
_MUTATIONS = ("none", "voice first", "voice last", "double last")


@lru_cache(maxsize=4)
def _patterns(has_mutation: bool) -> tuple[tuple[str, ...], ...]:
    vowels = [*product(_CHANGES, _PLACES), *((exchange, "ends") for exchange in _EXCHANGES)]
    mutations = _MUTATIONS if has_mutation else _MUTATIONS[:1]
    return tuple((change, place, mutation) for (change, place), mutation in product(vowels, mutations))


@lru_cache(maxsize=100_000)
def _applied(change: str, place: str, mutation: str, root: str) -> str:
    letters = list(root)
    vowels = [k for k, letter in enumerate(letters) if letter in PLAIN_VOWELS]
    first, last = vowels[0], vowels[-1]
    if place == "ends":
        ends = {
            "exchange": (root[last], root[first]),
            "first to last": (root[first], root[first]),
            "last to first": (root[last], root[last]),
        }
        letters[first], letters[last] = ends[change]
    else:
        for k in {"first": [first], "last": [last], "all": vowels}[place]:
            letters[k] = _CHANGES[change](root[k])
    others = [k for k in range(len(letters)) if k not in vowels]
    target = others[0 if mutation == "voice first" else -1]
    if mutation.startswith("voice"):
        letters[target] = _VOICED.get(letters[target], letters[target])
    elif mutation == "double last":
        letters[target] *= 2
    return "".join(letters)


class Ablaut(Patterned):
    """Ablaut.

    Attributes
    ----------
    has_mutation
        Whether a consonant may change as well.
    """

    has_mutation: bool

    def patterns(self) -> Sequence[tuple[str, ...]]:
        """Return every pattern of the level."""
        return _patterns(self.has_mutation)

    def applied(self, pattern: tuple[str, ...], root: str) -> str:
        """Return what a pattern makes of a root."""
        change, place, mutation = pattern
        return _applied(change, place, mutation, root)

    def written(self, consonants: tuple[str, ...]) -> tuple[str, ...]:
        """Return the consonants of words, given those of roots."""
        changed = [_VOICED[letter] for letter in consonants if letter in _VOICED] if self.has_mutation else []
        return tuple(sorted({*consonants, *changed}))

    def told(self) -> str:
        """Return what is told of the patterns."""
        text = (
            "Nothing is added before or after a root: a feature changes vowels inside it, the first, the "
            "last or all. A vowel may become a certain vowel, may move along the row `u` `o` `a` `e` `i` by "
            "a certain number of places (the row then closes into a ring) or by one place (its ends then "
            "stay where they are), or may go to the mirrored place of the row; or the first and the last "
            "vowel may be exchanged, or one of them copied onto the other."
        )
        if self.has_mutation:
            text += (
                " A feature may also change the first or the last consonant between voiceless (`p` `t` `k` "
                "`s` `f`) and voiced (`b` `d` `g` `z` `v`), where it is one of these, or double the last "
                "one."
            )
        return text
