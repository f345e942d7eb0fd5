"""A stack machine whose words have hidden meanings."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from generate.learning.contract import Guess, MatchKind
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import (
    Answer,
    Demonstration,
    HiddenProcess,
    Span,
    Stage,
)
from generate.learning.observational_learning.search import Refuted, Table, answers_of_tables

Program = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a word may do with the topmost numbers, of which the last is on top."""

    told: str
    n_taken: int
    gives: Callable[..., tuple[int, ...]]


_WORDS = ("zub", "kel", "mip", "dor", "fay", "wex")
_OPERATIONS = (
    Operation("replace the two topmost numbers by their sum", 2, lambda x, y: (x + y,)),
    Operation("replace the two topmost numbers by their product", 2, lambda x, y: (x * y,)),
    Operation(
        "replace the two topmost numbers by the second from the top minus the top one",
        2,
        lambda x, y: (x - y,),
    ),
    Operation("replace the two topmost numbers by the larger of them", 2, lambda x, y: (max(x, y),)),
    Operation("replace the two topmost numbers by the smaller of them", 2, lambda x, y: (min(x, y),)),
    Operation("put another copy of the top number on top", 1, lambda x: (x, x)),
    Operation("exchange the two topmost numbers", 2, lambda x, y: (y, x)),
    Operation("remove the top number", 1, lambda _: ()),
    Operation(
        "replace the two topmost numbers by the top one minus the second from the top",
        2,
        lambda x, y: (y - x,),
    ),
    Operation("change the sign of the top number", 1, lambda x: (-x,)),
    Operation("put a copy of the second number from the top on top", 2, lambda x, y: (x, y, x)),
    Operation("remove the second number from the top", 2, lambda x, y: (y,)),
    Operation("move the third number from the top to the top", 3, lambda x, y, z: (y, z, x)),
    Operation("move the top number below the two under it", 3, lambda x, y, z: (z, x, y)),
    Operation("double the top number", 1, lambda x: (2 * x,)),
    Operation("add one to the top number", 1, lambda x: (x + 1,)),
)
_MOST_TAKEN = 3
_LARGEST = 99


@dataclass(frozen=True, slots=True)
class Meanings:
    """What each word does, by its number; the word that the first demonstrations are about."""

    operations: Table
    misleading_word: str


class StackMachine(HiddenProcess[Meanings, Program]):
    """Programs of numbers and words; each word does one of a list of things, no two of them the same.

    Attributes
    ----------
    n_words
        Words whose meaning is hidden.
    n_operations
        Things that a word may do.
    shows_top_alone
        Whether the number on top is all that is seen at the end.
    shown_lengths, asked_lengths
        Words in the programs that tell, and in those that are asked for.
    """

    n_words: Annotated[int, Field(strict=True, ge=2, le=len(_WORDS))]
    n_operations: Annotated[int, Field(strict=True, ge=6, le=len(_OPERATIONS))]
    shows_top_alone: bool
    shown_lengths: Span
    asked_lengths: Span

    @property
    def match_kind(self) -> MatchKind:
        """Answers are one number or a whole stack."""
        return "integer" if self.shows_top_alone else "sequence"

    def draw_rule(self, dice: Dice) -> Meanings:
        """Return the meanings of the words."""
        words = _WORDS[: self.n_words]
        operations: dict[Any, Any] = dict(
            zip(words, dice.sample(range(self.n_operations), self.n_words), strict=True)
        )
        return Meanings(operations, dice.choice(words))

    def draw_given(self, dice: Dice, rule: Meanings, stage: Stage) -> Program:
        """Return a program that never asks for more numbers than there are."""
        if stage == "misleading":
            # small numbers make operations look alike
            return (*(dice.integer(0, 3) for _ in range(_MOST_TAKEN)), rule.misleading_word)
        lengths = self.shown_lengths if stage == "telling" else self.asked_lengths
        n_left = dice.integer(*lengths)
        program: list[int | str] = [dice.integer(1, 9), dice.integer(1, 9)]
        depth = 2
        while n_left:
            word = dice.choice(_WORDS[: self.n_words])
            operation = _OPERATIONS[rule.operations[word]]
            if depth < operation.n_taken or (depth > 2 and dice.chance(0.2)) or dice.chance(0.2):
                program.append(dice.integer(1, 9))
                depth += 1
                continue
            program.append(word)
            depth += len(operation.gives(*range(operation.n_taken))) - operation.n_taken
            n_left -= 1
        return tuple(program)

    def result(self, rule: Meanings, given: Program) -> Answer:
        """Return the stack at the end, from the bottom, or its top."""
        return tuple(self._run(rule.operations, given))

    def decoys(self, rule: Meanings) -> Sequence[Callable[[Program], Answer]]:
        """Return the other meanings that the word of the first demonstrations might have."""
        word = rule.misleading_word
        return [
            partial(self._result_or_nothing, {**rule.operations, word: other})
            for other in range(self.n_operations)
            if other != rule.operations[word]
        ]

    def rival_answers(
        self, shown: Sequence[Demonstration[Program]], asked: Sequence[Program]
    ) -> frozenset[tuple[Answer, ...]]:
        """Search all meanings, deciding that of a word when it is first met."""
        # few words leave few meanings to try, and what they settle need not be tried later
        by_words = sorted(shown, key=lambda one: len(self.parts(one.given)))
        return answers_of_tables(self._run, self._options, by_words, asked)

    def situation(self) -> str:
        """Return what is told of the machine."""
        words = ", ".join(_WORDS[: self.n_words])
        things = "\n".join(f"- {operation.told}" for operation in _OPERATIONS[: self.n_operations])
        seen = "the number on top" if self.shows_top_alone else "the whole stack, from the bottom to the top"
        return (
            "A machine keeps a stack of numbers, which is empty at first. It reads a program from left to "
            f"right. A number is put on top of the stack. A word ({words}) does something with the topmost "
            "numbers. What each word does is hidden; it is always the same, no two words do the same, and "
            f"each does one of these things:\n{things}\nNo program here asks a word for more numbers than "
            f"there are. At the end the machine shows {seen}."
        )

    def form(self) -> str:
        """Return how an answer is written."""
        if self.shows_top_alone:
            answer = "one number"
        else:
            answer = "all numbers of the stack, from the bottom to the top, separated by single spaces"
        return (
            f"You will be asked what the machine shows at the end of further programs. Answer with {answer}."
        )

    def written(self, given: Program) -> str:
        """Return the program."""
        return " ".join(map(str, given))

    def ask(self, given: Program) -> str:
        """Return the text of a question."""
        return f"What does the machine show at the end of {self.written(given)} ?"

    def guess(self, given: Program) -> Guess:
        """Guess one number, or up to as many as the program names."""
        numbers = tuple(map(str, range(-9, 31)))
        n_named = sum(isinstance(token, int) for token in given)
        return Guess(numbers, 1, 1 if self.shows_top_alone else n_named, " ")

    def parts(self, given: Program) -> frozenset[Hashable]:
        """Return the words of a program."""
        return frozenset(token for token in given if isinstance(token, str))

    def is_worth(self, stage: Stage, given: Program, result: Answer) -> bool:
        """Leave out programs whose last stack is empty or has large numbers."""
        return bool(result) and all(abs(int(number)) <= _LARGEST for number in result)

    def _options(self, cell: str, decided: Table) -> Sequence[int]:
        return [number for number in range(self.n_operations) if number not in decided.values()]

    def _result_or_nothing(self, operations: Table, given: Program) -> Answer:
        try:
            return tuple(self._run(operations, given))
        except Refuted:
            return ()

    def _run(self, operations: Table, given: Program) -> Iterator[str]:
        stack: list[int] = []
        for token in given:
            if isinstance(token, int):
                stack.append(token)
                continue
            operation = _OPERATIONS[operations[token]]
            below = len(stack) - operation.n_taken
            if below < 0:
                raise Refuted
            stack[below:] = operation.gives(*stack[below:])
        return map(str, stack[-1:] if self.shows_top_alone else stack)
