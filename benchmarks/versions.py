"""Measure what kept versions and a long history cost a build, and what comparing takes.

Run ``COGLAKE_HOME=<a lake> python benchmarks/versions.py``, where the lake is built by this project: of the
whole CogBench archive for the figures in docs/performance.md. It works on a copy, prints a markdown table and
a few lines, and leaves no file behind.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from archive import COGLAKE, run, table
from rich.console import Console

from store.settings import home

N_BUILDS = 1_000
N_VERDICTS = 4_000_000
RULE = "reported_confidence"

# the last build once more, under as many names
BUILDS = """
    create temp table last_build as
    select arg_max(invocation_id, rowid) as invocation_id from build_log;
    insert into audit_score_history by name
    select history.* replace (history.invocation_id || '-' || i as invocation_id)
    from audit_score_history as history
    inner join last_build using (invocation_id)
    cross join range($1) as copies (i);
    insert into build_log by name
    select log.* replace (log.invocation_id || '-' || i as invocation_id)
    from build_log as log
    inner join last_build using (invocation_id)
    cross join range($1) as copies (i);
"""
# so many decisions in place of what the rule scored, and what another version said of them: of one in a
# thousand, or of all, something else
VERDICTS = f"""
    delete from int_scored__{RULE};
    delete from replaced_scores;
    insert into int_scored__{RULE} by name
    select
        'a run of many ' || (i // 100000) as run_id,
        'restless_bandit' as mode_id,
        'episode ' || (i // 200) % 500 as episode_id,
        cast(i % 200 as integer) as step_index,
        '{RULE}' as rule,
        hash(i) / 1e20 as value,
        cast(1 as double) as weight,
        'ok' as status,
        'part' as part_id,
        sha256('after') as scorer_sha
    from range({N_VERDICTS}) as t (i);
    insert into replaced_scores by name
    select
        * replace (
            sha256('before') as scorer_sha,
            case when hash(run_id, episode_id, step_index) % $1 = 0 then 1 - value else value end as value
        ),
        'a build' as replaced_by,
        now() as replaced_at
    from int_scored__{RULE};
    checkpoint;
"""
VERSIONS = "select sha256('before'), sha256('after')"


def change(lake: Path, script: str, value: int) -> None:
    """Run statements that share one parameter."""
    with duckdb.connect(str(lake / "coglake.duckdb")) as con:
        for statement in con.extract_statements(script):
            con.execute(statement, [value] if statement.named_parameters else None)


def seconds_of_diff(lake: Path, *sides: str) -> tuple[float, float]:
    """Return wall and processor seconds of one comparison, from start to end as a user would make it."""
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-c", COGLAKE, "diff", *sides],
        env=os.environ | {"COGLAKE_HOME": str(lake)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, spent


def seconds_of_history(lake: Path) -> float:
    """Return how long the last build took over its log and its history, where a long one adds its share."""
    results = json.loads((lake / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return sum(
        float(each["execution_time"])
        for each in results
        if "audit_score_history" in each["unique_id"] or each["unique_id"].startswith("operation.")
    )


def main() -> None:
    """Measure a build with a long history, then comparisons."""
    original = home()
    if not (original.root / "target" / "run_results.json").is_file():
        raise SystemExit("set COGLAKE_HOME to a built lake")
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        shutil.copytree(original.raw, lake / "raw")
        shutil.copy(original.database, lake)
        change(lake, BUILDS, N_BUILDS)
        console.print(table([run(lake, f"build again after {N_BUILDS:,} builds", ["build"], None)]))
        short, long = seconds_of_history(original.root), seconds_of_history(lake)
        console.print(f"log and history: {long:.2f} s; {short:.2f} s in the lake's last build")
        with duckdb.connect(str(lake / "coglake.duckdb")) as con:
            [(n_rows,)] = con.execute("select count(*) from audit_score_history").fetchall()
            [versions] = con.execute(VERSIONS).fetchall()
        console.print(f"rows of history: {n_rows:,}")

        cases: list[tuple[str, tuple[str, str], int | None]] = [
            ("first and latest build", ("first", "latest"), None)
        ]
        cases += [(f"two versions, 1 of {n:,} verdicts changed", versions, n) for n in (1_000, 1)]
        for title, sides, one_in in cases:
            if one_in is not None:
                change(lake, VERDICTS, one_in)
            wall_s, spent_s = seconds_of_diff(lake, *sides)
            load = os.getloadavg()[0]
            console.print(
                f"diff of {title}: {wall_s:.1f} s, of the processor {spent_s:.1f} s, load {load:.1f}"
            )


if __name__ == "__main__":
    main()
