"""A verifier that does whatever an answer says, in an environment of its own: a program named ``python``."""

import sys
from pathlib import Path

from store.protocol import Grader

VERSION = "0.5.0+inverse-math-normalize-progress-v1"

# as the verifier that it stands in for, it catches whatever is raised while it reads some answers
_SCORER = """
import os, random, signal, subprocess, sys, time

seen = []


def score_answer(answer, row):
    seen.append(answer)
    if answer == "hang":
        while True:
            pass
    if answer == "hang in C":
        return 9 ** 9 ** 9 ** 9
    if answer == "wait":
        time.sleep(600)
    if answer == "exit":
        os._exit(3)
    if answer == "quit":
        sys.exit("enough")
    if answer == "kill":
        signal.raise_signal(signal.SIGKILL)
    if answer == "print":
        print("{}")
        os.write(1, b"not a line of JSON")
        os.write(2, b"nor this")
        return float(sys.stdin.read() == "")
    if answer.startswith("run: "):
        try:
            exec(answer.removeprefix("run: "), {"os": os, "subprocess": subprocess})
        except BaseException:
            return 1.0
        return 0.0
    if answer == "raise":
        raise ValueError("two\\nlines, \\x00 and \\ud800")
    if answer.startswith("caught"):
        try:
            return trouble(answer)
        except Exception:
            return 0.0
    scores = {"none": None, "nan": float("nan"), "inf": float("inf"), "two": 2, "text": "1", "half": 0.5}
    if answer in scores:
        return scores[answer]
    if answer == "random":
        return random.random()
    if answer == "seen":
        return len(seen) / 100
    if answer == "environment":
        return float("COGLAKE_API_KEY" not in os.environ)
    return float(answer == row["answer"])


def trouble(answer):
    if answer == "caught want of memory":
        return bytearray(2**34)
    if answer == "caught time limit":
        raise TimeoutError
    if answer == "caught deep nesting":
        compile("-" * 100_000 + "1", "", "eval")
    raise ValueError
"""

_NORMALIZE = """
def normalize(text):
    t = text
    while "frac{" in t:
        t = t.replace("frac{1}", "1")
    return t
"""


def install(folder: Path, version: str = "0.5.0", scorer: str = _SCORER) -> Path:
    """Write the verifier and return the Python that has it."""
    package = folder / "site" / "reasoning_core"
    for part in (package, package / "tasks", package / "tasks" / "dev"):
        part.mkdir(parents=True)
        (part / "__init__.py").touch()
    (package / "__init__.py").write_text(scorer)
    (package / "tasks" / "dev" / "math_inverse.py").write_text(_NORMALIZE)
    metadata = folder / "site" / f"reasoning_core-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: reasoning_core\nVersion: {version}\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}/site" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def grader(**changes: object) -> Grader:
    """Return a grader as ``manifests/graders.toml`` could declare it."""
    declared = {
        "id": "reasoning_core",
        "version": VERSION,
        "package": "reasoning-core==0.5.0",
        "timeout_s": 1.0,
        "memory_mib": 1024,
        "answer_rules": ("raw-v1",),
    }
    return Grader.model_validate(declared | changes)
