"""Is the two-step schedule that of the original program, and does a step show no more than it should?"""

from dataclasses import fields, replace
from math import nan

import numpy as np
import pytest
from doors import fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generate.agents.uniform import UniformPolicy
from generate.contract import Episodes, Fitted
from generate.environments.two_step import ALIENS, TwoStep
from generate.episodes import play
from generate.schedule import load_schedules

CONSTANTS = {"common_probability": 0.7, "lowest_rate": 0.25, "highest_rate": 0.75, "drift": 0.025}
PUBLISHED = TwoStep(horizon=20, **CONSTANTS)
SHORT = TwoStep(horizon=5, **CONSTANTS)
UNIFORM = Fitted(UniformPolicy())

rates = st.floats(0, 1)
environments = st.builds(
    lambda horizon, common, ends, drift: TwoStep(
        horizon=horizon,
        common_probability=common,
        lowest_rate=min(ends),
        highest_rate=max(ends),
        drift=drift,
    ),
    horizon=st.integers(1, 8),
    common=rates,
    ends=st.tuples(rates, rates),
    drift=st.floats(0, 0.3),
)
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True)


def played(environment, episodes, policy=UNIFORM, seed=7):
    return play(environment, episodes, policy, seed, run_id="r", mode_id="m").to_pylist()


def by_episode(rows):
    return {
        name: [row for row in rows if row["episode_id"] == name]
        for name in dict.fromkeys(row["episode_id"] for row in rows)
    }


def original(seed, actions, horizon=20):
    """The original program's calls with given choices: rates, planet and treasure of each trial."""
    np.random.seed(seed)
    reward_rates = np.random.uniform(0.25, 0.75, (4,))
    for trial in range(horizon):
        ship, alien = actions[2 * trial], actions[2 * trial + 1]
        planet = np.random.choice(["X", "Y"], p=[0.7, 0.3] if ship == "X" else [0.3, 0.7])
        treasure = np.random.binomial(1, reward_rates["DFJK".index(alien)], 1)[0]
        yield reward_rates.tolist(), planet, treasure
        reward_rates += np.random.normal(0, 0.025, 4)
        reward_rates = np.clip(reward_rates, 0.25, 0.75)


@pytest.mark.parametrize("policy_seed", range(3))
def test_the_original_program_gives_the_same_planets_treasures_and_rates(policy_seed):
    seeds = load_schedules()["two_step"].seeds.range
    rows = by_episode(played(PUBLISHED, PUBLISHED.episodes(seeds), seed=policy_seed))
    assert list(rows) == [str(run) for run in range(100)]
    for seed, steps in zip(seeds, rows.values(), strict=True):
        assert len(steps) == 2 * 20
        for (current, planet, treasure), ship, alien in zip(
            original(seed, [step["action"] for step in steps]), steps[::2], steps[1::2], strict=True
        ):
            assert ship["outcome"] == alien["observation"] == planet
            assert alien["reward"] == treasure
            assert alien["hidden_values"] == current


def test_the_seeds_found_by_search_give_the_published_expectation():
    schedule = load_schedules()["two_step"]
    environment = schedule.environment()
    assert environment == PUBLISHED
    items = environment.items(environment.episodes(schedule.seeds.range))
    assert len(items) == 2_000
    assert np.mean([item.facts["reward_rates"] for item in items]) == pytest.approx(0.4962893287, abs=5e-11)
    assert "seed inferred, not proven" in schedule.description


@given(seed=st.integers(0, 2**32 - 1), rate=rates)
def test_a_treasure_is_what_the_legacy_binomial_gives(seed, rate):
    world = replace(
        SHORT.draw(SHORT.episodes([seed])),
        rates=np.full((1, 5, 4), rate),
        treasures=np.full((1, 5), np.random.RandomState(seed).random_sample()),
    )
    state, _ = SHORT.step(world, SHORT.start(world), np.array([0]))
    alien = SHORT.observe(world, state).legal.argmax(axis=1)
    _, step = SHORT.step(world, state, alien)
    assert step.reward[0] == np.random.RandomState(seed).binomial(1, rate)


def test_rows_look_like_those_of_the_archive():
    rows = played(PUBLISHED, PUBLISHED.episodes([20261006]))
    for index, row in enumerate(rows):
        stage = index % 2
        assert (row["step_index"], row["trial"], row["stage"]) == (index, index // 2, stage)
        assert row["status"] == "ok" and not row["is_forced"] and row["credited_options"] is None
        assert row["is_rewarded"] == (stage == 1)
        if stage == 0:
            assert row["legal_options"] == ["X", "Y"] and row["outcome"] in ("X", "Y")
            assert row["reward"] is None and row["observation"] is None and row["hidden_values"] is None
        else:
            aliens = {"X": ["D", "F"], "Y": ["J", "K"]}[row["observation"]]
            assert row["legal_options"] == aliens and row["outcome"] is None
            assert row["reward"] in (0, 1) and len(row["hidden_values"]) == 4


def test_an_item_is_a_trial_with_the_rates_that_hold_in_it():
    episodes = SHORT.episodes([5, 9])
    items = SHORT.items(episodes)
    assert [item.item_id for item in items] == [f"{run}/{trial}" for run in (0, 1) for trial in range(5)]
    hidden = [row["hidden_values"] for row in played(SHORT, episodes) if row["stage"] == 1]
    assert [item.facts for item in items] == [{"reward_rates": now} for now in hidden]
    assert all(item.legal_options is None and item.credited_options is None for item in items)


@settings(max_examples=40, deadline=None)
@given(environment=environments, seeds=seed_lists, policy_seed=st.integers(0, 5))
def test_play_is_legal_and_complete_and_rates_stay_in_bounds(environment, seeds, policy_seed):
    rows = played(environment, environment.episodes(seeds), seed=policy_seed)
    assert len(rows) == 2 * environment.horizon * len(seeds)
    for row in rows:
        assert row["action"] in row["legal_options"]
        if row["stage"] == 1:
            assert row["reward"] in (0, 1)
            assert all(
                environment.lowest_rate <= rate <= environment.highest_rate for rate in row["hidden_values"]
            )


@settings(max_examples=25, deadline=None)
@given(environment=environments, seeds=seed_lists, data=st.data())
def test_an_episode_does_not_depend_on_the_others(environment, seeds, data):
    episodes = environment.episodes(seeds)
    together = by_episode(played(environment, episodes))
    assert together == by_episode(played(environment, episodes))
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(seeds))), min_size=1)), reverse=True)
    some = Episodes(tuple(episodes.ids[i] for i in kept), episodes.seeds[kept], episodes.slots[kept])
    assert by_episode(played(environment, some)) == {name: together[name] for name in some.ids}


def test_replicas_of_an_episode_share_its_world():
    episodes = PUBLISHED.episodes([3])
    rows = by_episode(played(PUBLISHED, episodes, Fitted(UniformPolicy(), replicas=("a", "b"))))
    first, second = rows["a/0"], rows["b/0"]
    assert [row["hidden_values"] for row in first] == [row["hidden_values"] for row in second]
    assert [row["action"] for row in first] != [row["action"] for row in second]


@settings(max_examples=25, deadline=None)
@given(seeds=seed_lists, other=st.integers(0, 2**32 - 1), n_steps=st.integers(0, 10), data=st.data())
def test_nothing_that_was_not_revealed_can_be_seen(seeds, other, n_steps, data):
    """A second world, equal in what was revealed so far and otherwise another one, looks the same."""
    world = SHORT.draw(SHORT.episodes(seeds))
    twin = SHORT.draw(SHORT.episodes([(seed + other) % 2**32 for seed in seeds]))
    state = twin_state = SHORT.start(world)
    for step in range(n_steps):
        trial, lanes = step // 2, np.arange(len(seeds))
        seen = SHORT.observe(world, state)
        uniforms = np.array(data.draw(st.lists(st.floats(0, 0.99), min_size=len(seeds), max_size=len(seeds))))
        chosen = np.array(
            [np.flatnonzero(legal)[int(2 * u)] for legal, u in zip(seen.legal, uniforms, strict=True)]
        )
        if step % 2 == 0:
            twin.transitions[:, trial] = world.transitions[:, trial]
        else:
            alien = chosen - 2
            twin.treasures[:, trial] = world.treasures[:, trial]
            twin.rates[lanes, trial, alien] = world.rates[lanes, trial, alien]
        state, _ = SHORT.step(world, state, chosen)
        twin_state, _ = SHORT.step(twin, twin_state, chosen)
    seen, twin_seen = SHORT.observe(world, state), SHORT.observe(twin, twin_state)
    for field in fields(seen):
        np.testing.assert_array_equal(getattr(seen, field.name), getattr(twin_seen, field.name))


def test_an_observation_has_nothing_hidden_in_it():
    world = SHORT.draw(SHORT.episodes([1]))
    names = {field.name for field in fields(SHORT.observe(world, SHORT.start(world)))}
    assert names == {
        "legal", "trial", "stage", "ship", "planet", "last_ship", "last_planet", "last_alien", "last_reward",
    }  # fmt: skip


def test_what_is_seen_is_what_happened():
    world = SHORT.draw(SHORT.episodes([1, 2]))
    state = SHORT.start(world)
    seen = SHORT.observe(world, state)
    np.testing.assert_array_equal(seen.last_reward, [nan, nan])
    assert (seen.last_ship == -1).all() and (seen.planet == -1).all() and (seen.ship == -1).all()
    state, fly = SHORT.step(world, state, np.array([0, 1]))
    seen = SHORT.observe(world, state)
    assert seen.ship.tolist() == [0, 1] and seen.planet.tolist() == fly.outcome.tolist()
    assert seen.stage.tolist() == [1, 1] and seen.last_ship.tolist() == [-1, -1]
    actions = seen.legal.argmax(axis=1)
    state, trade = SHORT.step(world, state, actions)
    seen = SHORT.observe(world, state)
    assert seen.trial.tolist() == [1, 1] and seen.planet.tolist() == [-1, -1]
    assert seen.last_ship.tolist() == [0, 1] and seen.last_planet.tolist() == fly.outcome.tolist()
    assert seen.last_alien.tolist() == (actions - 2).tolist()
    assert seen.last_reward.tolist() == trade.reward.tolist()


@pytest.mark.parametrize(("step", "n_rows", "n_errors"), [(0, 1, 4), (1, 2, 4), (4, 5, 2), (9, 10, 0)])
def test_an_illegal_action_ends_its_episode(step, n_rows, n_errors):
    def legal(seen):
        return seen.legal.argmax(axis=1)

    def wrong_in_the_first(seen):
        chosen = legal(seen)
        # an alien while ships are offered, a ship while aliens are
        chosen[0] = 2 if seen.stage[0] == 0 else 0
        return chosen

    rows = by_episode(
        played(SHORT, SHORT.episodes([1, 2]), fitted(*[legal] * step, wrong_in_the_first, legal))
    )
    ended, whole = rows["0"], rows["1"]
    assert len(whole) == 2 * SHORT.horizon and all(row["status"] == "ok" for row in whole)
    assert [row["status"] for row in ended] == ["ok"] * step + ["unparsed"] + ["error"] * n_errors
    assert ended[step]["reward"] is None and ended[step]["is_rewarded"]
    assert len(ended) == n_rows + n_errors
    # no trial is lost: each is in the denominator once
    assert [row["trial"] for row in ended if row["is_rewarded"]] == list(range(SHORT.horizon))


@pytest.mark.parametrize(
    ("constants", "sentence"),
    [
        ({"horizon": 0}, "greater than or equal to 1"),
        ({"horizon": 2.0}, "valid integer"),
        ({"common_probability": 1.1}, "less than or equal to 1"),
        ({"drift": -0.1}, "greater than or equal to 0"),
        ({"drift": nan}, "finite number"),
        ({"lowest_rate": 0.8}, "expected lowest_rate <= highest_rate, found 0.8 > 0.75"),
        ({"n_planets": 2}, "Extra inputs"),
    ],
)
def test_constants_that_make_no_schedule_are_refused(constants, sentence):
    with pytest.raises(ValidationError, match=sentence):
        TwoStep(**({"horizon": 20} | CONSTANTS | constants))


def test_a_certain_alien_always_pays_and_a_hopeless_one_never():
    for rate, mean in ((0.0, 0.0), (1.0, 1.0)):
        environment = TwoStep(
            horizon=30, common_probability=1.0, lowest_rate=rate, highest_rate=rate, drift=0.1
        )
        rows = played(environment, environment.episodes(range(5)))
        assert np.mean([row["reward"] for row in rows if row["is_rewarded"]]) == mean
        # a transition that is certain leads where the ship is named for
        assert all(row["outcome"] == row["action"] for row in rows if row["stage"] == 0)
        assert environment.actions[2:] == ALIENS
