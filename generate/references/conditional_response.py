"""Conditional response matrix of recent probes: how often a key is pressed, given where the probe belongs.

After the rational model among those of Binz et al. (2025), A foundation model to predict and capture human
cognition, Nature: all that matters of a trial is whether the probe is one of its letters. The likelihood is
greatest at the relative frequencies, so nothing is searched for.
"""

import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.contract import Estimate, Exposure, Fit, Training

_FACTS = pl.Struct({"letters": pl.List(pl.String), "probe": pl.String})
_PLACES = ("in_set", "not_in_set")


class ConditionalResponse(BaseModel):
    """Probability of each key given whether the probe is in the visible set, by maximum likelihood."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def exposure(self) -> Exposure:
        """Training participants' responses are what is counted."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Count the responses to probes in the set and to others.

        Parameters are a frame of ``place``, ``option`` and ``logprob_nats``, -inf for a key that was never
        pressed.

        Raises
        ------
        ValueError
            If there is no response of training participants to probes in the set, or none to others.
        """
        answered = _placed(training.trials).filter(pl.col("legal_options").list.contains(pl.col("response")))
        counts = answered.group_by("place", option="response").agg(n=pl.col("weight").sum(), n_rows=pl.len())
        options = answered.select(option=pl.col("legal_options").explode()).unique().sort("option")
        matrix = (
            pl.DataFrame({"place": _PLACES})
            .join(options, how="cross", maintain_order="left_right")
            .join(counts, on=["place", "option"], how="left", maintain_order="left")
            .with_columns(pl.col("n", "n_rows").fill_null(0))
            .with_columns(
                probability=pl.col("n") / pl.col("n").sum().over("place"),
                n_training=pl.col("n_rows").sum().over("place"),
            )
        )
        if answered.select("place").n_unique() < len(_PLACES):
            raise ValueError("training participants have no response to probes in the set, or none to others")
        fits = tuple(
            Fit(
                f"p_{row['option']}_given_{row['place']}",
                row["probability"],
                is_at_bound=row["probability"] in (0.0, 1.0),
                n_training=row["n_training"],
                # relative frequencies are the maximum: there is no descent that could fail
                is_converged=True,
            )
            for row in matrix.iter_rows(named=True)
        )
        n_participants = answered["participant_id"].n_unique()
        return Estimate(
            parameters=matrix.select("place", "option", logprob_nats=pl.col("probability").log()),
            fits=fits,
            training_set=f"{n_participants} training participants, {answered.height} responses",
        )

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Predict each response from the letters and the probe of its own trial alone."""
        options = (
            _placed(trials)
            .select("item_id", "participant_id", "place", option="legal_options")
            .explode("option")
            .join(estimate.parameters, on=["place", "option"], how="left", maintain_order="left")
        )
        return options.group_by("item_id", "participant_id", maintain_order=True).agg(
            logprobs_nats="logprob_nats"
        )


def _placed(trials: pl.DataFrame) -> pl.DataFrame:
    """Add ``place``: whether the probe is in the set."""
    facts = pl.col("facts_json").str.json_decode(_FACTS)
    is_in_set = facts.struct.field("letters").list.contains(facts.struct.field("probe"))
    return trials.with_columns(
        place=pl.when(is_in_set).then(pl.lit("in_set")).otherwise(pl.lit("not_in_set"))
    )
