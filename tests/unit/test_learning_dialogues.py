"""In which turns are Learning tasks asked, and what becomes of replies that nobody hoped for?"""

import numpy as np
import pytest

from generate.learning.dialogues import exam
from generate.learning.dialogues.actions import action_line
from generate.learning.dialogues.active_request import ActiveRequest
from generate.learning.dialogues.exploration import Exploration
from generate.learning.dialogues.practice_rounds import PracticeRounds
from generate.learning.dialogues.single_turn import SingleTurn
from generate.learning.dice import Dice
from store.errors import InvalidSource
from tests.unit.learning_toys import FindDigit, FindDigits, lesson, sheet, task

MEGABYTE = "x" * 1_000_000


def talk(dialogue, replies):
    """Give one lane its replies; return the outcome of each, and what was told before each and at the end."""
    state, outcomes = dialogue.start(), []
    told = [dialogue.messages(state)[0]]
    for reply in replies:
        assert told[-1] is not None, "the dialogue is over"
        state, turns = dialogue.step(state, [reply])
        outcomes.append(turns.outcomes[0])
        told.append(dialogue.messages(state)[0])
    return outcomes, told


# single turn


def test_a_sheet_is_told_with_numbered_questions_and_is_over_with_any_reply():
    dialogue = SingleTurn([sheet("one"), sheet("two")])
    state = dialogue.start()
    first, second = dialogue.messages(state)
    assert first.startswith("This is one.")
    assert "1. one first?\n2. one second?\n" in first
    state, turns = dialogue.step(state, [None, MEGABYTE])
    assert (turns.outcomes[1], turns.is_last.tolist()) == ("examined", [False, True])
    assert dialogue.messages(state) == [first, None]
    assert second != first


def test_who_knows_gives_the_answers_in_the_form_that_is_read():
    dialogue = SingleTurn([sheet("one")])
    assert dialogue.knowing(dialogue.start(), [0]) == ["1: YES\n2: 7"]


def test_guesses_are_of_the_form_of_an_answer_and_each_is_as_likely():
    dialogue = SingleTurn([sheet("one")])
    state = dialogue.start()
    guessed = [dialogue.guessing(state, [0], [Dice("guess", seed)])[0] for seed in range(400)]
    words = [reply.splitlines()[0] for reply in guessed]
    assert set(words) == {"1: YES", "1: NO"}
    assert 160 < words.count("1: YES") < 240
    assert len({reply.splitlines()[1] for reply in guessed}) == 10


# active request


def asked(n_initial=2, n_most=4):
    row = task("numeric_property_1", initial_examples=n_initial, max_examples=n_most, n_test_items=4)
    return ActiveRequest(row, [lesson("colours", n_most)])


def test_each_example_that_is_asked_for_is_given_once_and_in_order():
    outcomes, told = talk(asked(), ["MORE", "more, please", "READY", "1: 1"])
    assert outcomes == ["example", "example", "ready", "examined"]
    assert "1. colours example 1\n2. colours example 2\n" in told[0]
    assert told[1].startswith("3. colours example 3\n")
    assert told[2].startswith("4. colours example 4\n")
    assert "1. colours 1?\n" in told[3]
    assert told[4] is None


def test_there_are_no_more_examples_than_there_are():
    outcomes, told = talk(asked(), ["MORE", "MORE", "MORE", "READY"])
    assert outcomes == ["example", "example", "no_more", "ready"]
    assert "you have seen all 4" in told[3]


def test_who_never_says_ready_is_tested_after_one_reply_more_than_there_are_examples():
    outcomes, told = talk(asked(n_initial=0), ["hm"] * 5 + ["1: 1"])
    assert outcomes == ["unread"] * 5 + ["examined"]
    assert "1. colours 1?" in told[5]


def test_an_example_that_is_given_with_the_last_reply_is_shown_with_the_test():
    outcomes, told = talk(asked(n_initial=0), ["hm"] * 4 + ["MORE"])
    assert outcomes[-1] == "example"
    assert "colours example 1" in told[-1]
    assert "1. colours 1?" in told[-1]


@pytest.mark.parametrize("reply", ["", "MORE or READY?", "ALREADY", "ＭＯＲＥ", MEGABYTE])
def test_a_reply_that_names_neither_or_both_words_uses_up_a_turn(reply):
    outcomes, told = talk(asked(), [reply, "READY"])
    assert outcomes == ["unread", "ready"]
    assert told[1].startswith("Expected MORE")


def test_more_examples_at_the_start_than_there_are_means_all_of_them():
    outcomes, told = talk(asked(n_initial=9, n_most=3), ["MORE"])
    assert outcomes == ["no_more"]
    assert "You have seen 3 of the 3 examples" in told[0]


def test_without_examples_at_the_start_it_says_so():
    assert "You have not seen any example yet." in talk(asked(n_initial=0), [])[1][0]


# games


def exploring(budget=5, n_lanes=1, seed=0):
    game = FindDigit()
    row = task("hanoi_two_1", budget_steps=budget)
    return Exploration(row, game, game.draw([Dice("toy", seed + lane) for lane in range(n_lanes)]), n_lanes)


def test_a_game_ends_when_it_is_solved():
    dialogue = exploring()
    (right,) = dialogue.knowing(dialogue.start(), [0])
    wrong = "0" if right != "0" else "1"
    outcomes, told = talk(dialogue, [wrong, f"I think...\n**Action: {right}**"])
    assert outcomes == ["moved", "solved"]
    assert "Actions left: 4" in told[1]
    assert told[2] is None


@pytest.mark.parametrize(
    ("reply", "outcome"), [("9", "illegal"), ("", "unread"), ("٣", "unread"), (MEGABYTE, "unread")]
)
def test_what_is_not_allowed_or_not_read_uses_up_the_budget(reply, outcome):
    outcomes, told = talk(exploring(budget=3), [reply] * 3)
    assert outcomes == [outcome] * 3
    assert told[3] is None


def test_an_action_that_cannot_be_read_is_told_how_one_is_written_and_keeps_the_progress():
    dialogue = exploring(budget=9)
    (right,) = dialogue.knowing(dialogue.start(), [0])
    near = str(int(right) + 1) if int(right) < 8 else str(int(right) - 1)
    state, turns = dialogue.step(dialogue.start(), [near])
    state, unread = dialogue.step(state, ["what?"])
    assert unread.progress[0] == turns.progress[0] > 0.8
    assert "Write one digit." in dialogue.messages(state)[0]


def test_a_lane_without_a_reply_stays_as_it_is():
    dialogue = exploring(n_lanes=3)
    before = dialogue.start()
    after, turns = dialogue.step(before, [None, "0", None])
    assert [dialogue.messages(after)[lane] == dialogue.messages(before)[lane] for lane in range(3)] == [
        True,
        False,
        True,
    ]
    assert turns.is_last.tolist() == [False, turns.outcomes[1] == "solved", False]


def test_lanes_side_by_side_are_what_each_is_alone():
    together = exploring(budget=6, n_lanes=4, seed=3)
    state = together.start()
    replies = [["0", "1", "2", "3"], ["9", "", "5", "6"], ["7", "8", "8", "7"]]
    seen = []
    for row in replies:
        live = [
            reply if told is not None else None
            for reply, told in zip(row, together.messages(state), strict=True)
        ]
        state, turns = together.step(state, live)
        seen.append([(o, m) for o, m in zip(turns.outcomes, together.messages(state), strict=True)])
    for lane in range(4):
        alone = exploring(budget=6, n_lanes=1, seed=3 + lane)
        own = alone.start()
        for row, together_row in zip(replies, seen, strict=True):
            if alone.messages(own)[0] is None:
                break
            own, turns = alone.step(own, [row[lane]])
            assert (turns.outcomes[0], alone.messages(own)[0]) == together_row[lane]


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("3", "3"),
        ("I try\n\n  3  \n\n", "3"),
        ("Action: 3", "3"),
        ("my next move = `A>C`", "A>C"),
        ("**3**", "3"),
        ("**RUN A**.", "RUN A"),
        ("`A>C.`", "A>C"),
        ("- RUN A", "RUN A"),
        ("- **Action:** 2 5", "2 5"),
        ("My final answer is: 3.", "3"),
        ("The next move is = 3", "3"),
        ("$\\boxed{3}$", "3"),
        ("-3", "-3"),
        ("an answer", "an answer"),
        ("3\r\n```\r\n", "3"),
        ("\n \n", ""),
        (MEGABYTE, ""),
        ("x\n" * 300_000 + "3", "3"),
    ],
)
def test_an_action_is_the_last_line_without_what_is_put_around_it(reply, line):
    assert action_line(reply) == line


# practice


def practising(budget=3, n_rounds=2, n_lanes=1):
    practice = FindDigits()
    row = task("packet_filter_1", budget_steps=budget, practice_rounds=n_rounds)
    dice = [Dice("toy", lane) for lane in range(n_lanes)]
    skills = [practice.skill(die.named("skill")) for die in dice]
    worlds = [practice.draw(skills, [die.named("round", k) for die in dice]) for k in range(n_rounds)]
    questions = [practice.transfer(skill, die, 4) for skill, die in zip(skills, dice, strict=True)]
    return PracticeRounds(row, practice, skills, worlds, questions)


def test_a_round_ends_when_it_is_solved_or_the_budget_is_used_and_then_come_the_questions():
    dialogue = practising()
    state, trials, outcomes = dialogue.start(), [], []
    for reply in [None, "9", "", "9", None]:
        given = dialogue.knowing(state, [0])[0] if reply is None else reply
        state, turns = dialogue.step(state, [given])
        trials.append(int(turns.trials[0]))
        outcomes.append(turns.outcomes[0])
    assert outcomes == ["solved", "illegal", "unread", "illegal", "examined"]
    assert trials == [0, 1, 1, 1, 2]
    assert dialogue.messages(state) == (None,)


def test_a_round_says_where_the_player_stands():
    dialogue = practising()
    state = dialogue.start()
    assert "Round 1 of 2." in dialogue.messages(state)[0]
    assert "Something is added." in dialogue.messages(state)[0]
    state, _ = dialogue.step(state, dialogue.knowing(state, [0]))
    message = dialogue.messages(state)[0]
    assert message.startswith("Found.\nThe round is solved.")
    assert "Round 2 of 2." in message
    state, _ = dialogue.step(state, dialogue.knowing(state, [0]))
    assert "The practice is over." in dialogue.messages(state)[0]
    assert "Say what becomes of each number." in dialogue.messages(state)[0]
    assert dialogue.knowing(state, [0]) == [exam.right(dialogue.questions[0])]


def test_lanes_may_be_in_different_rounds():
    dialogue = practising(n_lanes=3)
    state, _ = dialogue.step(dialogue.start(), [None, dialogue.knowing(dialogue.start(), [1])[0], ""])
    state, turns = dialogue.step(state, dialogue.knowing(state, [0, 1, 2]))
    assert turns.trials.tolist() == [0, 1, 0]
    assert turns.outcomes == ["solved"] * 3


def test_practice_needs_a_round():
    with pytest.raises(InvalidSource, match=r"packet_filter_1: practice_rounds: expected at least 1"):
        practising(n_rounds=0)


# dice


def test_dice_of_one_key_fall_alike_and_named_ones_change_nothing():
    one, same = Dice("family", 1, 2), Dice("family", 1, 2)
    one.named("more").uniform()
    assert [one.integer(0, 9) for _ in range(50)] == [same.integer(0, 9) for _ in range(50)]
    assert Dice("family", 1, 2).named("x").uniform() != Dice("family", 1, 2).uniform()


def test_every_integer_of_a_range_is_as_likely():
    dice = Dice("integers")
    counts = np.bincount([dice.integer(0, 6) for _ in range(14_000)])
    assert counts.size == 7
    # 2,000 expected of each, with a standard deviation of 41
    assert np.abs(counts - 2000).max() < 5 * 41


def test_a_sample_has_nothing_twice_and_a_shuffle_everything_once():
    dice = Dice("sample")
    assert len(set(dice.sample(range(100), 30))) == 30
    assert sorted(dice.shuffled("abcdef")) == list("abcdef")
    with pytest.raises(ValueError, match="at most 2"):
        dice.sample("ab", 3)
