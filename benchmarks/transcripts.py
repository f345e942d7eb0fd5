"""Measure how fast transcripts become questions, and how much memory that takes.

Run ``python benchmarks/transcripts.py``; it writes a training file of 300 MB and a test file of a tenth of
that, in which three of four transcripts are of experiments that no task names, ingests each in a process of
its own, prints a markdown table and leaves no file behind.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

MB = 10**6
MIB = 2**20
TRAINING, TEST = "prompts_training.jsonl", "prompts_testing_t1.jsonl"

# the process that measures: ru_maxrss counts KiB on Linux and bytes on macOS
INGEST = """
import json, resource, sys, time
from pathlib import Path
from ingest.pipeline import ingest
from store.manifest import Source
from store.settings import Home

folder, block = Path(sys.argv[1]), json.loads(sys.argv[2])
start = time.perf_counter()
[report] = ingest(Home(folder / "lake"), [Source.model_validate(block)], mirror=str(folder / "mirror"))
assert not report.failures, report.failures
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
seconds = time.perf_counter() - start
print(json.dumps([report.n_source_rows, report.n_new_rows, seconds, peak]))
"""


def category_learning(draw: random.Random) -> str:
    """Return a session of four problems of 88 objects."""
    keys = draw.sample("ABCDEFGHJKLMNPQRSTUVWXYZ", 2)
    text = [f"Learn a rule that tells whether an object belongs to the {keys[0]} or {keys[1]} category.\n"]
    for _ in range(4):
        text.append("\nYou encounter a new problem:\n")
        for _ in range(88):
            size, shade = draw.choice(("big", "small")), draw.choice(("black", "white"))
            response, right = draw.choices(keys, k=2)
            text.append(
                f"You see a {size} {shade} {draw.choice(('square', 'triangle'))}. You press <<{response}>>. "
                f"The correct category is {right}.\n"
            )
    return "".join(text)


def slot_machines(draw: random.Random) -> str:
    """Return a session of 160 games of 5 or 10 trials."""
    keys = draw.sample("ABCDEFGHJKLMNPQRSTUVWXYZ", 2)
    text = [f"You play two slot machines, labeled {keys[0]} and {keys[1]}.\n"]
    for game in range(1, 161):
        n_free = draw.choice((1, 6))
        text.append(f"\nGame {game}. There are {n_free + 4} trials in this game.\n")
        text += [
            f"You are instructed to press {draw.choice(keys)} and get {draw.randint(1, 99)} points.\n"
            for _ in range(4)
        ]
        text += [
            f"You press <<{draw.choice(keys)}>> and get {draw.randint(1, 99)} points.\n"
            for _ in range(n_free)
        ]
    return "".join(text)


def judgments(draw: random.Random) -> str:
    """Return a session of 220 judgments on a scale of nine."""
    text = ["Caldionine can take nine values (10, 20, 30, 40, 50, 60, 70, 80, 90).\n\n"]
    for _ in range(220):
        response, right = draw.randint(1, 9) * 10, draw.randint(1, 9) * 10
        text.append(
            f"Progladine: {draw.randint(1, 5)}. Amalydine: {draw.randint(1, 5)}. You say that the Caldionine "
            f"concentration is <<{response}>>. That is {'correct' if response == right else 'incorrect'}. "
            f"The correct concentration of Caldionine is {right}.\n"
        )
    return "".join(text)


EXPERIMENTS = (
    ("badham2017deficits/exp1.csv", category_learning),
    ("wilson2014humans/exp1.csv", slot_machines),
    ("collsiöö2023MCPL/exp1.csv", judgments),
)


def lines(n_bytes: int) -> Iterator[bytes]:
    """Yield transcripts until they are ``n_bytes``; of four, one is of a task."""
    draw = random.Random(0)
    # a text is used more than once, since drawing them takes longer than reading them
    texts = [(experiment, [write(draw) for _ in range(20)]) for experiment, write in EXPERIMENTS]
    written = 0
    for participant in range(sys.maxsize):
        experiment, choices = texts[participant // 4 % len(texts)]
        if participant % 4:
            experiment = f"other{participant % 60}/exp1.csv"
        record = {"text": draw.choice(choices), "experiment": experiment, "participant": str(participant)}
        line = json.dumps(record).encode() + b"\n"
        yield line
        written += len(line)
        if written >= n_bytes:
            return


def measure(folder: Path, name: str, n_bytes: int) -> tuple[int, int, float, int]:
    """Write a file of transcripts and ingest it; return transcripts, rows, seconds and peak bytes."""
    source: dict[str, object] = {
        "id": "psych_101",
        "kind": "generated",
        "repo": "benchmark",
        "revision": "1",
        "licence": "MIT",
        "description": "Transcripts of a benchmark.",
    }
    path = folder / "mirror" / "generated" / "benchmark" / "1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("wb") as out:
        for line in lines(n_bytes):
            out.write(line)
            digest.update(line)
    source["files"] = [{"path": name, "sha256": digest.hexdigest()}]
    time.sleep(1)
    found = subprocess.run(
        [sys.executable, "-c", INGEST, str(folder), json.dumps(source)],
        check=True,
        capture_output=True,
        text=True,
    )
    n_transcripts, n_rows, seconds, peak = json.loads(found.stdout.splitlines()[-1])
    return n_transcripts, n_rows, seconds, peak


def main() -> None:
    """Measure a training and a test file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    n_bytes = parser.parse_args().megabytes * MB
    table = Table("file", "MB", "transcripts", "rows", "s", "MB/s", "rows/s", "peak RSS (MiB)", box=MARKDOWN)
    for name, size in ((TRAINING, n_bytes), (TEST, n_bytes // 10)):
        with tempfile.TemporaryDirectory() as folder:
            n_transcripts, n_rows, seconds, peak = measure(Path(folder), name, size)
        table.add_row(
            name,
            f"{size / MB:.0f}",
            f"{n_transcripts:,}",
            f"{n_rows:,}",
            f"{seconds:.1f}",
            f"{size / MB / seconds:.0f}",
            f"{n_rows / seconds:,.0f}",
            f"{peak / MIB:.0f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
