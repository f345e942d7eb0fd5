"""What the learners of arm values share: the policy, and the choice of its parameters in training episodes.

A learner keeps one value per arm and context, moves the value of the chosen arm by a fraction (the learning
rate) of the prediction error, and chooses by a softmax of the values (Rescorla & Wagner, 1972; Sutton &
Barto, 2018, chapter 2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import (
    AnyEnvironment,
    Bools,
    Episodes,
    Fit,
    Fitted,
    Floats,
    Ints,
    Lanes,
    Policy,
)
from generate.environments.arms import ArmsSeen
from generate.streams import Streams, choose, softmax
from store.errors import InvalidSource

# episodes of training that are played side by side: their arrays fit into a processor's cache
_LANES = 16_384


class Axis(BaseModel):
    """Values of one parameter on a grid, from ``low`` to ``high``; ``with_zero`` puts 0 before them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float
    high: float
    count: Annotated[int, Field(strict=True, ge=2)]
    spacing: Literal["linear", "log"] = "linear"
    with_zero: bool = False

    @model_validator(mode="after")
    def _is_ordered(self) -> "Axis":
        if not self.low < self.high:
            raise ValueError(f"low must be less than high, found {self.low} and {self.high}")
        if (self.spacing == "log" or self.with_zero) and self.low <= 0:
            raise ValueError(f"low must be more than 0 here, found {self.low}")
        return self

    @property
    def values(self) -> Floats:
        """The values, ascending."""
        spaced = np.linspace if self.spacing == "linear" else np.geomspace
        values = spaced(self.low, self.high, self.count)
        return np.append(0.0, values) if self.with_zero else values

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return (0.0 if self.with_zero else self.low, self.high)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a learner knows.

    Attributes
    ----------
    values
        Expected reward in the learner's unit: episodes x contexts x arms. A context joins when it is first
        in front.
    rate_above, rate_below, inverse_temperature, initial_value
        Parameters of whoever plays each episode.
    """

    values: Floats
    rate_above: Floats
    rate_below: Floats
    inverse_temperature: Floats
    initial_value: Floats


@dataclass(frozen=True, slots=True)
class ValueLearner:
    """Softmax over values that follow the rewards; one or more parameter sets.

    Attributes
    ----------
    rate_above, rate_below
        Learning rates of each parameter set for rewards above the value of the arm and for all others.
    inverse_temperature, initial_value
        Of each parameter set; values are in units of ``reward_unit``.
    n_arms
        How many arms there are.
    reward_unit
        Reward that counts as 1.
    is_greedy
        Choose the legal arm with the highest value, one of these at random, instead of the softmax.
    """

    rate_above: Floats
    rate_below: Floats
    inverse_temperature: Floats
    initial_value: Floats
    n_arms: int
    reward_unit: float = 1.0
    is_greedy: bool = False

    def start(self, lanes: Lanes) -> Learned:
        """Expect the initial value of every arm."""
        return Learned(
            np.empty((len(lanes), 0, self.n_arms)),
            self.rate_above[lanes.replicas],
            self.rate_below[lanes.replicas],
            self.inverse_temperature[lanes.replicas],
            self.initial_value[lanes.replicas],
        )

    def act(self, memory: Learned, seen: ArmsSeen, streams: Streams) -> tuple[Learned, Ints]:
        """Move the value of the arm chosen last, and choose by the values of the context in front."""
        memory = _with_contexts(memory, int(seen.context.max(initial=-1)) + 1)
        memory = _updated(memory, seen, self.reward_unit)
        values = memory.values[np.arange(len(seen.context)), seen.context]
        if self.is_greedy:
            weights = _is_highest(values, seen.legal).astype(float)
        else:
            weights = softmax(memory.inverse_temperature[:, None] * values, seen.legal)
        return memory, choose(weights, streams.uniform(1)[:, 0])


def _with_contexts(memory: Learned, n_contexts: int) -> Learned:
    n_lanes, n_known, n_arms = memory.values.shape
    if n_contexts <= n_known:
        return memory
    new = np.broadcast_to(memory.initial_value[:, None, None], (n_lanes, n_contexts - n_known, n_arms))
    return replace(memory, values=np.concatenate([memory.values, new], axis=1))


def _updated(memory: Learned, seen: ArmsSeen, reward_unit: float) -> Learned:
    rows = np.flatnonzero(seen.last_action >= 0)
    if not rows.size:
        return memory
    values = memory.values.copy()
    arm = rows, seen.last_context[rows], seen.last_action[rows]
    error = seen.last_reward[rows] / reward_unit - values[arm]
    values[arm] += np.where(error > 0, memory.rate_above[rows], memory.rate_below[rows]) * error
    return replace(memory, values=values)


def _is_highest(values: Floats, legal: Bools) -> Bools:
    shown = np.where(legal, values, -np.inf)
    highest: Bools = legal & (shown == shown.max(axis=1, keepdims=True))
    return highest


class _CommonStreams(Streams):
    """The same random numbers for every parameter set: one stream per episode, handed out set by set."""

    def __init__(self, keys: Sequence[Sequence[int]], n_sets: int) -> None:
        super().__init__(keys)
        self._n_sets = n_sets

    def uniform(self, n: int) -> Floats:
        """Return the next ``n`` numbers of every episode, once per parameter set."""
        return np.tile(super().uniform(n), (self._n_sets, 1))


def mean_rewards(
    environment: AnyEnvironment, seeds: Sequence[int], policy: Policy[ArmsSeen, Learned], n_sets: int, seed: int
) -> Floats:
    """Let every parameter set of a policy play the same episodes with the same random numbers.

    Parameters
    ----------
    seeds
        Of the episodes.
    n_sets
        Parameter sets, which ``Lanes.replicas`` names.
    seed
        Of the policy's draws: one stream per episode, named by this seed, the episode's seed and its slot.

    Returns
    -------
    Floats
        Mean reward over the rewarded steps, in the environment's unit: one number per parameter set.
    """
    episodes = environment.episodes(seeds)
    keys = np.stack([np.full_like(episodes.seeds, seed), episodes.seeds, episodes.slots], axis=1).tolist()
    n_together = min(n_sets, max(1, _LANES // len(episodes)))
    lanes = episodes.repeated(n_together)
    world = environment.draw(lanes)
    means = np.empty(n_sets)
    for first in range(0, n_sets, n_together):
        # past the last set there is the last one over again: so one world serves every pass
        sets = np.minimum(np.arange(first, first + n_together), n_sets - 1)
        players = Lanes(np.repeat(sets, len(episodes)), lanes.slots)
        total, n_rewarded = _played(environment, world, policy, players, _CommonStreams(keys, n_together))
        means[sets] = total.reshape(n_together, -1).sum(axis=1) / n_rewarded.reshape(n_together, -1).sum(axis=1)
    return means


def _played(
    environment: AnyEnvironment,
    world: object,
    policy: Policy[ArmsSeen, Learned],
    players: Lanes,
    streams: Streams,
) -> tuple[Floats, Ints]:
    """Return the sum of the rewards of every episode, and over how many steps."""
    total, n_rewarded = np.zeros(len(players)), np.zeros(len(players), dtype=np.int64)
    state, memory = environment.start(world), policy.start(players)
    while (live := state.live).any():
        memory, actions = policy.act(memory, environment.observe(world, state), streams)
        state, step = environment.step(world, state, actions)
        is_counted = live & step.is_rewarded
        total += np.where(is_counted, step.reward, 0.0)
        n_rewarded += is_counted
    return total, n_rewarded


Grid = Mapping[str, Axis]
PolicyOf = Callable[[Mapping[str, Floats]], ValueLearner]


def select(
    environment: AnyEnvironment, training_seeds: Sequence[int], grid: Grid, policy_of: PolicyOf, seed: int
) -> Fitted:
    """Choose the point of a grid that earns most in the training episodes; of equal ones the first.

    Parameters
    ----------
    grid
        Values of every parameter; the last one varies fastest.
    policy_of
        Returns the policy with given values of the parameters, one entry per parameter set.
    seed
        Of the policy's draws in training: see :func:`mean_rewards`.

    Raises
    ------
    InvalidSource
        If there are no training seeds.
    """
    if not training_seeds:
        raise InvalidSource("expected training_seeds in the schedule of an agent that is selected, found none")
    axes = np.meshgrid(*(axis.values for axis in grid.values()), indexing="ij")
    points = {name: values.ravel() for name, values in zip(grid, axes, strict=True)}
    n_sets = axes[0].size
    means = mean_rewards(environment, training_seeds, policy_of(points), n_sets, seed)
    best = int(means.argmax())
    chosen = {name: values[[best]] for name, values in points.items()}
    n_training = len(training_seeds)
    fits = [
        Fit(name, float(value[0]), is_at_bound=bool(value[0] in grid[name].bounds), n_training=n_training)
        for name, value in chosen.items()
    ]
    fits.append(Fit("training_mean_reward", float(means[best]), n_training=n_training))
    return Fitted(
        policy_of(chosen),
        fits=tuple(fits),
        training_set=f"{n_training} training environments, seeds {training_seeds[0]} to {training_seeds[-1]}",
    )
