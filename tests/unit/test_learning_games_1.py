"""Do Hanoi, Mastermind, Wordle and the lock keep to their rules, hide what is hidden, and can each be solved?

Every game is played a second time by a slow simulation, which is written from the rules as a player is told
them and shares no code with the game.
"""

import csv
import tomllib
from collections import deque
from dataclasses import dataclass, fields
from fractions import Fraction
from importlib import import_module
from itertools import pairwise, permutations, product
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from pydantic import ValidationError

from generate.learning.contract import Game
from generate.learning.dice import Dice
from generate.learning.runtime_rl.hanoi_two import Hanoi
from generate.learning.runtime_rl.mastermind_classic import Mastermind
from generate.learning.runtime_rl.ordered_lock import Lock
from generate.learning.runtime_rl.wordle_micro import Wordle

MANIFESTS = Path(__file__).parents[2] / "manifests"
FAMILIES = ("hanoi_two", "mastermind_classic", "wordle_micro", "ordered_lock")


@dataclass(frozen=True)
class Task:
    """One level of a family, and the parameters of its score."""

    id: str
    family: str
    game: Game
    level: dict
    seeds: range
    budget: int
    free: int

    def __str__(self):
        return self.id


def manifest_tasks():
    blocks = tomllib.loads((MANIFESTS / "learning" / "runtime_rl.toml").read_text())
    with (MANIFESTS / "learning_tasks.csv").open(newline="") as file:
        rows = {row["task_id"]: row for row in csv.DictReader(file)}
    found = []
    for family in FAMILIES:
        module, _, name = blocks[family]["family"].partition(":")
        first, count = blocks[family]["seeds"]["first"], blocks[family]["seeds"]["count"]
        made = getattr(import_module(f"generate.learning.runtime_rl.{module}"), name)
        for number, level in enumerate(blocks[family]["levels"], start=1):
            row = rows[f"{family}_{number}"]
            budget, free = int(row["budget_steps"]), int(row["min_explore_steps"])
            seeds = range(first, first + count)
            found.append(Task(row["task_id"], family, made(**level), level, seeds, budget, free))
    return found


TASKS = manifest_tasks()
every_task = pytest.mark.parametrize("task", TASKS, ids=str)
hanoi_tasks = pytest.mark.parametrize("task", [one for one in TASKS if one.family == "hanoi_two"], ids=str)


guessing_tasks = pytest.mark.parametrize(
    "task", [one for one in TASKS if one.family in ("mastermind_classic", "wordle_micro")], ids=str
)


# slow simulations


class SlowHanoi:
    """Disks on pegs, as lists."""

    def __init__(self, task, world, lane):
        self.n = task.level["n_disks"]
        code, self.pegs = int(world.start[lane]), []
        for _ in range(self.n):
            code, peg = divmod(code, 3)
            self.pegs.insert(0, peg)
        rest, self.banned_peg = divmod(int(world.configuration[lane]), 3)
        self.goal, self.banned_disk = divmod(rest, self.n)
        self.n_moves = self.n_valid = 0

    def place(self):
        return tuple(self.pegs)

    def act(self, action):
        origin, target = action
        self.n_moves += 1
        tops = [min((d for d in range(self.n) if self.pegs[d] == peg), default=None) for peg in range(3)]
        disk = tops[origin]
        is_legal = (
            disk is not None
            and origin != target
            and (tops[target] is None or disk < tops[target])
            and (disk, target) != (self.banned_disk, self.banned_peg)
        )
        if is_legal:
            self.pegs[disk] = target
            self.n_valid += 1
        is_solved = set(self.pegs) == {self.goal}
        on_goal = Fraction(self.pegs.count(self.goal), self.n)
        progress = max(Fraction(self.n_valid, self.n_moves), on_goal)
        told = "; ".join(
            "ABC"[peg]
            + ": "
            + (" ".join(str(d + 1) for d in range(self.n)[::-1] if self.pegs[d] == peg) or "empty")
            for peg in range(3)
        )
        move = f"{'ABC'[origin]}>{'ABC'[target]}: {'moved' if is_legal else 'refused'}. {told}."
        return is_legal, is_solved, progress, move + (" This is the goal." if is_solved else "")


class SlowMastermind:
    """Code and guess, symbol by symbol."""

    def __init__(self, task, world, lane):
        self.code = world.code[lane].tolist()
        self.slot = int(world.slot[lane])
        self.replacement = world.replacement[lane].tolist()
        self.most = 0

    def place(self):
        return 0

    def act(self, action):
        compared = [self.replacement[s] if slot == self.slot else s for slot, s in enumerate(action)]
        locked = [slot for slot, s in enumerate(compared) if s == self.code[slot]]
        unlocked_code = [s for slot, s in enumerate(self.code) if slot not in locked]
        drift = sum(s in compared for s in unlocked_code)
        self.most = max(self.most, len(locked))
        told = f"{''.join('ABCDE'[s] for s in action)}: LOCK {len(locked)}, DRIFT {drift}."
        return True, len(locked) == len(self.code), Fraction(self.most, len(self.code)), told


class SlowWordle:
    """Word and guess, letter by letter."""

    def __init__(self, task, world, lane):
        self.word = world.word[lane].tolist()
        lock, drift, void = ("ox+"[mark] for mark in world.marks[lane].tolist())
        self.lock, self.drift, self.void = lock, drift, void
        self.is_reversed, self.withheld = bool(world.is_reversed[lane]), int(world.withheld[lane])
        self.most = 0

    def place(self):
        return 0

    def act(self, action):
        report = []
        for slot, letter in enumerate(action):
            if letter == self.word[slot]:
                report.append(self.lock)
            else:
                report.append(self.drift if letter in self.word else self.void)
        n_locked = report.count(self.lock)
        if self.is_reversed:
            report.reverse()
        if self.withheld >= 0:
            report[self.withheld] = "."
        self.most = max(self.most, n_locked)
        is_solved = n_locked == len(self.word)
        told = "This is the word." if is_solved else "".join(report)
        guess = "".join("PQRST"[letter] for letter in action)
        return True, is_solved, Fraction(self.most, len(self.word)), f"{guess}: {told}"


class SlowLock:
    """The presses in place, as a list of buttons."""

    def __init__(self, task, world, lane):
        self.order = [button + 1 for button in world.order[lane].tolist()]
        self.setback = ("all", "all_but_it", "one", "two", "half")[int(world.setback[lane])]
        assert self.setback in task.level["setbacks"]
        self.has_lamps = task.level["has_lamps"]
        self.n = self.most = 0

    def place(self):
        return self.n

    def act(self, action):
        (button,) = action
        if button == self.order[self.n]:
            self.n, word = self.n + 1, "right"
        else:
            word = "wrong"
            self.n = {
                "all": 0,
                "all_but_it": 1 if button == self.order[0] else 0,
                "one": self.n - 1 if self.n >= 1 else 0,
                "two": self.n - 2 if self.n >= 2 else 0,
                "half": int(self.n / 2),
            }[self.setback]
        self.most = max(self.most, self.n)
        is_open = self.n == len(self.order)
        lamps = f" Presses in place: {self.n} of {len(self.order)}." if self.has_lamps else ""
        told = f"Button {button}: {word}.{' The lock is open.' if is_open else lamps}"
        return True, is_open, Fraction(self.most, len(self.order)), told


SLOW = dict(zip(FAMILIES, (SlowHanoi, SlowMastermind, SlowWordle, SlowLock), strict=True))


def slow(task, world, lane=0):
    return SLOW[task.family](task, world, lane)


def all_actions(task):
    level = task.level
    if task.family == "hanoi_two":
        return list(product(range(3), repeat=2))
    if task.family == "ordered_lock":
        return [(button,) for button in range(1, level["n_buttons"] + 1)]
    n_symbols = level.get("n_symbols") or level["n_letters"]
    return list(product(range(n_symbols), repeat=level["n_slots"]))


def fewest_actions(task, world, lane=0):
    """Breadth-first over the slow simulation, which is played again from the start for each new action."""
    waiting, known = deque([()]), {slow(task, world, lane).place()}
    while waiting:
        way = waiting.popleft()
        for action in all_actions(task):
            game = slow(task, world, lane)
            for one in way:
                game.act(one)
            if game.act(action)[1]:
                return len(way) + 1
            if game.place() not in known:
                known.add(game.place())
                waiting.append((*way, action))
    return None


# helpers of play


def dice(task, n, purpose="world"):
    return [Dice("games", task.id, purpose, number) for number in range(n)]


def drawn(task, n, purpose="world"):
    return task.game.draw(dice(task, n, purpose))


def lane_of(world, lane):
    return type(world)(*(getattr(world, field.name)[[lane]] for field in fields(world)))


def key(world, lane):
    return tuple(tuple(np.atleast_1d(getattr(world, field.name)[lane]).tolist()) for field in fields(world))


def n_lanes(world):
    return len(getattr(world, fields(world)[0].name))


def take(task, world, state, actions, which=None):
    actions = np.array(actions, dtype=np.int64)
    taking = np.ones(len(actions), dtype=bool) if which is None else which
    return task.game.step(world, state, actions, taking)


def composite(task, step, progress):
    """Score by the document: ``step`` is the one that solved it, or None."""
    efficiency = Fraction(0)
    if step is not None:
        paid = Fraction(max(step - task.free, 0), task.budget - task.free)
        efficiency = max(Fraction(1, 10), 1 - Fraction(9, 10) * paid)
    solved = Fraction(step is not None)
    return float(Fraction(55, 100) * solved + Fraction(25, 100) * efficiency + Fraction(20, 100) * progress)


def play_at_random(task, n):
    """Return per episode the step that solved it, or None, and the last progress."""
    world, chance = drawn(task, n, "floor"), dice(task, n, "random")
    state, live = task.game.start(world), np.ones(n, dtype=bool)
    steps, progress = [None] * n, [0.0] * n
    width = len(all_actions(task)[0])
    for number in range(1, task.budget + 1):
        lanes = np.flatnonzero(live).tolist()
        actions = np.zeros((n, width), dtype=np.int64)
        texts = task.game.random(world, state, lanes, [chance[lane] for lane in lanes])
        for lane, text in zip(lanes, texts, strict=True):
            actions[lane] = task.game.read(text)
        state, moved = take(task, world, state, actions, live)
        for lane in lanes:
            progress[lane] = float(moved.progress[lane])
            if moved.is_solved[lane]:
                steps[lane], live[lane] = number, False
    return steps, progress


def probe(task, world, lane):
    """Play the best action of the first rival that still fits, all rivals side by side."""
    truth, rivals = lane_of(world, lane), task.game.rivals(world, lane)
    n = n_lanes(rivals)
    state, rival_states, fits = task.game.start(truth), task.game.start(rivals), np.ones(n, dtype=bool)
    for number in range(1, task.budget + 1):
        first = int(fits.argmax())
        action = task.game.read(task.game.best(rivals, rival_states, [first])[0])
        state, moved = take(task, truth, state, [action])
        if moved.is_solved[0]:
            return number, 1.0
        rival_states, theirs = take(task, rivals, rival_states, [action] * n, fits)
        fits &= np.array([told == moved.feedback[0] for told in theirs.feedback]) & ~theirs.is_solved
        assert fits.any()
    return None, float(moved.progress[0])


# draws


@every_task
def test_a_task_is_a_game(task):
    assert isinstance(task.game, Game)
    assert task.game.grammar.count("`") == 2


@every_task
def test_the_same_dice_draw_the_same_world_and_others_another(task):
    worlds = [drawn(task, 40) for _ in range(2)]
    keys = [[key(world, lane) for lane in range(40)] for world in worlds]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) >= 15
    assert [key(drawn(task, 40, "other"), lane) for lane in range(40)] != keys[0]


@every_task
def test_the_instances_of_a_task_differ(task):
    world = task.game.draw([Dice(task.family, int(task.id[-1]), seed) for seed in task.seeds])
    keys = [key(world, lane) for lane in range(n_lanes(world))]
    assert len(set(keys)) == len(keys) == 4
    assert (task.game.n_best(world) <= task.free).all()


@every_task
def test_a_batch_draws_and_plays_as_one_by_one(task):
    n = 12
    world, chance = drawn(task, n), dice(task, n, "chance")
    state, alone = task.game.start(world), []
    for lane, one in enumerate(dice(task, n)):
        world_alone = task.game.draw([one])
        assert key(world_alone, 0) == key(world, lane)
        alone.append((world_alone, task.game.start(world_alone)))
    for _ in range(10):
        texts = task.game.random(world, state, range(n), chance)
        best = task.game.best(world, state, range(n))
        state, moved = take(task, world, state, [task.game.read(text) for text in texts])
        for lane, (world_alone, state_alone) in enumerate(alone):
            assert task.game.best(world_alone, state_alone, [0]) == [best[lane]]
            after, moved_alone = take(task, world_alone, state_alone, [task.game.read(texts[lane])])
            assert moved_alone.feedback == [moved.feedback[lane]]
            assert moved_alone.progress[0] == moved.progress[lane]
            assert moved_alone.is_legal[0] == moved.is_legal[lane]
            alone[lane] = (world_alone, after)
        if moved.is_solved.any():
            break


@every_task
def test_no_episodes_can_be_drawn_and_stepped(task):
    world = task.game.draw([])
    width = len(all_actions(task)[0])
    _, moved = task.game.step(
        world, task.game.start(world), np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=bool)
    )
    assert moved.feedback == task.game.introduction(world) == []
    assert task.game.n_best(world).tolist() == []


# what is hidden


@every_task
def test_rivals_hold_the_true_world_once_and_look_like_it(task):
    world = drawn(task, 6)
    for lane in range(6):
        rivals = task.game.rivals(world, lane)
        keys = [key(rivals, rival) for rival in range(n_lanes(rivals))]
        assert keys.count(key(world, lane)) == 1
        assert len(set(keys)) == len(keys) <= 2000
        assert set(task.game.introduction(rivals)) == {task.game.introduction(world)[lane]}


@every_task
def test_rivals_are_all_that_is_drawn_with_the_same_look(task):
    n = 4000
    world = drawn(task, n, "many")
    seen = task.game.introduction(world)
    together = {key(world, lane) for lane in range(n) if seen[lane] == seen[0]}
    rivals = task.game.rivals(world, 0)
    keys = {key(rivals, rival) for rival in range(n_lanes(rivals))}
    assert together <= keys
    # as many as there are need not all come up
    assert len(together) > len(keys) / 4


@guessing_tasks
def test_enough_guesses_tell_all_rivals_apart(task):
    rivals = task.game.rivals(drawn(task, 1), 0)
    n = n_lanes(rivals)
    told = [[] for _ in range(n)]
    for action in Dice("games", task.id, "apart").sample(all_actions(task), 60):
        _, moved = take(task, rivals, task.game.start(rivals), [action] * n)
        for rival, text in enumerate(moved.feedback):
            told[rival].append(text)
    assert len(set(map(tuple, told))) == n


@hanoi_tasks
def test_hanoi_never_tells_how_many_disks_are_where_they_belong(task):
    world = drawn(task, 1)
    rivals = task.game.rivals(world, 0)
    n = n_lanes(rivals)
    _, moved = take(task, rivals, task.game.start(rivals), [(0, 1)] * n)
    told = {(text, solved) for text, solved in zip(moved.feedback, moved.is_solved.tolist(), strict=True)}
    # one text where the ban refuses it, one where it does not
    assert len(told) <= 2


# solvability


@every_task
def test_a_shortest_way_is_as_long_as_search_finds_and_within_the_free_zone(task):
    n = 40 if task.family == "hanoi_two" else 5
    world = drawn(task, n)
    found = [fewest_actions(task, world, lane) for lane in range(n)]
    assert found == task.game.n_best(world).tolist()
    assert max(found) <= task.free < task.budget
    assert min(found) >= task.level.get("shortest", 1)


@every_task
def test_best_solves_in_a_shortest_way_and_scores_one(task):
    n = 60
    world = drawn(task, n)
    state, live, needed = task.game.start(world), np.ones(n, dtype=bool), task.game.n_best(world)
    width = len(all_actions(task)[0])
    for number in range(1, int(needed.max()) + 1):
        lanes = np.flatnonzero(live).tolist()
        actions = np.zeros((n, width), dtype=np.int64)
        for lane, text in zip(lanes, task.game.best(world, state, lanes), strict=True):
            actions[lane] = task.game.read(text)
        state, moved = take(task, world, state, actions, live)
        for lane in lanes:
            assert moved.is_legal[lane]
            assert moved.is_solved[lane] == (number == needed[lane])
            if moved.is_solved[lane]:
                assert composite(task, number, Fraction(moved.progress[lane])) == pytest.approx(1)
                live[lane] = False
    assert not live.any()


@every_task
def test_best_goes_on_from_anywhere(task):
    n = 30
    world, chance = drawn(task, n, "astray"), dice(task, n, "astray")
    state, live = task.game.start(world), np.ones(n, dtype=bool)
    width = len(all_actions(task)[0])
    for number in range(80):
        lanes = np.flatnonzero(live).tolist()
        actions = np.zeros((n, width), dtype=np.int64)
        texts = (
            task.game.random(world, state, lanes, [chance[lane] for lane in lanes])
            if number < 7
            else task.game.best(world, state, lanes)
        )
        for lane, text in zip(lanes, texts, strict=True):
            actions[lane] = task.game.read(text)
        state, moved = take(task, world, state, actions, live)
        live &= ~moved.is_solved
    assert not live.any()


def raw_hanoi(n_disks, start):
    """Return shortest ways of all configurations from a start, and those from which one can go astray."""
    lengths, traps = {}, set()
    for configuration in range(9 * n_disks):
        goal, ban = configuration // (3 * n_disks), divmod(configuration % (3 * n_disks), 3)
        reached, waiting, ways = {start: 0}, deque([start]), {}
        while waiting:
            pegs = waiting.popleft()
            ways[pegs] = []
            if set(pegs) == {goal}:
                continue
            for disk, target in product(range(n_disks), range(3)):
                is_free = pegs[disk] not in pegs[:disk] and target not in (*pegs[:disk], pegs[disk])
                if is_free and (disk, target) != ban:
                    after = (*pegs[:disk], target, *pegs[disk + 1 :])
                    ways[pegs].append(after)
                    if after not in reached:
                        reached[after] = reached[pegs] + 1
                        waiting.append(after)
        lengths[configuration] = reached.get((goal,) * n_disks)
        good = {(goal,) * n_disks}
        while more := {pegs for pegs, after in ways.items() if pegs not in good and good & set(after)}:
            good |= more
        if set(ways) - good:
            traps.add(configuration)
    return lengths, traps


@pytest.mark.parametrize(
    "level",
    [
        *(task.level for task in TASKS if task.family == "hanoi_two"),
        # within these bounds there are worlds that can be solved, and lost as well
        {"n_disks": 3, "is_scattered": True, "shortest": 1, "longest": 17},
    ],
    ids=str,
)
def test_hanoi_worlds_that_cannot_be_solved_exist_and_are_never_drawn(level):
    n_disks, shortest, longest = (level[name] for name in ("n_disks", "shortest", "longest"))
    task = Task("hanoi", "hanoi_two", Hanoi(**level), level, range(0), 0, 0)
    by_start = {}
    first = drawn(task, 300, "starts")
    for lane in range(300):
        if (start := tuple(slow(task, first, lane).pegs)) not in by_start:
            rivals = task.game.rivals(first, lane)
            by_start[start] = set(rivals.configuration.tolist())
    assert all((len(set(start)) > 1) == level["is_scattered"] for start in by_start)
    for start, configurations in by_start.items():
        lengths, traps = raw_hanoi(n_disks, start)
        assert len(lengths) == 3 * 3 * n_disks
        assert None in lengths.values()
        assert configurations == {
            one for one, n in lengths.items() if n and shortest <= n <= longest and one not in traps
        }


def test_hanoi_from_a_tower_has_six_hopeless_worlds_and_nine_that_are_solved_at_the_start():
    lengths, traps = raw_hanoi(3, (0, 0, 0))
    # each of 3 disks banned from each of 2 goal pegs; 9 bans where the goal peg is that of the tower
    assert sum(n is None for n in lengths.values()) == 3 * 2
    assert sum(n == 0 for n in lengths.values()) == 9
    assert {n for n in lengths.values() if n} == {2**3 - 1, 9, 11, 17}
    assert traps <= {one for one, n in lengths.items() if n is None}


def test_some_hanoi_worlds_can_be_solved_but_also_lost_on_the_way():
    can_be_lost = 0
    for pegs in product(range(3), repeat=3):
        lengths, traps = raw_hanoi(3, pegs)
        can_be_lost += sum(lengths[one] is not None for one in traps)
    assert can_be_lost > 0


# steps


@every_task
def test_steps_are_those_of_a_slow_simulation(task):
    n, chance = 40, Dice("games", task.id, "any action")
    world = drawn(task, n, "slow")
    state, games, live = task.game.start(world), [slow(task, world, lane) for lane in range(n)], set(range(n))
    actions = all_actions(task)
    n_legal = 0
    for _ in range(25):
        chosen = [chance.choice(actions) for _ in range(n)]
        which = np.array([lane in live for lane in range(n)])
        state, moved = take(task, world, state, chosen, which)
        for lane in range(n):
            if lane not in live:
                assert moved.feedback[lane] == ""
                continue
            is_legal, is_solved, progress, feedback = games[lane].act(chosen[lane])
            assert bool(moved.is_legal[lane]) == is_legal
            assert bool(moved.is_solved[lane]) == is_solved
            assert moved.progress[lane] == pytest.approx(float(progress))
            assert 0 <= moved.progress[lane] <= 1
            assert moved.feedback[lane] == feedback
            n_legal += is_legal
            if is_solved:
                live.discard(lane)
    assert n_legal > 100


@every_task
def test_episodes_that_take_no_part_stay_as_they_are(task):
    world = drawn(task, 4)
    before = task.game.start(world)
    which = np.array([True, False, True, False])
    width = len(all_actions(task)[0])
    actions = np.zeros((4, width), dtype=np.int64)
    for lane, text in zip((0, 2), task.game.best(world, before, [0, 2]), strict=True):
        actions[lane] = task.game.read(text)
    after, moved = take(task, world, before, actions, which)
    assert [bool(told) for told in moved.feedback] == which.tolist()
    for field in fields(after):
        assert (getattr(after, field.name)[~which] == getattr(before, field.name)[~which]).all()


@hanoi_tasks
def test_a_refused_move_is_told_and_changes_nothing_but_the_share_of_valid_moves(task):
    world = drawn(task, 1)
    before = task.game.start(world)
    state, moved = take(task, world, before, [(1, 1)])
    assert not moved.is_legal[0]
    assert moved.feedback[0].startswith("B>B: refused.")
    assert state.arrangement.tolist() == before.arrangement.tolist()
    on_goal = slow(task, world).pegs.count(slow(task, world).goal)
    assert moved.progress[0] == pytest.approx(on_goal / task.level["n_disks"])
    state, moved = take(task, world, state, [task.game.read(task.game.best(world, state, [0])[0])])
    assert moved.progress[0] >= 1 / 2


@hanoi_tasks
def test_a_move_that_the_rules_allow_is_refused_by_the_ban_alone_and_told_in_the_same_words(task):
    n = 60
    world, chance = drawn(task, n), dice(task, n, "visible")
    state, n_refused = task.game.start(world), 0
    for _ in range(12):
        texts = task.game.random(world, state, range(n), chance)
        before = state
        state, moved = take(task, world, state, [task.game.read(text) for text in texts])
        for lane in np.flatnonzero(~moved.is_legal).tolist():
            game = slow(task, world, lane)
            pegs = slow(task, type(world)(before.arrangement, world.configuration), lane).pegs
            origin, _, target = texts[lane].partition(">")
            assert pegs.index("ABC".index(origin)) == game.banned_disk
            assert "ABC".index(target) == game.banned_peg
            n_refused += 1
        _, against_rules = take(task, world, state, [(0, 0)] * n)
        for lane in np.flatnonzero(~moved.is_legal).tolist():
            told, other = moved.feedback[lane], against_rules.feedback[lane]
            assert told.removeprefix(texts[lane]) == other.removeprefix("A>A")
    assert n_refused > 10


def test_progress_of_guesses_and_locks_is_the_best_so_far():
    for task in TASKS:
        if task.family == "hanoi_two":
            continue
        world, chance = drawn(task, 20), Dice("games", "best so far")
        state, last = task.game.start(world), np.zeros(20)
        for _ in range(15):
            state, moved = take(
                task, world, state, [chance.choice(all_actions(task)) for _ in range(20)], ~(last >= 1)
            )
            assert (moved.progress >= last).all()
            last = moved.progress


# reading


@every_task
def test_what_is_written_by_the_game_is_read(task):
    world = drawn(task, 10)
    state = task.game.start(world)
    example = task.game.grammar.split("`")[1]
    texts = [
        example,
        *task.game.best(world, state, range(10)),
        *task.game.random(world, state, range(10), dice(task, 10)),
    ]
    actions = set(all_actions(task))
    assert all(task.game.read(text) in actions for text in texts)
    assert all(task.game.read(text.lower()) == task.game.read(text) for text in texts)


@pytest.mark.parametrize(
    ("family", "text", "action"),
    [
        ("hanoi_two", "A>C", (0, 2)),
        ("hanoi_two", "b -> a", (1, 0)),
        ("hanoi_two", "C to B", (2, 1)),
        ("hanoi_two", "A>A", (0, 0)),
        ("hanoi_two", "B>C.", (1, 2)),
        ("wordle_micro", "PQRS.", (0, 1, 2, 3)),
        ("hanoi_two", "A>D", None),
        ("hanoi_two", "A>C>B", None),
        ("mastermind_classic", "ABCA", (0, 1, 2, 0)),
        ("mastermind_classic", "a, b, c, d", (0, 1, 2, 3)),
        ("mastermind_classic", "A B C", None),
        ("mastermind_classic", "ABCZ", None),
        ("mastermind_classic", "ABCDA", None),
        ("wordle_micro", "p-q-r-s", (0, 1, 2, 3)),
        ("wordle_micro", "TTTT", (4, 4, 4, 4)),
        ("wordle_micro", "ſQRP", None),
        ("hanoi_two", "A → C", (0, 2)),
        ("hanoi_two", "A => C", (0, 2)),
        ("hanoi_two", "Move B to C.", (1, 2)),
        ("hanoi_two", "from C to A", (2, 0)),
        ("hanoi_two", "A-B", (0, 1)),
        ("hanoi_two", "move 1", None),
        ("hanoi_two", "A>B, B>C", None),
        ("ordered_lock", "3", (3,)),
        ("ordered_lock", "press 1", (1,)),
        ("ordered_lock", "Press button 2.", (2,)),
        ("ordered_lock", "button #4", (4,)),
        ("ordered_lock", "7", (7,)),
        ("ordered_lock", "press 1 2", None),
        ("ordered_lock", "-1", None),
        ("ordered_lock", "٣", None),
        ("ordered_lock", "３", None),
        ("ordered_lock", "²", None),
        ("hanoi_two", "А>С", None),
        ("mastermind_classic", "ＡＢＣＤ", None),
    ],
)
def test_actions_are_read_by_their_grammar(family, text, action):
    game = next(task.game for task in TASKS if task.family == family)
    assert game.read(text) == action


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task.family == "ordered_lock"], ids=lambda t: t.id
)
def test_a_button_that_is_not_there_is_told_and_changes_nothing(task):
    world, n = drawn(task, 3), task.level["n_buttons"]
    state, _ = take(task, world, task.game.start(world), (world.order[:, :1] + 1).tolist())
    for number in (0, n + 1, 999):
        after, moved = take(task, world, state, [(number,)] * 3)
        assert not moved.is_legal.any() and not moved.is_solved.any()
        assert (after.n_in_place == 1).all() and (after.most_in_place == 1).all()
        told = f"There is no button {number}, only buttons 1 to {n}: nothing was pressed."
        assert moved.feedback == [told] * 3


@every_task
@pytest.mark.parametrize("filler", ["A", " ", "A ", "1", "press", "press ", "A>", "P,", "\u0301", "\x00"])
def test_a_megabyte_is_no_action_and_is_told_at_once(task, filler):
    start = process_time()
    for text in (filler * 10**6, "press" + filler * 10**6, "A" + filler * 10**6, filler * 10**6 + "A"):
        assert task.game.read(text) is None
    assert task.game.read("") is None
    assert process_time() - start < 1


# floor and prober


@every_task
def test_random_play_mostly_fails(task):
    steps, progress = play_at_random(task, 200)
    solved = sum(step is not None for step in steps) / 200
    mean = sum(composite(task, *one) for one in zip(steps, map(Fraction, progress), strict=True)) / 200
    assert solved < 0.2
    # where every move that is not refused counts as progress, 0.20 of the score is nearly free
    assert mean < (0.32 if task.family == "hanoi_two" else 0.22)


@every_task
def test_a_systematic_player_solves_nearly_all_within_the_budget(task):
    n = 60 if task.family == "hanoi_two" else 16
    world = drawn(task, n, "probe")
    found = [probe(task, world, lane) for lane in range(n)]
    solved = [step for step, _ in found if step is not None]
    assert len(solved) >= 0.9 * n
    assert sum(solved) / len(solved) < 0.6 * task.budget
    assert sum(composite(task, step, Fraction(progress)) for step, progress in found) / n > 0.8


# constants


@pytest.mark.parametrize(
    ("made", "constants"),
    [
        (Hanoi, {"n_disks": 3, "is_scattered": True, "shortest": 7, "longest": 13}),
        (Hanoi, {"n_disks": 3, "is_scattered": False, "shortest": 18, "longest": 30}),
        (Mastermind, {"n_slots": 4, "n_symbols": 3, "replacement": "shift"}),
        (Mastermind, {"n_slots": 4, "n_symbols": 4, "replacement": "swap"}),
        (Wordle, {"n_slots": 4, "n_letters": 3, "is_a_place_withheld": False, "may_be_reversed": False}),
        (Lock, {"n_buttons": 4, "n_presses": 5, "may_repeat": False, "has_lamps": True, "setbacks": ["all"]}),
        (Lock, {"n_buttons": 4, "n_presses": 4, "may_repeat": False, "has_lamps": True, "setbacks": []}),
        (
            Lock,
            {
                "n_buttons": 4,
                "n_presses": 4,
                "may_repeat": False,
                "has_lamps": True,
                "setbacks": ["one", "one"],
            },
        ),
    ],
)
def test_constants_that_leave_nothing_to_draw_are_refused(made, constants):
    with pytest.raises(ValidationError):
        made(**constants)


def test_the_hidden_spaces_are_as_large_as_arithmetic_says():
    sizes = {task.id: n_lanes(task.game.rivals(drawn(task, 1), 0)) for task in TASKS}
    words_of_four = len(list(permutations(range(5), 4)))
    derangements = sum(all(a != b for a, b in enumerate(one)) for one in permutations(range(4)))
    orders = sum(all(a != b for a, b in pairwise(one)) for one in product(range(4), repeat=5))
    assert {name: n for name, n in sizes.items() if not name.startswith("hanoi")} == {
        "mastermind_classic_1": 4 * 3 * 2 * 4 * 3,
        "mastermind_classic_2": 4 * 3 * 2 * 4 * derangements,
        "mastermind_classic_3": words_of_four * 4 * 4,
        "wordle_micro_1": words_of_four * 6,
        "wordle_micro_2": words_of_four * 6,
        "wordle_micro_3": words_of_four * 6 * 2,
        "ordered_lock_1": 5 * 4 * 3 * 2 * 2,
        "ordered_lock_2": 5 * 4 * 3 * 2 * 4,
        "ordered_lock_3": orders * 5,
    }
