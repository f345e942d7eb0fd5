"""Lock with an order: press its buttons in a hidden order, while a wrong press undoes some of what was right.

How much a wrong press undoes is hidden too. At higher levels the player is not told how many presses are in
place, so that it has to be inferred from which presses are right afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.codes import codes_without_doubles, codes_without_repeats
from generate.learning.runtime_rl.drawn_rows import every_row
from generate.learning.runtime_rl.numbered import read_numbered

Setback = Literal["all", "all_but_it", "one", "two", "half"]

# what a wrong press does, as the player is told; the order is that of the columns of _after_wrong
_SENTENCES: dict[Setback, str] = {
    "all": "no press is in place any more",
    "all_but_it": (
        "no press is in place any more, except that the wrong press itself counts as the first one if it is "
        "the button with which the order begins"
    ),
    "one": "one press fewer is in place, if there was any",
    "two": "two presses fewer are in place, or none if there were fewer than two",
    "half": "half of the presses in place remain so, rounded down",
}
_SETBACKS: tuple[Setback, ...] = tuple(_SENTENCES)


@dataclass(frozen=True, slots=True)
class LockWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    order
        Buttons in the order that opens the lock, from 0: episodes x presses.
    setback
        Number of what a wrong press does, among all that there are.
    """

    order: Ints
    setback: Ints


@dataclass(frozen=True, slots=True)
class LockState:
    """Presses in place, and the most that ever were, per episode."""

    n_in_place: Ints
    most_in_place: Ints


class Lock(BaseModel):
    """Locks with numbered buttons.

    Attributes
    ----------
    n_buttons
        Buttons there are.
    n_presses
        Presses of the order.
    may_repeat
        Whether a button may come more than once in the order, though never twice in a row.
    has_lamps
        Whether the player is told how many presses are in place.
    setbacks
        What a wrong press may do; each is as likely.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_buttons: Annotated[int, Field(strict=True, ge=2, le=9)]
    n_presses: Annotated[int, Field(strict=True, ge=2, le=6)]
    may_repeat: bool
    has_lamps: bool
    setbacks: Annotated[tuple[Setback, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _orders_exist(self) -> "Lock":
        if not self.may_repeat and self.n_buttons < self.n_presses:
            raise ValueError("expected at least as many buttons as presses where no button comes twice")
        if len(set(self.setbacks)) < len(self.setbacks):
            raise ValueError("expected setbacks that differ")
        return self

    @property
    def grammar(self) -> str:
        """How a press is written."""
        return "Write a press as the number of the button, such as `2`."

    @property
    def _orders(self) -> Ints:
        possible = codes_without_doubles if self.may_repeat else codes_without_repeats
        return possible(self.n_buttons, self.n_presses)

    def draw(self, dice: Sequence[Dice]) -> LockWorld:
        """Draw order and setback, each as likely as any other."""
        drawn = [
            (one.integer(0, len(self._orders) - 1), one.integer(0, len(self.setbacks) - 1)) for one in dice
        ]
        return self._worlds(np.array(drawn, dtype=np.int64).reshape(-1, 2))

    def rivals(self, world: LockWorld, lane: int) -> LockWorld:
        """Return every world of the level: at the start they all look alike."""
        return self._worlds(every_row((len(self._orders), len(self.setbacks)), ()))

    def introduction(self, world: LockWorld) -> list[str]:
        """Return the rules; nothing of an instance is visible."""
        repeats = (
            "a button may come more than once in it, but never twice in a row"
            if self.may_repeat
            else "no button comes twice in it"
        )
        told = (
            "After each press you are told whether it was right, and how many presses are in place then."
            if self.has_lamps
            else "After each press you are told whether it was right, but not how many presses are in place."
        )
        setbacks = "\n".join(f"- {_SENTENCES[setback]}." for setback in self.setbacks)
        text = (
            f"A lock has buttons 1 to {self.n_buttons}. It opens when {self.n_presses} presses are in place: "
            f"its buttons have to be pressed in a hidden order of {self.n_presses} presses; {repeats}. In "
            "each step you press one button. If it is the next one of the order, the press is right, and "
            "one press more is in place. If not, it is wrong. At the start no press is in place.\n"
            "What a wrong press does is the same throughout, and you are not told which of these it is:\n"
            f"{setbacks}\n"
            f"{told} The goal is to open the lock."
        )
        return [text] * len(world.order)

    def start(self, world: LockWorld) -> LockState:
        """Return the state in which no press is in place."""
        none = np.zeros(len(world.order), dtype=np.int64)
        return LockState(none, none)

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of a button, as it is written."""
        return read_numbered(text, "press", "button")

    def step(
        self, world: LockWorld, state: LockState, actions: Ints, which: Bools
    ) -> tuple[LockState, Moved]:
        """Press one button per episode; one that is not there is not pressed."""
        lanes = np.arange(len(actions))
        button = actions[:, 0] - 1
        is_legal = which & (button >= 0) & (button < self.n_buttons)
        # an open lock takes part no more, but has no next press to look up
        following = world.order[lanes, np.minimum(state.n_in_place, self.n_presses - 1)]
        is_right = button == following
        is_first = button == world.order[:, 0]
        wrong = _after_wrong(state.n_in_place, is_first)[lanes, world.setback]
        n_in_place = np.where(is_legal, np.where(is_right, state.n_in_place + 1, wrong), state.n_in_place)
        after = LockState(n_in_place, np.maximum(state.most_in_place, n_in_place))
        feedback = [
            self._told(*values) if takes_part else ""
            for *values, takes_part in zip(
                button.tolist(), is_right.tolist(), n_in_place.tolist(), which.tolist(), strict=True
            )
        ]
        is_solved = n_in_place == self.n_presses
        return after, Moved(is_legal, is_solved, after.most_in_place / self.n_presses, feedback)

    def best(self, world: LockWorld, state: LockState, lanes: Sequence[int]) -> list[str]:
        """Return the next button of the order."""
        chosen = list(lanes)
        return [str(button + 1) for button in world.order[chosen, state.n_in_place[chosen]].tolist()]

    def random(
        self, world: LockWorld, state: LockState, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return buttons, each as likely."""
        return [str(one.integer(1, self.n_buttons)) for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: LockWorld) -> Ints:
        """Return the presses of the order: a press puts one more in place at most, and the right ones do."""
        return np.full(len(world.order), self.n_presses, dtype=np.int64)

    def _told(self, button: int, is_right: bool, n_in_place: int) -> str:
        """Return what is told of a press."""
        if not 0 <= button < self.n_buttons:
            return (
                f"There is no button {button + 1}, only buttons 1 to {self.n_buttons}: nothing was pressed."
            )
        if n_in_place == self.n_presses:
            return f"Button {button + 1}: right. The lock is open."
        lamps = f" Presses in place: {n_in_place} of {self.n_presses}." if self.has_lamps else ""
        return f"Button {button + 1}: {'right' if is_right else 'wrong'}.{lamps}"

    def _worlds(self, drawn: Ints) -> LockWorld:
        order, setback = drawn.T
        numbers = np.array([_SETBACKS.index(one) for one in self.setbacks], dtype=np.int64)
        return LockWorld(self._orders[order], numbers[setback])


def _after_wrong(n_in_place: Ints, is_first: Bools) -> Ints:
    """Return how many presses stay in place after a wrong one: episodes x setbacks."""
    return np.stack(
        [
            np.zeros_like(n_in_place),
            is_first.astype(np.int64),
            np.maximum(n_in_place - 1, 0),
            np.maximum(n_in_place - 2, 0),
            n_in_place // 2,
        ],
        axis=1,
    )
