"""Do the players of the bandits learn and choose by their equations, from what they are shown alone?

Each policy plays once more as a plain loop over one episode, which shares no code with it but the numbers of
its stream.
"""

import math
from collections import defaultdict
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats
from support import new_lake

from generate.agents import value_learning
from generate.agents.human_data import human_rows
from generate.agents.rescorla_wagner import FittedThreeParameters, fit_games, games_nll
from generate.agents.thompson import Thompson, ThompsonPolicy, gamma
from generate.agents.value_learning import Axis, ValueLearner, mean_rewards, select
from generate.contract import Episodes, Fitted, Lanes
from generate.environments.arms import ArmsSeen
from generate.environments.horizon import Horizon
from generate.environments.instrumental import InstrumentalLearning
from generate.environments.restless import RestlessBandit
from generate.environments.stationary import StationaryBandits
from generate.episodes import play
from generate.schedule import load_agents, load_schedules
from generate.streams import Streams
from store.errors import InvalidSource, SourceUnavailable
from store.settings import Home

AGENTS = load_agents()
SCHEDULES = load_schedules()
RESTLESS = RestlessBandit(reward_means=(40.0, 60.0), reward_sd=8.0, block_lengths=(6, 5))
CASINOS = InstrumentalLearning(reward_probabilities=((0.25, 0.25), (0.25, 0.75), (0.75, 0.75)), n_visits=5)
HORIZON = Horizon(
    base_means=(40.0, 60.0),
    gaps=(4.0, 20.0),
    reward_sd=8.0,
    free_choices=(1, 6),
    n_forced=4,
    first_arm_forced=(1, 2, 3),
)
STATIONARY = StationaryBandits.model_validate(
    {
        "conditions": [
            {"label": "a", "rewards": "bernoulli", "scenario": "x", "n_arms": 3, "n_trials": 12, "gap": 0.5},
            {
                "label": "b",
                "rewards": "gaussian",
                "scenario": "x",
                "n_arms": 5,
                "n_trials": 9,
                "sd": 2.0,
                "means_seed": 1,
            },
            {
                "label": "c",
                "rewards": "gaussian",
                "scenario": "y",
                "n_arms": 2,
                "n_trials": 15,
                "sd": 1.0,
                "means_seed": 2,
            },
        ]
    }
)
THOMPSON = Thompson(beta=(1.0, 1.0), normal_inverse_gamma=(0.0, 1.0, 1.0, 1.0))
LEARNED = (RESTLESS, CASINOS, HORIZON)

quick = settings(max_examples=25, deadline=None)
seeds = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True)
rates = st.floats(0, 1)


def learner(
    learning_rate_positive,
    learning_rate_negative,
    inverse_temperature,
    initial_value,
    unit=100.0,
    is_greedy=False,
):
    one = (
        np.array([float(value)])
        for value in (learning_rate_positive, learning_rate_negative, inverse_temperature, initial_value)
    )
    return ValueLearner(*one, n_arms=2, reward_unit=unit, is_greedy=is_greedy)


def played(environment, policy, episodes, seed=7):
    return play(environment, episodes, Fitted(policy), seed, run_id="r", mode_id="m")


def actions_in(environment, world, policy, episodes, seed=7):
    """All actions, trials x episodes, with a stream per episode."""
    streams = Streams([(seed, number) for number in range(len(episodes))])
    memory = policy.start(Lanes(np.zeros(len(episodes), dtype=np.int64), episodes.slots))
    state, taken = environment.start(world), []
    while state.live.any():
        memory, actions = policy.act(memory, environment.observe(world, state), streams)
        state, _ = environment.step(world, state, actions)
        taken.append(actions)
    return np.array(taken)


def alone(environment, episodes, position, choose):
    """One episode by itself: the actions, and the rewards that count."""
    one = Episodes((episodes.ids[position],), episodes.seeds[[position]], episodes.slots[[position]])
    world = environment.draw(one)
    state, actions, rewards = environment.start(world), [], []
    while state.live[0]:
        actions.append(choose(environment.observe(world, state)))
        state, step = environment.step(world, state, np.array(actions[-1:]))
        if step.is_rewarded[0]:
            rewards.append(float(step.reward[0]))
    return actions, rewards


class PlainLearner:
    """Values in a dictionary, one choice at a time."""

    def __init__(
        self,
        learning_rate_positive,
        learning_rate_negative,
        temperature,
        initial_value,
        unit,
        uniform,
        is_greedy=False,
    ):
        self.rates, self.temperature, self.unit = (
            (learning_rate_negative, learning_rate_positive),
            temperature,
            unit,
        )
        self.values = defaultdict(lambda: initial_value)
        self.uniform, self.is_greedy = uniform, is_greedy

    def __call__(self, seen):
        arm = int(seen.last_context[0]), int(seen.last_action[0])
        if arm[1] >= 0:
            error = float(seen.last_reward[0]) / self.unit - self.values[arm]
            self.values[arm] += self.rates[error > 0] * error
        legal = np.flatnonzero(seen.legal[0]).tolist()
        values = [self.values[int(seen.context[0]), action] for action in legal]
        if self.is_greedy:
            weights = [float(value == max(values)) for value in values]
        else:
            weights = [math.exp(self.temperature * (value - max(values))) for value in values]
        threshold, below = self.uniform() * sum(weights), 0.0
        for action, weight in zip(legal, weights, strict=True):
            below += weight
            if threshold < below:
                return action
        return legal[-1]


def numbers_of(*key):
    stream = Streams([key])
    return lambda: float(stream.uniform(1)[0, 0])


# learning and choosing


@pytest.mark.parametrize("environment", LEARNED, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("is_greedy", [False, True])
@quick
@given(seeds=seeds, above=rates, below=rates, temperature=st.floats(0, 1e5), initial=st.floats(0, 1))
def test_a_value_learner_is_what_a_plain_loop_plays(
    environment, is_greedy, seeds, above, below, temperature, initial
):
    unit = 1.0 if environment is CASINOS else 100.0
    episodes = environment.episodes(seeds)
    rows = played(environment, learner(above, below, temperature, initial, unit, is_greedy), episodes)
    by_episode = defaultdict(list)
    for row in rows.to_pylist():
        by_episode[row["episode_id"]].append(environment.actions.index(row["action"]))
    for position in range(0, len(episodes), 7):
        key = (7, 0, int(episodes.seeds[position]), int(episodes.slots[position]))
        plain = PlainLearner(above, below, temperature, initial, unit, numbers_of(*key), is_greedy)
        actions, _ = alone(environment, episodes, position, plain)
        assert by_episode[episodes.ids[position]] == actions


@pytest.mark.parametrize("environment", [*LEARNED, STATIONARY], ids=lambda one: type(one).__name__)
@quick
@given(seeds=seeds, data=st.data())
def test_an_episode_is_the_same_in_any_batch_and_legal(environment, seeds, data):
    if environment is STATIONARY:
        policy = THOMPSON.fit(environment, ()).policy
    else:
        policy = learner(0.5, 0.2, 10.0, 0.5, unit=1.0)
    whole = environment.episodes(seeds)
    rows = played(environment, policy, whole)
    assert set(rows["status"].to_pylist()) == {"ok"}
    assert played(environment, policy, whole).equals(rows)
    kept = data.draw(st.lists(st.sampled_from(range(len(whole))), min_size=1, max_size=5, unique=True))
    part = Episodes(tuple(whole.ids[place] for place in kept), whole.seeds[kept], whole.slots[kept])
    wanted = [row for name in part.ids for row in rows.to_pylist() if row["episode_id"] == name]
    assert played(environment, policy, part).to_pylist() == wanted


def test_rewards_of_arms_that_were_not_chosen_reach_no_learner():
    for environment in (RESTLESS, CASINOS, HORIZON):
        episodes = environment.episodes([1, 2, 3])
        world = environment.draw(episodes)
        policy = learner(0.4, 0.3, 20.0, 0.5, unit=1.0 if environment is CASINOS else 100.0)
        before = actions_in(environment, world, policy, episodes)
        is_chosen = np.zeros((len(episodes), *world.rewards.shape[1:]), dtype=bool)
        trials, lanes = np.indices(before.shape)
        is_chosen[lanes, trials, before] = True
        secret = np.where(is_chosen[np.argsort(world.which)], world.rewards, 1e6)
        assert (secret == 1e6).any()
        assert np.array_equal(
            actions_in(environment, replace(world, rewards=secret), policy, episodes), before
        )


def test_only_the_whole_points_of_a_restless_reward_are_learned_from():
    episodes = RESTLESS.episodes([1, 2, 3])
    world = RESTLESS.draw(episodes)
    other = replace(world, rewards=np.trunc(world.rewards) + 0.37)
    policy = learner(0.44, 0.44, 100.0, 0.5)
    assert not np.array_equal(world.rewards, other.rewards)
    assert np.array_equal(
        actions_in(RESTLESS, world, policy, episodes), actions_in(RESTLESS, other, policy, episodes)
    )


def test_equal_values_are_chosen_at_random_by_a_greedy_learner():
    # a rate of 0 leaves all values equal
    rows = played(CASINOS, learner(0, 0, 0, 0.5, is_greedy=True), CASINOS.episodes(range(60)))
    share = np.mean([action == "0" for action in rows["action"].to_pylist()])
    assert share == pytest.approx(1 / 2, abs=4 * math.sqrt(1 / 4 / rows.num_rows))


def test_steep_softmaxes_do_not_overflow():
    policy = learner(1.0, 1.0, 1e5, 0.5, unit=1e-3)
    episodes = RESTLESS.episodes(range(5))
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        actions_in(RESTLESS, RESTLESS.draw(episodes), policy, episodes)


# choosing parameters


def test_a_grid_is_what_its_points_play_alone(monkeypatch):
    longer = RestlessBandit(reward_means=(40.0, 60.0), reward_sd=8.0, block_lengths=(16, 15))
    rate, temperature = Axis(low=0, high=1, count=4), Axis(low=0.1, high=50, count=3, spacing="log")
    points = [(r, t) for r in rate.values.tolist() for t in temperature.values.tolist()]
    columns = np.array(points).T
    policy = ValueLearner(columns[0], columns[0], columns[1], np.full(12, 0.5), n_arms=2, reward_unit=100.0)
    training = [3, 5, 8, 13]
    means = mean_rewards(longer, training, policy, 12, seed=99)
    episodes = longer.episodes(training)
    expected = []
    for r, t in points:
        paid = []
        for position, seed in enumerate(training):
            plain = PlainLearner(r, r, t, 0.5, 100.0, numbers_of(99, seed, 0))
            paid += alone(longer, episodes, position, plain)[1]
        expected.append(math.fsum(paid) / len(paid))
    assert means == pytest.approx(expected, rel=1e-12)
    assert len(set(expected)) > 6
    for n_lanes in (1, 20, 28):
        monkeypatch.setattr(value_learning, "_LANES", n_lanes)
        assert np.array_equal(mean_rewards(longer, training, policy, 12, seed=99), means)


def test_only_free_choices_count_in_the_mean_of_a_grid():
    one = learner(0.3, 0.3, 20.0, 0.5)
    (mean,) = mean_rewards(HORIZON, [4], one, 1, seed=1)
    episodes = HORIZON.episodes([4])
    paid = []
    for position in range(len(episodes)):
        plain = PlainLearner(0.3, 0.3, 20.0, 0.5, 100.0, numbers_of(1, 4, position))
        paid += alone(HORIZON, episodes, position, plain)[1]
    # of each game, 1 or 6 choices
    assert len(paid) == HORIZON.n_games * 7 / 2
    assert mean == pytest.approx(math.fsum(paid) / len(paid), rel=1e-12)


def test_of_equal_points_the_first_is_selected():
    same = RestlessBandit(reward_means=(50.0, 50.0), reward_sd=0.0, block_lengths=(3,))
    settings = AGENTS["restless_q_learning"].settings | {
        "learning_rate": {"low": 0.2, "high": 0.8, "count": 3},
        "inverse_temperature": {"low": 1.0, "high": 9.0, "count": 2, "with_zero": True},
    }
    agent = AGENTS["restless_q_learning"].model_copy(update={"settings": settings}).made()
    fitted = agent.fit(same, [1, 2])
    assert [(fit.parameter, fit.value, fit.is_at_bound, fit.n_training) for fit in fitted.fits] == [
        ("learning_rate", 0.2, True, 2),
        ("inverse_temperature", 0.0, True, 2),
        ("training_mean_reward", 50.0, None, 2),
    ]
    assert fitted.training_set == "2 training environments, seeds 1 to 2"
    assert fitted.policy.inverse_temperature.tolist() == [0.0]


def test_the_best_point_is_selected_and_one_within_the_grid_is_not_at_a_bound():
    still = RestlessBandit(reward_means=(40.0, 60.0), reward_sd=0.0, block_lengths=(30,))
    grid = {"rate": Axis(low=0, high=1, count=3), "temperature": Axis(low=1, high=100, count=3)}

    def policy_of(parameters):
        # a temperature that is right only in the middle of its axis
        right = np.where(parameters["temperature"] == 50.5, 100.0, 0.0)
        rate = parameters["rate"]
        return ValueLearner(rate, rate, right, np.full_like(rate, 0.5), n_arms=2, reward_unit=100.0)

    selected = select(still, [1, 2, 3], grid, policy_of, seed=1)
    by_name = {fit.parameter: fit for fit in selected.fits}
    assert by_name["temperature"].value == 50.5
    assert by_name["temperature"].is_at_bound is False
    assert by_name["training_mean_reward"].value > 55
    assert selected.parameters["temperature"].tolist() == [50.5]


def test_an_agent_without_training_environments_cannot_be_selected():
    with pytest.raises(InvalidSource, match="expected training_seeds"):
        AGENTS["restless_q_learning"].made().fit(RESTLESS, ())


def test_the_greedy_replay_has_the_parameters_of_the_softmax():
    softmax, greedy = AGENTS["horizon_rw_softmax"], AGENTS["horizon_rw_greedy"]
    assert greedy.settings == softmax.settings | {"is_greedy": True}
    fitted = [agent.made().fit(HORIZON, [1, 2]) for agent in (softmax, greedy)]
    assert fitted[0].fits == fitted[1].fits
    assert [one.policy.is_greedy for one in fitted] == [False, True]


def test_the_published_grid_has_8282_pairs():
    agent = AGENTS["restless_q_learning"].made()
    assert agent.learning_rate.values.size * agent.inverse_temperature.values.size == 101 * (1 + 81)
    temperatures = agent.inverse_temperature.values
    assert temperatures[[0, 1, -1]].tolist() == [0.0, 0.01, 100.0]
    assert temperatures[-2] == pytest.approx(10 ** (2 - 4 / 80))
    assert agent.learning_rate.values[44] == pytest.approx(0.44)


@pytest.mark.parametrize(
    "changed, found",
    [
        ({"low": 1.0, "high": 1.0, "count": 3}, "low must be less than high"),
        ({"low": 0.0, "high": 1.0, "count": 3, "spacing": "log"}, "low must be more than 0"),
        ({"low": 0.0, "high": 1.0, "count": 3, "with_zero": True}, "low must be more than 0"),
        ({"low": 0.0, "high": 1.0, "count": 1}, "greater than or equal to 2"),
        ({"low": 0.0, "high": 2.0, "count": 3}, "must lie in"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_in_a_sentence(changed, found):
    agent = AGENTS["restless_q_learning"]
    changed = agent.model_copy(update={"settings": agent.settings | {"learning_rate": changed}})
    with pytest.raises(InvalidSource, match=found):
        changed.made()


def test_a_negative_inverse_temperature_is_refused():
    agent = AGENTS["restless_q_learning"]
    axis = {"low": -1.0, "high": 1.0, "count": 3}
    with pytest.raises(InvalidSource, match="must not be negative"):
        agent.model_copy(update={"settings": agent.settings | {"inverse_temperature": axis}}).made()


def test_the_published_pair_scores_as_an_independent_replay_says():
    # learning rate 0.44 and inverse temperature 100 make 598 hits of 800 with a standard deviation of 20
    schedule = SCHEDULES["restless_bandit"]
    environment = schedule.environment()
    n_draws = 60
    episodes = environment.episodes(schedule.seeds.range).repeated(n_draws)
    world = environment.draw(episodes)
    actions = actions_in(environment, world, learner(0.44, 0.44, 100.0, 0.5), episodes)
    means = world.means_after[world.which].transpose(1, 0, 2)
    is_hit = np.take_along_axis(means, actions[..., None], axis=2)[..., 0] == means.max(axis=2)
    hits = is_hit.sum(axis=0).reshape(n_draws, -1).sum(axis=1)
    assert hits.mean() == pytest.approx(598, abs=4 * 20 / math.sqrt(n_draws))
    assert hits.std() == pytest.approx(20, rel=0.4)


# fitting people


def simulated(rate, temperature, initial, n_timelines):
    """Choices and rewards of a learner in the Horizon games of the schedule: games x trials."""
    environment = SCHEDULES["horizon"].environment()
    episodes = environment.episodes(range(500, 500 + n_timelines))
    rows = played(environment, learner(rate, rate, temperature, initial), episodes, seed=3)
    n_trials = environment.n_forced + max(environment.free_choices)
    choices = np.full((len(episodes), n_trials), -1)
    rewards = np.full((len(episodes), n_trials), np.nan)
    is_forced = np.zeros((len(episodes), n_trials), dtype=bool)
    game = np.cumsum(np.array(rows["step_index"].to_pylist()) == 0) - 1
    at = game, np.array(rows["trial"].to_pylist())
    choices[at] = np.array(rows["action"].to_pylist()) == "1"
    rewards[at] = rows["reward"].to_pylist()
    is_forced[at] = rows["is_forced"].to_pylist()
    return choices, rewards, is_forced


def test_parameters_of_simulated_games_are_recovered():
    truth = {"learning_rate": 0.35, "inverse_temperature": 12.0, "initial_value": 0.3}
    games = simulated(*truth.values(), n_timelines=2)
    fits = fit_games(*games, reward_unit=100.0, participant_id="p")
    found = {fit.parameter: fit.value for fit in fits}
    assert found["learning_rate"] == pytest.approx(truth["learning_rate"], abs=0.05)
    assert found["inverse_temperature"] == pytest.approx(truth["inverse_temperature"], rel=0.15)
    assert found["initial_value"] == pytest.approx(truth["initial_value"], abs=0.1)
    at_truth = games_nll(np.array([list(truth.values())]), games[0], games[1] / 100, games[2])
    # twice the gain over the truth is a chi-square number of three degrees of freedom
    assert 0 <= 2 * (at_truth[0] - found["negative_log_likelihood"]) < stats.chi2.ppf(0.999, 3)
    assert {fit.participant_id for fit in fits} == {"p"}
    assert {fit.n_training for fit in fits} == {2 * 320 * 7 // 2}
    assert [fit.is_at_bound for fit in fits] == [False, False, False, None]


@quick
@given(rate=rates, temperature=st.floats(0, 100), initial=st.floats(0, 1), seed=st.integers(0, 99))
def test_the_likelihood_is_that_of_a_plain_loop(rate, temperature, initial, seed):
    random = np.random.default_rng(seed)
    choices = random.integers(0, 2, (5, 6))
    choices[3, 4:] = -1
    rewards = random.normal(0.5, 0.2, (5, 6))
    is_forced = random.random((5, 6)) < 0.3
    nats = []
    for game in range(5):
        values = [initial, initial]
        for choice, reward, forced in zip(choices[game], rewards[game], is_forced[game], strict=True):
            if choice < 0:
                break
            other = values[1 - choice]
            if not forced:
                nats.append(np.logaddexp(0, temperature * (other - values[choice])))
            values[choice] += rate * (reward - values[choice])
    (found,) = games_nll(np.array([[rate, temperature, initial]]), choices, rewards, is_forced)
    assert found == pytest.approx(math.fsum(nats), rel=1e-9, abs=1e-9)


def test_games_that_cannot_be_fitted_are_refused():
    choices = np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(ValueError, match="arrays of one shape"):
        fit_games(choices, np.zeros((2, 2)), np.zeros((2, 3), dtype=bool), reward_unit=1.0)
    with pytest.raises(ValueError, match="at least one free choice"):
        fit_games(choices, np.zeros((2, 3)), np.ones((2, 3), dtype=bool), reward_unit=1.0)


# Thompson sampling


@pytest.mark.parametrize("shape", [1.0, 1.5, 3.0, 40.5, 700.0])
def test_gamma_draws_have_the_gamma_distribution(shape):
    first, second = np.random.default_rng(20261129).random((2, 50_000))
    draws = gamma(np.full(50_000, shape), first, second)
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 0.01
    assert draws.mean() == pytest.approx(shape, abs=4 * math.sqrt(shape / 50_000))


def test_a_rejected_proposal_becomes_a_quantile():
    # the normal quantile of 0 is -inf, which is never accepted: all of the second number is left
    second = np.array([0.1, 0.5, 0.9])
    assert gamma(np.full(3, 2.5), np.zeros(3), second) == pytest.approx(stats.gamma(2.5).ppf(second))


def test_a_draw_takes_the_same_numbers_in_any_company():
    shape = np.array([1.0, 5.0, 1.0])
    first, second = np.array([0.001, 0.5, 0.7]), np.array([0.99, 0.2, 0.3])
    together = gamma(shape, first, second)
    for place in range(3):
        one = slice(place, place + 1)
        assert gamma(shape[one], first[one], second[one]) == together[place]


def posterior_draws(is_binary, rewards, n=40_000):
    """Means that the policy draws for an arm with these rewards."""
    policy = ThompsonPolicy(np.array([is_binary]), 1, (1.0, 1.0), (0.0, 1.0, 1.0, 1.0))
    memory = policy.start(Lanes(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)))
    nothing = np.zeros(1, dtype=np.int64)
    for reward in rewards:
        seen = ArmsSeen(
            np.ones((1, 1), dtype=bool), nothing, nothing, nothing, nothing, np.array([float(reward)])
        )
        memory, _ = policy.act(memory, seen, Streams([(0,)]))
    uniform = np.random.default_rng(5).random((4, n))
    drawn = policy._probabilities if is_binary else policy._normal_means
    return drawn(
        *(np.full(n, getattr(memory, name)[0, 0]) for name in ("n_pulls", "total", "deviation")), uniform
    )


@pytest.mark.parametrize("rewards", [[], [1, 0, 1, 1], [0] * 30, [1, 0] * 60])
def test_probabilities_are_drawn_from_the_beta_posterior(rewards):
    posterior = stats.beta(1 + sum(rewards), 1 + len(rewards) - sum(rewards))
    assert stats.kstest(posterior_draws(True, rewards), posterior.cdf).pvalue > 0.01


@pytest.mark.parametrize("rewards", [[], [2.5], [-1.0, 0.5, 3.0], np.random.RandomState(2).normal(4, 3, 80)])
def test_normal_means_are_drawn_from_the_student_posterior(rewards):
    # the marginal of the mean, from all rewards at once
    n, x = len(rewards), np.asarray(rewards, dtype=float)
    weight, shape = 1 + n, 1 + n / 2
    spread = ((x - x.mean()) ** 2).sum() / 2 + n * x.mean() ** 2 / (2 * weight) if n else 0.0
    posterior = stats.t(2 * shape, x.sum() / weight, math.sqrt((1 + spread) / (shape * weight)))
    assert stats.kstest(posterior_draws(False, rewards), posterior.cdf).pvalue > 0.01


@quick
@given(seeds=seeds)
def test_thompson_sampling_is_what_a_plain_loop_plays(seeds):
    episodes = STATIONARY.episodes(seeds)
    rows = played(STATIONARY, THOMPSON.fit(STATIONARY, ()).policy, episodes)
    by_episode = defaultdict(list)
    for row in rows.to_pylist():
        by_episode[row["episode_id"]].append(STATIONARY.actions.index(row["action"]))
    for position in range(len(episodes)):
        slot = int(episodes.slots[position])
        stream = Streams([(7, 0, int(episodes.seeds[position]), slot)])
        rewards = defaultdict(list)

        def choose(seen, slot=slot, stream=stream, rewards=rewards):
            if seen.last_action[0] >= 0:
                rewards[int(seen.last_action[0])].append(float(seen.last_reward[0]))
            numbers = stream.uniform(4 * 5)[0].reshape(5, 4).tolist()
            drawn = {}
            for arm in np.flatnonzero(seen.legal[0]).tolist():
                x, (a, b, c, d) = np.array(rewards[arm]), numbers[arm]
                if slot == 0:
                    won, lost = one_gamma(1 + x.sum(), a, b), one_gamma(1 + len(x) - x.sum(), c, d)
                    drawn[arm] = won / (won + lost)
                else:
                    mean = x.mean() if len(x) else 0.0
                    rate = 1 + ((x - mean) ** 2).sum() / 2 + len(x) * mean**2 / (2 * (1 + len(x)))
                    variance = rate / one_gamma(1 + len(x) / 2, a, b)
                    sd = math.sqrt(variance / (1 + len(x)))
                    drawn[arm] = stats.norm.ppf(c, x.sum() / (1 + len(x)), sd)
            return max(drawn, key=drawn.get)

        assert alone(STATIONARY, episodes, position, choose)[0] == by_episode[episodes.ids[position]]


def one_gamma(shape, first, second):
    """Marsaglia and Tsang's proposal, or the quantile of what a rejection leaves."""
    d = shape - 1 / 3
    z = float(stats.norm.ppf(first))
    v = (1 + z / math.sqrt(9 * d)) ** 3
    accepted = min(1.0, math.exp(z * z / 2 + d - d * v + d * math.log(v))) if v > 0 else 0.0
    return d * v if second < accepted else float(stats.gamma.ppf((second - accepted) / (1 - accepted), shape))


def test_means_of_arms_that_were_not_chosen_reach_no_thompson_sampler():
    schedule = SCHEDULES["stationary_bandits"]
    environment = schedule.environment()
    episodes = environment.episodes([1])
    kept = np.flatnonzero(episodes.slots % 2)  # normal rewards
    episodes = Episodes(
        tuple(episodes.ids[place] for place in kept), episodes.seeds[kept], episodes.slots[kept]
    )
    world = environment.draw(episodes)
    world = replace(world, chance=world.chance[:, :12])
    policy = THOMPSON.fit(environment, ()).policy

    def first_actions(world):
        memory = policy.start(Lanes(np.zeros(len(episodes), dtype=np.int64), episodes.slots))
        streams = Streams([(place,) for place in kept])
        state, taken = environment.start(world), []
        for _ in range(12):
            memory, actions = policy.act(memory, environment.observe(world, state), streams)
            state, _ = environment.step(world, state, actions)
            taken.append(actions)
        return np.array(taken)

    before = first_actions(world)
    is_chosen = np.zeros(world.means.shape, dtype=bool)
    is_chosen[world.which, before] = True
    secret = np.where(is_chosen | ~np.isfinite(world.means), world.means, 1e6)
    assert (secret == 1e6).any()
    assert np.array_equal(first_actions(replace(world, means=secret)), before)


def test_thompson_sampling_needs_conditions_that_declare_their_rewards():
    with pytest.raises(InvalidSource, match="found RestlessBandit"):
        THOMPSON.fit(RESTLESS, ())


@pytest.mark.parametrize(
    "prior",
    [{"beta": (0.5, 1.0)}, {"normal_inverse_gamma": (0.0, 0.0, 1.0, 1.0)}, {"beta": (1.0,)}],
)
def test_a_prior_that_cannot_be_drawn_from_is_refused(prior):
    with pytest.raises(ValidationError):
        Thompson(**({"beta": (1.0, 1.0), "normal_inverse_gamma": (0.0, 1.0, 1.0, 1.0)} | prior))


def test_every_reference_of_a_bandit_plays_its_own_schedule():
    wanted = {
        "restless_q_learning": "restless_bandit",
        "rescorla_wagner_two_rates": "instrumental_learning",
        "thompson": "stationary_bandits",
        "horizon_rw_softmax": "horizon",
        "horizon_rw_greedy": "horizon",
    }
    assert {name: AGENTS[name].schedule for name in wanted} == wanted
    for name in wanted:
        AGENTS[name].made()


def test_human_games_of_the_archive_are_fitted_when_the_lake_has_them(tmp_path):
    family = FittedThreeParameters(reward_unit=100.0)
    with pytest.raises(SourceUnavailable, match="horizon_autonomous"):
        family.estimate(Home(tmp_path / "empty"))
    rng = np.random.RandomState(5)
    lines = ["run,trial,mean0,mean1,reward0,reward1,choice,reward"]
    games = []
    for game in range(12):
        n_trials = 5 if game % 2 else 10
        choices, rewards = rng.randint(0, 2, n_trials), rng.randint(30, 70, n_trials)
        games.append((choices, rewards))
        lines += [
            f"{game},{trial},40,60,{reward},{reward},{choice},{reward}"
            for trial, (choice, reward) in enumerate(zip(choices, rewards, strict=True))
        ]
    lake = new_lake(tmp_path, {"HorizonTask/data/human.csv": "\n".join(lines) + "\n"})
    # files of a test come in under the demo's source
    with patch("generate.agents.rescorla_wagner.human_rows", partial(rows_of_demo, human_rows)):
        fits, training_set = family.estimate(lake)
    found = {fit.parameter: fit for fit in fits}
    assert training_set == "cogbench human.csv: 12 games"
    assert found["learning_rate"].n_training == 6 * 1 + 6 * 6
    parameters = np.array(
        [[found[name].value for name in ("learning_rate", "inverse_temperature", "initial_value")]]
    )
    padded = [np.full((12, 10), fill) for fill in (-1, 0)]
    for game, columns in enumerate(games):
        for table, column in zip(padded, columns, strict=True):
            table[game, : column.size] = column
    forced = np.arange(10) < np.full((12, 1), 4)
    expected = games_nll(parameters, padded[0], padded[1] / 100.0, forced)[0]
    assert found["negative_log_likelihood"].value == pytest.approx(expected, rel=1e-12)


def rows_of_demo(read, lake, tables, **sample):
    return read(lake, tables, **sample | {"source_id": "demo_archive"})
