"""Answers of agents and predictions of references as raw rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from generate.contract import Answerer, Estimate, Exposure, Fit, PredictsPeople, Training
from store.errors import EngineFailed
from store.schemas import FITS, ITEMS, OUTPUT_OPTIONS, OUTPUTS

RawTables = list[tuple[str, pa.Table]]

_ASKED = ("item_id", "legal_options", "support_low", "support_high", "facts_json")


@dataclass(frozen=True, slots=True)
class Author:
    """Whose rows these are: columns that all rows of a run share."""

    run_id: str
    mode_id: str
    source_id: str
    family: str
    seed: int
    provenance: str


def answered(author: Author, agent: Answerer, questions: pa.Table) -> RawTables:
    """Return what ``agent`` answers; it is not told which answer is right."""
    answers = pl.DataFrame(agent.answer(questions.select(_ASKED)))
    joined = pl.DataFrame(questions).join(answers, on="item_id", how="left", maintain_order="left")
    # answers of one participant depend on each other; each answer is for all who were asked the question
    episodes = pl.coalesce("participant_id", "item_id").alias("episode_id")
    return _outputs(author, joined.with_columns(episodes).drop("participant_id"))


def predicted(
    author: Author, reference: PredictsPeople, trials: pl.DataFrame, archived: pl.DataFrame
) -> RawTables:
    """Return what ``reference`` predicts of every response of the test, and what it learned.

    Parameters
    ----------
    trials, archived
        As :class:`generate.contract.Training` has them, of all participants.

    Raises
    ------
    EngineFailed
        If the reference is fitted across folds and the responses have none.
    """
    tested = trials.filter(pl.col("split").fill_null("test") == "test")
    exposed = list(_exposed(reference.exposure, trials, tested))
    if not exposed:
        raise EngineFailed("expected responses in folds, found none")
    estimates = [reference.fit(Training(part.learned_from, archived)) for part in exposed]
    predictions = pl.concat(
        reference.predict(estimate, part.asked) for estimate, part in zip(estimates, exposed, strict=True)
    )
    key = ["item_id", *(name for name in ("participant_id",) if name in predictions.columns)]
    # answers of one participant depend on each other; one answer for all is of nobody
    is_of_all = pl.col("is_shared") & pl.lit("participant_id" not in key)
    participant = pl.when(~is_of_all).then("participant_id")
    episodes = pl.coalesce(participant, "item_id").alias("episode_id")
    # who was not predicted is a row without an answer
    asked = tested.unique(key, keep="first", maintain_order=True)
    joined = asked.select(*key, "legal_options", "support_low", "support_high", episodes).join(
        predictions, on=key, how="left", maintain_order="left"
    )
    tables = _halved(author, joined) if "halving" in joined.columns else _outputs(author, joined)
    if any(estimate.fits for estimate in estimates):
        found = (_fits_of(author, *pair) for pair in zip(estimates, exposed, strict=True))
        tables.append(("fits", pa.concat_tables(found)))
    return tables


def fits(author: Author, found: Iterable[Fit], training_set: str) -> pa.Table:
    """Return parameters as rows of ``raw/fits``."""
    rows = [
        {
            "run_id": author.run_id,
            "mode_id": author.mode_id,
            "family": author.family,
            "participant_id": fit.participant_id,
            "fold": fit.fold,
            "seed": author.seed,
            "training_set": training_set,
            "parameter": fit.parameter,
            "value": fit.value,
            "is_at_bound": fit.is_at_bound,
            "is_converged": fit.is_converged,
            "n_training": fit.n_training,
            "provenance": author.provenance,
        }
        for fit in found
    ]
    return pa.Table.from_pylist(rows, FITS)


@dataclass(frozen=True, slots=True)
class _Exposed:
    """What may be learned from and what is then predicted: no response is in both."""

    learned_from: pl.DataFrame
    asked: pl.DataFrame
    fold: int | None = None


def _fits_of(author: Author, estimate: Estimate, part: _Exposed) -> pa.Table:
    # the parameters of a cross-validation are told apart by the fold that they predict
    found = (replace(fit, fold=part.fold) if fit.fold is None else fit for fit in estimate.fits)
    return fits(author, found, estimate.training_set)


def _exposed(exposure: Exposure, trials: pl.DataFrame, asked: pl.DataFrame) -> Iterator[_Exposed]:
    """Yield the parts of a test that are predicted from the same responses."""
    if exposure == "training_participants":
        yield _Exposed(trials.filter(pl.col("split") == "train"), asked)
    elif exposure == "other_folds":
        yield from _cross_fitted(asked)
    elif exposure == "training_participants_or_other_folds":
        yield _Exposed(trials.filter(pl.col("split") == "train"), asked.filter(pl.col("fold").is_null()))
        yield from _cross_fitted(asked)
    else:
        yield _Exposed(trials.clear(), asked)


def _cross_fitted(asked: pl.DataFrame) -> Iterator[_Exposed]:
    """Yield each fold with the rows of all other folds; rows without a fold are in neither."""
    for fold in asked["fold"].drop_nulls().unique().sort():
        yield _Exposed(asked.filter(pl.col("fold") != fold), asked.filter(pl.col("fold") == fold), fold)


def _halved(author: Author, answers: pl.DataFrame) -> RawTables:
    """Return how one half of the respondents predicts the other: each halving is a question of its own."""
    named = answers.with_columns(
        # halvings of one panel depend on each other: the question stays the episode
        item_id=pl.format("{}/{}/{}", pl.lit(author.run_id), "item_id", "halving")
    )
    items = named.with_columns(
        mode_id=pl.lit(author.mode_id), source_id=pl.lit(author.source_id), weight=pl.lit(1.0)
    )
    return [("items", _as_rows(items, ITEMS)), *_outputs(author, named)]


def _outputs(author: Author, answers: pl.DataFrame) -> RawTables:
    """Return one output per answer, and one row for every option that has a probability."""
    outputs = answers.with_columns(
        run_id=pl.lit(author.run_id), mode_id=pl.lit(author.mode_id), status=pl.lit("ok")
    )
    tables = [("outputs", _as_rows(outputs, OUTPUTS))]
    if "logprobs_nats" in answers.columns:
        options = (
            outputs.filter(pl.col("logprobs_nats").is_not_null())
            .with_columns(option_index=pl.int_ranges(pl.col("legal_options").list.len()))
            .explode("legal_options", "logprobs_nats", "option_index")
            .rename({"legal_options": "option", "logprobs_nats": "logprob_nats"})
        )
        tables.append(("output_options", _as_rows(options, OUTPUT_OPTIONS)))
    return tables


def _as_rows(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the columns of a raw table; those that the frame lacks are null."""
    lacking = [pl.lit(None).alias(name) for name in schema.names if name not in frame.columns]
    return frame.with_columns(lacking).select(schema.names).to_arrow()
