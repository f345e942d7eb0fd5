"""Families of procedural learning: rounds that are fair, and transfer questions that practice answers."""

import copy
import csv
import re
import time
import tomllib
from collections import deque
from dataclasses import asdict, fields, is_dataclass, replace
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from procedural_players import PLAYERS

from generate.learning.contract import Practice
from generate.learning.dice import Dice
from store.errors import InvalidSource
from store.settings import project_dir

MANIFESTS = project_dir() / "manifests"
BLOCKS = tomllib.loads((MANIFESTS / "learning" / "procedural_learning.toml").read_text(encoding="utf-8"))
TASKS = [(family, level) for family in BLOCKS for level in (1, 2, 3)]
N_ROUNDS, N_QUESTIONS = 5, 4

with (MANIFESTS / "learning_tasks.csv").open(encoding="utf-8", newline="") as file:
    ROWS = {row["task_id"]: row for row in csv.DictReader(file)}

all_tasks = pytest.mark.parametrize(
    ("family", "level"), TASKS, ids=[f"{name}_{level}" for name, level in TASKS]
)
all_families = pytest.mark.parametrize("family", BLOCKS)


def made(family, level):
    module, name = BLOCKS[family]["family"].split(":")
    found = getattr(import_module(f"generate.learning.procedural_learning.{module}"), name)
    return found(**BLOCKS[family]["levels"][level - 1])


def dice_of(family, level, number):
    return Dice(family, level, BLOCKS[family]["seeds"]["first"] + number)


def episode(practice, dice, number=0):
    """Skill, one round and the questions of an episode."""
    skill = practice.skill(dice.named("skill"))
    world = practice.draw([skill], [dice.named("round", number)])
    return skill, world, practice.transfer(skill, dice.named("transfer"), N_QUESTIONS)


def budget(family, level):
    row = ROWS[f"{family}_{level}"]
    return int(row["budget_steps"]), int(row["min_explore_steps"])


_FRESH = {}


def fresh(family, level):
    """A player who knows the opening alone; the space of skills is built once."""
    if (family, level) not in _FRESH:
        _FRESH[family, level] = PLAYERS[family](BLOCKS[family]["levels"][level - 1])
    player = copy.copy(_FRESH[family, level])
    player.fits = player.fits.copy()
    return player


def take(practice, world, state, line, is_in=True):
    action = practice.read(line)
    assert action is not None, line
    return practice.step(world, state, np.array([action]), np.array([is_in]))


def plain(thing):
    """Everything that a world or state holds, as lists."""
    if is_dataclass(thing):
        return {field.name: plain(getattr(thing, field.name)) for field in fields(thing)}
    return thing.tolist() if isinstance(thing, np.ndarray) else thing


# --- instances ---


@all_tasks
def test_the_same_dice_give_the_same_instances_and_others_give_others(family, level):
    practice = made(family, level)
    assert isinstance(practice, Practice)
    once, again, other = (plain(episode(practice, dice_of(family, level, number))[1]) for number in (0, 0, 1))
    assert once == again != other
    asked = [
        [question.text for question in episode(practice, dice_of(family, level, number))[2]]
        for number in (0, 0, 1)
    ]
    assert asked[0] == asked[1] != asked[2]
    skills = {repr(practice.skill(dice_of(family, level, number).named("skill"))) for number in range(20)}
    assert len(skills) > 10


@all_tasks
def test_all_rounds_and_questions_of_the_instances_are_different(family, level):
    practice = made(family, level)
    for number in range(BLOCKS[family]["seeds"]["count"]):
        dice = dice_of(family, level, number)
        skill = practice.skill(dice.named("skill"))
        dice_of_rounds = [dice.named("round", n_round) for n_round in range(N_ROUNDS)]
        rounds = [practice.introduction(practice.draw([skill], [die]))[0] for die in dice_of_rounds]
        assert len(set(rounds)) == N_ROUNDS
        questions = practice.transfer(skill, dice.named("transfer"), N_QUESTIONS)
        assert len({question.text for question in questions}) == N_QUESTIONS


# what marks an instance, from texts alone
MARKS = {
    "hidden_order_sort": lambda text: {frozenset(re.findall(r"\b[A-Z]\d\b", text.split(": ")[1]))},
    "packet_filter": lambda text: set(re.findall(r"\w+ from the \w+, size \d", text)),
    "route_planning": lambda text: {len(re.findall(r"[A-P]-[A-P]", text))},
    "balance_weighing": lambda text: {len(re.findall(r"\d+ (?:tin|glass|horn)", text))},
}


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("family", MARKS)
def test_no_round_is_ever_made_of_what_questions_are_made_of(family, level):
    practice, mark = made(family, level), MARKS[family]
    practised, asked = set(), set()
    for number in range(30):
        _, world, questions = episode(practice, dice_of(family, level, number), number)
        practised |= mark(practice.introduction(world)[0])
        asked |= set().union(*(mark(question.text) for question in questions))
    assert practised and asked and not practised & asked


def test_no_number_is_hidden_both_in_a_round_and_in_a_question():
    practice, hidden, asked = made("number_search", 3), set(), set()
    for number in range(300):
        _, world, questions = episode(practice, dice_of("number_search", 3, number), number)
        hidden |= {int(world.targets[0])}
        asked |= {int(question.answer) for question in questions}
    assert len(hidden) > 150 and len(asked) > 100 and not hidden & asked


def test_questions_have_more_keys_than_any_attempt():
    practice = made("password_machine", 1)
    _, world, questions = episode(practice, dice_of("password_machine", 1, 0))
    for question in questions:
        keys = question.text.split("keys ")[1]
        assert not take(practice, world, practice.start(world), keys)[1].is_legal[0]


HIDDEN = {
    "hidden_order_sort": ["goal"],
    "packet_filter": ["gates"],
    "password_machine": ["moves"],
    "number_search": [],
    "route_planning": ["is_open", "distances"],
    "balance_weighing": ["weights", "odd", "bias"],
}


@all_tasks
def test_texts_say_nothing_of_what_is_hidden(family, level):
    practice = made(family, level)
    dice = [dice_of(family, level, number) for number in range(10)]
    skills = [practice.skill(die.named("skill")) for die in dice]
    assert len({practice.opening(skill) for skill in skills}) == 1
    assert len({practice.transfer_introduction(skill) for skill in skills}) == 1
    world = practice.draw(skills, dice)
    blind = replace(world, **{name: np.zeros_like(getattr(world, name)) for name in HIDDEN[family]})
    assert practice.introduction(blind) == practice.introduction(world)
    if family == "number_search":  # where the instrument was put and what it shows, and no more
        numbers = [re.findall(r"\d+", text) for text in practice.introduction(world)]
        assert all(len(found) == 2 for found in numbers)
        assert [int(found[0]) for found in numbers] == world.given.tolist()
    if family not in {
        "number_search",
        "balance_weighing",
    }:  # where a number is an answer as well as a reading
        for question in practice.transfer(skills[0], dice[0].named("transfer"), N_QUESTIONS):
            assert question.answer not in question.text


# --- shortest ways ---


def fewest_swaps(row, goal):
    """Breadth first over all orders of a row."""
    waiting, seen = deque([(tuple(row), 0)]), {tuple(row)}
    while waiting:
        here, n = waiting.popleft()
        if here == tuple(goal):
            return n
        for one, other in product(range(len(row)), repeat=2):
            there = list(here)
            there[one], there[other] = there[other], there[one]
            if tuple(there) not in seen:
                seen.add(tuple(there))
                waiting.append((tuple(there), n + 1))
    return -1


def searched(family, player, text, world):
    """The fewest actions that solve a round, found by a player who knows the skill."""
    player.open_round(text)
    if family == "hidden_order_sort":
        row = player.row
        return fewest_swaps(row, [row[place] for place in player._goals(row)[player.first()]])
    if family == "packet_filter":  # a delivery moves one packet at most
        return len(player.packets)
    if family == "route_planning":
        return player.n_moves(player.here)
    if family == "password_machine":  # nothing is solved at the start, so one attempt is the least
        player.choose()
    elif family == "number_search":
        assert 0 <= world.targets[0] < player.n
    else:
        assert world.odd[0] < len(player.items)
    return 1


@all_tasks
def test_shortest_ways_are_those_of_a_search_and_within_the_free_steps(family, level):
    practice = made(family, level)
    for number in range(6):
        skill, world, _ = episode(practice, dice_of(family, level, number), number)
        player = fresh(family, level)
        player.knows(asdict(skill))
        found = searched(family, player, practice.introduction(world)[0], world)
        assert found == practice.n_best(world)[0] <= budget(family, level)[1] <= budget(family, level)[0]


@all_tasks
def test_playing_the_best_action_solves_in_exactly_the_fewest(family, level):
    practice = made(family, level)
    dice = [dice_of(family, level, number) for number in range(40)]
    world = practice.draw([practice.skill(die.named("skill")) for die in dice], dice)
    state, solved_at = practice.start(world), np.zeros(len(dice), dtype=int)
    for step in range(1, practice.n_best(world).max() + 1):
        lanes = np.flatnonzero(solved_at == 0)
        actions = np.zeros(
            (len(dice), len(practice.read(practice.best(world, state, lanes[:1])[0]))), dtype=int
        )
        actions[lanes] = [practice.read(line) for line in practice.best(world, state, lanes)]
        state, moved = practice.step(world, state, actions, solved_at == 0)
        assert moved.is_legal[lanes].all()
        solved_at[lanes[moved.is_solved[lanes]]] = step
        assert (moved.progress[lanes][moved.is_solved[lanes]] == 1).all()
        assert (moved.progress[lanes][~moved.is_solved[lanes]] < 1).all()
    assert solved_at.tolist() == practice.n_best(world).tolist()


# --- play ---


ILLEGAL = {
    "hidden_order_sort": ["0 1", "3 3", "1 99", "999999 1"],
    "packet_filter": ["0>A", "99>A", "1>Z", "999999>B"],
    "password_machine": ["a", "a b a b a b a", "abababababab"],
    "number_search": ["-1", "500", "999999"],
    "route_planning": ["Z", "P"],
    "balance_weighing": ["1 2 | 2 3", "1 | 60", "0 = 4", "10 = 4"],
}
READ = {
    "hidden_order_sort": {
        "2 5": (2, 5),
        "Swap 2 and 5": (2, 5),
        "2,5": (2, 5),
        "2<->5": (2, 5),
        "2 with 5.": (2, 5),
    },
    "packet_filter": {
        "3>B": (3, 1),
        "3 b": (3, 1),
        "3 -> c": (3, 2),
        "3 → C": (3, 2),
        "3>B.": (3, 1),
        "3 to B": (3, 1),
        "Packet 3 through gate B": (3, 1),
    },
    "password_machine": {
        "a b a b a b a b": (8, 0, 1, 0, 1, 0, 1, 0, 1),
        "ABABABAB": (8, 0, 1, 0, 1, 0, 1, 0, 1),
        "a, b, a, b, a, b, a, b.": (8, 0, 1, 0, 1, 0, 1, 0, 1),
    },
    "number_search": {"17": (17,), "017": (17,), "17.": (17,), "Guess 17": (17,)},
    "route_planning": {"C": (2,), "go to c": (2,), "C.": (2,), "move to C": (2,), "to C": (2,)},
    "balance_weighing": {
        "1 4 | 2 7": (9, 66, 0, 0),
        "1,4|2, 7": (9, 66, 0, 0),
        "1 4 | 2 7.": (9, 66, 0, 0),
        "3 = 5": (0, 0, 3, 5),
        "Item 3 = 5 g.": (0, 0, 3, 5),
    },
}
UNREAD = [
    "",
    " ",
    "?",
    "I do not know",
    "READY",
    "1" * 100,
    "２ ５",
    "٢ ٥",
    "３>B",
    "３ = ５",
    "٣",
    "1 |",
    ".",
    "1..",
    "1.5",
    "A>C",
    "1 2 3",
    "| 2",
    "= 5",
    "á",
]


@all_families
def test_actions_are_read_as_the_grammar_says_and_nothing_else_is(family):
    practice = made(family, 3)
    example = re.findall(r"`(.+?)`", practice.grammar)
    assert example and all(practice.read(line) is not None for line in example)
    assert {line: practice.read(line) for line in READ[family]} == READ[family]
    assert [line for line in UNREAD if practice.read(line) is not None] == []


@all_families
def test_a_megabyte_of_text_is_no_action_and_is_turned_down_at_once(family):
    practice = made(family, 3)
    start = time.perf_counter()
    for text in ("1 " * 500_000, "a" * 1_000_000, "1 | " * 250_000, " " * 1_000_000, "٣" * 1_000_000):
        assert practice.read(text) is None
    assert time.perf_counter() - start < 0.1


@all_tasks
def test_an_action_that_is_not_allowed_is_told_and_changes_nothing(family, level):
    practice = made(family, level)
    _, world, _ = episode(practice, dice_of(family, level, 0))
    state = practice.start(world)
    lines = list(ILLEGAL[family])
    if family == "route_planning":
        lines.append("ABCDEFGHIJKLMNOP"[world.first[0]])
    for line in lines:
        after, moved = take(practice, world, state, line)
        assert not moved.is_legal[0] and not moved.is_solved[0]
        assert plain(after) == plain(state) and moved.progress[0] == 0
        assert moved.feedback[0].endswith(".")


def test_a_packet_that_has_arrived_cannot_be_sent_again():
    practice = made("packet_filter", 1)
    _, world, _ = episode(practice, dice_of("packet_filter", 1, 0))
    line = practice.best(world, practice.start(world), [0])[0]
    state, _ = take(practice, world, practice.start(world), line)
    after, moved = take(practice, world, state, line)
    assert not moved.is_legal[0] and plain(after) == plain(state)
    assert "has arrived already" in moved.feedback[0]


@all_tasks
def test_episodes_side_by_side_are_played_as_one_by_one(family, level):
    practice, n = made(family, level), 7
    dice = [dice_of(family, level, number) for number in range(n)]
    skills = [practice.skill(die.named("skill")) for die in dice]
    together, apart = (
        practice.draw(skills, dice),
        [practice.draw([skill], [dice_of(family, level, number)]) for number, skill in enumerate(skills)],
    )
    assert practice.introduction(together) == [practice.introduction(world)[0] for world in apart]
    state, states = practice.start(together), [practice.start(world) for world in apart]
    open_lanes = np.ones(n, dtype=bool)
    for step in range(8):
        # some lanes sit out, others are over
        which = open_lanes & ((np.arange(n) + step) % 3 > 0)
        lanes = np.flatnonzero(which)
        own = [Dice("side by side", family, step, int(lane)) for lane in lanes]
        lines = dict(zip(lanes.tolist(), practice.random(together, state, lanes, own), strict=True))
        width = len(practice.read(next(iter(lines.values()))))
        actions = np.array(
            [practice.read(lines[lane]) if lane in lines else (0,) * width for lane in range(n)]
        )
        state, moved = practice.step(together, state, actions, which)
        assert [bool(text) for text in moved.feedback] == which.tolist()
        for lane in lanes.tolist():
            again = Dice("side by side", family, step, lane)
            assert practice.random(apart[lane], states[lane], [0], [again]) == [lines[lane]]
            states[lane], alone = take(practice, apart[lane], states[lane], lines[lane])
            assert alone.feedback[0] == moved.feedback[lane]
            assert alone.progress[0] == moved.progress[lane]
            assert alone.is_legal[0] == moved.is_legal[lane] and alone.is_solved[0] == moved.is_solved[lane]
        open_lanes &= ~(moved.is_solved & which)
    for lane in range(n):
        # lanes that never took part in a step are as they were
        own = plain(states[lane])
        assert {name: values[lane] for name, values in plain(state).items()} == {
            name: values[0] for name, values in own.items()
        }


def expected_progress(family, player, world, line, best):
    """Progress after an action, from the texts and, where these do not tell, from what is hidden."""
    if family == "number_search":
        away = abs(int(line) - int(world.targets[0]))
        return max(best, 1 - (min(away, player.n - away) if player.is_ring else away) / player.n)
    if family == "balance_weighing":
        is_item = "=" in line and int(line.split("=")[0]) - 1 == world.odd[0]
        return max(best, 1.0 if player.is_solved else 0.5 * is_item)
    if family == "route_planning":
        start = re.search(r"You are at ([A-P]);", player.text)[1]
        return max(best, 1 - player.n_moves(player.here) / player.n_moves(start))
    return max(best, player.progress)


@all_tasks
def test_every_step_of_random_play_is_as_a_player_works_out_who_knows_the_skill(family, level):
    practice = made(family, level)
    for number in range(4):
        skill, world, _ = episode(practice, dice_of(family, level, number), number)
        player, best = fresh(family, level), 0.0
        player.knows(asdict(skill))
        player.text = practice.introduction(world)[0]
        player.open_round(player.text)
        state = practice.start(world)
        for step in range(15):
            (line,) = practice.random(world, state, [0], [Dice("random play", family, level, number, step)])
            state, moved = take(practice, world, state, line)
            assert moved.is_legal[0]
            player.hear(line, moved.feedback[0])
            assert player.fits.sum() == 1, moved.feedback[0]
            best = expected_progress(family, player, world, line, best)
            assert moved.progress[0] == pytest.approx(best)
            assert moved.is_solved[0] == player.is_solved
            if player.is_solved:
                break


@all_families
def test_a_player_who_believes_in_another_skill_is_contradicted(family):
    practice, n_wrong = made(family, 2), 0
    for number in range(10):
        skill, other = (practice.skill(Dice("contradicted", family, number, who)) for who in (0, 1))
        player, dice = fresh(family, 2), dice_of(family, 2, number)
        player.knows(asdict(other))
        for n_round in range(N_ROUNDS):
            world = practice.draw([skill], [dice.named("round", n_round)])
            player.open_round(practice.introduction(world)[0])
            state = practice.start(world)
            for step in range(8):
                (line,) = practice.random(world, state, [0], [dice.named("move", n_round, step)])
                state, moved = take(practice, world, state, line)
                player.hear(line, moved.feedback[0])
                if moved.is_solved[0]:
                    break
        n_wrong += not player.fits.any()
    assert n_wrong >= 8


# --- learning ---


@all_tasks
def test_who_has_the_skill_solves_every_round_within_the_free_steps(family, level):
    practice = made(family, level)
    for number in range(10):
        dice = dice_of(family, level, number)
        skill = practice.skill(dice.named("skill"))
        player = fresh(family, level)
        player.knows(asdict(skill))
        for n_round in range(N_ROUNDS):
            world = practice.draw([skill], [dice.named("round", n_round)])
            assert play(practice, player, world, budget(family, level)[0]) <= budget(family, level)[1]


def play(practice, player, world, n_steps):
    """Step at which a player solves a round; infinite if it does not."""
    player.open_round(practice.introduction(world)[0])
    state = practice.start(world)
    for step in range(1, n_steps + 1):
        line = player.choose()
        state, moved = take(practice, world, state, line)
        assert moved.is_legal[0]
        player.hear(line, moved.feedback[0])
        if moved.is_solved[0]:
            return step
    return np.inf


@all_tasks
def test_the_right_answers_are_those_of_a_player_who_knows_the_skill(family, level):
    practice = made(family, level)
    for number in range(8):
        skill, _, questions = episode(practice, dice_of(family, level, number))
        player = fresh(family, level)
        player.knows(asdict(skill))
        for question in questions:
            assert player.answers(question.text) == {question.answer}


@all_families
def test_answers_have_the_form_that_is_asked_for(family):
    for level, number in product((1, 2, 3), range(10)):
        practice = made(family, level)
        _, _, questions = episode(practice, dice_of(family, level, number))
        for question in questions:
            assert question.match_kind == ROWS[f"{family}_{level}"]["match_kind"]
            assert question.answer == question.answer.strip() and "\n" not in question.text + question.answer
            assert not question.labels
            elements = question.answer.split(" ")
            assert set(elements) <= set(question.guess.symbols)
            assert question.guess.min_length <= len(elements) <= question.guess.max_length
            guess = question.guess.draw(Dice("guess", number))
            if question.match_kind == "integer":
                assert str(int(question.answer)) == question.answer and guess.isdecimal()
            else:
                assert len(elements) > 1 and question.guess.separator == " "


def efficiency(solved_at, n_steps, n_free):
    """As the composite of the document has it: 1 up to the free steps, then down to 0.1; 0 if unsolved."""
    if solved_at > n_steps:
        return 0.0
    return 1.0 if solved_at <= n_free else max(0.1, 1 - 0.9 * (solved_at - n_free) / (n_steps - n_free))


def composite(rounds, transfer):
    """The document's formula, for five rounds."""
    last_half = sum(rounds[-2:]) / 2
    mean = sum(rounds) / 5
    # rounds stand at -2, -1, 0, 1, 2, whose squares sum to 10; four steps lead from the first to the last
    slope = sum(x * (value - mean) for x, value in zip((-2, -1, 0, 1, 2), rounds, strict=True)) / 10 * 4
    trajectory = round((min(1, max(-1, slope)) + 1) / 2, 4)
    consistency = sum(weight * value for weight, value in enumerate(rounds, 1)) / 15
    if last_half < 1e-9 and transfer < 1e-9:
        return 0.0
    return round(0.30 * transfer + 0.25 * last_half + 0.25 * trajectory + 0.20 * consistency, 4)


def test_the_formula_of_this_file_gives_the_printed_values():
    assert composite([0.1, 0.3, 0.5, 0.8, 0.9], 0.5) == 0.7245
    assert composite([0.7] * 5, 0.5) == 0.59
    assert composite([1.0] * 5, 1.0) == 0.3 + 0.25 + 0.25 / 2 + 0.2


@all_tasks
def test_five_rounds_of_orderly_practice_settle_most_transfer_answers(family, level):
    practice, n = made(family, level), 8
    n_steps, n_free = budget(family, level)
    n_settled, first, last, n_open = 0, [], [], 0
    for number in range(n):
        dice = dice_of(family, level, number)
        skill = practice.skill(dice.named("skill"))
        questions = practice.transfer(skill, dice.named("transfer"), N_QUESTIONS)
        player = fresh(family, level)
        if number < 3:
            n_open += sum(len(player.answers(question.text)) > 1 for question in questions)
        worlds = [practice.draw([skill], [dice.named("round", n_round)]) for n_round in range(N_ROUNDS)]
        rounds = [efficiency(play(practice, player, world, n_steps), n_steps, n_free) for world in worlds]
        first.append(rounds[0])
        last.append(np.mean(rounds[-2:]))
        found = [player.answers(question.text) for question in questions]
        # the true skill is never ruled out
        assert all(question.answer in own for question, own in zip(questions, found, strict=True))
        n_settled += all(len(own) == 1 for own in found)
    assert n_settled >= 0.6 * n
    # and without practice hardly any answer is settled
    assert n_open >= 0.9 * 3 * N_QUESTIONS
    assert np.mean(last) > 0.7 and np.mean(last) > np.mean(first)


@all_tasks
def test_in_every_instance_orderly_practice_settles_every_answer(family, level):
    practice, (n_steps, _) = made(family, level), budget(family, level)
    for number in range(BLOCKS[family]["seeds"]["count"]):
        dice, player = dice_of(family, level, number), fresh(family, level)
        skill = practice.skill(dice.named("skill"))
        for n_round in range(N_ROUNDS):
            play(practice, player, practice.draw([skill], [dice.named("round", n_round)]), n_steps)
        for question in practice.transfer(skill, dice.named("transfer"), N_QUESTIONS):
            assert list(player.answers(question.text)) == [question.answer]


@all_tasks
def test_random_play_scores_little(family, level):
    practice, n = made(family, level), 200
    n_steps, n_free = budget(family, level)
    dice = [Dice("floor", family, level, number) for number in range(n)]
    skills = [practice.skill(die.named("skill")) for die in dice]
    rounds = np.zeros((n, N_ROUNDS))
    for n_round in range(N_ROUNDS):
        world = practice.draw(skills, [die.named("round", n_round) for die in dice])
        state, is_open = practice.start(world), np.ones(n, dtype=bool)
        own = [die.named("moves", n_round) for die in dice]
        for step in range(1, n_steps + 1):
            lanes = np.flatnonzero(is_open)
            lines = practice.random(world, state, lanes.tolist(), [own[lane] for lane in lanes])
            read = [practice.read(line) for line in lines]
            actions = np.zeros((n, len(read[0])), dtype=np.int64)
            actions[lanes] = read
            state, moved = practice.step(world, state, actions, is_open)
            assert moved.is_legal[lanes].all()
            solved = lanes[moved.is_solved[lanes]]
            rounds[solved, n_round] = efficiency(step, n_steps, n_free)
            is_open[solved] = False
    # one question each: a guess is as good for any of the four
    transfer = []
    for die, skill in zip(dice, skills, strict=True):
        (question,) = practice.transfer(skill, die.named("transfer"), 1)
        transfer.append(question.guess.draw(die.named("guess")) == question.answer)
    scores = [composite(own, share) for own, share in zip(rounds.tolist(), transfer, strict=True)]
    assert (rounds > 0).mean() < 0.2
    assert np.mean(transfer) < 0.05
    assert np.mean(scores) < 0.12


# --- constants ---


def test_a_level_that_hardly_allows_an_instance_says_so():
    practice = made("number_search", 1).model_copy(update={"n_numbers": 10})
    with pytest.raises(InvalidSource, match=r"NumberSearch\(n_numbers=10.*procedural_learning\.toml"):
        practice.transfer(practice.skill(Dice("few")), Dice("few"), 20)


@pytest.mark.parametrize(
    ("family", "constants", "told"),
    [
        ("hidden_order_sort", {"n_letters": 2, "n_digits": 2}, "at most 4 tokens, found 6"),
        ("packet_filter", {"n_gates": 3}, "more gates than tests, found 3 and 3"),
        ("balance_weighing", {"changes": (-3, 1)}, r"weights of 1 g and more, found changes of \(-3, 1\)"),
        ("balance_weighing", {"changes": (0, 1)}, "changes other than 0"),
        ("balance_weighing", {"heaviest": 2}, "weights from 3 to 2"),
    ],
)
def test_constants_that_contradict_each_other_are_turned_down(family, constants, told):
    with pytest.raises(ValueError, match=told):
        type(made(family, 3))(**{**BLOCKS[family]["levels"][2], **constants})


@all_families
def test_no_two_families_share_a_seed_and_constants_are_checked(family):
    firsts = [block["seeds"]["first"] for block in BLOCKS.values()]
    assert len(set(firsts)) == len(firsts)
    with pytest.raises(ValueError, match="extra"):
        type(made(family, 1))(**BLOCKS[family]["levels"][0], another=1)
