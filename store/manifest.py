"""Pinned upstream sources, as ``manifests/sources.toml`` declares them."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from store.errors import InvalidSource
from store.settings import project_dir

Kind = Literal["github", "hub_dataset", "hub_model", "generated"]

_SCHEMES: dict[Kind, str] = {
    "github": "github://",
    "hub_dataset": "hub://datasets/",
    "hub_model": "hub://models/",
    "generated": "generated://",
}
# no name starts with a dot, so neither "." nor ".." can appear in a folder made from it
_NAME = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_SENTENCES = {"extra_forbidden": "unknown key", "missing": "the key is missing"}


class PinnedFile(BaseModel):
    """One file of a source.

    Attributes
    ----------
    path
        Path inside the source, with forward slashes.
    sha256
        64 lower-case hex digits.
    bytes
        Size; None if it is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(strict=True)]
    sha256: Annotated[str, Field(strict=True)]
    bytes: Annotated[int, Field(strict=True, ge=0)] | None = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        if "\\" in path or not path.isprintable() or {"", ".", ".."} & set(path.split("/")):
            raise ValueError(
                f"{path!r} is not a plain relative path: no '..', '.', backslash or leading slash"
            )
        return path

    @field_validator("sha256")
    @classmethod
    def _is_sha256(cls, sha256: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise ValueError(f"expected 64 lower-case hex digits, found {sha256!r}")
        return sha256


class Source(BaseModel):
    """One upstream at one revision.

    Attributes
    ----------
    id
        Name of the block in the manifest.
    kind
        Where the bytes come from; ``generated`` ones are made by this project.
    repo
        ``owner/name``; a plain name for ``generated``.
    revision
        Commit of 40 hex digits; a version such as ``1`` for ``generated``.
    licence
        As upstream states it, or ``none stated``.
    gated
        True if upstream hands the files only to an account that accepted its terms.
    private
        True if the rows may not be handed on for another reason, which the description gives.
    files
        Every file that the project reads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: Kind
    repo: Annotated[str, Field(strict=True)]
    revision: Annotated[str, Field(strict=True)]
    licence: Annotated[str, Field(strict=True, min_length=1)]
    description: Annotated[str, Field(strict=True, min_length=1)]
    gated: Annotated[bool, Field(strict=True)] = False
    private: Annotated[bool, Field(strict=True)] = False
    files: Annotated[tuple[PinnedFile, ...], Field(min_length=1)]

    @field_validator("id")
    @classmethod
    def _is_short_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"expected lower-case letters, digits and underscores, found {name!r}")
        return name

    @field_validator("repo")
    @classmethod
    def _is_repository(cls, repo: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind")
        if kind == "generated" and not re.fullmatch(_NAME, repo):
            raise ValueError(f"expected a plain name, found {repo!r}")
        if kind != "generated" and not re.fullmatch(f"{_NAME}/{_NAME}", repo):
            raise ValueError(f"expected owner/name, found {repo!r}")
        return repo

    @field_validator("revision")
    @classmethod
    def _is_immutable(cls, revision: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind")
        if kind == "generated" and not re.fullmatch(_NAME, revision):
            raise ValueError(f"expected a version such as '1', found {revision!r}")
        if kind != "generated" and not re.fullmatch(r"[0-9a-f]{40}", revision):
            raise ValueError(
                f"expected 40 lower-case hex digits, found {revision!r}; a branch name is not a revision"
            )
        return revision

    @field_validator("files")
    @classmethod
    def _has_each_path_once(cls, files: tuple[PinnedFile, ...]) -> tuple[PinnedFile, ...]:
        seen: set[str] = set()
        for file in files:
            if file.path in seen:
                raise ValueError(f"{file.path!r} is pinned twice")
            seen.add(file.path)
        return files

    @property
    def n_files(self) -> int:
        """Number of pinned files."""
        return len(self.files)

    @property
    def n_bytes(self) -> int | None:
        """Size of all files together; None if one of them is not known."""
        sizes = [file.bytes for file in self.files if file.bytes is not None]
        return sum(sizes) if len(sizes) == self.n_files else None

    @property
    def is_restricted(self) -> bool:
        """Tell whether raw text of the source may not be handed on."""
        return self.gated or self.private

    @property
    def address(self) -> str:
        """The upstream at any revision, such as ``github://owner/repo``."""
        return f"{_SCHEMES[self.kind]}{self.repo}"

    def uri(self, file: PinnedFile) -> str:
        """Return the name of ``file`` in messages and raw rows, such as ``github://owner/repo@rev/path``."""
        return f"{self.address}@{self.revision}/{file.path}"

    def mirror_path(self, file: PinnedFile) -> str:
        """Return where a mirror keeps ``file``, such as ``github/owner/repo/rev/path``."""
        return f"{_SCHEMES[self.kind].replace('://', '/')}{self.repo}/{self.revision}/{file.path}"


def load_sources(path: Path | None = None) -> dict[str, Source]:
    """Read the pinned sources, in the order of the file.

    Parameters
    ----------
    path
        Manifest to read; by default ``manifests/sources.toml`` of the project.

    Raises
    ------
    InvalidSource
        If the file is not TOML or a pin is not valid; the sentence names file, source and field.
    """
    path = path or project_dir() / "manifests" / "sources.toml"
    try:
        blocks = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSource(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidSource(f"{path}: not valid TOML: {error}") from None

    sources: dict[str, Source] = {}
    owners: dict[tuple[str, str, str], str] = {}
    for source_id, block in blocks.items():
        source = _source(path, source_id, block)
        upstream = (source.kind, source.repo, source.revision)
        if upstream in owners:
            # two blocks for one upstream would bring its rows in twice, under two names
            raise InvalidSource(
                f"{path}: [{source_id}] repo: [{owners[upstream]}] already pins {source.repo}"
            )
        owners[upstream] = source_id
        sources[source_id] = source
    return sources


def _source(path: Path, source_id: str, block: object) -> Source:
    if not isinstance(block, dict):
        raise InvalidSource(f"{path}: {source_id}: expected a [{source_id}] block, found {block!r}")
    if "id" in block:
        raise InvalidSource(f"{path}: [{source_id}] id: unknown key; the block's name is the id")
    try:
        return Source.model_validate({"id": source_id, **block})
    except ValidationError as error:
        first = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        if "error" in first.get("ctx", {}):
            sentence = str(first["ctx"]["error"])
        else:
            sentence = _SENTENCES.get(first["type"]) or f"{first['msg']}, found {first['input']!r}"
        raise InvalidSource(f"{path}: [{source_id}] {field.removeprefix('.')}: {sentence}") from None
