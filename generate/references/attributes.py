"""Weighted additive choice between two options: the cues of each are weighed and added.

The first option is chosen with probability 1 / (1 + exp(-sum_k w_k (x_k - y_k))), where x are its cues and y
those of the second. All training participants share the weights.
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from generate.agents.maximum_likelihood import Bounds, estimate_parameters
from generate.contract import Estimate, Exposure, Floats, Training


class WeightedAdditive(BaseModel):
    """The model with one weight per cue, by maximum likelihood.

    The likelihood has one maximum, or a flat one where questions differ in fewer directions than there are
    cues. Of that the smallest weights are taken: those without a part on which no question of the training
    depends. Single weights mean little in that case; what they predict of these questions is the same.

    Attributes
    ----------
    largest_weight
        Bound of a weight in either direction.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    largest_weight: Annotated[float, Field(gt=0)]

    @property
    def exposure(self) -> Exposure:
        """Training participants' responses are what the weights are fitted to."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Fit the weights.

        Raises
        ------
        ValueError
            If no training participant responded, or questions differ in their number of cues.
        """
        is_first = pl.col("response") == pl.col("legal_options").list.first()
        answered = training.trials.filter(pl.col("legal_options").list.contains(pl.col("response")))
        if answered.is_empty():
            raise ValueError("no training participant has a response")
        sides = np.where(answered.select(is_first).to_series().to_numpy(), 1.0, -1.0)
        # the same choice in the same question counts as one that weighs more
        cases, which = np.unique(_differences(answered) * sides[:, None], axis=0, return_inverse=True)
        counts = np.bincount(which, weights=answered["weight"].to_numpy()).astype(float)

        def objective(weights: Floats) -> Floats:
            total: Floats = counts @ np.logaddexp(0, -cases @ weights.T)
            return total

        n_cues, n_training = cases.shape[1], round(counts.sum())
        bound = np.full(n_cues, self.largest_weight)
        best = estimate_parameters(objective, Bounds(-bound, bound), np.zeros((1, n_cues)))
        n_directions = np.linalg.matrix_rank(cases)
        if n_directions < n_cues:
            best = replace(best, values=np.linalg.pinv(cases) @ (cases @ best.values))
        return Estimate(
            parameters=best.values,
            fits=tuple(best.fits([f"weight_{cue + 1}" for cue in range(n_cues)], n_training)),
            training_set=f"{answered['participant_id'].n_unique()} training participants, "
            f"{n_training} responses"
            + ("" if n_directions == n_cues else f"; {n_cues} weights, {n_directions} of them determined"),
        )

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Predict each response from the cues alone."""
        questions = trials.unique("item_id", keep="first", maintain_order=True)
        advantage = _differences(questions) @ estimate.parameters
        logprobs = -np.logaddexp(0, np.stack([-advantage, advantage], axis=1))
        return questions.select(
            "item_id", logprobs_nats=pl.Series(logprobs.tolist(), dtype=pl.List(pl.Float64))
        )


def _differences(trials: pl.DataFrame) -> Floats:
    """Return cues of the first option less those of the second: trials x cues."""
    options = (
        trials["facts_json"].str.json_path_match("$.options").str.json_decode(pl.List(pl.List(pl.Float64)))
    )
    shapes = {tuple(len(option) for option in question) for question in options}
    if len({*shapes}) > 1 or any(len(set(shape)) != 1 or len(shape) != 2 for shape in shapes):
        raise ValueError(f"expected two options with the same number of cues, found {sorted(shapes)}")
    cues = np.array(options.to_list(), dtype=float).reshape(len(options), 2, -1)
    difference: Floats = cues[:, 0] - cues[:, 1]
    return difference
