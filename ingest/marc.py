"""MARC: grid puzzles, each with demonstrations in plain text and one grid as the answer.

The published puzzles are what ``marc.py`` of FlameF0X/Micro-ARC prints for the seed string ``0``. That is a
program of others, and how it is called is not public: it is pinned and hashed here, and never run. Whoever
has it runs it, writes the 320 puzzles as ``puzzles.jsonl`` in the schema below into a mirror, and pins that
file beside the program. ``marc_like.jsonl`` of this project has the same schema.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, field_validator

from ingest.question_files import DataSet, Question, QuestionImporter, Row, Text, require_equal_shares
from store.errors import InvalidSource
from store.manifest import Source
from store.protocol import Component


class Puzzle(Row):
    """One line: a prompt with demonstrations, and the grid that continues it.

    Attributes
    ----------
    level
        How hard it is, from 0.
    answer
        Rows on lines, cells separated by one space.
    """

    id: Text
    family: Text
    level: Annotated[int, Field(ge=0)]
    prompt: Text
    answer: Text

    @field_validator("answer")
    @classmethod
    def _is_grid(cls, answer: str) -> str:
        rows = [line.split(" ") for line in answer.split("\n")]
        is_ragged = len({len(row) for row in rows}) > 1
        # two spaces make a cell of nothing, and other white space one of several parts
        if is_ragged or any(cell.split() != [cell] for row in rows for cell in row):
            raise ValueError(
                "expected a grid, rows of equally many cells with one space between, found another text"
            )
        return answer


class GridPuzzleImporter(QuestionImporter[Puzzle]):
    """Turns each puzzle into an item whose credited option is its grid."""

    row = Puzzle
    version = 1
    prompt_rule = "The prompt is the field prompt as it is."

    def question(self, row: Puzzle, component: Component) -> Question:
        """Return the puzzle."""
        return Question(
            id=row.id,
            prompt=row.prompt,
            facts={"family": row.family, "level": row.level, "format": "grid"},
            credited=[row.answer],
        )

    def require(self, rows: Sequence[Puzzle], where: str, source: Source, declared: DataSet) -> None:
        """Ask for the program beside its puzzles, and for every family equally often at every level."""
        program = declared.component.source_path
        if not declared.dataset.is_stand_in and program not in {file.path for file in source.files}:
            raise InvalidSource(
                f"{where}: expected {program} to be pinned beside the puzzles that it printed, found no such "
                "file: add it to the block"
            )
        levels = range(declared.component.n_strata)
        require_equal_shares([row.level for row in rows], where, "level", levels)
        counts = Counter((row.family, row.level) for row in rows)
        families = sorted({row.family for row in rows})
        n_each = len(rows) / len(families) / len(levels)
        for family in families:
            found = [counts[family, level] for level in levels]
            if set(found) != {n_each}:
                by_level = ", ".join(map(str, found))
                raise InvalidSource(
                    f"{where}: expected each family equally often at each level, found {by_level} of {family}"
                )
