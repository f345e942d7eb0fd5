"""Does attention move as the sequential learning model says, and are its parameters found?"""

import os
from math import log

import numpy as np
import pytest
from handwritten import ingested
from hypothesis import given, settings
from hypothesis import strategies as st

from generate.agents.maximum_likelihood import diverse_starts, estimate_parameters
from generate.agents.recorded import recorded
from generate.agents.sequential_learning import (
    BOUNDS,
    PARAMETERS,
    Learners,
    SequentialLearning,
    SequentialLearningPolicy,
    Sorts,
    fit_participant,
    lapse_rate,
    negative_log_likelihood,
    participants,
)
from generate.contract import Episodes, Fitted, Lanes
from generate.environments.wcst import CardSorting
from generate.episodes import play
from generate.schedule import load_agents, load_schedules
from generate.streams import Streams
from ingest.pipeline import ingest
from store.errors import SourceUnavailable
from store.manifest import load_sources
from store.settings import Home

ENVIRONMENT = CardSorting(n_trials=18, block_length=6)

vectors = st.tuples(*(st.floats(low, high) for low, high in zip(BOUNDS.lower, BOUNDS.upper, strict=True)))
cards = st.tuples(*[st.integers(0, 3)] * 3)
trial_lists = st.lists(st.tuples(cards, st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=10)


def learners(*points):
    return Learners(*np.array(points, dtype=float).T)


def sorts_of(rows):
    """Cards, choice and rule of each trial; a choice is right if it matches in the rule's dimension."""
    return Sorts(
        cards=np.array([dealt for dealt, _, _ in rows]),
        choices=np.array([choice for _, choice, _ in rows]),
        is_right=np.array([dealt[rule] == choice for dealt, choice, rule in rows]),
    )


def by_hand(point, rows, lapse):
    """Bishara et al. (2010) with f = 1, one trial after the other: the probability of every choice."""
    r, p, d = point
    attention = [1 / 3, 1 / 3, 1 / 3]
    probabilities = []
    for dealt, choice, rule in rows:
        matches = [card == choice for card in dealt]
        powers = [weight**d for weight in attention]
        share = sum(power for power, match in zip(powers, matches, strict=True) if match) / sum(powers)
        probabilities.append((1 - lapse) * share + lapse / 4)
        is_right = dealt[rule] == choice
        consistent = [
            weight if match == is_right else 0 for weight, match in zip(attention, matches, strict=True)
        ]
        if sum(consistent) > 0:
            rate = r if is_right else p
            signal = [weight / sum(consistent) for weight in consistent]
            attention = [(1 - rate) * old + rate * new for old, new in zip(attention, signal, strict=True)]
        attention = [max(weight, 1e-4) for weight in attention]
        attention = [weight / sum(attention) for weight in attention]
    return probabilities


@settings(max_examples=100, deadline=None)
@given(points=st.lists(vectors, min_size=1, max_size=3), rows=trial_lists, lapse=st.floats(0.001, 1))
def test_the_likelihood_is_that_of_a_plain_loop(points, rows, lapse):
    found = negative_log_likelihood(learners(*points), sorts_of(rows), lapse)
    assert found.shape == (len(points),)
    expected = [-sum(map(log, by_hand(point, rows, lapse))) for point in points]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def sorted_by(policy, seeds, seed=1):
    """Let a policy sort; return the probabilities of the choices, and what was sorted."""
    episodes = ENVIRONMENT.episodes(seeds)
    world = ENVIRONMENT.draw(episodes)
    streams = Streams([(seed, index) for index in range(len(seeds))])
    state, memory = ENVIRONMENT.start(world), policy.start(Lanes(np.zeros(len(seeds), int), episodes.slots))
    probabilities, dealt, choices, is_right = [], [], [], []
    while state.live.any():
        seen = ENVIRONMENT.observe(world, state)
        memory, actions = policy.act(memory, seen, streams)
        probabilities.append(policy.probabilities(memory, seen)[np.arange(len(seeds)), actions])
        dealt.append(seen.cards)
        choices.append(actions)
        state, step = ENVIRONMENT.step(world, state, actions)
        is_right.append(step.reward == 1)
    columns = (np.array(column).swapaxes(0, 1) for column in (dealt, choices, is_right))
    return np.array(probabilities).T, [Sorts(*one) for one in zip(*columns, strict=True)]


@settings(max_examples=20, deadline=None)
@given(point=vectors, lapse=st.floats(0.001, 0.5), seed=st.integers(0, 100))
def test_the_policy_plays_with_the_probabilities_of_the_likelihood(point, lapse, seed):
    policy = SequentialLearningPolicy(learners(point), lapse)
    probabilities, sorts = sorted_by(policy, [seed, seed + 1])
    for own, sample in zip(probabilities, sorts, strict=True):
        expected = negative_log_likelihood(learners(point), sample, lapse)[0]
        assert -np.log(own).sum() == pytest.approx(expected, rel=1e-9)


def test_a_decisive_learner_keeps_a_rule_until_it_is_wrong():
    """With full rates and no lapses, wrong choices are those that find out about a new rule."""
    policy = SequentialLearningPolicy(learners((1, 1, 5)), 0.0)
    environment = CardSorting(n_trials=60, block_length=10)
    episodes = environment.episodes(range(40))
    rows = play(environment, episodes, Fitted(policy), 3, run_id="r", mode_id="m").to_pylist()
    late = [row["reward"] for row in rows if row["trial"] % 10 >= 4]
    assert np.mean(late) > 0.97
    # the first choice after a switch follows the rule before it
    switched = [row["reward"] for row in rows if row["trial"] % 10 == 0 and row["trial"] > 0]
    assert np.mean(switched) < 0.05


def test_probabilities_add_up_to_one_and_lapses_reach_every_card():
    policy = SequentialLearningPolicy(learners((0.5, 0.5, 2)), 0.2)
    world = ENVIRONMENT.draw(ENVIRONMENT.episodes([1, 2]))
    state = ENVIRONMENT.start(world)
    memory = policy.start(Lanes(np.zeros(2, int), np.zeros(2, int)))
    streams = Streams([(1, 1), (1, 2)])
    for _ in range(5):
        seen = ENVIRONMENT.observe(world, state)
        memory, actions = policy.act(memory, seen, streams)
        probabilities = policy.probabilities(memory, seen)
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(2))
        assert probabilities.min() == pytest.approx(0.2 / 4)
        state, _ = ENVIRONMENT.step(world, state, actions)


def test_every_participant_is_drawn_for_some_episode_and_the_same_one_again():
    """Nine participants who differ in how decisive they are, and 200 episodes."""
    policy = SequentialLearningPolicy(learners(*[(0.5, 0.5, d) for d in range(1, 10)]), 0.01)
    episodes = ENVIRONMENT.episodes(range(200))
    world = ENVIRONMENT.draw(episodes)
    seen = ENVIRONMENT.observe(world, ENVIRONMENT.start(world))
    for seed in (1, 1):
        streams = Streams([(seed, episode) for episode in range(200)])
        memory, _ = policy.act(None, seen, streams)
        drawn = memory.parameters.decision_consistency
        assert np.bincount(drawn.astype(int), minlength=10)[1:].min() >= 10
        assert drawn[:3].tolist() == [
            1 + int(9 * Streams([(1, episode)]).uniform(1)[0, 0]) for episode in range(3)
        ]


def test_play_does_not_depend_on_the_batch():
    policy = Fitted(SequentialLearningPolicy(learners((0.9, 0.7, 1), (0.3, 1, 3)), 0.05))
    episodes = ENVIRONMENT.episodes([4, 5, 6])
    together = play(ENVIRONMENT, episodes, policy, 9, run_id="r", mode_id="m").to_pylist()
    assert len(together) == 3 * 18 and {row["status"] for row in together} == {"ok"}
    alone = Episodes(episodes.ids[1:2], episodes.seeds[1:2], episodes.slots[1:2])
    rows = play(ENVIRONMENT, alone, policy, 9, run_id="r", mode_id="m").to_pylist()
    assert rows == [row for row in together if row["episode_id"] == "5"]


def test_parameters_of_simulated_participants_are_recovered():
    truth, lapse = (0.7, 0.8, 1.5), 0.02
    policy = SequentialLearningPolicy(learners(truth), lapse)
    _, sorts = sorted_by(policy, range(60))

    def objective(points):
        return sum(negative_log_likelihood(learners(*points), sample, lapse) for sample in sorts)

    starts = diverse_starts(objective, BOUNDS, BOUNDS.spread(128), [])
    estimate = estimate_parameters(objective, BOUNDS, starts)
    # half of a chi-square of three degrees of freedom lies below 8.1 with probability 0.999
    assert 0 <= objective(np.array([truth]))[0] - estimate.negative_log_likelihood < 8.1
    assert estimate.values == pytest.approx(truth, abs=0.12)


def test_a_fit_has_every_parameter_and_counts_the_choices():
    sorts = sorts_of([((0, 1, 2), 0, 0), ((1, 2, 3), 1, 0), ((2, 2, 1), 2, 2), ((3, 0, 2), 1, 2)])
    fits = {fit.parameter: fit for fit in fit_participant(sorts, 0.1)}
    assert list(fits) == [*PARAMETERS, "lapse", "negative_log_likelihood"]
    assert {fit.n_training for fit in fits.values()} == {4}
    assert fits["lapse"].value == 0.1 and fits["lapse"].is_at_bound is None
    point = learners([fits[name].value for name in PARAMETERS])
    assert fits["negative_log_likelihood"].value == negative_log_likelihood(point, sorts, 0.1)[0]
    for name, low, high in zip(PARAMETERS, BOUNDS.lower, BOUNDS.upper, strict=True):
        assert fits[name].is_at_bound == (fits[name].value in (low, high))


def test_the_lapse_explains_the_cards_that_match_in_nothing():
    # of four trials, card 3 matches nothing in each and card 2 in two: (1 + 2 + 2 + 1) / 4 cards a lapse
    # reaches that attention does not; one of these was chosen
    rows = [((0, 1, 2), 3, 0), ((0, 1, 1), 0, 0), ((0, 1, 0), 0, 0), ((0, 1, 2), 2, 0)]
    assert lapse_rate([sorts_of(rows[:2]), sorts_of(rows[2:])]) == pytest.approx(1 / (6 / 4))


def test_responses_that_are_missing_leave_a_trial_out(tmp_path):
    header = (
        "card_shown,correct_card,card_chosen_if_perseveration,trial_in_a_sequence,name_of_task,card_shape,"
        "card_number,card_color,rt,is_correct,chosen_card,is_error,is_perseverative_error,"
        "is_non_perseverative_error,subj_name,block\n"
    )
    lake, report = ingested(
        tmp_path,
        "wcst_prl",
        "data/processed/interim/raw_data_controls.csv",
        header
        + "30,4,0,1,shape,star,1,green,812,1,4,0,0,0,b,1\n"
        + "30,4,0,2,shape,star,1,green,10000,3,4,0,0,0,b,1\n"
        + "30,4,0,3,shape,star,1,green,900,2,1,1,0,1,b,1\n"
        + "30,2,0,1,color,star,1,green,900,1,2,0,0,0,a,1\n",
    )
    assert report.failures == ()
    found = participants(lake)
    assert list(found) == ["a", "b"]
    assert found["b"].cards.tolist() == [[1, 3, 0], [1, 3, 0]]
    assert found["b"].choices.tolist() == [3, 0] and found["b"].is_right.tolist() == [True, False]
    assert found["a"].choices.tolist() == [1] and found["a"].is_right.tolist() == [True]


def test_a_lake_without_the_participants_says_what_to_do(tmp_path):
    with pytest.raises(SourceUnavailable, match="found 0; run `coglake ingest wcst_prl`"):
        SequentialLearning().estimate(Home(tmp_path / "lake"))


def test_the_recorded_participants_play():
    agent, schedule = load_agents()["wcst_sequential_learning"], load_schedules()["wcst"]
    assert agent.provenance == "substitute"
    fitted_policy = agent.made().fit(schedule.environment(), ())
    record = recorded("wcst_sequential_learning")
    assert len(record.participants) == 278
    assert len(fitted_policy.fits) == 278 * (len(PARAMETERS) + 2)
    assert fitted_policy.replicas == ("",)
    assert set(record.parameters["lapse"].tolist()) == {fitted_policy.policy.lapse}
    for name, low, high in zip(PARAMETERS, BOUNDS.lower, BOUNDS.upper, strict=True):
        values = record.parameters[name]
        assert (values >= low).all() and (values <= high).all()
        assert getattr(fitted_policy.policy.parameters, name).tolist() == values.tolist()


@pytest.mark.mirror
def test_recorded_likelihoods_are_those_of_the_participants_choices(tmp_path):
    lake = Home(tmp_path / "lake")
    ingest(lake, [load_sources()["wcst_prl"]], mirror=os.environ["COGLAKE_MIRROR"])
    record, sorts = recorded("wcst_sequential_learning"), participants(lake)
    assert len(sorts) == len(record.participants)
    lapse = lapse_rate(list(sorts.values()))
    assert record.parameters["lapse"] == pytest.approx(lapse, abs=1e-6)
    for index, own in enumerate(sorts.values()):
        point = Learners(*(record.parameters[name][[index]] for name in PARAMETERS))
        found = negative_log_likelihood(point, own, lapse)[0]
        assert found == pytest.approx(record.parameters["negative_log_likelihood"][index], abs=1e-3)
