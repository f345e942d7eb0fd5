"""What the learners of arm values share: the policy, and the choice of its parameters in training episodes.

A learner keeps one value per arm and context, moves the value of the chosen arm by a fraction (the learning
rate) of the prediction error, and chooses by a softmax of the values (Rescorla & Wagner, 1972; Sutton &
Barto, 2018, chapter 2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from generate.contract import (
    AnyEnvironment,
    Bools,
    Environment,
    Fit,
    Floats,
    Ints,
    Lanes,
    MemoryT,
    Policy,
    StateT,
    WorldT,
)
from generate.environments.arms import ArmsSeen
from generate.streams import Streams
from store.errors import InvalidSource

# episodes of training that are played side by side: their arrays fit into a processor's cache
_LANES = 16_384


class Axis(BaseModel):
    """Values of one parameter on a grid, from ``low`` to ``high``; ``with_zero`` puts 0 before them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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


def _is_rate(axis: Axis) -> Axis:
    if axis.low < 0 or axis.high > 1:
        raise ValueError(f"learning rates must lie in [0, 1], found {axis.low} to {axis.high}")
    return axis


def _is_not_negative(axis: Axis) -> Axis:
    if axis.low < 0:
        raise ValueError(f"inverse temperatures must not be negative, found {axis.low}")
    return axis


LearningRates = Annotated[Axis, AfterValidator(_is_rate)]
InverseTemperatures = Annotated[Axis, AfterValidator(_is_not_negative)]


@dataclass(frozen=True, slots=True)
class Learned:
    """What a learner knows.

    Arrays have one entry per episode on their *last* axis: tasks have few arms, and reductions over a short
    last axis take most of the time of a large grid.

    Attributes
    ----------
    values
        Expected reward in the learner's unit: contexts x arms x episodes. A context joins when it is first
        in front.
    learning_rate_positive, learning_rate_negative, inverse_temperature, initial_value
        Parameters of whoever plays each episode.
    """

    values: Floats
    learning_rate_positive: Floats
    learning_rate_negative: Floats
    inverse_temperature: Floats
    initial_value: Floats


@dataclass(frozen=True, slots=True)
class ValueLearner:
    """Softmax over values that follow the rewards; one or more parameter sets.

    Attributes
    ----------
    learning_rate_positive, learning_rate_negative
        Learning rates of each parameter set: for positive prediction errors, and for all others.
    inverse_temperature, initial_value
        Of each parameter set; values are in units of ``reward_unit``.
    n_arms
        How many arms there are.
    reward_unit
        Reward that counts as 1.
    is_greedy
        Choose the legal arm with the highest value, one of these at random, instead of the softmax.
    """

    learning_rate_positive: Floats
    learning_rate_negative: Floats
    inverse_temperature: Floats
    initial_value: Floats
    n_arms: int
    reward_unit: float = 1.0
    is_greedy: bool = False

    def start(self, lanes: Lanes) -> Learned:
        """Expect the initial value of every arm."""
        return Learned(
            np.empty((0, self.n_arms, len(lanes))),
            self.learning_rate_positive[lanes.replicas],
            self.learning_rate_negative[lanes.replicas],
            self.inverse_temperature[lanes.replicas],
            self.initial_value[lanes.replicas],
        )

    def act(self, memory: Learned, seen: ArmsSeen, streams: Streams) -> tuple[Learned, Ints]:
        """Move the value of the arm chosen last, and choose by the values of the context in front."""
        memory = _with_contexts(memory, int(seen.context.max(initial=-1)) + 1)
        memory = _updated(memory, seen, self.reward_unit)
        values, legal = _in_front(memory.values, seen.context), list(seen.legal.T)
        if self.is_greedy:
            weights = _highest(values, legal)
        else:
            weights = _softmax(values, legal, memory.inverse_temperature)
        return memory, _drawn(weights, streams.uniform(1)[:, 0])


def _with_contexts(memory: Learned, n_contexts: int) -> Learned:
    n_known, n_arms, n_episodes = memory.values.shape
    if n_contexts <= n_known:
        return memory
    new = np.broadcast_to(memory.initial_value, (n_contexts - n_known, n_arms, n_episodes))
    return replace(memory, values=np.concatenate([memory.values, new]))


def _updated(memory: Learned, seen: ArmsSeen, reward_unit: float) -> Learned:
    is_first = seen.last_action < 0
    arm = _places(memory.values, np.maximum(seen.last_context, 0), np.maximum(seen.last_action, 0))
    value = memory.values.take(arm)
    error = np.where(is_first, 0.0, seen.last_reward / reward_unit - value)
    value = value + np.where(error > 0, memory.learning_rate_positive, memory.learning_rate_negative) * error
    values = memory.values.copy()
    values.put(arm, value)
    return replace(memory, values=values)


def _places(values: Floats, contexts: Ints, arms: Ints | int) -> Ints:
    """Return where in the flat ``values`` each episode keeps the value of one arm."""
    _, n_arms, n_episodes = values.shape
    places: Ints = (contexts * n_arms + arms) * n_episodes + np.arange(n_episodes)
    return places


def _in_front(values: Floats, contexts: Ints) -> list[Floats]:
    """Return the values in the context in front, one array per arm."""
    n_contexts, n_arms, _ = values.shape
    if n_contexts == 1:
        return list(values[0])
    return [values.take(_places(values, contexts, arm)) for arm in range(n_arms)]


def _top(values: list[Floats], legal: list[Bools]) -> Floats:
    """Return the highest value of a legal arm; 0 in episodes that are over."""
    top = reduce(
        np.maximum,
        (np.where(is_legal, value, -np.inf) for value, is_legal in zip(values, legal, strict=True)),
    )
    return np.where(np.isfinite(top), top, 0.0)


def _softmax(values: list[Floats], legal: list[Bools], inverse_temperature: Floats) -> list[Floats]:
    """Return weights proportional to the softmax over the legal arms, one array per arm."""
    top = _top(values, legal)
    # legal arms are not above the top, so nothing overflows; what illegal ones would give is not used
    return [
        np.where(is_legal, np.exp(np.minimum(inverse_temperature * (value - top), 0.0)), 0.0)
        for value, is_legal in zip(values, legal, strict=True)
    ]


def _highest(values: list[Floats], legal: list[Bools]) -> list[Floats]:
    """Return a weight of 1 for every legal arm with the highest value, one array per arm."""
    top = _top(values, legal)
    return [(is_legal & (value == top)).astype(float) for value, is_legal in zip(values, legal, strict=True)]


def _drawn(weights: list[Floats], uniform: Floats) -> Ints:
    """Draw one arm per episode, as :func:`generate.streams.choose` does from an array with arms last."""
    *cumulative, total = accumulate(weights)
    threshold = uniform * total
    actions = np.zeros(len(uniform), dtype=np.int64)
    for below in cumulative:
        actions += (below <= threshold) & (below < total)
    return actions


class _CommonStreams(Streams):
    """The same random numbers for every parameter set: one stream per episode, handed out set by set."""

    def __init__(self, keys: Sequence[Sequence[int]], n_sets: int) -> None:
        super().__init__(keys)
        self._n_sets = n_sets
        self._numbers = np.empty((len(keys), 0))
        self._n_given = 0

    def rewind(self) -> None:
        """Start over, with the same numbers."""
        self._n_given = 0

    def uniform(self, n: int) -> Floats:
        """Return the next ``n`` numbers of every episode, once per parameter set."""
        first, self._n_given = self._n_given, self._n_given + n
        n_missing = self._n_given - self._numbers.shape[1]
        if n_missing > 0:
            self._numbers = np.concatenate([self._numbers, super().uniform(n_missing)], axis=1)
        return np.tile(self._numbers[:, first : self._n_given], (self._n_sets, 1))


def mean_rewards(
    environment: AnyEnvironment,
    seeds: Sequence[int],
    policy: Policy[ArmsSeen, MemoryT],
    n_sets: int,
    seed: int,
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
    streams = _CommonStreams(keys, n_together)
    means = np.empty(n_sets)
    for first in range(0, n_sets, n_together):
        # past the last set there is the last one over again: so one world serves every pass
        sets = np.minimum(np.arange(first, first + n_together), n_sets - 1)
        players = Lanes(np.repeat(sets, len(episodes)), lanes.slots)
        streams.rewind()
        total, n_rewarded = _played(environment, world, policy, players, streams)
        by_set = (n_together, len(episodes))
        means[sets] = total.reshape(by_set).sum(axis=1) / n_rewarded.reshape(by_set).sum(axis=1)
    return means


def _played(
    environment: Environment[WorldT, StateT, ArmsSeen],
    world: WorldT,
    policy: Policy[ArmsSeen, MemoryT],
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
Parameters = Mapping[str, Floats]
PolicyOf = Callable[[Parameters], ValueLearner]


@dataclass(frozen=True, slots=True)
class Selected:
    """The point of a grid that earned most.

    Attributes
    ----------
    parameters
        Its values, as arrays of one entry.
    fits, training_set
        As in :class:`generate.contract.Fitted`.
    """

    parameters: Parameters
    fits: tuple[Fit, ...]
    training_set: str


def select(
    environment: AnyEnvironment, training_seeds: Sequence[int], grid: Grid, policy_of: PolicyOf, seed: int
) -> Selected:
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
        raise InvalidSource(
            "expected training_seeds in the schedule of an agent that is selected, found none"
        )
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
    words = f"{n_training} training environments, seeds {training_seeds[0]} to {training_seeds[-1]}"
    return Selected(chosen, tuple(fits), words)
