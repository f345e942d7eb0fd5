"""Do the hybrid's likelihood and its policy follow the paper's equations, and are its parameters found?"""

import os
from dataclasses import fields
from math import exp, log

import numpy as np
import pytest
from handwritten import ingested
from hypothesis import given, settings
from hypothesis import strategies as st

from generate.agents.maximum_likelihood import Bounds, diverse_starts, estimate_parameters
from generate.agents.recorded import recorded
from generate.agents.two_step_hybrid import (
    BOUNDS,
    PARAMETERS,
    Hybrid,
    HybridPolicy,
    Player,
    Trials,
    TwoStepHybrid,
    Values,
    fit_participant,
    negative_log_likelihood,
    participants,
)
from generate.contract import Episodes, Fitted, Lanes
from generate.environments.two_step import ALIENS, SHIPS, TwoStep
from generate.episodes import play
from generate.schedule import load_agents, load_schedules
from generate.streams import Streams
from ingest.pipeline import ingest
from store.errors import SourceUnavailable
from store.manifest import load_sources
from store.settings import Home

ENVIRONMENT = TwoStep(horizon=12, common_probability=0.7, lowest_rate=0.25, highest_rate=0.75, drift=0.1)

vectors = st.tuples(*(st.floats(low, high) for low, high in zip(BOUNDS.lower, BOUNDS.upper, strict=True)))
trial_lists = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12
)


def hybrid(*points):
    return Hybrid(*np.array(points, dtype=float).T)


def trials_of(rows):
    ships, aliens, rewards = zip(*rows, strict=True)
    return Trials(np.array(ships), np.array(aliens), np.array(rewards, dtype=float))


def by_hand(point, rows, common):
    """Equations of Daw et al. (2011), one trial after the other: the log-probability of every choice."""
    alpha1, alpha2, beta1, beta2, lam, w, p = point
    q1, q2, last = [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]], None
    log_probabilities = []
    for ship, alien, reward in rows:
        planet, side = divmod(alien, 2)
        nets = []
        for option in (0, 1):
            to = [common, 1 - common] if option == 0 else [1 - common, common]
            model_based = to[0] * max(q2[0]) + to[1] * max(q2[1])
            nets.append(beta1 * (w * model_based + (1 - w) * q1[option] + p * (option == last)))
        log_probabilities.append(nets[ship] - max(nets) - log(sum(exp(net - max(nets)) for net in nets)))
        seconds = [beta2 * value for value in q2[planet]]
        top = max(seconds)
        log_probabilities.append(seconds[side] - top - log(sum(exp(value - top) for value in seconds)))
        delta1 = q2[planet][side] - q1[ship]
        delta2 = reward - q2[planet][side]
        q1[ship] += alpha1 * delta1 + alpha1 * lam * delta2
        q2[planet][side] += alpha2 * delta2
        last = ship
    return log_probabilities


@settings(max_examples=100, deadline=None)
@given(points=st.lists(vectors, min_size=1, max_size=3), rows=trial_lists, common=st.floats(0, 1))
def test_the_likelihood_is_that_of_a_plain_loop(points, rows, common):
    found = negative_log_likelihood(hybrid(*points), trials_of(rows), common)
    assert found.shape == (len(points),)
    expected = [-sum(by_hand(point, rows, common)) for point in points]
    assert found == pytest.approx(expected, abs=1e-9, rel=1e-9)


def simulated(environment, policy, n_replicas, seeds, seed=1):
    """Let every parameter set play every episode; return probabilities of the choices, and the trials."""
    episodes = environment.episodes(seeds).repeated(n_replicas)
    world = environment.draw(episodes)
    replicas = np.repeat(np.arange(n_replicas), len(seeds))
    streams = Streams([(seed, replica, index) for index, replica in enumerate(replicas.tolist())])
    state, memory = environment.start(world), policy.start(Lanes(replicas, episodes.slots))
    probabilities, ships, aliens, rewards = [], [], [], []
    while state.live.any():
        seen = environment.observe(world, state)
        memory, actions = policy.act(memory, seen, streams)
        # what was learned before this choice is in the memory that it leaves behind
        probabilities.append(policy.probabilities(memory, seen)[np.arange(len(episodes)), actions])
        state, step = environment.step(world, state, actions)
        if step.stage == 0:
            ships.append(actions)
        else:
            aliens.append(actions - len(SHIPS))
            rewards.append(step.reward)
    columns = (np.array(column).T for column in (ships, aliens, rewards))
    trials = [Trials(*one) for one in zip(*columns, strict=True)]
    return np.array(probabilities).T, trials


@settings(max_examples=20, deadline=None)
@given(points=st.lists(vectors, min_size=1, max_size=3), seed=st.integers(0, 100))
def test_the_policy_plays_with_the_probabilities_of_the_likelihood(points, seed):
    policy = HybridPolicy(hybrid(*points), 0.7)
    probabilities, trials = simulated(ENVIRONMENT, policy, len(points), [seed, seed + 1])
    for lane, own in enumerate(trials):
        parameters = hybrid(points[lane // 2])
        expected = negative_log_likelihood(parameters, own, 0.7)[0]
        assert -np.log(probabilities[lane]).sum() == pytest.approx(expected, rel=1e-9)


def test_only_offered_options_have_a_probability_and_they_add_up_to_one():
    policy = HybridPolicy(hybrid((0.5, 0.5, 5, 5, 0.5, 0.5, 0.1)), 0.7)
    world = ENVIRONMENT.draw(ENVIRONMENT.episodes([1, 2, 3]))
    state = ENVIRONMENT.start(world)
    memory = policy.start(Lanes(np.zeros(3, dtype=int), np.zeros(3, dtype=int)))
    for _ in range(4):
        seen = ENVIRONMENT.observe(world, state)
        probabilities = policy.probabilities(memory, seen)
        assert (probabilities[~seen.legal] == 0).all()
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(3))
        state, _ = ENVIRONMENT.step(world, state, probabilities.argmax(axis=1))


def test_the_model_based_part_goes_where_the_treasure_is_and_the_model_free_part_back_to_its_ship():
    """Ship X led to planet Y, against its name, and alien J there paid."""
    values = Values(ships=np.array([[0.5, 0.0]]), aliens=np.array([[0.0, 0.0, 1.0, 0.0]]))
    world = ENVIRONMENT.draw(ENVIRONMENT.episodes([1]))
    seen = ENVIRONMENT.observe(world, ENVIRONMENT.start(world))
    for weight, favourite in ((1.0, "Y"), (0.0, "X")):
        parameters = hybrid((0.5, 0.5, 5, 5, 0.5, weight, 0))
        chosen = HybridPolicy(parameters, 0.7).probabilities(Player(parameters, values), seen)
        assert ENVIRONMENT.actions[int(chosen.argmax())] == favourite


def test_play_does_not_depend_on_the_batch():
    fitted_policy = Fitted(
        HybridPolicy(hybrid((0.5, 0.5, 5, 5, 0.5, 0.5, 0.1), (0.1, 0.9, 2, 9, 1, 0, -0.2)), 0.7),
        replicas=("a", "b"),
    )
    episodes = ENVIRONMENT.episodes([4, 5, 6])
    together = play(ENVIRONMENT, episodes, fitted_policy, 9, run_id="r", mode_id="m").to_pylist()
    assert len(together) == 2 * 3 * 2 * ENVIRONMENT.horizon
    assert {row["status"] for row in together} == {"ok"}
    alone = Episodes(("1",), episodes.seeds[1:2], episodes.slots[1:2])
    rows = play(ENVIRONMENT, alone, fitted_policy, 9, run_id="r", mode_id="m").to_pylist()
    assert rows == [row for row in together if row["episode_id"] in ("a/1", "b/1")]


def test_parameters_of_simulated_participants_are_recovered():
    truth = (0.5, 0.6, 6.0, 5.0, 0.8, 0.6, 0.15)
    long = TwoStep(horizon=300, common_probability=0.7, lowest_rate=0.1, highest_rate=0.9, drift=0.1)
    _, participants = simulated(long, HybridPolicy(hybrid(truth), 0.7), 1, range(6))
    found = []
    for trials in participants:

        def objective(points, trials=trials):
            return negative_log_likelihood(hybrid(*points), trials, 0.7)

        start = diverse_starts(objective, BOUNDS, BOUNDS.spread(1024), [])
        estimate = estimate_parameters(objective, BOUNDS, start)
        # at least as likely as the truth, and by no more than seven parameters can explain
        assert 0 <= objective(np.array([truth]))[0] - estimate.negative_log_likelihood < 13
        found.append(estimate.values)
    for name, mean, value, tolerance in zip(
        PARAMETERS, np.mean(found, axis=0), truth, (0.15, 0.1, 1.5, 0.7, 0.2, 0.15, 0.1), strict=True
    ):
        assert mean == pytest.approx(value, abs=tolerance), name


def test_a_fit_has_every_parameter_and_counts_the_choices():
    trials = trials_of([(0, 0, 1), (0, 0, 1), (1, 2, 0), (0, 1, 0), (1, 3, 1), (1, 3, 1)])
    fits = {fit.parameter: fit for fit in fit_participant(trials, 0.7)}
    assert list(fits) == [*PARAMETERS, "negative_log_likelihood"]
    assert {fit.n_training for fit in fits.values()} == {2 * 6}
    assert fits["negative_log_likelihood"].is_at_bound is None
    point = hybrid([fits[name].value for name in PARAMETERS])
    assert fits["negative_log_likelihood"].value == negative_log_likelihood(point, trials, 0.7)[0]


def test_descents_end_at_the_lowest_point_within_the_bounds():
    bounds = Bounds(np.array([0.0, -1.0]), np.array([1.0, 1.0]))

    def bowl(points):
        return ((points - np.array([2.0, 0.25])) ** 2).sum(axis=1)

    points = bounds.spread(64)
    starts = diverse_starts(bowl, bounds, points, [0, 1])
    is_in_quarter = [((points[:, 0] > 0.5) == x) & ((points[:, 1] > 0) == y) for y in (0, 1) for x in (0, 1)]
    assert bowl(starts).tolist() == [bowl(points[quarter]).min() for quarter in is_in_quarter]
    found = estimate_parameters(bowl, bounds, starts)
    assert found.values == pytest.approx([1.0, 0.25], abs=1e-6)
    assert found.is_at_bound.tolist() == [True, False]
    assert found.negative_log_likelihood == pytest.approx(1.0)


def test_points_fill_the_box_evenly():
    bounds = Bounds(np.array([0.0, 10.0]), np.array([1.0, 30.0]))
    points = bounds.spread(16)
    assert points.shape == (16, 2)
    for column, low, width in zip(points.T, bounds.lower, bounds.width, strict=True):
        cells = np.sort(np.floor((column - low) / width * 16))
        assert cells.tolist() == list(range(16))


def test_missed_trials_are_left_out_and_participants_come_in_order(tmp_path):
    lake, report = ingested(
        tmp_path,
        "cogbench",
        "Experiments/TwoStepTask/data/human.csv",
        "run,trial,action1,state,action2,reward\n"
        "10,0,X,Y,J,1\n10,1,,,1,0\n10,2,Y,Y,K,0\n2,0,X,X,D,1\n2,1,X,X,F,0\n",
    )
    assert report.failures == ()
    found = participants(lake)
    assert list(found) == ["2", "10"]
    assert found["10"].ships.tolist() == [0, 1] and found["10"].aliens.tolist() == [2, 3]
    assert found["10"].rewards.tolist() == [1, 0]
    assert found["2"].ships.tolist() == [0, 0] and found["2"].aliens.tolist() == [0, 1]


def test_a_lake_without_the_participants_says_what_to_do(tmp_path):
    with pytest.raises(SourceUnavailable, match="found 0; run `coglake ingest cogbench`"):
        TwoStepHybrid(common_probability=0.7).estimate(Home(tmp_path / "lake"))


def test_every_recorded_participant_plays_every_run():
    agent, schedule = load_agents()["two_step_hybrid"], load_schedules()["two_step"]
    fitted_policy = agent.made().fit(schedule.environment(), ())
    record = recorded("two_step_hybrid")
    assert fitted_policy.replicas == record.participants == tuple(map(str, range(40)))
    assert len(fitted_policy.fits) == 40 * (len(PARAMETERS) + 1)
    assert {field.name for field in fields(Hybrid)} == set(PARAMETERS)
    for name, low, high in zip(PARAMETERS, BOUNDS.lower, BOUNDS.upper, strict=True):
        values = record.parameters[name]
        assert (values >= low).all() and (values <= high).all()
        at_bound = [fit.is_at_bound for fit in record.fits if fit.parameter == name]
        # values are kept to 6 decimals, bounds within a millionth of the range
        assert all(
            is_at_bound == (value in (low, high)) for value, is_at_bound in zip(values, at_bound, strict=True)
        )
    policy = fitted_policy.policy
    memory = policy.start(Lanes(np.array([3, 3, 0]), np.zeros(3, dtype=int)))
    assert memory.parameters.perseveration.tolist() == record.parameters["perseveration"][[3, 3, 0]].tolist()
    assert not memory.values.ships.any() and memory.values.aliens.shape == (3, len(ALIENS))


@pytest.mark.mirror
def test_recorded_likelihoods_are_those_of_the_participants_choices(mirror_lake):
    record, trials = recorded("two_step_hybrid"), participants(mirror_lake)
    assert tuple(trials) == record.participants
    assert sum(2 * own.ships.size for own in trials.values()) == 2 * (8_000 - 7)
    for index, own in enumerate(trials.values()):
        parameters = Hybrid(*(record.parameters[name][[index]] for name in PARAMETERS))
        found = negative_log_likelihood(parameters, own, 0.7)[0]
        assert found == pytest.approx(record.parameters["negative_log_likelihood"][index], abs=1e-4)


@pytest.fixture(scope="module")
def mirror_lake(tmp_path_factory):
    source = load_sources()["cogbench"]
    files = tuple(file for file in source.files if file.path == "Experiments/TwoStepTask/data/human.csv")
    lake = Home(tmp_path_factory.mktemp("human") / "lake")
    only = source.model_copy(update={"files": files})
    [report] = ingest(lake, [only], mirror=os.environ["COGLAKE_MIRROR"])
    assert report.n_new_files == 1
    return lake
