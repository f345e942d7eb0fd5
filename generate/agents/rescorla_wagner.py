"""Rescorla-Wagner learners: with two learning rates, and with an initial value of their own.

Parameters are chosen in training environments; those of the second kind can be fitted to people as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import logsumexp

from generate.agents.human_data import human_rows
from generate.agents.maximum_likelihood import Bounds, estimate_parameters
from generate.agents.recorded import recorded
from generate.agents.value_learning import (
    Axis,
    InverseTemperatures,
    LearningRates,
    Parameters,
    ValueLearner,
    select,
)
from generate.contract import AnyEnvironment, Bools, Fit, Fitted, Floats, Ints
from store.errors import SourceUnavailable
from store.settings import Home

FITTED_AGENT_ID = "horizon_rw"

_PARAMETERS = ("learning_rate", "inverse_temperature", "initial_value")
_BOUNDS = Bounds(lower=np.zeros(3), upper=np.array([1.0, 100.0, 1.0]))
_N_STARTS = 16


class TwoRates(BaseModel):
    """The learner with separate learning rates for good and bad news that earns most.

    After Lefebvre et al. (2017), as Coda-Forno et al. (2024) implement it: the first rate applies where the
    reward exceeds the value, and each context has values of its own.

    Attributes
    ----------
    learning_rate_positive, learning_rate_negative, inverse_temperature
        The grid.
    initial_value
        Of every arm.
    selection_seed
        Of the draws in training, which all points of the grid share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate_positive: LearningRates
    learning_rate_negative: LearningRates
    inverse_temperature: InverseTemperatures
    initial_value: float
    selection_seed: Annotated[int, Field(strict=True, ge=0)]

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the learner that earns most in the training environments."""
        grid = {
            "learning_rate_positive": self.learning_rate_positive,
            "learning_rate_negative": self.learning_rate_negative,
            "inverse_temperature": self.inverse_temperature,
        }

        def learner(parameters: Parameters) -> ValueLearner:
            return ValueLearner(
                learning_rate_positive=parameters["learning_rate_positive"],
                learning_rate_negative=parameters["learning_rate_negative"],
                inverse_temperature=parameters["inverse_temperature"],
                initial_value=np.full_like(parameters["learning_rate_positive"], self.initial_value),
                n_arms=len(environment.actions),
            )

        selected = select(environment, training_seeds, grid, learner, self.selection_seed)
        return Fitted(learner(selected.parameters), fits=selected.fits, training_set=selected.training_set)


class ThreeParameters(BaseModel):
    """The learner with a learning rate, an inverse temperature and an initial value that earns most.

    Attributes
    ----------
    learning_rate, inverse_temperature, initial_value
        The grid; values of arms are in units of ``reward_unit``.
    reward_unit
        Reward that counts as 1.
    selection_seed
        Of the draws in training, which all points of the grid share.
    is_greedy
        Play the selected parameters by the highest value, not by the softmax that they were selected with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate: LearningRates
    inverse_temperature: InverseTemperatures
    initial_value: Axis
    reward_unit: Annotated[float, Field(gt=0)]
    selection_seed: Annotated[int, Field(strict=True, ge=0)]
    is_greedy: bool = False

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the learner that earns most in the training environments."""
        grid = dict(
            zip(_PARAMETERS, (self.learning_rate, self.inverse_temperature, self.initial_value), strict=True)
        )

        def learner(parameters: Parameters) -> ValueLearner:
            return ValueLearner(
                learning_rate_positive=parameters["learning_rate"],
                learning_rate_negative=parameters["learning_rate"],
                inverse_temperature=parameters["inverse_temperature"],
                initial_value=parameters["initial_value"],
                n_arms=len(environment.actions),
                reward_unit=self.reward_unit,
            )

        selected = select(environment, training_seeds, grid, learner, self.selection_seed)
        policy = replace(learner(selected.parameters), is_greedy=self.is_greedy)
        return Fitted(policy, fits=selected.fits, training_set=selected.training_set)


class FittedThreeParameters(BaseModel):
    """The learner of :class:`ThreeParameters` with parameters fitted to people, each set playing every game.

    CogBench's file of human games names games and not participants, so one set is fitted to all of them.

    Attributes
    ----------
    reward_unit
        Reward that counts as 1.
    is_greedy
        Choose the arm with the higher value, not by the softmax.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reward_unit: Annotated[float, Field(gt=0)]
    is_greedy: bool = False

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy with the parameters in the manifest of fits; nothing is fitted here."""
        record = recorded(FITTED_AGENT_ID)
        rate, inverse_temperature, initial_value = (record.parameters[name] for name in _PARAMETERS)
        policy = ValueLearner(
            learning_rate_positive=rate,
            learning_rate_negative=rate,
            inverse_temperature=inverse_temperature,
            initial_value=initial_value,
            n_arms=len(environment.actions),
            reward_unit=self.reward_unit,
            is_greedy=self.is_greedy,
        )
        return Fitted(policy, record.participants, record.fits, record.training_set)

    def estimate(self, lake: Home) -> tuple[list[Fit], str]:
        """Fit the human games of CogBench's Horizon task.

        Raises
        ------
        SourceUnavailable
            If the lake does not hold them.
        """
        try:
            (steps,) = human_rows(
                lake, ("steps",), source_id="cogbench", model_id="human", mode_id="horizon_autonomous"
            )
        except SourceUnavailable as error:
            raise SourceUnavailable(
                f"{error}; Experiments/HorizonTask/data/human.csv is not among the pinned files of cogbench: "
                "pin it in manifests/sources.toml before"
            ) from error
        games = (
            pl.DataFrame(steps)
            .with_columns(
                choice=pl.when(pl.col("status") == "ok").then(pl.col("action").cast(pl.Int64, strict=False))
            )
            .sort("episode_id", "trial")
        )
        choices = _by_game(games, "choice", -1)
        fits = fit_games(
            choices.astype(np.int64),
            _by_game(games, "reward", 0.0),
            _by_game(games, "is_forced", False).astype(np.bool_),
            reward_unit=self.reward_unit,
            participant_id="all",
        )
        return list(fits), f"cogbench human.csv: {len(choices)} games"


def _by_game(games: pl.DataFrame, column: str, missing: float) -> Floats:
    """Return one column as games x trials."""
    table = games.pivot(on="trial", index="episode_id", values=column, sort_columns=True)
    cells = table.drop("episode_id").cast(pl.Float64).fill_null(missing)
    trials = sorted(cells.columns, key=int)
    return cells.select(trials).to_numpy()


def fit_games(
    choices: Ints, rewards: Floats, is_forced: Bools, *, reward_unit: float, participant_id: str | None = None
) -> tuple[Fit, ...]:
    """Find the three parameters that make the free choices of some games likeliest.

    Values start anew in each game and follow forced choices too; only free ones count.

    Parameters
    ----------
    choices
        Chosen arm, games x trials; -1 after the end of a game.
    rewards
        What it paid; anything after the end of a game.
    is_forced
        Trials on which the arm was given.
    reward_unit
        Reward that counts as 1.
    participant_id
        Who played.

    Returns
    -------
    tuple of Fit
        ``learning_rate`` in [0, 1], ``inverse_temperature`` in [0, 100], ``initial_value`` in [0, 1] and
        ``negative_log_likelihood`` of all free choices in nats; ``n_training`` counts these.

    Raises
    ------
    ValueError
        If the arrays differ in shape or no choice is free.
    """
    if not choices.shape == rewards.shape == is_forced.shape:
        raise ValueError(
            f"expected arrays of one shape, found {choices.shape}, {rewards.shape} and {is_forced.shape}"
        )
    n_free = int(((choices >= 0) & ~is_forced).sum())
    if not n_free:
        raise ValueError("expected at least one free choice, found none")

    def objective(parameters: Floats) -> Floats:
        return games_nll(parameters, choices, rewards / reward_unit, is_forced)

    estimate = estimate_parameters(objective, _BOUNDS, _BOUNDS.spread(_N_STARTS))
    return tuple(estimate.fits(_PARAMETERS, n_free, participant_id))


def games_nll(parameters: Floats, choices: Ints, rewards: Floats, is_forced: Bools) -> Floats:
    """Return the negative log-likelihood of the free choices in nats, once per parameter set.

    ``parameters`` has the columns learning rate, inverse temperature and initial value; the rest is as for
    :func:`fit_games`, with rewards in the learner's unit.
    """
    rate, inverse_temperature, initial_value = parameters.T
    n_sets, n_games, n_arms = len(parameters), len(choices), max(2, int(choices.max()) + 1)
    values = np.broadcast_to(initial_value[:, None, None], (n_sets, n_games, n_arms)).copy()
    log_likelihood = np.zeros(n_sets)
    for choice, reward, forced in zip(choices.T, rewards.T, is_forced.T, strict=True):
        (played,) = np.nonzero(choice >= 0)
        (free,) = np.nonzero((choice >= 0) & ~forced)
        logits = inverse_temperature[:, None, None] * values[:, free]
        chosen = logits[:, np.arange(free.size), choice[free]]
        log_likelihood += (chosen - logsumexp(logits, axis=2)).sum(axis=1)
        arm = slice(None), played, choice[played]
        values[arm] += rate[:, None] * (reward[played] - values[arm])
    return -log_likelihood
