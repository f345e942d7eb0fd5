"""The uniform agent: every legal action or report is as likely as any other."""

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from generate.contract import AnyEnvironment, Fitted, Floats, Ints, Lanes, Observation
from generate.streams import Streams, choose


class UniformPolicy:
    """Chooses among the legal actions with equal probability."""

    def start(self, lanes: Lanes) -> None:
        """Know nothing; nothing is learned either."""

    def act(self, memory: None, seen: Observation, streams: Streams) -> tuple[None, Ints]:
        """Draw one legal action per episode."""
        weights: Floats = seen.legal.astype(float)
        return memory, choose(weights, streams.uniform(1)[:, 0])


class Uniform(BaseModel):
    """Plays every environment, and answers every question with the whole of its uniform distribution.

    An answer is not a sample, so its score is the expectation that the Uniform column states.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy, which has no parameters."""
        return Fitted(UniformPolicy())

    def answer(self, questions: pa.Table) -> pa.Table:
        """Spread a report evenly over its support, a choice over its options."""
        n_options = pl.col("legal_options").list.len()
        support = pl.col("support_high") - pl.col("support_low")
        is_report = pl.col("support_low").is_not_null()
        answers = pl.DataFrame(questions).select(
            "item_id",
            pl.col("support_low").alias("report_low"),
            pl.when(is_report).then("support_high").alias("report_high"),
            # a report that is not one of listed values may be any number of the support
            pl.when(is_report)
            .then(pl.when(n_options > 1).then(support / (n_options - 1)).otherwise(0.0))
            .alias("report_spacing"),
            pl.when(~is_report)
            .then(pl.col("legal_options").list.eval(pl.repeat(-pl.len().cast(pl.Float64).log(), pl.len())))
            .alias("logprobs_nats"),
        )
        return answers.to_arrow()
