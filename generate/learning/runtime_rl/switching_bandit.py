"""A bandit whose payoffs move round its arms, and jump at a hidden moment: keep pulling the best arm.

Payoffs are fixed by the world and the number of pulls so far; no chance is in them. They move on after every
pull because an arm that stayed the best could be had by holding each arm in turn, whatever it pays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.drawn_rows import every_row
from generate.learning.runtime_rl.numbered import read_numbered
from generate.learning.wording import listed
from generate.schedule import Positive

Told = Literal["points", "comparison"]

_WORD = "PULL"


@dataclass(frozen=True, slots=True)
class BanditWorld:
    """What was drawn, per episode; all of it is hidden.

    Attributes
    ----------
    points
        What each arm pays in the first pull: episodes x arms.
    drift
        Places that all payoffs move on after every pull.
    shift
        Places that they move on at the change, and stay.
    n_before
        Pulls before the change.
    """

    points: Ints
    drift: Ints
    shift: Ints
    n_before: Ints


@dataclass(frozen=True, slots=True)
class BanditState:
    """Where an episode stands.

    Attributes
    ----------
    n_pulls
        Pulls so far.
    last
        Points of the pull before; 0 before the first.
    n_right
        Pulls of the best arm in a row since the change, up to now.
    most_right
        The most there were.
    """

    n_pulls: Ints
    last: Ints
    n_right: Ints
    most_right: Ints


class SwitchingBandit(BaseModel):
    """Arms in a ring that pay different points, which move round it.

    Attributes
    ----------
    n_arms
        Arms; they pay 1, 2, ... points, no two the same.
    n_in_a_row
        Pulls of the best arm in a row that are the goal.
    first_change, last_change
        Fewest and most pulls before the change.
    told
        ``points``: what a pull paid. ``comparison``: whether it paid more or less than the pull before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_arms: Annotated[int, Field(strict=True, ge=2, le=6)]
    n_in_a_row: Positive
    first_change: Positive
    last_change: Positive
    told: Told

    @model_validator(mode="after")
    def _change_is_possible(self) -> "SwitchingBandit":
        if self.last_change < self.first_change:
            raise ValueError("expected the last possible change not to be before the first")
        return self

    @property
    def grammar(self) -> str:
        """How an arm is named."""
        return f"Write the arm to pull by its number, such as `{_WORD} 1`."

    def draw(self, dice: Sequence[Dice]) -> BanditWorld:
        """Draw payoffs and change, each as likely as any other: every world can be solved."""
        drawn = [[one.integer(0, count - 1) for count in self._counts] for one in dice]
        return self._worlds(np.array(drawn, dtype=np.int64))

    def rivals(self, world: BanditWorld, lane: int) -> BanditWorld:
        """Return every world of the level: at the start they all look alike."""
        return self._worlds(every_row(self._counts, []))

    def introduction(self, world: BanditWorld) -> list[str]:
        """Return the rules; nothing of an instance is visible."""
        n, last = self.n_arms, self.n_arms - 1
        points = listed([str(number) for number in range(1, n + 1)])
        told = {
            "points": "After each pull you are told how many points it paid.",
            "comparison": (
                "After each pull you are told whether it paid more points than the pull before, fewer, or "
                "as many; not how many."
            ),
        }[self.told]
        text = (
            f"There are {n} arms in a ring: arm {n} is followed by arm 1. In each step you pull one of them. "
            f"In any one pull, the arms pay {points} points, each another number; which arm pays what is "
            "hidden.\n"
            "Payoffs can move on round the ring. When they move on by 1 place, arm 2 pays from then on "
            f"what arm 1 paid, and so on, and arm 1 what arm {n} paid. After every pull, they move on by a "
            f"hidden number of places, from 0 to {last}, the same after every pull. Besides, at a hidden "
            f"moment, after at least {self.first_change} and at most {self.last_change} pulls, comes the "
            f"change: all payoffs move on by a hidden number of places, from 1 to {last}. You are not told "
            "when this has happened.\n"
            f"{told} The goal: after the change, pull in {self.n_in_a_row} steps in a row the arm that pays "
            f"{n} points in that step. Pulls before the change do not count. Nothing is left to chance."
        )
        return [text] * len(world.drift)

    def start(self, world: BanditWorld) -> BanditState:
        """Return the state before the first pull."""
        none = np.zeros(len(world.drift), dtype=np.int64)
        return BanditState(none, none, none, none)

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of an arm, as it is written."""
        return read_numbered(text, _WORD, "arm")

    def step(
        self, world: BanditWorld, state: BanditState, actions: Ints, which: Bools
    ) -> tuple[BanditState, Moved]:
        """Pull one arm per episode; an arm that is not there is not pulled, and no pull has gone by."""
        arm = actions[:, 0] - 1
        is_legal = which & (arm >= 0) & (arm < self.n_arms)
        moved_on = _moved_on(world, state.n_pulls)
        paid = world.points[np.arange(len(arm)), (arm - moved_on) % self.n_arms]
        is_right = (paid == self.n_arms) & (state.n_pulls >= world.n_before)
        n_right = np.where(is_legal, np.where(is_right, state.n_right + 1, 0), state.n_right)
        after = BanditState(
            state.n_pulls + is_legal,
            np.where(is_legal, paid, state.last),
            n_right,
            np.maximum(state.most_right, n_right),
        )
        is_solved = n_right >= self.n_in_a_row
        feedback = [""] * len(arm)
        for lane in np.flatnonzero(which).tolist():
            number = int(actions[lane, 0])
            if not is_legal[lane]:
                feedback[lane] = (
                    f"There is no arm {number}, only arms 1 to {self.n_arms}: nothing was pulled."
                )
            else:
                feedback[lane] = self._feedback(
                    number, int(paid[lane]), int(state.last[lane]), bool(is_solved[lane])
                )
        progress = np.minimum(after.most_right / self.n_in_a_row, 1.0)
        return after, Moved(is_legal, is_solved, progress, feedback)

    def best(self, world: BanditWorld, state: BanditState, lanes: Sequence[int]) -> list[str]:
        """Return the arm that pays most in the next pull; before the change, when none counts, as well."""
        chosen = list(lanes)
        moved_on = _moved_on(world, state.n_pulls)[chosen]
        arms = (world.points[chosen].argmax(axis=1) + moved_on) % self.n_arms
        return [f"{_WORD} {arm + 1}" for arm in arms.tolist()]

    def random(
        self,
        world: BanditWorld,
        state: BanditState,
        lanes: Sequence[int],
        dice: Sequence[Dice],
    ) -> list[str]:
        """Return arms, each as likely."""
        return [f"{_WORD} {one.integer(1, self.n_arms)}" for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: BanditWorld) -> Ints:
        """Return the pulls up to the change, which cannot count, and those of the goal."""
        return world.n_before + self.n_in_a_row

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many payoffs, drifts, shifts and changes there are."""
        return (
            len(_orders(self.n_arms)),
            self.n_arms,
            self.n_arms - 1,
            self.last_change - self.first_change + 1,
        )

    def _worlds(self, rows: Ints) -> BanditWorld:
        order, drift, shift, change = rows.T
        return BanditWorld(_orders(self.n_arms)[order], drift.copy(), shift + 1, change + self.first_change)

    def _feedback(self, arm: int, paid: int, last: int, is_solved: bool) -> str:
        goal = f" It is the goal: {self.n_in_a_row} right pulls in a row." if is_solved else ""
        if self.told == "points":
            return f"Arm {arm} paid {paid} point{'' if paid == 1 else 's'}.{goal}"
        if not last:
            return f"Arm {arm} paid; there is no pull before to compare it with."
        compared = "more than" if paid > last else "fewer than" if paid < last else "as many as"
        return f"Arm {arm} paid {compared} the pull before.{goal}"


def _moved_on(world: BanditWorld, n_pulls: Ints) -> Ints:
    """Return the places that payoffs have moved on before the next pull."""
    return world.drift * n_pulls + world.shift * (n_pulls >= world.n_before)


@cache
def _orders(n_arms: int) -> Ints:
    """Return every way in which arms can pay 1, 2, ... points: orders x arms."""
    found = np.array(list(permutations(range(1, n_arms + 1))), dtype=np.int64)
    found.flags.writeable = False
    return found
