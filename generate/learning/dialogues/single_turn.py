"""One message tells everything, and one reply answers it: associative and observational learning."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from generate.contract import Bools
from generate.learning.contract import Question, Sheet
from generate.learning.dialogues import exam
from generate.learning.dialogues.contract import Turns
from generate.learning.dice import Dice
from store.prompts import load_template

TEMPLATES = (exam.TEMPLATE,)


@dataclass(frozen=True, slots=True)
class _State:
    is_over: Bools


class SingleTurn:
    """Sheets, one per lane."""

    n_best = None

    def __init__(self, sheets: Sequence[Sheet]) -> None:
        template = load_template(exam.TEMPLATE)
        self._messages = [exam.message(template, sheet.text, sheet.questions) for sheet in sheets]
        self.questions: Sequence[tuple[Question, ...]] = [sheet.questions for sheet in sheets]
        self.texts: Sequence[Sequence[str]] = [(sheet.text,) for sheet in sheets]

    def start(self) -> _State:
        """Return the state in which every sheet lies before its reader."""
        return _State(np.zeros(len(self._messages), dtype=np.bool_))

    def messages(self, state: _State) -> list[str | None]:
        """Return the sheets that are not answered."""
        return [None if over else text for text, over in zip(self._messages, state.is_over, strict=True)]

    def step(self, state: _State, replies: Sequence[str | None]) -> tuple[_State, Turns]:
        """Take answers."""
        turns = Turns.blank(len(replies))
        is_over = state.is_over.copy()
        for lane, reply in enumerate(replies):
            if reply is not None:
                turns.outcomes[lane] = "examined"
                turns.is_last[lane] = is_over[lane] = True
        return _State(is_over), turns

    def knowing(self, state: _State, lanes: Sequence[int]) -> list[str]:
        """Return the right answers."""
        return [exam.right(self.questions[lane]) for lane in lanes]

    def guessing(self, state: _State, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return guesses."""
        return [exam.guessed(self.questions[lane], die) for lane, die in zip(lanes, dice, strict=True)]
