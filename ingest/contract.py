"""What an importer promises to the pipeline."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from store.manifest import PinnedFile, Source


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows for one raw table, in the schema of :mod:`store.schemas`."""

    table: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Imported:
    """What one source file became.

    Attributes
    ----------
    run_id
        Identity of the file and of the importer that read it.
    rows
        Tables in the order they are written; ``runs`` comes last and commits the others.
    n_source_rows
        Data rows in the file.
    n_unreadable_rows
        Rows kept with a status other than ``ok``.
    notes
        One sentence per kind of unreadable row, with its count.
    """

    run_id: str
    rows: tuple[RawRows, ...]
    n_source_rows: int
    n_unreadable_rows: int
    notes: tuple[str, ...]


class Importer(Protocol):
    """Reads one kind of source file into raw rows."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id that ``file`` becomes, without reading it; None if it holds no rows."""
        ...

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Parse the verified bytes at ``path``.

        Raises
        ------
        store.errors.InvalidSource
            If the file as a whole is not what the source declares.
        """
        ...


@runtime_checkable
class JoiningImporter(Protocol):
    """Reads a file that means nothing without others of its source, such as responses and their questions."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id that ``file`` becomes, without reading it; None if it holds no rows itself."""
        ...

    def companions(self, source: Source, file: PinnedFile) -> tuple[PinnedFile, ...]:
        """Return the other files that are read with ``file``."""
        ...

    def read_with(
        self, source: Source, file: PinnedFile, path: Path, companions: Mapping[str, Path]
    ) -> Imported:
        """Parse the verified bytes at ``path`` and at ``companions``, by path inside the source.

        Raises
        ------
        store.errors.InvalidSource
            If one of the files is not what the source declares.
        """
        ...


@runtime_checkable
class StreamingImporter(Protocol):
    """Reads a file that is larger than memory, part by part."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id that ``file`` becomes, without reading it; None if it holds no rows."""
        ...

    def stream(self, source: Source, file: PinnedFile, path: Path) -> Iterator[RawRows]:
        """Yield the parts of the tables of the verified bytes at ``path``; ``runs`` comes last, once.

        Raises
        ------
        store.errors.InvalidSource
            If the file as a whole is not what the source declares; what was yielded before never counts.
        """
        ...


def with_every_column(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a raw table; those that were not read are null."""
    columns = [
        found[field.name].cast(field.type)
        if field.name in found.column_names
        else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
