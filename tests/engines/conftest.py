"""What tests of engines share: one small real model, made once and kept between runs."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def small_model_path() -> Path:
    """Folder of SmolLM2-135M-Instruct in float32, with tokenizer and chat template. Read only.

    It is made on first use from a pinned package, which takes half a minute, and kept in ``.models`` of the
    project or where ``COGLAKE_MODELS`` says.
    """
    from generate.small_model import small_model

    models = Path(os.environ.get("COGLAKE_MODELS") or PROJECT / ".models")
    return small_model(models / "SmolLM2-135M-Instruct")
