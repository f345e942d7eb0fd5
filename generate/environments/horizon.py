"""Horizon task: games of two arms with four forced trials, and then one or six free choices.

The game is CogBench's (Coda-Forno et al., 2024), after Wilson et al. (2014).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Episodes, Floats, Ints, ScheduledItem, Step, Telling
from generate.environments.arms import ArmsSeen
from generate.environments.pulls import Pulls, before_the_first_pull, best, distinct_worlds
from generate.schedule import Positive

_ARMS = ("0", "1")


@dataclass(frozen=True, slots=True)
class HorizonSeen(ArmsSeen):
    """A choice between two arms, with the number of choices to come.

    Attributes
    ----------
    choices_left
        Free choices that the game still holds, one that is to be made now included.
    """

    choices_left: Ints


@dataclass(frozen=True, slots=True)
class HorizonWorld:
    """What was drawn; a game is a timeline and a place in it.

    Attributes
    ----------
    means
        Of the two arms: games x arms.
    horizons
        Which of the numbers of free choices: games.
    forced
        Arm of each forced trial: games x forced trials.
    rewards
        What each arm pays: games x trials x arms.
    which
        Game of each episode.
    """

    means: Floats
    horizons: Ints
    forced: Ints
    rewards: Floats
    which: Ints


class Horizon(BaseModel):
    """All games of a full factorial design, once in each timeline and in an order of its own.

    Factors are: which arm has the base mean, the base mean, the gap to the other arm, the gap's sign, the
    number of free choices, and how often the first arm is forced. Rewards are normal, rounded to whole points
    and not bounded; each trial has one draw for either arm, of which the participant sees the chosen arm's.

    Attributes
    ----------
    base_means
        Means of the base arm, in points.
    gaps
        Distances between the two means; positive, so that the means never tie.
    reward_sd
        Standard deviation of both arms.
    free_choices
        Numbers of free choices.
    n_forced
        Forced trials of a game.
    first_arm_forced
        How many of these are of the first arm, once per level of the factor: a number that is listed twice
        has twice as many games.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    base_means: Annotated[tuple[float, ...], Field(min_length=1)]
    gaps: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]
    reward_sd: Annotated[float, Field(ge=0)]
    free_choices: Annotated[tuple[Positive, ...], Field(min_length=1)]
    n_forced: Positive
    first_arm_forced: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _forced_trials_suffice(self) -> Self:
        if max(self.first_arm_forced) > self.n_forced:
            raise ValueError(f"first_arm_forced may not exceed n_forced, which is {self.n_forced}")
        return self

    @property
    def n_games(self) -> int:
        """Games of a timeline."""
        n_means = len(_ARMS) * len(self.base_means) * len(self.gaps) * 2
        return n_means * len(self.free_choices) * len(self.first_arm_forced)

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
        """How many free choices the game has."""
        return tuple(f"horizon {n}" for n in self.free_choices)

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return every game of the timelines; a timeline is named by its seed."""
        games = np.arange(self.n_games)
        return Episodes(
            tuple(f"{seed}/{game}" for seed in seeds for game in games.tolist()),
            np.repeat(np.array(seeds, dtype=np.int64), self.n_games),
            np.tile(games, len(seeds)),
        )

    def draw(self, episodes: Episodes) -> HorizonWorld:
        """Draw the order of games in each timeline, that of forced trials in each game, and all rewards."""
        timelines = Episodes(episodes.ids, episodes.seeds, np.zeros_like(episodes.slots))
        drawn, which = distinct_worlds(timelines, lambda seed, slot: self._timeline(seed))
        return HorizonWorld(
            means=np.concatenate([timeline.means for timeline in drawn]),
            horizons=np.concatenate([timeline.horizons for timeline in drawn]),
            forced=np.concatenate([timeline.forced for timeline in drawn]),
            rewards=np.concatenate([timeline.rewards for timeline in drawn]),
            which=which * self.n_games + episodes.slots,
        )

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per game, which stands for its free choices."""
        world = self.draw(episodes)
        return [
            ScheduledItem(
                item_id=name,
                legal_options=_ARMS,
                credited_options=tuple(np.array(_ARMS)[best(world.means[game])].tolist()),
                template_id=f"horizon_{self.free_choices[world.horizons[game]]}",
                facts={"reward_means": world.means[game].tolist()},
                weight=float(self.free_choices[world.horizons[game]]),
            )
            for name, game in zip(episodes.ids, world.which.tolist(), strict=True)
        ]

    def start(self, world: HorizonWorld) -> Pulls:
        """Return the state before the first forced trial."""
        return before_the_first_pull(world.which.size)

    def observe(self, world: HorizonWorld, state: Pulls) -> HorizonSeen:
        """Return what the last choice paid, and the arms that may be chosen: one on a forced trial."""
        n = state.live.size
        legal = np.repeat(state.live[:, None], len(_ARMS), axis=1)
        if state.trial < self.n_forced:
            legal &= world.forced[world.which, state.trial, None] == np.arange(len(_ARMS))
        n_free_made = max(state.trial - self.n_forced, 0)
        return HorizonSeen(
            legal=legal,
            trial=np.full(n, state.trial),
            context=np.zeros(n, dtype=np.int64),
            last_action=state.last_action,
            last_context=state.last_context,
            last_reward=state.last_reward,
            choices_left=np.maximum(self._n_free(world) - n_free_made, 0),
        )

    def tell(self, seen: HorizonSeen) -> list[Telling]:
        """Tell how many free choices are left; what a forced trial paid is told as that of an instruction."""
        return [
            Telling(
                happened=(
                    (
                        "instructed" if trial <= self.n_forced else "free",
                        {"number": trial, "action": _ARMS[action], "reward": int(reward)},
                    ),
                )
                if trial > 0
                else (),
                asked={
                    "number": trial + 1,
                    "n_forced": self.n_forced,
                    "n_free": choices_left + max(trial - self.n_forced, 0),
                    "choices_left": choices_left,
                },
            )
            for trial, action, reward, choices_left in zip(
                seen.trial.tolist(),
                seen.last_action.tolist(),
                seen.last_reward.tolist(),
                seen.choices_left.tolist(),
                strict=True,
            )
        ]

    def step(self, world: HorizonWorld, state: Pulls, actions: Ints) -> tuple[Pulls, Step]:
        """Pay what the chosen arms pay; only what was chosen freely belongs to the mean reward."""
        n = state.live.size
        reward = world.rewards[world.which, state.trial, actions]
        means = world.means[world.which]
        live: Bools = state.live & (state.trial + 1 < self.n_forced + self._n_free(world))
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.full(n, state.trial >= self.n_forced),
            credited=best(means),
            observation=world.horizons[world.which],
            hidden=means,
        )
        return state.after(live, actions, np.zeros(n, dtype=np.int64), reward), step

    def trials_left(self, world: HorizonWorld, state: Pulls) -> Ints:
        """Return how many trials follow the one under way."""
        return self.n_forced + self._n_free(world) - 1 - state.trial

    def _n_free(self, world: HorizonWorld) -> Ints:
        n_free: Ints = np.array(self.free_choices)[world.horizons[world.which]]
        return n_free

    def _design(self) -> tuple[Floats, Ints, Ints]:
        """Return the means, the horizon and the forced choices of the first arm, once per game."""
        games = list(
            product(
                range(len(_ARMS)),
                self.base_means,
                self.gaps,
                (-1, 1),
                range(len(self.free_choices)),
                self.first_arm_forced,
            )
        )
        means = [
            (base, base + sign * gap) if arm == 0 else (base + sign * gap, base)
            for arm, base, gap, sign, _, _ in games
        ]
        return np.array(means), np.array([game[4] for game in games]), np.array([game[5] for game in games])

    def _timeline(self, seed: int) -> HorizonWorld:
        stream = np.random.RandomState(seed)
        order = stream.permutation(self.n_games)
        means, horizons, n_first = self._design()
        means, horizons, n_first = means[order], horizons[order], n_first[order]
        sorted_arms = (np.arange(self.n_forced) >= n_first[:, None]).astype(np.int64)
        shuffle = stream.random_sample(sorted_arms.shape).argsort(axis=1, kind="stable")
        n_trials = self.n_forced + max(self.free_choices)
        noise = stream.standard_normal((self.n_games, n_trials, len(_ARMS)))
        # a sum with zero has no negative zero, which would print as one
        rewards = np.rint(means[:, None, :] + self.reward_sd * noise) + 0.0
        return HorizonWorld(
            means,
            horizons,
            np.take_along_axis(sorted_arms, shuffle, axis=1),
            rewards,
            np.arange(self.n_games),
        )
