"""Files of CogniRank's question sets, written by a test, imported, and read back or seen refused."""

import hashlib
import json

import pyarrow.dataset as ds

from ingest import question_files
from ingest.pipeline import ingest
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import Source
from store.protocol import load_components
from store.schemas import RAW_TABLES
from store.settings import Home

REVISION = "0123456789" * 4
REPO = "handwritten"


def lines(rows):
    """Return rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def changed(rows, number, **fields):
    """Return rows of which one, counted from 1 as lines are, has other fields; None takes a field out."""
    row = {name: value for name, value in (rows[number - 1] | fields).items() if value is not None}
    return [*rows[: number - 1], row, *rows[number:]]


def source_of(folder, source_id, files, revision="1"):
    """Put files into a mirror and return the source that pins them."""
    contents = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    block = {
        "id": source_id,
        "kind": "generated",
        "repo": REPO,
        "revision": revision,
        "licence": "MIT",
        "description": "Files of a test.",
        "files": [
            {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for path, data in contents.items()
        ],
    }
    source = Source.model_validate(block)
    for file in source.files:
        path = folder / "mirror" / source.mirror_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.path])
    return source


def ingested(folder, source_id, files, revision="1"):
    """Import files into the lake below ``folder``; return the lake and the report."""
    lake = Home(folder / "lake")
    source = source_of(folder, source_id, files, revision)
    [report] = ingest(lake, [source], mirror=str(folder / "mirror"))
    return lake, report


def rows_of(lake, table):
    """Return the rows of a raw table."""
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def items_of(folder, source_id, files, revision="1"):
    """Return the items that files become, none of which may be refused."""
    lake, report = ingested(folder, source_id, files, revision)
    assert report.failures == (), report.failures
    return rows_of(lake, "items")


def without_runs(items):
    """Return items named without the run that brought them, which differs as the bytes do."""
    return [item | {"item_id": item["item_id"].split("/", 1)[1]} for item in items]


def refusal(folder, source_id, path, content, *, others=None, revision="1"):
    """Return why a file is refused, without its name; nothing of it may be in the lake."""
    lake, report = ingested(folder, source_id, {path: content} | (others or {}), revision)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource), failure
    assert "\n" not in str(failure)
    assert (rows_of(lake, "items"), rows_of(lake, "runs"), report.n_new_rows) == ([], [], 0)
    where = f"generated://{REPO}@{revision}/{path}: "
    assert str(failure).startswith(where), failure
    return str(failure).removeprefix(where)


def declare(monkeypatch, component_id, **fields):
    """Let a component declare files of a test instead of the published ones, which nobody has here."""
    component = load_components()[component_id].model_copy(update={"repo": REPO} | fields)
    components = {**load_components(), component_id: component}
    monkeypatch.setattr(question_files, "load_components", lambda: components)
    return component


def sha256(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()
