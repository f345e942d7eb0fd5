"""Do grid, bandit, lamps and workshop keep to the rules that they tell, and can their worlds be solved?

Every game has a second one here, which goes by the rules as a player is told them, one plain step at a time,
and shares no code with the first. All worlds that the rules allow are enumerated and searched here as well.
"""

import csv
import re
import time
import tomllib
from collections import deque
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import combinations, count, cycle, islice, pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from generate.learning.contract import Game
from generate.learning.dice import Dice
from generate.learning.runtime_rl.hidden_grid import HiddenGrid
from generate.learning.runtime_rl.lights_out import LightsOut
from generate.learning.runtime_rl.resource_loop import ResourceLoop
from generate.learning.runtime_rl.switching_bandit import SwitchingBandit
from store.errors import InvalidSource

MANIFESTS = Path(__file__).parents[2] / "manifests"
FAMILIES = ("hidden_grid", "switching_bandit", "lights_out", "resource_loop")
NAMES = ("clay", "glass", "copper", "resin", "linen")
RESTART = 26


def joined(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# the second games: a state is a plain value, and a step gives the next one


@dataclass(frozen=True)
class Grid:
    """A place is a row and a column, both from 0."""

    told: str
    size: int
    first: tuple
    goal: tuple
    wiring: tuple
    rocks: frozenset
    actions: tuple = (0, 1, 2, 3)

    def after(self, place, action):
        row, column = place
        moves = {0: (row - 1, column), 1: (row, column + 1), 2: (row + 1, column), 3: (row, column - 1)}
        there = moves[self.wiring[action]]
        is_inside = all(0 <= number < self.size for number in there)
        return there if is_inside and there not in self.rocks else place

    def is_goal(self, place):
        return place == self.goal

    def away(self, place):
        return abs(place[0] - self.goal[0]) + abs(place[1] - self.goal[1])

    def progress(self, places):
        return 1 - min(fewest(self, place) for place in places) / fewest(self, self.first)

    def feedback(self, action, before, now):
        if self.is_goal(now):
            return "You moved and have reached the goal."
        where = f"row {now[0] + 1}, column {now[1] + 1}"
        distance = f"The goal is {self.away(now)} away."
        blocked = "The way is blocked: you stay in your cell."
        nearer = "closer to" if self.away(now) < self.away(before) else "farther from"
        has_moved = now != before
        return {
            ("place_and_distance", True): f"You moved to {where}. {distance}",
            ("place_and_distance", False): f"{blocked} You are in {where}. {distance}",
            ("distance", True): f"You moved. {distance}",
            ("distance", False): f"{blocked} {distance}",
            ("closer_or_farther", True): f"You moved {nearer} the goal.",
            ("closer_or_farther", False): blocked,
        }[self.told, has_moved]


@dataclass(frozen=True)
class Bandit:
    """A state is the points that were paid so far, each with whether it was a right pull after the change."""

    told: str
    wanted: int
    points: tuple
    drift: int
    shift: int
    n_before: int
    first: tuple = ()

    @property
    def actions(self):
        return range(1, len(self.points) + 1)

    def paying(self, n_pulls):
        """Return what the arms pay now: the payoffs, moved on place by place."""
        now = list(self.points)
        for pull in range(n_pulls + 1):
            n_places = (self.drift if pull else 0) + (self.shift if pull == self.n_before else 0)
            for _ in range(n_places):
                now = [now[-1], *now[:-1]]
        return now

    def after(self, paid, arm):
        if arm not in self.actions:
            return paid
        points = self.paying(len(paid))[arm - 1]
        return (*paid, (points, len(paid) >= self.n_before and points == max(self.points)))

    def streak(self, paid):
        n = 0
        for _, is_right in reversed(paid):
            if not is_right:
                break
            n += 1
        return n

    def is_goal(self, paid):
        return self.streak(paid) >= self.wanted

    def progress(self, states):
        return max(self.streak(paid) for paid in states) / self.wanted

    def feedback(self, arm, before, now):
        if arm not in self.actions:
            return f"There is no arm {arm}, only arms 1 to {len(self.points)}: nothing was pulled."
        goal = f" It is the goal: {self.wanted} right pulls in a row." if self.is_goal(now) else ""
        paid = now[-1][0]
        if self.told == "points":
            return f"Arm {arm} paid {paid} {'point' if paid == 1 else 'points'}.{goal}"
        if not before:
            return f"Arm {arm} paid; there is no pull before to compare it with."
        words = {-1: "fewer than", 0: "as many as", 1: "more than"}
        last = before[-1][0]
        return f"Arm {arm} paid {words[(paid > last) - (paid < last)]} the pull before.{goal}"


@dataclass(frozen=True)
class Lamps:
    """A state is the set of lamps that are lit, by their numbers."""

    told: str
    first: frozenset
    wiring: tuple

    @property
    def actions(self):
        return range(1, len(self.wiring) + 1)

    def after(self, lit, button):
        return lit ^ self.wiring[button - 1] if button in self.actions else lit

    def is_goal(self, lit):
        return len(lit) == len(self.wiring)

    @cached_property
    def n_left(self):
        """Fewest presses to the goal, from every state that has a way: a walk back from the goal."""
        found = {frozenset(self.actions): 0}
        waiting = deque(found)
        while waiting:
            lit = waiting.popleft()
            for switched in self.wiring:
                if lit ^ switched not in found:
                    found[lit ^ switched] = found[lit] + 1
                    waiting.append(lit ^ switched)
        return found

    def progress(self, states):
        return 1 - min(self.n_left[lit] for lit in states) / self.n_left[self.first]

    def feedback(self, button, before, now):
        n = len(self.wiring)
        if button not in self.actions:
            return f"There is no button {button}, only buttons 1 to {n}: nothing was pressed."
        verb = "is" if len(now) == 1 else "are"
        if self.told == "count":
            told = f"{len(now)} {'lamp' if len(now) == 1 else 'lamps'} {verb} lit."
        elif not now:
            told = "No lamp is lit."
        else:
            numbers = joined([str(lamp) for lamp in sorted(now)])
            told = f"{'Lamp' if len(now) == 1 else 'Lamps'} {numbers} {verb} lit."
        return told + (" All are: it is the goal." if len(now) == n else "")


@dataclass(frozen=True)
class Workshop:
    """A state is the stock; a machine is what it takes, what it gives, and the units of both."""

    told: str
    first: tuple
    goal: int
    wanted: int
    machines: tuple

    @property
    def actions(self):
        return (*range(len(self.machines)), RESTART)

    def after(self, stock, action):
        if action == RESTART:
            return self.first
        if action >= len(self.machines):
            return stock
        taken, given, n_taken, n_given = self.machines[action]
        units = list(stock)
        while units[taken] >= n_taken:
            units[taken] -= n_taken
            units[given] += n_given
        return tuple(units)

    def is_goal(self, stock):
        return stock[self.goal] == self.wanted

    def progress(self, states):
        missed_by = min(abs(self.wanted - stock[self.goal]) for stock in states)
        return 1 - missed_by / abs(self.wanted - self.first[self.goal])

    def feedback(self, action, before, now):
        if action != RESTART and action >= len(self.machines):
            letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
            last = letters[len(self.machines) - 1]
            return f"There is no machine {letters[action]}, only machines A to {last}: nothing was run."
        units = [f"{n} {name}" for n, name in zip(now, NAMES, strict=False)]
        told = joined(units) if self.told == "stock" else units[self.goal]
        return f"You have {told}." + (" It is the goal." if self.is_goal(now) else "")


@cache
def fewest(second, state, most=20):
    """Return the steps of a shortest way to the goal, by breadth-first search; None where there is none."""
    if second.is_goal(state):
        return 0
    seen, rim = {state}, [state]
    for n_steps in range(1, most + 1):
        reached = {second.after(one, action) for one in rim for action in second.actions} - seen
        if any(map(second.is_goal, reached)):
            return n_steps
        seen |= reached
        rim = list(reached)
    return None


def second_of(game, world, lane):
    """Return the second game of one episode."""
    if isinstance(game, HiddenGrid):
        cell = {number: divmod(number, game.size) for number in range(game.size**2)}
        rocks = frozenset(cell[number] for number in np.flatnonzero(world.rocks[lane]).tolist())
        start, goal = cell[int(world.start[lane])], cell[int(world.goal[lane])]
        return Grid(game.told, game.size, start, goal, tuple(world.wiring[lane].tolist()), rocks)
    if isinstance(game, SwitchingBandit):
        hidden = (int(world.drift[lane]), int(world.shift[lane]), int(world.n_before[lane]))
        return Bandit(game.told, game.n_in_a_row, tuple(world.points[lane].tolist()), *hidden)
    if isinstance(game, LightsOut):
        lit, *wiring = (
            frozenset(lamp for lamp in range(1, game.n_lamps + 1) if lamps >> (lamp - 1) & 1)
            for lamps in (int(world.lit[lane]), *world.toggles[lane].tolist())
        )
        return Lamps(game.told, lit, tuple(wiring))
    machines = tuple(
        (
            taken,
            int(world.follower[lane, taken]),
            int(world.n_taken[lane, taken]),
            int(world.n_given[lane, taken]),
        )
        for taken in world.taken[lane].tolist()
    )
    stock = tuple(world.stock[lane].tolist())
    return Workshop(game.told, stock, int(world.goal[lane]), int(world.n_goal[lane]), machines)


# every world that the rules allow, as second games, with those that cannot be solved


def every_grid(game, second):
    cells = list(product(range(game.size), repeat=2))
    wirings = list(permutations(range(4)))
    if game.wiring == "turned":
        wirings = [(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)]
    for rocks in combinations(cells, game.n_rocks):
        if len(rocks) == 2 and max(abs(rocks[0][0] - rocks[1][0]), abs(rocks[0][1] - rocks[1][1])) != 1:
            continue
        for goal in cells:
            for wiring in wirings:
                yield Grid(game.told, game.size, second.first, goal, wiring, frozenset(rocks))


def every_bandit(game, second):
    for points in permutations(range(1, game.n_arms + 1)):
        for drift in range(game.n_arms):
            for shift in range(1, game.n_arms):
                for n_before in range(game.first_change, game.last_change + 1):
                    yield Bandit(game.told, game.n_in_a_row, points, drift, shift, n_before)


def every_wiring(game, second):
    n = game.n_lamps

    def switched(button, distances, sign):
        return frozenset({button + 1, *((button + sign * distance) % n + 1 for distance in distances)})

    seen = set()
    for distances in combinations(range(1, n), 2):
        if game.directions == "own" and sum(distances) == n:
            continue
        for signs in product((1, -1), repeat=n) if game.directions == "own" else [(1,) * n]:
            wiring = tuple(switched(button, distances, signs[button]) for button in range(n))
            if wiring not in seen:
                seen.add(wiring)
                yield Lamps(game.told, second.first, wiring)


def every_workshop(game, second):
    n = len(game.recipes)
    for order in permutations(range(1, n)):
        loop = (0, *order)
        follower = {one: loop[(place + 1) % n] for place, one in enumerate(loop)}
        for recipes in set(permutations(game.recipes)):
            for taken in permutations(range(n)):
                machines = tuple((one, follower[one], *recipes[one]) for one in taken)
                yield Workshop(game.told, second.first, second.goal, second.wanted, machines)


EVERY: dict[str, Any] = {
    "hidden_grid": every_grid,
    "switching_bandit": every_bandit,
    "lights_out": every_wiring,
    "resource_loop": every_workshop,
}


def fewest_presses_by_elimination(second):
    """Return the fewest presses from the start; None where no set of buttons switches what is to be switched.

    Elimination over GF(2) gives one solution; others differ from it by sets of buttons that switch nothing.
    """
    n = len(second.wiring)
    basis, nothing = {}, [0]
    for button, switched in enumerate(second.wiring):
        lamps, used = sum(1 << (lamp - 1) for lamp in switched), 1 << button
        lamps, used = reduced(basis, lamps, used)
        if lamps:
            basis[lamps.bit_length()] = (lamps, used)
        else:
            nothing += [other ^ used for other in nothing]
    wanted = (1 << n) - 1 - sum(1 << (lamp - 1) for lamp in second.first)
    left, used = reduced(basis, wanted, 0)
    return None if left else min((used ^ other).bit_count() for other in nothing)


def reduced(basis, lamps, used):
    while lamps and lamps.bit_length() in basis:
        by, buttons = basis[lamps.bit_length()]
        lamps, used = lamps ^ by, used ^ buttons
    return lamps, used


# the tasks of the manifests


@dataclass(frozen=True)
class Task:
    """One level of a family, and what its score needs."""

    family: str
    level: int
    seeds: range
    game: Any
    budget: int
    free: int

    def dice(self, n=None):
        """Return the dice of the manifest's instances, or of as many further ones."""
        seeds = self.seeds if n is None else range(n)
        return [Dice(self.family, self.level, seed) for seed in seeds]

    def score(self, is_solved, n_steps, progress):
        """Return the composite: 0.55 solved, 0.25 efficiency with a floor of 0.10, 0.20 progress."""
        if not is_solved:
            return round(progress / 5, 4)
        spent = max(0, n_steps - self.free) / (self.budget - self.free)
        return round(0.55 + max(0.1, 1 - 0.9 * spent) / 4 + 0.2, 4)


def manifest_tasks():
    blocks = tomllib.loads((MANIFESTS / "learning" / "runtime_rl.toml").read_text(encoding="utf-8"))
    with (MANIFESTS / "learning_tasks.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["task_id"]: row for row in csv.DictReader(file)}
    for family in FAMILIES:
        module, name = blocks[family]["family"].split(":")
        made = getattr(import_module(f"generate.learning.runtime_rl.{module}"), name)
        seeds = blocks[family]["seeds"]
        for level, constants in enumerate(blocks[family]["levels"], start=1):
            row = rows[f"{family}_{level}"]
            yield Task(
                family,
                level,
                range(seeds["first"], seeds["first"] + seeds["count"]),
                made(**constants),
                int(row["budget_steps"]),
                int(row["min_explore_steps"]),
            )


TASKS = {f"{task.family}_{task.level}": task for task in manifest_tasks()}


@pytest.fixture(params=TASKS)
def task(request):
    return TASKS[request.param]


def only(episodes, lanes):
    """Return some episodes of a world or a state."""
    return type(episodes)(*(getattr(episodes, field.name)[lanes] for field in fields(episodes)))


def same(one, other):
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


def size_of(world):
    return len(getattr(world, fields(world)[0].name))


def step(game, world, state, actions):
    """Take one action per episode; None where an episode takes no part."""
    which = np.array([action is not None for action in actions])
    rows = np.array([[0 if action is None else action] for action in actions], dtype=np.int64)
    return game.step(world, state, rows, which)


def read(game, texts):
    found = [game.read(text) for text in texts]
    assert None not in found
    return [number for (number,) in found]


# drawing


def test_all_families_have_their_three_levels():
    assert list(TASKS) == [f"{family}_{level}" for family in FAMILIES for level in (1, 2, 3)]
    assert all(isinstance(task.game, Game) for task in TASKS.values())


def test_the_same_dice_give_the_same_worlds_and_others_other_ones(task):
    once, again = task.game.draw(task.dice()), task.game.draw(task.dice())
    assert same(once, again)
    seconds = [second_of(task.game, once, lane) for lane in range(len(task.seeds))]
    assert len(set(seconds)) == len(seconds)
    assert not same(once, task.game.draw([dice.named("other") for dice in task.dice()]))


def test_the_levels_of_a_family_differ():
    for family in FAMILIES:
        assert len({repr(task.game) for task in TASKS.values() if task.family == family}) == 3


def test_a_world_does_not_depend_on_those_drawn_beside_it(task):
    together = task.game.draw(task.dice(9))
    for lane in range(9):
        assert same(only(together, [lane]), task.game.draw([task.dice(9)[lane]]))


# what is hidden


def test_rivals_look_alike_at_the_start_and_the_true_world_is_among_them(task):
    world = task.game.draw(task.dice())
    for lane in range(len(task.seeds)):
        rivals = task.game.rivals(world, lane)
        assert set(task.game.introduction(rivals)) == {task.game.introduction(world)[lane]}
        seconds = [second_of(task.game, rivals, rival) for rival in range(size_of(rivals))]
        assert len(set(seconds)) == len(seconds) <= 2000
        assert second_of(task.game, world, lane) in seconds
        assert same(rivals, task.game.rivals(world, lane))


def test_an_introduction_tells_neither_the_grammar_nor_the_budget(task):
    for text in task.game.introduction(task.game.draw(task.dice())):
        assert task.game.grammar not in text
        assert not re.search(rf"\b{task.budget}\b", text)
        assert "  " not in text
        assert text == text.strip()


def test_the_example_of_the_grammar_can_be_read(task):
    examples = re.findall(r"`([^`]+)`", task.game.grammar)
    assert examples
    assert all(task.game.read(example) is not None for example in examples)


# what can be solved


def test_every_world_drawn_has_a_shortest_way_within_the_free_steps(task):
    world = task.game.draw(task.dice() + task.dice(6))
    n_best = task.game.n_best(world)
    for lane, n in enumerate(n_best.tolist()):
        second = second_of(task.game, world, lane)
        if isinstance(second, Bandit):
            # pulls before the change do not count, and those after it can all be right
            assert n == second.n_before + second.wanted
        else:
            assert n == fewest(second, second.first)
        assert 1 <= n <= task.free < task.budget


def test_rivals_are_the_worlds_of_the_rules_that_can_be_solved_and_no_others(task):
    world = task.game.draw(task.dice())
    second = second_of(task.game, world, 0)
    rivals = task.game.rivals(world, 0)
    found = {second_of(task.game, rivals, rival) for rival in range(size_of(rivals))}
    searched = {}

    def is_allowed(one):
        if isinstance(one, Bandit):
            return True
        if isinstance(one, Lamps):
            return fewest_presses_by_elimination(one) == task.game.n_presses
        # how machines and buttons are named makes no way shorter
        key = frozenset(one.machines) if isinstance(one, Workshop) else (one.goal, one.rocks)
        if key not in searched:
            most = task.game.most_runs if isinstance(one, Workshop) else 20
            searched[key] = fewest(one, one.first, most)
        if searched[key] is None:
            return False
        if isinstance(one, Workshop):
            return searched[key] >= task.game.fewest_runs
        return one.first not in one.rocks and one.away(one.first) >= task.game.least_distance

    assert found == set(filter(is_allowed, EVERY[task.family](task.game, second)))
    rivals_need = task.game.n_best(rivals)
    assert 1 <= rivals_need.min() <= rivals_need.max() <= task.free


def test_rocks_can_cut_off_the_goal_and_never_do():
    game = TASKS["hidden_grid_3"].game
    world = game.draw(TASKS["hidden_grid_3"].dice(500))
    cut_off = [
        one
        for one in every_grid(game, second_of(game, world, 0))
        if one.wiring == (0, 1, 2, 3)
        and not {one.first, one.goal} & one.rocks
        and fewest(one, one.first) is None
    ]
    # two rocks corner to corner before a corner: the start's is cut off from all of 22 cells, or the goal's
    assert len(cut_off) == 22 + 3
    assert (game.n_best(world) > 0).all()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_many_lamps_cannot_be_lit_and_such_are_never_drawn(level):
    task = TASKS[f"lights_out_{level}"]
    world = task.game.draw(task.dice(200))
    drawn = [second_of(task.game, world, lane) for lane in range(200)]
    assert {fewest_presses_by_elimination(one) for one in drawn} == {task.game.n_presses}
    needs = [fewest_presses_by_elimination(one) for one in every_wiring(task.game, drawn[0])]
    assert None in needs


def test_a_workshop_can_be_stuck_and_never_is_for_good():
    task = TASKS["resource_loop_2"]
    world = task.game.draw(task.dice())
    second = second_of(task.game, world, 0)
    # one unit of a material of which two are taken stays what it is
    needing_two = next(taken for taken, _, n_taken, _ in second.machines if n_taken == 2)
    stuck = Workshop(
        second.told,
        tuple(int(material == needing_two) for material in range(4)),
        second.goal,
        second.wanted,
        second.machines,
    )
    assert {stuck.after(stuck.first, action) for action in stuck.actions} == {stuck.first}
    world = only(world, [0])
    stock = np.array([stuck.first])
    assert task.game.n_best(replace(world, stock=stock)).tolist() == [-1]
    # in play, a restart leads out of it
    state = replace(task.game.start(world), stock=stock)
    assert task.game.best(world, state, [0]) == ["RESTART"]


@pytest.mark.parametrize(
    "game",
    [
        HiddenGrid(size=3, wiring="turned", n_rocks=0, told="distance", least_distance=5),
        ResourceLoop(
            recipes=((2, 1), (1, 1)),
            told="stock",
            most_stock=2,
            least_goal=9,
            most_goal=9,
            fewest_runs=1,
            most_runs=4,
        ),
    ],
    ids=lambda game: type(game).__name__,
)
def test_constants_without_a_world_are_named(game):
    with pytest.raises(InvalidSource, match=rf"{type(game).__name__}: expected constants that leave worlds"):
        game.draw([Dice("none")])


@pytest.mark.parametrize(
    ("task_id", "change"),
    [
        ("hidden_grid_1", {"size": 2}),
        ("hidden_grid_1", {"wiring": "straight"}),
        ("switching_bandit_1", {"last_change": 3}),
        ("switching_bandit_1", {"n_in_a_row": 0}),
        ("lights_out_1", {"n_presses": 10}),
        ("lights_out_1", {"n_lamps": 10}),
        ("resource_loop_1", {"most_goal": 7}),
        ("resource_loop_1", {"most_runs": 3}),
        ("resource_loop_1", {"recipes": ((0, 1), (1, 1))}),
        ("resource_loop_1", {"colour": "red"}),
    ],
)
def test_constants_that_make_no_sense_are_refused(task_id, change):
    game = TASKS[task_id].game
    assert type(game)(**game.model_dump()) == game
    with pytest.raises(ValidationError):
        type(game)(**game.model_dump() | change)


# who knows everything


def test_the_best_actions_solve_in_as_many_steps_as_there_are_on_a_shortest_way(task):
    world = task.game.draw(task.dice() + task.dice(40))
    n_best, state = task.game.n_best(world), task.game.start(world)
    lanes = list(range(len(n_best)))
    solved_at = np.zeros(len(n_best), dtype=int)
    for number in count(1):
        actions = [None] * len(n_best)
        for lane, action in zip(lanes, read(task.game, task.game.best(world, state, lanes)), strict=True):
            actions[lane] = action
        state, moved = step(task.game, world, state, actions)
        for lane in lanes:
            assert moved.is_legal[lane]
            solved_at[lane] = number if moved.is_solved[lane] else 0
        lanes = [lane for lane in lanes if not solved_at[lane]]
        if not lanes:
            break
        assert number < task.budget
    assert solved_at.tolist() == n_best.tolist()
    assert {task.score(True, int(n), 1.0) for n in n_best} == {1.0}


def test_from_anywhere_the_best_action_is_on_a_shortest_way(task):
    n = 6
    world = task.game.draw(task.dice(n))
    dice = [one.named("random") for one in task.dice(n)]
    state = task.game.start(world)
    places = [second_of(task.game, world, lane).first for lane in range(n)]
    for _ in range(5):
        actions = read(task.game, task.game.random(world, state, list(range(n)), dice))
        state, _ = step(task.game, world, state, actions)
        seconds = [second_of(task.game, world, lane) for lane in range(n)]
        places = [
            second.after(place, action)
            for second, place, action in zip(seconds, places, actions, strict=True)
        ]
    for lane, second in enumerate(seconds):
        if isinstance(second, Bandit) or second.is_goal(places[lane]):
            continue
        (action,) = read(task.game, task.game.best(world, state, [lane]))
        assert fewest(second, second.after(places[lane], action)) == fewest(second, places[lane]) - 1


@pytest.mark.parametrize("level", [1, 2, 3])
def test_of_a_bandit_every_best_pull_after_the_change_is_right(level):
    task = TASKS[f"switching_bandit_{level}"]
    drawn = task.game.draw(task.dice(30))
    for lane in range(30):
        second, world = second_of(task.game, drawn, lane), only(drawn, [lane])
        state, paid = task.game.start(world), ()
        for _ in range(second.n_before + second.wanted):
            (arm,) = read(task.game, task.game.best(world, state, [0]))
            state, _ = step(task.game, world, state, [arm])
            paid = second.after(paid, arm)
        assert [is_right for _, is_right in paid] == [False] * second.n_before + [True] * second.wanted


def test_the_best_arm_of_a_bandit_moves_on_evenly_and_jumps_once():
    for level in (1, 2, 3):
        task = TASKS[f"switching_bandit_{level}"]
        world = task.game.draw(task.dice(50))
        for lane in range(50):
            second = second_of(task.game, world, lane)
            best = [paying.index(max(paying)) for paying in map(second.paying, range(12))]
            steps = [(after - before) % task.game.n_arms for before, after in pairwise(best)]
            jump = steps.pop(second.n_before - 1)
            assert set(steps) == {second.drift} != {jump}


# rules


def test_random_play_goes_as_the_second_game_has_it(task):
    n, n_actions = 40, 0
    world = task.game.draw(task.dice(n))
    dice = Dice("play", task.family, task.level)
    seconds = [second_of(task.game, world, lane) for lane in range(n)]
    histories = [[second.first] for second in seconds]
    is_over = [False] * n
    state = task.game.start(world)
    while n_actions < 1000 and not all(is_over):
        # actions that are not there, and episodes that take no part, are among them
        named = [*seconds[0].actions, *([] if task.family == "hidden_grid" else [0, 9, 17])]
        actions = [None if over or dice.chance(0.1) else dice.choice(named) for over in is_over]
        before = state
        state, moved = step(task.game, world, state, actions)
        for lane, action in enumerate(actions):
            if action is None:
                assert moved.feedback[lane] == ""
                assert same(only(state, [lane]), only(before, [lane]))
                continue
            n_actions += 1
            second, history = seconds[lane], histories[lane]
            now = second.after(history[-1], action)
            assert moved.feedback[lane] == second.feedback(action, history[-1], now)
            assert moved.is_legal[lane] == (action in second.actions)
            if action not in second.actions:
                assert same(only(state, [lane]), only(before, [lane]))
            history.append(now)
            assert moved.progress[lane] == pytest.approx(second.progress(history), abs=1e-12)
            assert 0 <= moved.progress[lane] <= 1
            assert moved.is_solved[lane] == second.is_goal(now)
            assert (moved.progress[lane] == 1) == moved.is_solved[lane]
            is_over[lane] = second.is_goal(now)
    assert n_actions >= 1000


def test_episodes_side_by_side_go_as_one_by_one(task):
    n = 7
    world = task.game.draw(task.dice(n))
    dice = [one.named("random") for one in task.dice(n)]
    states = [task.game.start(only(world, [lane])) for lane in range(n)]
    together = task.game.start(world)
    is_over = np.zeros(n, dtype=bool)
    for _ in range(12):
        texts = task.game.random(world, together, list(range(n)), dice)
        actions = [
            None if over else action for over, action in zip(is_over, read(task.game, texts), strict=True)
        ]
        together, moved = step(task.game, world, together, actions)
        for lane in np.flatnonzero(~is_over).tolist():
            states[lane], alone = step(task.game, only(world, [lane]), states[lane], [actions[lane]])
            assert alone.feedback == [moved.feedback[lane]]
            for name in ("is_legal", "is_solved", "progress"):
                assert getattr(alone, name)[0] == getattr(moved, name)[lane]
            assert same(states[lane], only(together, [lane]))
        best = task.game.best(world, together, list(range(n)))
        assert best == [
            task.game.best(only(world, [lane]), only(together, [lane]), [0])[0] for lane in range(n)
        ]
        assert task.game.best(world, together, [5, 2]) == [best[5], best[2]]
        is_over |= moved.is_solved & np.array([action is not None for action in actions])


def test_random_actions_are_all_that_are_there_each_as_likely(task):
    world = task.game.draw(task.dice(1))
    texts = [
        task.game.random(world, task.game.start(world), [0], [Dice("one", number)])[0]
        for number in range(700)
    ]
    actions = second_of(task.game, world, 0).actions
    assert {number for (number,) in map(task.game.read, texts)} == set(actions)
    for text in set(texts):
        # 700 draws from at most 9: five standard deviations
        share = 1 / len(actions)
        assert abs(texts.count(text) / 700 - share) < 5 * (share * (1 - share) / 700) ** 0.5


# bad input


READ = {
    "hidden_grid_1": {"UP": 0, "right": 1, "Down.": 2, "press LEFT": 3, "MOVE UP": 0, "go right": 1},
    "switching_bandit_1": {
        "PULL 3": 3,
        "3": 3,
        "pull 03": 3,
        "PULL 9": 9,
        "Pull #2.": 2,
        "PULL 0": 0,
        "pull arm 4": 4,
        "Arm 2": 2,
    },
    "lights_out_1": {
        "PRESS 3": 3,
        "7": 7,
        "press 12": 12,
        "PRESS 999": 999,
        "press button 5.": 5,
        "button 6": 6,
    },
    "resource_loop_1": {"RUN A": 0, "b": 1, "run machine C": 2, "Z": 25, "RESTART": 26, "restart.": 26},
}
UNREADABLE = [
    "",
    "UP DOWN",
    "UPWARDS",
    "NORTH",
    "PULL",
    "PULL three",
    "PULL 1 2",
    "-1",
    "1.5",
    "1e3",
    "1000",
    "PULL \u0663",  # Arabic-Indic three
    "\uff13",  # full-width three
    "\u0969",  # Devanagari three
    "PRE\u017f\u017f 3",  # long s, which has the capital S
    "RE\u017fTART",
    "\uff21",  # full-width A
    "\u0410",  # Cyrillic A
    "RUN AB",
    "RUN 1A",
    "A\u0301",
    "UP\nDOWN",
    "\x00",
    "9" * 5000,
]


def test_actions_are_read_whatever_their_capitals():
    for task_id, texts in READ.items():
        for text, action in texts.items():
            assert TASKS[task_id].game.read(text) == (action,), text


def test_what_is_no_action_is_not_read(task):
    assert [text for text in UNREADABLE if task.game.read(text) is not None] == []


def test_a_megabyte_is_read_quickly(task):
    texts = [
        "UP" * 500_000,
        "PULL" + " " * 1_000_000,
        "PRESS #" + " " * 1_000_000,
        "RUN " * 250_000,
        "1" * 1_000_000,
        " " * 1_000_000,
        "A\n" * 500_000,
    ]
    began = time.perf_counter()
    assert [text for text in texts if task.game.read(text) is not None] == []
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("task_id", [name for name in TASKS if not name.startswith("hidden_grid")])
def test_an_illegal_action_forever_changes_nothing(task_id):
    task = TASKS[task_id]
    world = task.game.draw(task.dice(3))
    first = state = task.game.start(world)
    for _ in range(task.budget):
        state, moved = step(task.game, world, state, [25, 12, 10])
        assert not moved.is_legal.any()
        assert not moved.is_solved.any()
        assert moved.progress.tolist() == [0, 0, 0]
        assert all(text.startswith("There is no ") for text in moved.feedback)
    assert same(state, first)


def test_against_a_wall_forever_one_stays_where_one_is():
    task = TASKS["hidden_grid_3"]
    world = task.game.draw(task.dice(1))
    second = second_of(task.game, world, 0)
    blocked = next(action for action in second.actions if second.after(second.first, action) == second.first)
    first = state = task.game.start(world)
    for _ in range(task.budget):
        state, moved = step(task.game, world, state, [blocked])
        assert moved.is_legal.tolist() == [True]
        assert moved.progress.tolist() == [0]
        assert moved.feedback == ["The way is blocked: you stay in your cell."]
    assert same(state, first)


# floors and ceilings


def random_scores(task, n):
    """Play at random; return whether each of some episodes was solved, and the scores."""
    world = task.game.draw(task.dice(n))
    dice = [one.named("random") for one in task.dice(n)]
    state, lanes = task.game.start(world), list(range(n))
    steps, progress = np.zeros(n, dtype=int), np.zeros(n)
    for number in range(1, task.budget + 1):
        actions = [None] * n
        texts = task.game.random(world, state, lanes, [dice[lane] for lane in lanes])
        for lane, action in zip(lanes, read(task.game, texts), strict=True):
            actions[lane] = action
        state, moved = step(task.game, world, state, actions)
        for lane in lanes:
            progress[lane] = moved.progress[lane]
            steps[lane] = number if moved.is_solved[lane] else 0
        lanes = [lane for lane in lanes if not steps[lane]]
    return steps > 0, [task.score(steps[lane] > 0, steps[lane], progress[lane]) for lane in range(n)]


def test_random_play_mostly_fails(task, record_property):
    is_solved, scores = random_scores(task, 200)
    record_property("random_solved", is_solved.mean())
    record_property("random_mean", np.mean(scores))
    assert is_solved.mean() < 0.2
    assert 0.05 < np.mean(scores) < 0.3


def every_routine(task):
    """Return ways to play without feedback: to hold each arm in turn, to run machines in a fixed order."""
    if task.family == "switching_bandit":
        arms, held, last = range(1, task.game.n_arms + 1), task.game.n_in_a_row, task.game.last_change
        # the first arm is held until the change must be over; every next pull may be so many arms further on
        for drift in range(len(arms)):
            turns = [0] * (last + held) + [turn for turn in arms for _ in range(held)]
            yield [(turn + drift * pull) % len(arms) + 1 for pull, turn in enumerate(turns)][: task.budget]
    else:
        for order in permutations(range(len(task.game.recipes))):
            yield list(islice(cycle(order), task.budget))


@pytest.mark.parametrize(
    "task_id", [name for name in TASKS if name.startswith(("switching_bandit", "resource_loop"))]
)
def test_no_routine_that_takes_no_notice_of_feedback_solves_many(task_id):
    task, n = TASKS[task_id], 200
    world = task.game.draw(task.dice(n))
    shares = []
    for routine in every_routine(task):
        state, is_solved = task.game.start(world), np.zeros(n, dtype=bool)
        for action in routine:
            state, moved = step(task.game, world, state, [None if solved else action for solved in is_solved])
            is_solved |= moved.is_solved & ~is_solved
        shares.append(is_solved.mean())
    assert 0 < max(shares) < 0.45


def probed(task, world, lane):
    """Play the best action of the first rival that still fits; return the steps to the goal, and progress."""
    game = task.game
    rivals = game.rivals(world, lane)
    n = size_of(rivals)
    true, supposed = game.start(only(world, [lane])), game.start(rivals)
    fits = np.ones(n, dtype=bool)
    for number in range(1, task.budget + 1):
        (action,) = read(game, game.best(rivals, supposed, [int(fits.argmax())]))
        true, moved = step(game, only(world, [lane]), true, [action])
        if moved.is_solved[0]:
            return number, 1.0
        supposed, expected = step(game, rivals, supposed, [action] * n)
        fits &= [text == moved.feedback[0] for text in expected.feedback]
        assert fits.any()
    return None, float(moved.progress[0])


def test_a_systematic_prober_solves_most_episodes_well_before_the_budget(task, record_property):
    n = 12
    world = task.game.draw(task.dice(n))
    found = [probed(task, world, lane) for lane in range(n)]
    scores = [task.score(steps is not None, steps or 0, progress) for steps, progress in found]
    record_property("prober_mean", np.mean(scores))
    solved = [steps for steps, _ in found if steps is not None]
    assert len(solved) >= 0.9 * n
    assert np.mean(solved) < 0.75 * task.budget
    assert np.mean(scores) > 0.9


def test_a_thousand_episodes_are_a_few_array_operations(task):
    world = task.game.draw(task.dice(1000))
    state = task.game.start(world)
    action = second_of(task.game, world, 0).actions[0]
    durations = []
    for _ in range(5):
        began = time.perf_counter()
        step(task.game, world, state, [action] * 1000)
        durations.append(time.perf_counter() - began)
    # 1,000 lines of feedback are most of it
    assert min(durations) < 0.1
