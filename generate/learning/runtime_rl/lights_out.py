"""Lamps in a ring and buttons with hidden wiring: light all lamps.

Sets of lamps, and of buttons, are integers whose bit k stands for number k + 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.drawn_rows import accepted_rows, every_row
from generate.learning.runtime_rl.numbered import read_numbered
from generate.learning.wording import listed
from generate.schedule import Positive

Directions = Literal["clockwise", "own"]
Told = Literal["lamps", "count"]

_WORD = "PRESS"


@dataclass(frozen=True, slots=True)
class LampsWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    lit
        Lamps that are lit at the start. Visible.
    toggles
        Lamps that each button switches: episodes x buttons.
    presses
        The smallest set of buttons that switches each set of lamps, -1 where none does: episodes x sets.
    """

    lit: Ints
    toggles: Ints
    presses: Ints


@dataclass(frozen=True, slots=True)
class LampsState:
    """Where an episode stands: the lamps lit, and the fewest presses that it has been away from the goal."""

    lit: Ints
    n_nearest: Ints


class LightsOut(BaseModel):
    """Rings of one size, in which every button switches three lamps.

    Attributes
    ----------
    n_lamps
        Lamps, and buttons.
    directions
        ``clockwise``: all buttons count distances clockwise. ``own``: some do, others anticlockwise.
    told
        ``lamps``: which are lit after a press. ``count``: how many.
    n_presses
        Presses of a shortest way to the goal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_lamps: Annotated[int, Field(strict=True, ge=5, le=9)]
    directions: Directions
    told: Told
    n_presses: Positive

    @model_validator(mode="after")
    def _presses_are_few(self) -> "LightsOut":
        if self.n_presses > self.n_lamps:
            raise ValueError("expected no more presses than buttons: a second press undoes the first")
        return self

    @property
    def grammar(self) -> str:
        """How a button is named."""
        return f"Write the button to press by its number, such as `{_WORD} 1`."

    def draw(self, dice: Sequence[Dice]) -> LampsWorld:
        """Draw wiring and lamps, each as likely, until as many presses as the level has are the fewest."""

        def draw_one(one: Dice) -> tuple[int, ...]:
            return (*(one.integer(0, count - 1) for count in self._counts), one.integer(0, self._all))

        return self._worlds(accepted_rows(self, dice, draw_one, self._accepts))

    def rivals(self, world: LampsWorld, lane: int) -> LampsWorld:
        """Return every world of the level in which these lamps are lit at the start."""
        rows = every_row(self._counts, [int(world.lit[lane])])
        return self._worlds(rows[self._accepts(rows)])

    def introduction(self, world: LampsWorld) -> list[str]:
        """Return the rules and the lamps at the start."""
        n = self.n_lamps
        wiring = {
            "clockwise": (
                "Both distances are hidden, and the same for all buttons. They are different, and counted "
                f"clockwise: distance 1 from lamp 1 is lamp 2, distance 1 from lamp {n} is lamp 1"
            ),
            "own": (
                "Both distances are hidden, and the same for all buttons; they are different and do not "
                f"add up to {n}. Some buttons count both clockwise: distance 1 from lamp 1 is lamp 2, "
                f"distance 1 from lamp {n} is lamp 1. The others count both anticlockwise: distance 1 from "
                f"lamp 1 is lamp {n}. Which way a button counts is hidden and never changes; it may be the "
                "same way for all"
            ),
        }[self.directions]
        told = {
            "lamps": "After each press you are told which lamps are lit.",
            "count": "After each press you are told how many lamps are lit, but not which.",
        }[self.told]
        fewest = f"{self.n_presses} press{'' if self.n_presses == 1 else 'es'}"
        return [
            f"{n} lamps stand in a ring, numbered clockwise from 1 to {n}. {_lamps(lit, n)}\n"
            f"There are {n} buttons, numbered alike; in each step you press one. A button switches three "
            "lamps: lit ones go out, others light up. They are the lamp of its own number and the lamps at "
            f"two distances from it, from 1 to {n - 1} places. {wiring}.\n"
            f"{told} The goal is that all lamps are lit. From the start it takes {fewest}, and no fewer, for "
            "one who knows the wiring."
            for lit in world.lit.tolist()
        ]

    def start(self, world: LampsWorld) -> LampsState:
        """Return the state before the first press."""
        return LampsState(world.lit.copy(), self.n_best(world))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of a button, as it is written."""
        return read_numbered(text, _WORD, "button")

    def step(
        self, world: LampsWorld, state: LampsState, actions: Ints, which: Bools
    ) -> tuple[LampsState, Moved]:
        """Press one button per episode; one that is not there does nothing."""
        button = actions[:, 0] - 1
        is_legal = which & (button >= 0) & (button < self.n_lamps)
        toggled = world.toggles[np.arange(len(button)), button % self.n_lamps]
        lit = np.where(is_legal, state.lit ^ toggled, state.lit)
        after = LampsState(lit, np.minimum(state.n_nearest, self._n_left(world, lit)))
        feedback = [""] * len(button)
        for lane in np.flatnonzero(which).tolist():
            if not is_legal[lane]:
                feedback[lane] = (
                    f"There is no button {actions[lane, 0]}, only buttons 1 to {self.n_lamps}: nothing was "
                    "pressed."
                )
            else:
                feedback[lane] = self._feedback(int(lit[lane]))
        progress = 1 - after.n_nearest / self.n_presses
        return after, Moved(is_legal, lit == self._all, progress, feedback)

    def best(self, world: LampsWorld, state: LampsState, lanes: Sequence[int]) -> list[str]:
        """Return the first button of the fewest that light all lamps; their order does not matter."""
        chosen = np.array(lanes, dtype=np.int64)
        presses = world.presses[chosen, self._all ^ state.lit[chosen]]
        return [f"{_WORD} {(left & -left).bit_length()}" for left in presses.tolist()]

    def random(
        self,
        world: LampsWorld,
        state: LampsState,
        lanes: Sequence[int],
        dice: Sequence[Dice],
    ) -> list[str]:
        """Return buttons, each as likely."""
        return [f"{_WORD} {one.integer(1, self.n_lamps)}" for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: LampsWorld) -> Ints:
        """Return the size of the smallest set of buttons that lights all lamps."""
        return self._n_left(world, world.lit)

    @property
    def _all(self) -> int:
        """The set of all lamps."""
        return int(2**self.n_lamps - 1)

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many pairs of distances, and sets of buttons that count anticlockwise, there are."""
        return (
            len(_distances(self.n_lamps, self.directions)),
            2**self.n_lamps if self.directions == "own" else 1,
        )

    def _accepts(self, rows: Ints) -> Bools:
        is_fewest: Bools = self.n_best(self._worlds(rows)) == self.n_presses
        return is_fewest

    def _worlds(self, rows: Ints) -> LampsWorld:
        pair, anticlockwise, lit = rows.T
        buttons = np.arange(self.n_lamps)
        sign = np.where(anticlockwise[:, None] >> buttons & 1, -1, 1)
        toggles = np.broadcast_to(1 << buttons, sign.shape)
        for distance in _distances(self.n_lamps, self.directions)[pair].T:
            toggles = toggles | 1 << (buttons + sign * distance[:, None]) % self.n_lamps
        return LampsWorld(lit.copy(), toggles, _fewest_presses(toggles))

    def _n_left(self, world: LampsWorld, lit: Ints) -> Ints:
        """Return the fewest presses to the goal; -1: none do."""
        n_left: Ints = _sizes(self.n_lamps)[world.presses[np.arange(len(lit)), self._all ^ lit]]
        return n_left

    def _feedback(self, lit: int) -> str:
        goal = " All are: it is the goal." if lit == self._all else ""
        if self.told == "lamps":
            return _lamps(lit, self.n_lamps) + goal
        n_lit = lit.bit_count()
        return f"{n_lit} lamp{' is' if n_lit == 1 else 's are'} lit.{goal}"


def _lamps(lit: int, n_lamps: int) -> str:
    numbers = [str(lamp + 1) for lamp in range(n_lamps) if lit >> lamp & 1]
    if not numbers:
        return "No lamp is lit."
    if len(numbers) == 1:
        return f"Lamp {numbers[0]} is lit."
    return f"Lamps {listed(numbers)} are lit."


@cache
def _distances(n_lamps: int, directions: Directions) -> Ints:
    """Return the pairs of distances, no two of which wire the same worlds: pairs x 2."""
    pairs = list(combinations(range(1, n_lamps), 2))
    if directions == "own":
        # the mirror image of a pair is the same wiring counted the other way round; a pair that is its own
        # mirror image is the same both ways
        pairs = [(near, far) for near, far in pairs if (near, far) < (n_lamps - far, n_lamps - near)]
    found = np.array(pairs, dtype=np.int64)
    found.flags.writeable = False
    return found


@cache
def _sizes(n_buttons: int) -> Ints:
    """Return how many there are in each set of buttons, and at the end -1, which stands for no set."""
    found = np.array([*(buttons.bit_count() for buttons in range(2**n_buttons)), -1], dtype=np.int64)
    found.flags.writeable = False
    return found


def _fewest_presses(toggles: Ints) -> Ints:
    """Return the smallest set of buttons for each set of lamps to switch, -1: none does; episodes x sets.

    The order of presses does not matter, and two of one button undo each other: there are no ways but sets.
    """
    n_episodes, n_buttons = toggles.shape
    switched = np.zeros((n_episodes, 2**n_buttons), dtype=np.int64)
    for button in range(n_buttons):
        switched[:, 2**button : 2 ** (button + 1)] = switched[:, : 2**button] ^ toggles[:, button, None]
    fewest = np.full((n_episodes, 2**n_buttons), -1, dtype=np.int64)
    episodes = np.arange(n_episodes)
    # small sets last: they overwrite larger ones that switch the same lamps
    for buttons in sorted(range(2**n_buttons), key=int.bit_count, reverse=True):
        fewest[episodes, switched[:, buttons]] = buttons
    return fewest
