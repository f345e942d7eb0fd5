"""One small lake made by every command that writes, what each command added, and how long it took.

A fault is tried in a copy that lacks what one command adds. When the command has been run again there, the
copy must hold what the whole lake holds.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from kill_server import Ended, KillServer
from support import mart_hashes, query

from generate import demo_archive
from store.schemas import RAW_TABLES
from store.settings import Home

# commands that add raw rows, which together need neither hub nor model
WRITERS = ("ingest", "generate", "learning", "import")
EXPORTS = ("table3", "scores")

_PLAYED = ("restless_bandit", "instrumental_learning", "temporal_discounting", "bart")
_FAMILIES = ("ordered_lock", "cipher", "switching_bandit", "blocking", "string_rewrite", "wordle_micro")
_LOG_TIME = "2026-11-30T07-14-15.257194"
_ASKED = "bayesian_urn"
_N_EPOCHS = 6
# when a run was made is no part of what it says
_TIMES = ("started_at", "finished_at")


@dataclass(frozen=True, slots=True)
class Whole:
    """The lake that nothing happened to.

    Attributes
    ----------
    commands
        Arguments of each command by its name.
    added
        Runs that each writer added.
    seconds
        How long each command took.
    rows, marts
        Fingerprints of raw tables and of marts.
    unbuilt
        A database of the same project, without rows.
    """

    lake: Home
    commands: dict[str, tuple[str, ...]]
    added: dict[str, frozenset[str]]
    seconds: dict[str, float]
    rows: dict[str, tuple[int, int]]
    marts: dict[str, str]
    unbuilt: Path

    def without(self, name: str, folder: Path) -> Home:
        """Return a lake that lacks what a command adds, with a database that knows none of its rows."""
        return copy_without(self.lake, self.added.get(name, frozenset()), folder, self.unbuilt)

    def built_copy(self, folder: Path) -> Home:
        """Return a copy with the tables of this lake."""
        return copy_without(self.lake, frozenset(), folder, self.lake.database)

    def without_all(self, folder: Path) -> Home:
        """Return a lake that lacks what any command adds."""
        return copy_without(self.lake, frozenset().union(*self.added.values()), folder, self.unbuilt)


def make_whole(server: KillServer, folder: Path, unbuilt: Path) -> Whole:
    """Run every command once, undisturbed."""
    demo_archive.write(folder / "mirror")
    lake = Home(folder / "lake")
    lake.root.mkdir()
    shutil.copy(unbuilt, lake.database)
    commands = {
        "ingest": ("ingest", "demo_archive", "--mirror", str(folder / "mirror")),
        "generate": ("generate", "--agent", "uniform", "--agent", "fixed_threshold", *_modes(_PLAYED)),
        "learning": (
            *("generate", "--benchmark", "learning", "--agent", "oracle", "--agent", "random"),
            *_modes(_FAMILIES),
        ),
        "import": ("import", "lm-eval", str(write_log(server, folder)), "--mode", _ASKED),
        "build": ("build",),
        "table3": ("export", "table3"),
        "scores": ("export", "scores", "--allow-partial"),
    }
    added: dict[str, frozenset[str]] = {}
    seconds: dict[str, float] = {}
    before: frozenset[str] = frozenset()
    for name, arguments in commands.items():
        ended = server.run(lake.root, *arguments)
        assert ended.returncode == 0, ended.complaint
        seconds[name] = ended.seconds
        added[name] = run_ids(lake) - before
        before = run_ids(lake)
    assert all(added[name] for name in WRITERS)
    assert query(lake, "select count(*) as n from table_3 where value is not null") != [{"n": 0}]
    return Whole(lake, commands, added, seconds, rows_that_count(lake), mart_hashes(lake), unbuilt)


def write_log(server: KillServer, folder: Path) -> Path:
    """Write a log as lm-eval does, in which every question of a mode is answered in several epochs."""
    ended = server.run(folder / "asked", "task", _ASKED, "-o", str(folder / "task"))
    assert ended.returncode == 0, ended.complaint
    [questions] = (folder / "task").glob("*.parquet")
    log = folder / "log"
    log.mkdir()
    path = log / f"samples_{_ASKED}_{_LOG_TIME}.jsonl"
    with path.open("w") as file:
        for number, doc in enumerate(pq.read_table(questions).to_pylist()):
            texts = [f"0.{(number * 7 + epoch) % 100:02d}" for epoch in range(_N_EPOCHS)]
            sample = {
                "doc_id": number,
                "doc": doc,
                "target": "0",
                "arguments": {
                    "gen_args_0": {"arg_0": doc["prompt"], "arg_1": {"until": ["\n"], "max_gen_toks": 64}}
                },
                "resps": [texts],
                "filtered_resps": texts[:1],
                "filter": "none",
                "metrics": ["bypass"],
                "doc_hash": f"{number:064x}",
                "prompt_hash": f"{number:064x}",
                "target_hash": f"{number:064x}",
            }
            file.write(f"{json.dumps(sample)}\n")
    results = {
        "config": {"model": "hf", "model_args": {"pretrained": "owner/model"}, "model_sha": "a" * 40},
        "lm_eval_version": "0.4.13",
    }
    (log / f"results_{_LOG_TIME}.json").write_text(json.dumps(results))
    return path


def copy_without(lake: Home, run_ids: frozenset[str], folder: Path, database: Path) -> Home:
    """Copy a lake without some of its runs; parts are never edited, so a copy may share their bytes."""
    copy = Home(folder)
    absent = {f"run={run_id}" for run_id in run_ids}
    shutil.copytree(
        lake.raw, copy.raw, copy_function=os.link, ignore=lambda _, names: absent.intersection(names)
    )
    shutil.copy(database, copy.database)
    return copy


def run_ids(lake: Home) -> frozenset[str]:
    """Return every run that has a folder in any raw table, committed or not."""
    return frozenset(path.name.removeprefix("run=") for path in lake.raw.glob("*/run=*"))


def rows_that_count(lake: Home) -> dict[str, tuple[int, int]]:
    """Return number and fingerprint of the rows that committed runs name, whatever their order.

    Read without the store's own code. A run that is committed twice, or whose part is gone, is an error.
    """
    with duckdb.connect() as con:
        committed = [
            (path.parent.name, parts)
            for path in sorted(lake.raw.glob("runs/run=*/part-*.parquet"))
            for (parts,) in con.execute("select parts from read_parquet(?)", [str(path)]).fetchall()
        ]
        assert len({run for run, _ in committed}) == len(committed), "a run is committed twice"
        found = {}
        for table, schema in RAW_TABLES.items():
            paths = [
                str(path)
                for run, parts in committed
                for sha256 in parts
                for path in [lake.raw / table / run / f"part-{sha256}.parquet"]
                if path.exists()
            ]
            if table == "runs":
                paths = [str(path) for path in sorted(lake.raw.glob("runs/run=*/part-*.parquet"))]
            found[table] = (0, 0) if not paths else _fingerprint(con, paths, schema.names)
        n_named = sum(len(set(parts)) for _, parts in committed)
        n_there = sum(
            any((lake.raw / table / run / f"part-{sha256}.parquet").exists() for table in RAW_TABLES)
            for run, parts in committed
            for sha256 in set(parts)
        )
        assert n_there == n_named, "a part that a run names is gone"
    return found


def assert_one_sentence(ended: Ended, *exit_codes: int) -> None:
    """A command that refuses says so in one line, with its exit code and without a traceback."""
    assert ended.returncode in exit_codes, (ended.returncode, ended.complaint)
    assert "Traceback" not in ended.complaint
    assert ended.complaint.startswith("error: "), ended.complaint
    assert ended.complaint.count("\n") == 1, ended.complaint


def _fingerprint(con: duckdb.DuckDBPyConnection, paths: list[str], columns: list[str]) -> tuple[int, int]:
    names = ", ".join(f'"{name}"' for name in columns if name not in _TIMES)
    [(n_rows, digest)] = con.execute(
        f"select count(*), sum(hash(t)::hugeint) from (select {names} from read_parquet($1)) as t", [paths]
    ).fetchall()
    return n_rows, digest


def _modes(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--modes", name))
