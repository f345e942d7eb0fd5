"""Pinning: what the hub says becomes a valid block; what it withholds, an error that names it."""

import hashlib
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from typer.testing import CliRunner

from store.cli import app
from store.manifest import load_sources

COMMIT = "0123456789" * 4
LARGE, SMALL = b"x" * 100, b"small\n"
SHA256 = hashlib.sha256(LARGE).hexdigest()


def sibling(path, size, sha256=None):
    lfs = None if sha256 is None else SimpleNamespace(size=size, sha256=sha256)
    return SimpleNamespace(rfilename=path, size=size, lfs=lfs)


class Hub:
    """Stands for the hub: one repository, or an error."""

    def __init__(self):
        self.error = None
        self.asked = []
        self.gated = False
        self.card = {"license": "apache-2.0"}
        self.siblings = [
            sibling("b.txt", len(SMALL)),
            sibling(".gitattributes", 9),
            sibling("a.jsonl", len(LARGE), SHA256),
        ]

    def info(self, repo, *, revision, files_metadata):
        assert files_metadata
        self.asked.append((repo, revision))
        if self.error:
            raise self.error
        return SimpleNamespace(
            sha=COMMIT, siblings=self.siblings, gated=self.gated, card_data=self.card, tags=["license:mit"]
        )

    def dataset_info(self, *arguments, **options):
        return self.info(*arguments, **options)

    def model_info(self, *arguments, **options):
        return self.info(*arguments, **options)

    def download(self, repo, path, *, repo_type, revision, local_dir):
        assert revision == COMMIT
        self.asked.append((repo, path, repo_type))
        Path(local_dir, path).write_bytes(SMALL)
        return f"{local_dir}/{path}"


@pytest.fixture
def hub(monkeypatch):
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub.download)
    return hub


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """The manifest of an empty project, which is the current folder."""
    (tmp_path / "models_sql").mkdir()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "dbt_project.yml").touch()
    path = tmp_path / "manifests" / "sources.toml"
    path.write_text("# pins\n# no block yet\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


def pin(*arguments):
    result = CliRunner().invoke(app, ["pin", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_block_names_the_commit_and_hashes_small_files_itself(hub, manifest):
    result = pin("new", "owner/name")
    assert result.exit_code == 0, result.stderr
    assert tomllib.loads(result.stdout) == {
        "new": {
            "kind": "hub_dataset",
            "repo": "owner/name",
            "revision": COMMIT,
            "licence": "apache-2.0",
            "description": "Files of owner/name.",
            "files": [
                {"path": "a.jsonl", "sha256": SHA256, "bytes": len(LARGE)},
                {"path": "b.txt", "sha256": hashlib.sha256(SMALL).hexdigest(), "bytes": len(SMALL)},
            ],
        }
    }
    assert hub.asked == [("owner/name", "main"), ("owner/name", "b.txt", "dataset")]
    assert manifest.read_text(encoding="utf-8") == "# pins\n# no block yet\n"


def test_write_appends_a_block_that_loads(hub, manifest):
    hub.gated = "auto"
    result = pin(
        "new", "owner/name", "--kind", "model", "--revision", "v1", "--file", "*.jsonl", "--write",
        "--licence", 'my "own"', "--description", "Naïve text\nof two lines.",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "coglake ingest new" in result.stderr
    source = load_sources(manifest)["new"]
    assert (source.kind, source.revision, source.gated, source.n_files) == ("hub_model", COMMIT, True, 1)
    assert (source.licence, source.description) == ('my "own"', "Naïve text\nof two lines.")
    assert manifest.read_text(encoding="utf-8").startswith("# pins\n# no block yet\n\n[new]\n")
    assert hub.asked == [("owner/name", "v1")]
    assert list(manifest.parent.iterdir()) == [manifest]


def test_json_is_the_source_and_the_block(hub, manifest):
    found = json.loads(pin("new", "owner/name", "--json").stdout)
    assert found["source"]["revision"] == COMMIT and not found["is_written"]
    assert tomllib.loads(found["block"])["new"]["repo"] == "owner/name"


@pytest.mark.parametrize(("card", "licence"), [(None, "mit"), ({}, "mit"), ({"license": ["a", "b"]}, "a, b")])
def test_the_licence_is_what_the_hub_states(hub, manifest, card, licence):
    hub.card = card
    assert tomllib.loads(pin("new", "owner/name").stdout)["new"]["licence"] == licence


def test_a_pinned_source_is_not_pinned_over(hub, manifest):
    pin("new", "owner/name", "--write")
    before = manifest.read_bytes()
    result = pin("new", "owner/other", "--write")
    assert result.exit_code == 2 and "pinned already, to owner/name@0123456789" in result.stderr
    # nor is one upstream pinned under two names
    result = pin("again", "owner/name", "--write")
    assert result.exit_code == 10 and "already pins owner/name" in result.stderr
    assert manifest.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("New one", "owner/name"), "lower-case letters"),
        (("new", "name"), "expected owner/name"),
        (("new", "owner/name/more"), "expected owner/name"),
    ],
)
def test_names_that_cannot_be_are_wrong_usage(hub, manifest, arguments, said):
    result = pin(*arguments)
    assert result.exit_code == 2 and said in result.stderr
    assert hub.asked == []


def hub_error(name, status):
    error = type(name, (OSError,), {})("what the hub said\nand more")
    if status:
        error.response = SimpleNamespace(status_code=status)
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (hub_error("GatedRepoError", 403), "accept its terms at https://huggingface.co/datasets/owner/name"),
        (hub_error("RepositoryNotFoundError", 401), "no such dataset"),
        (hub_error("RepositoryNotFoundError", 404), "HF_TOKEN"),
        (hub_error("RevisionNotFoundError", 404), "no revision main"),
        (hub_error("ConnectError", None), "what the hub said; check the network"),
        (hub_error("HfHubHTTPError", 500), "what the hub said; check the network"),
    ],
)
def test_what_the_hub_withholds_is_named(hub, manifest, error, said):
    hub.error = error
    result = pin("new", "owner/name", "--write")
    assert result.exit_code == 12 and said in result.stderr and "and more" not in result.stderr
    assert manifest.read_text(encoding="utf-8") == "# pins\n# no block yet\n"


def test_a_small_file_that_cannot_be_read_is_named(hub, manifest, monkeypatch):
    def refuse(*_, **__):
        raise hub_error("GatedRepoError", 403)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    assert pin("new", "owner/name").exit_code == 12


def test_a_repository_without_the_files_is_refused(hub, manifest):
    result = pin("new", "owner/name", "--file", "*.parquet")
    assert result.exit_code == 10
    assert "expected *.parquet, found .gitattributes, a.jsonl, b.txt" in result.stderr
    hub.siblings = None
    assert "found no file" in pin("new", "owner/name").stderr


def test_a_path_that_climbs_out_is_refused(hub, manifest):
    hub.siblings = [sibling("../a.jsonl", 1, SHA256)]
    result = pin("new", "owner/name", "--write")
    assert result.exit_code == 10 and "files.0.path" in result.stderr


@pytest.mark.parametrize("name", ["psych_101", "psych_101_test"])
def test_an_importer_without_a_pin_says_how_to_get_one(manifest, name):
    result = CliRunner().invoke(app, ["ingest", name])
    assert result.exit_code == 2
    assert f"`coglake pin {name} marcelbinz/Psych-101" in result.stderr
