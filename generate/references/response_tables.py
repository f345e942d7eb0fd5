"""Response tables: how often other people gave each answer to the same question."""

from typing import Annotated

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Estimate, Exposure, Training


class LeaveOneOut(BaseModel):
    """Predicts each response from those that all other participants gave to the same item.

    An option that m of n others chose, out of k, has probability (m + a) / (n + a k). Nothing is fitted, and
    a participant's own response to an item never counts in its prediction.

    Attributes
    ----------
    added_count
        a: responses that every option is given beforehand. With 1, no option is ever impossible.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    added_count: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @property
    def exposure(self) -> Exposure:
        """Responses of others to the item that is predicted."""
        return "other_participants"

    def fit(self, training: Training) -> Estimate:
        """Return nothing: the tables are made of the responses around the one that is predicted."""
        del training
        return Estimate(None)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return ``logprobs_nats`` for every item and participant.

        A response outside the legal options counts in no table, and is predicted like any other.
        """
        del estimate
        # a question that nobody answered has a row without a participant
        asked = trials.filter(pl.col("participant_id").is_not_null()).select(
            "item_id", "participant_id", "response"
        )
        in_all = (
            _options(trials)
            .join(
                asked.group_by("item_id", option="response").agg(n_chosen=pl.len()),
                on=["item_id", "option"],
                how="left",
            )
            .with_columns(pl.col("n_chosen").fill_null(0))
        )
        chosen_by_others = pl.col("n_chosen") - pl.col("is_own")
        one_response = ["item_id", "participant_id"]
        return (
            asked.join(in_all, on="item_id", how="inner", maintain_order="left_right")
            .with_columns(is_own=(pl.col("option") == pl.col("response")).fill_null(False).cast(pl.Int64))
            .with_columns(count=chosen_by_others.cast(pl.Float64) + self.added_count)
            .with_columns(logprob=(pl.col("count") / pl.col("count").sum().over(one_response)).log())
            .group_by(one_response, maintain_order=True)
            .agg(logprobs_nats=pl.col("logprob").sort_by("option_index"))
        )


def _options(trials: pl.DataFrame) -> pl.DataFrame:
    """Return one row per item and legal option, with its place."""
    return (
        trials.select("item_id", option="legal_options")
        .unique("item_id", maintain_order=True)
        .with_columns(option_index=pl.int_ranges(pl.col("option").list.len()))
        .explode("option", "option_index")
    )
