"""SmolCUA: questions about using a computer, in three fixed passes, each answered in one of several formats.

The published questions are below ``runs/v1_4_seed_20261023/`` of dotlabs/smolcua. The name of the file and
its fields are not public, so what is read here is the schema of ``smolcua_like.jsonl`` of this project. Any
other schema is refused at its first line, and never half understood.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from ingest.question_files import DataSet, Question, QuestionImporter, Row, Text, require_equal_shares
from store.manifest import Source
from store.protocol import Component

SHORT_FORMATS = frozenset({"choice", "integer", "word", "action"})
"""Formats whose answer is one line, for which the shorter budget is enough."""

_LINES = frozenset({"steps", "grid"})

# sums of weights are exact in SQL within these bounds, and a question beyond them would be all that counts
_LIGHTEST, _HEAVIEST = 0.001, 1_000.0

Format = Literal["choice", "integer", "word", "action", "text", "steps", "grid"]


class Exercise(Row):
    """One row: a question and every answer that is accepted.

    Attributes
    ----------
    turn
        The field ``pass``: in which of the passes it is asked, from 1.
    kind
        What is asked.
    choices
        What may be answered, of the format ``choice`` alone.
    weight
        Points for a right answer, from 0.001 to 1,000.
    """

    id: Text
    turn: Annotated[int, Field(ge=1, alias="pass")]
    kind: Text
    format: Format
    prompt: Text
    answers: Annotated[list[Text], Field(min_length=1)]
    choices: Annotated[list[Text], Field(min_length=2)] | None = None
    weight: Annotated[float, Field(ge=_LIGHTEST, le=_HEAVIEST)]

    @field_validator("answers", "choices")
    @classmethod
    def _differ(cls, texts: list[str] | None) -> list[str] | None:
        if texts is not None and len({text.strip() for text in texts}) < len(texts):
            raise ValueError("expected different texts, found one twice")
        return texts

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if (self.format == "choice") != (self.choices is not None):
            found = "none" if self.choices is None else "some"
            raise ValueError(f"expected choices with the format choice alone, found {found} of {self.format}")
        for answer in self.answers:
            if self.format in SHORT_FORMATS and answer.splitlines() != [answer.strip()]:
                raise ValueError(f"expected answers of one line without space around, found {answer!a}")
            # a response is read up to its first blank line
            if self.format in _LINES and not all(map(str.strip, answer.split("\n"))):
                raise ValueError(f"expected answers without a blank line, found {answer!a}")
            if self.format == "integer" and not re.fullmatch(r"-?[0-9]+", answer):
                raise ValueError(f"expected whole numbers as answers, found {answer!a}")
            if self.choices is not None and answer not in self.choices:
                raise ValueError(f"expected every answer among the choices, found {answer!a}")
        return self


class ComputerUseImporter(QuestionImporter[Exercise]):
    """Turns each question into an item with its weight and the budget of its format."""

    row = Exercise
    version = 1
    prompt_rule = "The prompt is the field prompt as it is."

    def question(self, row: Exercise, component: Component) -> Question:
        """Return the question with all accepted answers."""
        is_short = row.format in SHORT_FORMATS
        return Question(
            id=row.id,
            prompt=row.prompt,
            facts={"pass": row.turn, "kind": row.kind, "format": row.format, "choices": row.choices},
            credited=row.answers,
            weight=row.weight,
            max_response_tokens=(
                component.max_response_tokens_short if is_short else component.max_response_tokens
            ),
        )

    def require(self, rows: Sequence[Exercise], where: str, source: Source, declared: DataSet) -> None:
        """Ask for passes of one size."""
        passes = range(1, declared.component.n_strata + 1)
        require_equal_shares([row.turn for row in rows], where, "pass", passes)
