"""Files of a public source, written by a test and imported by the importer of that source."""

import hashlib

from ingest.pipeline import ingest
from store.manifest import Source
from store.settings import Home


def ingested(folder, source_id, path, content):
    """Import one file into a new lake below ``folder``; return the lake and the report."""
    data = content if isinstance(content, bytes) else content.encode()
    source = Source.model_validate(
        {
            "id": source_id,
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [{"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}],
        }
    )
    target = folder / "mirror" / source.mirror_path(source.files[0])
    target.parent.mkdir(parents=True)
    target.write_bytes(data)
    lake = Home(folder / "lake")
    [report] = ingest(lake, [source], mirror=str(folder / "mirror"))
    return lake, report
