"""Do balloons burst by the rule, and does nothing but what happened come into view?"""

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from generate.agents.thresholds import FixedThreshold, ThresholdPolicy
from generate.agents.uniform import UniformPolicy
from generate.contract import Fitted
from generate.environments.balloons import INFLATE, SKIP, Balloons
from generate.environments.wcst import CardSorting
from generate.episodes import play
from generate.schedule import load_agents, load_schedules
from generate.streams import Streams
from store.errors import InvalidSource

BART = Balloons(maxima=(128, 32, 8), n_balloons_per_letter=15)
SMALL = Balloons(maxima=(4, 2), n_balloons_per_letter=2)
UNIFORM = Fitted(UniformPolicy())

environments = st.builds(
    Balloons,
    maxima=st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple),
    n_balloons_per_letter=st.integers(1, 4),
)
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)


class Bold:
    """Inflates nine times in ten."""

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        return None, np.where(streams.uniform(1)[:, 0] < 0.9, INFLATE, SKIP)


class Always:
    """Takes one action, legal or not."""

    def __init__(self, action):
        self.action = action

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        return None, np.full(len(seen.legal), self.action)


def played(environment, seeds, policy, seed=3):
    fitted = policy if isinstance(policy, Fitted) else Fitted(policy)
    episodes = environment.episodes(seeds)
    return play(environment, episodes, fitted, seed, run_id="r", mode_id="bart").to_pylist()


def drawn_by_hand(environment, seed):
    """One run, in plain Python: (letter, maximum, burst) of each balloon."""
    n_letters, n_balloons = len(environment.maxima), environment.n_balloons
    numbers = np.random.RandomState(seed).random_sample(n_letters + 2 * n_balloons).tolist()
    keys, order, sizes = numbers[:n_letters], numbers[n_letters:-n_balloons], numbers[-n_balloons:]
    dealt = [environment.maxima[place] for place in sorted(range(n_letters), key=lambda place: keys[place])]
    n_left = [environment.n_balloons_per_letter] * n_letters
    balloons = []
    for number, size in zip(order, sizes, strict=True):
        still = [letter for letter in range(n_letters) if n_left[letter] > 0]
        letter = still[int(number * len(still))]
        n_left[letter] -= 1
        balloons.append((letter, dealt[letter], 1 + int(size * dealt[letter])))
    return balloons


def rows_by_hand(environment, seed, actions):
    """What the rows say if these actions are taken, one decision after the other."""
    actions = iter(actions)
    for trial, (letter, maximum, burst) in enumerate(drawn_by_hand(environment, seed)):
        pumps, outcome = 0, None
        while outcome not in ("exploded", "banked"):
            stage, action, reward = pumps, next(actions), None
            if action == "skip":
                outcome, reward = "banked", float(pumps)
            else:
                pumps += 1
                outcome = "exploded" if pumps == burst else "inflated"
                reward = 0.0 if outcome == "exploded" else None
            yield {
                "trial": trial,
                "stage": stage,
                "observation": f"balloon {'ABCD'[letter]}",
                "action": action,
                "is_rewarded": outcome != "inflated",
                "outcome": outcome,
                "reward": reward,
                "hidden_values": [float(maximum)],
            }


@settings(max_examples=30, deadline=None)
@given(environment=environments, seeds=seed_lists, policy=st.sampled_from([UniformPolicy(), Bold()]))
def test_a_run_goes_as_it_does_by_hand(environment, seeds, policy):
    rows = played(environment, seeds, policy)
    for seed in seeds:
        ours = [row for row in rows if row["episode_id"] == str(seed)]
        by_hand = list(rows_by_hand(environment, seed, [row["action"] for row in ours]))
        assert [{name: row[name] for name in by_hand[0]} for row in ours] == by_hand
        assert all(row["status"] == "ok" and not row["is_forced"] for row in ours)
        assert all(row["legal_options"] == ["skip", "inflate"] for row in ours)


@settings(max_examples=20, deadline=None)
@given(environment=environments, seeds=seed_lists)
def test_each_balloon_is_rewarded_once_and_below_its_maximum(environment, seeds):
    scored = [row for row in played(environment, seeds, Bold()) if row["is_rewarded"]]
    assert len(scored) == len(seeds) * environment.n_balloons
    assert all(0 <= row["reward"] < row["hidden_values"][0] for row in scored)
    letters = [row["observation"] for row in scored]
    assert {letters.count(name) for name in environment.observations} == {
        len(seeds) * environment.n_balloons_per_letter
    }


@settings(max_examples=20, deadline=None)
@given(seeds=seed_lists, data=st.data())
def test_a_run_is_the_same_in_any_batch(seeds, data):
    chosen = data.draw(st.permutations(seeds)).copy()[: data.draw(st.integers(1, len(seeds)))]
    whole = played(SMALL, seeds, Bold())
    part = played(SMALL, chosen, Bold())
    assert part == [row for seed in chosen for row in whole if row["episode_id"] == str(seed)]


@settings(max_examples=30, deadline=None)
@given(environment=environments, seeds=seed_lists, n_steps=st.integers(0, 12))
def test_what_has_not_happened_cannot_be_seen(environment, seeds, n_steps):
    world = environment.draw(environment.episodes(seeds))
    state = environment.start(world)
    streams = Streams([[seed] for seed in seeds])
    for _ in range(n_steps):
        _, actions = Bold().act(None, environment.observe(world, state), streams)
        state, _ = environment.step(world, state, actions)
    is_open = np.arange(environment.n_balloons) >= state.trial[:, None]
    is_future = np.arange(environment.n_balloons) > state.trial[:, None]
    other = replace(
        world,
        maxima=world.maxima + 1000,
        bursts=np.where(is_open, 999, world.bursts),
        letters=np.where(is_future, 0, world.letters),
    )
    seen, still_seen = environment.observe(world, state), environment.observe(other, state)
    for field in fields(seen):
        assert np.array_equal(getattr(seen, field.name), getattr(still_seen, field.name)), field.name


def test_the_view_tells_what_became_of_the_last_balloon():
    world = SMALL.draw(SMALL.episodes([1]))
    state = SMALL.start(world)
    seen = SMALL.observe(world, state)
    assert (seen.last_letter[0], seen.last_pumps[0], seen.last_is_exploded[0]) == (-1, -1, False)
    state, _ = SMALL.step(world, state, np.array([SKIP]))
    seen = SMALL.observe(world, state)
    assert (seen.last_letter[0], seen.last_pumps[0]) == (world.letters[0, 0], 0)
    for _ in range(world.bursts[0, 1]):
        assert not SMALL.observe(world, state).last_is_exploded[0]
        state, _ = SMALL.step(world, state, np.array([INFLATE]))
    seen = SMALL.observe(world, state)
    assert (seen.last_letter[0], seen.last_pumps[0]) == (world.letters[0, 1], world.bursts[0, 1])
    assert seen.last_is_exploded[0] and seen.trial[0] == 2 and seen.pumps[0] == 0


def test_the_last_inflation_that_there_can_be_bursts_every_balloon():
    scored = [row for row in played(BART, range(40), Always(INFLATE)) if row["is_rewarded"]]
    assert {row["outcome"] for row in scored} == {"exploded"}
    assert all(row["stage"] < row["hidden_values"][0] for row in scored)
    # a balloon of maximum 1 bursts at its first inflation: hazard 1 / (1 - 0)
    surest = Balloons(maxima=(1,), n_balloons_per_letter=3)
    assert [row["outcome"] for row in played(surest, [5], Always(INFLATE))] == ["exploded"] * 3


def test_every_inflation_is_as_likely_as_any_other_to_burst_a_balloon():
    world = BART.draw(BART.episodes(range(1000)))
    for maximum in BART.maxima:
        counts = np.bincount(world.bursts[world.maxima == maximum], minlength=maximum + 1)
        assert counts[0] == 0 and counts.size == maximum + 1 and counts.sum() == 1000 * 15
        assert chisquare(counts[1:]).pvalue > 1e-4


def test_maxima_are_dealt_to_letters_in_all_ways_equally_often():
    world = BART.draw(BART.episodes(range(3000)))
    dealt = np.array(
        [
            [run[letters == letter][0] for letter in range(3)]
            for run, letters in zip(world.maxima, world.letters, strict=True)
        ]
    )
    _, counts = np.unique(dealt, axis=0, return_counts=True)
    assert len(counts) == 6 and chisquare(counts).pvalue > 1e-4
    assert chisquare(np.bincount(world.letters[:, 0])).pvalue > 1e-4


def test_uniform_play_earns_what_the_document_expects():
    def expected(maximum):
        return sum((Fraction(k * (maximum - k), maximum * 2 ** (k + 1)) for k in range(maximum)), Fraction())

    exact = float(sum(map(expected, BART.maxima), Fraction()) / 3)
    scored = [row["reward"] for row in played(BART, range(300), UNIFORM) if row["is_rewarded"]]
    assert abs(np.mean(scored) - exact) < 4 * np.std(scored) / np.sqrt(len(scored))


def test_an_illegal_choice_ends_the_run_and_costs_every_balloon():
    rows = played(SMALL, [1, 2], Always(2))
    assert [row["status"] for row in rows] == ["unparsed", "error", "error", "error"] * 2
    assert [row["trial"] for row in rows] == [0, 1, 2, 3] * 2
    assert all(row["is_rewarded"] and row["reward"] is None for row in rows)


def test_an_item_is_a_balloon_and_its_maximum():
    items = SMALL.items(SMALL.episodes([7, 8]))
    assert [item.item_id for item in items] == [
        f"{seed}/{balloon}" for seed in (7, 8) for balloon in range(4)
    ]
    by_hand = [maximum for seed in (7, 8) for _, maximum, _ in drawn_by_hand(SMALL, seed)]
    assert [item.facts for item in items] == [{"maximum": maximum} for maximum in by_hand]
    assert all(item.weight == 1 and item.credited_options is None for item in items)


@pytest.mark.parametrize(
    "constants",
    [
        {"maxima": [], "n_balloons_per_letter": 1},
        {"maxima": [0], "n_balloons_per_letter": 1},
        {"maxima": [8.5], "n_balloons_per_letter": 1},
        # its last decision would be number 128, which 8 bits cannot hold
        {"maxima": [129], "n_balloons_per_letter": 1},
        {"maxima": [8], "n_balloons_per_letter": 0},
        {"maxima": [8], "n_balloons_per_letter": 1, "colour": "red"},
    ],
)
def test_constants_that_make_no_sense_are_refused(constants):
    with pytest.raises(ValidationError):
        Balloons.model_validate(constants)


def test_the_largest_maximum_fits_the_stored_step_number():
    largest = Balloons(maxima=(128,), n_balloons_per_letter=40)
    assert max(row["stage"] for row in played(largest, range(20), Always(INFLATE))) == 127


# thresholds


def earned(environment, seeds, thresholds):
    """Mean reward per letter, by playing."""
    rows = played(environment, seeds, ThresholdPolicy(np.array(thresholds)))
    return [
        np.mean([row["reward"] for row in rows if row["is_rewarded"] and row["observation"] == name])
        for name in environment.observations
    ]


@pytest.mark.parametrize("seeds", [range(3), range(10, 15), range(20, 21)])
def test_no_threshold_earns_more_in_training_and_ties_go_to_the_smallest(seeds):
    environment = Balloons(maxima=(9, 5, 3), n_balloons_per_letter=4)
    fitted = FixedThreshold().fit(environment, seeds)
    table = np.array([earned(environment, seeds, [t] * 3) for t in range(1, 10)])
    by_playing = [1 + column.tolist().index(column.max()) for column in table.T]
    assert fitted.policy.thresholds.tolist() == by_playing
    assert [(fit.parameter, fit.value) for fit in fitted.fits] == [
        (f"threshold_{name}", threshold) for name, threshold in zip("ABC", by_playing, strict=True)
    ]
    assert {fit.n_training for fit in fitted.fits} == {len(seeds) * 4}
    assert [fit.is_at_bound for fit in fitted.fits] == [threshold in (1, 9) for threshold in by_playing]


def test_where_all_balloons_burst_at_once_the_smallest_threshold_is_as_good_as_any():
    fitted = FixedThreshold().fit(Balloons(maxima=(1,), n_balloons_per_letter=2), [1])
    assert fitted.policy.thresholds.tolist() == [1] and fitted.fits[0].is_at_bound


def test_a_threshold_is_reached_and_not_passed():
    rows = played(BART, range(20), ThresholdPolicy(np.array([3, 5, 1])))
    banked = {(row["observation"], row["reward"]) for row in rows if row["outcome"] == "banked"}
    assert banked == {("balloon A", 3.0), ("balloon B", 5.0), ("balloon C", 1.0)}


def test_thresholds_of_the_manifest_stay_below_full_information():
    schedule, agent = load_schedules()["bart"], load_agents()["fixed_threshold"]
    environment = schedule.environment()
    assert environment == BART and schedule.training_seeds is not None
    assert not set(schedule.seeds.range) & set(schedule.training_seeds.range)
    fitted = agent.made().fit(environment, schedule.training_seeds.range)
    # what the thresholds earn on a balloon whose maximum is any of the three
    exact = np.mean([max(t * (m - t), 0) / m for t in fitted.policy.thresholds for m in BART.maxima])
    full_information = np.mean([max(t * (m - t) / m for t in range(m)) for m in BART.maxima])
    assert full_information == 14 and 10 < exact < 32 / 3
    scored = [
        row["reward"] for row in played(environment, schedule.seeds.range, fitted) if row["is_rewarded"]
    ]
    assert len(scored) == 450
    assert abs(np.mean(scored) - exact) < 4 * np.std(scored) / np.sqrt(450)


def test_thresholds_need_balloons_and_training_runs():
    with pytest.raises(InvalidSource, match="expected an environment of Balloons, found CardSorting"):
        FixedThreshold().fit(CardSorting(n_trials=1, block_length=1), [1])
    with pytest.raises(InvalidSource, match="found none"):
        FixedThreshold().fit(SMALL, [])
