"""Languages whose features rework the root: one pattern per feature, or one per feature and kind of root."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import VERBS
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.words import (
    PLAIN_VOWELS,
    Cue,
    Vocabulary,
    consonants,
    listed,
    spell,
    spread,
)

FRONT_VOWELS = "ei"
SONORANTS = "lmnr"
SHAPES = ("CVCVC", "CVCV", "VCVC", "VCV", "CVCVCVC", "CVCVCV", "VCVCVC")


def _n_vowels(root: str) -> int:
    return sum(letter in PLAIN_VOWELS for letter in root)


# kinds of words by their outline, with how they are told
OUTLINES: Mapping[str, Callable[[str], bool]] = {
    "whether it begins with a vowel": lambda root: root[0] in PLAIN_VOWELS,
    "whether it ends in a vowel": lambda root: root[-1] in PLAIN_VOWELS,
    "whether it has more than two vowels": lambda root: _n_vowels(root) > 2,
    "whether its last vowel is `e` or `i`": lambda root: (
        next(letter for letter in reversed(root) if letter in PLAIN_VOWELS) in FRONT_VOWELS
    ),
}
CONDITIONS: Mapping[str, Callable[[str], bool]] = {
    **OUTLINES,
    "whether it contains `l`, `m`, `n` or `r`": lambda root: any(letter in SONORANTS for letter in root),
}
_ALWAYS = "always"


def kind(condition: str, root: str) -> bool:
    """Return whether a root meets a condition."""
    return condition != _ALWAYS and CONDITIONS[condition](root)


class Patterned(Language[Cue]):
    """A language with one pattern per feature and kind of root.

    Attributes
    ----------
    features
        The features, one per form.
    has_condition
        Whether a feature works in two ways, depending on the kind of root.
    """

    features: tuple[str, ...]
    has_condition: bool

    @abstractmethod
    def patterns(self) -> Sequence[tuple[str, ...]]:
        """Return every pattern of the level."""

    @abstractmethod
    def applied(self, pattern: tuple[str, ...], root: str) -> str:
        """Return what a pattern makes of a root."""

    def written(self, consonants: tuple[str, ...]) -> tuple[str, ...]:
        """Return the consonants of words, given those of roots."""
        return consonants

    @abstractmethod
    def told(self) -> str:
        """Return what is told of the patterns."""

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Cue]:
        """Draw a language with examples and questions that cover its conditions."""
        letters = consonants(dice, 11, needed="mrtdsk")
        condition = dice.choice(self._conditions())
        keys = list(product(self.features, (False, True) if self.has_condition else (False,)))
        # each feature's patterns differ in their first part, so that no feature looks like another one
        patterns = dict(zip(keys, self._apart(dice, len(keys)), strict=True))
        vocabulary = Vocabulary(dice, lambda d: spell(d, d.choice(SHAPES), letters, PLAIN_VOWELS), VERBS)

        def form(cue: Cue) -> str:
            return self.applied(patterns[cue.features[0], kind(condition, cue.root)], cue.root)

        def is_a(key: tuple[str, bool], is_asked: bool, root: str) -> bool:
            is_same = self.applied(patterns[key], root) == root
            return kind(condition, root) == key[1] and not (is_asked and is_same)

        def cues(n: int, is_asked: bool) -> tuple[Cue, ...]:
            return tuple(
                Cue(*vocabulary.draw(partial(is_a, keys[place], is_asked)), (keys[place][0],))
                for place in spread(dice, keys, n)
            )

        written = self.written(letters)
        told = (
            "You learn an invented language. Each example gives the root of a verb between backticks with "
            "its meaning, the feature of a form, and after `->` the form. Its words are written with the "
            f"consonants {listed(written)} and the vowels {listed(PLAIN_VOWELS)}. {self.told()}"
        )
        if self.has_condition:
            told += (
                " Every feature works in two ways; which of them depends on the root, for all features on "
                f"the same of these: {'; '.join(CONDITIONS)}."
            )
        return Draft(told, (*written, *PLAIN_VOWELS), cues(n_examples, False), cues(n_questions, True), form)

    def answers(self, shown: Sequence[Example[Cue]], asked: Sequence[Cue]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown.

        Every feature and kind of root has a pattern of its own, so each is searched alone.
        """
        for condition in self._conditions():
            keys = dict.fromkeys((cue.features[0], kind(condition, cue.root)) for cue in asked)
            left = {key: list(self.patterns()) for key in keys}
            for example in shown:
                key = example.cue.features[0], kind(condition, example.cue.root)
                root, form = example.cue.root, example.form
                left[key] = [p for p in left.get(key, self.patterns()) if self.applied(p, root) == form]
            if not all(left.values()):
                continue
            places = {
                key: [
                    place
                    for place, cue in enumerate(asked)
                    if (cue.features[0], kind(condition, cue.root)) == key
                ]
                for key in keys
            }
            made = {
                key: dict.fromkeys(
                    tuple(self.applied(pattern, asked[place].root) for place in places[key])
                    for pattern in left[key]
                )
                for key in keys
            }
            for parts in product(*made.values()):
                forms = {
                    place: form
                    for key, part in zip(keys, parts, strict=True)
                    for place, form in zip(places[key], part, strict=True)
                }
                yield tuple(forms[place] for place in range(len(asked)))

    def _conditions(self) -> Sequence[str]:
        return tuple(CONDITIONS) if self.has_condition else (_ALWAYS,)

    def _apart(self, dice: Dice, n: int) -> list[tuple[str, ...]]:
        """Return ``n`` patterns that differ in their first part."""
        firsts = list(dict.fromkeys(pattern[0] for pattern in self.patterns()))
        return [
            dice.choice([pattern for pattern in self.patterns() if pattern[0] == first])
            for first in dice.sample(firsts, n)
        ]
