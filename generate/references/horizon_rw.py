"""Horizon games: Rescorla-Wagner with a learning rate, an inverse temperature and an initial value.

The model and its likelihood are those of :mod:`generate.agents.rescorla_wagner`, where agents earn rewards
with it; here it predicts what people choose. Values start anew in every game and follow all that was seen of
the game, forced choices too; only free choices are predicted.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import log_softmax

from generate.agents.rescorla_wagner import fit_games
from generate.contract import Bools, Estimate, Exposure, Floats, Ints, Training
from generate.references.decoding import histories, with_game
from store.errors import InvalidSource

_PREDICTED = pl.Schema({"item_id": pl.String(), "logprobs_nats": pl.List(pl.Float64)})
_GAME = ["participant_id", "game"]
_N_ARMS = 2


@dataclass(frozen=True, slots=True)
class Games:
    """Games as :func:`generate.agents.rescorla_wagner.fit_games` takes them, each array games x trials."""

    choices: Ints
    rewards: Floats
    is_forced: Bools


class HorizonRescorlaWagner(BaseModel):
    """One set of the three parameters for all participants that the fit may learn from.

    ``facts_json`` of an item holds ``game``, its number in the participant's session, and ``history``: what
    was seen of the game so far, as pairs of arm (position among the legal options) and reward.

    Attributes
    ----------
    reward_unit
        Reward that counts as 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reward_unit: Annotated[float, Field(gt=0)]

    @property
    def exposure(self) -> Exposure:
        """Fitted across folds, or to training participants where there are no folds."""
        return "training_participants_or_other_folds"

    def fit(self, training: Training) -> Estimate:
        """Find the parameters that make the free choices likeliest.

        Returns
        -------
        Estimate
            ``parameters`` is an array: learning rate, inverse temperature, initial value; None without free
            choices.

        Raises
        ------
        InvalidSource
            If an item is not one of a Horizon game, or two items of a game contradict each other.
        """
        rows = _with_two_arms(training.trials)
        played = games(rows)
        n_participants = rows["participant_id"].n_unique()
        words = f"{len(played.choices)} games of {n_participants} participants"
        if played.is_forced.all():
            return Estimate(None, (), words)
        fits = fit_games(played.choices, played.rewards, played.is_forced, reward_unit=self.reward_unit)
        return Estimate(np.array([fit.value for fit in fits[:3]]), fits, words)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of every arm, from the game's own history alone."""
        if estimate.parameters is None or not trials.height:
            return pl.DataFrame(schema=_PREDICTED)
        rows = _with_two_arms(trials).unique("item_id", maintain_order=True)
        rate, inverse_temperature, initial_value = estimate.parameters
        values = np.full((rows.height, _N_ARMS), initial_value)
        arms, rewards = histories(rows)
        for arm, reward in zip(arms.T, rewards.T, strict=True):
            (seen,) = np.nonzero(arm >= 0)
            place = seen, arm[seen]
            values[place] += rate * (reward[seen] / self.reward_unit - values[place])
        logprobs = log_softmax(inverse_temperature * values, axis=1)
        return pl.DataFrame({"item_id": rows["item_id"], "logprobs_nats": logprobs.tolist()}, _PREDICTED)


def games(rows: pl.DataFrame) -> Games:
    """Put the choices of each game together: the history of its last item holds all but the last one.

    Parameters
    ----------
    rows
        Columns ``item_id``, ``participant_id``, ``game``, ``history`` and ``choice``.

    Raises
    ------
    InvalidSource
        If a free choice is not what the history of a later item says.
    """
    numbered = rows.with_columns(
        number=pl.struct(_GAME).rank("dense").cast(pl.Int64) - 1,
        trial=pl.col("history").list.len().cast(pl.Int64),
    )
    longest = numbered.sort("number", "trial").unique("number", keep="last", maintain_order=True)
    arms, rewards = histories(longest)
    # the last choice comes after the longest history
    choices = np.pad(arms, ((0, 0), (0, 1)), constant_values=-1)
    is_forced = np.ones(choices.shape, dtype=np.bool_)
    free = numbered.filter(pl.col("choice") >= 0)
    place = free["number"].to_numpy(), free["trial"].to_numpy()
    chosen, later = free["choice"].to_numpy(), choices[place]
    (contradicted,) = np.nonzero((later >= 0) & (later != chosen))
    if contradicted.size:
        raise InvalidSource(
            f"expected each response again in the history of later items of its game, found "
            f"{contradicted.size} others, first {free['item_id'][int(contradicted[0])]}"
        )
    choices[place], is_forced[place] = chosen, False
    return Games(choices, np.pad(rewards, ((0, 0), (0, 1))), is_forced)


def _with_two_arms(trials: pl.DataFrame) -> pl.DataFrame:
    rows = with_game(trials)
    others = rows.filter(pl.col("legal_options").list.len() != _N_ARMS)
    if others.height:
        raise InvalidSource(
            f"expected {_N_ARMS} arms, found another number {others.height} times, first "
            f"{others['item_id'][0]}"
        )
    return rows
