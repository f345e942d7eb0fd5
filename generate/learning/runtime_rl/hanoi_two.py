"""Towers of Hanoi with a hidden goal peg and a hidden ban: one disk may never be moved to one peg.

With three disks there are 3 goal pegs x 9 pairs of disk and peg = 27 configurations. Many of them cannot be
solved, such as those that ban a disk from the goal peg; they are found by search and never drawn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Moved
from generate.learning.dice import Dice

_PEGS = "ABC"
_N_PEGS = len(_PEGS)
# from a peg to itself as well: such a move can be written, and is refused
_MOVES = tuple(product(range(_N_PEGS), repeat=2))
_MOVE = re.compile(
    rf"(?:move +)?(?:from +)?([{_PEGS}])\s*(?:(?:[-=]*>|→|,|-|to\b)\s*)?([{_PEGS}])\.?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HanoiWorld:
    """What was drawn, per episode.

    Attributes
    ----------
    start
        Number of the arrangement at the start: pegs of the disks as digits to base 3, the smallest disk
        first. It is visible.
    configuration
        Number of goal peg, banned disk and the peg to which it may not be moved, each from 0:
        (goal peg x disks + disk) x 3 + peg.
    """

    start: Ints
    configuration: Ints


@dataclass(frozen=True, slots=True)
class HanoiState:
    """Where the disks are, and what was done, per episode.

    Attributes
    ----------
    arrangement
        Number of the arrangement of the disks, as at the start.
    n_moves, n_valid
        Moves so far, and how many of them were not refused.
    """

    arrangement: Ints
    n_moves: Ints
    n_valid: Ints


@dataclass(frozen=True, slots=True)
class _Searched:
    """All configurations and arrangements of a number of disks, and the ways between them.

    Attributes
    ----------
    pegs
        Peg of each disk, the smallest first: arrangements x disks.
    visible
        Arrangement after each move by the rules that are told, -1 where they refuse it: arrangements x moves.
    goal
        Goal peg: configurations.
    after
        The same as ``visible`` with the ban: configurations x arrangements x moves.
    distance
        Moves of a shortest way to the goal, -1 where there is none: configurations x arrangements.
    is_safe
        Whether the goal can be reached however one moves: configurations x arrangements.
    """

    pegs: Ints
    visible: Ints
    goal: Ints
    after: Ints
    distance: Ints
    is_safe: Bools


class Hanoi(BaseModel):
    """Three pegs, one goal peg, one ban.

    Attributes
    ----------
    n_disks
        Disks there are.
    is_scattered
        Whether the disks start on more than one peg; else they are a tower on a peg that is drawn.
    shortest, longest
        How many moves a shortest way to the goal may have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_disks: Annotated[int, Field(strict=True, ge=2, le=4)]
    is_scattered: bool
    shortest: Annotated[int, Field(strict=True, ge=1)]
    longest: Annotated[int, Field(strict=True, ge=1)]

    @model_validator(mode="after")
    def _worlds_exist(self) -> "Hanoi":
        if not self._drawable:
            raise ValueError("expected shortest and longest between which each goal peg has solvable worlds")
        return self

    @property
    def grammar(self) -> str:
        """How a move is written."""
        return "Write a move as `A>C`: the top disk of peg A goes to peg C."

    @property
    def _searched(self) -> _Searched:
        return _searched(self.n_disks)

    @property
    def _lengths(self) -> str:
        if self.shortest == 1:
            return f"at most {self.longest} moves"
        return f"at least {self.shortest} and at most {self.longest} moves"

    @property
    def _drawable(self) -> dict[int, Ints]:
        """Configurations that may be drawn, by number of the arrangement at the start."""
        return _drawable(self.n_disks, self.is_scattered, self.shortest, self.longest)

    def draw(self, dice: Sequence[Dice]) -> HanoiWorld:
        """Draw a start, then one of the configurations that can be solved from there, each as likely."""
        starts = [one.choice(list(self._drawable)) for one in dice]
        configurations = [
            one.choice(self._drawable[start].tolist()) for one, start in zip(dice, starts, strict=True)
        ]
        return HanoiWorld(np.array(starts, dtype=np.int64), np.array(configurations, dtype=np.int64))

    def rivals(self, world: HanoiWorld, lane: int) -> HanoiWorld:
        """Return every world with the same arrangement at the start that may be drawn."""
        start = int(world.start[lane])
        configurations = self._drawable[start]
        return HanoiWorld(np.full(len(configurations), start), configurations)

    def introduction(self, world: HanoiWorld) -> list[str]:
        """Return the rules and the arrangement at the start."""
        rules = (
            f"There are three pegs, A, B and C, and {self.n_disks} disks of different sizes: disk 1 is the "
            f"smallest, disk {self.n_disks} the largest. In each step you move the top disk of one peg to "
            "another peg, and never onto a smaller disk. The goal is to have all disks on the goal peg, "
            "which is one of the three; you are not told which, only when the goal is reached.\n"
            "There is one ban besides: one certain disk may never be moved to one certain peg. You are not "
            "told which disk and which peg. The disk may lie there at the start, and may stay there. A move "
            "that the rules or the ban forbid is refused: you are told so, the disks stay where they are, "
            "and the step is used up.\n"
            f"The goal is not reached yet, and the shortest way to it takes {self._lengths}. After each step "
            "you are told where the disks are, from the bottom of each peg to its top. At the start: "
        )
        return [rules + self._told_of(start) for start in world.start.tolist()]

    def start(self, world: HanoiWorld) -> HanoiState:
        """Return the state before the first move."""
        none = np.zeros(len(world.start), dtype=np.int64)
        return HanoiState(world.start, none, none)

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of the peg from which and of the peg to which a disk is moved, from 0."""
        found = _MOVE.fullmatch(text)
        return found and (_PEGS.index(found[1].upper()), _PEGS.index(found[2].upper()))

    def step(
        self, world: HanoiWorld, state: HanoiState, actions: Ints, which: Bools
    ) -> tuple[HanoiState, Moved]:
        """Move one disk per episode, or refuse to."""
        searched = self._searched
        move = actions @ np.array([_N_PEGS, 1])
        following = searched.after[world.configuration, state.arrangement, move]
        is_valid = which & (following >= 0)
        after = HanoiState(
            np.where(is_valid, following, state.arrangement), state.n_moves + which, state.n_valid + is_valid
        )
        is_there = searched.pegs[after.arrangement] == searched.goal[world.configuration, None]
        valid_share = after.n_valid / np.maximum(after.n_moves, 1)
        is_solved = is_there.all(axis=1)
        feedback = [
            self._told(*values) if takes_part else ""
            for *values, takes_part in zip(
                move.tolist(),
                is_valid.tolist(),
                is_solved.tolist(),
                after.arrangement.tolist(),
                which.tolist(),
                strict=True,
            )
        ]
        return after, Moved(is_valid, is_solved, np.maximum(valid_share, is_there.mean(axis=1)), feedback)

    def best(self, world: HanoiWorld, state: HanoiState, lanes: Sequence[int]) -> list[str]:
        """Return the first move after which the shortest way is one move shorter."""
        searched, chosen = self._searched, list(lanes)
        configuration, arrangement = world.configuration[chosen], state.arrangement[chosen]
        following = searched.after[configuration, arrangement]
        distance = searched.distance[configuration[:, None], following]
        is_best = (following >= 0) & (distance == searched.distance[configuration, arrangement][:, None] - 1)
        return [_written(move) for move in is_best.argmax(axis=1).tolist()]

    def random(
        self, world: HanoiWorld, state: HanoiState, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return moves that the rules allow which are told, each as likely."""
        visible = self._searched.visible[state.arrangement[list(lanes)]]
        return [
            _written(one.choice(np.flatnonzero(moves >= 0).tolist()))
            for one, moves in zip(dice, visible, strict=True)
        ]

    def n_best(self, world: HanoiWorld) -> Ints:
        """Return the moves of a shortest way to the goal, by breadth-first search."""
        return self._searched.distance[world.configuration, world.start]

    def _told(self, move: int, is_valid: bool, is_solved: bool, arrangement: int) -> str:
        """Return what is told of a move."""
        outcome = "moved" if is_valid else "refused"
        goal = " This is the goal." if is_solved else ""
        return f"{_written(move)}: {outcome}. {self._told_of(arrangement)}{goal}"

    def _told_of(self, arrangement: int) -> str:
        """Return where the disks are."""
        pegs = self._searched.pegs[arrangement].tolist()
        disks = [
            " ".join(str(disk + 1) for disk in reversed(range(self.n_disks)) if pegs[disk] == peg)
            for peg in range(_N_PEGS)
        ]
        return "; ".join(f"{peg}: {on_it or 'empty'}" for peg, on_it in zip(_PEGS, disks, strict=True)) + "."


def _written(move: int) -> str:
    origin, target = _MOVES[move]
    return f"{_PEGS[origin]}>{_PEGS[target]}"


@cache
def _searched(n_disks: int) -> _Searched:
    """Search all configurations of a number of disks."""
    pegs = np.array(list(product(range(_N_PEGS), repeat=n_disks)), dtype=np.int64)
    places = _N_PEGS ** np.arange(n_disks - 1, -1, -1)
    visible = np.full((len(pegs), len(_MOVES)), -1)
    moved_disk = np.zeros_like(visible)
    for number, (origin, target) in enumerate(_MOVES):
        # the smallest disk of a peg is its top; n_disks stands for an empty peg
        top = np.where((pegs == origin).any(axis=1), (pegs == origin).argmax(axis=1), n_disks)
        top_of_target = np.where((pegs == target).any(axis=1), (pegs == target).argmax(axis=1), n_disks)
        allowed = np.flatnonzero(top < top_of_target)
        moved_disk[allowed, number] = top[allowed]
        visible[allowed, number] = allowed + (target - origin) * places[top[allowed]]
    goal, banned_disk, banned_peg = np.array(
        list(product(range(_N_PEGS), range(n_disks), range(_N_PEGS))), dtype=np.int64
    ).T
    target_of = np.array([target for _, target in _MOVES])
    is_banned = (moved_disk == banned_disk[:, None, None]) & (target_of == banned_peg[:, None, None])
    after = np.where(is_banned, -1, visible)
    distance = _distance((pegs == goal[:, None, None]).all(axis=2), after)
    return _Searched(pegs, visible, goal, after, distance, _is_safe(distance, after))


def _distance(is_goal: Bools, after: Ints) -> Ints:
    """Return moves to the goal, outwards from it, one move at a time: configurations x arrangements."""
    distance = np.where(is_goal, 0, -1)
    configurations = np.arange(len(after))[:, None, None]
    n_moves = 0
    while True:
        leads_there = (after >= 0) & (distance[configurations, after] == n_moves)
        n_moves += 1
        reached = (distance < 0) & leads_there.any(axis=2)
        if not reached.any():
            return distance
        distance[reached] = n_moves


def _is_safe(distance: Ints, after: Ints) -> Bools:
    """Return from where no moves lead to an arrangement without a way to the goal."""
    is_safe = distance >= 0
    configurations = np.arange(len(after))[:, None, None]
    while True:
        leads_astray = ((after >= 0) & ~is_safe[configurations, after]).any(axis=2)
        if not (is_safe & leads_astray).any():
            return is_safe
        is_safe &= ~leads_astray


@cache
def _drawable(n_disks: int, is_scattered: bool, shortest: int, longest: int) -> dict[int, Ints]:
    """Return the configurations that may be drawn, by arrangement at the start.

    From each start every peg may be the goal, save the one on which all disks are already.
    """
    searched = _searched(n_disks)
    is_possible = searched.is_safe & (searched.distance >= shortest) & (searched.distance <= longest)
    found = {}
    for start, pegs in enumerate(searched.pegs):
        configurations = np.flatnonzero(is_possible[:, start])
        is_tower = bool((pegs == pegs[0]).all())
        n_goals = len(set(searched.goal[configurations].tolist()))
        if is_tower != is_scattered and n_goals == _N_PEGS - is_tower:
            configurations.flags.writeable = False
            found[start] = configurations
    return found
