"""vLLM servers on loopback: started together, waited for, and gone at the end with all that they started."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

# a minute where nothing else runs
START_S = 600.0
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server, its process and where it writes."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End it and all that it started, at once and without a word."""
        _end(_family([self]), grace_s=0)

    def n_requests(self) -> int:
        """Return how many sequences it has finished."""
        lines = httpx.get(f"{self.url}/metrics", trust_env=False).text.splitlines()
        return sum(
            int(float(line.split()[-1])) for line in lines if line.startswith("vllm:request_success_total")
        )


@contextmanager
def vllm_servers(
    model: Path,
    n: int,
    folder: Path,
    *,
    name: str = "small",
    max_model_len: int = 1024,
    key: str | None = None,
    more: Sequence[str] = (),
) -> Iterator[list[RunningServer]]:
    """Serve a model in float32 by ``n`` processes under ``name``; logs are written to ``folder``.

    Raises
    ------
    AssertionError
        If one does not come up: with the end of its log.
    """
    servers: list[RunningServer] = []
    try:
        for number in range(n):
            servers.append(_started(model, number, folder, name, max_model_len, key, more))
        deadline = time.monotonic() + START_S
        for server in servers:
            _wait_for(server, deadline)
        yield servers
    finally:
        _end(_family(servers), STOP_S)


def _started(
    model: Path,
    number: int,
    folder: Path,
    name: str,
    max_model_len: int,
    key: str | None,
    more: Sequence[str],
) -> RunningServer:
    port = _free_port()
    log = folder / f"server-{number}.log"
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", name, "--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(max_model_len), "--max-num-seqs", "8", "--enforce-eager"),
        *more,
    ]
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        # each on a core of its own, as far as there are any
        "VLLM_CPU_OMP_THREADS_BIND": str(number % (os.cpu_count() or 1)),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if key is not None:
        settings["VLLM_API_KEY"] = key
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | settings, cwd=folder
        )
    return RunningServer(f"http://127.0.0.1:{port}", process, log)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(server: RunningServer, deadline: float) -> None:
    while True:
        trouble = "it does not answer"
        try:
            # a proxy of the environment has no business on loopback
            if httpx.get(f"{server.url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.HTTPError as error:
            trouble = str(error)
        if server.process.poll() is not None:
            trouble = f"it ended with {server.process.returncode}"
        elif time.monotonic() < deadline:
            time.sleep(0.5)
            continue
        tail = "\n".join(server.log.read_text(errors="replace").splitlines()[-30:])
        raise AssertionError(f"the server {server.url} did not come up: {trouble}\n{tail}")


def _family(servers: Sequence[RunningServer]) -> list[psutil.Process]:
    found = []
    for server in servers:
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(server.process.pid)
            found += [*parent.children(recursive=True), parent]
    return found


def _end(processes: Sequence[psutil.Process], grace_s: float) -> None:
    """Ask the processes to end, and kill those that are still there after ``grace_s``."""
    if grace_s:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, processes = psutil.wait_procs(processes, timeout=grace_s)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=STOP_S)
