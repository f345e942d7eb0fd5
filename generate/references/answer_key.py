"""The answer key itself: 100 percent by definition, so no measurement of anything."""

import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.contract import Estimate, Exposure, Training


class AnswerKey(BaseModel):
    """Gives the credited option of every question, the first one where several are credited."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def exposure(self) -> Exposure:
        """It needs nobody's responses."""
        return "nothing"

    def fit(self, training: Training) -> Estimate:
        """Return an estimate without parameters."""
        return Estimate(parameters=None)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Answer each question as the key does; one that credits no option gets no answer."""
        questions = trials.unique("item_id", keep="first", maintain_order=True)
        return questions.select(
            "item_id", pl.col("credited_options").list.first().alias("response_text")
        ).drop_nulls()
