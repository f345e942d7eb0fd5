"""Is the small model a real one, and is its folder the same wherever and however often it is made?"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from generate import small_model
from generate.weights import resolve

pytestmark = pytest.mark.engines

transformers = pytest.importorskip("transformers")

PROJECT = Path(__file__).resolve().parents[2]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
LINES_BEFORE_A_NUMBER = "red\n\n1. yes"


@pytest.fixture(scope="module")
def tokenizer(small_model_path):
    return transformers.AutoTokenizer.from_pretrained(small_model_path)


@pytest.fixture
def roomy_path(tmp_path) -> Iterator[Path]:
    """A folder that is not kept after the test: a model takes half a gigabyte."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_it_answers(small_model_path, tokenizer):
    model = transformers.AutoModelForCausalLM.from_pretrained(small_model_path)
    assert str(model.dtype) == "torch.float32"
    asked = tokenizer.apply_chat_template(
        QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.generate(**asked, max_new_tokens=20, do_sample=False)[0, asked["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_nothing_says_that_the_weights_are_still_packed(small_model_path):
    config = transformers.AutoConfig.from_pretrained(small_model_path)
    assert not hasattr(config, "quantization_config")
    assert config.max_position_embeddings == 8192


def test_plain_text_has_no_bos_and_a_chat_begins_with_the_one_of_its_template(tokenizer):
    plain = tokenizer("Hello world").input_ids
    assert plain == tokenizer("Hello world", add_special_tokens=False).input_ids
    rendered = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
    assert rendered.startswith("<|im_start|>system\n")
    assert rendered.endswith("<|im_start|>assistant\n")
    ids = tokenizer(rendered).input_ids
    assert ids[0] == tokenizer.bos_token_id == 1
    # a turn each of system, user and assistant, every one opened by the token that is also the BOS
    assert ids.count(tokenizer.bos_token_id) == 3
    assert tokenizer.eos_token == tokenizer.pad_token == "<|im_end|>"


def test_digits_are_cut_off_before_anything_else(tokenizer):
    # otherwise the two line ends would not be one token, because a number stands behind them
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(LINES_BEFORE_A_NUMBER).input_ids)
    assert tokens == ["red", "ĊĊ", "1", ".", "Ġyes"]


@pytest.mark.parametrize("text", [LINES_BEFORE_A_NUMBER, " café  2024 ", "Antwort: 模型\t3"])
def test_no_character_is_lost(tokenizer, text):
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_a_folder_that_is_there_is_not_made_again(small_model_path, monkeypatch):
    monkeypatch.setattr(small_model, "_make", lambda folder: pytest.fail(f"made {folder} again"))
    assert small_model.small_model(small_model_path) == small_model_path


def test_a_kill_leaves_nothing_half_and_the_next_run_makes_the_same_bytes(small_model_path, roomy_path):
    folder = roomy_path / "models" / "small"
    making = folder.with_name(".small.making")
    command = [sys.executable, "-m", "generate.small_model", str(folder)]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not any(making.glob("fetched/*.gguf")):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not folder.exists()

    assert small_model.small_model(folder) == folder
    assert not making.exists()
    assert resolve(str(folder)).revision == resolve(str(small_model_path)).revision


def test_the_hub_is_asked_where_the_package_cannot_be_had(small_model_path, roomy_path, monkeypatch):
    asked = {}

    def snapshot_download(
        repository: str, *, revision: str, local_dir: Path, allow_patterns: list[str]
    ) -> None:
        asked[repository] = revision
        for path in small_model_path.iterdir():
            if any(path.match(pattern) for pattern in allow_patterns):
                shutil.copy(path, local_dir)
        # the repository names a class that would cut text by its own rules
        config = local_dir / "tokenizer_config.json"
        config.write_text(config.read_text().replace('"TokenizersBackend"', '"GPT2Tokenizer"'))
        template = (small_model_path / "chat_template.jinja").read_text()
        (local_dir / "chat_template.jinja").write_text(template)

    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr(small_model.huggingface_hub, "snapshot_download", snapshot_download, raising=False)
    hashes = {
        name: hashlib.sha256((small_model_path / name).read_bytes()).hexdigest()
        for name in small_model._SHA256
    }
    monkeypatch.setattr(small_model, "_SHA256", hashes)

    folder = small_model.small_model(roomy_path / "small")
    assert asked == {"HuggingFaceTB/SmolLM2-135M-Instruct": "12fd25f77366fa6b3b4b768ec3050bf629380bac"}
    assert "on the hub at `12fd25f77366" in (folder / "README.md").read_text()
    made = transformers.AutoTokenizer.from_pretrained(folder)
    assert "ĊĊ" in made.convert_ids_to_tokens(made(LINES_BEFORE_A_NUMBER).input_ids)
    assert resolve(str(folder)).revision == resolve(str(small_model_path)).revision
