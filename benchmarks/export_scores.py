"""Measure ``coglake export scores``: one model, one mode, and everything, whole and public.

Run ``python benchmarks/export_scores.py`` with ``COGLAKE_HOME`` at a built lake, such as that of ``coglake
demo``. Every command is a process of its own, start included, and runs once. It prints a markdown table and
changes nothing in the lake.
"""

import tempfile
from pathlib import Path

from archive import run, table
from rich.console import Console

from store.database import connect
from store.settings import Home, home

_LARGEST = """
    select {} from score_versions inner join stg_runs using (run_id)
    where is_current
    group by all
    order by count(*) desc, 1
    limit 1
"""


def exports(lake: Home) -> dict[str, tuple[str, ...]]:
    """Return the options of each export by its name; model and mode are those with most verdicts."""
    con = connect(lake)
    try:
        [(model,)] = con.execute(_LARGEST.format("model_id")).fetchall()
        [(mode,)] = con.execute(_LARGEST.format("mode_id")).fetchall()
    finally:
        con.close()
    return {
        f"one model, {model}": ("--models", model),
        f"one mode, {mode}": ("--modes", mode),
        "everything": (),
        "everything, public": ("--public",),
    }


def main() -> None:
    """Export in every way from the lake, into a folder that is removed."""
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scores"
        for name, options in exports(home()).items():
            command = ["export", "scores", "--allow-partial", "-o", str(file), *options]
            measured.append(run(home().root, name, command, lambda result: result["n_rows"]))
    shown = table(measured)
    shown.columns[3].header, shown.columns[4].header = "verdicts", "verdicts/s"
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
