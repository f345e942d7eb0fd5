"""Agreement: affixes of a verb follow the class and the number of its subject or object."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import ANIMALS, PERSONS, THINGS, TRANSITIVES, VERBS
from generate.learning.language_learning.lessons import Draft, Example, Language
from generate.learning.language_learning.morphemes import Morphemes, answers, has_vowel, splits
from generate.learning.language_learning.patterns import OUTLINES
from generate.learning.language_learning.words import (
    PLAIN_VOWELS,
    Vocabulary,
    affixes,
    consonants,
    listed,
    spell,
    spread,
)

# from the highest rank to the lowest
_KINDS = ("person", "animal", "thing")
_MEANINGS = dict(zip(_KINDS, (PERSONS, ANIMALS, THINGS), strict=True))
_NUMBERS = ("SINGULAR", "PLURAL")


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun with its meaning, what kind of being it names, and its number."""

    root: str
    gloss: str
    kind: str
    number: str

    @property
    def text(self) -> str:
        """The noun as it is printed."""
        return f"`{self.root}` '{self.gloss}', {self.number}"


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb with its subject and, unless it has none, its object."""

    root: str
    gloss: str
    subject: Noun
    object: Noun | None

    @property
    def text(self) -> str:
        """The clause as it is printed."""
        object_ = f"; object {self.object.text}" if self.object else ""
        return f"`{self.root}` '{self.gloss}' (subject {self.subject.text}{object_})"

    @property
    def bare(self) -> str:
        """The verb as it stands."""
        return self.root


def _sounds(holds: Callable[[str], bool], noun: Noun) -> str:
    return str(holds(noun.root))


# what decides the class of a noun
_BASES: Mapping[str, Callable[[Noun], str]] = {
    "person, animal or thing": lambda noun: noun.kind,
    "person or not": lambda noun: str(noun.kind == "person"),
    "thing or not": lambda noun: str(noun.kind == "thing"),
    **{told: partial(_sounds, holds) for told, holds in OUTLINES.items()},
}


def _higher(clause: Clause) -> Noun:
    if clause.object and _KINDS.index(clause.object.kind) < _KINDS.index(clause.subject.kind):
        return clause.object
    return clause.subject


def _plural(clause: Clause) -> Noun:
    is_object = clause.object and clause.subject.number == "SINGULAR" and clause.object.number == "PLURAL"
    return clause.object if clause.object and is_object else clause.subject


# with which of its nouns a verb agrees
_CONTROLLERS: Mapping[str, Callable[[Clause], Noun]] = {
    "subject": lambda clause: clause.subject,
    "object": lambda clause: clause.object or clause.subject,
    "higher": _higher,
    "plural": _plural,
}
# where the affixes of class and number stand; of two on one side, the first named is next to the verb
_ORDERS = (
    "class-",
    "-class",
    "class-number",
    "number-class",
    "-class-number",
    "-number-class",
    "class-number-",
    "number-class-",
)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What decides the class, with which noun the class and the number agree, and where the affixes stand.

    In the orders ``class-`` and ``-class`` one affix marks class and number together, before or after.
    """

    base: str
    class_from: str
    number_from: str
    order: str

    def needs(self, cue: Clause) -> Sequence[str]:
        of_class = _BASES[self.base](_CONTROLLERS[self.class_from](cue))
        number = _CONTROLLERS[self.number_from](cue).number
        if self.order in ("class-", "-class"):
            return (f"{of_class} {number}",)
        return (of_class, number)

    def form(self, cue: Clause, morphemes: Morphemes) -> str:
        before, after = self._sides(self.needs(cue))
        return "".join((*(morphemes[n] for n in before), cue.root, *(morphemes[n] for n in after)))

    def readings(self, cue: Clause, form: str, morphemes: Morphemes) -> Iterator[Morphemes]:
        before, after = self._sides(self.needs(cue))
        start = form.find(cue.root)
        while start >= 0:
            heads = self._pieces(form[:start], len(before))
            tails = self._pieces(form[start + len(cue.root) :], len(after))
            for head, tail in product(heads, tails):
                found = dict(zip((*before, *after), (*head, *tail), strict=True))
                if all(morphemes.get(name, piece) == piece for name, piece in found.items()):
                    yield {**morphemes, **found}
            start = form.find(cue.root, start + 1)

    def strangers(self, name: str) -> tuple[str, str]:
        return "ka", "ta"

    def _sides(self, names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the affixes before and after the verb, from left to right."""
        if len(names) == 1:
            return (names, ()) if self.order == "class-" else ((), names)
        of_class, number = names
        return {
            "class-number": ((of_class,), (number,)),
            "number-class": ((number,), (of_class,)),
            "-class-number": ((), (of_class, number)),
            "-number-class": ((), (number, of_class)),
            "class-number-": ((of_class, number), ()),
            "number-class-": ((number, of_class), ()),
        }[self.order]

    @staticmethod
    def _pieces(text: str, n: int) -> Sequence[tuple[str, ...]]:
        if n == 0:
            return () if text else ((),)
        return splits(text, n) if has_vowel(text) else ()


class Agreement(Language[Clause]):
    """Agreement.

    Attributes
    ----------
    has_object
        Whether a verb has an object, so that what it agrees with is hidden.
    is_split
        Whether class and number have an affix each and may follow different nouns.
    """

    has_object: bool
    is_split: bool

    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[Clause]:
        """Draw a language with examples and questions that cover its conditions."""
        letters = consonants(dice, 11, needed="mrtdsk")
        setting = dice.choice(self._settings())
        kinds = [(kind, number) for kind in _KINDS for number in _NUMBERS]
        verbs = Vocabulary(
            dice,
            lambda d: spell(d, d.choice(("CVCVC", "CVCCVC", "CVCVCVC")), letters, PLAIN_VOWELS),
            TRANSITIVES if self.has_object else VERBS,
        )
        shapes = ("CVCVC", "CVCV", "VCVC", "VCV", "CVCVCVC", "CVCVCV", "VCVCVC", "VCVCV")
        used: set[str] = set()
        nouns = {
            kind: Vocabulary(dice, lambda d: spell(d, d.choice(shapes), letters, PLAIN_VOWELS), glosses)
            for kind, glosses in _MEANINGS.items()
        }

        def noun(kind: str, number: str) -> Noun:
            root, gloss = nouns[kind].draw(lambda root: root not in used)
            used.add(root)
            return Noun(root, gloss, kind, number)

        def clauses(n: int) -> tuple[Clause, ...]:
            subjects, objects = spread(dice, kinds, n), spread(dice, kinds, n)
            return tuple(
                Clause(
                    *verbs.draw(lambda _: True),
                    noun(*kinds[subject]),
                    noun(*kinds[object_]) if self.has_object else None,
                )
                for subject, object_ in zip(subjects, objects, strict=True)
            )

        shown, asked = clauses(n_examples), clauses(n_questions)
        names = sorted({name for cue in (*shown, *asked) for name in setting.needs(cue)})
        found = affixes(dice, len(names), ("V", "CV", "VC", "CVC"), letters, PLAIN_VOWELS)
        morphemes = dict(zip(names, found, strict=True))
        told = (
            "You learn an invented language. Each example gives the root of a verb between backticks with "
            f"its meaning, its subject{' and its object' if self.has_object else ''}, and after `->` the "
            f"form of the verb. Its words are written with the consonants {listed(letters)} and the vowels "
            f"{listed(PLAIN_VOWELS)}. A noun names a person, an animal or a thing; it is always written as "
            "in the singular. What is said need not make sense. "
        )
        told += (
            "The verb has two affixes, before or after its root: one for the class of a noun, one for the "
            "number of a noun, which need not be the same noun."
            if self.is_split
            else "The verb has one affix, always before or always after its root, for the class "
            "and the number of a noun together."
        )
        told += (
            " A noun belongs to a class by its meaning (person, animal or thing; person or not; thing or "
            "not) or by its sounds (whether it begins with a vowel; whether it ends in a vowel; whether it "
            "has more than two vowels; whether its last vowel is `e` or `i`). All nouns of the language are "
            "classed in the same way."
        )
        if self.has_object:
            told += (
                " What an affix follows may be always the subject, always the object, the noun of higher "
                "rank (persons before animals before things; of equals the subject), or the plural one (if "
                "both or neither are plural, the subject)."
            )
        return Draft(told, (*letters, *PLAIN_VOWELS), shown, asked, lambda cue: setting.form(cue, morphemes))

    def answers(self, shown: Sequence[Example[Clause]], asked: Sequence[Clause]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""
        return answers(self._settings(), shown, asked)

    def _settings(self) -> list[_Setting]:
        controllers = tuple(_CONTROLLERS) if self.has_object else ("subject",)
        return [
            _Setting(base, class_from, number_from, order)
            for base, class_from, number_from in product(_BASES, controllers, controllers)
            for order in (_ORDERS[2:] if self.is_split else _ORDERS[:2])
            if self.is_split or class_from == number_from
        ]
