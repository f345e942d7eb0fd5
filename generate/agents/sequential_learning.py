"""Sequential learning of where to attend in card sorting, fitted to human participants.

Source: Bishara, Kruschke, Stout, Bechara, McCabe & Busemeyer (2010), Journal of Mathematical Psychology 54,
5-13, in its three-parameter form (reward rate, punishment rate, decision consistency; the focus of attention
is 1), which is the one in common use. Attention to the three dimensions starts even. Feedback moves it by
the reward or punishment rate to the dimensions that are consistent with it, in proportion to the attention
they have. A card is chosen with the share of the attention, raised to the decision consistency, that its
matching dimensions have.

Two additions make every choice possible: attention never falls below a floor, since none could grow again
from 0; and with a small probability, the same for all participants, the choice is a lapse and any card as
likely as another, since people sometimes choose a card that matches in nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.agents.human_data import human_rows
from generate.agents.maximum_likelihood import Bounds, diverse_starts, estimate_parameters
from generate.agents.recorded import recorded
from generate.contract import AnyEnvironment, Bools, Fit, Fitted, Floats, Ints, Lanes
from generate.environments.wcst import DIMENSIONS, KEY_CARDS, CardsSeen
from generate.streams import Streams, choose
from store.settings import Home

AGENT_ID = "wcst_sequential_learning"

_RANGES = {
    "reward_rate": (0.0, 1.0),
    "punishment_rate": (0.0, 1.0),
    "decision_consistency": (0.01, 5.0),
}
PARAMETERS = tuple(_RANGES)
BOUNDS = Bounds(*(np.array(ends) for ends in zip(*_RANGES.values(), strict=True)))

_LEAST_ATTENTION = 1e-4
_N_SCREENED = 512

_FACTS = pl.Struct({"trial": pl.Int64, "matches": pl.List(pl.Int64)})


@dataclass(frozen=True, slots=True)
class Learners:
    """Parameters, one entry per parameter vector; in the paper's notation r, p and d."""

    reward_rate: Floats
    punishment_rate: Floats
    decision_consistency: Floats

    def of(self, which: Ints) -> "Learners":
        """Return the entries at ``which``."""
        return Learners(*(getattr(self, name)[which] for name in PARAMETERS))


@dataclass(frozen=True, slots=True)
class Sorts:
    """Cards that one participant sorted, in order.

    Attributes
    ----------
    cards
        Key card, from 0, that the stimulus matches in each dimension: trials x 3.
    choices
        Key card chosen, from 0.
    is_right
        Whether that was right.
    """

    cards: Ints
    choices: Ints
    is_right: Bools


@dataclass(frozen=True, slots=True)
class Sorter:
    """Who plays each episode, and where the attention is: episodes x 3."""

    parameters: Learners
    attention: Floats


@dataclass(frozen=True, slots=True)
class SequentialLearningPolicy:
    """Sorts as one of the participants, drawn for each episode from the episode's own stream.

    Attributes
    ----------
    parameters
        Of every participant.
    lapse
        Probability that a choice has nothing to do with attention.
    """

    parameters: Learners
    lapse: float

    def start(self, lanes: Lanes) -> None:
        """Leave open who sorts, since no random numbers are at hand before the first card."""

    def act(self, memory: Sorter | None, seen: CardsSeen, streams: Streams) -> tuple[Sorter, Ints]:
        """Learn from what was said about the last choice, and choose a key card."""
        if memory is None:
            n_participants = self.parameters.reward_rate.size
            who = np.floor(streams.uniform(1)[:, 0] * n_participants).astype(np.int64)
            memory = Sorter(self.parameters.of(who), even_attention(who.size))
        memory = _learned(memory, seen)
        return memory, choose(self.probabilities(memory, seen), streams.uniform(1)[:, 0])

    def probabilities(self, sorter: Sorter, seen: CardsSeen) -> Floats:
        """Return the probability of each key card with the attention as it is: episodes x 4."""
        is_match = seen.cards[:, :, None] == np.arange(len(KEY_CARDS))
        share = attention_shares(sorter.attention, sorter.parameters.decision_consistency)
        attended: Floats = (share[:, :, None] * is_match).sum(axis=1)
        return ((1.0 - self.lapse) * attended + self.lapse / len(KEY_CARDS)) * seen.legal


class SequentialLearning(BaseModel):
    """The model with the recorded parameters of participants who sorted other cards than those dealt here."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy with the parameters in the manifest of fits; nothing is fitted here."""
        record = recorded(AGENT_ID)
        return Fitted(
            policy=SequentialLearningPolicy(
                parameters=Learners(*(record.parameters[name] for name in PARAMETERS)),
                lapse=float(record.parameters["lapse"][0]),
            ),
            fits=record.fits,
            training_set=record.training_set,
        )

    def estimate(self, lake: Home) -> tuple[list[Fit], str]:
        """Fit every control participant of ccaudek/wcst-prl-ts; trials without a response are left out.

        Raises
        ------
        SourceUnavailable
            If the lake does not hold the participants' choices.
        """
        samples = participants(lake)
        lapse = lapse_rate(list(samples.values()))
        fits = [
            # numbered in the order of their ids, which are names of the study's files
            replace(fit, participant_id=str(number))
            for number, sorts in enumerate(samples.values(), start=1)
            for fit in fit_participant(sorts, lapse)
        ]
        n_choices = sum(sorts.choices.size for sorts in samples.values())
        return fits, f"wcst_prl controls: {len(samples)} participants, {n_choices} choices"


def negative_log_likelihood(parameters: Learners, sorts: Sorts, lapse: float) -> Floats:
    """Return the negative log-likelihood, in nats, of a participant's choices for each parameter vector."""
    n_trials, n = sorts.choices.size, parameters.reward_rate.size
    is_match = sorts.cards == sorts.choices[:, None]
    attention, before = even_attention(n), np.empty((n_trials, n, len(DIMENSIONS)))
    rates = {True: parameters.reward_rate, False: parameters.punishment_rate}
    for trial, is_right in enumerate(sorts.is_right.tolist()):
        before[trial] = attention
        attention = shifted_attention(attention, is_match[trial] == is_right, rates[is_right])
    share = attention_shares(before, parameters.decision_consistency)
    attended = (share * is_match[:, None, :]).sum(axis=2)
    total: Floats = -np.log((1.0 - lapse) * attended + lapse / len(KEY_CARDS)).sum(axis=0)
    return total


def lapse_rate(samples: Sequence[Sorts]) -> float:
    """Return the lapse with which cards that match in nothing are expected as often as they were chosen."""
    n_chosen, expected_share = 0, 0.0
    for sorts in samples:
        n_chosen += int((sorts.cards != sorts.choices[:, None]).all(axis=1).sum())
        is_unmatched = (sorts.cards[:, :, None] != np.arange(len(KEY_CARDS))).all(axis=1)
        expected_share += float(is_unmatched.mean(axis=1).sum())
    return n_chosen / expected_share


def fit_participant(sorts: Sorts, lapse: float) -> list[Fit]:
    """Return the maximum-likelihood parameters of one participant, and the negative log-likelihood in nats.

    Of an even spread of points, the best in each of 8 parts of the parameter space are where the descents
    start.
    """

    def objective(vectors: Floats) -> Floats:
        return negative_log_likelihood(Learners(*vectors.T), sorts, lapse)

    starts = diverse_starts(objective, BOUNDS, BOUNDS.spread(_N_SCREENED), range(len(PARAMETERS)))
    found = estimate_parameters(objective, BOUNDS, starts)
    n_training = sorts.choices.size
    *parameters, loss = found.fits(PARAMETERS, n_training)
    return [*parameters, Fit("lapse", lapse, n_training=n_training), loss]


def participants(lake: Home) -> dict[str, Sorts]:
    """Return the cards that the control participants sorted, by participant."""
    items, responses = human_rows(
        lake,
        ("items", "human_responses"),
        source_id="wcst_prl",
        model_id="controls",
        mode_id="wcst_prediction_prl",
    )
    sorted_cards = (
        pl.DataFrame(items)
        .select(
            "item_id",
            "participant_id",
            pl.col("credited_options").list.first().alias("right"),
            pl.col("facts_json").str.json_decode(_FACTS).struct.unnest(),
        )
        .join(pl.DataFrame(responses).select("item_id", "response"), on="item_id")
        .drop_nulls("right")
        .sort("participant_id", "trial")
    )
    return {
        str(participant): Sorts(
            cards=np.array(rows["matches"].to_list()) - 1,
            choices=np.array([KEY_CARDS.index(card) for card in rows["response"]]),
            is_right=(rows["response"] == rows["right"]).to_numpy(),
        )
        for (participant,), rows in sorted_cards.partition_by(
            "participant_id", as_dict=True, maintain_order=True
        ).items()
    }


def even_attention(n: int) -> Floats:
    """Return the attention before the first card: n x 3."""
    return np.full((n, len(DIMENSIONS)), 1.0 / len(DIMENSIONS))


def _learned(sorter: Sorter, seen: CardsSeen) -> Sorter:
    is_right = seen.last_is_right
    rates = np.where(is_right, sorter.parameters.reward_rate, sorter.parameters.punishment_rate)
    is_consistent = (seen.last_cards == seen.last_action[:, None]) == is_right[:, None]
    # before the first choice there is nothing to learn from
    rates = np.where(seen.last_action >= 0, rates, 0.0)
    return replace(sorter, attention=shifted_attention(sorter.attention, is_consistent, rates))


def shifted_attention(attention: Floats, is_consistent: Bools, rates: Floats) -> Floats:
    """Move attention (n x 3) to the dimensions that are consistent with what was said.

    A choice that is said to be right is consistent with the dimensions in which it matches, one that is
    said to be wrong with the others.
    """
    signal = attention * is_consistent
    total = signal.sum(axis=1, keepdims=True)
    signal = np.divide(signal, total, out=attention.copy(), where=total > 0)
    moved = np.maximum(attention + rates[:, None] * (signal - attention), _LEAST_ATTENTION)
    shifted: Floats = moved / moved.sum(axis=1, keepdims=True)
    return shifted


def attention_shares(attention: Floats, decision_consistency: Floats) -> Floats:
    """Return the share of each dimension: ... x n x 3."""
    powers = attention ** decision_consistency[:, None]
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares
