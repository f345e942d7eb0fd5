"""Hybrid of model-free and model-based learning in the two-step task, fitted to human participants.

Source: Daw, Gershman, Seymour, Dayan & Dolan (2011), Neuron 69, 1204-1215: seven parameters per participant,
values from 0. Model-free values of spaceships and aliens follow SARSA(lambda). The model-based value of a
spaceship is what the best alien of each planet is worth, weighed by how likely the planet is reached; these
probabilities are known and fixed (settings of the family). The paper fixes them too, at 0.7 and 0.3, but lets
the participant find out by counting which planet goes with which spaceship; here the names say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from generate.agents.human_data import human_rows
from generate.agents.maximum_likelihood import Bounds, diverse_starts, estimate_parameters
from generate.agents.recorded import recorded
from generate.contract import AnyEnvironment, Bools, Fit, Fitted, Floats, Ints, Lanes
from generate.environments.two_step import ALIENS, SHIPS, TwoStepSeen, home_planet
from generate.streams import Streams, choose, softmax
from store.settings import Home

AGENT_ID = "two_step_hybrid"

# an inverse temperature of 20 follows a difference of 0.25 in value with odds of 148 to 1
_RANGES = {
    "ship_learning_rate": (0.0, 1.0),
    "alien_learning_rate": (0.0, 1.0),
    "ship_inverse_temperature": (0.0, 20.0),
    "alien_inverse_temperature": (0.0, 20.0),
    "eligibility": (0.0, 1.0),
    "model_based_weight": (0.0, 1.0),
    "perseveration": (-5.0, 5.0),
}
PARAMETERS = tuple(_RANGES)
BOUNDS = Bounds(*(np.array(ends) for ends in zip(*_RANGES.values(), strict=True)))

_N_SCREENED = 4096
_HALVED = [
    PARAMETERS.index(name)
    for name in ("ship_learning_rate", "eligibility", "model_based_weight", "perseveration")
]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """The seven parameters, one entry per parameter vector.

    In the notation of the paper: alpha 1 and 2, beta 1 and 2, lambda, w and p.
    """

    ship_learning_rate: Floats
    alien_learning_rate: Floats
    ship_inverse_temperature: Floats
    alien_inverse_temperature: Floats
    eligibility: Floats
    model_based_weight: Floats
    perseveration: Floats

    def of(self, which: Ints) -> "Hybrid":
        """Return the entries at ``which``."""
        return Hybrid(*(getattr(self, name)[which] for name in PARAMETERS))


@dataclass(frozen=True, slots=True)
class Trials:
    """Completed trials of one participant, in order.

    Attributes
    ----------
    ships, aliens
        Indices of the spaceship taken and of the alien traded with.
    rewards
        1 for treasure, 0 for junk.
    """

    ships: Ints
    aliens: Ints
    rewards: Floats


@dataclass(frozen=True, slots=True)
class Values:
    """What a player has learned: model-free values of spaceships (... x 2) and aliens (... x 4)."""

    ships: Floats
    aliens: Floats


@dataclass(frozen=True, slots=True)
class Player:
    """Parameters of who plays each episode, and what was learned in it."""

    parameters: Hybrid
    values: Values


@dataclass(frozen=True, slots=True)
class HybridPolicy:
    """The hybrid with given parameter sets; values start at 0 in every episode."""

    parameters: Hybrid
    common_probability: float

    def start(self, lanes: Lanes) -> Player:
        """Take the parameters of each replica, and know nothing else."""
        return Player(
            self.parameters.of(lanes.replicas),
            Values(np.zeros((len(lanes), len(SHIPS))), np.zeros((len(lanes), len(ALIENS)))),
        )

    def act(self, memory: Player, seen: TwoStepSeen, streams: Streams) -> tuple[Player, Ints]:
        """Learn from a trial that was just completed, and choose a spaceship or an alien."""
        memory = replace(memory, values=self._learned(memory, seen))
        return memory, choose(self.probabilities(memory, seen), streams.uniform(1)[:, 0])

    def probabilities(self, player: Player, seen: TwoStepSeen) -> Floats:
        """Return the probability of each action with the values as they are: episodes x 6."""
        parameters, values = player.parameters, player.values
        is_repeat = seen.last_ship[:, None] == np.arange(len(SHIPS))
        for_ships = _ship_logits(parameters, values, is_repeat, self.common_probability)
        for_aliens = parameters.alien_inverse_temperature[:, None] * values.aliens
        return softmax(np.concatenate([for_ships, for_aliens], axis=1), seen.legal)

    def _learned(self, player: Player, seen: TwoStepSeen) -> Values:
        # the aliens of a trial are chosen with what was learned before it
        rows = np.flatnonzero((seen.stage == 0) & (seen.last_ship >= 0))
        if not rows.size:
            return player.values
        ships, aliens = player.values.ships.copy(), player.values.aliens.copy()
        ship, alien = (rows, seen.last_ship[rows]), (rows, seen.last_alien[rows])
        ships[ship], aliens[alien] = _updated(
            player.parameters.of(rows), ships[ship], aliens[alien], seen.last_reward[rows]
        )
        return Values(ships, aliens)


class TwoStepHybrid(BaseModel):
    """The hybrid with the recorded parameters of every participant, each of whom plays every episode.

    Attributes
    ----------
    common_probability
        Of reaching the planet that a spaceship is named for, as the player believes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    common_probability: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy with the parameters in the manifest of fits; nothing is fitted here."""
        record = recorded(AGENT_ID)
        return Fitted(
            policy=HybridPolicy(
                Hybrid(*(record.parameters[name] for name in PARAMETERS)), self.common_probability
            ),
            replicas=record.participants,
            fits=record.fits,
            training_set=record.training_set,
        )

    def estimate(self, lake: Home) -> tuple[list[Fit], str]:
        """Fit every human participant of CogBench; missed trials are left out.

        Raises
        ------
        SourceUnavailable
            If the lake does not hold the participants' choices.
        """
        trials = participants(lake)
        fits = [
            replace(fit, participant_id=participant)
            for participant, own in trials.items()
            for fit in fit_participant(own, self.common_probability)
        ]
        n_choices = sum(2 * own.ships.size for own in trials.values())
        return fits, f"cogbench human.csv: {len(trials)} participants, {n_choices} choices"


def negative_log_likelihood(parameters: Hybrid, trials: Trials, common_probability: float) -> Floats:
    """Return the negative log-likelihood, in nats, of a participant's choices for each parameter vector."""
    before = _histories(parameters, trials)
    rows = np.arange(trials.ships.size)
    is_repeat = np.zeros((rows.size, 1, len(SHIPS)), dtype=np.bool_)
    is_repeat[rows[1:], 0, trials.ships[:-1]] = True
    for_ships = _ship_logits(parameters, before, is_repeat, common_probability)
    for_ship = for_ships[rows, :, trials.ships] - for_ships[rows, :, 1 - trials.ships]
    # the two aliens of planet 0 are 0 and 1, those of planet 1 are 2 and 3
    neighbours = 4 * home_planet(trials.aliens) + 1 - trials.aliens
    for_alien = parameters.alien_inverse_temperature * (
        before.aliens[rows, :, trials.aliens] - before.aliens[rows, :, neighbours]
    )
    # of two options, one is chosen with probability 1 / (1 + exp(-difference))
    total: Floats = (np.logaddexp(0.0, -for_ship) + np.logaddexp(0.0, -for_alien)).sum(axis=0)
    return total


def fit_participant(trials: Trials, common_probability: float) -> list[Fit]:
    """Return the maximum-likelihood parameters of one participant, and the negative log-likelihood in nats.

    Of an even spread of points, the best in each of 16 parts of the parameter space are where the descents
    start.
    """

    def objective(vectors: Floats) -> Floats:
        return negative_log_likelihood(Hybrid(*vectors.T), trials, common_probability)

    starts = diverse_starts(objective, BOUNDS, BOUNDS.spread(_N_SCREENED), _HALVED)
    found = estimate_parameters(objective, BOUNDS, starts)
    return found.fits(PARAMETERS, 2 * trials.ships.size)


def participants(lake: Home) -> dict[str, Trials]:
    """Return the completed trials of the human participants of CogBench, by participant."""
    (steps,) = human_rows(lake, ("steps",), source_id="cogbench", model_id="human", mode_id="two_step")
    decisions = pl.DataFrame(steps).filter(pl.col("status") == "ok")
    ships, aliens = decisions.filter(pl.col("stage") == 0), decisions.filter(pl.col("stage") == 1)
    completed = ships.select("episode_id", "trial", ship=pl.col("action")).join(
        aliens.select("episode_id", "trial", "reward", alien=pl.col("action")), on=["episode_id", "trial"]
    )
    by_participant = completed.sort(pl.col("episode_id").cast(pl.Int64), "trial").partition_by(
        "episode_id", as_dict=True, maintain_order=True
    )
    return {
        str(participant): Trials(
            ships=np.array([SHIPS.index(ship) for ship in rows["ship"]]),
            aliens=np.array([ALIENS.index(alien) for alien in rows["alien"]]),
            rewards=rows["reward"].to_numpy(),
        )
        for (participant,), rows in by_participant.items()
    }


def _histories(parameters: Hybrid, trials: Trials) -> Values:
    """Return the values before each trial, for every parameter vector: trials x vectors x options."""
    n_trials, n = trials.ships.size, parameters.eligibility.size
    # options come first while learning, so that the values of one are next to each other
    ships, aliens = np.zeros((len(SHIPS), n)), np.zeros((len(ALIENS), n))
    ships_before, aliens_before = np.empty((n_trials, len(SHIPS), n)), np.empty((n_trials, len(ALIENS), n))
    choices = zip(trials.ships.tolist(), trials.aliens.tolist(), trials.rewards.tolist(), strict=True)
    for trial, (ship, alien, reward) in enumerate(choices):
        ships_before[trial], aliens_before[trial] = ships, aliens
        ships[ship], aliens[alien] = _updated(parameters, ships[ship], aliens[alien], reward)
    return Values(ships_before.swapaxes(1, 2), aliens_before.swapaxes(1, 2))


def _updated(
    parameters: Hybrid, ship: Floats, alien: Floats, reward: Floats | float
) -> tuple[Floats, Floats]:
    """Return the values of the spaceship and the alien of a trial after it."""
    error = reward - alien
    # the spaceship learns from the value that the alien had, and from the reward as far as its trace lasts
    ship_after = ship + parameters.ship_learning_rate * (alien - ship + parameters.eligibility * error)
    return ship_after, alien + parameters.alien_learning_rate * error


def _ship_logits(parameters: Hybrid, values: Values, is_repeat: Bools, common_probability: float) -> Floats:
    """Return the logits of the spaceships: ... x vectors x 2, as ``values`` and ``is_repeat`` are shaped."""
    best_of_first = values.aliens[..., :2].max(axis=-1, keepdims=True)
    best_of_second = values.aliens[..., 2:].max(axis=-1, keepdims=True)
    to_first = np.array([common_probability, 1.0 - common_probability])
    model_based = to_first * best_of_first + (1.0 - to_first) * best_of_second
    weight = parameters.model_based_weight[:, None]
    net = weight * model_based + (1.0 - weight) * values.ships
    logits: Floats = parameters.ship_inverse_temperature[:, None] * (
        net + parameters.perseveration[:, None] * is_repeat
    )
    return logits
