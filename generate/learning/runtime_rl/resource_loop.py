"""A workshop whose machines pass materials round a hidden loop: make exactly so much of one of them.

Materials and machines are numbered from 0. No two machines take the same material. Stocks grow with every way
round the loop, whatever its order, so that more than is wanted would be had without learning anything: it has
to be the very amount.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from string import ascii_uppercase
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.drawn_rows import accepted_rows, every_row
from generate.learning.wording import listed
from generate.schedule import Positive

Told = Literal["stock", "goal_material"]
Recipe = tuple[Positive, Positive]

_MATERIALS = ("clay", "glass", "copper", "resin", "linen")
_RESTART = len(ascii_uppercase)
_READ = re.compile(r"(?:(?:RUN +)?(?:MACHINE +)?([A-Z])|RESTART)\.?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoopWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    stock
        Units of each material at the start: episodes x materials. Visible, as are the next two.
    goal, n_goal
        The material that is wanted, and how much of it.
    taken
        Material that each machine takes: episodes x machines.
    follower
        Material that each one is made into: episodes x materials.
    n_taken, n_given
        Units that are taken of each material at a time, and units of its follower that are given for them:
        episodes x materials.
    """

    stock: Ints
    goal: Ints
    n_goal: Ints
    taken: Ints
    follower: Ints
    n_taken: Ints
    n_given: Ints


@dataclass(frozen=True, slots=True)
class LoopState:
    """Where an episode stands: the stock, and the fewest units that the goal has been missed by."""

    stock: Ints
    n_nearest: Ints


class ResourceLoop(BaseModel):
    """Workshops with as many materials, and as many machines, as recipes.

    Attributes
    ----------
    recipes
        Units that are taken and given at a time, one pair per machine, in any order.
    told
        ``stock``: all that there is. ``goal_material``: only how much there is of the material wanted.
    most_stock
        Units of a material at the start at most.
    least_goal, most_goal
        Units wanted.
    fewest_runs, most_runs
        Runs of a shortest way to the goal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    recipes: Annotated[tuple[Recipe, ...], Field(min_length=2, max_length=len(_MATERIALS))]
    told: Told
    most_stock: Positive
    least_goal: Positive
    most_goal: Positive
    fewest_runs: Positive
    most_runs: Positive

    @model_validator(mode="after")
    def _ranges_are_not_empty(self) -> "ResourceLoop":
        if self.most_goal < self.least_goal or self.most_runs < self.fewest_runs:
            raise ValueError("expected no range whose end is below its beginning")
        return self

    @property
    def grammar(self) -> str:
        """How a machine is named."""
        return "Write the machine to run, such as `RUN A`, or write `RESTART`."

    def draw(self, dice: Sequence[Dice]) -> LoopWorld:
        """Draw what is hidden, goal and stock, each as likely, until a shortest way is as the level says."""

        def draw_one(one: Dice) -> tuple[int, ...]:
            return (
                *(one.integer(0, count - 1) for count in self._counts),
                one.integer(0, self._n - 1),
                one.integer(self.least_goal, self.most_goal),
                *(one.integer(0, self.most_stock) for _ in self.recipes),
            )

        return self._worlds(accepted_rows(self, dice, draw_one, self._accepts))

    def rivals(self, world: LoopWorld, lane: int) -> LoopWorld:
        """Return every world of the level with this stock and this goal."""
        visible = [int(world.goal[lane]), int(world.n_goal[lane]), *world.stock[lane].tolist()]
        rows = every_row(self._counts, visible)
        return self._worlds(rows[self._accepts(rows)])

    def introduction(self, world: LoopWorld) -> list[str]:
        """Return the rules, the stock at the start and the goal."""
        names = listed(list(_MATERIALS[: self._n]))
        machines = listed(list(ascii_uppercase[: self._n]))
        recipes = "; ".join(f"takes {taken}, gives {given}" for taken, given in self.recipes)
        told = {
            "stock": "After each step you are told what you have of every material.",
            "goal_material": (
                "After each step you are told how much {goal} you have, and nothing of the rest."
            ),
        }[self.told]
        needed = f"{self.fewest_runs} to {self.most_runs}"
        if self.fewest_runs == self.most_runs:
            needed = str(self.most_runs)
        return [
            f"A workshop works with {self._n} materials, {names}, and has {self._n} machines, {machines}. "
            "Each machine turns one material into another. No two machines take the same material and no "
            "two give the same: from machine to machine, the materials form one loop that leads through "
            "all of them and back to the first. The machines have these recipes, in an order that is "
            f"hidden: {recipes}. Which material a machine takes, which it gives and which recipe it has is "
            "hidden.\n"
            "In each step you run one machine, or restart. A machine that is run follows its recipe as "
            "often as what there is of its material allows; the rest of it stays. One that takes 2 and "
            "gives 3, run with 5, takes 4, gives 6 and leaves 1; run with 1, it does nothing. To restart "
            "brings back the stock of the start.\n"
            f"At the start you have {_stock(stock)}. The goal is to have exactly {n_goal} "
            f"{_MATERIALS[goal]}, no fewer and no more. {told.format(goal=_MATERIALS[goal])} One who knows "
            f"the machines needs {needed} runs."
            for stock, goal, n_goal in zip(
                world.stock.tolist(), world.goal.tolist(), world.n_goal.tolist(), strict=True
            )
        ]

    def start(self, world: LoopWorld) -> LoopState:
        """Return the state before the first run."""
        return LoopState(world.stock.copy(), _missed_by(world, np.arange(len(world.goal)), world.stock))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of a machine, from 0, or 26 for a restart."""
        if found := _READ.fullmatch(text):
            return (ascii_uppercase.index(found[1].upper()) if found[1] else _RESTART,)
        return None

    def step(
        self, world: LoopWorld, state: LoopState, actions: Ints, which: Bools
    ) -> tuple[LoopState, Moved]:
        """Run one machine per episode, or restart; a machine that is not there does nothing."""
        machine = actions[:, 0]
        lanes = np.arange(len(machine))
        restarts = which & (machine == _RESTART)
        runs = which & (machine < self._n)
        material = world.taken[lanes, np.minimum(machine, self._n - 1)]
        stock = np.where(runs[:, None], _after_run(world, lanes, state.stock, material), state.stock)
        stock = np.where(restarts[:, None], world.stock, stock)
        missed_by = _missed_by(world, lanes, stock)
        after = LoopState(stock, np.minimum(state.n_nearest, missed_by))
        progress = 1 - after.n_nearest / _missed_by(world, lanes, world.stock)
        is_solved = missed_by == 0
        is_legal = runs | restarts
        feedback = [""] * len(machine)
        for lane in np.flatnonzero(which).tolist():
            if not is_legal[lane]:
                feedback[lane] = (
                    f"There is no machine {ascii_uppercase[machine[lane]]}, only machines A to "
                    f"{ascii_uppercase[self._n - 1]}: nothing was run."
                )
            else:
                feedback[lane] = self._feedback(stock[lane].tolist(), int(world.goal[lane]))
                feedback[lane] += " It is the goal." if is_solved[lane] else ""
        return after, Moved(is_legal, is_solved, progress, feedback)

    def best(self, world: LoopWorld, state: LoopState, lanes: Sequence[int]) -> list[str]:
        """Return the first run of a shortest way, or a restart where that is shorter."""
        chosen = np.array(lanes, dtype=np.int64)
        n_runs, material = self._shortest(world, chosen, state.stock[chosen])
        from_start, _ = self._shortest(world, chosen, world.stock[chosen])
        is_shorter = (n_runs < 0) | (from_start + 1 < n_runs)
        machines = (world.taken[chosen] == material[:, None]).argmax(axis=1)
        return [
            "RESTART" if restarts else f"RUN {ascii_uppercase[machine]}"
            for restarts, machine in zip(is_shorter.tolist(), machines.tolist(), strict=True)
        ]

    def random(
        self,
        world: LoopWorld,
        state: LoopState,
        lanes: Sequence[int],
        dice: Sequence[Dice],
    ) -> list[str]:
        """Return a machine or a restart, each as likely."""
        actions = [*(f"RUN {letter}" for letter in ascii_uppercase[: self._n]), "RESTART"]
        return [one.choice(actions) for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: LoopWorld) -> Ints:
        """Return the runs of a shortest way, which never restarts; -1: it has more than the level allows."""
        n_runs, _ = self._shortest(world, np.arange(len(world.goal)), world.stock)
        return n_runs

    @property
    def _n(self) -> int:
        """Materials, and machines."""
        return len(self.recipes)

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many loops, orders of machines and orders of recipes there are."""
        return (len(_loops(self._n)), len(_orders(self._n)), len(_recipe_orders(self.recipes)))

    def _accepts(self, rows: Ints) -> Bools:
        n_fewest = self.n_best(self._worlds(rows))
        return (n_fewest >= self.fewest_runs) & (n_fewest <= self.most_runs)

    def _worlds(self, rows: Ints) -> LoopWorld:
        loop, order, recipes, goal, n_goal = rows[:, :5].T
        n_taken, n_given = _recipe_orders(self.recipes)[recipes].transpose(2, 0, 1)
        return LoopWorld(
            stock=rows[:, 5:].copy(),
            goal=goal.copy(),
            n_goal=n_goal.copy(),
            taken=_orders(self._n)[order],
            follower=_loops(self._n)[loop],
            n_taken=n_taken,
            n_given=n_given,
        )

    def _feedback(self, stock: list[int], goal: int) -> str:
        if self.told == "stock":
            return f"You have {_stock(stock)}."
        return f"You have {stock[goal]} {_MATERIALS[goal]}."

    def _shortest(self, world: LoopWorld, lanes: Ints, stock: Ints) -> tuple[Ints, Ints]:
        """Search breadth-first, without restarts, for the goal from a stock in each of some episodes.

        Returns
        -------
        tuple
            The fewest runs, -1 where the level does not allow as many as are needed, and the material that
            the first of them takes.
        """
        told = np.hstack(
            [
                world.goal[lanes, None],
                world.n_goal[lanes, None],
                world.follower[lanes],
                world.n_taken[lanes],
                world.n_given[lanes],
                stock,
            ]
        )
        # which machine takes a material makes no way shorter, so many worlds are one here
        _, first, place = np.unique(told, axis=0, return_index=True, return_inverse=True)
        n_runs, material = self._searched(world, lanes[first], stock[first])
        place = place.ravel()
        return n_runs[place], material[place]

    def _searched(self, world: LoopWorld, lanes: Ints, stock: Ints) -> tuple[Ints, Ints]:
        n_runs = np.where(_missed_by(world, lanes, stock) == 0, 0, -1)
        begun_with = np.zeros(len(lanes), dtype=np.int64)
        root = np.flatnonzero(n_runs < 0)
        first = np.zeros(len(root), dtype=np.int64)
        now = stock[root]
        for depth in range(1, self.most_runs + 1):
            material = np.tile(np.arange(self._n), len(root))
            root, first = np.repeat(root, self._n), np.repeat(first, self._n)
            before = np.repeat(now, self._n, axis=0)
            now = _after_run(world, lanes[root], before, material)
            if depth == 1:
                first = material
            has_changed = (now != before).any(axis=1)
            root, first, now = root[has_changed], first[has_changed], now[has_changed]
            is_there = _missed_by(world, lanes[root], now) == 0
            reached, at = np.unique(root[is_there], return_index=True)
            n_runs[reached] = depth
            begun_with[reached] = first[is_there][at]
            distinct = _distinct(root, now, n_runs[root] < 0)
            root, first, now = root[distinct], first[distinct], now[distinct]
        return n_runs, begun_with


def _stock(units: list[int]) -> str:
    return listed([f"{n} {name}" for n, name in zip(units, _MATERIALS, strict=False)])


def _missed_by(world: LoopWorld, lanes: Ints, stock: Ints) -> Ints:
    """Return how many units too few or too many of the material wanted stocks of some episodes have."""
    units: Ints = np.abs(stock[np.arange(len(lanes)), world.goal[lanes]] - world.n_goal[lanes])
    return units


def _after_run(world: LoopWorld, lanes: Ints, stock: Ints, material: Ints) -> Ints:
    """Return stocks that belong to some episodes after the machine that takes a material has run in each."""
    each = np.arange(len(lanes))
    n_times = stock[each, material] // world.n_taken[lanes, material]
    after = stock.copy()
    after[each, material] -= n_times * world.n_taken[lanes, material]
    after[each, world.follower[lanes, material]] += n_times * world.n_given[lanes, material]
    return after


def _distinct(root: Ints, stock: Ints, is_open: Bools) -> Ints:
    """Return where each stock of a root stands first, of those that are still open."""
    where = np.flatnonzero(is_open)
    key = root[where]
    for units in stock[where].T:
        key = key * (units.max(initial=0) + 1) + units
    _, first = np.unique(key, return_index=True)
    first_of_each: Ints = where[np.sort(first)]
    return first_of_each


@cache
def _loops(n: int) -> Ints:
    """Return every single loop through all materials: loops x the follower of each material."""
    found = np.empty((len(_orders(n - 1)), n), dtype=np.int64)
    for follower, order in zip(found, _orders(n - 1) + 1, strict=True):
        loop = np.array([0, *order])
        follower[loop] = np.roll(loop, -1)
    found.flags.writeable = False
    return found


@cache
def _orders(n: int) -> Ints:
    """Return every order of numbers from 0 to below n: orders x places."""
    found = np.array(list(permutations(range(n))), dtype=np.int64)
    found.flags.writeable = False
    return found


@cache
def _recipe_orders(recipes: tuple[Recipe, ...]) -> Ints:
    """Return every different way to give materials the recipes: ways x materials x (taken, given)."""
    found = np.array(sorted(set(permutations(recipes))), dtype=np.int64)
    found.flags.writeable = False
    return found
