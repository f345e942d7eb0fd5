"""Split halves: how far apart the mean reports of two random halves of the same respondents lie."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Estimate, Exposure, Floats, Ints, Training


class SplitHalf(BaseModel):
    """Predicts the mean report of one half of an item's respondents by that of the other half.

    Attributes
    ----------
    n_halvings
        How often the respondents of every item are split anew; each time is a question of its own.
    first_seed
        Seed of the first halving; the following ones have the following seeds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_halvings: Annotated[int, Field(strict=True, ge=1)]
    first_seed: Annotated[int, Field(strict=True, ge=0)]

    @property
    def exposure(self) -> Exposure:
        """Reports of the half that is not the target."""
        return "other_participants"

    def fit(self, training: Training) -> Estimate:
        """Return nothing: there are no parameters."""
        del training
        return Estimate(None)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return one row per item and halving.

        Items are split independently of each other. Of an odd number of respondents, the half that predicts
        has one less. An item with fewer than two reports has no halves, and no rows.

        Returns
        -------
        pl.DataFrame
            ``item_id``; ``halving``, its seed; ``response_number``, the mean of one half; ``target``, that of
            the other.
        """
        del estimate
        reported = _by_item(trials)
        seeds = np.arange(self.first_seed, self.first_seed + self.n_halvings)
        means = np.stack([_means_of_halves(reported, int(seed)) for seed in seeds])
        return pl.DataFrame(
            {
                "item_id": reported.item_ids * self.n_halvings,
                "halving": np.repeat(seeds, len(reported.item_ids)),
                "response_number": means[:, 0].ravel(),
                "target": means[:, 1].ravel(),
            },
            schema_overrides={"item_id": pl.String},
        )


@dataclass(frozen=True, slots=True)
class _Reports:
    """What was reported of each item.

    Attributes
    ----------
    item_ids
        Items with two or more reports, in their order.
    reports
        Items x places, filled from the left in the order of participants, then 0.
    n
        Reports of each item.
    """

    item_ids: list[str]
    reports: Floats
    n: Ints


def _by_item(trials: pl.DataFrame) -> _Reports:
    reported = (
        trials.filter(pl.col("response_number").is_not_null())
        .filter(pl.len().over("item_id") > 1)
        .sort("item_id", "participant_id")
    )
    items = reported.group_by("item_id", maintain_order=True).agg(n=pl.len().cast(pl.Int64))
    n = items["n"].to_numpy()
    is_report = np.arange(n.max(initial=0)) < n[:, None]
    reports = np.zeros(is_report.shape)
    reports[is_report] = reported["response_number"].to_numpy()
    return _Reports(items["item_id"].to_list(), reports, n)


def _means_of_halves(reported: _Reports, seed: int) -> Floats:
    """Split the respondents of every item at random; return both means: halves x items."""
    n, n_first = reported.n[:, None], reported.n[:, None] // 2
    is_report = np.arange(reported.reports.shape[1]) < n
    # those with the lowest draws are the first half; a draw is below 1, and a place without a report has 1
    draws = np.where(is_report, np.random.default_rng(seed).random(is_report.shape), 1.0)
    is_first = draws < np.take_along_axis(np.sort(draws, axis=1), n_first, axis=1)
    halves = np.stack([is_first, is_report & ~is_first])
    sums: Floats = np.einsum("hij,ij->hi", halves, reported.reports)
    return sums / np.hstack([n_first, n - n_first]).T
