"""What people chose, as the prediction of itself: its score is how often they chose a credited option."""

import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.contract import Estimate, Exposure, Training


class OwnChoice(BaseModel):
    """Repeats each participant's own response.

    Where what is credited is one of two rewards and not a right answer, its score is the rate at which people
    prefer that reward, with the standard error that participants as clusters give.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def exposure(self) -> Exposure:
        """It learns nothing: a response is repeated and not predicted from others."""
        return "nothing"

    def fit(self, training: Training) -> Estimate:
        """Return an estimate without parameters."""
        return Estimate(parameters=None, training_set="nothing fitted: the choices themselves")

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Repeat each response; where there is none there is no prediction."""
        return trials.filter(pl.col("response").is_not_null()).select(
            "item_id", "participant_id", pl.col("response").alias("response_text")
        )
