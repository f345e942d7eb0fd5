"""``coglake lock``: write down what the last build was made of and what came out."""

from pathlib import Path

from store import console
from store.files import write_whole
from store.formats import to_json
from store.lock import Lock, take_lock, write_text
from store.settings import home, project_dir


def run(output: Path, *, as_json: bool = False) -> None:
    """Write the lock file and say what is in it."""
    lock = take_lock(home(), project_dir())
    # a link stays a link
    write_whole(output.resolve(), write_text(lock))
    if as_json:
        console.write(to_json({"path": str(output), "git_sha": lock.git_sha, **_counts(lock)}))
    else:
        listed = ", ".join(f"{n:,} {kind}" for kind, n in _counts(lock).items())
        console.write(f"{output}: {listed}\n")


def _counts(lock: Lock) -> dict[str, int]:
    """Return how many of each kind a lock holds."""
    inputs = lock.inputs
    return {
        "packages": len(inputs.packages),
        "sources": len(inputs.sources),
        "runs": len(inputs.runs),
        "raw parts": sum(len(hashes) for tables in inputs.raw_parts.values() for hashes in tables.values()),
        "rules": len(lock.results.rules),
        "marts": len(lock.results.marts),
    }
