"""Multiple-cue judgment: a linear rule of the cues that is corrected after feedback.

Source: the online linear regression of Binz et al. (2025), supplement: the criterion is predicted as a
weighted sum of the cues, each weight moves by the learning rate times the signed prediction error times its
cue, and a response is the likelier the smaller the square of its distance to the prediction. The offset that
the published softmax adds to every response cancels, so it is left out here. The supplement was read through
a public implementation of it, not itself. All weights start at one value, which makes three parameters: our
reading, as 27 starts are three values of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict
from scipy.special import log_softmax

from generate.agents.maximum_likelihood import Bounds, estimate_parameters
from generate.contract import Estimate, Exposure, Fit, Floats, Ints, Training
from generate.references.decoding import require, with_choice, with_facts
from store.errors import InvalidSource

PARAMETERS = ("learning_rate", "inverse_temperature", "initial_weight")

# beyond a learning rate of 2 the strongest cues make the error grow; at an inverse temperature of 20 the step
# next to the best one has odds of 1 to 5e8
_HIGHEST_RATE, _HIGHEST_INVERSE_TEMPERATURE = 2.0, 20.0
# 27 starts; the last are shares of the highest initial weight
_STARTS = ((0.02, 0.2, 1.0), (0.05, 0.5, 2.0), (-0.5, 0.0, 0.5))

_FACTS = pl.Struct({"trial": pl.Int64, "cues": pl.List(pl.Float64), "experiment": pl.String})
_PREDICTED = pl.Schema({"item_id": pl.String(), "logprobs_nats": pl.List(pl.Float64)})


@dataclass(frozen=True, slots=True)
class Units:
    """What counts as 1 in an experiment, so that the parameters of experiments can be compared.

    Attributes
    ----------
    cue
        Length of the strongest cue vector of the training participants.
    response
        Mean step from one legal response to the next.
    """

    cue: float
    response: float


@dataclass(frozen=True, slots=True)
class Sessions:
    """Trials of the participants of one experiment, side by side.

    Attributes
    ----------
    cues
        In cue units: participants x trials x cues; 0 after the end of a session.
    feedback
        The criterion as it was shown, in response units: participants x trials; NaN where none was.
    participants, steps
        Where in these arrays each row of the frame stands.
    values
        What the legal responses stand for, in response units: rows x options.
    choices
        Position of the response among the legal ones, one per row; -1 where there is none.
    """

    cues: Floats
    feedback: Floats
    participants: Ints
    steps: Ints
    values: Floats
    choices: Ints


@dataclass(frozen=True, slots=True)
class Experiment:
    """Units and parameters of one experiment, the latter in the order of ``PARAMETERS``."""

    units: Units
    parameters: Floats


class MultipleCueUpdating(BaseModel):
    """One learning rate, inverse temperature and initial weight for all participants of an experiment.

    ``facts_json`` of an item holds ``trial``, ``cues`` and ``experiment`` (if absent, the data set is the
    experiment). Its ``target`` is the criterion that was shown after the response, in the unit of the legal
    responses; where it is null nothing was shown and nothing is learned. Responses that are numbers stand for
    themselves, others for their place from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def exposure(self) -> Exposure:
        """Fitted to training participants."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Find the likeliest parameters of each experiment from 27 starts.

        Returns
        -------
        Estimate
            ``parameters`` is experiment to :class:`Experiment`. Names of fits begin with the experiment:
            those of ``PARAMETERS``, ``negative_log_likelihood`` in nats, ``n_converged`` (of 27 descents),
            ``cue_unit`` and ``response_unit``.

        Raises
        ------
        InvalidSource
            If an item is not one of multiple cues.
        """
        found: dict[str, Experiment] = {}
        fits: list[Fit] = []
        n_responses, participants = 0, set[str]()
        for name, rows in _by_experiment(training.trials):
            answered = rows.filter(pl.col("choice") >= 0)
            if answered.height:
                found[name], own = _fitted(rows)
                fits += [replace(fit, parameter=f"{name}:{fit.parameter}") for fit in own]
                n_responses += answered.height
                participants |= set(answered["participant_id"])
        words = f"{n_responses} responses of {len(participants)} training participants, per experiment"
        return Estimate(found, tuple(fits), words)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of every legal response; nothing for an experiment without a fit."""
        frames = [pl.DataFrame(schema=_PREDICTED)]
        for name, rows in _by_experiment(trials):
            if known := estimate.parameters.get(name):
                logprobs = log_probabilities(known.parameters, sessions(rows, known.units))
                frames.append(pl.DataFrame({"item_id": rows["item_id"], "logprobs_nats": logprobs.tolist()}))
        return pl.concat(frames)


def sessions(rows: pl.DataFrame, units: Units) -> Sessions:
    """Lay the trials of one experiment side by side, each session in the order of its trials."""
    place = rows.select(
        participant=pl.col("participant_id").rank("dense").cast(pl.Int64) - 1,
        # a session may begin at any number and leave some out
        step=pl.col("trial").rank("dense").over("participant_id").cast(pl.Int64) - 1,
    )
    participants, steps = place["participant"].to_numpy(), place["step"].to_numpy()
    shape = participants.max() + 1, steps.max() + 1
    listed = _as_array(rows, "cues")
    cues = np.zeros((*shape, listed.shape[1]))
    cues[participants, steps] = listed / units.cue
    feedback = np.full(shape, np.nan)
    feedback[participants, steps] = rows["target"].cast(pl.Float64).fill_null(np.nan) / units.response
    values = _as_array(rows, "values") / units.response
    return Sessions(cues, feedback, participants, steps, values, rows["choice"].to_numpy())


def predicted_criteria(parameters: Floats, own: Sessions) -> Floats:
    """Return the criterion that is expected before each response: parameter sets x rows, in response units.

    ``parameters`` has the columns of ``PARAMETERS``. Feedback of a trial reaches later trials alone.
    """
    rate, _, initial_weight = parameters.T
    n_participants, n_trials, n_cues = own.cues.shape
    weights = np.broadcast_to(initial_weight[:, None, None], (rate.size, n_participants, n_cues)).copy()
    expected = np.empty((n_trials, n_participants, rate.size))
    is_shown = ~np.isnan(own.feedback)
    feedback = np.where(is_shown, own.feedback, 0.0)
    for trial in range(n_trials):
        cues = own.cues[:, trial]
        criterion = (weights * cues).sum(axis=2)
        error = np.where(is_shown[:, trial], feedback[:, trial] - criterion, 0.0)
        weights += (rate[:, None] * error)[:, :, None] * cues
        expected[trial] = criterion.T
    by_row: Floats = expected[own.steps, own.participants].T
    return by_row


def log_probabilities(parameters: Floats, own: Sessions) -> Floats:
    """Return the log-probabilities of all legal responses under one parameter set: rows x options."""
    distance = predicted_criteria(parameters[None], own)[0, :, None] - own.values
    logprobs: Floats = log_softmax(-parameters[1] * distance**2, axis=1)
    return logprobs


def negative_log_likelihood(parameters: Floats, own: Sessions) -> Floats:
    """Return the negative log-likelihood of all responses in nats, once per parameter set."""
    (rows,) = np.nonzero(own.choices >= 0)
    values, inverse_temperature = own.values[rows], parameters[:, 1, None]
    expected = predicted_criteria(parameters, own)[:, rows]
    # options on a last axis would make many short sums: one array per option instead
    squares = [(expected - option) ** 2 for option in values.T]
    nearest = np.minimum.reduce(squares)
    total = sum(np.exp(inverse_temperature * (nearest - square)) for square in squares)
    chosen = values[np.arange(rows.size), own.choices[rows]]
    nats = inverse_temperature * ((expected - chosen) ** 2 - nearest) + np.log(total)
    summed: Floats = nats.sum(axis=1)
    return summed


def _fitted(rows: pl.DataFrame) -> tuple[Experiment, list[Fit]]:
    units = _units(rows)
    own = sessions(rows, units)
    # twice what the strongest cues need to predict the highest response
    heaviest = 2 * float(np.abs(own.values).max())
    bounds = Bounds(
        np.array([0.0, 0.0, -heaviest]), np.array([_HIGHEST_RATE, _HIGHEST_INVERSE_TEMPERATURE, heaviest])
    )
    starts = np.array(list(product(*_STARTS))) * [1.0, 1.0, heaviest]
    found = estimate_parameters(lambda parameters: negative_log_likelihood(parameters, own), bounds, starts)
    n_training = int((own.choices >= 0).sum())
    fits = found.fits(PARAMETERS, n_training)
    fits.append(Fit("n_converged", float(found.n_converged or 0), n_training=n_training))
    fits += [Fit("cue_unit", units.cue), Fit("response_unit", units.response)]
    return Experiment(units, found.values), fits


def _units(rows: pl.DataFrame) -> Units:
    lengths = np.sqrt((_as_array(rows, "cues") ** 2).sum(axis=1))
    values = _as_array(rows, "values")
    step = float((values.max(axis=1) - values.min(axis=1)).mean()) / max(values.shape[1] - 1, 1)
    return Units(float(lengths.max()) or 1.0, step or 1.0)


def _by_experiment(trials: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the trials of each experiment with ``trial``, ``cues``, ``values`` and ``choice``.

    A question that nobody was asked belongs to no session and is left out.
    """
    asked = with_choice(trials.filter(pl.col("participant_id").is_not_null()))
    number = pl.element().cast(pl.Float64, strict=False)
    place = pl.int_range(1, pl.len() + 1).cast(pl.Float64)
    rows = with_facts(asked, _FACTS).with_columns(
        pl.coalesce("experiment", "dataset").alias("experiment"),
        values=pl.col("legal_options").list.eval(
            pl.when(number.is_null().any()).then(place).otherwise(number)
        ),
    )
    require(rows, "trial", "cues", "experiment", "values")
    twice = rows.filter(pl.struct("experiment", "participant_id", "trial").is_duplicated())
    if twice.height:
        raise InvalidSource(f"expected each trial of a participant once, found {twice['item_id'][0]} twice")
    for own in rows.partition_by("experiment", maintain_order=True):
        yield own["experiment"][0], own


def _as_array(rows: pl.DataFrame, name: str) -> Floats:
    """Return a column of lists as rows x entries."""
    lengths = rows[name].list.len().unique()
    if lengths.len() > 1:
        raise InvalidSource(
            f"expected as many {name} in every trial of {rows['experiment'][0]}, found "
            f"{', '.join(str(length) for length in lengths.sort())}"
        )
    array: Floats = rows[name].list.to_array(lengths[0]).to_numpy()
    return array
