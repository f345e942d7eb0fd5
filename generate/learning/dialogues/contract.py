"""What a dialogue promises to the loops that carry it on.

The instances of one task are asked side by side, and none depends on which others are: each has its lane. A
dialogue tells every lane a message and takes replies, in any order of lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from generate.contract import Bools, Floats, Ints
from generate.learning.contract import Question
from generate.learning.dice import Dice

Outcome = Literal["examined", "example", "no_more", "ready", "moved", "illegal", "unread", "solved"]

StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class Turns:
    """What replies led to, one entry per lane; entries of lanes without a reply have no meaning.

    Attributes
    ----------
    outcomes
        As ``outcome`` of ``raw/steps``.
    actions
        What was read of the reply; None where nothing was, or where it holds answers.
    trials
        Number of the practice round, from 0; behind the last round, the questions.
    progress
        How far the game or round is after the reply, from 0 to 1; NaN where there is none.
    is_last
        Lanes that are over.
    """

    outcomes: list[Outcome]
    actions: list[str | None]
    trials: Ints
    progress: Floats
    is_last: Bools

    @classmethod
    def blank(cls, n: int) -> "Turns":
        """Return turns of ``n`` lanes that hold nothing yet."""
        return cls(
            ["unread"] * n, [None] * n, np.zeros(n, np.int64), np.full(n, np.nan), np.zeros(n, np.bool_)
        )


class Dialogue(Protocol[StateT]):
    """One task, with an instance per lane."""

    @property
    def questions(self) -> Sequence[tuple[Question, ...]]:
        """The scored questions of each lane; none where a game is scored."""
        ...

    @property
    def n_best(self) -> Ints | None:
        """Actions on a shortest way to the goal of each lane; None where there is no game."""
        ...

    @property
    def texts(self) -> Sequence[Sequence[str]]:
        """The family's own texts of each lane that do not depend on replies, without the questions."""
        ...

    def start(self) -> StateT:
        """Return the state before the first message."""
        ...

    def messages(self, state: StateT) -> Sequence[str | None]:
        """Return what each lane is told now; None where it is over."""
        ...

    def step(self, state: StateT, replies: Sequence[str | None]) -> tuple[StateT, Turns]:
        """Take a reply from every lane that has one; the others stay as they are."""
        ...

    def knowing(self, state: StateT, lanes: Sequence[int]) -> list[str]:
        """Return what one replies who knows everything that is hidden."""
        ...

    def guessing(self, state: StateT, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return what one replies who knows nothing but the form, each possibility as likely."""
        ...


AnyDialogue = Dialogue[Any]
