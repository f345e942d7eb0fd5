"""Stationary bandits: conditions that differ in the number of arms, the horizon and the kind of reward.

Conditions are those of FullBench in BanditBench (Nie et al., 2024).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Episodes, Floats, Ints, ScheduledItem, Step, Telling
from generate.environments.arms import ArmsSeen
from generate.environments.pulls import Pulls, before_the_first_pull, best, distinct_worlds
from generate.schedule import Positive, Seed
from store.prompts import load_template

_TEMPLATE = "play_stationary_bandits"

Label = Annotated[str, Field(strict=True, min_length=1)]
Arms = Annotated[int, Field(strict=True, ge=2)]


class BernoulliCondition(BaseModel):
    """Arms that pay 1 or nothing; one is better than all others, which are alike.

    Attributes
    ----------
    label
        Name of the condition.
    scenario
        Story in which the arms are told.
    n_arms, n_trials
        Size of an episode.
    gap
        Distance between the probabilities of the best arm and the others, which lie evenly about 1/2.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rewards: Literal["bernoulli"]
    label: Label
    scenario: Label
    n_arms: Arms
    n_trials: Positive
    gap: Annotated[float, Field(gt=0, le=1)]

    def draw(self, seed: int, slot: int) -> tuple[Floats, Floats]:
        """Draw the place of the best arm; and one uniform number per trial, which pays if below the mean."""
        # the slot is part of the seed: conditions with the same seeds share no draws
        stream = np.random.RandomState([seed, slot])
        means = np.full(self.n_arms, 0.5 - self.gap / 2)
        means[stream.randint(self.n_arms)] = 0.5 + self.gap / 2
        return means, stream.random_sample(self.n_trials)

    def paid(self, means: Floats, chance: Floats) -> Floats:
        """Return what arms with these means pay."""
        return (chance < means).astype(np.float64)


class GaussianCondition(BaseModel):
    """Arms with normal rewards, whose means are fixed for the condition.

    Attributes
    ----------
    label
        Name of the condition.
    scenario
        Story in which the arms are told.
    n_arms, n_trials
        Size of an episode.
    sd
        Standard deviation of the rewards of an arm, and of the means from which the condition's are drawn.
    means_seed
        Of the draw of the means.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rewards: Literal["gaussian"]
    label: Label
    scenario: Label
    n_arms: Arms
    n_trials: Positive
    sd: Annotated[float, Field(gt=0)]
    means_seed: Seed

    @property
    def means(self) -> Floats:
        """The means of the arms, as the original benchmark draws them."""
        return np.random.default_rng(self.means_seed).normal(0.0, self.sd, self.n_arms)

    def draw(self, seed: int, slot: int) -> tuple[Floats, Floats]:
        """Return the means; and draw one standard normal number per trial, to be added in units of sd."""
        return self.means, np.random.RandomState([seed, slot]).standard_normal(self.n_trials)

    def paid(self, means: Floats, chance: Floats) -> Floats:
        """Return what arms with these means pay."""
        return means + self.sd * chance


Condition = Annotated[BernoulliCondition | GaussianCondition, Field(discriminator="rewards")]


@dataclass(frozen=True, slots=True)
class StationaryWorld:
    """What was drawn.

    Attributes
    ----------
    means
        Of each arm: worlds x arms; -inf for an arm that the condition lacks.
    chance
        The draw of each trial, whichever arm is chosen: worlds x trials; 0 after the condition's last.
    which
        World of each episode.
    conditions
        Condition of each episode.
    """

    means: Floats
    chance: Floats
    which: Ints
    conditions: Ints


@dataclass(frozen=True, slots=True)
class Tally(Pulls):
    """Where the episodes stand, and what each arm has paid so far: episodes x arms.

    Attributes
    ----------
    n_chosen
        How often each arm was chosen.
    totals
        Sum of what it paid.
    """

    n_chosen: Ints
    totals: Floats


@dataclass(frozen=True, slots=True)
class StationarySeen(ArmsSeen):
    """A choice between the arms of one story, with a summary of all choices before it.

    Attributes
    ----------
    scenario
        Story in which the arms are told, as an index into the environment's ``observations``.
    n_chosen
        How often each arm was chosen: episodes x arms.
    totals
        Sum of what each arm paid: episodes x arms.
    """

    scenario: Ints
    n_chosen: Ints
    totals: Floats


class StationaryBandits(BaseModel):
    """Bandits whose arms never change, in several conditions; each seed plays every condition once.

    A trial has one draw, which is turned into a reward by the mean of the arm that is chosen. A choice counts
    as right if no arm of the condition has a higher mean.

    Attributes
    ----------
    conditions
        In order; the place of a condition is the slot of its episodes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        labels = [condition.label for condition in self.conditions]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise ValueError(f"labels of conditions must differ, found {twice} twice")
        return self

    @property
    def actions(self) -> tuple[str, ...]:
        """Arms of the largest condition; smaller ones have the first of them."""
        return tuple(str(arm) for arm in range(max(condition.n_arms for condition in self.conditions)))

    @property
    def outcomes(self) -> tuple[str, ...]:
        """None beside the reward."""
        return ()

    @property
    def observations(self) -> tuple[str, ...]:
        """The stories in which arms are told."""
        return tuple(dict.fromkeys(condition.scenario for condition in self.conditions))

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one episode per condition and seed."""
        n_conditions = len(self.conditions)
        return Episodes(
            tuple(f"{condition.label}/{seed}" for condition in self.conditions for seed in seeds),
            np.tile(np.array(seeds, dtype=np.int64), n_conditions),
            np.repeat(np.arange(n_conditions), len(seeds)),
        )

    def draw(self, episodes: Episodes) -> StationaryWorld:
        """Draw the means where the condition does not fix them, and the chance of every trial."""
        drawn, which = distinct_worlds(episodes, lambda seed, slot: self.conditions[slot].draw(seed, slot))
        means = np.full((len(drawn), len(self.actions)), -np.inf)
        chance = np.zeros((len(drawn), max(condition.n_trials for condition in self.conditions)))
        for world, (of_arms, of_trials) in enumerate(drawn):
            means[world, : of_arms.size] = of_arms
            chance[world, : of_trials.size] = of_trials
        return StationaryWorld(means, chance, which, episodes.slots)

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per episode, which stands for all its trials."""
        world = self.draw(episodes)
        labels = np.array(self.actions)
        items = []
        for name, slot, which in zip(
            episodes.ids, episodes.slots.tolist(), world.which.tolist(), strict=True
        ):
            condition = self.conditions[slot]
            means = world.means[which]
            items.append(
                ScheduledItem(
                    item_id=name,
                    legal_options=self.actions[: condition.n_arms],
                    credited_options=tuple(labels[best(means)].tolist()),
                    facts={"reward_means": means[: condition.n_arms].tolist()},
                    weight=float(condition.n_trials),
                )
            )
        return items

    def start(self, world: StationaryWorld) -> Tally:
        """Return the state before the first trial."""
        shape = (world.which.size, len(self.actions))
        first = before_the_first_pull(world.which.size)
        return Tally(
            first.live,
            first.trial,
            first.last_action,
            first.last_context,
            first.last_reward,
            n_chosen=np.zeros(shape, dtype=np.int64),
            totals=np.zeros(shape),
        )

    def observe(self, world: StationaryWorld, state: Tally) -> StationarySeen:
        """Return the arms of the condition, what the last choice paid, and what all choices paid together."""
        n = state.live.size
        return StationarySeen(
            legal=state.live[:, None] & np.isfinite(world.means)[world.which],
            trial=np.full(n, state.trial),
            context=np.zeros(n, dtype=np.int64),
            last_action=state.last_action,
            last_context=state.last_context,
            last_reward=state.last_reward,
            scenario=self._scenarios()[world.conditions],
            n_chosen=state.n_chosen,
            totals=state.totals,
        )

    def tell(self, seen: StationarySeen) -> list[Telling]:
        """Tell how often each arm was chosen and what it paid on average: up to 1,000 trials are no history.

        Raises
        ------
        InvalidSource
            If the template lacks the story of a condition.
        """
        template = load_template(_TEMPLATE)
        labels, told = self.actions, []
        for legal, scenario, n_chosen, totals in zip(
            seen.legal.tolist(),
            seen.scenario.tolist(),
            seen.n_chosen.tolist(),
            seen.totals.tolist(),
            strict=True,
        ):
            name = self.observations[scenario]
            unit = template.fill(f"{name}_unit", {})
            options = [label for label, is_legal in zip(labels, legal, strict=True) if is_legal]
            listed = ", ".join(options)
            # the arms of a condition are the first of all labels
            arms = [
                template.fill("arm", {"unit": unit, "arm": arm, "times": times, "mean": _mean(total, times)})
                if times
                else template.fill("new_arm", {"unit": unit, "arm": arm})
                for arm, times, total in zip(options, n_chosen, totals, strict=False)
            ]
            story = template.fill(name, {"n_arms": len(options), "options": listed})
            told.append(Telling((), {"story": story, "arms": "".join(arms), "unit": unit, "options": listed}))
        return told

    def step(self, world: StationaryWorld, state: Tally, actions: Ints) -> tuple[Tally, Step]:
        """Pay what the chosen arms pay."""
        n = state.live.size
        means = world.means[world.which]
        chosen = means[np.arange(n), actions]
        chance = world.chance[world.which, state.trial]
        reward = np.empty(n)
        for slot, condition in enumerate(self.conditions):
            here = world.conditions == slot
            reward[here] = condition.paid(chosen[here], chance[here])
        n_chosen, totals, lanes = state.n_chosen.copy(), state.totals.copy(), np.arange(n)
        n_chosen[lanes, actions] += 1
        totals[lanes, actions] += reward
        n_trials = np.array([condition.n_trials for condition in self.conditions])[world.conditions]
        live: Bools = state.live & (state.trial + 1 < n_trials)
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.ones(n, dtype=np.bool_),
            credited=best(means),
            observation=self._scenarios()[world.conditions],
        )
        contexts = np.zeros(n, dtype=np.int64)
        return Tally(live, state.trial + 1, actions, contexts, reward, n_chosen, totals), step

    def trials_left(self, world: StationaryWorld, state: Pulls) -> Ints:
        """Return how many trials follow the one under way."""
        n_trials: Ints = np.array([condition.n_trials for condition in self.conditions])
        return n_trials[world.conditions] - 1 - state.trial

    def _scenarios(self) -> Ints:
        return np.array([self.observations.index(condition.scenario) for condition in self.conditions])


def _mean(total: float, times: int) -> str:
    """Write a mean with two decimals; what rounds to zero has no sign."""
    return f"{round(total / times, 2) + 0.0:.2f}"
