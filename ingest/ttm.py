"""Tiny Theory of Mind: short stories with four endings, one of which fits what somebody believes.

``tiny_theory_of_mind_2000.jsonl`` of AxiomicLabs/Tiny_Theory_of_Mind, or ``ttm_like.jsonl`` of this project
in the same schema. A model writes nothing: its answer is how likely it holds each ending after the story.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, field_validator

from ingest.question_files import DataSet, Question, QuestionImporter, Row, Text
from store.manifest import Source
from store.protocol import Component

N_ENDINGS = 4


class _Topic(Row):
    topic: Text


class Story(Row):
    """One line: a story, its endings, and which of them is credited, from 0."""

    ind: Annotated[int, Field(ge=0)]
    ctx: Text
    endings: Annotated[list[Text], Field(min_length=N_ENDINGS, max_length=N_ENDINGS)]
    label: Annotated[int, Field(ge=0, lt=N_ENDINGS)]
    activity_label: Text
    metadata: _Topic

    @field_validator("endings")
    @classmethod
    def _differ(cls, endings: list[str]) -> list[str]:
        stripped = [ending.strip() for ending in endings]
        if len(set(stripped)) < N_ENDINGS:
            raise ValueError(f"expected {N_ENDINGS} different endings, found {len(set(stripped))}")
        return stripped


class TheoryOfMindImporter(QuestionImporter[Story]):
    """Turns each story into an item whose legal options are its endings."""

    row = Story
    version = 1
    prompt_rule = "The prompt is the field ctx, an option an ending without the white space around it."
    id_field = "ind"

    def question(self, row: Story, component: Component) -> Question:
        """Return the story with its endings as options."""
        return Question(
            id=str(row.ind),
            prompt=row.ctx,
            facts={"activity": row.activity_label, "topic": row.metadata.topic},
            legal=row.endings,
            credited=[row.endings[row.label]],
        )

    def require(self, rows: Sequence[Story], where: str, source: Source, declared: DataSet) -> None:
        """Ask for nothing more: stories are in no groups."""
