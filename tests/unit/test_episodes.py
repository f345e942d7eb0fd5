"""Does the loop write down what happened, whatever an agent returns?"""

from dataclasses import replace

import numpy as np
import pytest
from doors import Doors, fitted

from generate.agents.uniform import UniformPolicy
from generate.contract import Fitted
from generate.environments.single import SingleEpisode
from generate.episodes import check, play
from generate.schedule import load_schedules
from generate.streams import Streams, choose, softmax
from store.errors import EngineFailed, WrongUsage

DOORS = Doors()
UNIFORM = Fitted(UniformPolicy())


class OpenDoors(Doors):
    """Doors of which none is closed at the last trial."""

    def observe(self, world, state):
        seen = super().observe(world, state)
        return replace(seen, legal=np.repeat(state.live[:, None], self.n_doors, axis=1))


def first(seen):
    return seen.legal.argmax(axis=1)


def played(policy, seeds=(1, 2), environment=DOORS):
    episodes = environment.episodes(list(seeds))
    return play(environment, episodes, policy, 7, run_id="r", mode_id="m").to_pylist()


def test_every_decision_is_a_row_in_the_order_of_the_episode():
    rows = played(fitted(first))
    assert [(row["episode_id"], row["step_index"], row["trial"]) for row in rows] == [
        *[("1", trial, trial) for trial in range(4)],
        *[("2", trial, trial) for trial in range(5)],
    ]
    prizes = np.random.RandomState(1).randint(0, 3, 5)
    assert [row["hidden_values"] for row in rows[:4]] == [[float(prize)] for prize in prizes[:4]]
    assert [row["credited_options"] for row in rows[:4]] == [["abc"[prize]] for prize in prizes[:4]]
    assert [row["reward"] for row in rows[:4]] == [float(prize == 0) for prize in prizes[:4]]
    assert {row["outcome"] for row in rows if row["reward"] == 1} <= {"prize"}
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["observation"] for row in rows} == {"doors"}


def test_the_last_row_of_an_episode_says_that_it_is_the_last_also_where_the_episode_ended_early():
    whole = played(fitted(first))
    at_once = played(fitted(np.array([7, 0])))
    at_its_last_trial = played(fitted(first, first, first, np.array([7, 0])), environment=OpenDoors())
    for rows in (whole, at_once, at_its_last_trial):
        last = {row["episode_id"]: row["step_index"] for row in rows}
        assert [row["is_last"] for row in rows] == [
            row["step_index"] == last[row["episode_id"]] for row in rows
        ]
    statuses = [[row["status"] for row in rows if row["is_last"]] for rows in (at_once, at_its_last_trial)]
    assert statuses == [["error", "ok"], ["unparsed", "ok"]]


def test_a_single_legal_action_is_a_forced_one():
    rows = played(fitted(first), seeds=[1])
    assert [row["is_forced"] for row in rows] == [False, False, False, True]
    assert [row["legal_options"] for row in rows] == [["a", "b", "c"]] * 3 + [["a"]]


@pytest.mark.parametrize(
    "choice, found",
    [
        (np.array([7, 0]), "no action"),
        (np.array([-1, 0]), "no action"),
        (np.array([np.nan, 0]), "no action"),
        (np.array([0.5, 0]), "no action"),
        ([None, 0], "no action"),
    ],
)
def test_an_action_that_cannot_be_taken_ends_its_episode_alone(choice, found):
    rows = played(fitted(first, choice, first))
    ended = [row for row in rows if row["episode_id"] == "1"]
    assert [row["status"] for row in ended] == ["ok", "unparsed", "error", "error"]
    assert [row["trial"] for row in ended] == [0, 1, 2, 3]
    assert [row["action"] for row in ended] == ["a", None, None, None]
    assert [row["reward"] for row in ended[1:]] == [None, None, None]
    assert all(row["is_rewarded"] for row in ended)
    assert ended[1]["status_reason"] == f"expected one of a, b, c, found {found}"
    assert (
        ended[2]["status_reason"] == f"the episode ended at trial 1: expected one of a, b, c, found {found}"
    )
    assert [row["status"] for row in rows if row["episode_id"] == "2"] == ["ok"] * 5


def test_where_one_action_is_legal_it_is_taken_whatever_an_agent_returns():
    # the last trial of episodes 1 and 3 leaves one door
    rows = played(fitted(first, first, first, np.array([np.nan, 1])), seeds=[1, 3])
    assert [row["action"] for row in rows if row["is_forced"]] == ["a", "a"]
    assert {row["status"] for row in rows} == {"ok"}


def test_an_illegal_action_is_named():
    class Locked(Doors):
        def observe(self, world, state):
            seen = super().observe(world, state)
            seen.legal[:, 2] = False
            return seen

    rows = played(fitted(np.array([2, 0])), environment=Locked())
    assert rows[0]["status_reason"] == "expected one of a, b, found c"


@pytest.mark.parametrize("choice", [None, "a", np.zeros(3), np.zeros((2, 1)), object()])
def test_an_agent_that_does_not_act_fails(choice):
    with pytest.raises(EngineFailed, match="expected"):
        played(fitted(choice))


def test_a_batch_of_any_size_gives_the_same_rows():
    together = played(UNIFORM, seeds=range(20))
    alone = [row for seed in range(20) for row in played(UNIFORM, seeds=[seed])]
    assert together == alone
    assert len({row["action"] for row in together}) == 3


def test_every_parameter_set_plays_every_episode_with_draws_of_its_own():
    policy = Fitted(UniformPolicy(), replicas=("p1", "p2"))
    rows = played(policy, seeds=range(10))
    by_set = {name: [r for r in rows if r["episode_id"].startswith(name)] for name in policy.replicas}
    assert [len(rows) for rows in by_set.values()] == [45, 45]
    first_set, second_set = ([r["action"] for r in rows] for rows in by_set.values())
    assert first_set != second_set
    hidden = [[r["hidden_values"] for r in rows] for rows in by_set.values()]
    assert hidden[0] == hidden[1]


def test_what_is_hidden_cannot_reach_an_agent():
    """A secret planted in the world leaves no trace in anything that the agent is given."""
    secret = 424242

    class Planted(Doors):
        def draw(self, episodes):
            world = super().draw(episodes)
            world.prizes[:] = secret
            return world

    policy = fitted(first)
    play(Planted(), Planted().episodes([1, 2]), policy, 7, run_id="r", mode_id="m")
    assert len(policy.policy.seen) == 5
    assert str(secret) not in repr(policy.policy.seen)
    assert str(secret) not in repr(policy.policy.lanes)


def test_an_agent_cannot_change_the_environment_through_what_it_is_shown():
    def spoil(seen):
        for array in (seen.legal, seen.last_reward):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 1
            array.setflags(write=True)
            array[:] = 1
        return np.full(2, 2)

    class Narrow(Doors):
        def observe(self, world, state):
            seen = super().observe(world, state)
            seen.legal[:, 2] = False
            return seen

    rows = played(fitted(spoil), environment=Narrow())
    assert [row["status"] for row in rows if row["trial"] == 0] == ["unparsed", "unparsed"]
    assert rows[0]["legal_options"] == ["a", "b"]


def test_a_stream_does_not_tell_the_seed_that_names_it():
    streams = Streams([(7, 0, 20261009, 0)])
    assert "20261009" not in repr([vars(streams), streams._generators[0].state])
    assert streams._generators[0].seed_seq.entropy > 2**128


@pytest.mark.parametrize("replicas", [(), ("a", "a")])
def test_parameter_sets_differ_in_name(replicas):
    with pytest.raises(EngineFailed, match="different names"):
        played(fitted(first, replicas=replicas))


@pytest.mark.parametrize("choice", [np.array([True, False]), ["0", "1"], np.array([0j, 1j])])
def test_truth_values_and_text_are_no_actions(choice):
    with pytest.raises(EngineFailed, match="one action per episode"):
        played(fitted(choice))


def test_questions_are_not_played():
    with pytest.raises(WrongUsage, match="expected a task that is played"):
        SingleEpisode(load_schedules()["bayesian_urn"].environment())


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, None])
def test_a_seed_is_a_whole_number_below_two_to_the_32(seed):
    with pytest.raises(WrongUsage, match="expected a whole number"):
        SingleEpisode(DOORS).reset(seed=seed)


def test_text_ends_a_single_episode_as_no_action():
    single = SingleEpisode(DOORS)
    single.reset(seed=1)
    assert single.step("a").info["invalid"] == "expected one of a, b, c, found no action"


def test_one_episode_alone_follows_the_same_rules():
    rows = played(fitted(first), seeds=[2])
    single = SingleEpisode(DOORS)
    seen, info = single.reset(seed=2)
    rewards, is_over = [], False
    while not is_over:
        seen, reward, is_over, truncated, info = single.step(int(seen.legal[0].argmax()))
        rewards.append(reward)
        assert not truncated and info["invalid"] is None and info["outcome"] in DOORS.outcomes
    assert rewards == [row["reward"] for row in rows]
    with pytest.raises(WrongUsage, match=r"reset\(\)"):
        single.step(0)


def test_one_episode_ends_at_an_illegal_action():
    single = SingleEpisode(DOORS)
    single.reset(seed=1)
    turn = single.step(9)
    assert turn.terminated and np.isnan(turn.reward)
    assert turn.info["invalid"] == "expected one of a, b, c, found no action"
    with pytest.raises(WrongUsage, match="0 to 0"):
        single.reset(seed=1, episode=1)


def test_check_keeps_every_action_that_can_be_taken():
    legal = np.array([[True, False], [True, True], [False, False]])
    checked = check([0, 1, 5], legal, np.array([True, True, False]), ("a", "b"))
    assert checked.actions[:2].tolist() == [0, 1]
    assert checked.reasons == {}


def test_streams_do_not_depend_on_how_they_are_asked():
    keys = [(1, 0, seed) for seed in range(5)]
    at_once = Streams(keys).uniform(300)
    streams = Streams(keys)
    in_turn = np.concatenate([streams.uniform(n) for n in (1, 63, 1, 100, 135)], axis=1)
    assert (at_once == in_turn).all()
    assert (Streams(keys[3:4]).uniform(300) == at_once[3:4]).all()
    assert ((at_once >= 0) & (at_once < 1)).all()
    assert abs(at_once.mean() - 0.5) < 0.05


def test_choose_never_takes_an_action_without_probability():
    probabilities = np.array([[0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
    edges = [0.0, 0.25, 0.5, np.nextafter(1, 0)]
    chosen = np.array([choose(probabilities, np.full(3, edge)) for edge in edges])
    assert chosen.T.tolist() == [[1, 1, 2, 2], [2, 2, 2, 2], [0, 0, 0, 0]]


def test_softmax_is_over_the_legal_actions_and_does_not_overflow():
    values = np.array([[1000.0, 0.0, 1000.0], [0.0, np.log(3), 5.0], [1.0, 1.0, 1.0]])
    legal = np.array([[True, True, True], [True, True, False], [False, False, False]])
    assert softmax(values, legal) == pytest.approx(np.array([[0.5, 0, 0.5], [0.25, 0.75, 0], [0, 0, 0]]))
