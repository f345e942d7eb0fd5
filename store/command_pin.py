"""``coglake pin``: ask the hub what a repository holds, and write it down as a block of sources.toml."""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import huggingface_hub
from pydantic import ValidationError

from store import console
from store.errors import InvalidSource, SourceUnavailable, WrongUsage
from store.formats import to_json
from store.manifest import Source, load_sources
from store.settings import project_dir

if TYPE_CHECKING:
    from huggingface_hub.hf_api import DatasetInfo, ModelInfo, RepoSibling

Kind = Literal["dataset", "model"]

_N_FILES_NAMED = 5
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be pinned.

    Attributes
    ----------
    files
        Shell patterns of paths; every file but hidden ones if there are none.
    licence, description
        What the block says; None takes the licence that the hub states, and a plain description.
    """

    source_id: str
    repo: str
    kind: Kind
    revision: str
    files: Sequence[str] = ()
    licence: str | None = None
    description: str | None = None

    @property
    def page(self) -> str:
        """Address of the repository."""
        return f"https://huggingface.co/{'datasets/' if self.kind == 'dataset' else ''}{self.repo}"


def run(wanted: Wanted, *, is_written: bool, as_json: bool) -> None:
    """Print the block of a repository at its present commit, and with ``is_written`` append it.

    Raises
    ------
    WrongUsage
        If the names cannot be those of a source, or the source is pinned already.
    SourceUnavailable
        If the hub cannot be reached, does not know the repository, or hides it.
    InvalidSource
        If the repository has none of the files, or the manifest cannot be written.
    """
    path = project_dir() / "manifests" / "sources.toml"
    known = load_sources(path)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", wanted.source_id):
        raise WrongUsage(
            f"{wanted.source_id}: expected lower-case letters, digits and underscores as the source's name"
        )
    if not re.fullmatch(r"[^/\s]+/[^/\s]+", wanted.repo):
        raise WrongUsage(f"{wanted.repo}: expected owner/name, as the hub shows it")
    if wanted.source_id in known:
        pin = known[wanted.source_id]
        raise WrongUsage(
            f"{wanted.source_id}: pinned already, to {pin.repo}@{pin.revision[:12]}; "
            f"remove its block from {path.name} to pin it anew"
        )
    with console.progress(f"pin {wanted.source_id}"):
        source = _asked(wanted)
    block = as_toml(source)
    if is_written:
        _append(path, block)
    if as_json:
        console.write(to_json({"source": source.model_dump(), "block": block, "is_written": is_written}))
    else:
        console.write(block)
        if is_written:
            console.say(f"added to {path}: `coglake ingest {source.id}` fetches it")


def as_toml(source: Source) -> str:
    """Return a source as its block in the manifest."""
    # a JSON string is a TOML string
    lines = [
        f"[{source.id}]",
        *(
            f"{key} = {json.dumps(getattr(source, key), ensure_ascii=False)}"
            for key in ("kind", "repo", "revision", "licence", "description")
        ),
    ]
    if source.gated:
        lines.append("gated = true")
    lines.append("files = [")
    for file in source.files:
        size = "" if file.bytes is None else f", bytes = {file.bytes}"
        path = json.dumps(file.path, ensure_ascii=False)
        lines.append(f'    {{ path = {path}, sha256 = "{file.sha256}"{size} }},')
    return "\n".join([*lines, "]", ""])


def _asked(wanted: Wanted) -> Source:
    """Ask the hub for commit, files, hashes and licence."""
    api = huggingface_hub.HfApi()
    ask = api.dataset_info if wanted.kind == "dataset" else api.model_info
    try:
        info = ask(wanted.repo, revision=wanted.revision, files_metadata=True)
    except Exception as error:  # its HTTP library differs by version, and so do the classes it raises
        raise _unavailable(wanted, error) from None
    chosen = _chosen(wanted, info.siblings or ())
    sha256 = _hashed(wanted, info.sha, [file.rfilename for file in chosen if file.lfs is None])
    block = {
        "id": wanted.source_id,
        "kind": f"hub_{wanted.kind}",
        "repo": wanted.repo,
        "revision": info.sha,
        "licence": wanted.licence or _licence(info),
        "description": wanted.description or f"Files of {wanted.repo}.",
        "gated": bool(info.gated),
        "files": [
            {
                "path": file.rfilename,
                "sha256": sha256[file.rfilename] if file.lfs is None else file.lfs.sha256,
                "bytes": file.size if file.lfs is None else file.lfs.size,
            }
            for file in chosen
        ],
    }
    try:
        return Source.model_validate(block)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(f"{wanted.page}: {where}: {first['msg']}") from None


def _chosen(wanted: Wanted, siblings: "Iterable[RepoSibling]") -> "list[RepoSibling]":
    """Return the files to pin, by path."""
    files = sorted(siblings, key=lambda file: str(file.rfilename))
    if wanted.files:
        chosen = [
            file for file in files if any(fnmatchcase(file.rfilename, pattern) for pattern in wanted.files)
        ]
    else:
        chosen = [file for file in files if not Path(file.rfilename).name.startswith(".")]
    if not chosen:
        there = ", ".join(file.rfilename for file in files[:_N_FILES_NAMED]) or "no file"
        raise InvalidSource(
            f"{wanted.page}: expected {' or '.join(wanted.files) or 'a file'}, found {there}"
            f"{' and others' if len(files) > _N_FILES_NAMED else ''}"
        )
    return chosen


def _hashed(wanted: Wanted, revision: str | None, paths: Sequence[str]) -> dict[str, str]:
    """Fetch the files of which the hub states no SHA-256, which are small, and hash them."""
    if not paths:
        return {}
    import_module("huggingface_hub.utils").disable_progress_bars()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            try:
                copy = huggingface_hub.hf_hub_download(
                    wanted.repo, path, repo_type=wanted.kind, revision=revision, local_dir=folder
                )
            except Exception as error:  # as above
                raise _unavailable(wanted, error) from None
            with Path(copy).open("rb") as stream:
                found[path] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def _licence(info: "DatasetInfo | ModelInfo") -> str:
    """Return the licence that the hub states; its tags have it where the card has none."""
    stated = info.card_data.get("license") if info.card_data else None
    if isinstance(stated, list):
        stated = ", ".join(stated)
    tagged = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    return str(stated or ", ".join(tagged) or "none stated")


def _unavailable(wanted: Wanted, error: Exception) -> SourceUnavailable:
    """Say what is missing, by what the hub answered."""
    # an account that may not see a repository is told that there is none
    status = getattr(getattr(error, "response", None), "status_code", None)
    name = type(error).__name__
    if name == "GatedRepoError" or status == _FORBIDDEN:
        trouble = f"gated: accept its terms at {wanted.page}, then set HF_TOKEN"
    elif name == "RevisionNotFoundError":
        trouble = f"{wanted.page} has no revision {wanted.revision}"
    elif name == "RepositoryNotFoundError" or status in (_UNAUTHORIZED, _NOT_FOUND):
        trouble = f"the hub shows no such {wanted.kind}: correct name or --kind; a private one needs HF_TOKEN"
    else:
        first = next(iter(str(error).splitlines()), name)
        trouble = f"cannot ask {wanted.page}: {first}; check the network and HF_ENDPOINT"
    return SourceUnavailable(f"{wanted.repo}: {trouble}")


def _append(path: Path, block: str) -> None:
    """Append a block to the manifest, or leave the manifest as it was."""
    partial = path.with_name(f".{path.name}-{uuid4().hex}.tmp")
    try:
        partial.write_text(path.read_text(encoding="utf-8").rstrip("\n") + f"\n\n{block}", encoding="utf-8")
        load_sources(partial)
        partial.replace(path)
    except OSError as error:
        raise InvalidSource(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        partial.unlink(missing_ok=True)
