"""The generalised context model: a new case is like the earlier ones that look like it.

Source: Nosofsky (1986), Journal of Experimental Psychology: General 115, 39-57, with response scaling (Ashby
& Maddox 1993) and background noise. The similarity of two cases is exp(-c sum_k w_k |x_k - y_k|), with
sensitivity c and attention weights w that sum to 1. The evidence for a category is the summed similarity to
all earlier cases of the session that feedback placed in it; a category is answered in proportion to
(evidence + b)^gamma, where the background b speaks for a category of which no case was seen.

The model was written anew from that description. All training participants of an experiment share one set of
parameters; exemplars are each participant's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import log_softmax

from generate.agents.maximum_likelihood import Bounds, estimate_parameters
from generate.contract import Bools, Estimate, Exposure, Fit, Floats, Ints, Training

Limit = Annotated[float, Field(gt=0)]

# descents start from each of these, with the same strength (c w_k) for every dimension
_STRENGTHS = (0.5, 2.0, 5.0)
_SCALINGS = (0.5, 2.0)
_LOG_BACKGROUND = -2.0


@dataclass(frozen=True, slots=True)
class Cases:
    """Trials of one experiment in the order of session and trial, with what was seen before each.

    Attributes
    ----------
    item_ids
        One per trial.
    stimuli
        Which of the distinct stimuli each trial shows.
    distances
        Between distinct stimuli, by dimension: stimuli x stimuli x dimensions.
    seen
        How often each stimulus was shown in each category earlier in the session, as feedback told: trials x
        categories x stimuli. So the memory that is needed grows with the number of distinct stimuli.
    chosen
        Position of the participant's response among the categories, -1 if there is none.
    weights
        Of the responses; 0 where there is none.
    """

    item_ids: list[str]
    stimuli: Ints
    distances: Floats
    seen: Floats
    chosen: Ints
    weights: Floats

    def logprobs(self, parameters: Floats) -> Floats:
        """Return log-probabilities of all categories: parameter vectors x trials x categories.

        Parameters
        ----------
        parameters
            Vectors of c w_1, ..., c w_K, gamma and log b.
        """
        n_dimensions = self.distances.shape[-1]
        strengths, scaling, background = np.split(parameters, [n_dimensions, n_dimensions + 1], axis=1)
        similarity = np.exp(-np.tensordot(strengths, self.distances, axes=(1, 2)))
        evidence = np.empty((len(parameters), *self.seen.shape[:2]))
        for stimulus in range(len(self.distances)):
            shown = self.stimuli == stimulus
            evidence[:, shown] = np.moveaxis(self.seen[shown] @ similarity[:, stimulus].T, 2, 0)
        strength = np.log(evidence + np.exp(background)[:, :, None])
        found: Floats = log_softmax(scaling[:, :, None] * strength, axis=2)
        return found

    def negative_log_likelihoods(self, parameters: Floats) -> Floats:
        """Return the sum over all responses in nats, one per parameter vector."""
        answered = np.flatnonzero(self.weights)
        logprobs = self.logprobs(parameters)[:, answered, self.chosen[answered]]
        total: Floats = -logprobs @ self.weights[answered]
        return total


class GeneralizedContextModel(BaseModel):
    """The model with one set of parameters per experiment, by maximum likelihood.

    Attributes
    ----------
    largest_strength, largest_scaling
        Bounds of c w_k and of gamma.
    background
        Bounds of b.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    largest_strength: Limit
    largest_scaling: Limit
    background: tuple[Limit, Limit]

    @property
    def exposure(self) -> Exposure:
        """Training participants' responses are what the parameters are fitted to."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Fit each experiment; an experiment without responses is left out.

        Raises
        ------
        ValueError
            If no training participant responded, or cases of one experiment differ in their dimensions.
        """
        found = {name: self._fitted(cases) for name, cases in cases_of(training.trials).items()}
        answered = training.trials.filter(pl.col("legal_options").list.contains(pl.col("response")))
        if not any(fits for _, fits in found.values()):
            raise ValueError("no training participant has a response")
        several = len(found) > 1
        return Estimate(
            parameters={name: values for name, (values, fits) in found.items() if fits},
            fits=tuple(
                Fit(
                    f"{fit.parameter} ({name})" if several else fit.parameter,
                    fit.value,
                    is_at_bound=fit.is_at_bound,
                    n_training=fit.n_training,
                    is_converged=fit.is_converged,
                )
                for name, (_, fits) in found.items()
                for fit in fits
            ),
            training_set=f"{answered['participant_id'].n_unique()} training participants, "
            f"{answered.height} responses",
        )

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Predict each response from what the participant saw earlier in the session."""
        parts = [
            pl.DataFrame(
                {
                    "item_id": cases.item_ids,
                    "logprobs_nats": cases.logprobs(estimate.parameters[name][None])[0].tolist(),
                },
                schema=_PREDICTION,
            )
            for name, cases in cases_of(trials).items()
            if name in estimate.parameters
        ]
        return pl.concat([pl.DataFrame(schema=_PREDICTION), *parts])

    def bounds(self, n_dimensions: int) -> Bounds:
        """Return the ranges of c w_1, ..., c w_K, gamma and log b."""
        low, high = np.log(self.background)
        return Bounds(
            np.array([0.0] * n_dimensions + [0.0, low]),
            np.array([self.largest_strength] * n_dimensions + [self.largest_scaling, high]),
        )

    def _fitted(self, cases: Cases) -> tuple[Floats, list[Fit]]:
        n_dimensions, n_training = cases.distances.shape[-1], int(cases.weights.sum())
        bounds = self.bounds(n_dimensions)
        if not n_training:
            return bounds.lower, []
        starts = np.array(
            [
                [strength] * n_dimensions + [scaling, _LOG_BACKGROUND]
                for strength in _STRENGTHS
                for scaling in _SCALINGS
            ]
        ).clip(bounds.lower, bounds.upper)
        best = estimate_parameters(cases.negative_log_likelihoods, bounds, starts)
        values, is_at_bound = _readable(best.values, best.is_at_bound)
        fits = [
            Fit(name, value, is_at_bound=at_bound, n_training=n_training, is_converged=best.is_converged)
            for name, value, at_bound in zip(_names(n_dimensions), values, is_at_bound, strict=True)
        ]
        loss = Fit("negative_log_likelihood", best.negative_log_likelihood, n_training=n_training)
        return best.values, [*fits, loss]


_PREDICTION: dict[str, Any] = {"item_id": pl.String, "logprobs_nats": pl.List(pl.Float64)}


def _names(n_dimensions: int) -> list[str]:
    attention = [f"attention_{dimension + 1}" for dimension in range(n_dimensions)]
    return [*attention, "sensitivity", "response_scaling", "background"]


def _readable(values: Floats, is_at_bound: Bools) -> tuple[list[float], list[bool]]:
    """Return w_1, ..., w_K, c, gamma and b, and whether a bound keeps each where it is."""
    *strengths, scaling, background = values.tolist()
    *at_ends, scaling_at_end, background_at_end = is_at_bound.tolist()
    sensitivity = sum(strengths)
    attention = [strength / sensitivity if sensitivity else float("nan") for strength in strengths]
    return (
        [*attention, sensitivity, scaling, float(np.exp(background))],
        [*at_ends, any(at_ends), scaling_at_end, background_at_end],
    )


def cases_of(trials: pl.DataFrame) -> dict[str, Cases]:
    """Return the trials of each experiment, as ``experiment`` in ``facts_json`` names it.

    Parameters
    ----------
    trials
        As in :class:`generate.contract.Training`. ``facts_json`` holds ``trial`` and ``features``, and where
        a participant began anew, as with other stimuli or on another day, ``session``.

    Raises
    ------
    ValueError
        If the items of an experiment differ in the number of features or of categories, or have none.
    """
    fact = pl.col("facts_json").str.json_path_match
    ordered = (
        trials.with_columns(
            experiment=fact("$.experiment").fill_null(""),
            session=fact("$.session").fill_null(""),
            trial=fact("$.trial").cast(pl.Int64),
            features=fact("$.features").str.json_decode(pl.List(pl.Float64)),
        )
        .unique("item_id", keep="first")
        .sort("experiment", "dataset", "participant_id", "session", "trial", "item_id")
    )
    return {
        str(name): _cases(rows, str(name))
        for (name,), rows in ordered.group_by("experiment", maintain_order=True)
    }


def _cases(rows: pl.DataFrame, experiment: str) -> Cases:
    features = np.array(_of_one_length(rows["features"], f"features {experiment}".strip()))
    n_categories = len(_of_one_length(rows["legal_options"], f"categories {experiment}".strip())[0])
    distinct, stimuli = np.unique(features, axis=0, return_inverse=True)
    shown, labels = np.zeros((rows.height, n_categories, len(distinct))), _positions(rows, n_categories)
    told, chosen = labels["told"].to_numpy(), labels["chosen"].to_numpy()
    is_told = told >= 0
    shown[np.flatnonzero(is_told), told[is_told], stimuli[is_told]] = 1
    # what was shown before, less all that was shown before the session began
    before = np.cumsum(shown, axis=0) - shown
    session = rows.select(
        pl.struct("dataset", "participant_id", "session").rle_id().alias("session")
    ).to_series()
    first = np.searchsorted(session.to_numpy(), session.to_numpy())
    return Cases(
        item_ids=rows["item_id"].to_list(),
        stimuli=stimuli.astype(np.int64),
        distances=np.abs(distinct[:, None] - distinct[None]),
        seen=before - before[first],
        chosen=chosen,
        weights=np.where(chosen >= 0, rows["weight"].to_numpy(), 0.0),
    )


def _of_one_length(lists: pl.Series, what: str) -> list[Sequence[Any]]:
    lengths = lists.list.len().unique().to_list()
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError(f"{what}: expected lists of one length, found {lengths}")
    return lists.to_list()


def _positions(rows: pl.DataFrame, n_categories: int) -> pl.DataFrame:
    """Return where the category that feedback told and the response stand among the legal options, or -1."""
    told = pl.when(pl.col("credited_options").list.len() == 1).then(pl.col("credited_options").list.first())

    def position(label: pl.Expr) -> pl.Expr:
        options = [pl.col("legal_options").list.get(place) for place in range(n_categories)]
        found = [pl.when(label == option).then(place) for place, option in enumerate(options)]
        return pl.coalesce(*found, -1).cast(pl.Int64)

    return rows.select(told=position(told), chosen=position(pl.col("response")))
