"""Notes of sentences are put into an invented language whose grammar is hidden."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

from generate.learning.contract import Guess
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Stage,
)
from generate.learning.observational_learning.search import Table, answers_of_tables

# words that are shown, and words that are asked for, so that no form can be copied
_NOUNS = (("taruk", "mole", "kebon", "sivi"), ("lumit", "pado", "noris", "gale"))
_VERBS = (("vasu", "terim", "okel"), ("hundi", "zapor", "mefe"))
_ADJECTIVES = (("bilo", "raken"), ("sufi", "dobe"))
_MANY_MARKER, _PAST_MARKER, _NOT_MARKER, _OBJECT_MARKER = "mi", "ko", "tu", "na"
_VOWELS = "aeiou"

# what a grammar settles, and how it may do so
_ORDER, _NOT_ORDER, _ADJECTIVE = "order", "order with not", "adjective"
_MANY, _PAST, _NOT = "many", "past", "not"
_AGREEMENT, _OBJECT, _HARMONY = "agreement", "object", "harmony"
_OPTIONS: dict[str, tuple[str, ...]] = {
    _ORDER: tuple(map("".join, permutations("SVO"))),
    _NOT_ORDER: tuple(map("".join, permutations("SVO"))),
    _ADJECTIVE: ("before", "after"),
    _MANY: ("ending", "beginning", "doubled", "word"),
    _PAST: ("verb's ending", "verb's beginning", "first word's ending", "last word's ending"),
    _NOT: ("before verb", "after verb", "first", "last"),
    _AGREEMENT: ("none", "adjective", "verb"),
    _OBJECT: ("never", "always", "if many", "if not many"),
    _HARMONY: ("none", "copied"),
}
_MOST_WORDS = 10


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun, perhaps with an adjective, and whether there are many."""

    noun: str
    adjective: str | None
    is_many: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is to be said."""

    subject: NounPhrase
    verb: str
    object: NounPhrase | None
    is_past: bool
    is_not: bool


class LinguisticTransducer(HiddenProcess[Table, Sentence]):
    """Grammars of a language with marked words: order, markers and where they go.

    Attributes
    ----------
    has_agreement
        Whether adjectives or verbs may agree with their nouns, and objects may be marked.
    has_conditions
        Whether the order may be another one in sentences with "not", and markers may copy vowels.
    """

    has_agreement: bool
    has_conditions: bool

    def draw_rule(self, dice: Dice) -> Table | None:
        """Return a grammar that changes the order of the notes, and with conditions in two ways."""
        grammar: dict[Any, Any] = {cell: dice.choice(_OPTIONS[cell]) for cell in _OPTIONS}
        if not self.has_conditions:
            grammar |= {_NOT_ORDER: grammar[_ORDER], _HARMONY: "none"}
        elif grammar[_NOT_ORDER] == grammar[_ORDER]:
            return None
        if not self.has_agreement:
            grammar |= {_AGREEMENT: "none", _OBJECT: "never"}
        return None if grammar[_ORDER] == "SVO" else grammar

    def draw_given(self, dice: Dice, rule: Table, stage: Stage) -> Sentence:
        """Return a sentence; the first impression is of sentences without an object."""
        which = stage == "asked"
        subject, second = (
            NounPhrase(
                noun,
                dice.choice(_ADJECTIVES[which]) if dice.chance(0.5) else None,
                dice.chance(0.5),
            )
            for noun in dice.sample(_NOUNS[which], 2)
        )
        return Sentence(
            subject=subject,
            verb=dice.choice(_VERBS[which]),
            object=None if stage == "misleading" else second,
            is_past=dice.chance(0.5),
            is_not=stage != "misleading" and dice.chance(0.5),
        )

    def result(self, rule: Table, given: Sentence) -> Answer:
        """Return the words of the sentence."""
        return tuple(self._spoken(rule, given))

    def decoys(self, rule: Table) -> Sequence[Callable[[Sentence], Answer]]:
        """Return the grammars that differ in the order alone."""
        orders = [order for order in _OPTIONS[_ORDER] if order not in (rule[_ORDER], rule[_NOT_ORDER])]
        return [partial(self.result, {**rule, _ORDER: order, _NOT_ORDER: order}) for order in orders]

    def rival_answers(
        self, shown: Sequence[Demonstration[Sentence]], asked: Sequence[Sentence]
    ) -> frozenset[tuple[Answer, ...]]:
        """Search all grammars."""
        return answers_of_tables(self._spoken, lambda cell, _: _OPTIONS[cell], shown, asked)

    def situation(self) -> str:
        """Return what is told of the language."""
        hidden = [
            "in which order subject, verb and object come (without an object, the two others come in that "
            "order)",
            "whether an adjective comes right before or right after its noun",
            f"how 'many' is marked: by the ending {_MANY_MARKER} of the noun, by the beginning "
            f"{_MANY_MARKER} of the noun, by saying the first two letters of the noun twice, or by the "
            f"separate word {_MANY_MARKER} right after the noun and its adjective",
            f"how 'past' is marked by {_PAST_MARKER}: it is the ending of the verb, the beginning of the "
            "verb, the ending of the first word of the sentence, whatever that is, or the ending of the "
            "last word",
            f"where the separate word {_NOT_MARKER} for 'not' comes: right before the verb, right after the "
            "verb, first in the sentence, or last in the sentence",
        ]
        if self.has_agreement:
            hidden += [
                f"what agrees: nothing; or an adjective, which has the ending {_MANY_MARKER} where its noun "
                f"is many; or the verb, which has the ending {_MANY_MARKER} where the subject is many",
                f"when the noun of the object has the ending {_OBJECT_MARKER}: never, always, only if it is "
                "many, or only if it is not many",
            ]
        if self.has_conditions:
            hidden += [
                "in which order subject, verb and object come in sentences with 'not', which may be another "
                "one",
                "whether the markers that are attached to a word always have the same vowel, or have, as an "
                "ending, the last vowel of the word that they are attached to and, as a beginning, its "
                "first vowel; separate words keep theirs",
            ]
        listed = "\n".join(f"- {part}" for part in hidden)
        return (
            "Sentences of an invented language are given as notes and then as they are spoken. A note lists "
            "the subject (S), the verb (V) and mostly an object (O). In a note, adjectives stand before "
            "their nouns; 'many' says that there are several, 'past' that it has happened, and 'not' that it "
            "is not so. The grammar is hidden and has no exceptions. To be found out "
            f"is:\n{listed}\nIf a word has several endings, those for 'many' come first, then those of "
            "objects, then those for 'past'."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        return (
            "You will be given further notes, with other words. Answer with the words of the spoken "
            "sentence, separated by single spaces."
        )

    def written(self, given: Sentence) -> str:
        """Return the note."""
        verb = ("past " if given.is_past else "") + given.verb
        parts = [f"S: {_noted(given.subject)}", f"V: {'not ' if given.is_not else ''}{verb}"]
        if given.object is not None:
            parts.append(f"O: {_noted(given.object)}")
        return ", ".join(parts)

    def ask(self, given: Sentence) -> str:
        """Return the text of a question."""
        return f"How is this spoken: {self.written(given)} ?"

    def guess(self, given: Sentence) -> Guess:
        """Guess words of the note and markers."""
        phrases = [phrase for phrase in (given.subject, given.object) if phrase is not None]
        words = [word for phrase in phrases for word in (phrase.noun, phrase.adjective) if word is not None]
        markers = (_MANY_MARKER, _PAST_MARKER, _NOT_MARKER)
        return Guess((*words, given.verb, *markers), len(words) + 1, _MOST_WORDS, " ")

    def _spoken(self, grammar: Table, given: Sentence) -> Iterator[str]:
        """Return the words; nothing of the grammar is looked at that does not matter here."""
        order = grammar[_NOT_ORDER if given.is_not and self.has_conditions else _ORDER]
        parts = {"S": self._phrase(grammar, given.subject, False), "V": self._verb_group(grammar, given)}
        if given.object is not None:
            parts["O"] = self._phrase(grammar, given.object, True)
        words = [word for part in order if part in parts for word in parts[part]]
        if given.is_not and grammar[_NOT] in ("first", "last"):
            words.insert(0 if grammar[_NOT] == "first" else len(words), _NOT_MARKER)
        if given.is_past and grammar[_PAST] in ("first word's ending", "last word's ending"):
            at = 0 if grammar[_PAST] == "first word's ending" else -1
            words[at] = self._ended(grammar, words[at], _PAST_MARKER)
        return iter(words)

    def _phrase(self, grammar: Table, phrase: NounPhrase, is_object: bool) -> list[str]:
        noun = phrase.noun
        if phrase.is_many:
            noun = {
                "ending": lambda: self._ended(grammar, noun, _MANY_MARKER),
                "beginning": lambda: self._begun(grammar, noun, _MANY_MARKER),
                "doubled": lambda: noun[:2] + noun,
                "word": lambda: noun,
            }[grammar[_MANY]]()
        if is_object and self.has_agreement:
            marked = grammar[_OBJECT]
            if marked in ("always", "if many" if phrase.is_many else "if not many"):
                noun = self._ended(grammar, noun, _OBJECT_MARKER)
        words = [noun]
        if phrase.adjective is not None:
            adjective = phrase.adjective
            if phrase.is_many and self.has_agreement and grammar[_AGREEMENT] == "adjective":
                adjective = self._ended(grammar, adjective, _MANY_MARKER)
            words.insert(0 if grammar[_ADJECTIVE] == "before" else 1, adjective)
        if phrase.is_many and grammar[_MANY] == "word":
            words.append(_MANY_MARKER)
        return words

    def _verb_group(self, grammar: Table, given: Sentence) -> list[str]:
        verb = given.verb
        if self.has_agreement and given.subject.is_many and grammar[_AGREEMENT] == "verb":
            verb = self._ended(grammar, verb, _MANY_MARKER)
        if given.is_past:
            if grammar[_PAST] == "verb's ending":
                verb = self._ended(grammar, verb, _PAST_MARKER)
            elif grammar[_PAST] == "verb's beginning":
                verb = self._begun(grammar, verb, _PAST_MARKER)
        words = [verb]
        if given.is_not and grammar[_NOT] in ("before verb", "after verb"):
            words.insert(0 if grammar[_NOT] == "before verb" else 1, _NOT_MARKER)
        return words

    def _ended(self, grammar: Table, word: str, marker: str) -> str:
        return word + self._in_harmony(grammar, marker, word[::-1])

    def _begun(self, grammar: Table, word: str, marker: str) -> str:
        return self._in_harmony(grammar, marker, word) + word

    def _in_harmony(self, grammar: Table, marker: str, letters: str) -> str:
        """Return a marker with the first vowel of some letters, if the grammar has it so."""
        if not self.has_conditions or grammar[_HARMONY] == "none":
            return marker
        return marker[0] + next(letter for letter in letters if letter in _VOWELS)


def _noted(phrase: NounPhrase) -> str:
    adjective = "" if phrase.adjective is None else f"{phrase.adjective} "
    return f"{'many ' if phrase.is_many else ''}{adjective}{phrase.noun}"
