"""Measure what a lock costs on the whole CogBench archive, and what hashing 4 million verdicts does.

Run ``COGLAKE_MIRROR=<folder> python benchmarks/lock.py``, where the folder holds the pinned files. It prints
a markdown table and a line, and leaves no file behind.
"""

import os
import tempfile
import time
from pathlib import Path

import duckdb
from archive import fastest, run, table
from rich.console import Console

from store.mart_hashes import relation_hash

N_REPEATS = 2
N_VERDICTS = 4_000_000
VERDICTS = """
    create table verdicts as
    select
        'run ' || (i % 100) as run_id,
        'mode ' || (i % 37) as mode_id,
        'episode ' || (i // 100) as episode_id,
        'item ' || i as item_id,
        cast(i % 100 as integer) as step_index,
        'a rule' as rule,
        cast(null as varchar) as readout,
        hash(i) / 1e19 as value,
        cast(1 as double) as weight,
        'ok' as status,
        cast(null as varchar) as status_reason,
        left(sha256(cast(i // 40000 as varchar)), 16) as part_id,
        sha256('a rule') as scorer_sha
    from range(?) as t (i)
"""


def seconds_of_hashing() -> list[float]:
    """Return how long each hash of the verdicts takes in this process."""
    seconds = []
    with duckdb.connect() as con:
        con.execute(VERDICTS, [N_VERDICTS])
        for _ in range(N_REPEATS):
            start = time.perf_counter()
            relation_hash(con, "verdicts")
            seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    """Measure on a lake of the archive: building with and without a lock, and writing the lock."""
    if not os.environ.get("COGLAKE_MIRROR"):
        raise SystemExit("set COGLAKE_MIRROR to a folder with the pinned files of cogbench")
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        lake, locked = Path(folder) / "lake", str(Path(folder) / "coglake.lock")
        run(lake, "ingest", ["ingest", "cogbench"], None)
        run(lake, "build", ["build"], None)
        repeats = [
            [
                run(lake, "lock", ["lock", "-o", locked], None),
                run(lake, "build again", ["build"], None),
                run(lake, "build again --locked", ["build", "--locked", locked], None),
            ]
            for _ in range(N_REPEATS)
        ]
        console.print(table(fastest(repeats)))
    console.print(f"hash of {N_VERDICTS:,} verdicts: {min(seconds_of_hashing()):.1f} s")


if __name__ == "__main__":
    main()
