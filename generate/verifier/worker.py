"""Grades answers with the Procedural Pile verifier: a program of the verifier's own environment.

It reads JSON lines ``{"row": ..., "answer": ...}`` from standard input and answers each with one JSON line
``{"status": ..., "score": ..., "reason": ..., "seconds": ...}``; its first line says what it is. It imports
the standard library and the verifier alone, since nothing of the project is installed beside it.

Every answer is graded in a process of its own, forked from this one. So no answer changes what comes after
it, a hang in C ends too, and no import is on the clock: before the first answer of a family, the family's own
answer is graded here, and all that this loads is inherited. Forking is safe because this process has no
threads; a pool of processes would keep some.

A score is what the verifier returned. It is never what the verifier makes of running out of memory or time,
both of which it catches and takes for a wrong answer.

One family hands its answers to ``sympy``, which runs them as Python. So a process that grades may neither
start another nor write, delete or connect, and an answer that is run may name nothing that leads out of
arithmetic. That is a fence around what models say, not a prison for what attackers write.
"""

import argparse
import ast
import gc
import inspect
import json
import linecache
import math
import os
import platform
import random
import re
import resource
import select
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import IO, Any

_MIB = 2**20
# the first answer of a family may load data; longer than any does on a busy machine
_WARM_UP_S = 60.0
# time is that of the processor, so that a busy machine fails nobody; an answer that waits ends by the clock
_CLOCK_FACTOR = 10
_LONGEST_REASON = 300
_PR_SET_PDEATHSIG = 1
_COMPILES = re.compile(r"\b(?:compile|eval)\(")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one answer.

    Attributes
    ----------
    status
        ``ok``; ``timeout``; ``crash``, of the process or for want of memory; ``error``, an exception or what
        is no score; ``not_finite``, a score that is NaN or infinite.
    score
        From 0 to 1; None unless ``ok``.
    reason
        One line; None if ``ok``.
    seconds
        From the start of the answer's process to its verdict, by the clock.
    """

    status: str
    score: float | None = None
    reason: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the process of one answer may use.

    Attributes
    ----------
    timeout_s
        Processor time in seconds; whole ones are counted. Ten times as much may pass.
    memory_mib
        Address space in MiB.
    """

    timeout_s: float
    memory_mib: int


# --- changes to the verifier, each of which is a part of the grader's version ---


def _inverse_math_normalize_progress_v1() -> None:
    """Refuse a fraction that the verifier of ``inverse_math`` would try to read for ever.

    Its ``normalize`` repeats a loop until no ``frac{`` is left, and a truncated one never goes. Here a round
    that changes nothing raises; the verifier takes that for an answer that it cannot read. All else stays.
    """
    module = import_module("reasoning_core.tasks.dev.math_inverse")
    module.normalize = with_progress(module, "normalize", "t")  # type: ignore[attr-defined]


def with_progress(module: ModuleType, name: str, variable: str) -> Callable[..., Any]:
    """Return a function of a module whose one loop ends with an error if a round leaves a variable as it was.

    Raises
    ------
    RuntimeError
        If the function has not one ``while`` loop.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(module, name))))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    if len(loops) != 1:
        raise RuntimeError(f"{module.__name__}.{name}: expected one loop, found {len(loops)}")
    before = ast.parse(f"_before = {variable}").body
    after = ast.parse(f"if {variable} == _before: raise ValueError('a fraction that is not closed')").body
    loops[0].body = [*before, *loops[0].body, *after]
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), module.__file__ or name, "exec"), vars(module), namespace)  # noqa: S102 - the verifier's own text
    changed: Callable[..., Any] = namespace[name]
    return changed


PATCHES = {"inverse-math-normalize-progress-v1": _inverse_math_normalize_progress_v1}


# --- what an answer may make the verifier do ---

_FORBIDDEN = (
    "ctypes.",
    "mmap.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.utime",
    "pty.spawn",
    "shutil.",
    "signal.pthread_kill",
    "socket.",
    "sqlite3.connect",
    "subprocess.Popen",
    "urllib.Request",
    "webbrowser.open",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# of Python's own names those that lead to all the others, and no word that somebody may answer with
_LEADING_OUT = frozenset(
    (
        "breakpoint",
        "delattr",
        "eval",
        "exec",
        "getattr",
        "globals",
        # of sympy: runs a text that is not seen here
        "lambdify",
        "locals",
        "memoryview",
        "setattr",
        "vars",
    )
)


class _Fence:
    """Ends this process, with a verdict that says so, before it does what no grading needs.

    An audit hook: it cannot be taken away again, so it is only for a process that grades one answer.
    """

    def __init__(self, reply_to: int) -> None:
        self._reply_to = reply_to

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_FORBIDDEN) or (event == "open" and _is_writing(arguments)):
            self._end(event)
        # the text of an answer, once sympy has turned it into Python
        if event == "exec" and sys._getframe(1).f_globals.get("__name__") == "sympy.parsing.sympy_parser":
            for name in _names(arguments[0]):
                if name in _LEADING_OUT or name.startswith("_"):
                    self._end(name)

    def _end(self, what: str) -> None:
        os.write(self._reply_to, _as_line(Verdict("error", reason=f"the answer would run {what}")))
        os._exit(0)


def _is_writing(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return bool(isinstance(flags, int) and flags & _WRITING)


def _names(code: CodeType) -> Iterator[str]:
    """Yield what a compiled text and the functions in it name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


# --- one answer ---


class _Watch:
    """Sees failures inside the verifier that its own handlers would turn into a score.

    A tracing function, called for every function that starts and, within the verifier, for every exception.
    """

    def __init__(self) -> None:
        self.found: Verdict | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> "_Watch | None":  # noqa: ANN401
        if event == "call":
            if not str(frame.f_globals.get("__name__")).startswith("reasoning_core"):
                return None
            frame.f_trace_lines = False
        elif event == "exception":
            kind, _, traceback = argument
            if issubclass(kind, TimeoutError):
                self.found = Verdict("timeout", reason="the verifier's own time limit")
            elif issubclass(kind, MemoryError) and not _is_of_compiler(traceback):
                self.found = Verdict("crash", reason="out of memory")
        return self


def _is_of_compiler(traceback: Any) -> bool:  # noqa: ANN401
    """Tell whether Python's compiler says so: of text that is nested too deeply for it, not of memory."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    line = linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
    return _COMPILES.search(line) is not None


def _judge(score_answer: Callable[[str, Row], Any], row: Row, answer: str) -> Verdict:
    """Return the verdict on an answer, however the verifier ends."""
    watch = _Watch()
    # some families check an expression at points that they draw
    random.seed(0)
    sys.settrace(watch)
    try:
        score = score_answer(answer, row)
    except MemoryError:
        return Verdict("crash", reason="out of memory")
    # nor is it a score when an answer makes the verifier exit
    except BaseException as error:
        return Verdict("error", reason=f"{type(error).__name__}: {error}")
    finally:
        sys.settrace(None)
    return watch.found or _read(score)


def _read(score: object) -> Verdict:
    """Return the verdict of a score: a number from 0 to 1, or none at all."""
    try:
        number = float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return Verdict("error", reason=f"expected a score, found {score!r}")
    if not math.isfinite(number):
        return Verdict("not_finite", reason=f"expected a score, found {number}")
    if not 0 <= number <= 1:
        return Verdict("error", reason=f"expected a score from 0 to 1, found {number}")
    return Verdict("ok", number)


def _be_graded(
    score_answer: Callable[[str, Row], Any],
    row: Row,
    answer: str,
    limits: Limits,
    reply_to: int,
    is_fenced: bool,
) -> None:
    """Grade an answer in this process, which does nothing else."""
    os.setsid()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    cpu_s = math.ceil(limits.timeout_s)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_mib * _MIB, limits.memory_mib * _MIB))
    if is_fenced:
        sys.addaudithook(_Fence(reply_to))
    verdict = _judge(score_answer, row, answer)
    os.write(reply_to, _as_line(verdict))


def grade(
    score_answer: Callable[[str, Row], Any], row: Row, answer: str, limits: Limits, *, is_fenced: bool = True
) -> Verdict:
    """Grade an answer in a process of its own, which is gone when this returns.

    Parameters
    ----------
    is_fenced
        False only for a row's own answer, for what a family loads may write a cache.
    """
    reading, writing = os.pipe()
    started = time.monotonic()
    process_id = os.fork()
    if process_id == 0:
        # whatever happens, the child must not go on as a second parent
        try:
            os.close(reading)
            _be_graded(score_answer, row, answer, limits, writing, is_fenced)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        line = _line_within(reading, started + limits.timeout_s * _CLOCK_FACTOR)
    finally:
        os.close(reading)
        _end(process_id)
        _, wait_status = os.waitpid(process_id, 0)
    seconds = time.monotonic() - started
    if line is None or (line == b"" and _is_killed_by(wait_status, signal.SIGXCPU)):
        return Verdict("timeout", reason=f"no verdict within {limits.timeout_s:g} s", seconds=seconds)
    if not line.endswith(b"\n"):
        return Verdict("crash", reason=_death(wait_status), seconds=seconds)
    return Verdict(**(json.loads(line) | {"seconds": seconds}))


def _line_within(reading: int, deadline: float) -> bytes | None:
    """Return what a pipe gives up to the end of a line or of the writer; None after the deadline."""
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return None
        found = os.read(reading, select.PIPE_BUF)
        if not found:
            break
        line += found
    return line


def _end(process_id: int) -> None:
    """Kill a process and those that it started."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process_id, signal.SIGKILL)
        # it has ended by itself, or did not get as far as to lead a group
        except (ProcessLookupError, PermissionError):
            continue


def _is_killed_by(wait_status: int, number: signal.Signals) -> bool:
    return os.WIFSIGNALED(wait_status) and os.WTERMSIG(wait_status) == number


def _death(wait_status: int) -> str:
    code = os.waitstatus_to_exitcode(wait_status)
    if code < 0:
        return f"the verifier's process was ended by {signal.Signals(-code).name}"
    return f"the verifier's process ended without a verdict, with exit code {code}"


def _as_line(verdict: Verdict) -> bytes:
    """Return a verdict as one line of ASCII that a pipe takes at once."""
    reason = verdict.reason
    if reason is not None:
        printable = "".join(character if character.isprintable() else " " for character in reason)
        reason = " ".join(printable.split())[:_LONGEST_REASON]
    return json.dumps(asdict(verdict) | {"reason": reason}).encode() + b"\n"


# --- all answers ---


class _Families:
    """Loads what a family needs before its first answer."""

    def __init__(self, score_answer: Callable[[str, Row], Any], limits: Limits) -> None:
        self._score_answer = score_answer
        self._limits = Limits(_WARM_UP_S, limits.memory_mib)
        self._loaded: set[str] = set()

    def load(self, row: Row) -> None:
        """Grade the row's own answer here, if that is safe; if not, the verdicts will show it."""
        family = str(row.get("task"))
        if family in self._loaded:
            return
        self._loaded.add(family)
        answer = str(row.get("answer"))
        if grade(self._score_answer, row, answer, self._limits, is_fenced=False).status == "ok":
            self._score_answer(answer, row)
            # a collection in the process of an answer would copy all that is shared with this one
            gc.collect()
            gc.freeze()


def _verifier() -> Callable[[str, Row], Any]:
    """Import the verifier and change it."""
    score_answer: Callable[[str, Row], Any] = import_module("reasoning_core").score_answer
    for patch in PATCHES.values():
        patch()
    return score_answer


def _introduction() -> dict[str, object]:
    packages = {found.metadata["Name"].lower().replace("_", "-"): found.version for found in distributions()}
    return {
        "version": "+".join([packages["reasoning-core"], *PATCHES]),
        "python": platform.python_version(),
        "packages": packages,
    }


def serve(questions: IO[bytes], answers: IO[bytes], limits: Limits) -> None:
    """Grade what comes until nothing more does."""
    score_answer = _verifier()
    families = _Families(score_answer, limits)
    answers.write(json.dumps(_introduction()).encode() + b"\n")
    answers.flush()
    for line in questions:
        asked = json.loads(line)
        families.load(asked["row"])
        answers.write(_as_line(grade(score_answer, asked["row"], asked["answer"], limits)))
        answers.flush()


def main() -> None:
    """Grade what comes on standard input."""
    parser = argparse.ArgumentParser(description="Grade answers with the Procedural Pile verifier.")
    parser.add_argument("--timeout", type=float, required=True, help="most seconds for one answer")
    parser.add_argument("--memory", type=int, required=True, help="most memory for one answer, in MiB")
    parser.add_argument("--folder", required=True, help="where to run; taken away at the end if it is empty")
    arguments = parser.parse_args()
    # what the verifier prints goes nowhere, and what it reads is nothing
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.chdir(arguments.folder)
    try:
        serve(questions, answers, Limits(arguments.timeout, arguments.memory))
    # whoever asked was killed
    except BrokenPipeError:
        pass
    finally:
        # and so does not take the folder away
        os.chdir("/")
        with suppress(OSError):
            Path(arguments.folder).rmdir()


if __name__ == "__main__":
    main()
