"""The analytic solution of the urn questions: the posterior that follows from what the question says."""

import json
from fractions import Fraction

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from store.errors import EngineFailed


class Bayes(BaseModel):
    """Answers with the exact posterior of the left urn.

    It reads the wheel, the red share of both urns and the colour of the ball: what a participant is told. A
    share such as 0.3 stands for three tenths, not for the double next to it, so the only rounding is that of
    the answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def answer(self, questions: pa.Table) -> pa.Table:
        """Answer every question: see :class:`generate.contract.Answerer`.

        Raises
        ------
        EngineFailed
            If a question does not say what the posterior depends on, or says what cannot happen.
        """
        posteriors = [
            float(_posterior(item, facts))
            for item, facts in zip(
                questions["item_id"].to_pylist(), questions["facts_json"].to_pylist(), strict=True
            )
        ]
        return pa.table(
            {
                "item_id": questions["item_id"],
                "response_text": pa.array([repr(report) for report in posteriors], type=pa.string()),
                "response_number": pa.array(posteriors, type=pa.float64()),
            }
        )


def _posterior(item_id: str, facts_json: str | None) -> Fraction:
    facts = json.loads(facts_json or "{}")
    try:
        prior, red_left, red_right = (
            Fraction(str(facts[name])) for name in ("prior", "red_share_left", "red_share_right")
        )
        is_red = facts["is_red"]
        if not all(0 <= share <= 1 for share in (prior, red_left, red_right)):
            raise ValueError("a share outside [0, 1]")
        left = prior * (red_left if is_red else 1 - red_left)
        right = (1 - prior) * (red_right if is_red else 1 - red_right)
        return left / (left + right)
    except KeyError as error:
        raise EngineFailed(f"{item_id}: expected an urn question, found no {error.args[0]}") from error
    except (ValueError, ZeroDivisionError) as error:
        raise EngineFailed(f"{item_id}: expected shares under which the ball can be drawn") from error
