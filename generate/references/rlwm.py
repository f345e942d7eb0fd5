"""Replay of the archived fits to people who learn pictures' keys by trial and error.

The models are those of Collins (2025), A habit and working memory model as an alternative account of human
reward-based learning (AnneCollins/WMH), at the parameters that the authors fitted to each participant. Two
modules learn the three keys of every picture: a slow one that corrects an expectation, and a working memory
that takes an outcome over at once and forgets between trials. Their choices are mixed by how much of the
block working memory can hold.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Estimate, Exposure, Fit, Floats, Ints, Training
from store.errors import EngineFailed

# the authors' constant for both modules
_INVERSE_TEMPERATURE = 25.0
_N_KEYS = 3

_PARAMETERS = (
    "alphaRL",
    "stick",
    "rho",
    "forget",
    "epsilon",
    "biasWM",
    "biasRL",
    "r0",
    "K",
    "interact",
    "value",
)

_FACTS = pl.Struct({"trial": pl.Int64, "block": pl.Int64, "set_size": pl.Int64, "stimulus": pl.Int64})


class ArchivedReplay(BaseModel):
    """One archived model, replayed with the parameters of each participant on what that participant did.

    Attributes
    ----------
    model
        Number and name in the archive, such as ``model 2: WM RL0 0``: ``family`` of its rows in ``raw/fits``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(strict=True, min_length=1)]

    @property
    def exposure(self) -> Exposure:
        """The authors have fitted already, to the very responses that are predicted."""
        return "nothing"

    def fit(self, training: Training) -> Estimate:
        """Return the archived parameters: a table of participants x parameters.

        Raises
        ------
        EngineFailed
            If the archive does not hold the model, or holds it without one of its parameters.
        """
        rows = training.archived.filter(
            (pl.col("family") == self.model) & pl.col("parameter").is_in(_PARAMETERS)
        ).sort("participant_id", "parameter")
        lacking = sorted(set(_PARAMETERS) - set(rows["parameter"]))
        if lacking:
            families = ", ".join(training.archived["family"].unique().sort()) or "none"
            raise EngineFailed(
                f"expected archived parameters of {self.model}, found none named {', '.join(lacking)}; "
                f"archived models: {families}"
            )
        fits = tuple(
            Fit(parameter, value, participant_id)
            for participant_id, parameter, value in rows.select(
                "participant_id", "parameter", "value"
            ).iter_rows()
            if value is not None
        )
        parameters = rows.pivot("parameter", index="participant_id", values="value")
        return Estimate(parameters, fits, f"archived fits of {self.model} to each participant's own trials")

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Predict each choice from the choices and outcomes before it in its block.

        A participant without archived parameters is not predicted.
        """
        ordered = (
            trials.select(
                "item_id",
                "participant_id",
                pl.col("facts_json").str.json_decode(_FACTS).alias("facts"),
                (pl.col("response").cast(pl.Int64) - 1).alias("choice"),
                pl.col("credited_options").list.contains(pl.col("response")).alias("is_right"),
            )
            .unnest("facts")
            .drop_nulls("choice")
            .sort("participant_id", "block", "trial")
            .join(estimate.parameters, on="participant_id", how="inner", maintain_order="left")
            .drop_nulls(_PARAMETERS)
        )
        probabilities = np.empty((0, _N_KEYS)) if ordered.is_empty() else _replayed(_Blocks.of(ordered))
        logprobs = pl.Series("logprobs_nats", np.log(probabilities), pl.Array(pl.Float64, _N_KEYS))
        return ordered.select("item_id", "participant_id", logprobs.arr.to_list())


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Trials of all blocks of all participants: a block is a row, and a trial its place in the block.

    Attributes
    ----------
    block, place
        Where each trial of the table stands: trials of the table.
    picture, choice, is_right
        From 0; blocks x places. Places beyond a block's end hold zeros.
    set_size, parameters
        One per block.
    """

    block: Ints
    place: Ints
    picture: Ints
    choice: Ints
    is_right: Bools
    set_size: Floats
    parameters: dict[str, Floats]

    @classmethod
    def of(cls, ordered: pl.DataFrame) -> "_Blocks":
        """Lay out a table that is ordered by participant, block and trial and is not empty."""
        is_first = ordered.select(
            (pl.struct("participant_id", "block") != pl.struct("participant_id", "block").shift()).fill_null(
                True
            )
        ).to_series()
        first = np.flatnonzero(is_first.to_numpy())
        block = np.cumsum(is_first.to_numpy()) - 1
        place = np.arange(ordered.height) - first[block]

        def laid_out(column: str) -> Ints:
            grid = np.zeros((first.size, place.max() + 1), dtype=np.int64)
            grid[block, place] = ordered[column].to_numpy()
            return grid

        return cls(
            block=block,
            place=place,
            picture=np.maximum(laid_out("stimulus") - 1, 0),
            choice=laid_out("choice"),
            is_right=laid_out("is_right").astype(np.bool_),
            set_size=ordered["set_size"].to_numpy()[first].astype(np.float64),
            parameters={name: ordered[name].to_numpy()[first] for name in _PARAMETERS},
        )


def _replayed(blocks: _Blocks) -> Floats:
    """Return the probability of every key at every trial: trials of the table x keys."""
    of = blocks.parameters
    n_blocks, n_places = blocks.picture.shape
    every = np.arange(n_blocks)
    even = 1 / _N_KEYS
    # an outcome: 0 after a wrong key, 1 after the right one
    learning_rate = np.stack([of["alphaRL"] * of["biasRL"], of["alphaRL"]], axis=1)
    # where points do not count, having chosen a key is all that is learned of it
    lesson = np.stack([np.where(of["value"] == 1, of["r0"], 1.0), np.ones(n_blocks)], axis=1)
    memory_rate = np.stack([of["biasWM"], np.ones(n_blocks)], axis=1)
    memory_weight = of["rho"] * np.minimum(1, of["K"] / blocks.set_size)
    expected_from_memory = np.where(of["interact"] == 1, memory_weight, 0.0)

    habit = np.full((n_blocks, blocks.picture.max() + 1, _N_KEYS), even)
    memory = habit.copy()
    # nothing is mixed or made sticky at the first trial of a block
    probabilities = np.full((n_blocks, n_places, _N_KEYS), even)
    for place in range(1, n_places):
        picture, choice = blocks.picture[:, place - 1], blocks.choice[:, place - 1]
        outcome = blocks.is_right[:, place - 1].astype(np.int64)
        chosen = (every, picture, choice)
        memory += of["forget"][:, None, None] * (even - memory)
        expected = expected_from_memory * memory[chosen] + (1 - expected_from_memory) * habit[chosen]
        habit[chosen] += learning_rate[every, outcome] * (lesson[every, outcome] - expected)
        memory[chosen] += memory_rate[every, outcome] * (outcome - memory[chosen])

        stickiness = np.zeros((n_blocks, _N_KEYS))
        stickiness[every, choice] = of["stick"]
        seen = blocks.picture[:, place]
        from_memory, from_habit = (
            _chosen(values[every, seen] + stickiness, of["epsilon"]) for values in (memory, habit)
        )
        weight = memory_weight[:, None]
        probabilities[:, place] = weight * from_memory + (1 - weight) * from_habit
    replayed: Floats = probabilities[blocks.block, blocks.place]
    return replayed


def _chosen(values: Floats, lapse: Floats) -> Floats:
    """Return the softmax of values, blocks x keys, with a share of choices at random."""
    odds = np.exp(_INVERSE_TEMPERATURE * values)
    probabilities: Floats = lapse[:, None] / _N_KEYS + (1 - lapse[:, None]) * odds / odds.sum(
        axis=1, keepdims=True
    )
    return probabilities
