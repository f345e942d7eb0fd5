"""Which model exactly is meant: a folder by what is in it, a repository on the hub by its commit."""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import huggingface_hub  # loads its parts on first use, so that a folder costs no import of them

from store.errors import EngineFailed, SourceUnavailable, WrongUsage, first_line

# files of a folder that decide an answer; a README, logs and the state of a training do not
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_DESCRIPTIONS = (
    "config.json",
    "generation_config.json",
    "quant*_config.json",
    "*.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
    "tekken.json",
    "chat_template*",
    "additional_chat_templates/*",
)
# and where a configuration names classes of the model's own, the code in which they are
_CODE = ("*.py",)
_NAMING_CODE = ("config.json", "tokenizer_config.json")
_OF_A_TRAINING = ("training_args.bin", "optimizer.bin", "scheduler.bin")

_COMMIT = re.compile(r"[0-9a-fA-F]{40}")
_LONGEST_SLUG = 80
_N_HASHING_THREADS = 8
_HUB_TIMEOUT_S = 20.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


@dataclass(frozen=True, slots=True)
class Weights:
    """One model that never changes under its name.

    Attributes
    ----------
    model_id
        Name in tables: the repository on the hub, or the folder's own name.
    revision
        Commit of the repository, 40 hexadecimal digits; for a folder ``sha256:`` and 64 of them.
    path
        What an engine loads: the absolute path of the folder, or the repository.
    is_folder
        Whether ``path`` is a folder on this machine.
    """

    model_id: str
    revision: str
    path: str
    is_folder: bool


def resolve(model: str, revision: str | None = None, *, name: str | None = None) -> Weights:
    """Return which model is meant, fixed before anything runs.

    A folder is hashed: its revision is the SHA-256 of what ``sha256sum`` prints of the files that decide an
    answer (weights, configurations, tokenizer and chat template), in the order of their names. Python files
    right in the folder are among them if a configuration names classes of the model's own (``auto_map``),
    whether or not they are run. A branch or tag of a repository becomes its commit. That costs one request,
    and none for a commit.

    Parameters
    ----------
    model
        A folder, or a repository on the hub as ``owner/name``; a folder comes first.
    revision
        Branch, tag or commit of the repository; None for ``main``.
    name
        Name of a folder in tables, in place of its own.

    Raises
    ------
    WrongUsage
        If ``model`` is neither, the folder holds no model, or an argument does not go with it.
    SourceUnavailable
        If the hub cannot be asked, does not have the model, or does not give it to this account.
    EngineFailed
        If a file of the folder cannot be read.
    """
    folder = Path(model)
    if model and folder.is_dir():
        return _of_folder(folder.resolve(), revision, name)
    if not _is_repository(model):
        found = "is a file" if folder.is_file() else "is neither"
        raise WrongUsage(
            f"--model takes a folder or a repository on the hub as owner/name; {model!r} {found}: "
            "correct the path, or write the owner too"
        )
    if name is not None:
        raise WrongUsage(
            f"{model} is a repository and goes by its own name; only a folder can be given another"
        )
    return Weights(model, _commit(model, revision), model, is_folder=False)


def run_slug(model_id: str) -> str:
    """Return ``model_id`` in letters, digits and ``._-`` alone, at most 80 of them, for use in run ids.

    Two models may have the same: it is there to be read, and does not identify anything.
    """
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", model_id).strip("-.")
    return slug[:_LONGEST_SLUG].rstrip("-.") or "model"


# --- folders ---


def _of_folder(folder: Path, revision: str | None, name: str | None) -> Weights:
    if revision is not None:
        raise WrongUsage(
            f"{folder} is a folder, whose revision is the hash of its files: leave out the revision "
            f"{revision}"
        )
    model_id = folder.name if name is None else name.strip()
    if not model_id or not model_id.isprintable():
        raise WrongUsage(f"the model in {folder} needs a name of printable characters, found {model_id!r}")
    return Weights(model_id, f"sha256:{_folder_sha256(folder)}", str(folder), is_folder=True)


def _folder_sha256(folder: Path) -> str:
    try:
        names = sorted(
            path.relative_to(folder).as_posix()
            for path in (*folder.iterdir(), *folder.glob("additional_chat_templates/*"))
            if path.is_file()
        )
        patterns = _WEIGHTS + _DESCRIPTIONS + (_CODE if _names_code(folder) else ())
        decisive = [name for name in names if _is_any(name, patterns)]
        decisive = [name for name in decisive if name not in _OF_A_TRAINING]
        _require_model(folder, decisive)
        with ThreadPoolExecutor(_N_HASHING_THREADS) as pool:
            hashes = list(pool.map(_sha256, (folder / name for name in decisive)))
    except OSError as error:
        raise EngineFailed(f"cannot read {error.filename or folder}: {error.strerror}") from None
    lines = (f"{sha256}  {name}\n" for name, sha256 in zip(decisive, hashes, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _names_code(folder: Path) -> bool:
    """Tell whether a configuration in the folder names classes of the model's own."""
    return any("auto_map" in _object(folder / name) for name in _NAMING_CODE)


def _object(path: Path) -> dict[str, object]:
    """Return a JSON object; an empty one where there is none, of which an engine says more."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _require_model(folder: Path, names: list[str]) -> None:
    missing = [] if "config.json" in names else ["config.json"]
    if not any(_is_any(name, _WEIGHTS) for name in names):
        missing.append(f"weights ({', '.join(_WEIGHTS)})")
    if missing:
        raise WrongUsage(
            f"{folder} holds no model: expected config.json and weights, found no "
            f"{' and no '.join(missing)}; name the folder in which transformers saved a model"
        )


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- the hub ---


def _is_repository(model: str) -> bool:
    try:
        import_module("huggingface_hub.utils").validate_repo_id(model)
    except ValueError:
        return False
    return "/" in model


def _commit(repository: str, revision: str | None) -> str:
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision.lower()
    branch = "main" if revision is None else revision
    hub = huggingface_hub.HfApi()
    try:
        info = hub.model_info(repository, revision=branch, timeout=_HUB_TIMEOUT_S)
        commit = str(info.sha)
        if info.gated and _cached(repository, commit) is None:
            # anybody may read the commit of a gated model, but not its files
            hub.auth_check(repository)
    except Exception as error:  # its HTTP library differs by version, and so do the classes it raises
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND):
            raise SourceUnavailable(_refusal(error, status, repository, branch)) from None
        # without a network, the copy on this machine is what can be meant
        if cached := _cached(repository, branch):
            return cached
        raise SourceUnavailable(
            f"{repository}: cannot ask the hub for the commit of {branch!r} ({first_line(error)}): "
            "pass --revision with the 40-digit commit, or a folder as --model"
        ) from None
    return commit


def _refusal(error: Exception, status: int, repository: str, branch: str) -> str:
    errors = import_module("huggingface_hub.errors")
    page = f"https://huggingface.co/{repository}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{page} has no branch, tag or commit {branch!r} ({status}): correct --revision"
    is_gated = isinstance(error, errors.GatedRepoError)  # which is a kind of the next
    if isinstance(error, errors.RepositoryNotFoundError) and not is_gated:
        # the hub does not tell a stranger whether a private repository exists
        return (
            f"there is no folder {repository} here, and the hub shows no such repository ({status}): "
            "correct the name, or set HF_TOKEN if it is private"
        )
    return (
        f"the account of HF_TOKEN may not read {repository} ({status}): accept its terms at {page}, "
        "and set HF_TOKEN to a token of that account"
    )


def _cached(repository: str, revision: str) -> str | None:
    """Return the commit under which the hub's cache on this machine has a configuration of the model."""
    found = huggingface_hub.try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else None
