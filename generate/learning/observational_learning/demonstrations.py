"""What families of observational learning share: a hidden process, demonstrations of it, inputs that are new.

The first demonstrations mislead: a simpler process, the decoy, explains them just as well. The others refute
it, and it is wrong on every question, so that who stops at the first impression gets nothing right.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from generate.learning.contract import Guess, MatchKind, Question, Sheet
from generate.learning.dice import Dice
from store.errors import InvalidSource

# so many demonstrations at the start have a simpler explanation
N_MISLEADING = 3

# an instance for which so many inputs do not do is given up, and a level after so many instances
_MAX_INPUTS = 120
_MAX_INSTANCES = 500

RuleT = TypeVar("RuleT")
GivenT = TypeVar("GivenT", bound=Hashable)

Answer = tuple[str, ...]
Stage = Literal["misleading", "telling", "asked"]

_Positive = Annotated[int, Field(strict=True, ge=1)]


def _rising(span: tuple[int, int]) -> tuple[int, int]:
    if span[0] > span[1]:
        raise ValueError(f"expected the smallest value and then the largest, found {span[0]} and {span[1]}")
    return span


# a smallest and a largest value, both included
Span = Annotated[tuple[_Positive, _Positive], AfterValidator(_rising)]


@dataclass(frozen=True, slots=True)
class Demonstration(Generic[GivenT]):
    """One input of the hidden process, and what came out, element by element."""

    given: GivenT
    result: Answer


class HiddenProcess(BaseModel, ABC, Generic[RuleT, GivenT]):
    """Instances of a process that is hidden; one rule of it computes the demonstrations and the answers.

    Attributes
    ----------
    n_demonstrations
        Demonstrations in all, the misleading ones included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_demonstrations: Annotated[int, Field(strict=True, gt=N_MISLEADING)]

    @property
    def match_kind(self) -> MatchKind:
        """How answers are compared."""
        return "sequence"

    @abstractmethod
    def draw_rule(self, dice: Dice) -> RuleT | None:
        """Return a hidden rule, or None where what was drawn is too plain to be asked."""

    @abstractmethod
    def draw_given(self, dice: Dice, rule: RuleT, stage: Stage) -> GivenT:
        """Return an input of which a demonstration or a question can be made."""

    @abstractmethod
    def result(self, rule: RuleT, given: GivenT) -> Answer:
        """Return what the hidden process makes of an input."""

    @abstractmethod
    def decoys(self, rule: RuleT) -> Sequence[Callable[[GivenT], Answer]]:
        """Return simpler processes, one of which has to explain all misleading demonstrations."""

    @abstractmethod
    def rival_answers(
        self, shown: Sequence[Demonstration[GivenT]], asked: Sequence[GivenT]
    ) -> frozenset[tuple[Answer, ...]]:
        """Return the answers of all rules of the hypothesis space that fit; the search may stop at two."""

    @abstractmethod
    def situation(self) -> str:
        """Return what the reader is told of the process: which rules are possible, never which one it is."""

    @abstractmethod
    def form(self) -> str:
        """Return how an answer is written."""

    @abstractmethod
    def written(self, given: GivenT) -> str:
        """Return an input as a demonstration shows it."""

    @abstractmethod
    def ask(self, given: GivenT) -> str:
        """Return the text of a question."""

    @abstractmethod
    def guess(self, given: GivenT) -> Guess:
        """Return how one guesses who knows the form of the answer alone."""

    def pattern(self, given: GivenT) -> Hashable:
        """Return what an input is, for the process: two with the same pattern are not both used."""
        return given

    def parts(self, given: GivenT) -> frozenset[Hashable]:
        """Return the parts of an input with hidden meanings: no question has one that is never shown."""
        return frozenset()

    def is_worth(self, stage: Stage, given: GivenT, result: Answer) -> bool:
        """Return whether a demonstration or a question can be made of an input."""
        return bool(result)

    def sheet(self, dice: Dice, n_questions: int) -> Sheet:
        """Return an instance whose demonstrations leave one answer to every question.

        Raises
        ------
        InvalidSource
            If the constants of the level allow none.
        """
        for _ in range(_MAX_INSTANCES):
            sheet = self._drawn(dice, n_questions)
            if sheet is not None:
                return sheet
        raise InvalidSource(
            f"expected an instance with {n_questions} questions that its demonstrations decide, found none "
            f"in {_MAX_INSTANCES} draws with {type(self).__name__}({self!s}): change the constants of its "
            "level"
        )

    def fitting_answers(
        self, shown: Sequence[Demonstration[GivenT]], questions: Sequence[Question]
    ) -> frozenset[tuple[str, ...]]:
        """Return the answers that the rules of the hypothesis space give which fit all that is shown."""
        rivals = self.rival_answers(shown, [question.asked for question in questions])
        return frozenset(tuple(map(_joined, answers)) for answers in rivals)

    def _drawn(self, dice: Dice, n_questions: int) -> Sheet | None:
        """Return an instance, or None where what was drawn makes none."""
        rule = self.draw_rule(dice)
        misled = None if rule is None else self._mislead(dice, rule)
        if rule is None or misled is None:
            return None
        decoy, misleading = misled
        used = {self.pattern(one.given) for one in misleading}
        telling = self._new(dice, rule, "telling", self.n_demonstrations - N_MISLEADING, used, None)
        asked = self._new(dice, rule, "asked", n_questions, used, decoy)
        if telling is None or asked is None or all(decoy(one.given) == one.result for one in telling):
            return None
        shown = (*misleading, *telling)
        if not self._parts_of(asked) <= self._parts_of(shown):
            return None
        answers = tuple(one.result for one in asked)
        if self.rival_answers(shown, [one.given for one in asked]) != {answers}:
            return None
        return Sheet(self._told(shown), tuple(map(self._question, asked)), shown)

    def _mislead(
        self, dice: Dice, rule: RuleT
    ) -> tuple[Callable[[GivenT], Answer], tuple[Demonstration[GivenT], ...]] | None:
        """Return a decoy and the demonstrations that it explains."""
        explained: list[tuple[Callable[[GivenT], Answer], dict[Hashable, Demonstration[GivenT]]]] = [
            (decoy, {}) for decoy in self.decoys(rule)
        ]
        for _ in range(_MAX_INPUTS):
            given = self.draw_given(dice, rule, "misleading")
            result = self.result(rule, given)
            if not self.is_worth("misleading", given, result):
                continue
            for decoy, found in explained:
                if decoy(given) == result:
                    found.setdefault(self.pattern(given), Demonstration(given, result))
                if len(found) == N_MISLEADING:
                    return decoy, tuple(found.values())
        return None

    def _new(
        self,
        dice: Dice,
        rule: RuleT,
        stage: Stage,
        n: int,
        used: set[Hashable],
        decoy: Callable[[GivenT], Answer] | None,
    ) -> list[Demonstration[GivenT]] | None:
        """Return inputs with patterns that are new; with a decoy, such that it errs and answers differ."""
        new: list[Demonstration[GivenT]] = []
        n_alike: Counter[Answer] = Counter()
        for _ in range(_MAX_INPUTS):
            given = self.draw_given(dice, rule, stage)
            pattern = self.pattern(given)
            result = self.result(rule, given)
            if pattern in used or not self.is_worth(stage, given, result):
                continue
            # one string written as the answer to everything is right in a quarter at most
            if decoy is not None and (decoy(given) == result or n_alike[result] >= (n + 3) // 4):
                continue
            used.add(pattern)
            n_alike[result] += 1
            new.append(Demonstration(given, result))
            if len(new) == n:
                return new
        return None

    def _parts_of(self, demonstrations: Iterable[Demonstration[GivenT]]) -> frozenset[Hashable]:
        return frozenset().union(*(self.parts(one.given) for one in demonstrations))

    def _told(self, shown: Iterable[Demonstration[GivenT]]) -> str:
        lines = (f"{self.written(one.given)} -> {_joined(one.result)}" for one in shown)
        return "\n\n".join((self.situation(), "\n".join(("Demonstrations:", *lines)), self.form()))

    def _question(self, asked: Demonstration[GivenT]) -> Question:
        return Question(
            text=self.ask(asked.given),
            answer=_joined(asked.result),
            match_kind=self.match_kind,
            guess=self.guess(asked.given),
            asked=asked.given,
        )


def _joined(elements: Answer) -> str:
    return " ".join(elements)
