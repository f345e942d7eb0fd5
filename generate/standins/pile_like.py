"""Rows in the schema of Procedural Pile, made by the same generators and kept as a file.

Run once, as a program, by a Python that has the generators::

    pip install "reasoning-core[gen]==0.5.0" pyarrow
    python generate/standins/pile_like.py manifests/pile_like.parquet

Many generators give other rows in each process even with every seed fixed, so nothing makes these again: the
file is the data set. This module imports nothing of the project, which that Python does not have.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# raised with every other file
REVISION = "1"

N_ROWS_MOST, N_ROWS_FEWEST, N_FAMILIES_WITH_FEWEST = 7, 6, 7
N_LEVELS = 4
LONGEST_PROMPT = 6_000
_N_TRIES = 40

# 4 of the 55 families: their packages or their data are not on PyPI
_NOT_MADE_HERE = ("game_", "metamath_")
# how long it took, which is nothing about the question
_INCIDENTAL = ("_time",)
_HASH_SEEDS = ("1", "2")


def path() -> Path:
    """Return the committed file."""
    return Path(__file__).resolve().parents[2] / "manifests" / "pile_like.parquet"


def families() -> dict[str, int]:
    """Return how many rows each family has; which have one less is decided by their names' hashes."""
    from reasoning_core import list_tasks

    names = sorted(name for name in list_tasks() if not name.startswith(_NOT_MADE_HERE))
    by_hash = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    fewest = set(by_hash[:N_FAMILIES_WITH_FEWEST])
    return {name: N_ROWS_FEWEST if name in fewest else N_ROWS_MOST for name in names}


def candidates(family: str, seed: int) -> Iterator[Row]:
    """Yield rows of a family, level by level and round again, no question twice."""
    from reasoning_core import get_task

    random.seed(seed)
    task = get_task(family)
    asked = set()
    for number in range(_N_TRIES):
        level = number % N_LEVELS
        made = task.generate_example(level=level)
        prompt = str(made.prompt)
        if len(prompt) > LONGEST_PROMPT or prompt in asked:
            continue
        asked.add(prompt)
        metadata = {key: value for key, value in made.metadata.items() if key not in _INCIDENTAL}
        yield {
            "task": family,
            "prompt": prompt,
            "answer": str(made.answer),
            "metadata": json.dumps(metadata, ensure_ascii=False, allow_nan=False),
            "level": level,
            "mode": "instruct",
        }


def rows_of(family: str, n_rows: int) -> list[Row]:
    """Return rows whose own answers score exactly 1 in two processes of other hash seeds.

    Raises
    ------
    SystemExit
        If the generator does not give enough of them.
    """
    seed = int(hashlib.sha256(family.encode()).hexdigest()[:8], 16)
    found = candidates(family, seed)
    kept: list[Row] = []
    while len(kept) < n_rows:
        batch = [row for _, row in zip(range(n_rows - len(kept)), found, strict=False)]
        if not batch:
            raise SystemExit(f"{family}: expected {n_rows} rows that verify, found {len(kept)}")
        is_right = [all(pair) for pair in zip(*(_verified(batch, seed) for seed in _HASH_SEEDS), strict=True)]
        kept += [row for row, right in zip(batch, is_right, strict=True) if right]
    return sorted(kept, key=lambda row: (row["level"], row["prompt"]))


def _verified(rows: Sequence[Row], hash_seed: str) -> list[bool]:
    """Tell for each row whether its own answer scores 1, in a process of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(rows, file)
        file.flush()
        done = subprocess.run(  # noqa: S603 - this very file
            [sys.executable, __file__, "--verify", file.name],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
    verified: list[bool] = json.loads(done.stdout.splitlines()[-1])
    return verified


def _verify(file: Path) -> None:
    from reasoning_core import score_answer

    rows = json.loads(file.read_text(encoding="utf-8"))
    sys.stdout.write(json.dumps([score_answer(row["answer"], row) == 1 for row in rows]) + "\n")


def _write(target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for family, n_rows in families().items():
        rows += rows_of(family, n_rows)
        sys.stderr.write(f"{family}: {n_rows} rows\n")
    schema = pa.schema(
        [(name, pa.string()) for name in ("task", "prompt", "answer", "metadata")]
        + [("level", pa.int32()), ("mode", pa.string())]
    )
    pq.write_table(
        pa.Table.from_pylist(rows, schema),
        target,
        compression="zstd",
        compression_level=19,
        store_schema=False,
    )


def main() -> None:
    """Make the file, or verify rows of one."""
    parser = argparse.ArgumentParser(description="Make the rows of pile_like.")
    parser.add_argument("target", type=Path, help="file to write")
    parser.add_argument("--verify", action="store_true", help="score the rows in the file instead")
    arguments = parser.parse_args()
    (_verify if arguments.verify else _write)(arguments.target)


if __name__ == "__main__":
    main()
