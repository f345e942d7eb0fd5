"""Examples are asked for until the reader is ready for a test: concept formation and language learning.

A reply is read as :mod:`generate.reading` says: it names MORE or READY, as a whole word and not both. Whoever
has not begun the test after one reply more than there are examples is given it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from generate.contract import Bools, Ints
from generate.learning.contract import Lesson, Question
from generate.learning.dialogues import exam
from generate.learning.dialogues.contract import Turns
from generate.learning.dice import Dice
from generate.reading import read_option
from store.learning_tasks import Task
from store.prompts import load_template

_TEMPLATE = "learning_active_request"
TEMPLATES = (_TEMPLATE, exam.TEMPLATE)

MORE, READY = "MORE", "READY"


@dataclass(frozen=True, slots=True)
class _State:
    """Where the lanes stand.

    Attributes
    ----------
    messages
        What is told now; None where the lane is over.
    n_shown, n_replies
        Examples that were given, and replies before the test.
    is_tested
        Lanes whose message is the test.
    """

    messages: tuple[str | None, ...]
    n_shown: Ints
    n_replies: Ints
    is_tested: Bools


class ActiveRequest:
    """Lessons, one per lane."""

    n_best = None

    def __init__(self, task: Task, lessons: Sequence[Lesson]) -> None:
        self._lessons = lessons
        self._n_initial = min(task.of_play("initial_examples"), task.of_play("max_examples"))
        self._n_most = task.of_play("max_examples")
        self._template, self._exam = load_template(_TEMPLATE), load_template(exam.TEMPLATE)
        self.questions: Sequence[tuple[Question, ...]] = [lesson.questions for lesson in lessons]
        self.texts: Sequence[Sequence[str]] = [(one.introduction, *one.examples) for one in lessons]

    def start(self) -> _State:
        """Return the state in which the first examples are shown."""
        n = len(self._lessons)
        return _State(
            tuple(self._opening(lesson) for lesson in self._lessons),
            np.full(n, self._n_initial),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.bool_),
        )

    def messages(self, state: _State) -> Sequence[str | None]:
        """Return what each lane is told now."""
        return state.messages

    def step(self, state: _State, replies: Sequence[str | None]) -> tuple[_State, Turns]:
        """Give an example, begin the test, or take its answers."""
        turns = Turns.blank(len(replies))
        messages = list(state.messages)
        n_shown, n_replies = state.n_shown.copy(), state.n_replies.copy()
        is_tested = state.is_tested.copy()
        for lane, reply in enumerate(replies):
            if reply is None:
                continue
            if is_tested[lane]:
                turns.outcomes[lane] = "examined"
                turns.is_last[lane], messages[lane] = True, None
                continue
            n_replies[lane] += 1
            action = turns.actions[lane] = read_option(reply, (MORE, READY))
            is_overdue = n_replies[lane] > self._n_most
            if action == MORE and n_shown[lane] < self._n_most:
                n_shown[lane] += 1
                turns.outcomes[lane] = "example"
                messages[lane] = self._fill(
                    "given",
                    number=n_shown[lane],
                    example=self._lessons[lane].examples[n_shown[lane] - 1],
                    n_shown=n_shown[lane],
                )
            elif action == MORE:
                turns.outcomes[lane] = "no_more"
                messages[lane] = self._fill("no_more")
            elif action == READY:
                turns.outcomes[lane] = "ready"
            else:
                messages[lane] = self._fill("unread")
            if action == READY or is_overdue:
                is_tested[lane] = True
                what = self._fill("ready" if action == READY else "overdue")
                if turns.outcomes[lane] == "example":
                    # it counts as used, so it is shown
                    what = f"{messages[lane]}\n\n{what}"
                messages[lane] = exam.message(self._exam, what, self.questions[lane])
        return _State(tuple(messages), n_shown, n_replies, is_tested), turns

    def knowing(self, state: _State, lanes: Sequence[int]) -> list[str]:
        """Return READY at once, and then the right answers."""
        return [exam.right(self.questions[lane]) if state.is_tested[lane] else READY for lane in lanes]

    def guessing(self, state: _State, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return MORE or READY, and then guesses."""
        return [
            exam.guessed(self.questions[lane], die) if state.is_tested[lane] else die.choice((MORE, READY))
            for lane, die in zip(lanes, dice, strict=True)
        ]

    def _opening(self, lesson: Lesson) -> str:
        lines = [
            self._template.fill("example", {"number": number, "example": example})
            for number, example in enumerate(lesson.examples[: self._n_initial], start=1)
        ]
        shown = self._fill("heading") + "".join(lines) if lines else self._fill("no_examples")
        return self._fill(
            "prompt",
            introduction=lesson.introduction,
            examples=shown,
            n_shown=self._n_initial,
            n_questions=len(lesson.questions),
        )

    def _fill(self, name: str, **places: object) -> str:
        return self._template.fill(name, {"n_most": self._n_most, **places})
