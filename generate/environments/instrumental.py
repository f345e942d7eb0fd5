"""Instrumental learning: four casinos with two arms each, visited in turn.

The task is CogBench's (Coda-Forno et al., 2024), after Lefebvre et al. (2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Episodes, Floats, Ints, ScheduledItem, Step, Telling
from generate.environments.arms import ArmsSeen
from generate.environments.pulls import Pulls, before_the_first_pull, best, distinct_worlds, episodes_of
from generate.schedule import Positive

_ARMS = ("0", "1")

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class InstrumentalWorld:
    """What was drawn.

    Attributes
    ----------
    casinos
        Casino that is visited: worlds x trials.
    rewards
        What each arm of it pays: worlds x trials x arms.
    which
        World of each episode.
    """

    casinos: Ints
    rewards: Floats
    which: Ints


class InstrumentalLearning(BaseModel):
    """Casinos with two arms each that pay 1 or nothing; visits are shuffled.

    A choice counts as right if no arm of the casino pays more often, so both do where the two are alike.

    Attributes
    ----------
    reward_probabilities
        Of the two arms in each casino.
    n_visits
        Trials in each casino.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reward_probabilities: Annotated[tuple[tuple[Probability, Probability], ...], Field(min_length=1)]
    n_visits: Positive

    @property
    def n_casinos(self) -> int:
        """Casinos of an episode."""
        return len(self.reward_probabilities)

    @property
    def n_trials(self) -> int:
        """Trials of an episode."""
        return self.n_casinos * self.n_visits

    @property
    def actions(self) -> tuple[str, ...]:
        """The two arms of the casino that is visited."""
        return _ARMS

    @property
    def outcomes(self) -> tuple[str, ...]:
        """None beside the reward."""
        return ()

    @property
    def observations(self) -> tuple[str, ...]:
        """The casinos."""
        return tuple(f"casino {number}" for number in range(1, self.n_casinos + 1))

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one episode per seed."""
        return episodes_of(seeds)

    def draw(self, episodes: Episodes) -> InstrumentalWorld:
        """Draw the order of the visits, and what both arms pay at each."""
        worlds, which = distinct_worlds(episodes, lambda seed, slot: self._world(seed))
        return InstrumentalWorld(
            np.stack([casinos for casinos, _ in worlds]), np.stack([rewards for _, rewards in worlds]), which
        )

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per episode and casino, which stands for all visits to it."""
        return [
            ScheduledItem(
                item_id=f"{name}/{number}",
                legal_options=_ARMS,
                credited_options=tuple(np.array(_ARMS)[best(np.array(means))].tolist()),
                facts={"reward_means": list(means)},
                weight=float(self.n_visits),
            )
            for name in episodes.ids
            for number, means in enumerate(self.reward_probabilities, start=1)
        ]

    def start(self, world: InstrumentalWorld) -> Pulls:
        """Return the state before the first visit."""
        return before_the_first_pull(world.which.size)

    def observe(self, world: InstrumentalWorld, state: Pulls) -> ArmsSeen:
        """Return which casino is visited, and what the last choice paid."""
        legal = np.repeat(state.live[:, None], len(_ARMS), axis=1)
        return state.seen(legal, world.casinos[world.which, min(state.trial, self.n_trials - 1)])

    def tell(self, seen: ArmsSeen) -> list[Telling]:
        """Tell which visit it is, and to which casino; into the history goes what the last one paid."""
        constants = {"n_casinos": self.n_casinos, "n_visits": self.n_visits, "n_trials": self.n_trials}
        return [
            Telling(
                happened=(
                    (
                        "visit",
                        {
                            "number": trial,
                            "casino": last_casino + 1,
                            "action": _ARMS[action],
                            "reward": int(reward),
                        },
                    ),
                )
                if trial > 0
                else (),
                asked={"number": trial + 1, "casino": casino + 1, **constants},
            )
            for trial, casino, action, last_casino, reward in zip(
                seen.trial.tolist(),
                seen.context.tolist(),
                seen.last_action.tolist(),
                seen.last_context.tolist(),
                seen.last_reward.tolist(),
                strict=True,
            )
        ]

    def step(self, world: InstrumentalWorld, state: Pulls, actions: Ints) -> tuple[Pulls, Step]:
        """Pay what the chosen arms pay."""
        n = state.live.size
        casinos = world.casinos[world.which, state.trial]
        reward = world.rewards[world.which, state.trial, actions]
        means = np.array(self.reward_probabilities)[casinos]
        live: Bools = state.live & (state.trial + 1 < self.n_trials)
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.ones(n, dtype=np.bool_),
            credited=best(means),
            observation=casinos,
            hidden=means,
        )
        return state.after(live, actions, casinos, reward), step

    def trials_left(self, world: InstrumentalWorld, state: Pulls) -> Ints:
        """Return how many trials follow the one under way."""
        return np.full(state.live.size, self.n_trials - 1 - state.trial)

    def _world(self, seed: int) -> tuple[Ints, Floats]:
        stream = np.random.RandomState(seed)
        casinos = stream.permutation(np.repeat(np.arange(self.n_casinos), self.n_visits))
        is_paid = (
            stream.random_sample((self.n_trials, len(_ARMS))) < np.array(self.reward_probabilities)[casinos]
        )
        return casinos, is_paid.astype(np.float64)
