"""GWELTHAR: tone, evidentiality and mirativity in one verb form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import VERBS
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.morphemes import Morphemes, answers
from generate.learning.language_learning.tones import HIGH, LOW, MID, marked, marks_told, read, write
from generate.learning.language_learning.words import (
    Cue,
    Vocabulary,
    affixes,
    consonants,
    listed,
    spell,
    spread,
)

MIRATIVE = "MIRATIVE"
_VOWELS = "aeiou\u025b\u0254"
_EVIDENTIALS = ("WITNESSED", "REPORTED", "INFERRED")
_OPPOSITE = {HIGH: LOW, LOW: HIGH, MID: MID}
_COPY, _OPPOSE = "copy", "oppose"
# what surprise does to the tones of the verb
_MELODIES = (
    "last high",
    "last low",
    "last opposed",
    "first high",
    "first low",
    "first opposed",
    "all high",
    "all low",
    "all opposed",
    "reversed",
)
# on the root before the affix takes its tone, on the root after that, or on the whole word at the end
_BEFORE, _AFTER, _WHOLE = "before", "after", "whole"

Tones = tuple[str, ...]


def _changed(tones: Tones, melody: str) -> Tones:
    """Return the tones that a melody makes of some tones."""
    if melody == "reversed":
        return tones[::-1]
    place, kind = melody.split()
    new = {"high": lambda _: HIGH, "low": lambda _: LOW, "opposed": _OPPOSITE.__getitem__}[kind]
    which = {"first": {0}, "last": {len(tones) - 1}, "all": set(range(len(tones)))}[place]
    return tuple(new(tone) if k in which else tone for k, tone in enumerate(tones))


@dataclass(frozen=True, slots=True)
class _Setting:
    """Where the evidential stands, when surprise acts, and with which evidential it acts in another way."""

    is_prefix: bool
    when: str
    apart: str | None
    tones: Tones

    def form(self, cue: Cue, morphemes: Morphemes) -> str:
        letters, tones = read(cue.root)
        affix, manner = morphemes[cue.features[0]].split(":")
        melody = morphemes[self._surprise(cue)] if MIRATIVE in cue.features else None
        if melody and self.when == _BEFORE:
            tones = _changed(tones, melody)
        near = tones[0 if self.is_prefix else -1]
        own = (near if manner == _COPY else _OPPOSITE[near] if manner == _OPPOSE else manner,)
        if melody and self.when == _AFTER:
            tones = _changed(tones, melody)
        tones = own + tones if self.is_prefix else tones + own
        if melody and self.when == _WHOLE:
            tones = _changed(tones, melody)
        return write(affix + letters if self.is_prefix else letters + affix, tones)

    def needs(self, cue: Cue) -> Sequence[str]:
        return (cue.features[0], self._surprise(cue)) if MIRATIVE in cue.features else cue.features

    def readings(self, cue: Cue, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        (letters, tones), (root, root_tones) = read(form), read(cue.root)
        if len(tones) != len(root_tones) + 1 or not (
            letters.endswith(root) if self.is_prefix else letters.startswith(root)
        ):
            return
        affix = letters[: -len(root)] if self.is_prefix else letters[len(root) :]
        names = self.needs(cue)
        possible = [[f"{affix}:{manner}" for manner in (_COPY, _OPPOSE, *self.tones)], list(_MELODIES)]
        choices = [
            [morpheme for morpheme in some if morphemes.get(name, morpheme) == morpheme]
            for name, some in zip(names, possible, strict=False)
        ]
        for chosen in product(*choices):
            reading = {**morphemes, **dict(zip(names, chosen, strict=True))}
            if self.form(cue, reading) == form:
                yield reading

    def strangers(self, name: str) -> tuple[str, str]:
        return ("all high", "all low") if name.startswith(MIRATIVE) else ("ka:H", "ta:H")

    def _surprise(self, cue: Cue) -> str:
        return f"{MIRATIVE} {cue.features[0]}" if cue.features[0] == self.apart else MIRATIVE


class Gwelthar(Language[Cue]):
    """The language GWELTHAR.

    Attributes
    ----------
    n_evidentials
        How many kinds of evidence are told apart.
    n_tones
        How many tones there are: 2 or 3.
    has_order
        Whether surprise may act before or after the evidential takes its tone, or on the whole word.
    has_apart
        Whether surprise may act in another way with one of the evidentials.
    """

    n_evidentials: Literal[2, 3]
    n_tones: Literal[2, 3]
    has_order: bool
    has_apart: bool

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Cue]:
        """Draw a language with examples and questions that cover its conditions."""
        letters = consonants(dice, 10)
        tones = self._tones()
        evidentials = _EVIDENTIALS[: self.n_evidentials]
        setting = _Setting(
            is_prefix=dice.chance(0.5),
            when=dice.choice(self._orders()),
            apart=dice.choice(evidentials) if self.has_apart else None,
            tones=tones,
        )
        stems = affixes(dice, len(evidentials), ("CV", "CVC"), letters, _VOWELS)
        manners = [_COPY, _OPPOSE, *tones]
        morphemes = {
            evidential: f"{stem}:{manner}"
            for evidential, stem, manner in zip(
                evidentials, stems, dice.sample(manners, len(evidentials)), strict=True
            )
        }
        common, other = dice.sample(_MELODIES, 2)
        morphemes[MIRATIVE] = common
        if setting.apart:
            morphemes[f"{MIRATIVE} {setting.apart}"] = other

        def verb(dice: Dice) -> str:
            shape = dice.choice(("CVCV", "CVCVC", "CVCVCV"))
            return write(
                spell(dice, shape, letters, _VOWELS),
                tuple(dice.choice(tones) for _ in range(shape.count("V"))),
            )

        vocabulary = Vocabulary(dice, verb, VERBS)

        def cues(n: int) -> tuple[Cue, ...]:
            # half of the forms are mirative, and every kind of evidence is as frequent with as without it
            queues = [iter(spread(dice, evidentials, n)) for _ in range(2)]
            features = [
                (evidentials[next(queues[surprise])], *(MIRATIVE,) * surprise)
                for surprise in spread(dice, (False, True), n)
            ]
            return tuple(Cue(*vocabulary.draw(lambda _: True), some) for some in features)

        told = (
            "You learn GWELTHAR, an invented language. Each example gives the root of a verb between "
            "backticks with its meaning, the features of a form, and after `->` the form. Its words are "
            f"written with the consonants {listed(letters)} and the vowels {listed(_VOWELS)}. Every vowel "
            f"bears a tone, written as a mark on it: {marks_told(tones, 'a')}; on {listed(_VOWELS[-2:])} the "
            f"mark is a combining character, as in {listed(marked(_VOWELS[-2:], tones[:1]))}. A verb says on "
            f"what evidence something is told: {', '.join(evidentials)}. It does so by an affix with one "
            "vowel, before or after the root in all verbs alike. The tone of an affix is always the same, or "
            "equals the nearest tone of the root, or is its opposite. A verb may also say that it comes as a "
            f"surprise: {MIRATIVE}. That adds no letters but makes the first, the last or all tones high, "
            "low or the opposite of what they were, or reverses their order. High and low are "
            f"opposites{'; mid is its own opposite' if MID in tones else ''}."
        )
        told += (
            " Surprise may act on the root before the affix takes its tone, on the root after that, or on "
            "the whole word at the end."
            if self.has_order
            else " Surprise acts on the root, before the affix takes its tone."
        )
        if self.has_apart:
            told += " Surprise may work in another way with one kind of evidence than with the others."
        return Draft(
            told,
            (*letters, *marked(_VOWELS, tones)),
            cues(n_examples),
            cues(n_questions),
            lambda cue: setting.form(cue, morphemes),
        )

    def answers(self, shown: Sequence[Example[Cue]], asked: Sequence[Cue]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        apart = (None, *_EVIDENTIALS[: self.n_evidentials]) if self.has_apart else (None,)
        settings = (
            _Setting(is_prefix, when, evidential, self._tones())
            for is_prefix, when, evidential in product((False, True), self._orders(), apart)
        )
        return answers(settings, shown, asked)

    def _tones(self) -> Tones:
        return (HIGH, LOW, MID)[: self.n_tones]

    def _orders(self) -> Sequence[str]:
        return (_BEFORE, _AFTER, _WHOLE) if self.has_order else (_BEFORE,)
