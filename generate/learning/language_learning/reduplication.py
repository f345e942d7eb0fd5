"""Reduplication: a feature repeats a part of the root."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from generate.learning.language_learning.patterns import Patterned
from generate.learning.language_learning.words import PLAIN_VOWELS

# which part of the root is copied
_PARTS = (
    "to first vowel",
    "to next consonant",
    "to second vowel",
    "whole",
    "from last vowel",
    "from consonant before",
)
_PLACES = ("front", "end", "after first vowel")
_CONSONANTS_PUT = ("m", "r", "t")
_CHANGES = ("none", *(f"vowels {vowel}" for vowel in PLAIN_VOWELS), *(f"first {c}" for c in _CONSONANTS_PUT))


@lru_cache(maxsize=4)
def _patterns(has_change: bool) -> tuple[tuple[str, ...], ...]:
    return tuple(product(_PARTS, _PLACES, _CHANGES if has_change else _CHANGES[:1]))


@lru_cache(maxsize=100_000)
def _applied(part: str, place: str, change: str, root: str) -> str:
    vowels = [k for k, letter in enumerate(root) if letter in PLAIN_VOWELS]
    first, last = vowels[0], vowels[-1]
    copy = {
        "to first vowel": root[: first + 1],
        "to next consonant": root[: first + 2],
        "to second vowel": root[: vowels[1] + 1],
        "whole": root,
        "from last vowel": root[last:],
        "from consonant before": root[last - 1 :],
    }[part]
    if change.startswith("vowels"):
        copy = "".join(change[-1] if letter in PLAIN_VOWELS else letter for letter in copy)
    elif change.startswith("first"):
        copy = change[-1] + (copy if copy[0] in PLAIN_VOWELS else copy[1:])
    cut = {"front": 0, "end": len(root), "after first vowel": first + 1}[place]
    return root[:cut] + copy + root[cut:]


class Reduplication(Patterned):
    """Reduplication.

    Attributes
    ----------
    has_change
        Whether the copy may differ from what it copies.
    """

    has_change: bool

    def patterns(self) -> Sequence[tuple[str, ...]]:
        """Return every pattern of the level."""
        return _patterns(self.has_change)

    def applied(self, pattern: tuple[str, ...], root: str) -> str:
        """Return what a pattern makes of a root."""
        part, place, change = pattern
        return _applied(part, place, change, root)

    def told(self) -> str:
        """Return what is told of the patterns."""
        text = (
            "A feature repeats a part of the root: from its beginning up to its first vowel, up to the sound "
            "after that, or up to its second vowel; from its last vowel to its end, or from the consonant "
            "before that; or the whole root. The copy stands before the root, after it, or inside it right "
            "after its first vowel."
        )
        if self.has_change:
            text += (
                " In the copy, all vowels may have become one certain vowel; or its first consonant may have "
                "become `m`, `r` or `t`, which is put in front where the copy begins with a vowel."
            )
        return text
