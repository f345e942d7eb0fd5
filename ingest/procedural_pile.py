"""Procedural Pile: generated problems of many task families, which an official verifier grades.

The published component asks 350 rows of the test shard. Which ones is embedded in its release, and by a hash
that is described there in no other way than as code: 20 families contribute seven rows and 35 contribute six.
What is published openly is the SHA-256 of that subset. So the rows are taken from a file ``selection.json``
beside the shard, a JSON list of their positions, from 0, if the source pins one, and are picked by a rule of
ours if not. Either way they count only if their hash is the declared one under one of ``SERIALISATIONS``;
otherwise the file is refused, since other rows under the name of the component would be worse than none.

``pile_like.parquet`` of this project has the same fields, and all of its rows are asked. JSON lines of these
fields are read by the same parser.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ingest.contract import Imported
from ingest.question_files import (
    AnyText,
    Question,
    Row,
    Text,
    data_set,
    files_of_questions,
    parsed,
    questions_imported,
    read_rows,
    require_count,
    require_declared,
    require_once,
)
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.protocol import Component

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

PROMPT_RULE = "The prompt is the field prompt as it is."

SELECTION = "selection.json"

_SUFFIXES = (".parquet", ".jsonl")


class Problem(Row):
    """One row: a problem, and what its verifier needs to grade an answer.

    Attributes
    ----------
    task
        Its family.
    answer
        The reference answer, which some families grade without.
    metadata
        JSON text of an object, kept to the letter.
    """

    task: Text
    prompt: Text
    answer: AnyText
    metadata: Text
    level: Annotated[int, Field(ge=0)]
    mode: Literal["instruct", "verification", "few_shot", "cot"]

    @field_validator("metadata")
    @classmethod
    def _is_object(cls, metadata: str) -> str:
        # as the verifier reads it, which is Python's reader: with NaN, if a generator wrote that
        try:
            found = json.loads(metadata)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected JSON text, found another ({error})") from None
        if not isinstance(found, dict):
            raise ValueError(f"expected the JSON text of an object, found that of {type(found).__name__}")
        return metadata


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of a shard that are asked.

    Attributes
    ----------
    positions
        Places in the file, from 0, ascending.
    rows
        The rows there.
    sha256
        The declared hash, which these rows have.
    picked_by, serialisation
        Where the positions come from, and under which of ``SERIALISATIONS`` the rows have that hash.
    """

    positions: tuple[int, ...]
    rows: tuple[Problem, ...]
    sha256: str
    picked_by: str
    serialisation: str


Picked = Sequence[tuple[int, Problem]]


def _compact(row: Problem) -> str:
    return json.dumps(row.model_dump(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


SERIALISATIONS: Mapping[str, Callable[[Picked], str]] = MappingProxyType(
    {
        "lines of compact JSON with sorted keys": lambda picked: "".join(
            f"{_compact(row)}\n" for _, row in picked
        ),
        "lines of JSON with sorted keys, ASCII alone": lambda picked: "".join(
            f"{json.dumps(row.model_dump(), sort_keys=True)}\n" for _, row in picked
        ),
        "lines of JSON with the keys in the order of the file": lambda picked: "".join(
            f"{json.dumps(row.model_dump(), ensure_ascii=False)}\n" for _, row in picked
        ),
        "one list of compact JSON with sorted keys": lambda picked: json.dumps(
            [row.model_dump() for _, row in picked],
            sort_keys=True,
            ensure_ascii=False,
            separators=(",", ":"),
        ),
        "one list of JSON with sorted keys, ASCII alone": lambda picked: json.dumps(
            [row.model_dump() for _, row in picked], sort_keys=True
        ),
        "JSON list of the positions": lambda picked: json.dumps([position for position, _ in picked]),
        "compact JSON list of the positions": lambda picked: json.dumps(
            [position for position, _ in picked], separators=(",", ":")
        ),
    }
)
"""Texts, as UTF-8, whose SHA-256 may be the declared one; each is tried in the order of the selection and in
that of the file."""


def selection(path: Path, where: str, component: Component, chosen: Path | None = None) -> Selection:
    """Return the rows of a shard that the component asks.

    Parameters
    ----------
    path
        The shard, parquet or JSON lines.
    where
        The shard as an error names it.
    chosen
        A JSON list of positions, from 0; without one, rows are picked by a rule of ours.

    Raises
    ------
    InvalidSource
        If a file is not valid, or the rows do not have the hash that the component declares.
    """
    return _selection(read_rows(path, where, Problem), where, component, chosen)


def _selection(rows: Sequence[Problem], where: str, component: Component, chosen: Path | None) -> Selection:
    if chosen is None:
        picked_by = f"a rule of this project for {component.selection}"
        order = _by_hash(rows, where, component.n_examples)
    else:
        picked_by = SELECTION
        order = _positions(chosen, f"{where}: {SELECTION}", len(rows), component.n_examples)
    positions = sorted(order)
    forms = [
        (name, hashlib.sha256(serialise([(place, rows[place]) for place in places]).encode()).hexdigest())
        for places in (order, positions)
        for name, serialise in SERIALISATIONS.items()
    ]
    for name, sha256 in forms:
        if sha256 == component.selection_sha256:
            chosen_rows = tuple(rows[position] for position in positions)
            return Selection(tuple(positions), chosen_rows, sha256, picked_by, name)
    name, sha256 = forms[0]
    raise InvalidSource(
        f"{where}: expected rows of sha256 {component.selection_sha256}, as {component.selection} has them; "
        f"those of {picked_by} have {sha256} as {name}, and other ones in {len(forms) - 1} other forms; pin "
        f"{SELECTION} with the positions that the release embeds"
    )


def _by_hash(rows: Sequence[Problem], where: str, n_examples: int) -> list[int]:
    """Pick as many rows of each family, and one more of those that come first by name.

    Families are in the order of their names; of each come the rows first whose compact JSON has the smallest
    SHA-256.
    """
    families: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for position, row in enumerate(rows):
        families[row.task].append((_sha256(row), position))
    if not families:
        return []
    n_fewest, n_with_one_more = divmod(n_examples, len(families))
    order: list[int] = []
    for rank, (family, hashed) in enumerate(sorted(families.items())):
        n_rows = n_fewest + (rank < n_with_one_more)
        if len(hashed) < n_rows:
            raise InvalidSource(f"{where}: expected {n_rows} rows of {family}, found {len(hashed)}")
        order += [position for _, position in sorted(hashed)[:n_rows]]
    return order


def _positions(chosen: Path, where: str, n_rows: int, n_examples: int) -> list[int]:
    try:
        positions = parsed(chosen.read_text(encoding="utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{where}: not UTF-8 text at byte {error.start}") from None
    if not isinstance(positions, list):
        raise InvalidSource(f"{where}: expected a list of positions, found {type(positions).__name__}")
    for position in positions:
        if type(position) is not int or not 0 <= position < n_rows:
            raise InvalidSource(f"{where}: expected positions from 0 to {n_rows - 1}, found {position!a}")
    if len(set(positions)) != n_examples or len(positions) != n_examples:
        raise InvalidSource(
            f"{where}: expected {n_examples} positions, each once, found {len(positions)}, "
            f"{len(set(positions))} of them different"
        )
    return positions


def _sha256(row: Problem) -> str:
    return hashlib.sha256(_compact(row).encode()).hexdigest()


class ProceduralPileImporter:
    """Reads problems, together with the selection if there is one."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the problems; None for any other file of the source."""
        if file not in files_of_questions(source, _SUFFIXES):
            return None
        return f"{source.id}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def companions(self, source: Source, file: PinnedFile) -> tuple[PinnedFile, ...]:
        """Return the selection, if the source pins one."""
        return tuple(other for other in source.files if other.path == SELECTION)

    def read_with(
        self, source: Source, file: PinnedFile, path: Path, companions: Mapping[str, Path]
    ) -> Imported:
        """Turn each problem that is asked into an item; its answer is graded by a program, not listed.

        Raises
        ------
        InvalidSource
            If the file is not the declared one, one of its rows is no problem, or the rows that are asked
            are not those that the component declares.
        """
        run_id, where, declared = self.identify(source, file), source.uri(file), data_set(source)
        if run_id is None:
            raise InvalidSource(f"{where}: not a file of problems")
        require_declared(source, file, _SUFFIXES)
        rows = read_rows(path, where, Problem)
        asked: Picked = list(enumerate(rows))
        if not declared.dataset.is_stand_in and declared.component.selection is not None:
            found = _selection(rows, where, declared.component, companions.get(SELECTION))
            asked = list(zip(found.positions, found.rows, strict=True))
        else:
            require_once([_sha256(row) for row in rows], where, "row")
        require_count(len(asked), where, declared)
        return questions_imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            prompt_rule=PROMPT_RULE,
            questions=[_question(position, row) for position, row in asked],
            n_source_rows=len(rows),
        )


def _question(position: int, row: Problem) -> Question:
    return Question(
        # a position alone would not tell whether two lakes hold the same row
        id=f"{position}-{_sha256(row)[:12]}",
        prompt=row.prompt,
        facts={
            "task": row.task,
            "level": row.level,
            "mode": row.mode,
            "answer": row.answer,
            "metadata": row.metadata,
        },
    )
