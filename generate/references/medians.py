"""Median report of the training participants to the same query."""

import polars as pl
from pydantic import BaseModel, ConfigDict

from generate.contract import Estimate, Exposure, Fit, Training
from generate.references.decoding import require, with_facts

_KEY = ["experiment", "query"]
_FACTS = pl.Struct({"experiment": pl.String, "query": pl.String})


class TrainingMedian(BaseModel):
    """The median training report to the query in its experiment.

    ``facts_json`` of an item holds ``query`` and ``experiment`` (if absent, the data set is the
    experiment). A query that no training participant was asked is not predicted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def exposure(self) -> Exposure:
        """Fitted to training participants."""
        return "training_participants"

    def fit(self, training: Training) -> Estimate:
        """Return the median of each query; the unit is that of the reports.

        Returns
        -------
        Estimate
            ``parameters``: columns ``experiment``, ``query``, ``median`` and ``n_reports``. A fit is named
            ``<experiment>:<query>``.

        Raises
        ------
        InvalidSource
            If an item has no query.
        """
        reports = _queries(training.trials).filter(pl.col("response_number").is_not_null())
        medians = (
            reports.group_by(_KEY)
            .agg(median=pl.col("response_number").median(), n_reports=pl.len())
            .sort(_KEY)
        )
        fits = [
            Fit(f"{experiment}:{query}", median, n_training=n_reports)
            for experiment, query, median, n_reports in medians.iter_rows()
        ]
        words = f"{reports.height} reports of {reports['participant_id'].n_unique()} training participants"
        return Estimate(medians, tuple(fits), words)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the median for each query that has one."""
        return (
            _queries(trials)
            .unique("item_id", maintain_order=True)
            .join(estimate.parameters, on=_KEY, how="inner", maintain_order="left")
            .select("item_id", pl.col("median").alias("response_number"))
        )


def _queries(trials: pl.DataFrame) -> pl.DataFrame:
    rows = with_facts(trials, _FACTS).with_columns(pl.coalesce("experiment", "dataset").alias("experiment"))
    require(rows, *_KEY)
    return rows
