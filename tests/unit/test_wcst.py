"""Are cards dealt and judged by the rule of the block, and is the rule never in view?"""

from dataclasses import fields, replace
from itertools import permutations

import numpy as np
import pytest
from doors import fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from generate.agents.uniform import UniformPolicy
from generate.contract import Fitted
from generate.environments.wcst import CardSorting
from generate.episodes import play
from generate.schedule import load_schedules

PUBLISHED = CardSorting(n_trials=60, block_length=10)
SHORT = CardSorting(n_trials=7, block_length=3)
UNIFORM = Fitted(UniformPolicy())

environments = st.builds(CardSorting, n_trials=st.integers(1, 12), block_length=st.integers(1, 5))
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)


def played(environment, seeds, policy=UNIFORM, seed=3):
    episodes = environment.episodes(seeds)
    return play(environment, episodes, policy, seed, run_id="r", mode_id="m").to_pylist()


def drawn_by_hand(environment, seed):
    """One episode, in plain Python: the rule and the three matching key cards of each trial."""
    n_blocks = len(range(0, environment.n_trials, environment.block_length))
    numbers = np.random.RandomState(seed).random_sample(n_blocks + environment.n_trials).tolist()
    stimuli = list(permutations((1, 2, 3, 4), 3))
    rule, trials = None, []
    for trial in range(environment.n_trials):
        if trial % environment.block_length == 0:
            number = numbers[trial // environment.block_length]
            # of the two other rules, the next one comes first
            others = [0, 1, 2] if rule is None else [(rule + 1) % 3, (rule + 2) % 3]
            rule = others[int(len(others) * number)]
        trials.append((rule, stimuli[int(24 * numbers[n_blocks + trial])]))
    return trials


@settings(max_examples=30, deadline=None)
@given(environment=environments, seeds=seed_lists)
def test_an_episode_goes_as_it_does_by_hand(environment, seeds):
    rows = played(environment, seeds)
    assert len(rows) == len(seeds) * environment.n_trials
    for seed in seeds:
        ours = [row for row in rows if row["episode_id"] == str(seed)]
        for trial, (row, (rule, cards)) in enumerate(
            zip(ours, drawn_by_hand(environment, seed), strict=True)
        ):
            assert row["trial"] == trial and row["stage"] == 0 and row["status"] == "ok"
            assert row["observation"] == "colour {}, form {}, number {}".format(*cards)
            assert row["hidden_values"] == [rule, *cards]
            assert row["credited_options"] == [str(cards[rule])]
            assert row["legal_options"] == ["1", "2", "3", "4"] and row["action"] in row["legal_options"]
            is_right = row["action"] == str(cards[rule])
            assert row["reward"] == float(is_right) and row["is_rewarded"] and not row["is_forced"]
            assert row["outcome"] == ("correct" if is_right else "wrong")


@settings(max_examples=20, deadline=None)
@given(environment=environments, seeds=seed_lists)
def test_the_schedule_says_which_card_is_right_and_when_the_rule_changes(environment, seeds):
    items = environment.items(environment.episodes(seeds))
    assert len(items) == len(seeds) * environment.n_trials
    for item in items:
        episode, trial = item.participant_id, item.facts["trial"]
        trials = drawn_by_hand(environment, int(episode))
        rule, cards = trials[trial]
        assert item.item_id == f"{episode}/{trial}" and item.legal_options == ("1", "2", "3", "4")
        assert item.credited_options == (str(cards[rule]),)
        before = trials[trial - 1][0] if trial > 0 else None
        assert item.facts["is_rule_switch"] == (None if trial == 0 else rule != before)
        # another rule holds in every block, and one rule within it
        if trial > 0:
            assert item.facts["is_rule_switch"] == (trial % environment.block_length == 0)


@settings(max_examples=20, deadline=None)
@given(seeds=seed_lists, data=st.data())
def test_an_episode_is_the_same_in_any_batch(seeds, data):
    chosen = data.draw(st.permutations(seeds)).copy()[: data.draw(st.integers(1, len(seeds)))]
    whole, part = played(SHORT, seeds), played(SHORT, chosen)
    assert part == [row for seed in chosen for row in whole if row["episode_id"] == str(seed)]


@settings(max_examples=30, deadline=None)
@given(environment=environments, seeds=seed_lists, n_steps=st.integers(0, 12))
def test_neither_the_rule_nor_a_later_card_can_be_seen(environment, seeds, n_steps):
    world = environment.draw(environment.episodes(seeds))
    state = environment.start(world)
    for _ in range(n_steps):
        state, _ = environment.step(world, state, np.zeros(len(seeds), dtype=np.int64))
    is_future = np.arange(environment.n_trials) > state.trial[:, None]
    other = replace(world, rules=(world.rules + 1) % 3, stimuli=np.where(is_future, 0, world.stimuli))
    seen, still_seen = environment.observe(world, state), environment.observe(other, state)
    for field in fields(seen):
        assert np.array_equal(getattr(seen, field.name), getattr(still_seen, field.name)), field.name


def test_the_view_tells_what_was_said_about_the_last_choice():
    (rule, cards), (_, next_cards), *_ = drawn_by_hand(SHORT, 4)
    world = SHORT.draw(SHORT.episodes([4, 4]))
    state = SHORT.start(world)
    seen = SHORT.observe(world, state)
    assert seen.cards.tolist() == [[card - 1 for card in cards]] * 2
    assert seen.last_action.tolist() == [-1, -1] and seen.last_cards.tolist() == [[-1] * 3] * 2
    right = cards[rule] - 1
    state, _ = SHORT.step(world, state, np.array([right, (right + 1) % 4]))
    seen = SHORT.observe(world, state)
    assert seen.last_action.tolist() == [right, (right + 1) % 4]
    assert seen.last_is_right.tolist() == [True, False]
    assert seen.last_cards.tolist() == [[card - 1 for card in cards]] * 2
    assert seen.cards.tolist() == [[card - 1 for card in next_cards]] * 2


def test_a_stimulus_matches_a_card_in_each_dimension_and_one_card_in_none():
    labels = PUBLISHED.observations
    assert len(set(labels)) == 24
    followed = {"colour": 0, "form": 0, "number": 0, "none": 0}
    for label in labels:
        cards = dict(part.split() for part in label.split(", "))
        assert list(cards) == ["colour", "form", "number"] and len(set(cards.values())) == 3
        for choice in "1234":
            followed[next((name for name, card in cards.items() if card == choice), "none")] += 1
    # a uniform choice follows each dimension, and none, with probability 1/4
    assert followed == dict.fromkeys(followed, 24)


def test_stimuli_and_rules_are_equally_likely():
    world = PUBLISHED.draw(PUBLISHED.episodes(range(1000)))
    assert chisquare(np.bincount(world.stimuli.ravel(), minlength=24)).pvalue > 1e-4
    assert chisquare(np.bincount(world.rules[:, 0], minlength=3)).pvalue > 1e-4
    turns = (world.rules[:, 10::10] - world.rules[:, :-10:10]) % 3
    assert chisquare(np.bincount(turns.ravel(), minlength=3)[1:]).pvalue > 1e-4


def test_the_schedule_of_the_manifest_has_75_episodes_of_60_trials():
    schedule = load_schedules()["wcst"]
    environment = schedule.environment()
    assert environment == PUBLISHED
    items = environment.items(environment.episodes(schedule.seeds.range))
    assert len(items) == 75 * 60
    assert sum(item.facts["is_rule_switch"] or False for item in items) == 75 * 5


def test_the_rule_of_the_schedule_does_not_depend_on_what_is_chosen():
    by_first_card = played(SHORT, [1, 2], fitted(lambda seen: np.zeros(2)))
    by_chance = played(SHORT, [1, 2])
    assert [row["hidden_values"] for row in by_first_card] == [row["hidden_values"] for row in by_chance]


def test_an_illegal_choice_ends_the_episode_and_costs_every_trial():
    rows = played(SHORT, [1, 2], fitted(np.array([0, 1]), np.array([4, 1]), lambda seen: np.ones(2)))
    ended = [row for row in rows if row["episode_id"] == "1"]
    assert [row["status"] for row in ended] == ["ok", "unparsed", *["error"] * 5]
    assert {row["status"] for row in rows if row["episode_id"] == "2"} == {"ok"}


@pytest.mark.parametrize(
    "constants",
    [
        {"n_trials": 0, "block_length": 1},
        {"n_trials": 1, "block_length": 0},
        {"n_trials": 1.5, "block_length": 1},
        {"n_trials": 1},
        {"n_trials": 1, "block_length": 1, "n_cards": 4},
    ],
)
def test_constants_that_make_no_sense_are_refused(constants):
    with pytest.raises(ValidationError):
        CardSorting.model_validate(constants)
