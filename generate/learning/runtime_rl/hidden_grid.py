"""A walk on a grid to a hidden goal, with buttons that move in hidden directions.

Where rocks lie is hidden too. Cells are numbered from 0, row by row from the top left; directions are up,
right, down and left, numbered from 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice
from generate.learning.runtime_rl.drawn_rows import accepted_rows, every_row
from generate.schedule import Positive

Wiring = Literal["shuffled", "turned"]
Told = Literal["place_and_distance", "distance", "closer_or_farther"]

_BUTTONS = ("UP", "RIGHT", "DOWN", "LEFT")
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
_READ = re.compile(r"(?:(?:PRESS|MOVE|GO) +)?(UP|RIGHT|DOWN|LEFT)\.?", re.ASCII | re.IGNORECASE)

_WIRINGS: dict[Wiring, tuple[tuple[int, ...], ...]] = {
    "shuffled": tuple(permutations(range(4))),
    "turned": tuple(tuple((button + turn) % 4 for button in range(4)) for turn in range(4)),
}
_WIRING_TOLD: dict[Wiring, str] = {
    "shuffled": (
        "Each button moves you one cell in a direction of its own, always the same one, and no two buttons "
        "in the same. Which direction a button has is hidden: its name need not say it."
    ),
    "turned": (
        "Each button moves you one cell, but the pad with the buttons may be mounted turned: by 0, 1, 2 or "
        "3 quarter turns clockwise, all buttons together and for the whole walk. Turned by one quarter, UP "
        "moves right, RIGHT moves down, DOWN moves left and LEFT moves up. How far it is turned is hidden."
    ),
}
_FEEDBACK_TOLD: dict[Told, str] = {
    "place_and_distance": (
        "After each step you are told whether you moved, where you are, and how far the goal is: the "
        "number of rows plus the number of columns between you and it."
    ),
    "distance": (
        "After each step you are told whether you moved, and how far the goal is: the number of rows plus "
        "the number of columns between you and it. You are not told where you are."
    ),
    "closer_or_farther": (
        "After each step you are told whether you moved, and if so whether you are closer to the goal than "
        "before or farther from it, by the number of rows plus the number of columns between you and it. "
        "You are not told where you are."
    ),
}


@dataclass(frozen=True, slots=True)
class GridWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    start, goal
        Cells. The start is visible.
    wiring
        Direction of each button: episodes x buttons.
    rocks
        Which cells cannot be entered: episodes x cells.
    n_to_goal
        Moves on a shortest way from each cell to the goal: episodes x cells; -1 where there is none.
    """

    start: Ints
    goal: Ints
    wiring: Ints
    rocks: Bools
    n_to_goal: Ints


@dataclass(frozen=True, slots=True)
class GridState:
    """Where an episode stands: the cell, and the fewest moves that it has been away from the goal."""

    place: Ints
    n_nearest: Ints


class HiddenGrid(BaseModel):
    """Grids of one size, walked from a corner.

    Attributes
    ----------
    size
        Rows, and columns.
    wiring
        ``shuffled``: buttons move in the four directions in any order. ``turned``: all are turned together.
    n_rocks
        Cells that cannot be entered. Each touches another one by a side or a corner.
    told
        What a player learns from a step.
    least_distance
        Rows plus columns from the start to the goal at least.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    size: Annotated[int, Field(strict=True, ge=3, le=8)]
    wiring: Wiring
    n_rocks: Annotated[int, Field(strict=True, ge=0, le=3)]
    told: Told
    least_distance: Positive

    @property
    def grammar(self) -> str:
        """How a button is named."""
        return "Write the button to press, one of UP, RIGHT, DOWN and LEFT, such as `UP`."

    def draw(self, dice: Sequence[Dice]) -> GridWorld:
        """Draw goal, wiring, rocks and start, each as likely, until the goal is far and can be reached."""
        corners = (0, self.size - 1, self.size * (self.size - 1), self.size**2 - 1)

        def draw_one(one: Dice) -> tuple[int, ...]:
            return (*(one.integer(0, count - 1) for count in self._counts), one.choice(corners))

        return self._worlds(accepted_rows(self, dice, draw_one, self._accepts))

    def rivals(self, world: GridWorld, lane: int) -> GridWorld:
        """Return every world of the level with this start."""
        rows = every_row(self._counts, [int(world.start[lane])])
        return self._worlds(rows[self._accepts(rows)])

    def introduction(self, world: GridWorld) -> list[str]:
        """Return the rules and the start."""
        rocks = ""
        if self.n_rocks:
            lie = (
                "One cell is a rock; where it lies is hidden"
                if self.n_rocks == 1
                else f"There are {self.n_rocks} rocks, each of them one cell, and each touches another "
                "one by a side or a corner; where they lie is hidden"
            )
            rocks = (
                f" {lie}. You cannot enter a rock, as you cannot leave the grid; there is a way to the goal."
            )
        return [
            f"You stand on a grid of {self.size} rows and {self.size} columns. Rows are counted from the "
            f"top, columns from the left, both from 1. You start in {self._cell(start)}. The goal is a "
            f"hidden cell, at least {self.least_distance} away, counted in rows plus columns.{rocks}\n"
            "In each step you press one of the buttons UP, RIGHT, DOWN and LEFT. "
            f"{_WIRING_TOLD[self.wiring]} Where the way is blocked you stay in your cell.\n"
            f"{_FEEDBACK_TOLD[self.told]} You are done when you enter the goal."
            for start in world.start.tolist()
        ]

    def start(self, world: GridWorld) -> GridState:
        """Return the state at the start."""
        return GridState(world.start.copy(), self.n_best(world))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of a button, from 0, in the order up, right, down, left."""
        if found := _READ.fullmatch(text):
            return (_BUTTONS.index(found[1].upper()),)
        return None

    def step(
        self, world: GridWorld, state: GridState, actions: Ints, which: Bools
    ) -> tuple[GridState, Moved]:
        """Press one button per episode."""
        lanes = np.arange(len(which))
        there = _neighbours(self.size)[state.place, world.wiring[lanes, actions[:, 0]]]
        is_free = (there != state.place) & ~world.rocks[lanes, there]
        place = np.where(which & is_free, there, state.place)
        n_left = world.n_to_goal[lanes, place]
        after = GridState(place, np.where(which, np.minimum(state.n_nearest, n_left), state.n_nearest))
        feedback = [""] * len(which)
        before, now = self._distances(world, state.place), self._distances(world, place)
        for lane in np.flatnonzero(which).tolist():
            feedback[lane] = self._feedback(
                bool(is_free[lane]), int(place[lane]), int(before[lane]), int(now[lane])
            )
        progress = 1 - after.n_nearest / self.n_best(world)
        return after, Moved(which.copy(), place == world.goal, progress, feedback)

    def best(self, world: GridWorld, state: GridState, lanes: Sequence[int]) -> list[str]:
        """Return the first button that leads nearer to the goal."""
        chosen = np.array(lanes, dtype=np.int64)
        place = state.place[chosen]
        there = _neighbours(self.size)[place[:, None], world.wiring[chosen]]
        n_left = world.n_to_goal[chosen[:, None], there]
        is_nearer = n_left == world.n_to_goal[chosen, place][:, None] - 1
        return [_BUTTONS[button] for button in is_nearer.argmax(axis=1)]

    def random(
        self,
        world: GridWorld,
        state: GridState,
        lanes: Sequence[int],
        dice: Sequence[Dice],
    ) -> list[str]:
        """Return buttons, each as likely."""
        return [one.choice(_BUTTONS) for one, _ in zip(dice, lanes, strict=True)]

    def n_best(self, world: GridWorld) -> Ints:
        """Return the moves of a shortest way round the rocks."""
        n_moves: Ints = world.n_to_goal[np.arange(len(world.start)), world.start]
        return n_moves

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many goals, wirings and layouts of rocks there are."""
        return (self.size**2, len(_WIRINGS[self.wiring]), len(_layouts(self.size, self.n_rocks)))

    def _accepts(self, rows: Ints) -> Bools:
        world = self._worlds(rows)
        is_far: Bools = self._distances(world, world.start) >= self.least_distance
        return is_far & (self.n_best(world) > 0)

    def _worlds(self, rows: Ints) -> GridWorld:
        goal, wiring, layout, start = rows.T
        rocks = _layouts(self.size, self.n_rocks)[layout]
        return GridWorld(
            start.copy(),
            goal.copy(),
            np.array(_WIRINGS[self.wiring], dtype=np.int64)[wiring],
            rocks,
            _moves_to(goal, rocks, _neighbours(self.size)),
        )

    def _distances(self, world: GridWorld, place: Ints) -> Ints:
        """Return rows plus columns to the goal."""
        distances: Ints = np.abs(place // self.size - world.goal // self.size) + np.abs(
            place % self.size - world.goal % self.size
        )
        return distances

    def _cell(self, cell: int) -> str:
        return f"row {cell // self.size + 1}, column {cell % self.size + 1}"

    def _feedback(self, has_moved: bool, place: int, before: int, now: int) -> str:
        if has_moved and not now:
            return "You moved and have reached the goal."
        told = [] if has_moved else ["The way is blocked: you stay in your cell."]
        if self.told == "place_and_distance":
            told += [
                f"You are in {self._cell(place)}." if not has_moved else f"You moved to {self._cell(place)}."
            ]
        elif has_moved and self.told == "distance":
            told += ["You moved."]
        if self.told != "closer_or_farther":
            told += [f"The goal is {now} away."]
        elif has_moved:
            told += [f"You moved {'closer to' if now < before else 'farther from'} the goal."]
        return " ".join(told)


@cache
def _neighbours(size: int) -> Ints:
    """Return the cell next to each in each direction, itself where the grid ends: cells x directions."""
    found = np.empty((size**2, len(_MOVES)), dtype=np.int64)
    for cell in range(size**2):
        for direction, (down, right) in enumerate(_MOVES):
            row, column = cell // size + down, cell % size + right
            is_inside = 0 <= row < size and 0 <= column < size
            found[cell, direction] = row * size + column if is_inside else cell
    found.flags.writeable = False
    return found


@cache
def _layouts(size: int, n_rocks: int) -> Bools:
    """Return every way in which rocks can lie: layouts x cells."""
    found = [rocks for rocks in combinations(range(size**2), n_rocks) if _all_touch(rocks, size)]
    layouts = np.zeros((len(found), size**2), dtype=np.bool_)
    for layout, rocks in zip(layouts, found, strict=True):
        layout[list(rocks)] = True
    layouts.flags.writeable = False
    return layouts


def _all_touch(rocks: Sequence[int], size: int) -> bool:
    """Return whether each rock touches another one, by a side or a corner."""
    if len(rocks) < 2:
        return True
    return all(
        any(
            one != other and max(abs(one // size - other // size), abs(one % size - other % size)) == 1
            for other in rocks
        )
        for one in rocks
    )


def _moves_to(goal: Ints, rocks: Bools, neighbours: Ints) -> Ints:
    """Return the fewest moves from each cell to the goal, -1 where none lead there: episodes x cells."""
    n_cells = rocks.shape[1]
    unreached = n_cells + 1
    n_moves = np.full(rocks.shape, unreached, dtype=np.int64)
    n_moves[np.arange(len(goal)), goal] = 0
    n_moves[rocks] = unreached
    while True:
        nearer = np.minimum(n_moves, n_moves[:, neighbours].min(axis=2) + 1)
        nearer[rocks] = unreached
        if np.array_equal(nearer, n_moves):
            return np.where(n_moves == unreached, -1, n_moves)
        n_moves = nearer
