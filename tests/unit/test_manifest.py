"""Pins: what a source block may say, and that the project's own blocks hold."""

import hashlib
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from store.errors import InvalidSource
from store.manifest import PinnedFile, Source, load_sources

SOURCES = Path(__file__).parents[2] / "manifests" / "sources.toml"
REVISION = "0123456789" * 4
SHA256 = "ab" * 32

BLOCK = f"""
[archive]
kind = "github"
repo = "owner/archive"
revision = "{REVISION}"
licence = "MIT"
description = "Outputs of others."
files = [
    {{ path = "data/a.csv", sha256 = "{SHA256}", bytes = 3 }},
    {{ path = "data/b.csv", sha256 = "{SHA256}", bytes = 4 }},
]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sources.toml"
    path.write_text(text, encoding="utf-8")
    return path


def source(kind: str, repo: str = "owner/name", revision: str = REVISION, **changes: object) -> Source:
    block = {
        "id": "archive",
        "kind": kind,
        "repo": repo,
        "revision": revision,
        "licence": "none stated",
        "description": "Outputs of others.",
        "files": [{"path": "data/a.csv", "sha256": SHA256, "bytes": 3}],
    }
    return Source.model_validate(block | changes)


def test_a_block_becomes_a_source(tmp_path):
    sources = load_sources(written(tmp_path, BLOCK))
    assert list(sources) == ["archive"]
    archive = sources["archive"]
    assert (archive.id, archive.n_files, archive.n_bytes, archive.gated) == ("archive", 2, 3 + 4, False)
    assert archive.files[1] == PinnedFile(path="data/b.csv", sha256=SHA256, bytes=4)


@pytest.mark.parametrize(
    ("made", "uri", "mirror_path"),
    [
        (
            source("github"),
            f"github://owner/name@{REVISION}/data/a.csv",
            f"github/owner/name/{REVISION}/data/a.csv",
        ),
        (
            source("hub_dataset"),
            f"hub://datasets/owner/name@{REVISION}/data/a.csv",
            f"hub/datasets/owner/name/{REVISION}/data/a.csv",
        ),
        (
            source("hub_model"),
            f"hub://models/owner/name@{REVISION}/data/a.csv",
            f"hub/models/owner/name/{REVISION}/data/a.csv",
        ),
        (source("generated", "demo", "1"), "generated://demo@1/data/a.csv", "generated/demo/1/data/a.csv"),
    ],
)
def test_every_kind_has_a_uri_and_a_place_in_a_mirror(made, uri, mirror_path):
    assert made.uri(made.files[0]) == uri
    assert made.mirror_path(made.files[0]) == mirror_path


def test_one_unknown_size_makes_the_total_unknown_not_smaller():
    files = [{"path": "a", "sha256": SHA256, "bytes": 3}, {"path": "b", "sha256": SHA256}]
    assert source("github", files=files).n_bytes is None


def test_a_source_cannot_be_changed_after_it_was_checked():
    made = source("github")
    with pytest.raises(ValidationError, match="frozen"):
        made.revision = "main"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (REVISION, "main", ["revision", "'main'", "40 lower-case hex", "a branch name is not a revision"]),
        (REVISION, REVISION[:12], ["revision", REVISION[:12]]),
        (REVISION, REVISION + "\\n", ["revision"]),
        (SHA256, SHA256[:-1], ["files[0].sha256", "64 lower-case hex"]),
        (SHA256, SHA256.upper(), ["files[0].sha256", "lower-case"]),
        ("bytes = 4", "bytes = -1", ["files[1].bytes", "-1"]),
        ("bytes = 4", 'bytes = "4"', ["files[1].bytes", "'4'"]),
        ("bytes = 4", "bytes = true", ["files[1].bytes", "True"]),
        ("bytes = 4", "size = 4", ["files[1].size", "unknown key"]),
        ("data/b.csv", "data/a.csv", ["files", "'data/a.csv' is pinned twice"]),
        ("data/b.csv", "../b.csv", ["files[1].path", "'../b.csv'"]),
        ("data/b.csv", "data/../../b.csv", ["files[1].path", "plain relative path"]),
        ("data/b.csv", "/etc/passwd", ["files[1].path", "'/etc/passwd'"]),
        ("data/b.csv", "data//b.csv", ["files[1].path"]),
        ("data/b.csv", "./b.csv", ["files[1].path"]),
        ("data/b.csv", "data\\\\b.csv", ["files[1].path", "backslash"]),
        ("data/b.csv", "data/b.csv\\u0000", ["files[1].path"]),
        ("data/b.csv", "", ["files[1].path"]),
        ("owner/archive", "archive", ["repo", "owner/name"]),
        ("owner/archive", "../archive", ["repo"]),
        ("owner/archive", "owner/archive/tree", ["repo"]),
        ('"github"', '"gitlab"', ["kind", "'gitlab'", "github"]),
        ('licence = "MIT"\n', "", ["licence", "the key is missing"]),
        ('licence = "MIT"\n', 'licence = ""\n', ["licence"]),
        ('licence = "MIT"\n', 'licence = "MIT"\nbranch = "main"\n', ["branch", "unknown key"]),
        ('licence = "MIT"\n', 'licence = "MIT"\ngated = "no"\n', ["gated", "'no'"]),
        ('licence = "MIT"\n', 'licence = "MIT"\nid = "other"\n', ["id", "unknown key"]),
        ("[archive]", "[Archive-2]", ["id", "'Archive-2'"]),
    ],
)
def test_a_wrong_pin_is_refused_and_the_sentence_names_file_source_and_field(tmp_path, old, new, words):
    assert old in BLOCK
    path = written(tmp_path, BLOCK.replace(old, new))
    with pytest.raises(InvalidSource) as refusal:
        load_sources(path)
    sentence = str(refusal.value)
    assert refusal.value.exit_code == 10
    assert sentence.startswith(f"{path}: [")
    assert "\n" not in sentence
    assert all(word in sentence for word in ["rchive", *words]), sentence


def test_a_source_without_files_is_refused():
    with pytest.raises(ValidationError, match="files"):
        source("github", files=[])


def test_generated_needs_a_version_and_nothing_else_may_have_one():
    assert source("generated", "demo", "1").revision == "1"
    for kind, repo, revision in [
        ("generated", "demo", "../1"),
        ("generated", "owner/demo", "1"),
        ("generated", "..", "1"),
        ("github", "owner/name", "1"),
    ]:
        with pytest.raises(ValidationError):
            source(kind, repo, revision)


def test_two_blocks_for_one_upstream_would_import_its_rows_twice(tmp_path):
    twice = BLOCK + BLOCK.replace("[archive]", "[archive_again]")
    with pytest.raises(InvalidSource, match=r"\[archive_again\].*\[archive\] already pins owner/archive"):
        load_sources(written(tmp_path, twice))


def test_one_repository_may_be_pinned_at_two_revisions(tmp_path):
    newer = BLOCK.replace("[archive]", "[archive_newer]").replace(REVISION, "f" * 40)
    assert list(load_sources(written(tmp_path, BLOCK + newer))) == ["archive", "archive_newer"]


@pytest.mark.parametrize(
    "content",
    [b"[archive\nkind = 1", b"[archive]\n[archive]", b'[archive]\nrepo = "\xff"', b"\xef\xbb\xbf[a]"],
)
def test_a_file_that_is_not_toml_is_one_sentence_not_a_traceback(tmp_path, content):
    path = tmp_path / "sources.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidSource, match="not valid TOML") as refusal:
        load_sources(path)
    assert str(path) in str(refusal.value)


def test_a_key_outside_a_block_is_refused(tmp_path):
    with pytest.raises(InvalidSource, match=r"version: expected a \[version\] block, found 1"):
        load_sources(written(tmp_path, "version = 1\n" + BLOCK))


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(InvalidSource, match=r"nowhere.toml: cannot be read: No such file"):
        load_sources(tmp_path / "nowhere.toml")


def test_the_projects_own_pins_are_valid_and_sorted():
    sources = load_sources(SOURCES)
    assert {"cogbench", "rlwm", "pragmatics", "learning_bench"} <= set(sources)
    for pinned in sources.values():
        assert [file.path for file in pinned.files] == sorted(file.path for file in pinned.files), pinned.id
    assert sources["ttm"].gated
    assert sources["ttm"].n_bytes is None


@pytest.mark.mirror
@pytest.mark.skipif(not os.environ.get("COGLAKE_MIRROR"), reason="COGLAKE_MIRROR is not set")
def test_every_github_pin_is_the_mirrored_file():
    mirror = Path(os.environ["COGLAKE_MIRROR"])
    for pinned in load_sources(SOURCES).values():
        for file in pinned.files if pinned.kind == "github" else ():
            content = (mirror / pinned.mirror_path(file)).read_bytes()
            assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.bytes), file.path
