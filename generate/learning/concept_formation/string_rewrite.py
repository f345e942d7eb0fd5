"""Strings of letters that a hidden procedure turns into other strings."""

from collections.abc import Callable, Sequence
from itertools import combinations, permutations, product
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.concept_formation.concepts import Answers, Concept, Places, Space, space_of
from generate.learning.contract import Guess, Question
from generate.learning.dice import Dice
from generate.learning.wording import listed

Step = Callable[[str], str]
Form = Literal["one_step", "two_steps", "by_case"]

_SENTENCES = {
    "one_step": "The procedure is one step.",
    "two_steps": "The procedure is one step, or two steps one after the other; the second works on what the "
    "first has made, and may be the same step again.",
    "by_case": "The procedure is one step for strings that meet a certain condition and another step for all "
    "other strings. The condition is that the string begins with a certain letter, or ends with a certain "
    "letter, or contains a certain letter, or begins and ends with the same letter.",
}
_STEPS = (
    "reverse the string",
    "move the first letter to the end",
    "move the last letter to the front",
    "exchange the first and the last letter",
    "write the first letter twice",
    "write the last letter twice",
    "drop the first letter",
    "drop the last letter",
    "write the whole string twice",
    "put a certain letter in front",
    "put a certain letter at the end",
    "write every occurrence of a certain letter twice",
    "drop every occurrence of a certain letter",
    "turn every occurrence of a certain letter into a certain other letter",
    "exchange two certain letters throughout, each for the other",
)


class StringRewrite(Concept[str]):
    """A hidden procedure of one step, of two, or of two that depend on the string.

    Attributes
    ----------
    letters
        The letters of which strings consist.
    lengths
        How long the given strings may be, in letters.
    form
        How steps make a procedure.
    """

    letters: Annotated[str, Field(min_length=2, max_length=6)]
    lengths: Annotated[tuple[int, ...], Field(min_length=1)]
    form: Form

    undecided: ClassVar[int] = 6

    def space(self) -> Space:
        """Return all procedures of this form, in the order in which simpler ones come first."""
        inputs = ["".join(letters) for n in self.lengths for letters in product(self.letters, repeat=n)]
        book = _Book()
        steps = _steps(self.letters)
        one = book.table(steps, inputs)
        tables = {"one_step": one}
        if self.form == "two_steps":
            made = np.unique(one)
            then = book.table(steps, [book.names[place] for place in made])
            tables["two_steps"] = then[:, np.searchsorted(made, one)].reshape(-1, len(inputs))
        if self.form == "by_case":
            yes, no = np.array(list(permutations(range(len(one)), 2))).T
            cases = _cases(self.letters, inputs)
            tables["by_case"] = np.concatenate([np.where(case, one[yes], one[no]) for case in cases])
        return space_of(inputs, [_spaced(string) for string in book.names], tables, [self.form])

    def introduction(self) -> str:
        """Return the strings, the steps and how they make a procedure."""
        lengths = listed([str(length) for length in self.lengths], "or")
        steps = "\n".join(f"- {step}" for step in _STEPS)
        return (
            "A hidden procedure, which never changes, turns strings into strings. You are shown strings of "
            f"{lengths} letters, each of them {listed(self.letters, 'or')}, with what the procedure makes of "
            "them.\n"
            f"{_SENTENCES[self.form]} The steps that there are:\n{steps}\n"
            "The answer to each question is the string that the procedure makes. Write its letters "
            "separated by spaces and nothing else."
        )

    def example(self, given: str, answer: str) -> str:
        """Return a string and what becomes of it."""
        return f"{_spaced(given)} -> {answer}"

    def question(self, given: str, answer: str) -> Question:
        """Return the question what becomes of a string."""
        return Question(
            text=f"{_spaced(given)} -> ?",
            answer=answer,
            match_kind="sequence",
            guess=Guess(
                symbols=tuple(self.letters),
                min_length=min(self.lengths),
                max_length=max(self.lengths),
                separator=" ",
            ),
            asked=given,
        )

    def places(self, space: Space, rule: int, dice: Dice, n_examples: int, n_questions: int) -> Places:
        """Return strings of which something is left, for questions only those that change."""
        made = [space.names[place] for place in space.answers[rule]]
        told = np.array([bool(string) for string in made])
        changed = [string != _spaced(given) for string, given in zip(made, space.inputs, strict=True)]
        return Places([told] * n_examples, [told & changed] * n_questions)


class _Book:
    """Strings, each with the number under which it was first written down."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def table(self, steps: Sequence[Step], strings: Sequence[str]) -> Answers:
        """Return what each step makes of each string, steps x strings."""
        numbers = self._numbers
        return np.array(
            [[numbers.setdefault(step(string), len(numbers)) for string in strings] for step in steps],
            dtype=np.int32,
        )


def _steps(letters: str) -> list[Step]:
    """Return the steps that ``_STEPS`` names, with every letter that may be meant."""
    whole: list[Step] = [
        lambda s: s[::-1],
        lambda s: s[1:] + s[:1],
        lambda s: s[-1:] + s[:-1],
        lambda s: s[-1:] + s[1:-1] + s[:1] if len(s) > 1 else s,
        lambda s: s[:1] + s,
        lambda s: s + s[-1:],
        lambda s: s[1:],
        lambda s: s[:-1],
        lambda s: s + s,
    ]
    of_one = [step for letter in letters for step in _steps_with(letter)]
    turned = [_translation(x, y) for x, y in permutations(letters, 2)]
    exchanged = [_translation(x + y, y + x) for x, y in combinations(letters, 2)]
    return whole + of_one + turned + exchanged


def _steps_with(letter: str) -> list[Step]:
    return [
        lambda s: letter + s,
        lambda s: s + letter,
        lambda s: s.replace(letter, letter + letter),
        lambda s: s.replace(letter, ""),
    ]


def _translation(old: str, new: str) -> Step:
    table = str.maketrans(old, new)
    return lambda s: s.translate(table)


def _cases(letters: str, strings: Sequence[str]) -> Bools:
    """Return the conditions on a string, conditions x strings."""
    return np.array(
        [
            *([string[0] == x for string in strings] for x in letters),
            *([string[-1] == x for string in strings] for x in letters),
            *([x in string for string in strings] for x in letters),
            [string[0] == string[-1] for string in strings],
        ]
    )


def _spaced(string: str) -> str:
    return " ".join(string)
