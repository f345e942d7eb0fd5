"""How a language becomes a lesson: examples, questions on new roots, and a search for rules that fit."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from generate.learning.contract import Guess, Lesson, Question
from generate.learning.dice import Dice
from generate.learning.language_learning.words import sounds
from store.errors import InvalidSource

_MAX_DRAWS = 200

CLOSING = (
    "The same rules hold for all roots of the language; there are no exceptions. A question gives a root "
    "that you have not seen and ends in `?`. Its answer is the form that stands in place of the `?`: one "
    "word, with every letter and every mark, and nothing else."
)


class Asked(Protocol):
    """What a family asks the form of."""

    @property
    def text(self) -> str:
        """The cue as it is printed, in one line."""
        ...

    @property
    def bare(self) -> str:
        """What one answers who changes nothing."""
        ...


CueT = TypeVar("CueT", bound=Asked)


@dataclass(frozen=True, slots=True)
class Example(Generic[CueT]):
    """A cue with its form."""

    cue: CueT
    form: str


@dataclass(frozen=True, slots=True)
class Draft(Generic[CueT]):
    """A language that was drawn, and what is to be shown and asked of it.

    Attributes
    ----------
    introduction
        What is told of the language; how an answer is written is added to it.
    symbols
        The sounds of its words, as one who knows none of its rules would write them.
    form
        The rule.
    """

    introduction: str
    symbols: tuple[str, ...]
    shown: tuple[CueT, ...]
    asked: tuple[CueT, ...]
    form: Callable[[CueT], str]


class Language(BaseModel, ABC, Generic[CueT]):
    """A family of languages. Its fields are the constants of one level."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def draft(self, dice: Dice, n_examples: int, n_questions: int) -> Draft[CueT]:
        """Draw a language with examples and questions that cover its conditions."""

    @abstractmethod
    def answers(self, shown: Sequence[Example[CueT]], asked: Sequence[CueT]) -> Iterator[tuple[str, ...]]:
        """Yield the forms of all cues asked under each rule that gives every form shown."""

    def lesson(self, dice: Dice, n_examples: int, n_questions: int) -> Lesson:
        """Return an instance: with all examples known, every rule that fits gives the same answers."""
        for attempt in range(_MAX_DRAWS):
            draft = self.draft(dice.named("language", attempt), n_examples, n_questions)
            shown = tuple(Example(cue, draft.form(cue)) for cue in draft.shown)
            right = tuple(draft.form(cue) for cue in draft.asked)
            texts = [cue.text for cue in (*draft.shown, *draft.asked)]
            is_bare = any(form == cue.bare for cue, form in zip(draft.asked, right, strict=True))
            if is_bare or len(set(texts)) < len(texts):
                continue
            lengths = [len(sounds(form)) for form in (*right, *(example.form for example in shown))]
            guess = Guess(draft.symbols, min(lengths), max(lengths))
            questions = tuple(
                Question(f"{cue.text} -> ?", form, "exact_nfc", guess, asked=cue)
                for cue, form in zip(draft.asked, right, strict=True)
            )
            # settled by two thirds of the examples, so that who asks for them never needs the very last
            if self.fitting_answers(shown[: ceil(n_examples * 2 / 3)], questions) == {right}:
                return Lesson(
                    introduction=f"{draft.introduction}\n\n{CLOSING}",
                    examples=tuple(f"{example.cue.text} -> `{example.form}`" for example in shown),
                    questions=questions,
                    shown=shown,
                )
        raise InvalidSource(
            f"{type(self).__name__}({self!s}): expected {n_examples} examples that settle {n_questions} "
            f"questions, found none in {_MAX_DRAWS} draws; raise max_examples in manifests/learning_tasks.csv"
        )

    def fitting_answers(
        self, shown: Sequence[Any], questions: Sequence[Question]
    ) -> frozenset[tuple[str, ...]]:
        """Return what the rules that give every form shown answer, at most two different tuples."""
        found: set[tuple[str, ...]] = set()
        for answers in self.answers(shown, [question.asked for question in questions]):
            found.add(answers)
            if len(found) == 2:
                break
        return frozenset(found)
