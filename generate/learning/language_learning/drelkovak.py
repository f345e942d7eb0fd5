"""DRELKOVAK: vowel harmony and, independent of it or drawn into it, pharyngeal harmony of consonants."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Literal

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import NOUNS
from generate.learning.language_learning.harmony import (
    BACK,
    CONTROLLERS,
    DIMENSIONS,
    LOW,
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
    PHARYNGEAL,
    Cue,
    Vocabulary,
    affixes,
    listed,
    sounds,
    spell,
    spread,
)

# consonants made with the tip of the tongue, by manner: all can be pharyngealised
_MANNERS = ("td", "sz", "nlr")
_TIP = "".join(_MANNERS)
_LIPS, _BACK_OF_TONGUE = "pbm", "kg"
_CONSONANTS = _TIP + _LIPS + _BACK_OF_TONGUE
_TRIGGERS = ("any", "first", "last")


@dataclass(frozen=True, slots=True)
class _Setting:
    """Both harmonies.

    ``trigger`` says which consonant of the root must be pharyngealised, ``targets`` which consonants of an
    ending then are, ``blockers`` which consonants stop it on its way, and ``pulled`` to which dimension of
    vowels of endings it gives the value 1.
    """

    harmony: Harmony
    trigger: str
    targets: str
    blockers: str
    pulled: int | None

    def form(self, cue: Cue, morphemes: Morphemes) -> str:
        value = self.harmony.ruling(cue.root)
        spreads = _spreads(cue.root, self.trigger, self.blockers)
        word = cue.root
        for feature in cue.features:
            agreeing = self.harmony.agreeing(morphemes[feature], value)
            said, spreads = _said(agreeing, spreads, self.targets, self.blockers, self.pulled)
            word += said
        return word

    def needs(self, cue: Cue) -> Sequence[str]:
        return cue.features

    def readings(self, cue: Cue, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        return suffix_readings(self, cue, form, morphemes)

    def underlying(self, piece: str) -> list[str]:
        plain = piece.replace(PHARYNGEAL, "")
        if self.pulled is None or self.pulled == self.harmony.dimension:
            return [self.harmony.agreeing(plain, 0)]
        # what the vowels were before they were pulled is not to be heard
        pull = Harmony(self.pulled, "first")
        return [self.harmony.agreeing(pull.agreeing(plain, value), 0) for value in (0, 1)]

    def strangers(self, name: str) -> tuple[str, str]:
        return "ki", "gi"


@lru_cache(maxsize=100_000)
def _said(ending: str, spreads: bool, targets: str, blockers: str, pulled: int | None) -> tuple[str, bool]:
    """Return an ending as pharyngealisation leaves it, and whether it leaves the ending at its end."""
    said = []
    for sound in ending:
        spreads = spreads and sound not in blockers
        if not spreads:
            said.append(sound)
        elif sound in targets:
            said.append(sound + PHARYNGEAL)
        elif sound in VOWELS and pulled is not None:
            said.append(Harmony(pulled, "first").agreeing(sound, 1))
        else:
            said.append(sound)
    return "".join(said), spreads


@lru_cache(maxsize=100_000)
def _spreads(root: str, trigger: str, blockers: str) -> bool:
    """Whether pharyngealisation leaves a root at its end."""
    heard = sounds(root)
    places = [place for place, sound in enumerate(heard) if sound[0] not in VOWELS]
    if trigger != "any":
        places = [places[0 if trigger == "first" else -1]]
    marked = [place for place in places if PHARYNGEAL in heard[place]]
    return bool(marked) and not any(sound in blockers for sound in heard[marked[-1] + 1 :])


def _root(dice: Dice) -> str:
    shape = dice.choice(("CVCVC", "CVCVC", "CVCVCVC"))
    is_marked = dice.chance(0.75)
    heard = spell(dice, shape, _CONSONANTS, VOWELS)
    return "".join(
        sound + PHARYNGEAL if is_marked and sound in _TIP and dice.chance(0.5) else sound for sound in heard
    )


class Drelkovak(Language[Cue]):
    """The language DRELKOVAK.

    Attributes
    ----------
    endings
        Groups of features, in the order in which their endings follow the root.
    n_controllers
        How many rules there are for which vowel of the root decides: the first or the last (2), or also one
        value wherever it stands (4).
    has_blockers
        Whether consonants of some place stop pharyngeal harmony.
    has_pull
        Whether pharyngeal harmony also lowers or backs the vowels of an ending.
    """

    endings: tuple[tuple[str, ...], ...]
    n_controllers: Literal[2, 4]
    has_blockers: bool
    has_pull: bool

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Cue]:
        """Draw a language with examples and questions that cover its conditions."""
        setting = self._drawn(dice)
        features = [feature for group in self.endings for feature in group]
        while True:
            stems = affixes(dice, len(features), ("CV", "VC", "CVC"), _CONSONANTS, VOWELS)
            if all(any(sound in setting.targets for sound in stem) for stem in stems):
                break
        morphemes = {
            feature: setting.harmony.agreeing(stem, 0) for feature, stem in zip(features, stems, strict=True)
        }
        vocabulary = Vocabulary(dice, _root, NOUNS)
        # the value that rules the vowels of endings, and whether pharyngealisation leaves the root
        kinds = list(product((0, 1), (False, True)))

        def is_a(wanted: tuple[int, bool], root: str) -> bool:
            leaves = _spreads(root, setting.trigger, setting.blockers)
            return wanted == (setting.harmony.ruling(root), leaves)

        def cues(n: int) -> tuple[Cue, ...]:
            series = paradigms(self.endings)
            return tuple(
                Cue(*vocabulary.draw(partial(is_a, kinds[k])), series[s])
                for k, s in zip(spread(dice, kinds, n), spread(dice, series, n), strict=True)
            )

        told = (
            "You learn DRELKOVAK, an invented language. Each example gives a root between backticks with "
            "its meaning, the features of a form, and after `->` the form. Its consonants are made with the "
            f"tip of the tongue ({listed(_TIP)}: the stops `t` `d`, the hissing sounds `s` `z`, the "
            f"sonorants `n` `l` `r`), with the lips ({listed(_LIPS)}) or with the back of the tongue "
            f"({listed(_BACK_OF_TONGUE)}). Consonants made with the tip of the tongue can be pharyngealised, "
            f"said with a narrowed throat: the sign `{PHARYNGEAL}` (U+02E4) stands right after the letter, "
            f"as in `t{PHARYNGEAL}` or `n{PHARYNGEAL}`; with and without it they are different sounds. The "
            "eight vowels differ in how high the tongue is, how far back it is, and whether the lips are "
            f"rounded:\n\n{VOWEL_TABLE}\n\n{order_told(self.endings)} The root itself never changes. The "
            "vowels of an ending agree with a vowel of the root in height, in backness or in rounding; what "
            f"decides is {rulers_told(self.n_controllers)}. Consonants of an ending made with the tip of the "
            "tongue (one, two or all three of the stops, the hissing sounds and the sonorants) are "
            "pharyngealised if a certain consonant of the root is: any, the first or the last."
        )
        if self.has_blockers:
            told += (
                " Between the two, consonants made with the lips, or those made with the back of the "
                "tongue, may stop this for all that follows them."
            )
        if self.has_pull:
            told += (
                " As far as pharyngealisation reaches in the endings, it may also make their vowels low, or "
                "make them back, whatever else they agree with."
            )
        symbols = (*_CONSONANTS, *(letter + PHARYNGEAL for letter in _TIP), *VOWELS)
        return Draft(
            told,
            symbols,
            cues(n_examples),
            cues(n_questions),
            lambda cue: setting.form(cue, morphemes),
        )

    def answers(self, shown: Sequence[Example[Cue]], asked: Sequence[Cue]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        return answers(self._settings(), shown, asked)

    def _parts(self) -> tuple[Sequence[Harmony], Sequence[str], Sequence[str], Sequence[int | None]]:
        harmonies = [Harmony(d, c) for d in DIMENSIONS for c in CONTROLLERS[: self.n_controllers]]
        targets = ["".join(some) for n in (1, 2, 3) for some in combinations(_MANNERS, n)]
        blockers = ("", _LIPS, _BACK_OF_TONGUE) if self.has_blockers else ("",)
        return harmonies, targets, blockers, (None, LOW, BACK) if self.has_pull else (None,)

    def _settings(self) -> Iterator[_Setting]:
        harmonies, targets, blockers, pulled = self._parts()
        return (_Setting(*parts) for parts in product(harmonies, _TRIGGERS, targets, blockers, pulled))

    def _drawn(self, dice: Dice) -> _Setting:
        """Draw a setting, with blockers and a pull where the level has them."""
        harmonies, targets, blockers, pulled = self._parts()
        return _Setting(
            dice.choice(harmonies),
            dice.choice(_TRIGGERS),
            dice.choice(targets),
            dice.choice(blockers[-2:]),
            dice.choice(pulled[-2:]),
        )
