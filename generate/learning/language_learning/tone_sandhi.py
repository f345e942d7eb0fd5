"""Tone sandhi: what becomes of tones that meet inside a compound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations, product
from typing import Literal

import numpy as np

from generate.contract import Ints
from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import NOUNS
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.tones import HIGH, LOW, MID, RISING, marked, marks_told, read, write
from generate.learning.language_learning.words import (
    PLAIN_VOWELS,
    Vocabulary,
    consonants,
    listed,
    spell,
    spread,
)

_TONES = (HIGH, LOW, MID, RISING)
# a rule may be out of reach of the tones at hand: then a compound on which it does not act is taken
_MAX_COMPOUND_TRIES = 300


@dataclass(frozen=True, slots=True)
class Compound:
    """Roots of one syllable that are joined into one word."""

    roots: tuple[str, ...]
    glosses: tuple[str, ...]

    @property
    def text(self) -> str:
        """The compound as it is printed."""
        pairs = zip(self.roots, self.glosses, strict=True)
        return " + ".join(f"`{root}` '{gloss}'" for root, gloss in pairs)

    @property
    def bare(self) -> str:
        """The roots side by side."""
        return "".join(self.roots)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Where tone ``first`` meets tone ``second``, one of them becomes ``result``."""

    first: int
    second: int
    is_first_changed: bool
    result: int

    def apply(self, words: Ints, is_leftward: bool) -> Ints:
        """Return words after the rule has gone through them once, pair by pair.

        Parameters
        ----------
        words
            Words x places, tones as numbers.
        """
        changed = words.copy()
        places = range(words.shape[1] - 1)
        for place in reversed(places) if is_leftward else places:
            meets = (changed[:, place] == self.first) & (changed[:, place + 1] == self.second)
            changed[meets, place if self.is_first_changed else place + 1] = self.result
        return changed


@lru_cache(maxsize=8)
def _rules(n_tones: int) -> tuple[_Rule, ...]:
    tones = range(n_tones)
    return tuple(
        _Rule(first, second, is_first, result)
        for first, second, is_first, result in product(tones, tones, (True, False), tones)
        if result != (first if is_first else second)
    )


@lru_cache(maxsize=32)
def _outcomes(n_tones: int, length: int) -> Ints:
    """Return directions x rules x words: the number of the word that each rule makes of each word.

    A word's number is its tones as digits.
    """
    powers = n_tones ** np.arange(length)[::-1]
    words = np.arange(n_tones**length)[:, None] // powers % n_tones
    return np.array(
        [[rule.apply(words, left) @ powers for rule in _rules(n_tones)] for left in (False, True)],
        dtype=np.int64,
    )


class ToneSandhi(Language[Compound]):
    """Tone sandhi.

    Attributes
    ----------
    n_tones
        How many tones there are: 3 or 4.
    n_rules
        How many rules there are, applied one after the other: 1 or 2.
    n_roots
        The numbers of roots that are joined.
    """

    n_tones: Literal[3, 4]
    n_rules: Literal[1, 2]
    n_roots: tuple[int, ...]

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Compound]:
        """Draw a language with examples and questions that cover its conditions."""
        letters = consonants(dice, 12)
        tones = _TONES[: self.n_tones]
        systems = self._systems()
        order = dice.integer(0, len(systems) - 1)
        is_leftward = dice.integer(0, 1)

        def stages(compound: Compound) -> list[int]:
            """Return the number of the word before all rules and after each."""
            table = _outcomes(self.n_tones, len(compound.roots))[is_leftward]
            numbers = [self._number(compound)]
            for rule in systems[order]:
                numbers.append(int(table[rule, numbers[-1]]))
            return numbers

        def made(compound: Compound) -> str:
            return self._written(compound, stages(compound)[-1])

        def syllable(dice: Dice) -> str:
            return write(
                spell(dice, dice.choice(("CV", "CVC")), letters, PLAIN_VOWELS), (dice.choice(tones),)
            )

        vocabulary = Vocabulary(dice, syllable, NOUNS)

        def bears(tone: str, root: str) -> bool:
            return read(root)[1] == (tone,)

        def compounds(n: int, n_roots: int, n_any: int) -> tuple[Compound, ...]:
            """Draw compounds: some of any kind, and others on which the rules act, each rule in its turn."""
            known = [vocabulary.draw(partial(bears, tone)) for tone in tones]
            known += [vocabulary.draw(lambda _: True) for _ in range(n_roots - len(known))]
            found: list[Compound] = []
            acting = spread(dice, range(self.n_rules), n)
            for k, place in enumerate(spread(dice, self.n_roots, n)):
                for _ in range(_MAX_COMPOUND_TRIES):
                    roots, glosses = zip(*dice.sample(known, self.n_roots[place]), strict=True)
                    compound = Compound(roots, glosses)
                    numbers = stages(compound)
                    acts = numbers[acting[k]] != numbers[acting[k] + 1] and numbers[0] != numbers[-1]
                    if compound not in found and (k < n_any or acts):
                        break
                found.append(compound)
            return tuple(dice.shuffled(found))

        told = (
            "You learn an invented language whose roots have one syllable each and are joined into "
            "compounds. Each example gives the roots between backticks with their meanings, and after `->` "
            f"the compound. Its words are written with the consonants {listed(letters)} and the vowels "
            f"{listed(PLAIN_VOWELS)}. Every vowel bears a tone, written as a mark on it: "
            f"{marks_told(tones, 'a')}. The letters of the roots stay as they are, but where two tones meet, "
            "one of them may become another tone. "
        )
        told += (
            "There is one such rule, about one pair of tones; it goes through the word pair by pair."
            if self.n_rules == 1
            else "There are two such rules, each about one pair of tones; one goes through the whole word "
            "pair by pair, then the other. Both start from the same end of the word."
        )
        told += (
            " From which end of the word, which pairs and which tones is for you to find out. What became "
            "of one pair counts for the next."
        )
        return Draft(
            told,
            (*letters, *marked(PLAIN_VOWELS, tones)),
            compounds(n_examples, 24, n_examples // 3),
            compounds(n_questions, 3 * n_questions, 0),
            made,
        )

    def answers(
        self, shown: Sequence[Example[Compound]], asked: Sequence[Compound]
    ) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        systems = self._systems()
        for is_leftward in (0, 1):
            fits = np.ones(len(systems), dtype=bool)
            for example in shown:
                letters, tones = read(example.form)
                if letters != read(example.cue.bare)[0]:
                    return
                fits &= self._made(example.cue, is_leftward) == self._numbered(tones)
            made = np.array([self._made(compound, is_leftward)[fits] for compound in asked]).T
            for numbers in np.unique(made, axis=0):
                yield tuple(self._written(c, int(number)) for c, number in zip(asked, numbers, strict=True))

    def _systems(self) -> Ints:
        """Return systems x rules, in the order in which they are applied."""
        return _systems(len(_rules(self.n_tones)), self.n_rules)

    def _made(self, compound: Compound, is_leftward: int) -> Ints:
        """Return the number of the word that each system makes of a compound."""
        table: Ints = _outcomes(self.n_tones, len(compound.roots))[is_leftward]
        systems = self._systems()
        numbers: Ints = table[systems[:, 0], self._number(compound)]
        for place in range(1, self.n_rules):
            numbers = table[systems[:, place], numbers]
        return numbers

    def _number(self, compound: Compound) -> int:
        return self._numbered([read(root)[1][0] for root in compound.roots])

    def _numbered(self, tones: Sequence[str]) -> int:
        number = 0
        for tone in tones:
            number = number * self.n_tones + _TONES.index(tone)
        return number

    def _written(self, compound: Compound, number: int) -> str:
        powers = [self.n_tones**place for place in reversed(range(len(compound.roots)))]
        tones = tuple(_TONES[number // power % self.n_tones] for power in powers)
        return write("".join(read(root)[0] for root in compound.roots), tones)


@lru_cache(maxsize=8)
def _systems(n_rules: int, n_applied: int) -> Ints:
    return np.array(list(permutations(range(n_rules), n_applied)), dtype=np.int64)
