"""Restless bandit: two arms that trade places at the end of each block.

Dynamics and random streams are those of CogBench (Coda-Forno et al., 2024), after Ershadmanesh et al. (2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Episodes, Floats, Ints, ScheduledItem, Step, Telling
from generate.environments.arms import ArmsSeen
from generate.environments.pulls import Pulls, before_the_first_pull, best, distinct_worlds, episodes_of
from generate.environments.torch_stream import scalar_normals
from generate.schedule import Positive

_ARMS = ("0", "1")
_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class RestlessWorld:
    """What was drawn.

    Attributes
    ----------
    rewards
        What each arm pays: worlds x trials x arms, in points with two decimals.
    means_after
        Means of the arms once the trial is over: worlds x trials x arms.
    which
        World of each episode.
    """

    rewards: Floats
    means_after: Floats
    which: Ints


class RestlessBandit(BaseModel):
    """Two arms with normal rewards, whose means trade places at the end of each block.

    All trials of an episode use one number each of its noise stream, whichever arm is chosen, so what an arm
    pays does not depend on earlier choices. The participant is shown the whole points of a reward, cut off.

    A choice counts as right by the means *after* the step, as the original scorer reads them: the last choice
    of each block, the last of all included, is compared with means that have just traded places.

    Attributes
    ----------
    reward_means
        Means of the two arms, in points; which arm has which is drawn.
    reward_sd
        Standard deviation of both.
    block_lengths
        Trials of each block.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reward_means: tuple[float, float]
    reward_sd: Annotated[float, Field(ge=0)]
    block_lengths: Annotated[tuple[Positive, ...], Field(min_length=1)]

    @property
    def n_trials(self) -> int:
        """Trials of an episode."""
        return sum(self.block_lengths)

    @property
    def actions(self) -> tuple[str, ...]:
        """The two arms."""
        return _ARMS

    @property
    def outcomes(self) -> tuple[str, ...]:
        """None beside the reward."""
        return ()

    @property
    def observations(self) -> tuple[str, ...]:
        """None: the arms in front never change."""
        return ()

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one episode per seed."""
        return episodes_of(seeds)

    def draw(self, episodes: Episodes) -> RestlessWorld:
        """Draw where the better arm starts, and the noise of every trial."""
        worlds, which = distinct_worlds(episodes, lambda seed, slot: self._world(seed))
        return RestlessWorld(
            np.stack([rewards for rewards, _ in worlds]), np.stack([after for _, after in worlds]), which
        )

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per trial."""
        world = self.draw(episodes)
        return [
            ScheduledItem(
                item_id=f"{name}/{trial}",
                legal_options=_ARMS,
                credited_options=tuple(np.array(_ARMS)[best(means)].tolist()),
            )
            for name, of_episode in zip(episodes.ids, world.means_after[world.which], strict=True)
            for trial, means in enumerate(of_episode)
        ]

    def start(self, world: RestlessWorld) -> Pulls:
        """Return the state before the first trial."""
        return before_the_first_pull(world.which.size)

    def observe(self, world: RestlessWorld, state: Pulls) -> ArmsSeen:
        """Return what the last choice paid, in whole points."""
        legal = np.repeat(state.live[:, None], len(_ARMS), axis=1)
        return state.seen(legal, np.zeros(state.live.size, dtype=np.int64))

    def tell(self, seen: ArmsSeen) -> list[Telling]:
        """Tell which trial it is; into the history goes what the last one paid."""
        return [
            Telling(
                happened=(("trial", {"number": trial, "action": _ARMS[action], "reward": int(reward)}),)
                if trial > 0
                else (),
                asked={"number": trial + 1, "n_trials": self.n_trials},
            )
            for trial, action, reward in zip(
                seen.trial.tolist(), seen.last_action.tolist(), seen.last_reward.tolist(), strict=True
            )
        ]

    def step(self, world: RestlessWorld, state: Pulls, actions: Ints) -> tuple[Pulls, Step]:
        """Pay what the chosen arms pay."""
        n = state.live.size
        reward = world.rewards[world.which, state.trial, actions]
        means = world.means_after[world.which, state.trial]
        live: Bools = state.live & (state.trial + 1 < self.n_trials)
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.ones(n, dtype=np.bool_),
            credited=best(means),
            hidden=means,
        )
        return state.after(live, actions, np.zeros(n, dtype=np.int64), np.trunc(reward)), step

    def trials_left(self, world: RestlessWorld, state: Pulls) -> Ints:
        """Return how many trials follow the one under way."""
        return np.full(state.live.size, self.n_trials - 1 - state.trial)

    def _world(self, seed: int) -> tuple[Floats, Floats]:
        # the original permutes the means when it is made and swaps them when it is reset
        first, second = np.random.RandomState(seed).permutation(self.reward_means)[::-1].tolist()
        in_block = np.array([[first, second], [second, first]])
        block = np.repeat(np.arange(len(self.block_lengths)), self.block_lengths)
        is_last = np.append(np.diff(block), 1)
        # single precision as in the stream's own library: products and sums must round as there
        noise = scalar_normals(seed, self.n_trials) * np.float32(self.reward_sd)
        paid: Floats = (noise[:, None] + in_block[block % 2].astype(np.float32)).astype(np.float64)
        return np.round(paid, _DECIMALS), in_block[(block + is_last) % 2]
