"""Two-step task: a spaceship leads to one of two planets, and an alien there gives treasure or junk.

Source: Daw et al. (2011), Neuron 69, 1204-1215, in the form of CogBench (Coda-Forno et al., 2024):
``Experiments/TwoStepTask/query.py``. The rates at which the four aliens give treasure drift, whoever is
chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Episodes, Floats, Ints, Observation, ScheduledItem, Step, Telling
from store.prompts import load_template

SHIPS = PLANETS = ("X", "Y")
ALIENS = ("D", "F", "J", "K")
N_ALIENS_PER_PLANET = 2
_NONE = -1
_TEMPLATE = "play_two_step"

Probability = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Drift = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class World:
    """Everything that chance decides, drawn from the episode's seed whatever is chosen.

    Attributes
    ----------
    rates
        Probability that each alien gives treasure: episodes x trials x 4, in the order of ``ALIENS``.
    transitions, treasures
        Uniform numbers that decide the planet and the reward: episodes x trials.
    """

    rates: Floats
    transitions: Floats
    treasures: Floats


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the episodes stand: all are at the same decision, since none ends before the others.

    Attributes
    ----------
    live
        Episodes that are not over.
    trial, stage
        The decision that comes next.
    ship, planet
        Chosen and reached in this trial; -1 before the first decision of it.
    last_ship, last_planet, last_alien, last_reward
        The last trial that was completed; -1 and NaN before there is one.
    """

    live: Bools
    trial: int
    stage: int
    ship: Ints
    planet: Ints
    last_ship: Ints
    last_planet: Ints
    last_alien: Ints
    last_reward: Floats


@dataclass(frozen=True, slots=True)
class TwoStepSeen(Observation):
    """A choice between two spaceships (stage 0), or between the two aliens of a planet (stage 1).

    Attributes
    ----------
    trial, stage
        The decision, from 0.
    ship, planet
        Index of the spaceship taken and of the planet reached in this trial; -1 at stage 0.
    last_ship, last_planet, last_alien
        Indices into ``SHIPS``, ``PLANETS`` and ``ALIENS`` of the last completed trial; -1 if there is none.
    last_reward
        What that trial paid: 1 for treasure, 0 for junk; NaN if there is none.
    """

    trial: Ints
    stage: Ints
    ship: Ints
    planet: Ints
    last_ship: Ints
    last_planet: Ints
    last_alien: Ints
    last_reward: Floats


class TwoStep(BaseModel):
    """The task with its constants.

    Attributes
    ----------
    horizon
        Trials of an episode, of two decisions each.
    common_probability
        Of reaching the planet that the spaceship is named for.
    lowest_rate, highest_rate
        The rates start uniformly between these, and are clipped to them.
    drift
        Standard deviation of the change of each rate from trial to trial.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    horizon: Annotated[int, Field(strict=True, ge=1)]
    common_probability: Probability
    lowest_rate: Probability
    highest_rate: Probability
    drift: Drift

    @model_validator(mode="after")
    def _rates_are_ordered(self) -> "TwoStep":
        if self.lowest_rate > self.highest_rate:
            raise ValueError(
                f"expected lowest_rate <= highest_rate, found {self.lowest_rate} > {self.highest_rate}"
            )
        return self

    @property
    def actions(self) -> tuple[str, ...]:
        """The two spaceships, then the four aliens."""
        return SHIPS + ALIENS

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The planets that a spaceship can lead to."""
        return PLANETS

    @property
    def observations(self) -> tuple[str, ...]:
        """The planet that is in view when an alien is chosen."""
        return PLANETS

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one episode per seed, named by its number from 0: the run of the original schedule."""
        return Episodes(
            ids=tuple(str(run) for run in range(len(seeds))),
            seeds=np.array(seeds, dtype=np.int64),
            slots=np.zeros(len(seeds), dtype=np.int64),
        )

    def draw(self, episodes: Episodes) -> World:
        """Draw rates and uniform numbers in the order of calls of the original program."""
        seeds, which = np.unique(episodes.seeds, return_inverse=True)
        rates = np.empty((seeds.size, self.horizon, len(ALIENS)))
        uniforms = np.empty((seeds.size, self.horizon, 2))
        for row, seed in enumerate(seeds.tolist()):
            chance = np.random.RandomState(seed)
            current = chance.uniform(self.lowest_rate, self.highest_rate, len(ALIENS))
            for trial in range(self.horizon):
                rates[row, trial] = current
                # one number for the planet, one for the treasure; then the rates drift
                uniforms[row, trial] = chance.random_sample(2)
                drifted = current + chance.normal(0.0, self.drift, len(ALIENS))
                current = drifted.clip(self.lowest_rate, self.highest_rate)
        return World(rates[which], uniforms[which, :, 0], uniforms[which, :, 1])

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per trial, with the rates that hold in it whoever plays."""
        rates = self.draw(episodes).rates.tolist()
        return [
            ScheduledItem(item_id=f"{episode}/{trial}", facts={"reward_rates": now})
            for episode, path in zip(episodes.ids, rates, strict=True)
            for trial, now in enumerate(path)
        ]

    def start(self, world: World) -> Standing:
        """Return the state before the first spaceship is chosen."""
        n = world.rates.shape[0]
        none = np.full(n, _NONE)
        return Standing(
            live=np.ones(n, dtype=np.bool_),
            trial=0,
            stage=0,
            ship=none,
            planet=none,
            last_ship=none,
            last_planet=none,
            last_alien=none,
            last_reward=np.full(n, np.nan),
        )

    def observe(self, world: World, state: Standing) -> TwoStepSeen:
        """Return what is known before the next decision; of the world, nothing but what was met."""
        n = state.live.size
        legal = np.zeros((n, len(self.actions)), dtype=np.bool_)
        if state.stage == 0:
            legal[:, : len(SHIPS)] = True
        else:
            legal[:, len(SHIPS) :] = home_planet(np.arange(len(ALIENS))) == state.planet[:, None]
        return TwoStepSeen(
            legal=legal & state.live[:, None],
            trial=np.full(n, state.trial),
            stage=np.full(n, state.stage),
            ship=state.ship,
            planet=state.planet,
            last_ship=state.last_ship,
            last_planet=state.last_planet,
            last_alien=state.last_alien,
            last_reward=state.last_reward,
        )

    def tell(self, seen: TwoStepSeen) -> list[Telling]:
        """Ask for a spaceship, or for an alien of the planet reached; into the history go whole trials."""
        template, told = load_template(_TEMPLATE), []
        for legal, trial, stage, ship, planet, last_ship, last_planet, last_alien, last_reward in zip(
            seen.legal.tolist(),
            seen.trial.tolist(),
            seen.stage.tolist(),
            seen.ship.tolist(),
            seen.planet.tolist(),
            seen.last_ship.tolist(),
            seen.last_planet.tolist(),
            seen.last_alien.tolist(),
            seen.last_reward.tolist(),
            strict=True,
        ):
            now: dict[str, object] = {
                "day": trial + 1,
                "options": " or ".join(
                    label for label, is_legal in zip(self.actions, legal, strict=True) if is_legal
                ),
            }
            if stage:
                question = template.fill("trade", {**now, "ship": SHIPS[ship], "planet": PLANETS[planet]})
            else:
                question = template.fill("fly", now)
            happened: tuple[tuple[str, dict[str, object]], ...] = ()
            if trial > 0 and stage == 0:
                last = {
                    "day": trial,
                    "ship": SHIPS[last_ship],
                    "planet": PLANETS[last_planet],
                    "alien": ALIENS[last_alien],
                    "found": "treasure" if last_reward else "junk",
                }
                happened = (("day", last),)
            told.append(Telling(happened, {"question": question}))
        return told

    def step(self, world: World, state: Standing, actions: Ints) -> tuple[Standing, Step]:
        """Fly to a planet (stage 0), or trade with an alien and end the trial (stage 1)."""
        return self._fly(world, state, actions) if state.stage == 0 else self._trade(world, state, actions)

    def trials_left(self, world: World, state: Standing) -> Ints:
        """Return how many trials follow the one that is under way."""
        return np.full(state.live.size, max(self.horizon - state.trial - 1, 0))

    def _fly(self, world: World, state: Standing, ship: Ints) -> tuple[Standing, Step]:
        n = state.live.size
        # the number is looked up in the cumulated probabilities of the planets, X first
        to_first = np.where(ship == 0, self.common_probability, 1.0 - self.common_probability)
        planet = (world.transitions[:, state.trial] >= to_first).astype(np.int64)
        step = Step(
            trial=np.full(n, state.trial),
            reward=np.full(n, np.nan),
            is_rewarded=np.zeros(n, dtype=np.bool_),
            stage=0,
            outcome=planet,
            hidden=np.full((n, len(ALIENS)), np.nan),
        )
        return replace(state, stage=1, ship=ship, planet=planet), step

    def _trade(self, world: World, state: Standing, actions: Ints) -> tuple[Standing, Step]:
        n = state.live.size
        alien = actions - len(SHIPS)
        rates = world.rates[:, state.trial]
        reward = _gives_treasure(rates[np.arange(n), alien], world.treasures[:, state.trial]).astype(float)
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.ones(n, dtype=np.bool_),
            stage=1,
            observation=state.planet,
            hidden=rates,
        )
        none = np.full(n, _NONE)
        following = Standing(
            live=np.full(n, state.trial + 1 < self.horizon),
            trial=state.trial + 1,
            stage=0,
            ship=none,
            planet=none,
            last_ship=state.ship,
            last_planet=state.planet,
            last_alien=alien,
            last_reward=reward,
        )
        return following, step


def home_planet(alien: Ints) -> Ints:
    """Return the planet that an alien lives on."""
    return alien // N_ALIENS_PER_PLANET


def _gives_treasure(rate: Floats, uniform: Floats) -> Bools:
    """Decide as ``RandomState.binomial(1, rate)`` does from its one uniform number.

    The legacy generator inverts the distribution of the less likely outcome: above one half it counts junk,
    so the side of the number that pays changes there.
    """
    rare = np.where(rate <= 0.5, rate, 1.0 - rate)
    is_rare = uniform > np.exp(np.log(1.0 - rare))
    treasure: Bools = is_rare == (rate <= 0.5)
    return treasure
