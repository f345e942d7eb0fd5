"""Vowel harmony: vowels of endings agree with a vowel of the root."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import Literal

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import NOUNS
from generate.learning.language_learning.harmony import (
    CONTROLLERS,
    DIMENSIONS,
    VOWEL_TABLE,
    VOWELS,
    Harmony,
    order_told,
    paradigms,
    rulers_told,
)
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.morphemes import Morphemes, answers, suffix_readings
from generate.learning.language_learning.words import (
    Cue,
    Vocabulary,
    affixes,
    consonants,
    listed,
    spell,
    spread,
)

# stands before an ending whose vowels agree; one without it never changes
_AGREES = "*"


@dataclass(frozen=True, slots=True)
class _Setting:
    """Harmonies, whether endings go by the one before, and whether one may never change."""

    harmonies: tuple[Harmony, ...]
    is_handed_on: bool
    has_invariant: bool

    def form(self, cue: Cue, morphemes: Morphemes) -> str:
        values = [harmony.ruling(cue.root) for harmony in self.harmonies]
        word = cue.root
        for feature in cue.features:
            ending = morphemes[feature]
            if ending.startswith(_AGREES):
                ending = self._agreeing(ending[1:], values)
            word += ending
            if self.is_handed_on:
                for place, harmony in enumerate(self.harmonies):
                    last = [harmony.value_of(sound) for sound in ending if sound in VOWELS][-1]
                    values[place] = values[place] if last is None else last
        return word

    def needs(self, cue: Cue) -> Sequence[str]:
        return cue.features

    def readings(self, cue: Cue, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        return suffix_readings(self, cue, form, morphemes)

    def underlying(self, piece: str) -> list[str]:
        agreeing = _AGREES + self._agreeing(piece, [0] * len(self.harmonies))
        return [agreeing, piece] if self.has_invariant else [agreeing]

    def strangers(self, name: str) -> tuple[str, str]:
        return f"{_AGREES}ki", f"{_AGREES}ti"

    def _agreeing(self, ending: str, values: Sequence[int]) -> str:
        for harmony, value in zip(self.harmonies, values, strict=True):
            ending = harmony.agreeing(ending, value)
        return ending


class VowelHarmony(Language[Cue]):
    """Vowel harmony.

    Attributes
    ----------
    endings
        Groups of features, in the order in which their endings follow the root.
    n_harmonies
        Dimensions in which vowels agree, each with a rule of its own for which vowel of the root decides.
    has_neutral
        Whether a pair of vowels takes no part.
    has_invariant
        Whether one of the endings never changes.
    """

    endings: tuple[tuple[str, ...], ...]
    n_harmonies: Literal[1, 2]
    has_neutral: bool
    has_invariant: bool

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Cue]:
        """Draw a language with examples and questions that cover its conditions."""
        letters = consonants(dice, 10)
        setting = dice.choice(self._settings())
        features = [feature for group in self.endings for feature in group]
        shapes = ("CV", "VC", "CVC")
        while True:
            stems = affixes(dice, len(features), shapes, letters, VOWELS)
            heard = [
                harmony.value_of(s)
                for stem in stems
                for s in stem
                if s in VOWELS
                for harmony in setting.harmonies
            ]
            if None not in heard:
                break
        still = dice.choice(features) if self.has_invariant else None
        morphemes = {
            feature: stem if feature == still else setting.underlying(stem)[0]
            for feature, stem in zip(features, stems, strict=True)
        }
        vocabulary = Vocabulary(
            dice,
            lambda d: spell(d, d.choice(("CVCVC", "VCVC", "CVCVCVC", "VCVCVC")), letters, VOWELS),
            NOUNS,
        )
        # what a root is: the values that it hands to its endings, and whether any vowel of it takes part
        kinds = [
            (*values, takes_part)
            for values in product((0, 1), repeat=self.n_harmonies)
            for takes_part in ((True, True, False) if self.has_neutral else (True,))
            if takes_part or values[0] == setting.harmonies[0].default
        ]

        def is_a(wanted: tuple[int | bool, ...], root: str) -> bool:
            values = [harmony.ruling(root) for harmony in setting.harmonies]
            first = setting.harmonies[0]
            takes_part = any(first.value_of(sound) is not None for sound in root if sound in VOWELS)
            return wanted == (*values, takes_part)

        def cues(n: int) -> tuple[Cue, ...]:
            series = paradigms(self.endings)
            return tuple(
                Cue(*vocabulary.draw(partial(is_a, kinds[k])), series[s])
                for k, s in zip(spread(dice, kinds, n), spread(dice, series, n), strict=True)
            )

        told = (
            "You learn an invented language. Each example gives a root between backticks with its meaning, "
            "the features of a form, and after `->` the form. Its words are written with the consonants "
            f"{listed(letters)} and eight vowels, which differ in how high the tongue is, how far back it "
            f"is, and whether the lips are rounded:\n\n{VOWEL_TABLE}\n\n{order_told(self.endings)} The root "
            "itself never changes. The vowels of an ending agree with a vowel of the root"
        )
        told += (
            " in height, in backness or in rounding. "
            if self.n_harmonies == 1
            else " in two of these: height, backness, rounding; for each, another vowel may decide. "
        )
        told += f"What decides is {rulers_told(len(CONTROLLERS))}."
        if self.has_neutral:
            told += (
                " One pair of vowels, alike but for what agrees, has no say and never changes; roots "
                "that have no other vowels are all treated alike."
            )
        if self.has_invariant:
            told += (
                " Some ending may always be the same; an ending after another one may go by that one, the "
                "same or not, instead of the root."
            )
        return Draft(
            told,
            (*letters, *VOWELS),
            cues(n_examples),
            cues(n_questions),
            lambda cue: setting.form(cue, morphemes),
        )

    def answers(self, shown: Sequence[Example[Cue]], asked: Sequence[Cue]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        return answers(self._settings(), shown, asked)

    def _settings(self) -> list[_Setting]:
        handed_on = (False, True) if self.has_invariant and len(self.endings) > 1 else (False,)
        return [
            _Setting(harmonies, is_handed_on, self.has_invariant)
            for dimensions in combinations(DIMENSIONS, self.n_harmonies)
            for harmonies in product(*[self._harmonies(dimension) for dimension in dimensions])
            for is_handed_on in handed_on
        ]

    def _harmonies(self, dimension: int) -> list[Harmony]:
        if not self.has_neutral:
            return [Harmony(dimension, controller) for controller in CONTROLLERS]
        pairs = [vowel for place, vowel in enumerate(VOWELS) if not place >> dimension & 1]
        return [
            Harmony(dimension, controller, neutral, default)
            for controller in CONTROLLERS
            for neutral in pairs
            for default in (0, 1)
        ]
