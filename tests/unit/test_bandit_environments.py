"""Do the bandits pay what their rules say, and show nothing but what was paid?

Each environment is played once more by a plain loop over trials that shares no code with it.
"""

import math
import random
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generate.agents.uniform import UniformPolicy
from generate.contract import Fitted
from generate.environments.horizon import Horizon
from generate.environments.instrumental import InstrumentalLearning
from generate.environments.restless import RestlessBandit
from generate.environments.single import SingleEpisode
from generate.environments.stationary import StationaryBandits
from generate.environments.torch_stream import scalar_normals
from generate.episodes import play
from generate.schedule import load_schedules
from store.errors import InvalidSource

SCHEDULES = load_schedules()
NAMES = ("restless_bandit", "instrumental_learning", "horizon", "stationary_bandits")
quick = settings(max_examples=25, deadline=None)


def published(name):
    schedule = SCHEDULES[name]
    environment = schedule.environment()
    return environment, environment.episodes(list(schedule.seeds.range))


# small ones, of any size


seeds = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True)
points = st.floats(-100, 100).map(lambda value: round(value, 1))
deviations = st.floats(0, 20).map(lambda value: round(value, 1))
probabilities = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])

restless = st.builds(
    RestlessBandit,
    reward_means=st.tuples(points, points),
    reward_sd=deviations,
    block_lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
)
instrumental = st.builds(
    InstrumentalLearning,
    reward_probabilities=st.lists(st.tuples(probabilities, probabilities), min_size=1, max_size=5).map(tuple),
    n_visits=st.integers(1, 4),
)
horizon = st.builds(
    Horizon,
    base_means=st.just((40.0, 60.0)),
    gaps=st.lists(st.sampled_from([4.0, 8.0, 12.5]), min_size=1, max_size=2).map(tuple),
    reward_sd=deviations,
    free_choices=st.lists(st.integers(1, 5), min_size=1, max_size=2).map(tuple),
    n_forced=st.just(3),
    first_arm_forced=st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple),
)
bernoulli = st.fixed_dictionaries(
    {
        "rewards": st.just("bernoulli"),
        "scenario": st.sampled_from(["a story", "another"]),
        "n_arms": st.integers(2, 5),
        "n_trials": st.integers(1, 8),
        "gap": st.sampled_from([0.2, 0.5, 1.0]),
    }
)
gaussian = st.fixed_dictionaries(
    {
        "rewards": st.just("gaussian"),
        "scenario": st.sampled_from(["a story", "another"]),
        "n_arms": st.integers(2, 5),
        "n_trials": st.integers(1, 8),
        "sd": st.sampled_from([0.5, 1.0, 3.0]),
        "means_seed": st.integers(0, 99),
    }
)
stationary = st.lists(bernoulli | gaussian, min_size=1, max_size=4).map(
    lambda conditions: StationaryBandits(
        conditions=[condition | {"label": f"c{i}"} for i, condition in enumerate(conditions)]
    )
)
ENVIRONMENTS = {
    "restless_bandit": restless,
    "instrumental_learning": instrumental,
    "horizon": horizon,
    "stationary_bandits": stationary,
}
every_bandit = pytest.mark.parametrize("bandit", ENVIRONMENTS)


@dataclass(frozen=True)
class Noise:
    """Chooses any of the actions, legal or not, as often as ``legality`` says."""

    legality: float = 1.0

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        is_kept, place = streams.uniform(2).T
        scores = np.where(seen.legal | (is_kept >= self.legality)[:, None], 1.0, 0.0)
        order = scores.cumsum(axis=1)
        return memory, (order <= (place * order[:, -1])[:, None]).sum(axis=1)


def played(environment, episodes, policy=None, seed=5):
    table = play(environment, episodes, Fitted(policy or Noise()), seed, run_id="r", mode_id="m")
    by_episode = defaultdict(list)
    for row in table.to_pylist():
        by_episode[row["episode_id"]].append(row)
    return dict(by_episode)


def choices(rows):
    return [int(row["action"]) for row in rows]


# random streams, in plain Python


def mersenne(seed):
    """MT19937, started by the seeding recurrence of its authors; yields words of 32 bits."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & 0xFFFFFFFF)
    twister = random.Random()
    twister.setstate((3, (*state, 624), None))
    while True:
        yield twister.getrandbits(32)


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def normals(seed, n):
    words = mersenne(seed)

    def uniform():
        high, low = next(words), next(words)
        return ((high * 2**32 + low) % 2**53) / 2**53

    found = []
    while len(found) < n:
        turn, depth = uniform(), uniform()
        radius = math.sqrt(-2 * math.log1p(-depth))
        found += [single(radius * f(2 * math.pi * turn)) for f in (math.cos, math.sin)]
    return found[:n]


@quick
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 9))
def test_scalar_normals_are_box_muller_on_the_words_of_the_twister(seed, n):
    found = scalar_normals(seed, n)
    assert found.dtype == np.float32
    assert found.tolist() == normals(seed, n)


def test_rewards_of_the_restless_bandit_are_those_that_torch_2_13_drew():
    # np.random.seed(20261009) and torch.manual_seed(20261009): the first arm starts with a mean of 40
    environment, episodes = published("restless_bandit")
    world = environment.draw(episodes)
    first = world.rewards[world.which[0], :6, 0]
    assert first.tolist() == [41.43, 46.49, 49.44, 39.13, 40.53, 45.34]


# dynamics, by plain loops


def restless_loop(environment, seed, actions):
    """As the original: permute, swap at the reset, pay, swap after the last trial of a block, score."""
    means = list(environment.reward_means)
    if next(mersenne(seed)) % 2 == 0:
        means.reverse()
    means.reverse()
    ends = set(accumulate(environment.block_lengths))
    sd = single(environment.reward_sd)
    for trial, (action, noise) in enumerate(zip(actions, normals(seed, len(actions)), strict=True), start=1):
        paid = single(single(noise * sd) + single(means[action]))
        if trial in ends:
            means.reverse()
        yield float(np.round(paid, 2)), means[action] == max(means), list(means), None


def instrumental_loop(environment, seed, actions):
    stream = np.random.RandomState(seed)
    visits = [casino for casino in range(environment.n_casinos) for _ in range(environment.n_visits)]
    stream.shuffle(visits)
    for casino, action in zip(visits, actions, strict=True):
        chances = environment.reward_probabilities[casino]
        paid = [float(stream.random_sample() < chance) for chance in chances]
        yield paid[action], chances[action] == max(chances), list(chances), f"casino {casino + 1}"


def horizon_loop(environment, timeline, game, actions):
    stream = np.random.RandomState(timeline)
    design = [
        ((base, base + sign * gap) if arm == 0 else (base + sign * gap, base), n_free, n_first)
        for arm in (0, 1)
        for base in environment.base_means
        for gap in environment.gaps
        for sign in (-1, 1)
        for n_free in environment.free_choices
        for n_first in environment.first_arm_forced
    ]
    stream.shuffle(design)
    n_forced, n_trials = environment.n_forced, environment.n_forced + max(environment.free_choices)
    keys = [[stream.random_sample() for _ in range(n_forced)] for _ in design]
    noise = [[[stream.standard_normal() for _ in "ab"] for _ in range(n_trials)] for _ in design]
    means, n_free, n_first = design[game]
    sorted_arms = [0] * n_first + [1] * (n_forced - n_first)
    forced = [sorted_arms[i] for i in sorted(range(n_forced), key=lambda i: keys[game][i])]
    assert actions[:n_forced] == forced
    assert len(actions) == n_forced + n_free
    for trial, action in enumerate(actions):
        paid = round(means[action] + environment.reward_sd * noise[game][trial][action])
        yield float(paid), means[action] == max(means), list(means), f"horizon {n_free}"


def stationary_loop(environment, seed, slot, actions):
    condition = environment.conditions[slot]
    stream = np.random.RandomState([seed, slot])
    if condition.rewards == "bernoulli":
        best = stream.randint(condition.n_arms)
        means = [0.5 + (1 if arm == best else -1) * condition.gap / 2 for arm in range(condition.n_arms)]
    else:
        generator = np.random.default_rng(condition.means_seed)
        means = [generator.normal(0, condition.sd) for _ in range(condition.n_arms)]
    assert len(actions) == condition.n_trials
    for action in actions:
        if condition.rewards == "bernoulli":
            paid = float(stream.random_sample() < means[action])
        else:
            paid = means[action] + condition.sd * stream.standard_normal()
        yield paid, means[action] == max(means), None, condition.scenario


def expected_rows(environment, episodes, index, actions):
    seed, slot = int(episodes.seeds[index]), int(episodes.slots[index])
    if isinstance(environment, RestlessBandit):
        return restless_loop(environment, seed, actions)
    if isinstance(environment, InstrumentalLearning):
        return instrumental_loop(environment, seed, actions)
    if isinstance(environment, Horizon):
        return horizon_loop(environment, seed, slot, actions)
    return stationary_loop(environment, seed, slot, actions)


@every_bandit
@quick
@given(data=st.data(), seeds=seeds)
def test_steps_are_those_of_a_plain_loop(bandit, data, seeds):
    environment = data.draw(ENVIRONMENTS[bandit])
    episodes = environment.episodes(seeds)
    rows = played(environment, episodes)
    assert list(rows) == list(episodes.ids)
    for index in data.draw(st.lists(st.integers(0, len(episodes) - 1), min_size=1, max_size=3)):
        steps = rows[episodes.ids[index]]
        assert [row["trial"] for row in steps] == list(range(len(steps)))
        found = [
            (
                row["reward"],
                row["action"] in row["credited_options"],
                row["hidden_values"],
                row["observation"],
            )
            for row in steps
        ]
        assert found == list(expected_rows(environment, episodes, index, choices(steps)))


@pytest.mark.parametrize("name", NAMES)
def test_published_episodes_are_those_of_a_plain_loop(name):
    environment, episodes = published(name)
    few = np.linspace(0, len(episodes) - 1, 6).astype(int)
    rows = played(environment, episodes.only(few))
    for index in few.tolist():
        steps = rows[episodes.ids[index]]
        found = [(row["reward"], row["action"] in row["credited_options"]) for row in steps]
        expected = expected_rows(environment, episodes, index, choices(steps))
        assert found == [(paid, is_right) for paid, is_right, *_ in expected]


# legality and conservation


@every_bandit
@quick
@given(data=st.data(), seeds=seeds, legality=st.sampled_from([0.0, 0.7, 1.0]))
def test_only_legal_actions_are_taken_and_no_trial_is_lost(bandit, data, seeds, legality):
    environment = data.draw(ENVIRONMENTS[bandit])
    episodes = environment.episodes(seeds)
    lengths = {name: len(steps) for name, steps in played(environment, episodes).items()}
    for name, steps in played(environment, episodes, Noise(legality)).items():
        assert len(steps) == lengths[name]
        ok = [row for row in steps if row["status"] == "ok"]
        assert all(row["action"] in row["legal_options"] for row in ok)
        assert [row["status"] for row in steps] == [
            *["ok"] * len(ok),
            *["unparsed"] * (len(ok) < len(steps)),
            *["error"] * (len(steps) - len(ok) - 1),
        ]
        assert all(row["reward"] is None and row["action"] is None for row in steps[len(ok) :])
        assert [row["is_forced"] for row in ok] == [len(row["legal_options"]) == 1 for row in ok]


@every_bandit
@quick
@given(data=st.data(), seeds=seeds)
def test_items_stand_for_every_choice_that_is_not_forced(bandit, data, seeds):
    environment = data.draw(ENVIRONMENTS[bandit])
    episodes = environment.episodes(seeds)
    items = environment.items(episodes)
    assert len({item.item_id for item in items}) == len(items)
    rows = [
        row
        for steps in played(environment, episodes).values()
        for row in steps
        if len(row["legal_options"]) > 1
    ]
    expected = Counter()
    for item in items:
        expected[item.legal_options, item.credited_options] += item.weight
    found = Counter((tuple(row["legal_options"]), tuple(row["credited_options"])) for row in rows)
    assert found == expected
    for item in items:
        assert set(item.credited_options) <= set(item.legal_options)
        if means := item.facts.get("reward_means"):
            best = [
                label for label, mean in zip(item.legal_options, means, strict=True) if mean == max(means)
            ]
            assert list(item.credited_options) == best


@quick
@given(data=st.data(), seeds=seeds)
def test_rewards_keep_to_their_kind(data, seeds):
    environment = data.draw(instrumental)
    for steps in played(environment, environment.episodes(seeds)).values():
        visits = Counter(row["observation"] for row in steps)
        assert visits == dict.fromkeys(environment.observations, environment.n_visits)
        for row in steps:
            chance = row["hidden_values"][int(row["action"])]
            assert row["reward"] in {0.0: (0.0,), 1.0: (1.0,)}.get(chance, (0.0, 1.0))
    environment = data.draw(horizon)
    for steps in played(environment, environment.episodes(seeds)).values():
        assert all(row["reward"] == int(row["reward"]) for row in steps)
        assert [row["is_rewarded"] for row in steps] == [not row["is_forced"] for row in steps]


# determinism


@every_bandit
@quick
@given(data=st.data(), seeds=seeds)
def test_any_batch_of_episodes_has_the_same_rows(bandit, data, seeds):
    environment = data.draw(ENVIRONMENTS[bandit])
    episodes = environment.episodes(seeds)
    whole = played(environment, episodes)
    assert played(environment, episodes) == whole
    places = data.draw(st.permutations(range(len(episodes))))[: data.draw(st.integers(1, 4))]
    part = episodes.only(np.array(places))
    assert played(environment, part) == {name: whole[name] for name in part.ids}
    items = {item.item_id: item for item in environment.items(episodes)}
    assert all(items[item.item_id] == item for item in environment.items(part))


@every_bandit
def test_replicas_of_an_episode_share_its_world(bandit):
    environment = SCHEDULES[bandit].environment()
    episodes = environment.episodes([3, 4])
    once, thrice = environment.draw(episodes), environment.draw(episodes.repeated(3))
    tables = [name for name in once.__slots__ if name not in ("which", "conditions")]
    assert all(np.array_equal(getattr(once, name), getattr(thrice, name)) for name in tables)
    assert thrice.which.tolist() == once.which.tolist() * 3


def test_conditions_with_the_same_seed_share_no_chance():
    environment, episodes = published("stationary_bandits")
    world = environment.draw(episodes)
    chance = world.chance[world.which]
    is_first_seed = episodes.seeds == episodes.seeds[0]
    assert len(np.unique(chance[is_first_seed, 0])) == len(environment.conditions)
    # nor do neighbouring seeds
    correlations = np.corrcoef(chance[:, :300]) - np.eye(len(episodes))
    assert abs(correlations).max() < 6 / math.sqrt(300)


# what can be seen


def seen_along(environment, world, actions_of):
    """Return everything that is observed in live episodes on the way, and what was chosen."""
    state, record, taken = environment.start(world), [], []
    while state.live.any():
        seen = environment.observe(world, state)
        record.append({name: getattr(seen, name)[state.live].tolist() for name in seen_fields(seen)})
        actions = actions_of(seen)
        taken.append(actions)
        state, _ = environment.step(world, state, actions)
    return record, taken


def seen_fields(seen):
    return [name for kind in type(seen).__mro__ for name in getattr(kind, "__slots__", ())]


@every_bandit
@quick
@given(data=st.data(), seeds=seeds, secret=st.floats(-1e6, 1e6))
def test_what_was_not_revealed_cannot_be_seen(bandit, data, seeds, secret):
    environment = data.draw(ENVIRONMENTS[bandit])
    world = environment.draw(environment.episodes(seeds))
    chooser = np.random.RandomState(1)

    def any_legal(seen):
        return (chooser.random_sample(seen.legal.shape) * seen.legal).argmax(axis=1)

    record, taken = seen_along(environment, world, any_legal)
    if isinstance(environment, StationaryBandits):
        # arms that were never chosen
        means = world.means.copy()
        chosen = np.zeros_like(means, dtype=bool)
        for trial, actions in enumerate(taken):
            n_trials = np.array([condition.n_trials for condition in environment.conditions])[
                world.conditions
            ]
            rows = np.flatnonzero(trial < n_trials)
            chosen[world.which[rows], actions[rows]] = True
        means[~chosen & np.isfinite(means)] = secret
        changed = replace(world, means=means)
    else:
        # rewards of the arms that were not chosen, and all means
        rewards = np.full_like(world.rewards, secret)
        for trial, actions in enumerate(taken):
            rewards[world.which, trial, actions] = world.rewards[world.which, trial, actions]
        changed = replace(world, rewards=rewards)
        for hidden in ("means", "means_after"):
            if hasattr(world, hidden):
                changed = replace(changed, **{hidden: np.full_like(getattr(world, hidden), secret)})
    script = iter(taken)
    assert repr(seen_along(environment, changed, lambda seen: next(script))[0]) == repr(record)


@every_bandit
@quick
@given(data=st.data(), seeds=seeds, secret=st.floats(0, 1))
def test_the_future_cannot_be_seen(bandit, data, seeds, secret):
    environment = data.draw(ENVIRONMENTS[bandit])
    world = environment.draw(environment.episodes(seeds))
    paid = "chance" if bandit == "stationary_bandits" else "rewards"
    now = data.draw(st.integers(0, getattr(world, paid).shape[1] - 1))
    changed = getattr(world, paid).copy()
    changed[:, now:] = secret

    def first(seen):
        return seen.legal.argmax(axis=1)

    record, _ = seen_along(environment, world, first)
    other, _ = seen_along(environment, replace(world, **{paid: changed}), first)
    assert repr(other[: now + 1]) == repr(record[: now + 1])


@every_bandit
@quick
@given(data=st.data(), seeds=seeds)
def test_the_last_choice_is_shown_as_it_was_paid(bandit, data, seeds):
    environment = data.draw(ENVIRONMENTS[bandit])
    world = environment.draw(environment.episodes(seeds))
    state = environment.start(world)
    seen = environment.observe(world, state)
    assert np.isnan(seen.last_reward).all()
    assert (seen.last_action == -1).all() and (seen.last_context == -1).all()
    n_steps = 0
    while state.live.any():
        assert (seen.trial == n_steps).all()
        assert (environment.trials_left(world, state)[state.live] >= 0).all()
        actions = np.where(seen.legal[:, -1], seen.legal.shape[1] - 1, seen.legal.argmax(axis=1))
        context, live = seen.context, state.live
        state, step = environment.step(world, state, actions)
        seen = environment.observe(world, state)
        shown = np.trunc(step.reward) if bandit == "restless_bandit" else step.reward
        assert np.array_equal(seen.last_reward[live], shown[live])
        assert np.array_equal(seen.last_action[live], actions[live])
        assert np.array_equal(seen.last_context[live], context[live])
        assert not seen.legal[~state.live].any()
        n_steps += 1


@pytest.mark.parametrize("name", NAMES)
def test_one_episode_at_a_time_is_a_batch_of_one(name):
    environment, episodes = published(name)
    single_episode = SingleEpisode(environment)
    seen, _ = single_episode.reset(seed=int(episodes.seeds[0]))
    rewards = []
    while True:
        turn = single_episode.step(int(seen.legal[0].argmax()))
        rewards.append(turn.reward)
        seen = turn.observation
        if turn.terminated:
            break
    first = environment.episodes([int(episodes.seeds[0])]).only(np.array([0]))

    class First(Noise):
        def act(self, memory, seen, streams):
            return memory, seen.legal.argmax(axis=1)

    assert [row["reward"] for row in played(environment, first, First())[first.ids[0]]] == rewards


# the schedules


def uniform_share(items):
    """Chance that an even choice is right, over all choices."""
    total = sum(Fraction(item.weight) for item in items)
    return (
        sum(
            Fraction(item.weight) * Fraction(len(item.credited_options), len(item.legal_options))
            for item in items
        )
        / total
    )


@pytest.mark.parametrize(
    "name, n_episodes, n_items, n_choices, share",
    [
        ("restless_bandit", 10, 800, 800, Fraction(1, 2)),
        # right with either arm in two casinos of four, with one arm in the others
        ("instrumental_learning", 10, 40, 960, Fraction(2 * 2 + 2 * 1, 4 * 2)),
        ("horizon", 31 * 320, 31 * 320, 34_720, Fraction(1, 2)),
        # 5 and 20 arms in as many trials each
        ("stationary_bandits", 480, 480, 312_000, (Fraction(1, 5) + Fraction(1, 20)) / 2),
    ],
)
def test_schedules_hold_what_the_documents_count(name, n_episodes, n_items, n_choices, share):
    environment, episodes = published(name)
    items = environment.items(episodes)
    assert len(episodes) == n_episodes
    assert len(items) == n_items
    assert sum(item.weight for item in items) == n_choices
    assert uniform_share(items) == share
    assert len(set(zip(episodes.seeds.tolist(), episodes.slots.tolist(), strict=True))) == n_episodes


@pytest.mark.parametrize("name", NAMES)
def test_uniform_choices_come_near_the_exact_share(name):
    environment, episodes = published(name)
    # of the larger schedules a tenth, which has as many episodes of each condition
    part = episodes.only(np.arange(0, len(episodes), 10 if len(episodes) > 10 else 1))
    rows = [row for steps in played(environment, part, UniformPolicy()).values() for row in steps]
    free = [row["action"] in row["credited_options"] for row in rows if not row["is_forced"]]
    share = float(uniform_share(environment.items(part)))
    assert abs(np.mean(free) - share) < 4 * math.sqrt(share * (1 - share) / len(free))


def test_training_environments_are_none_of_the_test():
    for name in NAMES:
        schedule = SCHEDULES[name]
        if schedule.training_seeds is not None:
            assert not set(schedule.training_seeds.range) & set(schedule.seeds.range)
    assert SCHEDULES["restless_bandit"].seeds.range == range(20261009, 20261019)
    assert SCHEDULES["restless_bandit"].training_seeds.range == range(30000000, 30000100)


def test_the_last_trial_of_a_block_is_scored_by_the_means_that_follow():
    environment, episodes = published("restless_bandit")
    means = environment.draw(episodes).means_after[0]
    start = means[0]
    is_swapped = (means != start).any(axis=1)
    # 21 + 20 + 20 + 19 trials, of which the last of each already belongs to the next block
    assert is_swapped.tolist() == [False] * 20 + [True] * 20 + [False] * 20 + [True] * 19 + [False]


def test_either_arm_is_the_better_one_at_first_and_rewards_have_the_declared_spread():
    environment = SCHEDULES["restless_bandit"].environment()
    world = environment.draw(environment.episodes(range(30000000, 30000100)))
    n_first = (world.means_after[:, 0, 0] == 60).sum()
    assert abs(n_first - 50) < 4 * 5
    block = np.repeat(np.arange(4), environment.block_lengths)
    before = np.where((block % 2 == 0)[:, None], world.means_after[:, :1], world.means_after[:, :1, ::-1])
    noise = (world.rewards - before)[:, :, 0]
    assert abs(noise.mean()) < 4 * 8 / math.sqrt(8000)
    assert abs(noise.std() - 8) < 4 * 8 / math.sqrt(2 * 8000)
    # one draw a trial: what the arms pay differs by the means alone
    assert np.allclose(
        world.rewards[..., 0] - world.rewards[..., 1], before[..., 0] - before[..., 1], atol=0.02
    )


def test_games_are_a_full_factorial_in_every_timeline():
    environment, episodes = published("horizon")
    world = environment.draw(episodes)
    n_first = (world.forced == 0).sum(axis=1)
    cells = Counter(
        zip(
            episodes.seeds.tolist(),
            map(tuple, world.means[world.which].tolist()),
            world.horizons[world.which].tolist(),
            n_first[world.which].tolist(),
            strict=True,
        )
    )
    pairs = Counter()
    for base in (40, 60):
        for gap in (4, 8, 12, 20, 30):
            for other in (base - gap, base + gap):
                pairs[float(base), float(other)] += 1
                pairs[float(other), float(base)] += 1
    # 40 and 60 are twice a pair with a gap of 20, once from either base
    assert sum(pairs.values()) == 40 and pairs[40.0, 60.0] == pairs[60.0, 40.0] == 2
    assert cells == {
        (seed, means, level, first): n * times
        for seed in SCHEDULES["horizon"].seeds.range
        for means, n in pairs.items()
        for level in (0, 1)
        for first, times in ((1, 1), (2, 2), (3, 1))
    }


def test_the_arms_of_free_choices_are_worth_fifty_points_on_average():
    environment, episodes = published("horizon")
    items = environment.items(episodes)
    total = sum(Fraction(item.weight) * sum(map(Fraction, item.facts["reward_means"])) / 2 for item in items)
    assert total / sum(Fraction(item.weight) for item in items) == 50
    assert all(len(set(item.facts["reward_means"])) == 2 for item in items)
    assert Counter(item.template_id for item in items) == {"horizon_1": 31 * 160, "horizon_6": 31 * 160}


def test_forced_trials_and_orders_of_games_are_shuffled():
    environment, episodes = published("horizon")
    world = environment.draw(episodes)
    patterns = Counter(map(tuple, world.forced.tolist()))
    # 4 orders of one and three, as many of three and one, 6 of two and two
    assert len(patterns) == 14
    for pattern, n in patterns.items():
        chance = Fraction(1, 4) / 4 if sum(pattern) != 2 else Fraction(1, 2) / 6
        assert abs(n - len(episodes) * chance) < 5 * math.sqrt(len(episodes) * chance * (1 - chance))
    assert len({tuple(world.means[i * 320 : i * 320 + 320, 0].tolist()) for i in range(31)}) == 31


def test_the_remaining_choices_of_a_game_are_in_view():
    environment, episodes = published("horizon")
    game = episodes.only(np.array([list(environment.draw(episodes).horizons).index(1)]))
    record, _ = seen_along(environment, environment.draw(game), lambda seen: seen.legal.argmax(axis=1))
    assert [step["choices_left"] for step in record] == [[n] for n in (6, 6, 6, 6, 6, 5, 4, 3, 2, 1)]


def test_conditions_are_those_of_the_public_benchmark():
    environment, _ = published("stationary_bandits")
    found = [
        (c.rewards, c.n_arms, c.scenario, c.n_trials, getattr(c, "gap", None) or (c.sd, c.means_seed))
        for c in environment.conditions
    ]
    expected, number = [], 0
    for n_arms in (5, 20):
        for scenario in ("video_watching", "clothes_shopping"):
            for n_trials, gap, sd in ((300, 0.5, 1.0), (1000, 0.2, 3.0)):
                number += 1
                expected.append(("bernoulli", n_arms, scenario, n_trials, gap))
                expected.append(("gaussian", n_arms, scenario, n_trials, (sd, number)))
    assert found == expected


def test_gaussian_means_stay_as_they_are():
    environment, _ = published("stationary_bandits")
    first, second = (environment.conditions[place].means for place in (1, 3))
    assert first == pytest.approx([0.34558419, 0.82161814, 0.33043708, -1.30315723, 0.90535587], abs=1e-8)
    assert second[:2] == pytest.approx([0.56716, -1.56825], abs=1e-4)


def test_the_best_bernoulli_arm_has_any_place_and_pays_as_declared():
    environment, episodes = published("stationary_bandits")
    world = environment.draw(episodes)
    for slot, condition in enumerate(environment.conditions):
        if condition.rewards == "bernoulli":
            means = world.means[world.which[episodes.slots == slot]][:, : condition.n_arms]
            assert {float(mean) for mean in means.ravel()} == {
                0.5 - condition.gap / 2,
                0.5 + condition.gap / 2,
            }
            assert len(set(means.argmax(axis=1).tolist())) > 3
    slot = [condition.label for condition in environment.conditions].index("bernoulli_5_video_watching_hard")
    rows = played(environment, episodes.only(np.flatnonzero(episodes.slots == slot)), UniformPolicy())
    paid, n = Counter(), Counter()
    for row in (row for steps in rows.values() for row in steps):
        is_best = row["action"] in row["credited_options"]
        paid[is_best] += row["reward"]
        n[is_best] += 1
    for is_best, chance in ((True, 0.6), (False, 0.4)):
        assert abs(paid[is_best] / n[is_best] - chance) < 4 * math.sqrt(0.24 / n[is_best])


# settings that make no sense


@pytest.mark.parametrize(
    "name, change",
    [
        ("restless_bandit", {"block_lengths": []}),
        ("restless_bandit", {"block_lengths": [21, 0]}),
        ("restless_bandit", {"reward_sd": -1.0}),
        ("restless_bandit", {"reward_means": [40.0]}),
        ("instrumental_learning", {"n_visits": 0}),
        ("instrumental_learning", {"reward_probabilities": [[0.5, 1.5]]}),
        ("instrumental_learning", {"reward_probabilities": []}),
        ("horizon", {"gaps": [0.0]}),
        ("horizon", {"free_choices": [1, 0]}),
        ("horizon", {"first_arm_forced": [5]}),
        ("horizon", {"n_forced": 0}),
        ("stationary_bandits", {"conditions": []}),
        ("stationary_bandits", {"surprise": 1}),
    ],
)
def test_a_schedule_without_trials_or_sense_is_refused(name, change):
    schedule = SCHEDULES[name]
    changed = schedule.model_copy(update={"constants": dict(schedule.constants) | change})
    with pytest.raises(
        InvalidSource, match=rf"^environments\.toml: {name}: {next(iter(change))}|may not exceed"
    ):
        changed.environment()


@pytest.mark.parametrize(
    "change",
    [{"n_trials": 0}, {"n_arms": 1}, {"gap": 0.0}, {"gap": 1.5}, {"rewards": "poisson"}, {"label": ""}],
)
def test_a_condition_without_sense_is_refused(change):
    first = dict(SCHEDULES["stationary_bandits"].constants["conditions"][0])
    with pytest.raises(ValidationError):
        StationaryBandits(conditions=[first | change])
    with pytest.raises(ValidationError, match="labels of conditions must differ"):
        StationaryBandits(conditions=[first, first])
