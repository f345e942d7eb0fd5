"""Card sorting: the sequential learning model predicts which key card a person chooses.

The model is that of :mod:`generate.agents.sequential_learning`, in its three-parameter form (Bishara et al.
2010) with a lapse. Whoever is predicted has no trials to fit: one set of parameters, pooled over all training
participants by maximum likelihood, stands for everybody. What is a person's own is where their attention is,
which follows from the cards that they have sorted so far and from what was said about them.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.agents.maximum_likelihood import diverse_starts, estimate_parameters
from generate.agents.sequential_learning import (
    BOUNDS,
    PARAMETERS,
    Learners,
    Sorts,
    attention_shares,
    even_attention,
    lapse_rate,
    shifted_attention,
)
from generate.contract import Bools, Estimate, Exposure, Fit, Floats, Ints, Training
from generate.environments.wcst import DIMENSIONS, KEY_CARDS
from generate.references.decoding import require, with_choice, with_facts
from store.errors import EngineFailed, InvalidSource

_FACTS = pl.Struct({"trial": pl.Int64, "matches": pl.List(pl.Int64)})

# points of an even spread, of which the best in each of 8 parts of the box are where the descents start; they
# are tried a few at a time, since each is a path of attention per participant
_N_SCREENED = 128
_N_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Sessions:
    """Cards that several people sorted; sessions that are shorter than the longest end with empty trials.

    Attributes
    ----------
    rows
        Row of the trials that each entry comes from: participants x trials, -1 where there is none.
    cards
        Key card, from 0, that the stimulus matches in each dimension: participants x trials x 3.
    choices
        Key card chosen, from 0; -1 where there is none: participants x trials.
    is_right, is_told
        Whether the choice was right, and whether a choice and what is right are known: participants x trials.
    """

    rows: Ints
    cards: Ints
    choices: Ints
    is_right: Bools
    is_told: Bools


@dataclass(frozen=True, slots=True)
class Sorter:
    """The parameters of everybody."""

    learner: Learners
    lapse: float


class SequentialLearningPrediction(BaseModel):
    """Attention that moves with what was said about a person's own choices, at pooled parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def exposure(self) -> Exposure:
        """Parameters come from training participants alone."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Return the parameters with which all training participants together are likeliest.

        Raises
        ------
        EngineFailed
            If no training participant chose a card.
        """
        sessions = as_sessions(training.trials)
        n_choices = int((sessions.choices >= 0).sum())
        if not n_choices:
            raise EngineFailed("expected choices of training participants, found none")
        # a lapse that nobody made may still be made by somebody else
        lapse = max(lapse_rate([_chosen(sessions)]), 1 / n_choices)

        def objective(vectors: Floats) -> Floats:
            parts = np.array_split(vectors, max(1, len(vectors) // _N_AT_ONCE))
            return np.concatenate(
                [negative_log_likelihood(Learners(*part.T), sessions, lapse) for part in parts]
            )

        starts = diverse_starts(objective, BOUNDS, BOUNDS.spread(_N_SCREENED), range(len(PARAMETERS)))
        found = estimate_parameters(objective, BOUNDS, starts)
        return Estimate(
            Sorter(Learners(*found.values[:, None]), lapse),
            (*found.fits(PARAMETERS, n_choices), Fit("lapse", lapse, n_training=n_choices)),
            f"pooled: {len(sessions.choices)} training participants, {n_choices} choices",
        )

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of each key card, from what was sorted before it alone."""
        sorter, sessions = estimate.parameters, as_sessions(trials)
        share = attention_shares(
            attention_before(sorter.learner, sessions), sorter.learner.decision_consistency
        )
        is_match = sessions.cards[..., None] == np.arange(len(KEY_CARDS))
        # trials x participants x 1 x dimensions: one set of parameters
        attended = (share[:, :, 0, :, None] * is_match.swapaxes(0, 1)).sum(axis=2)
        probabilities = (1.0 - sorter.lapse) * attended + sorter.lapse / len(KEY_CARDS)
        participant, trial = np.nonzero(sessions.rows >= 0)
        rows = sessions.rows[participant, trial]
        logs = np.empty((len(rows), len(KEY_CARDS)))
        logs[rows] = np.log(probabilities[trial, participant])
        return trials.select("item_id").with_columns(
            logprobs_nats=pl.Series(logs.tolist(), dtype=pl.List(pl.Float64))
        )


def as_sessions(trials: pl.DataFrame) -> Sessions:
    """Return the trials by participant, in the order in which they were seen.

    Raises
    ------
    InvalidSource
        If a trial has no facts of a card, or other options than the four key cards.
    """
    found = with_choice(with_facts(trials, _FACTS)).with_row_index("row")
    require(found, "trial", "matches")
    _require_key_cards(found)
    is_told = (pl.col("choice") >= 0) & pl.col("credited_options").is_not_null()
    ordered = found.sort("participant_id", "trial").select(
        "row",
        "matches",
        "choice",
        participant=pl.col("participant_id").rle_id().cast(pl.Int64),
        place=pl.int_range(pl.len()).over("participant_id"),
        is_told=is_told,
        is_right=is_told & pl.col("credited_options").list.contains(pl.col("response")).fill_null(False),
    )
    participant, place = ordered["participant"].to_numpy(), ordered["place"].to_numpy()
    shape = (int(participant.max(initial=-1)) + 1, int(place.max(initial=-1)) + 1)
    rows, choices = np.full(shape, -1), np.full(shape, -1)
    cards = np.full((*shape, len(DIMENSIONS)), -1)
    is_right, is_told_of = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    at = participant, place
    rows[at], choices[at] = ordered["row"].to_numpy(), ordered["choice"].to_numpy()
    cards[at] = np.array(ordered["matches"].to_list()).reshape(-1, len(DIMENSIONS)) - 1
    is_right[at], is_told_of[at] = ordered["is_right"].to_numpy(), ordered["is_told"].to_numpy()
    return Sessions(rows, cards, choices, is_right, is_told_of)


def attention_before(learners: Learners, sessions: Sessions) -> Floats:
    """Return the attention at each trial, before it is answered.

    Returns
    -------
    Floats
        Trials x participants x parameter vectors x dimensions.
    """
    n_participants, n_trials = sessions.choices.shape
    n_vectors = learners.reward_rate.size
    before = np.empty((n_trials, n_participants, n_vectors, len(DIMENSIONS)))
    attention = even_attention(n_participants * n_vectors)
    is_match = sessions.cards == sessions.choices[..., None]
    for trial in range(n_trials):
        before[trial] = attention.reshape(before[trial].shape)
        is_right = sessions.is_right[:, trial]
        rates = np.where(is_right[:, None], learners.reward_rate, learners.punishment_rate)
        is_consistent = is_match[:, trial] == is_right[:, None]
        moved = shifted_attention(attention, np.repeat(is_consistent, n_vectors, axis=0), rates.ravel())
        # nobody learns from a trial that they let pass
        attention = np.where(np.repeat(sessions.is_told[:, trial], n_vectors)[:, None], moved, attention)
    return before


def negative_log_likelihood(learners: Learners, sessions: Sessions, lapse: float) -> Floats:
    """Return the negative log-likelihood, in nats, of all choices for each parameter vector."""
    share = attention_shares(attention_before(learners, sessions), learners.decision_consistency)
    is_match = (sessions.cards == sessions.choices[..., None]).swapaxes(0, 1)
    attended = (share * is_match[:, :, None, :]).sum(axis=3)
    logs = np.log((1.0 - lapse) * attended + lapse / len(KEY_CARDS))
    is_chosen = (sessions.choices >= 0).T
    total: Floats = -(logs * is_chosen[:, :, None]).sum(axis=(0, 1))
    return total


def _chosen(sessions: Sessions) -> Sorts:
    """Return all choices, whoever made them."""
    is_chosen = sessions.choices >= 0
    return Sorts(sessions.cards[is_chosen], sessions.choices[is_chosen], sessions.is_right[is_chosen])


def _require_key_cards(trials: pl.DataFrame) -> None:
    others = trials.filter(pl.col("legal_options") != list(KEY_CARDS))
    if others.height:
        raise InvalidSource(
            f"expected the key cards {', '.join(KEY_CARDS)} as options, found {others.height} trials with "
            f"others, first {others['item_id'][0]}"
        )
