"""How often people give each answer to a question, smoothed: the lookup table of Binz et al. (2025).

The probability of an answer is its share among the answers of those whom the table learns from, after alpha
more of every legal answer. One alpha serves all questions: the one on a grid under which the answers of
left-out participants are likeliest.
"""

from typing import Annotated

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from generate.agents.value_learning import Axis
from generate.contract import Estimate, Exposure, Fit, Floats, Ints, Training
from generate.references.decoding import require, with_choice, with_facts

_FACTS = pl.Struct({"experiment": pl.String, "question": pl.String})
# the same words with another number of legal answers are another question; what stands for an answer may
# differ from person to person, such as keys that are drawn anew, and its place does not
_QUESTION = ["experiment", "question", "n_options"]


def _is_positive(axis: Axis) -> Axis:
    if axis.bounds[0] <= 0:
        raise ValueError(f"alpha must be more than 0, found {axis.bounds[0]}")
    return axis


class SmoothedTables(BaseModel):
    """Answer frequencies of other participants, smoothed on the full support of the question.

    ``facts_json`` of an item holds ``question`` and ``experiment`` (if absent, the data set is the
    experiment). An answer is its place among the legal ones. Of a question that was not learned all answers
    are equally likely.

    Attributes
    ----------
    alpha
        The grid.
    n_folds
        Of the cross-validation that chooses alpha: participants in the order of their names are dealt to the
        folds in turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    alpha: Annotated[Axis, AfterValidator(_is_positive)]
    n_folds: Annotated[int, Field(strict=True, ge=2)]

    @property
    def exposure(self) -> Exposure:
        """Fitted to training participants, or across folds in a data set that has none."""
        return "training_participants_or_other_folds"

    def fit(self, training: Training) -> Estimate:
        """Count answers, and choose alpha by cross-validation across the participants of ``training`` alone.

        Of equally good values of alpha the least is taken.

        Returns
        -------
        Estimate
            ``parameters``: one row per question with ``logprobs_nats`` of its legal options. Fits are
            ``alpha`` and ``cross_validated_nll``, the latter in nats per answer; none without answers.

        Raises
        ------
        InvalidSource
            If an item has no question.
        """
        rows = _questions(training.trials)
        questions = rows.select(_QUESTION).unique(maintain_order=True).with_row_index("position")
        answers = rows.filter(pl.col("choice") >= 0).join(questions, on=_QUESTION, how="left")
        n_options = questions["n_options"].to_numpy().astype(np.int64)
        by_fold = self._counts(answers, n_options)
        losses = cross_validated_nll(by_fold, n_options, self.alpha.values)
        best = int(losses.argmin())
        alpha = float(self.alpha.values[best])
        known = zip(log_shares(by_fold.sum(axis=0), n_options, alpha), n_options, strict=True)
        logprobs = pl.Series("logprobs_nats", [table[:n].tolist() for table, n in known], pl.List(pl.Float64))
        is_at_bound = alpha in (self.alpha.values[0], self.alpha.values[-1])
        fits = (
            Fit("alpha", alpha, is_at_bound=is_at_bound, n_training=answers.height),
            Fit("cross_validated_nll", float(losses[best]), n_training=answers.height),
        )
        words = f"{answers.height} answers of {answers['participant_id'].n_unique()} participants"
        return Estimate(questions.with_columns(logprobs), fits if answers.height else (), words)

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of every legal answer, for each participant who was asked.

        Those of different folds have different tables, so a prediction is of one participant's answer alone.
        """
        n_options = pl.col("n_options")
        unknown = (-n_options.cast(pl.Float64).log()).repeat_by(n_options)
        return (
            _questions(trials)
            .join(estimate.parameters, on=_QUESTION, how="left", maintain_order="left")
            .select("item_id", "participant_id", pl.coalesce("logprobs_nats", unknown).alias("logprobs_nats"))
        )

    def _counts(self, answers: pl.DataFrame, n_options: Ints) -> Floats:
        """Return how often each option was chosen: folds x questions x options, 0 beyond the last option."""
        counts = np.zeros((self.n_folds, n_options.size, n_options.max(initial=1)))
        fold = (answers["participant_id"].rank("dense").cast(pl.Int64) - 1) % self.n_folds
        np.add.at(counts, (fold.to_numpy(), answers["position"].to_numpy(), answers["choice"].to_numpy()), 1)
        return counts


def log_shares(counts: Floats, n_options: Ints, alpha: float) -> Floats:
    """Return the logarithm of each option's smoothed share.

    Parameters
    ----------
    counts
        Answers: ... x questions x options; 0 beyond a question's last option, where the result has no
        meaning.
    n_options
        Legal answers of each question.
    alpha
        Added to every legal option.
    """
    totals = counts.sum(axis=-1) + alpha * n_options
    shares: Floats = np.log(counts + alpha) - np.log(totals)[..., None]
    return shares


def cross_validated_nll(by_fold: Floats, n_options: Ints, alphas: Floats) -> Floats:
    """Return the mean negative log-likelihood, in nats, of each fold's answers under tables of the others.

    Parameters
    ----------
    by_fold
        Answers: folds x questions x options.
    n_options
        Legal answers of each question.
    alphas
        Values to try.

    Returns
    -------
    Floats
        One number per value of alpha; 0 if there are no answers.
    """
    others = by_fold.sum(axis=0) - by_fold
    n_answers = max(by_fold.sum(), 1.0)
    return np.array([-(by_fold * log_shares(others, n_options, alpha)).sum() / n_answers for alpha in alphas])


def _questions(trials: pl.DataFrame) -> pl.DataFrame:
    rows = with_facts(with_choice(trials), _FACTS).with_columns(
        pl.coalesce("experiment", "dataset").alias("experiment"),
        n_options=pl.col("legal_options").list.len(),
    )
    require(rows, *_QUESTION)
    return rows
