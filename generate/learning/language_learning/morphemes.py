"""The search for rules whose morphemes are unknown: what every setting of a language makes of the examples.

A rule is a *setting*, one of a finite list, with the morphemes of the features. Morphemes are not listed but
read off the examples: a setting says which morphemes give a form, and only those that give all of them stay.
A morpheme may be any string with a vowel.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise, product
from typing import Protocol, TypeVar

from generate.learning.language_learning.lessons import Asked, Example
from generate.learning.language_learning.words import Cue, sounds

Morphemes = Mapping[str, str]
CueT = TypeVar("CueT", bound=Asked)
CueT_contra = TypeVar("CueT_contra", bound=Asked, contravariant=True)

ALL_VOWELS = frozenset("aeiouy\u0268\u00f8\u025b\u0254")


class Setting(Protocol[CueT_contra]):
    """One setting of a language's parameters."""

    def form(self, cue: CueT_contra, morphemes: Morphemes) -> str:
        """Return the form of a cue; every morpheme that it needs is given."""
        ...

    def needs(self, cue: CueT_contra) -> Sequence[str]:
        """Return the names of the morphemes that a cue needs."""
        ...

    def readings(self, cue: CueT_contra, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        """Yield the morphemes, those given and those that the cue needs, that give the form."""
        ...

    def strangers(self, name: str) -> tuple[str, str]:
        """Return two morphemes that could be the one of a name, and never give the same form."""
        ...


class Suffixing(Setting[Cue], Protocol):
    """A setting whose endings follow an unchanged root, one per feature."""

    def underlying(self, piece: str) -> Iterable[str]:
        """Return every morpheme that could have come out as ``piece``."""
        ...


def answers(
    settings: Iterable[Setting[CueT]], shown: Sequence[Example[CueT]], asked: Sequence[CueT]
) -> Iterator[tuple[str, ...]]:
    """Yield what each rule that gives every form shown makes of the cues asked.

    Where a morpheme is needed of which the examples show nothing, it could be any: two are tried.
    """
    # forms to which least is added come first: there is least to cut
    ordered = sorted(shown, key=lambda example: len(example.form) - len(example.cue.bare))
    for setting in settings:
        lexicons: list[Morphemes] = [{}]
        for example in ordered:
            lexicons = _extended(setting, example, lexicons)
            if not lexicons:
                break
        needed = {name for cue in asked for name in setting.needs(cue)}
        for morphemes in lexicons:
            missing = needed - morphemes.keys()
            for which in (0, 1) if missing else (0,):
                known = {**morphemes, **{name: setting.strangers(name)[which] for name in missing}}
                yield tuple(setting.form(cue, known) for cue in asked)


def _extended(
    setting: Setting[CueT], example: Example[CueT], lexicons: Sequence[Morphemes]
) -> list[Morphemes]:
    """Return the lexicons that also give the form of an example, with the morphemes that it shows."""
    names = set(setting.needs(example.cue))
    found: dict[tuple[tuple[str, str], ...], Morphemes] = {}
    for morphemes in lexicons:
        if names <= morphemes.keys():
            fits = setting.form(example.cue, morphemes) == example.form
            readings: Iterable[Morphemes] = (morphemes,) if fits else ()
        else:
            readings = setting.readings(example.cue, example.form, morphemes)
        found.update((tuple(sorted(reading.items())), reading) for reading in readings)
    return list(found.values())


@lru_cache(maxsize=100_000)
def has_vowel(piece: str) -> bool:
    """Whether a string of sounds has a vowel."""
    return not ALL_VOWELS.isdisjoint(piece)


@lru_cache(maxsize=100_000)
def splits(word: str, n: int) -> tuple[tuple[str, ...], ...]:
    """Return every way to cut a word into ``n`` pieces with a vowel each."""
    parts = sounds(word)
    found = []
    for cuts in combinations(range(1, len(parts)), n - 1):
        ends = (0, *cuts, len(parts))
        pieces = tuple("".join(parts[a:b]) for a, b in pairwise(ends))
        if all(has_vowel(piece) for piece in pieces):
            found.append(pieces)
    return tuple(found)


def suffix_readings(setting: Suffixing, cue: Cue, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
    """Yield the endings that give a form of an unchanged root."""
    if not form.startswith(cue.root):
        return
    for pieces in splits(form[len(cue.root) :], len(cue.features)):
        possible = [
            [
                morpheme
                for morpheme in setting.underlying(piece)
                if morphemes.get(feature, morpheme) == morpheme
            ]
            for feature, piece in zip(cue.features, pieces, strict=True)
        ]
        for chosen in product(*possible):
            reading = {**morphemes, **dict(zip(cue.features, chosen, strict=True))}
            if setting.form(cue, reading) == form:
                yield reading
