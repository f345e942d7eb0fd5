"""Evidentiality and mirativity by affixes on both sides of a verb, and what happens where sounds meet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import VERBS
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.morphemes import Morphemes, answers, has_vowel
from generate.learning.language_learning.words import (
    PLAIN_VOWELS,
    Cue,
    Vocabulary,
    affixes,
    consonants,
    listed,
    spell,
    spread,
)

SURPRISE = "SURPRISE"
_EVIDENTIALS = ("SEEN", "HEARD", "GUESSED")
_KEEP, _DROP = "keep", "drop"
_GLIDES = ("h", "j", "w")
_SHAPES = ("CV", "VC", "CVC", "VCV")
_LONGEST = max(map(len, _SHAPES))
# stands in an affix for a vowel copied from the root
_COPIED = "V"


@dataclass(frozen=True, slots=True)
class _Setting:
    """Sides and repairs.

    ``hiatus`` and ``clash`` say what happens where two vowels or two consonants meet: nothing, the root loses
    its sound, or a sound is put between. ``merged`` are two evidentials of which the first takes the affix of
    the second under surprise. ``copied`` says whether the vowel of the affix of surprise is the root's first
    or last one.
    """

    is_prefix: bool
    hiatus: str
    clash: str
    merged: tuple[str, str] | None
    copied: str | None

    def form(self, cue: Cue, morphemes: Morphemes) -> str:
        word = self._joined(cue.root, morphemes[self._evidential(cue)], self.is_prefix)
        if SURPRISE in cue.features:
            vowels = [letter for letter in cue.root if letter in PLAIN_VOWELS]
            vowel = vowels[0 if self.copied == "first" else -1]
            word = self._joined(word, morphemes[SURPRISE].replace(_COPIED, vowel), not self.is_prefix)
        return word

    def needs(self, cue: Cue) -> Sequence[str]:
        return (self._evidential(cue), *cue.features[1:])

    def readings(self, cue: Cue, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        names = self.needs(cue)
        sides = (self.is_prefix, not self.is_prefix)
        possible = []
        for name, is_prefix in zip(names, sides, strict=False):
            ends = (form[:n] if is_prefix else form[-n:] for n in range(1, _LONGEST + 1))
            found = [self._underlying(name, end) for end in ends if has_vowel(end)]
            possible.append([end for end in found if morphemes.get(name, end) == end])
        for chosen in product(*possible):
            reading = {**morphemes, **dict(zip(names, chosen, strict=True))}
            if self.form(cue, reading) == form:
                yield reading

    def strangers(self, name: str) -> tuple[str, str]:
        return "ka", "ta"

    def _evidential(self, cue: Cue) -> str:
        is_merged = self.merged and SURPRISE in cue.features and cue.features[0] == self.merged[0]
        return self.merged[1] if self.merged and is_merged else cue.features[0]

    def _underlying(self, name: str, piece: str) -> str:
        if self.copied is None or name != SURPRISE:
            return piece
        return "".join(_COPIED if letter in PLAIN_VOWELS else letter for letter in piece)

    def _joined(self, word: str, affix: str, is_prefix: bool) -> str:
        left, right = (affix, word) if is_prefix else (word, affix)
        meeting = (left[-1] in PLAIN_VOWELS, right[0] in PLAIN_VOWELS)
        repair = self.hiatus if meeting == (True, True) else self.clash if not any(meeting) else _KEEP
        if repair == _KEEP:
            return left + right
        if repair == _DROP:
            return left + right[1:] if is_prefix else left[:-1] + right
        return left + repair + right


class EvidentialMirative(Language[Cue]):
    """Evidentiality and mirativity.

    Attributes
    ----------
    has_clash
        Whether something may happen where two consonants meet, as it may where two vowels do.
    has_merger
        Whether an evidential may take the affix of another one under surprise.
    has_copy
        Whether the affix of surprise may take its vowel from the root.
    """

    has_clash: bool
    has_merger: bool
    has_copy: bool

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Cue]:
        """Draw a language with examples and questions that cover its conditions."""
        setting = self._drawn(dice)
        letters = [c for c in consonants(dice, 11) if c not in _GLIDES]
        while True:
            stems = affixes(dice, len(_EVIDENTIALS), _SHAPES, letters, PLAIN_VOWELS)
            # affixes that begin with a vowel and affixes that do not, or one of the repairs never happens
            edges = {stem[-1 if setting.is_prefix else 0] in PLAIN_VOWELS for stem in stems}
            if len(edges) == 2:
                break
        surprise = spell(dice, dice.choice(("CV", "VC", "CVC")), letters, PLAIN_VOWELS)
        if setting.copied:
            surprise = "".join(_COPIED if letter in PLAIN_VOWELS else letter for letter in surprise)
        morphemes = {**dict(zip(_EVIDENTIALS, stems, strict=True)), SURPRISE: surprise}
        vocabulary = Vocabulary(
            dice,
            lambda d: spell(
                d, d.choice(("CVCVC", "CVCV", "VCVC", "VCV", "CVCVCV", "VCVCVC")), letters, PLAIN_VOWELS
            ),
            VERBS,
        )
        edges_of_roots = list(product((False, True), repeat=2))
        series = [
            features for evidential in _EVIDENTIALS for features in ((evidential,), (evidential, SURPRISE))
        ]

        def has_edges(edges: tuple[bool, ...], root: str) -> bool:
            return edges == (root[0] in PLAIN_VOWELS, root[-1] in PLAIN_VOWELS)

        def cues(n: int, first: Sequence[int]) -> tuple[Cue, ...]:
            places = [*first, *spread(dice, series, n)][:n]
            return tuple(
                Cue(
                    *vocabulary.draw(partial(has_edges, edges_of_roots[e])),
                    series[s],
                )
                for e, s in zip(spread(dice, edges_of_roots, n), places, strict=True)
            )

        # the form in which two evidentials merge is always asked for
        merged = [series.index((setting.merged[0], SURPRISE))] if setting.merged else []

        told = (
            "You learn an invented language. Each example gives the root of a verb between backticks with "
            "its meaning, the features of a form, and after `->` the form. Its words are written with the "
            f"consonants {listed((*letters, *_GLIDES))} and the vowels {listed(PLAIN_VOWELS)}. A verb says "
            f"on what evidence something is told ({', '.join(_EVIDENTIALS)}) by an affix on one side of the "
            f"root, and may say that it comes as a surprise ({SURPRISE}) by an affix on the other side. An "
            f"affix has at most {_LONGEST} sounds. Where two vowels meet between root and affix, one of "
            f"these holds: both stay, the root loses its vowel, or one of "
            f"{listed(_GLIDES)} is put between them."
        )
        if self.has_clash:
            told += (
                " Where two consonants meet, one of these holds: both stay, the root loses its consonant, "
                "or one certain vowel is put between them."
            )
        if self.has_merger:
            told += " Under surprise, one kind of evidence may be marked as another one is."
        if self.has_copy:
            told += " The affix of surprise may take its vowel from the root, the first or the last one."
        return Draft(
            told,
            (*letters, *_GLIDES, *PLAIN_VOWELS),
            cues(n_examples, ()),
            cues(n_questions, merged),
            lambda cue: setting.form(cue, morphemes),
        )

    def answers(self, shown: Sequence[Example[Cue]], asked: Sequence[Cue]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        return answers((_Setting(*parts) for parts in product(*self._parts())), shown, asked)

    def _parts(
        self,
    ) -> tuple[
        Sequence[bool], Sequence[str], Sequence[str], Sequence[tuple[str, str] | None], Sequence[str | None]
    ]:
        mergers = list(permutations(_EVIDENTIALS, 2))
        return (
            (False, True),
            (_KEEP, _DROP, *_GLIDES),
            (_KEEP, _DROP, *PLAIN_VOWELS) if self.has_clash else (_KEEP,),
            (None, *mergers) if self.has_merger else (None,),
            (None, "first", "last") if self.has_copy else (None,),
        )

    def _drawn(self, dice: Dice) -> _Setting:
        """Draw a setting in which what the level allows happens."""
        sides, hiatus, clash, merged, copied = self._parts()
        return _Setting(
            dice.choice(sides),
            dice.choice(hiatus[1:]),
            dice.choice(clash[1:] or clash),
            dice.choice(merged[1:] or merged),
            dice.choice(copied[1:] or copied),
        )
