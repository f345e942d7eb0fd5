"""Stand-ins: sets of questions made by this project, each for a published one that not everybody can have.

A stand-in has its own name and revision, so that no score of it can be taken for one of the published set.
Its bytes are pinned in ``manifests/sources.toml``: they come from a generator that makes the same on every
machine, or from a committed file where the generator does not.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from uuid import uuid4

from store.errors import InvalidSource
from store.manifest import Source, load_sources

_N_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes the file of a stand-in.

    Attributes
    ----------
    module
        Has ``REVISION``, raised whenever a row changes, and either ``rows()``, which returns the rows in the
        order of the file, or, if the file is committed, ``path()``, which returns where it is. Has
        ``SOURCES``, the paths of all its files, if it is made of several modules.
    is_committed
        True if the file cannot be made again on every machine and so is a part of the project.
    """

    module: str
    is_committed: bool = False

    def load(self) -> ModuleType:
        """Import the generator."""
        return import_module(self.module)

    def sha256(self) -> str:
        """Return the hash of the generator's source text, 64 hex digits; line ends do not count."""
        module = self.load()
        files: tuple[Path, ...] = getattr(module, "SOURCES", (Path(str(module.__file__)),))
        texts = (file.read_bytes().replace(b"\r\n", b"\n") for file in files)
        return hashlib.sha256(b"".join(texts)).hexdigest()

    def content(self) -> bytes:
        """Return the bytes of the file."""
        module = self.load()
        if self.is_committed:
            committed: Path = module.path()
            return committed.read_bytes()
        return _json_lines(module.rows())


MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "smolcua_like": Maker("generate.standins.smolcua_like"),
        "marc_like": Maker("generate.standins.marc_like"),
        "pile_like": Maker("generate.standins.pile_like", is_committed=True),
        "ttm_like": Maker("generate.standins.ttm_like"),
    }
)


def generator_sha256(source_id: str) -> str:
    """Return the hash of the source text that makes a stand-in, 64 hex digits.

    Raises
    ------
    InvalidSource
        If there is no such stand-in.
    """
    return _maker(source_id).sha256()


def revision(source_id: str) -> str:
    """Return the revision under which a stand-in is pinned, such as ``1-0123456789ab``.

    Raises
    ------
    InvalidSource
        If there is no such stand-in.
    """
    maker = _maker(source_id)
    return f"{maker.load().REVISION}-{maker.sha256()[:_N_DIGITS]}"


def differences(source: Source) -> tuple[str, ...]:
    """Return one sentence for each respect in which the pin of a stand-in is not what its generator makes.

    Raises
    ------
    InvalidSource
        If there is no such stand-in.
    """
    maker = _maker(source.id)
    sentences = list(_not_pinned(source, maker.content()))
    if (found := revision(source.id)) != source.revision:
        sentences.append(
            f"[{source.id}] revision: expected {source.revision!r}, but {maker.module} is {found!r}; if the "
            f"change is meant, pin that revision"
        )
    return tuple(sentences)


def write(source_id: str, folder: Path) -> Path:
    """Write the file of a stand-in where a mirror keeps it.

    Parameters
    ----------
    source_id
        Name of the stand-in in ``manifests/sources.toml``.
    folder
        The mirror.

    Returns
    -------
    Path
        ``<folder>/<Source.mirror_path>``.

    Raises
    ------
    InvalidSource
        If there is no such stand-in, it is not pinned, or its generator makes anything but the pinned bytes.
    """
    maker, source = _maker(source_id), load_sources().get(source_id)
    if source is None:
        raise InvalidSource(f"manifests/sources.toml: expected a block [{source_id}], found none")
    content = maker.content()
    for wrong in _not_pinned(source, content):
        raise InvalidSource(f"manifests/sources.toml: {wrong}")
    path = folder / source.mirror_path(source.files[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    # whoever reads meanwhile finds a whole file or none
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _maker(source_id: str) -> Maker:
    try:
        return MAKERS[source_id]
    except KeyError:
        raise InvalidSource(f"{source_id}: expected a stand-in, one of {', '.join(sorted(MAKERS))}") from None


def _not_pinned(source: Source, content: bytes) -> Iterator[str]:
    if source.kind != "generated" or source.n_files != 1:
        yield f"[{source.id}]: expected one file of kind generated, found {source.n_files} of {source.kind}"
    sha256, pinned = hashlib.sha256(content).hexdigest(), source.files[0].sha256
    if sha256 != pinned:
        yield (
            f"[{source.id}] files: expected sha256 {pinned}, but {MAKERS[source.id].module} makes {sha256} "
            f"({len(content)} bytes); if the change is meant, raise REVISION there, and pin these bytes "
            f"under the revision that it then has"
        )


def _json_lines(rows: Iterable[Mapping[str, object]]) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()
