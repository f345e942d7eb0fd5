"""What families of concept formation share: one search for the rules that fit, one way to draw a lesson.

The hypothesis space of a level is a table of answers, rules by inputs. Rules that answer every input alike
are one rule. The hidden rule is a row of the table, so the same row gives examples and right answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from generate.contract import Bools
from generate.learning.contract import Guess, Lesson, Question
from generate.learning.dice import Dice
from store.errors import InvalidSource

Answers = NDArray[np.int32]
InputT = TypeVar("InputT")

ACCEPT, REJECT = "ACCEPT", "REJECT"
# a label's place is what a yes-or-no rule says as an integer
LABELS = (REJECT, ACCEPT)
LABEL_FORM = f"The answer to each question is one word, {ACCEPT} or {REJECT}."

_TRIES = 300
# inputs with each label that a hidden rule has to have beyond the questions
_SPARE = 3
# of so many inputs, drawn at random, the most telling one is the next example: first, second and last third
_EXAMPLE_CANDIDATES = (1, 3, 8)
_QUESTION_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class Space:
    """The hypothesis space of one level.

    Attributes
    ----------
    inputs
        Everything that the rules answer, in the family's own form.
    names
        The answers as text.
    answers
        Rules x inputs, places in ``names``; no two rows are alike.
    hidden
        Rules that may be the hidden one, kind by kind: a kind is drawn first, then one of its rules.
    column
        Place of each input in ``inputs``.
    """

    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    answers: Answers
    hidden: tuple[tuple[int, ...], ...]
    column: Mapping[Any, int]


def space_of(
    inputs: Sequence[Any], names: Sequence[str], tables: Mapping[str, Answers | Bools], hidden: Sequence[str]
) -> Space:
    """Return a space, every rule once.

    Parameters
    ----------
    tables
        Rules x inputs of each kind of rule, the simplest kind first: a rule belongs to the first kind that
        states it. Rules that give every input the same answer are left out.
    hidden
        Kinds from which the hidden rule is drawn.

    Raises
    ------
    InvalidSource
        If no rule is of such a kind.
    """
    table = np.concatenate([np.asarray(rows, dtype=np.int32) for rows in tables.values()])
    kinds = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables.values()])
    first: dict[bytes, int] = {}
    for place, row in enumerate(table):
        first.setdefault(row.tobytes(), place)
    kept = np.array(list(first.values()))
    kept = kept[(table[kept] != table[kept, :1]).any(axis=1)]
    of_kind = {kind: np.flatnonzero(kinds[kept] == place).tolist() for place, kind in enumerate(tables)}
    chosen = tuple(tuple(of_kind[kind]) for kind in hidden if of_kind[kind])
    if not chosen:
        raise InvalidSource(f"expected rules of a kind in {', '.join(hidden)}, found none: check the level")
    return Space(
        inputs=tuple(inputs),
        names=tuple(names),
        answers=np.ascontiguousarray(table[kept]),
        hidden=chosen,
        column={value: place for place, value in enumerate(inputs)},
    )


@dataclass(frozen=True, slots=True)
class Places:
    """Which inputs may stand at each place among the examples and among the questions."""

    examples: list[Bools]
    questions: list[Bools]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Examples as inputs and answers, questions as inputs: columns of a space, places in its names."""

    inputs: list[int]
    answers: list[int]
    asked: list[int]


class Concept(BaseModel, ABC, Generic[InputT]):
    """A family of hidden rules at one level.

    Subclasses say which rules there are and how inputs are written.

    Attributes
    ----------
    undecided
        The first examples, one in so many of all, do not yet decide the answers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    undecided: ClassVar[int] = 3

    @property
    def most_wrong(self) -> int:
        """How many of the examples may have a wrong answer."""
        return 0

    @abstractmethod
    def space(self) -> Space:
        """Return the hypothesis space."""

    @abstractmethod
    def introduction(self) -> str:
        """Return the situation, the kinds of rules and the form of an answer."""

    @abstractmethod
    def example(self, given: InputT, answer: str) -> str:
        """Return an example as it is told."""

    @abstractmethod
    def question(self, given: InputT, answer: str) -> Question:
        """Return a question on an input."""

    @abstractmethod
    def places(self, space: Space, rule: int, dice: Dice, n_examples: int, n_questions: int) -> Places | None:
        """Return which inputs may be examples and questions, or None if the rule cannot be the hidden one."""

    def lesson(self, dice: Dice, n_examples: int, n_questions: int) -> Lesson:
        """Return an instance: all examples decide the answers, the first few of them do not.

        Raises
        ------
        InvalidSource
            If the level has no such instance, or hardly any.
        """
        space = _space(self)
        for _ in range(_TRIES):
            rule = dice.choice(dice.choice(space.hidden))
            if (places := self.places(space, rule, dice, n_examples, n_questions)) is None:
                continue
            if (drawn := self._drawn(space, rule, dice, places)) is None:
                continue
            shown = tuple(
                (space.inputs[column], space.names[answer])
                for column, answer in zip(drawn.inputs, drawn.answers, strict=True)
            )
            return Lesson(
                introduction=self.introduction(),
                examples=tuple(self.example(given, answer) for given, answer in shown),
                questions=tuple(
                    self.question(space.inputs[column], space.names[space.answers[rule, column]])
                    for column in drawn.asked
                ),
                shown=shown,
            )
        raise InvalidSource(
            f"{type(self).__name__}({self}): expected an instance with {n_examples} examples and "
            f"{n_questions} questions, found none in {_TRIES} tries; change the level or the numbers"
        )

    def fitting_answers(
        self, shown: Sequence[Any], questions: Sequence[Question]
    ) -> frozenset[tuple[str, ...]]:
        """Return the answers of all rules that fit the examples, wrong ones aside."""
        space = _space(self)
        columns = [space.column[given] for given, _ in shown]
        told = np.array([space.names.index(answer) for _, answer in shown], dtype=np.int32)
        fits = (space.answers[:, columns] != told).sum(axis=1) <= self.most_wrong
        asked = [space.column[question.asked] for question in questions]
        return frozenset(
            tuple(space.names[answer] for answer in row)
            for row in np.unique(space.answers[fits][:, asked], axis=0)
        )

    def _drawn(self, space: Space, rule: int, dice: Dice, places: Places) -> _Drawn | None:
        """Return examples and questions, or None where these do not decide the answers, or do too early."""
        n_examples = len(places.examples)
        truth = space.answers[rule]
        # a wrong label among the last examples would hardly be seen
        early_places = range((2 * n_examples + 2) // 3)
        wrong = dice.sample(early_places, min(self.most_wrong, len(early_places)))
        misses = np.zeros(len(space.answers), dtype=np.int64)
        free = np.ones(len(space.inputs), dtype=np.bool_)
        drawn = _Drawn([], [], [])
        early = space.answers
        for place, allowed in enumerate(places.examples):
            fitting = np.flatnonzero(misses <= self.most_wrong)
            if place == n_examples // self.undecided:
                early = space.answers[fitting]
            candidates = _some(dice, free & allowed, _EXAMPLE_CANDIDATES[3 * place // n_examples])
            if not candidates:
                return None
            n_agree = (space.answers[fitting[:, None], candidates] == truth[candidates]).sum(axis=0)
            chosen = candidates[int(n_agree.argmin())]
            answer = (int(truth[chosen]) + (place in wrong)) % len(space.names)
            misses += space.answers[:, chosen] != answer
            free[chosen] = False
            drawn.inputs.append(chosen)
            drawn.answers.append(answer)

        free &= (space.answers[misses <= self.most_wrong] == truth).all(axis=0)
        doubt = (early != truth).mean(axis=0)
        for allowed in places.questions:
            candidates = _some(dice, free & allowed, _QUESTION_CANDIDATES)
            if not candidates:
                return None
            chosen = max(candidates, key=lambda column: float(doubt[column]))
            free[chosen] = False
            drawn.asked.append(chosen)
        if not doubt[drawn.asked].any():
            return None
        return _Drawn(drawn.inputs, drawn.answers, dice.shuffled(drawn.asked))


class LabelledConcept(Concept[InputT]):
    """A hidden rule that accepts some inputs and rejects the others."""

    @abstractmethod
    def written(self, given: InputT) -> str:
        """Return an input as it is written."""

    def example(self, given: InputT, answer: str) -> str:
        """Return an input and its label."""
        return f"{self.written(given)}: {answer}"

    def question(self, given: InputT, answer: str) -> Question:
        """Return the question which label an input has."""
        return Question(
            # the labels stand in the introduction alone: beside the question, it would be right as it stands
            text=f"{self.written(given)}: ?",
            answer=answer,
            match_kind="substring",
            guess=Guess(symbols=LABELS),
            labels=LABELS,
            asked=given,
        )

    def places(self, space: Space, rule: int, dice: Dice, n_examples: int, n_questions: int) -> Places | None:
        """Return about as many places for either label, as far as the rule has such inputs.

        Of four or more questions, the accepted ones are one fewer, as many or one more than the rejected.
        """
        accepted = space.answers[rule] == LABELS.index(ACCEPT)
        n_accepted, n_rejected = int(accepted.sum()), int((~accepted).sum())
        if min(n_accepted, n_rejected) < n_questions + _SPARE:
            return None
        n_yes = (n_questions + dice.integer(0, 1)) // 2
        if n_questions >= 4:
            n_yes += dice.choice((-1, 0, 0, 1))
        # what the questions may need stays free
        n_shown = n_examples // 2 + dice.integer(-1, 1)
        n_shown = min(max(n_shown, n_examples - (n_rejected - n_questions)), n_accepted - n_questions)
        shown = dice.shuffled([True] * n_shown + [False] * (n_examples - n_shown))
        asked = [True] * n_yes + [False] * (n_questions - n_yes)
        masks = {True: accepted, False: ~accepted}
        return Places([masks[label] for label in shown], [masks[label] for label in asked])


@cache
def _space(concept: Concept[Any]) -> Space:
    return concept.space()


def _some(dice: Dice, which: Bools, n: int) -> list[int]:
    """Return some columns at random, ``n`` or as many as there are."""
    columns = np.flatnonzero(which).tolist()
    return dice.sample(columns, min(n, len(columns)))
