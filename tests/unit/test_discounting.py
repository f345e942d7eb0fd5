"""Does the questionnaire follow the answers, and is the later reward what counts?"""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generate.agents.uniform import UniformPolicy
from generate.contract import Fitted
from generate.environments.discounting import TemporalDiscounting
from generate.episodes import play
from generate.schedule import load_schedules

DOLLARS = TemporalDiscounting(
    base_dollars=500,
    large_base_dollars=5000,
    first_percent=10,
    rising_percent=(20, 50),
    falling_percent=(2, 1),
)
UNIFORM = Fitted(UniformPolicy())
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)


class Given:
    """Gives the answers that it was told, one list per session."""

    def __init__(self, answers):
        self.answers = answers

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        chosen = [
            int(answers[trial]) - 1 if trial < len(answers) else -1
            for answers, trial in zip(self.answers, seen.trial.tolist(), strict=True)
        ]
        return None, np.array(chosen)


def played(seeds, policy=UNIFORM, environment=DOLLARS, seed=3):
    fitted = policy if isinstance(policy, Fitted) else Fitted(policy)
    episodes = environment.episodes(seeds)
    return play(environment, episodes, fitted, seed, run_id="r", mode_id="m").to_pylist()


def series_by_hand(ask, now, later):
    """One series in the amounts of its questions: five of them, of which two or three are asked."""
    plus_10, plus_20, plus_50, plus_2, plus_1 = later
    if ask(now, plus_10) == "1":
        if ask(now, plus_20) == "2":
            return plus_20
        return plus_50 if ask(now, plus_50) == "2" else None
    if ask(now, plus_2) == "1":
        return plus_10
    return plus_1 if ask(now, plus_1) == "2" else plus_2


def session_by_hand(answer):
    """One session, with every amount written out; ``answer`` takes a question and returns an option."""
    accepted = series_by_hand(
        lambda now, later: answer(
            f"receive {now} dollars now, or receive {later} dollars in 12 months", "reward", "2"
        ),
        500,
        (550, 600, 750, 510, 505),
    )
    series_by_hand(
        lambda now, later: answer(
            f"receive {now} dollars now, or receive {later} dollars in 12 months", "reward", "2"
        ),
        5000,
        (5500, 6000, 7500, 5100, 5050),
    )
    series_by_hand(
        lambda now, later: answer(
            f"pay {now} dollars now, or pay {later} dollars in 12 months", "payment", None
        ),
        500,
        (550, 600, 750, 510, 505),
    )
    if accepted is None:
        return
    extra = accepted - 500
    in_two_years = {5: 510, 10: 520, 50: 600, 100: 700, 250: 1000}[extra]
    answer(f"receive 500 dollars in 12 months, or receive {accepted} dollars in 24 months", "reward", "2")
    answer(f"receive 500 dollars now, or receive {in_two_years} dollars in 24 months", "reward", "2")
    answer(f"receive 500 dollars now, or wait 12 months for {extra} dollars more", "reward", "2")
    # who waits takes option 1 here
    answer(
        f"wait 12 months for {accepted} dollars, or pay {extra} dollars to receive them now", "speed_up", "1"
    )


def asked_by_hand(answers):
    """What is asked if these answers are given: (question, kind, later option) each."""
    asked, options = [], iter(answers)

    def answer(*question):
        asked.append(question)
        return next(options)

    try:
        session_by_hand(answer)
    except StopIteration:
        return asked, False
    return asked, True


@cache
def sessions():
    """Every sequence of answers that makes a whole session."""
    whole, waiting = [], [""]
    while waiting:
        answers = waiting.pop()
        if asked_by_hand(answers)[1]:
            whole.append(answers)
        else:
            waiting += [answers + "1", answers + "2"]
    return sorted(whole)


def test_every_session_goes_as_it_does_by_hand():
    answers = sessions()
    # six ways through a series; in all but one of the first, four more questions with two answers each
    assert len(answers) == 6 * 6 * (5 * 2**4 + 1)
    rows = played(range(len(answers)), Given(answers))
    by_session = {}
    for row in rows:
        by_session.setdefault(row["episode_id"], []).append(row)
    for number, given_answers in enumerate(answers):
        ours, (asked, _) = by_session[str(number)], asked_by_hand(given_answers)
        assert [row["observation"] for row in ours] == [text for text, _, _ in asked]
        assert [row["action"] for row in ours] == list(given_answers)
        assert [row["trial"] for row in ours] == list(range(len(asked)))
        assert [row["is_rewarded"] for row in ours] == [kind != "payment" for _, kind, _ in asked]
        assert [row["credited_options"] for row in ours] == [
            [later] if later else None for _, _, later in asked
        ]
        assert [row["outcome"] for row in ours] == [
            "later" if action == (later or "2") else "sooner"
            for action, (_, _, later) in zip(given_answers, asked, strict=True)
        ]
    assert all(row["status"] == "ok" and row["reward"] is None for row in rows)
    assert all(row["legal_options"] == ["1", "2"] and not row["is_forced"] for row in rows)


def test_items_are_the_questions_that_can_be_asked():
    asked = {question for answers in sessions() for question in asked_by_hand(answers)[0]}
    items = DOLLARS.items(DOLLARS.episodes([1]))
    assert len(items) == len(asked) == 3 * 5 + 4 * 5
    assert {
        (item.facts["question"], item.template_id, item.credited_options and item.credited_options[0])
        for item in items
    } == asked
    assert len({item.item_id for item in items}) == len(items)
    assert tuple(item.facts["question"] for item in items) == DOLLARS.observations
    assert all(item.legal_options == ("1", "2") and item.weight == 1 for item in items)


def test_anomalies_are_left_out_after_three_immediate_choices():
    impatient = next(answers for answers in sessions() if answers.startswith("111"))
    patient = next(answers for answers in sessions() if answers.startswith("112"))
    assert {len(answers) for answers in sessions() if answers.startswith("111")} == {7, 8, 9}
    rows = played([1, 2], Given([impatient, patient]))
    n_anomalies = [
        sum(
            "24 months" in row["observation"] or "wait" in row["observation"]
            for row in rows
            if row["episode_id"] == episode
        )
        for episode in ("1", "2")
    ]
    assert n_anomalies == [0, 4]


def test_paying_to_have_it_now_is_the_sooner_choice():
    answers = [next(a for a in sessions() if a.startswith("112") and a.endswith(end)) for end in "12"]
    last = [row for row in played([1, 2], Given(answers)) if row["observation"].startswith("wait")]
    assert [(row["action"], row["outcome"]) for row in last] == [("1", "later"), ("2", "sooner")]
    assert [row["credited_options"] for row in last] == [["1"], ["1"]]


def test_half_of_all_uniform_answers_take_the_later_reward():
    expected = {"later": Fraction(), "scored": Fraction()}
    for answers in sessions():
        probability = Fraction(1, 2 ** len(answers))
        for action, (_, _, later) in zip(answers, asked_by_hand(answers)[0], strict=True):
            expected["scored"] += probability * (later is not None)
            expected["later"] += probability * (later == action)
    assert expected["later"] / expected["scored"] == Fraction(1, 2)
    scored = [row for row in played(range(400)) if row["is_rewarded"]]
    n_later = sum(row["action"] in row["credited_options"] for row in scored)
    assert abs(n_later / len(scored) - 0.5) < 4 * 0.5 / np.sqrt(len(scored))


@settings(max_examples=20, deadline=None)
@given(seeds=seed_lists, data=st.data())
def test_a_session_is_the_same_in_any_batch(seeds, data):
    chosen = data.draw(st.permutations(seeds)).copy()[: data.draw(st.integers(1, len(seeds)))]
    whole, part = played(seeds), played(chosen)
    assert part == [row for seed in chosen for row in whole if row["episode_id"] == str(seed)]


def test_a_session_that_breaks_off_counts_with_the_longest_that_could_follow():
    answers = sessions()
    longest = {}
    for whole in answers:
        for n_answers in range(len(whole)):
            begun = whole[:n_answers]
            longest[begun] = max(longest.get(begun, 0), len(whole))
    world = DOLLARS.draw(DOLLARS.episodes(range(len(answers))))
    state = DOLLARS.start(world)
    for trial in range(max(map(len, answers))):
        left = DOLLARS.trials_left(world, state)
        goes_on = [number for number, whole in enumerate(answers) if len(whole) > trial]
        assert np.flatnonzero(state.live).tolist() == goes_on
        assert [trial + 1 + left[number] for number in goes_on] == [
            longest[answers[number][:trial]] for number in goes_on
        ]
        actions = [int(whole[trial]) - 1 if len(whole) > trial else 0 for whole in answers]
        state, _ = DOLLARS.step(world, state, np.array(actions))
    assert not state.live.any() and not DOLLARS.observe(world, state).legal.any()


@settings(max_examples=30, deadline=None)
@given(
    answers=st.text("12", min_size=16, max_size=16), n_rising=st.integers(0, 3), n_falling=st.integers(0, 3)
)
def test_a_series_has_as_many_questions_as_its_premiums(answers, n_rising, n_falling):
    environment = TemporalDiscounting(
        base_dollars=100,
        large_base_dollars=200,
        first_percent=10,
        rising_percent=tuple(range(20, 20 + n_rising)),
        falling_percent=tuple(range(9, 9 - n_falling, -1)),
    )
    n_asked, accepted = 0, False
    for series in range(3):
        first = answers[n_asked]
        n_further = {"1": n_rising, "2": n_falling}[first]
        same = 1
        while same <= n_further and answers[n_asked + same] == first:
            same += 1
        in_series = min(same + 1, 1 + n_further)
        if series == 0:
            accepted = "2" in answers[:in_series]
        n_asked += in_series
    n_asked += 4 * accepted
    assert len(played([1], Given([answers]), environment)) == n_asked


def test_an_answer_that_is_no_option_ends_the_session_and_costs_all_that_could_follow():
    rows = played([1, 2], Given(["2", ""]))
    first, second = ([row for row in rows if row["episode_id"] == episode] for episode in ("1", "2"))
    # three series of three questions, and four anomalies
    assert [row["status"] for row in first] == ["ok", "unparsed", *["error"] * 11]
    assert [row["status"] for row in second] == ["unparsed", *["error"] * 12]


def test_the_schedule_of_the_manifest_has_exact_amounts():
    schedule = load_schedules()["temporal_discounting"]
    assert schedule.environment() == DOLLARS and schedule.seeds.count == 100


@pytest.mark.parametrize(
    "change, said",
    [
        ({"base_dollars": 0}, "greater than or equal to 1"),
        ({"rising_percent": (5, 50)}, "expected premiums that fall"),
        ({"falling_percent": (1, 2)}, "expected premiums that fall"),
        ({"falling_percent": (10,)}, "expected premiums that fall"),
        ({"base_dollars": 50}, "expected premiums in whole dollars"),
        ({"currency": "euro"}, "Extra inputs"),
    ],
)
def test_constants_that_make_no_sense_are_refused(change, said):
    with pytest.raises(ValidationError, match=said):
        TemporalDiscounting.model_validate(DOLLARS.model_dump() | change)
