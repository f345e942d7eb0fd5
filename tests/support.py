"""Lakes for tests: made from CSV text by the real importer, built by the real project, read back."""

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment

from ingest.pipeline import SourceReport, ingest
from store.build import BuildReport, build
from store.manifest import Source
from store.settings import Home

ROOT = Path(__file__).resolve().parents[1]
MARTS = (
    "metrics",
    "substitutes",
    "table_3",
    "uniform",
    "audit_published_cells",
    "audit_coverage",
    "audit_drift",
    "audit_item_counts",
    "audit_learning_examples",
    "audit_published_learning",
    "audit_references",
    "audit_uniform_agent",
    "cognirank_scores",
    "cogniscore",
    "cogniscore_pairs",
    "cogniscore_ranks",
    "learning_curves",
    "learning_report",
    "learning_scores",
    "learning_solved",
)

# an importer is registered for this id, and a generated source has no upstream that a test could ask
SOURCE_ID = "demo_archive"
PROJECT_PARTS = ("dbt_project.yml", "profiles.yml", "models_sql", "macros", "manifests", "tests/data")


def copy_project(folder: Path) -> Path:
    """Copy what dbt and the importers read, so that nobody's edit during a test run changes a result."""
    for part in PROJECT_PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return folder


def copy_lake(lake: Home, folder: Path) -> Home:
    """Copy raw rows and database; what is changed in the copy leaves the original as it is."""
    folder.mkdir(parents=True)
    shutil.copytree(lake.raw, folder / "raw")
    if lake.database.exists():
        shutil.copy(lake.database, folder)
    return Home(folder)


def pinned(mirror: Path, files: Mapping[str, str | bytes]) -> Source:
    """Put files such as ``BART/data/gpt-4.csv`` into a mirror and return the source that pins them."""
    contents = {
        f"Experiments/{path}": text.encode() if isinstance(text, str) else text
        for path, text in files.items()
    }
    pins = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for path, data in contents.items()
    ]
    source = Source.model_validate(
        {
            "id": SOURCE_ID,
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": pins,
        }
    )
    for file in source.files:
        path = mirror / source.mirror_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.path])
    return source


def add_files(lake: Home, files: Mapping[str, str | bytes]) -> SourceReport:
    """Import CSV texts of the archive's schema into a lake."""
    mirror = lake.root.with_name(f"{lake.root.name}_mirror")
    [report] = ingest(lake, [pinned(mirror, files)], mirror=str(mirror))
    return report


def new_lake(tmp_path: Path, files: Mapping[str, str | bytes], like: Home | None = None) -> Home:
    """Make a lake of files such as ``{"BART/data/gpt-4.csv": text}``, none of which may be refused.

    With ``like``, it starts from that lake's database: what is proved there needs no second proof.
    """
    lake = Home(tmp_path / "lake")
    if like is not None:
        lake.root.mkdir(parents=True)
        shutil.copy(like.database, lake.database)
    report = add_files(lake, files)
    assert report.failures == (), report.failures
    return lake


def built(lake: Home, project: Path, **choices: Any) -> BuildReport:
    """Build in this process; a failed node is a failure of the test."""
    report = build(lake, project, **choices)
    assert report.failures == (), report.failures
    return report


def query(lake: Home, sql: str, *values: object) -> list[dict[str, Any]]:
    """Ask the built database; one dict per row."""
    with duckdb.connect(str(lake.database), read_only=True) as con:
        result = con.execute(sql, values)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def relation_hash(lake: Home, relation: str) -> str:
    """Return the sha256 over the sorted rows of a relation, doubles by their bits."""
    rows = query(lake, f"select * from {relation}")
    return hashlib.sha256("\n".join(sorted(map(_row_text, rows))).encode()).hexdigest()


def mart_hashes(lake: Home) -> dict[str, str]:
    """Return the hash of every mart."""
    return {mart: relation_hash(lake, mart) for mart in MARTS}


def raw_hashes(lake: Home) -> dict[str, str]:
    """Return the sha256 of every raw file."""
    return {
        str(path.relative_to(lake.raw)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(lake.raw.rglob("*"))
        if path.is_file()
    }


def coglake(
    lake: Home, project: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, in the folder of the project."""
    return subprocess.run(
        [sys.executable, "-c", "from store.cli import main; main()", *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COGLAKE_HOME": str(lake.root)} | environment,
        text=True,
        capture_output=True,
        check=False,
    )


def macro(file: str, name: str) -> Callable[..., str]:
    """Return a macro of the project that needs nothing of dbt; called, it gives SQL."""
    template = Environment(autoescape=False).from_string((ROOT / "macros" / file).read_text())
    return getattr(template.module, name)


def _row_text(row: Mapping[str, Any]) -> str:
    return "|".join(f"{name}={_cell_text(row[name])}" for name in sorted(row))


def _cell_text(cell: object) -> str:
    return struct.pack(">d", cell).hex() if isinstance(cell, float) else repr(cell)
