"""Hybrid sampling: one small neural network per participant, from what was seen of a game to a response.

The data set behind the published row is not identified, so this has never run on it. What "independent"
means, the layers and the inputs are our reading of its 20 participants, 160 folds and 3,000 updates per fold:
8 folds of each participant's own responses.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import log_softmax

from generate.contract import Estimate, Exposure, Fit, Floats, Training
from generate.references.decoding import histories, with_game
from store.errors import EngineFailed, InvalidSource

_PREDICTED = pl.Schema({"item_id": pl.String(), "logprobs_nats": pl.List(pl.Float64)})

# what is left out of a fold is of one participant: the networks of all others stay the same from fold to fold
_N_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Network:
    """One hidden layer of hyperbolic tangents; a feature is centred and scaled before it.

    Attributes
    ----------
    mean, scale
        Of each feature in the responses that were learned from.
    layers
        Weights from features to hidden units, features x hidden units, and offsets of these; weights from
        hidden units to options, hidden units x options, and offsets of these.
    """

    mean: Floats
    scale: Floats
    layers: tuple[Floats, Floats, Floats, Floats]

    def log_probabilities(self, features: Floats) -> Floats:
        """Return the log-probability of each option: rows x options."""
        hidden_weights, hidden_offsets, weights, offsets = self.layers
        hidden = np.tanh((features - self.mean) / self.scale @ hidden_weights + hidden_offsets)
        logprobs: Floats = log_softmax(hidden @ weights + offsets, axis=1)
        return logprobs


@dataclass(frozen=True, slots=True)
class Responses:
    """What one network learns from, in a form that can be compared: bytes of float64 and int64."""

    features: bytes
    choices: bytes
    n_options: int


class IndependentNetworks(BaseModel):
    """A network for each participant, which learns from nobody else.

    ``facts_json`` of an item holds ``game`` and ``history``: what was seen of the game so far, as pairs of
    option (position among the legal ones) and outcome; :func:`features` says what a network is shown of it. A
    participant of whom nothing may be learned is not predicted.

    Attributes
    ----------
    hidden_size
        Hidden units.
    n_updates, batch_size
        Steps of Adam, and responses drawn with replacement for each.
    learning_rate
        Of Adam.
    seed
        Of first weights and batches, the same for every network.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    hidden_size: Annotated[int, Field(strict=True, ge=1)]
    n_updates: Annotated[int, Field(strict=True, ge=1)]
    batch_size: Annotated[int, Field(strict=True, ge=1)]
    learning_rate: Annotated[float, Field(gt=0)]
    seed: Annotated[int, Field(strict=True, ge=0)]

    @property
    def exposure(self) -> Exposure:
        """Fitted to the participant's responses in the other folds."""
        return "other_folds"

    def fit(self, training: Training) -> Estimate:
        """Train a network on the responses of each participant.

        Returns
        -------
        Estimate
            ``parameters`` is participant to :class:`Network`. The fits are ``training_nll``, in nats per
            response; weights are not repeated there, and nothing converges: the number of updates is fixed.

        Raises
        ------
        InvalidSource
            If an item is not one of a game, or has another number of options than others.
        EngineFailed
            If torch is not installed.
        """
        rows = _decoded(training.trials).filter(pl.col("choice") >= 0)
        found: dict[str, Network] = {}
        fits: list[Fit] = []
        for own in rows.partition_by("participant_id", maintain_order=True):
            participant, network = own["participant_id"][0], trained(self, _responses(own))
            chosen = network.log_probabilities(features(own))[np.arange(own.height), own["choice"]]
            found[participant] = network
            fits.append(Fit("training_nll", -float(chosen.mean()), participant, n_training=own.height))
        words = f"{rows.height} responses in the other folds, of {len(found)} participants, each alone"
        return Estimate(found, tuple(fits), words)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of every option, from the history of its item alone."""
        frames = [pl.DataFrame(schema=_PREDICTED)]
        for own in _decoded(trials).partition_by("participant_id", maintain_order=True):
            if network := estimate.parameters.get(own["participant_id"][0]):
                logprobs = network.log_probabilities(features(own))
                frames.append(
                    pl.DataFrame({"item_id": own["item_id"], "logprobs_nats": logprobs.tolist()}, _PREDICTED)
                )
        return pl.concat(frames)


@lru_cache(maxsize=_N_REMEMBERED)
def trained(family: IndependentNetworks, own: Responses) -> Network:
    """Train one network; the same responses give the same network.

    Raises
    ------
    EngineFailed
        If torch is not installed.
    """
    torch = _torch()
    choices = np.frombuffer(own.choices, np.int64)
    features = np.frombuffer(own.features, np.float64).reshape(choices.size, -1)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    inputs = torch.from_numpy(((features - mean) / scale).astype(np.float32))
    targets = torch.from_numpy(choices.copy())
    generator = torch.Generator().manual_seed(family.seed)

    def layer(n_in: int, n_out: int) -> list[Any]:
        limit = max(n_in, 1) ** -0.5
        return [
            torch.empty(shape).uniform_(-limit, limit, generator=generator).requires_grad_()
            for shape in ((n_in, n_out), (n_out,))
        ]

    parameters = [*layer(features.shape[1], family.hidden_size), *layer(family.hidden_size, own.n_options)]
    hidden_weights, hidden_offsets, weights, offsets = parameters
    optimizer = torch.optim.Adam(parameters, lr=family.learning_rate)
    for _ in range(family.n_updates):
        batch = torch.randint(choices.size, (family.batch_size,), generator=generator)
        hidden = torch.tanh(torch.addmm(hidden_offsets, inputs[batch], hidden_weights))
        logits = torch.addmm(offsets, hidden, weights)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, targets[batch]).backward()
        optimizer.step()
    first, second, third, fourth = (parameter.detach().numpy().astype(np.float64) for parameter in parameters)
    return Network(mean, scale, (first, second, third, fourth))


def _torch() -> Any:  # noqa: ANN401
    try:
        return import_module("torch")
    except ImportError as error:
        raise EngineFailed("torch is not installed; install coglake[hf]") from error


def features(rows: pl.DataFrame) -> Floats:
    """Sum up the histories of games, in the unit of the outcomes.

    Parameters
    ----------
    rows
        With columns ``history`` and ``legal_options``, of as many options everywhere.

    Returns
    -------
    Floats
        Rows x (4 k + 2) for k options: how often each was taken, as log(1 + n); the mean of what each paid,
        and the last of it, 0 before the first; which was taken last (1, others 0); what it paid; and the
        number of steps, as log(1 + n).
    """
    options, rewards = histories(rows)
    n_rows, n_steps = options.shape
    n_options = int(rows["legal_options"].list.len().to_numpy().max(initial=0))
    taken, paid, last = (np.zeros((n_rows, n_options)) for _ in range(3))
    latest, latest_paid = np.zeros((n_rows, n_options)), np.zeros((n_rows, 1))
    for step in range(n_steps):
        (seen,) = np.nonzero(options[:, step] >= 0)
        option, reward = options[seen, step], rewards[seen, step]
        taken[seen, option] += 1
        paid[seen, option] += reward
        last[seen, option] = latest_paid[seen, 0] = reward
        latest[seen] = 0.0
        latest[seen, option] = 1.0
    mean = paid / np.maximum(taken, 1)
    steps = np.log1p(taken.sum(axis=1, keepdims=True))
    return np.concatenate([np.log1p(taken), mean, last, latest, latest_paid, steps], axis=1)


def _responses(own: pl.DataFrame) -> Responses:
    choices = own["choice"].to_numpy().astype(np.int64)
    n_options = int(own["legal_options"].list.len()[0])
    return Responses(features(own).tobytes(), choices.tobytes(), n_options)


def _decoded(trials: pl.DataFrame) -> pl.DataFrame:
    rows = with_game(trials)
    lengths = rows["legal_options"].list.len().unique().sort()
    if lengths.len() > 1:
        found = ", ".join(str(length) for length in lengths)
        raise InvalidSource(f"expected as many legal_options in every item, found {found}")
    return rows
