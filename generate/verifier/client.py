"""Asks the verifier, which lives in an environment of its own, for verdicts: JSON lines through two pipes."""

import hashlib
import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.errors import EngineFailed
from store.protocol import Grader
from store.settings import project_dir

_WORKER = Path(__file__).resolve().with_name("worker.py")
_PYTHON_VARIABLE = "COGLAKE_VERIFIER"
_PYTHON = Path(".venv-verifier/bin/python")
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
# a process with threads cannot be forked safely
_OF_THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

# much more than any answer and the loading of its family may take: only a worker that hangs is silent so long
_MOST_SILENCE_S = 3_600.0
_MOST_SECONDS_TO_END = 10.0
# verdicts on what was asked before; a run asks the same text under several rules, one after the other
_N_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer and the question that it answers.

    Attributes
    ----------
    row
        The question as the verifier knows it: ``task``, ``prompt``, ``answer``, ``metadata`` (JSON text),
        ``level`` and ``mode``.
    answer
        Any text: NUL bytes and lone surrogates reach the verifier as they are.
    """

    row: Mapping[str, Any]
    answer: str


class Verdict(BaseModel):
    """What the verifier says of an answer, or why it says nothing.

    Attributes
    ----------
    status
        ``ok``; ``timeout``; ``crash``, of its process or for want of memory; ``error``, an exception or what
        is no score; ``not_finite``, a score that is NaN or infinite.
    score
        From 0 to 1; None unless ``ok``.
    reason
        One line; None if ``ok``.
    seconds
        How long the answer took by the clock, without what is loaded before the first of its family.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Literal["ok", "timeout", "crash", "error", "not_finite"]
    score: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    reason: str | None = None
    seconds: float = Field(ge=0)


class Introduction(BaseModel):
    """What the verifier's environment holds.

    Attributes
    ----------
    version
        Of the verifier, with the names of our patches.
    python
        Version of its Python.
    packages
        Version by name.
    """

    version: str
    python: str
    packages: Mapping[str, str]


def verifier_python() -> Path:
    """Return the Python that has the verifier: of ``COGLAKE_VERIFIER``, or ``.venv-verifier`` of the project.

    Raises
    ------
    EngineFailed
        If there is none.
    """
    named = os.environ.get(_PYTHON_VARIABLE)
    python = Path(named) if named else project_dir() / _PYTHON
    if not python.is_file():
        raise EngineFailed(
            f"expected the Python of the verifier at {python}, found no such file: {_set_up()}"
        )
    return python


def _set_up() -> str:
    """Say how to get a verifier that works."""
    if os.environ.get(_PYTHON_VARIABLE):
        return f"correct {_PYTHON_VARIABLE}, or unset it and run `make setup-verifier`"
    return f"run `make setup-verifier`, or name a Python that has it with {_PYTHON_VARIABLE}"


class Verifier:
    """A verifier that runs until :meth:`close`; one answer at a time is in memory.

    Attributes
    ----------
    introduction
        What it is.
    folder
        Where it runs, empty at first: no file of the user is there for an answer that gets executed.

    Raises
    ------
    EngineFailed
        If it does not start, or is of another version than the grader's.
    """

    def __init__(self, grader: Grader) -> None:
        # before anything is opened
        python = verifier_python().absolute()
        self._grader = grader
        self._known: dict[bytes, Verdict] = {}
        self._is_introduced = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - until close
        self._temporary = tempfile.TemporaryDirectory(prefix="verifier-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a program of this project
                [
                    python,
                    # neither its own folder nor the user's packages hide the verifier's
                    "-P",
                    "-s",
                    _WORKER,
                    f"--timeout={grader.timeout_s}",
                    f"--memory={grader.memory_mib}",
                    f"--folder={self.folder}",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                cwd=self.folder,
                env=_environment(),
                # an interrupt from the keyboard is for this process, which ends the other
                start_new_session=True,
            )
        except OSError as error:
            self._forget()
            raise EngineFailed(
                f"the verifier {python} cannot be started ({error.strerror}): {_set_up()}"
            ) from error
        try:
            self.introduction = self._introduced()
            self._is_introduced = True
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it, also in the midst of an answer."""
        # without more to read it ends by itself
        with suppress(OSError):
            self._stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_MOST_SECONDS_TO_END)
        self._kill()
        self._stdout.close()
        self._forget()

    def _forget(self) -> None:
        self._complaints.close()
        self._temporary.cleanup()

    def verdict(self, asked: Asked) -> Verdict:
        """Return the verdict on an answer; the same answer to the same question is not graded again.

        Raises
        ------
        EngineFailed
            If the verifier ended or hangs.
        """
        # ASCII alone: then a lone surrogate passes as it is
        line = json.dumps({"row": dict(asked.row), "answer": asked.answer}).encode() + b"\n"
        key = hashlib.sha256(line).digest()
        if key not in self._known:
            if len(self._known) >= _N_REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = self._graded(line)
        return self._known[key]

    def _graded(self, line: bytes) -> Verdict:
        try:
            self._stdin.write(line)
            self._stdin.flush()
        except OSError:
            raise self._ended() from None
        try:
            return Verdict.model_validate_json(self._line())
        except ValidationError as error:
            raise self._talks_nonsense() from error

    def _introduced(self) -> Introduction:
        try:
            introduction = Introduction.model_validate_json(self._line())
        except ValidationError as error:
            raise self._talks_nonsense() from error
        if introduction.version != self._grader.version:
            raise EngineFailed(
                f"expected the verifier {self._grader.version} of manifests/graders.toml, found "
                f"{introduction.version}: {_set_up()}"
            )
        return introduction

    def _line(self) -> bytes:
        """Return the next line that the verifier writes."""
        readable, _, _ = select.select([self._stdout], [], [], _MOST_SILENCE_S)
        if not readable:
            self._kill()
            raise EngineFailed(
                f"the verifier gave no verdict within {_MOST_SILENCE_S:.0f} s and was ended; run the same "
                "command again, it goes on from here"
            )
        line: bytes = self._stdout.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        return line

    def _ended(self) -> EngineFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_MOST_SECONDS_TO_END)
        code = self._process.poll()
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        # one that got as far as to say what it is works
        then = "run the same command again, it goes on from here" if self._is_introduced else _set_up()
        return EngineFailed(f"the verifier ended with {how}{self._last_complaint()}: {then}")

    def _talks_nonsense(self) -> EngineFailed:
        return EngineFailed(
            f"expected a line of JSON from the verifier, found another{self._last_complaint()}: {_set_up()}"
        )

    def _last_complaint(self) -> str:
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - 2_000))
        lines = self._complaints.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f" ({said[-1][:300]})" if said else ""

    def _kill(self) -> None:
        # the process of the answer dies with it
        self._process.kill()
        self._process.wait()

    @property
    def _stdin(self) -> Any:  # noqa: ANN401
        return self._process.stdin

    @property
    def _stdout(self) -> Any:  # noqa: ANN401
        return self._process.stdout


def _environment() -> dict[str, str]:
    """Return what the verifier may see: no key, and no chance in the order of a set."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | dict.fromkeys(_OF_THREADS, "1") | {"PYTHONHASHSEED": "0"}
