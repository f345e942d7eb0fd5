"""A process that has imported the whole command line, forks one child per command, and kills it on time.

A command of its own process would spend seconds on imports before the first byte is written; a fork begins
where the work does, so that a moment drawn at random falls into the work. The server opens no database and
starts no thread: a child is what a fresh process is after its imports.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

from support import ROOT

_IMPORTED = (
    "numpy",
    "scipy.stats",
    "polars",
    "store.cli",
    "store.build",
    "store.command_build",
    "store.command_export",
    "store.command_export_scores",
    "store.command_generate",
    "store.command_generate_learning",
    "store.command_import",
    "store.command_ingest",
    "store.export",
    "store.export_learning",
    "store.query",
    "store.status",
    "dbt.cli.main",
    "dbt.task.build",
    "dbt.adapters.duckdb",
    "dbt.parser.manifest",
)
_EXIT_OF_KILLED = -signal.SIGKILL
_LONGEST_S = 600.0
_LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; ``returncode`` is negative where a signal ended it, as in ``subprocess``."""

    returncode: int
    seconds: float
    output: str
    complaint: str

    @property
    def is_killed(self) -> bool:
        """Whether kill -9 came before the end."""
        return self.returncode == _EXIT_OF_KILLED


@dataclass(frozen=True, slots=True)
class Job:
    """A command that runs, and the folder of what it prints."""

    pid: int
    folder: Path


class KillServer:
    """Starts commands of ``coglake`` in forks of one process.

    Parameters
    ----------
    folder
        For what the commands print.
    project
        Folder that they run in.
    """

    def __init__(self, folder: Path, project: Path) -> None:
        self._folder = folder
        self._project = project
        self._n_jobs = 0
        # a BLAS that has started threads before the fork has none of them after it
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            cwd=project,
            env=os.environ | alone | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, and what it started and nobody waited for."""
        self._process.communicate()

    def start(self, lake: Path, *arguments: str, project: Path | None = None) -> Job:
        """Start ``coglake`` with these arguments on a lake, in another project's folder if one is named."""
        self._n_jobs += 1
        folder = self._folder / str(self._n_jobs)
        folder.mkdir(parents=True)
        # a command may be killed before it could open them
        for name in ("stdout", "stderr"):
            (folder / name).touch()
        request = {
            "arguments": arguments,
            "lake": str(lake),
            "project": str(project or self._project),
            "folder": str(folder),
        }
        return Job(self._ask(request)["pid"], folder)

    def end(self, job: Job, kill_after_s: float | None = None) -> Ended:
        """Wait for a command; kill it with signal 9 if it still runs so long after its start."""
        ended = self._ask({"pid": job.pid, "kill_after_s": kill_after_s})
        output, complaint = ((job.folder / name).read_text() for name in ("stdout", "stderr"))
        return Ended(ended["returncode"], ended["seconds"], output, complaint)

    def run(
        self, lake: Path, *arguments: str, kill_after_s: float | None = None, project: Path | None = None
    ) -> Ended:
        """Start a command and wait for it."""
        return self.end(self.start(lake, *arguments, project=project), kill_after_s)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server of kills died"
        found: dict[str, Any] = json.loads(answer)
        return found


# --- in the server ---


def serve() -> list[str]:
    """Obey requests until there are no more; in a fork, return the arguments of its command."""
    for name in _IMPORTED:
        import_module(name)
    # a collection in a fork would copy every page of what was imported
    gc.freeze()
    started: dict[int, float] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "arguments" in request:
            pid = os.fork()
            if pid == 0:
                _become(request)
                arguments: list[str] = request["arguments"]
                return arguments
            started[pid] = time.monotonic()
            answer = {"pid": pid}
        else:
            answer = _end(request["pid"], started.pop(request["pid"]), request["kill_after_s"])
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    for pid in started:
        # nobody waits for it any more
        os.kill(pid, signal.SIGKILL)
    raise SystemExit


def _become(request: dict[str, Any]) -> None:
    """Make this fork a process with a lake, a folder and streams of its own."""
    os.environ["COGLAKE_HOME"] = request["lake"]
    os.chdir(request["project"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{request['folder']}/{name}", os.O_WRONLY), descriptor)


def _end(pid: int, start: float, kill_after_s: float | None) -> dict[str, Any]:
    limit = start + (_LONGEST_S if kill_after_s is None else kill_after_s)
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and time.monotonic() < limit:
        time.sleep(_LOOK_S)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        # the process alone: a helper, such as the one that frees semaphores, then sees it gone
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return {"returncode": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - start}


def _run(arguments: list[str]) -> NoReturn:
    """Be the command; leave without taking apart what the server imported, which would take a second."""
    sys.argv = ["coglake", *arguments]
    code: object = 0
    try:
        sys.modules["store.cli"].main()
    except SystemExit as end:
        code = end.code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    _run(serve())
