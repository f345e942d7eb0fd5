"""Are planning trees built, shown and paid by their rules, with nothing hidden in what is shown?"""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from generate.agents.uniform import Uniform, UniformPolicy
from generate.contract import Fitted
from generate.environments.mouselab import MouselabTrees, Trees, TreesState
from generate.environments.single import SingleEpisode
from generate.episodes import play
from generate.schedule import load_schedules
from generate.streams import choose

VALUES = (-10.0, -5.0, 5.0, 10.0)
SCHEDULE = load_schedules()["mouselab_trees"]
PUBLISHED = MouselabTrees(branching=(4, 1, 2), node_values=VALUES, n_slots=3)

quick = settings(max_examples=30, deadline=None)
branchings = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
environments = st.builds(
    MouselabTrees,
    branching=branchings,
    node_values=st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=4, unique=True),
    n_slots=st.integers(1, 4),
)
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)


def walked(branching):
    """Parents and root-to-leaf paths of a tree that is numbered by walking down each branch."""
    parents, paths = {}, []

    def walk(node, path, level):
        if level == len(branching):
            paths.append(path)
            return
        for _ in range(branching[level]):
            child = len(parents) + 1
            parents[child] = node
            walk(child, [*path, child], level + 1)

    walk(0, [], 0)
    return parents, paths


def open_nodes(parents, known):
    return [node for node, parent in parents.items() if node not in known and parent in {0, *known}]


def best_sum(paths, known, mean):
    return max(sum(known.get(node, mean) for node in path) for path in paths)


def belief(environment, data):
    """A world, and a state in which some nodes are known, as looking at open nodes would leave it."""
    world = environment.draw(environment.episodes([data.draw(st.integers(0, 2**32 - 1))]))
    parents, _ = walked(environment.branching)
    known = set()
    for _ in range(data.draw(st.integers(0, environment.n_nodes))):
        if nodes := open_nodes(parents, known):
            known.add(data.draw(st.sampled_from(nodes)))
    is_known = np.array([[node in known for node in parents]])
    return world, TreesState(is_known, np.array([True])), known


def played(environment, seeds, policy=None, seed=1):
    fitted = Fitted(policy or UniformPolicy())
    rows = play(environment, environment.episodes(seeds), fitted, seed, run_id="r", mode_id="m")
    return rows.to_pylist()


@pytest.mark.parametrize("branching", [(4, 1, 2), (3, 1, 2), (2, 2), (1, 1, 1), (5,), (2, 3, 2)])
def test_nodes_are_numbered_down_each_branch(branching):
    environment = MouselabTrees(branching=branching, node_values=VALUES, n_slots=1)
    parents, paths = walked(branching)
    assert environment.parents.tolist() == list(parents.values())
    assert environment.paths.tolist() == paths
    assert environment.actions == ("STOP", *map(str, parents))


def test_the_published_tree_has_the_paths_that_participants_took():
    # routes in the source's file of trials
    assert {(1, 2, 4), (5, 6, 8), (9, 10, 11), (13, 14, 16)} <= set(map(tuple, PUBLISHED.paths.tolist()))
    assert PUBLISHED.n_nodes == 4 * (1 + 1 + 2)


@quick
@given(environments, seed_lists)
def test_nodes_hold_what_the_stream_of_the_seed_gives(environment, seeds):
    drawn = environment.draw(environment.episodes(seeds)).node_values
    for values, seed in zip(drawn.tolist(), seeds, strict=True):
        stream = np.random.RandomState(seed)
        by_hand = [environment.node_values[stream.randint(len(environment.node_values))] for _ in values]
        assert values == by_hand


def test_values_are_equally_likely_and_nodes_independent():
    drawn = PUBLISHED.draw(PUBLISHED.episodes(range(4000))).node_values
    for node in (0, 2, 15):
        assert chisquare(np.unique(drawn[:, node], return_counts=True)[1]).pvalue > 1e-4
    pairs = np.unique(drawn[:, :2], axis=0, return_counts=True)[1]
    assert pairs.size == len(VALUES) ** 2 and chisquare(pairs).pvalue > 1e-4


@quick
@given(environments, seed_lists)
def test_every_step_follows_the_rules_by_hand(environment, seeds):
    parents, paths = walked(environment.branching)
    mean = sum(environment.node_values) / len(environment.node_values)
    drawn = environment.draw(environment.episodes(seeds)).node_values
    rows = played(environment, seeds)
    for position, episode in enumerate(environment.episodes(seeds).ids):
        own = [row for row in rows if row["episode_id"] == episode]
        known = {}
        for index, row in enumerate(own):
            assert (row["step_index"], row["trial"], row["stage"]) == (index, 0, len(known))
            legal = ["STOP", *map(str, open_nodes(parents, known))]
            assert row["legal_options"] == legal and row["is_forced"] == (len(legal) == 1)
            assert row["status"] == "ok" and row["credited_options"] is None
            is_stop = row["action"] == "STOP"
            assert is_stop == (index == len(own) - 1) == row["is_rewarded"]
            assert row["outcome"] == ("stopped" if is_stop else "revealed")
            if is_stop:
                assert row["reward"] == pytest.approx(best_sum(paths, known, mean), abs=1e-12)
                assert row["hidden_values"] == drawn[position].tolist()
            else:
                assert row["reward"] is None and row["hidden_values"] is None
                known[int(row["action"])] = drawn[position, int(row["action"]) - 1]


class Thorough:
    """Looks at every node before it stops."""

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        return memory, np.where(seen.legal[:, 1:].any(axis=1), 1 + seen.legal[:, 1:].argmax(axis=1), 0)


class Stubborn:
    """Looks at one node again and again."""

    def start(self, lanes):
        return None

    def act(self, memory, seen, streams):
        return memory, np.full(len(seen.legal), 1)


def test_stopping_is_forced_when_every_node_is_known():
    rows = played(PUBLISHED, range(4), Thorough())
    last = [row for row in rows if row["is_rewarded"]]
    assert len(rows) == 4 * (PUBLISHED.n_nodes + 1)
    assert [row["legal_options"] for row in last] == [["STOP"]] * 4 and all(row["is_forced"] for row in last)
    for row in last:
        values = row["hidden_values"]
        assert row["reward"] == max(sum(values[node - 1] for node in path) for path in PUBLISHED.paths)


def test_a_node_that_is_known_cannot_be_looked_at_again():
    first, second = played(PUBLISHED, [5], Stubborn())
    assert first["status"] == "ok" and first["action"] == "1"
    assert second["status"] == "unparsed" and second["reward"] is None and second["is_rewarded"]
    assert second["status_reason"] == "expected one of STOP, 2, 5, 9, 13, found 1"


@quick
@given(environments, seed_lists, st.data())
def test_an_episode_is_the_same_in_any_company(environment, seeds, data):
    rows = played(environment, seeds)
    assert played(environment, seeds) == rows
    episodes = environment.episodes(seeds)
    chosen = np.array(data.draw(st.permutations(range(len(seeds)))))[: data.draw(st.integers(1, len(seeds)))]
    apart = play(
        environment, episodes.only(chosen), Fitted(UniformPolicy()), 1, run_id="r", mode_id="m"
    ).to_pylist()
    by_id = {name: [row for row in rows if row["episode_id"] == name] for name in episodes.ids}
    assert apart == [row for position in chosen for row in by_id[episodes.ids[position]]]


@quick
@given(environments, st.data())
def test_what_nobody_looked_at_cannot_be_seen(environment, data):
    world, state, known = belief(environment, data)
    is_known = state.known
    secret = Trees(np.where(is_known, world.node_values, 987654.0))
    seen, seen_with_secret = environment.observe(world, state), environment.observe(secret, state)
    np.testing.assert_array_equal(seen.node_values, seen_with_secret.node_values)
    np.testing.assert_array_equal(seen.legal, seen_with_secret.legal)
    assert np.isnan(seen.node_values[~is_known]).all()
    # nor can it be told from what stopping pays
    stop = np.array([0])
    assert environment.step(world, state, stop)[1].reward == environment.step(secret, state, stop)[1].reward
    assert len(known) == is_known.sum()


@quick
@given(environments, st.data())
def test_a_look_shows_one_node_and_changes_no_other(environment, data):
    world, state, known = belief(environment, data)
    nodes = open_nodes(walked(environment.branching)[0], known)
    if nodes:
        node = data.draw(st.sampled_from(nodes))
        after, step = environment.step(world, state, np.array([node]))
        before, now = environment.observe(world, state), environment.observe(world, after)
        changed = np.flatnonzero(np.isnan(before.node_values[0]) != np.isnan(now.node_values[0]))
        assert changed.tolist() == [node - 1]
        assert now.node_values[0, node - 1] == world.node_values[0, node - 1]
        assert np.isnan(step.reward[0]) and not step.is_rewarded[0] and after.live[0]


def test_an_episode_that_is_over_offers_nothing():
    world = PUBLISHED.draw(PUBLISHED.episodes([1, 2]))
    state, _ = PUBLISHED.step(world, PUBLISHED.start(world), np.array([0, 1]))
    # the first is over; whatever is passed for it is ignored
    state, _ = PUBLISHED.step(world, state, np.array([1, 2]))
    assert state.live.tolist() == [False, True]
    assert not state.known[0].any() and not PUBLISHED.observe(world, state).legal[0].any()
    assert PUBLISHED.trials_left(world, state).tolist() == [0, 0]


def exact_uniform(branching, values):
    """Expected return and looks of a player for whom every legal action is as likely as any other."""
    parents, paths = walked(branching)
    mean = Fraction(sum(values)) / len(values)

    def ahead(known):
        nodes = open_nodes(parents, known)
        share = Fraction(1, 1 + len(nodes))
        total, looks = share * best_sum(paths, known, mean), Fraction(0)
        for node in nodes:
            for value in values:
                further = ahead(known | {node: Fraction(value)})
                total += share / len(values) * further[0]
                looks += share / len(values) * (1 + further[1])
        return total, looks

    return ahead({})


@pytest.mark.parametrize(
    ("branching", "values"), [((2, 1), (-3.0, 1.0, 8.0)), ((1, 2), (-10.0, 10.0)), ((3,), (0.0, 5.0))]
)
def test_uniform_play_pays_its_exact_expectation(branching, values):
    environment = MouselabTrees(branching=branching, node_values=values, n_slots=1)
    expected_return, expected_looks = exact_uniform(branching, [Fraction(value) for value in values])
    stops = [row for row in played(environment, range(4000)) if row["is_rewarded"]]
    for found, expected in (
        ([row["reward"] for row in stops], expected_return),
        ([row["stage"] for row in stops], expected_looks),
    ):
        assert abs(np.mean(found) - float(expected)) < 4 * np.std(found, ddof=1) / len(found) ** 0.5


def test_uniform_play_of_the_schedule_meets_the_published_expectation():
    environment = SCHEDULE.environment()
    fitted = Uniform().fit(environment, ())
    episodes = environment.episodes(SCHEDULE.seeds.range[:4000])
    rows = play(environment, episodes, fitted, 1, run_id="r", mode_id="m")
    stops = [row for row in rows.select(["reward", "stage", "is_rewarded"]).to_pylist() if row["is_rewarded"]]
    rewards, looks = [row["reward"] for row in stops], [row["stage"] for row in stops]
    assert abs(np.mean(rewards) - 7.0077579291) < 4 * np.std(rewards, ddof=1) / 4000**0.5
    assert abs(np.mean(looks) - 4) < 4 * np.std(looks, ddof=1) / 4000**0.5


def test_the_schedule_gives_each_slot_as_many_trees():
    environment = SCHEDULE.environment()
    episodes = environment.episodes(SCHEDULE.seeds.range)
    assert SCHEDULE.mode == "mouselab_autonomous"
    assert len(episodes) == len(set(episodes.ids)) == len(set(episodes.seeds.tolist())) == 95 * 25 * 10
    assert np.bincount(episodes.slots).tolist() == [25 * 10] * 95
    assert episodes.ids[0] == "0/0" and episodes.ids[-1] == "94/249"
    assert environment.branching == (4, 1, 2) and environment.node_values == VALUES
    [item] = environment.items(episodes)
    assert item.item_id == "tree" and item.weight == 23_750
    assert item.facts == {"branching": [4, 1, 2], "node_values": [-10, -5, 5, 10]}


def test_a_longer_schedule_keeps_the_trees_of_a_shorter_one():
    short, long = PUBLISHED.episodes(range(7)), PUBLISHED.episodes(range(20))
    assert long.ids[:7] == short.ids and long.slots[:7].tolist() == short.slots.tolist()


def test_one_episode_at_a_time_is_the_same_episode():
    single = SingleEpisode(PUBLISHED)
    seen, _ = single.reset(seed=11)
    assert np.flatnonzero(seen.legal[0]).tolist() == [0, 1, 5, 9, 13]
    turn = single.step(5)
    assert turn.info["outcome"] == "revealed" and not turn.terminated
    value = PUBLISHED.draw(PUBLISHED.episodes([11])).node_values[0, 4]
    assert turn.observation.node_values[0, 4] == value
    turn = single.step(0)
    assert turn.terminated and turn.reward == max(0, value)


def test_nothing_is_drawn_during_play():
    world = PUBLISHED.draw(PUBLISHED.episodes(range(300)))
    state = PUBLISHED.start(world)
    seen = PUBLISHED.observe(world, state)
    actions = choose(seen.legal.astype(float), np.linspace(0, 0.999, 300))
    with patch("numpy.random.RandomState", side_effect=AssertionError("drawn during play")):
        state, _ = PUBLISHED.step(world, state, actions)
    assert state.known.sum() == (actions > 0).sum()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"branching": []}, "at least 1 item"),
        ({"branching": [0]}, "greater than or equal to 1"),
        ({"branching": [4, 1.5]}, "valid integer"),
        ({"branching": [100, 2]}, "expected a tree of at most 127 nodes besides the root, found 300"),
        ({"node_values": []}, "at least 1 item"),
        ({"node_values": [1.0, float("nan")]}, "finite number"),
        ({"n_slots": 0}, "greater than or equal to 1"),
        ({"depth": 3}, "Extra inputs"),
    ],
)
def test_constants_that_make_no_tree_are_refused(changed, sentence):
    constants = {"branching": [4, 1, 2], "node_values": [-10, 10], "n_slots": 1} | changed
    with pytest.raises(ValidationError, match=sentence):
        MouselabTrees.model_validate(constants)
