"""Files that hold a data set of CogniRank, one question a row: JSON lines, or parquet of the same fields.

A file is taken as a whole or refused as a whole, since a component with a row less is no component. A row is
refused for a field that is missing, unknown or of another type, for a number that JSON does not know, a key
that is there twice, and text that no engine could be asked (a NUL byte, half a surrogate pair). A byte order
mark at the beginning and carriage returns before line feeds stand between rows, so they mean nothing; what
stands inside a text is kept as it is, since it is what was asked. Two rows may ask in the same words: what is
one question is said by its id. No archive is unpacked here: a packed file is not JSON and is refused.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ingest.contract import Imported
from ingest.questions import imported
from store.errors import InvalidSource, first_line
from store.manifest import PinnedFile, Source
from store.protocol import Component, Dataset, load_components, load_datasets
from store.schemas import ITEMS

_PARQUET_MAGIC = b"PAR1"
_LONGEST_FOUND = 80
_JSON_LINES = (".jsonl",)


def _askable(value: object) -> object:
    if not isinstance(value, str):
        return value
    if "\x00" in value:
        raise ValueError("expected text, found a NUL byte in it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"expected text, found half a surrogate pair at character {error.start}") from None
    return value


def _not_blank(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("expected text, found none")
    return value


AnyText = Annotated[str, BeforeValidator(_askable)]
"""Text that can be asked and stored; it may be empty."""

Text = Annotated[AnyText, BeforeValidator(_not_blank)]
"""Text with something to read in it."""


class Row(BaseModel):
    """One row of a file: these fields, no others, each of its own type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class DataSet:
    """What the protocol declares of a source: which questions it holds, and what they may be."""

    dataset: Dataset
    component: Component

    @property
    def id(self) -> str:
        """The ``mode_id`` of its questions."""
        return self.dataset.dataset_id


def data_set(source: Source) -> DataSet:
    """Return what the protocol declares of a source.

    Raises
    ------
    InvalidSource
        If no data set is declared to come from it.
    """
    for dataset in load_datasets().values():
        if dataset.source_id == source.id:
            return DataSet(dataset, load_components()[dataset.component_id])
    raise InvalidSource(f"{source.id}: no data set of cognirank_datasets.csv comes from this source")


def files_of_questions(source: Source, suffixes: tuple[str, ...]) -> tuple[PinnedFile, ...]:
    """Return the files that may hold the questions of a source.

    If one has the SHA-256 that the component declares, that is the one. Otherwise each is read, and refused
    by :func:`require_declared`, which says why.
    """
    declared = data_set(source)
    may_be = tuple(file for file in source.files if file.path.endswith(suffixes))
    if declared.dataset.is_stand_in:
        return may_be
    return tuple(file for file in may_be if file.sha256 == declared.component.source_sha256) or may_be


def require_declared(source: Source, file: PinnedFile, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that is not the one that the component declares.

    Raises
    ------
    InvalidSource
        If revision, SHA-256 or repository of what is published are others than the component's, or several
        files may hold the questions of the source.
    """
    declared, where = data_set(source), source.uri(file)
    may_be = files_of_questions(source, suffixes)
    if len(may_be) > 1 and (declared.dataset.is_stand_in or declared.component.source_sha256 is None):
        names = ", ".join(other.path for other in may_be)
        raise InvalidSource(f"{where}: expected one file of questions in {source.id}, found {names}")
    if declared.dataset.is_stand_in:
        return
    component = declared.component
    if source.revision != component.revision:
        raise InvalidSource(
            f"{where}: expected revision {component.revision}, which {component.component_id} declares, "
            f"found {source.revision}: pin that one"
        )
    if component.source_sha256 is not None and file.sha256 != component.source_sha256:
        raise InvalidSource(
            f"{where}: expected sha256 {component.source_sha256}, which {component.component_id} declares, "
            f"found {file.sha256}: pin the file that has it"
        )
    # where no hash is published, this is all that tells whose the questions are
    if source.repo != component.repo:
        raise InvalidSource(
            f"{where}: expected a file of {component.repo}, which {component.component_id} declares, found "
            f"one of {source.repo}: pin that repository"
        )


def read_rows(path: Path, where: str, kind: type[RowT]) -> list[RowT]:
    """Read all rows of a file, in its order.

    Parameters
    ----------
    where
        The file as an error names it.

    Raises
    ------
    InvalidSource
        If one row is not what ``kind`` says; the sentence names its line, or in parquet its row from 1.
    """
    with path.open("rb") as handle:
        is_parquet = handle.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    found = _parquet_rows(path, where) if is_parquet else _json_rows(path, where)
    return [_valid(place, kind, fields) for place, fields in found]


def require_once(ids: Sequence[object], where: str, name: str) -> None:
    """Refuse a file in which two rows claim one ``name``.

    Raises
    ------
    InvalidSource
        The sentence names both rows, counted from 1 as lines are.
    """
    first: dict[object, int] = {}
    for number, value in enumerate(ids, start=1):
        if value in first:
            raise InvalidSource(
                f"{where}: row {number}: expected each {name} once, found {_shown(value)} in row "
                f"{first[value]} too"
            )
        first[value] = number


def require_count(n_found: int, where: str, declared: DataSet) -> None:
    """Refuse a file with more or fewer questions than the data set has.

    Raises
    ------
    InvalidSource
    """
    n_examples = declared.dataset.n_examples
    if n_found != n_examples:
        raise InvalidSource(
            f"{where}: expected {n_examples:,} questions, which {declared.id} has, found {n_found:,}"
        )


def require_equal_shares(groups: Iterable[int], where: str, name: str, expected: Iterable[int]) -> None:
    """Refuse a file whose groups are not the expected ones, or not of one size.

    Raises
    ------
    InvalidSource
    """
    counts, wanted = Counter(groups), set(expected)
    if set(counts) != wanted or len(set(counts.values())) != 1:
        found = ", ".join(f"{n:,} of {group}" for group, n in sorted(counts.items(), key=str))
        raise InvalidSource(
            f"{where}: expected each {name} of {min(wanted)} to {max(wanted)} equally often, found {found}"
        )


@dataclass(frozen=True, slots=True)
class Question:
    """One question, as ``raw/items`` holds it.

    Attributes
    ----------
    id
        Name within its data set.
    facts
        What SQL, graders and readers may want to know of it.
    legal
        Everything that may be answered, where that is a list.
    credited
        What is right; None where a grader says so.
    max_response_tokens
        Budget of the answer; None is that of the component.
    """

    id: str
    prompt: str
    facts: Mapping[str, object]
    legal: Sequence[str] | None = None
    credited: Sequence[str] | None = None
    weight: float = 1.0
    max_response_tokens: int | None = None


def questions_imported(
    source: Source,
    file: PinnedFile,
    *,
    run_id: str,
    importer_version: int,
    prompt_rule: str,
    questions: Sequence[Question],
    n_source_rows: int,
) -> Imported:
    """Return the run that a file of questions becomes.

    Parameters
    ----------
    prompt_rule
        How a prompt comes from a row, in a sentence; its hash is the ``template_sha256`` of the items.
    n_source_rows
        Rows of the file; more than questions where a selection is asked.

    Raises
    ------
    InvalidSource
        If two questions have one id.
    """
    declared = data_set(source)
    of_all = {
        "mode_id": declared.id,
        "source_id": source.id,
        "template_id": f"{declared.id}-v{importer_version}",
        "template_sha256": hashlib.sha256(prompt_rule.encode()).hexdigest(),
    }
    items = [
        of_all
        | {
            # by the bytes it comes from: two revisions of a set in one lake do not share their questions
            "item_id": f"{run_id}/{question.id}",
            "prompt": question.prompt,
            "legal_options": question.legal,
            "credited_options": question.credited,
            "facts_json": json.dumps(question.facts, ensure_ascii=False),
            "max_response_tokens": question.max_response_tokens,
            "weight": question.weight,
        }
        for question in questions
    ]
    n_set_aside = n_source_rows - len(questions)
    not_asked = "not among the selected rows; not asked"
    return imported(
        source,
        file,
        run_id=run_id,
        importer_version=importer_version,
        dataset=declared.id,
        modes=[declared.id],
        tables={"items": pa.Table.from_pylist(items, schema=ITEMS)},
        n_source_rows=n_source_rows,
        flaws=[(not_asked, n_set_aside)] if n_set_aside else (),
        set_aside=[not_asked],
    )


class QuestionImporter(ABC, Generic[RowT]):
    """Reads a file of JSON lines, each of which is one question.

    Attributes
    ----------
    row
        What a line holds.
    version
        Part of every run id: raise it when the same bytes are to be read in another way.
    prompt_rule
        How a prompt comes from a row, in a sentence.
    id_field
        The field by which rows differ.
    """

    row: type[RowT]
    version: int
    prompt_rule: str
    id_field = "id"

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of the questions; None for any other file of the source."""
        if file not in files_of_questions(source, _JSON_LINES):
            return None
        return f"{source.id}-{file.sha256[:12]}-v{self.version}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each line into an item.

        Raises
        ------
        InvalidSource
            If the file is not the declared one, or one of its lines is not what it should be.
        """
        run_id, where, declared = self.identify(source, file), source.uri(file), data_set(source)
        if run_id is None:
            raise InvalidSource(f"{where}: not the file of the questions")
        require_declared(source, file, _JSON_LINES)
        rows = read_rows(path, where, self.row)
        require_once([getattr(row, self.id_field) for row in rows], where, self.id_field)
        require_count(len(rows), where, declared)
        self.require(rows, where, source, declared)
        return questions_imported(
            source,
            file,
            run_id=run_id,
            importer_version=self.version,
            prompt_rule=self.prompt_rule,
            questions=[self.question(row, declared.component) for row in rows],
            n_source_rows=len(rows),
        )

    @abstractmethod
    def question(self, row: RowT, component: Component) -> Question:
        """Return what is asked in a row."""

    @abstractmethod
    def require(self, rows: Sequence[RowT], where: str, source: Source, declared: DataSet) -> None:
        """Refuse what no single row shows, such as groups that are not of one size.

        Raises
        ------
        InvalidSource
        """


def parsed(text: str, place: str) -> object:
    """Return the JSON value of ``text``; ``place`` is what an error names.

    Raises
    ------
    InvalidSource
        If it is not JSON as the standard has it: neither ``NaN`` nor a key twice in an object.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_number)
    except RecursionError:
        raise InvalidSource(f"{place}: expected a JSON value, found one that is nested too deeply") from None
    except ValueError as error:
        raise InvalidSource(f"{place}: not JSON ({error})") from None


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [repeated, *_] = (name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {_shown(repeated)} is there twice")
    return fields


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _json_rows(path: Path, where: str) -> Iterator[tuple[str, object]]:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        n_before = content.count(b"\n", 0, error.start)
        raise InvalidSource(f"{where}: line {n_before + 1}: not UTF-8 text at byte {error.start}") from None
    if not text:
        return
    # not splitlines(): JSON strings may hold other characters that end a line
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        place = f"{where}: line {number}"
        yield place, parsed(line, place)


def _parquet_rows(path: Path, where: str) -> Iterator[tuple[str, object]]:
    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches():
            for fields in batch.to_pylist():
                number += 1
                yield f"{where}: row {number}", fields
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidSource(f"{where}: not readable as parquet ({first_line(error)})") from error


def _valid(place: str, kind: type[RowT], fields: object) -> RowT:
    if not isinstance(fields, dict):
        raise InvalidSource(f"{place}: expected an object, found {_shown(fields)}")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(f"{place}: {f'{field}: ' if field else ''}{_sentence(first)}") from None


def _sentence(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "missing":
            return "the field is missing"
        case "extra_forbidden":
            return "unknown field"
        case "model_type":
            return f"expected an object, found {_shown(error['input'])}"
        case "value_error":
            return str(error["ctx"]["error"])
    message = str(error["msg"])
    return f"{message[:1].lower()}{message[1:]}, found {_shown(error['input'])}"


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}..."
