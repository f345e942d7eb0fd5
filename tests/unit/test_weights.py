"""Is a model named so that no other can pass for it, and is trouble said in one sentence?"""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from generate import weights
from generate.weights import Weights, resolve, run_slug
from store.errors import EngineFailed, SourceUnavailable, WrongUsage

COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac"
OTHER_COMMIT = "a" * 40
FILES = {
    "model.safetensors": b"\x08\x00\x00\x00\x00\x00\x00\x00{}      weights",
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b"{}",
    "tokenizer.json": b'{"version": "1.0"}',
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
}


def write_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "Small-1B")


def revision(folder: Path) -> str:
    return resolve(str(folder)).revision


# --- folders ---


def test_a_folder_goes_by_its_name_and_the_hash_of_what_is_in_it(model):
    found = resolve(str(model))
    assert found == Weights("Small-1B", found.revision, str(model), is_folder=True)
    kind, _, digits = found.revision.partition(":")
    assert kind == "sha256"
    assert len(digits) == 64
    assert set(digits) <= set("0123456789abcdef")


def test_the_revision_is_what_sha256sum_makes_of_the_files(tmp_path):
    folder = tmp_path / "made_by_hand"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}\n")
    (folder / "model.safetensors").write_bytes(b"")
    # cd made_by_hand; sha256sum config.json model.safetensors | sha256sum
    expected = "b4222e717240a7605952b5d87667fd6646a7277ab5948d77ca52926f98017497"
    assert revision(folder) == f"sha256:{expected}"


@pytest.mark.parametrize("name", sorted(FILES))
def test_one_other_byte_is_another_model(model, name):
    before = revision(model)
    (model / name).write_bytes(FILES[name][:-1] + b"~")
    assert revision(model) != before


@pytest.mark.parametrize(
    "name",
    [
        "added_tokens.json",
        "additional_chat_templates/tools.jinja",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "quantize_config.json",
        "tokenizer.model",
        "vocab.txt",
    ],
)
def test_one_more_file_that_decides_is_another_model(model, name):
    before = revision(model)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_bytes(b"")
    assert revision(model) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_counts_where_a_configuration_names_classes_of_the_models_own(model, name):
    (model / name).write_bytes(b'{"auto_map": {"AutoConfig": "own.OwnConfig"}}')
    before = revision(model)
    (model / "own.py").write_text("class OwnConfig: ...\n")
    with_code = revision(model)
    (model / "own.py").write_text("class OwnConfig: 'another'\n")
    assert len({before, with_code, revision(model)}) == 3


@pytest.mark.parametrize("config", [b'{"model_type": "llama"}', b"[]", b"no JSON", b"[" * 10_000])
def test_code_that_no_configuration_names_changes_nothing(model, config):
    (model / "config.json").write_bytes(config)
    before = revision(model)
    (model / "convert.py").write_text("print('weights')\n")
    assert revision(model) == before


def test_two_files_that_change_places_are_another_model(model):
    before = revision(model)
    (model / "tokenizer_config.json").write_bytes(FILES["tokenizer.json"])
    (model / "tokenizer.json").write_bytes(FILES["tokenizer_config.json"])
    assert revision(model) != before


@pytest.mark.parametrize(
    "name", ["README.md", ".git/config", "logs/run.json", "training_args.bin", "trainer_state.json"]
)
def test_what_decides_no_answer_changes_nothing(model, name):
    before = revision(model)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_bytes(b"anything")
    assert revision(model) == before


def test_neither_time_nor_place_nor_name_of_a_folder_changes_its_revision(model, tmp_path):
    os.utime(model / "model.safetensors", (0, 0))
    moved = write_model(tmp_path / "elsewhere" / "renamed")
    assert revision(moved) == revision(model)


def test_a_folder_of_links_is_read_through_them(model, tmp_path):
    # this is how the hub's cache keeps a snapshot
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for name in FILES:
        (snapshot / name).symlink_to(model / name)
    assert revision(snapshot) == revision(model)


def test_a_folder_can_be_given_a_name(model):
    named = resolve(str(model), name="owner/Small-1B")
    assert named.model_id == "owner/Small-1B"
    assert named.revision == revision(model)


def test_the_folder_one_stands_in_has_its_own_name(model, monkeypatch):
    monkeypatch.chdir(model)
    assert resolve(".") == resolve(str(model))


def test_a_folder_comes_before_a_repository_of_the_same_name(tmp_path, monkeypatch):
    write_model(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    assert resolve("owner/name").is_folder


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_a_part_of_a_model_is_refused(model, missing):
    (model / missing).unlink()
    with pytest.raises(WrongUsage, match=r"expected config\.json and weights, found no (config|weights)"):
        resolve(str(model))


def test_a_folder_takes_no_revision(model):
    with pytest.raises(WrongUsage, match=f"leave out the revision {COMMIT}"):
        resolve(str(model), COMMIT)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines"])
def test_a_name_that_no_table_can_show_is_refused(model, name):
    with pytest.raises(WrongUsage, match="printable"):
        resolve(str(model), name=name)


def test_a_file_that_cannot_be_read_is_said(model, monkeypatch):
    def no_right(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    # nobody may forbid anything to root, who runs tests in containers
    monkeypatch.setattr(weights, "_sha256", no_right)
    with pytest.raises(EngineFailed, match=r"cannot read .*Small-1B/.*: Permission denied"):
        resolve(str(model))


# --- the hub ---


class Hub:
    """A hub of one answer, on loopback, asked by the real client."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], object]] = {}
        self.asked: list[str] = []

    def has(self, commit: str, branch: str = "main", *, gated: bool = False) -> None:
        self.answers[f"/api/models/owner/name/revision/{branch}"] = (
            200,
            {},
            {"id": "owner/name", "sha": commit, "gated": "manual" if gated else False},
        )

    def says(self, path: str, status: int, code: str | None = None) -> None:
        self.answers[path] = (status, {"X-Error-Code": code} if code else {}, {"error": "no"})


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The client's cache, empty; there is no token, and no hub unless a test brings one."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    # nothing listens here
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def hub(cache, monkeypatch) -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(self.path)
            status, headers, body = hub.answers.get(self.path, (404, {"X-Error-Code": "RepoNotFound"}, {}))
            content = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield hub
        server.shutdown()
        thread.join()


def put_into_cache(cache: Path, commit: str, branch: str = "main") -> None:
    kept = cache / "models--owner--name"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / branch).write_text(commit)
    (kept / "snapshots" / commit).mkdir(parents=True)
    (kept / "snapshots" / commit / "config.json").write_text("{}")


@pytest.mark.parametrize("branch", [None, "main", "v1.0"])
def test_a_branch_becomes_the_commit_that_it_names_now(hub, branch):
    hub.has(COMMIT, branch or "main")
    assert resolve("owner/name", branch) == Weights("owner/name", COMMIT, "owner/name", is_folder=False)


def test_a_branch_that_moved_is_another_revision_though_the_cache_has_the_old_one(hub, cache):
    put_into_cache(cache, COMMIT)
    hub.has(OTHER_COMMIT)
    assert resolve("owner/name").revision == OTHER_COMMIT


@pytest.mark.parametrize("commit", [COMMIT, COMMIT.upper()])
def test_a_commit_is_taken_without_asking_anybody(hub, commit):
    assert resolve("owner/name", commit).revision == COMMIT
    assert hub.asked == []


def test_a_short_commit_is_asked_for(hub):
    hub.has(COMMIT, COMMIT[:7])
    assert resolve("owner/name", COMMIT[:7]).revision == COMMIT


def test_without_a_network_the_cache_says_what_main_is(cache):
    put_into_cache(cache, COMMIT)
    assert resolve("owner/name").revision == COMMIT


def test_without_a_network_the_cache_of_another_branch_does_not_count(cache):
    put_into_cache(cache, COMMIT, branch="v1.0")
    with pytest.raises(SourceUnavailable):
        resolve("owner/name")
    assert resolve("owner/name", "v1.0").revision == COMMIT


def test_without_network_and_cache_the_sentence_says_what_to_pass(cache):
    with pytest.raises(SourceUnavailable) as refusal:
        resolve("owner/name")
    [sentence] = str(refusal.value).splitlines()
    assert sentence.startswith("owner/name: cannot ask the hub for the commit of 'main' (")
    assert sentence.endswith("pass --revision with the 40-digit commit, or a folder as --model")


def test_a_client_that_is_told_to_stay_offline_does(hub, cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SourceUnavailable, match="pass --revision"):
        resolve("owner/name")
    put_into_cache(cache, COMMIT)
    assert resolve("owner/name").revision == COMMIT
    assert hub.asked == []


def test_a_hub_that_is_out_of_order_counts_as_no_network(hub, cache):
    hub.says("/api/models/owner/name/revision/main", 500)
    with pytest.raises(SourceUnavailable, match=r"cannot ask the hub .*500.*pass --revision"):
        resolve("owner/name")
    put_into_cache(cache, COMMIT)
    assert resolve("owner/name").revision == COMMIT


def test_a_gated_model_is_refused_before_anything_runs(hub):
    # its commit is for everybody, its files are not
    hub.has(COMMIT, gated=True)
    hub.says("/api/models/owner/name/auth-check", 401, "GatedRepo")
    with pytest.raises(
        SourceUnavailable, match=r"HF_TOKEN may not read owner/name \(401\): accept its terms"
    ):
        resolve("owner/name")


def test_a_gated_model_is_given_to_whom_the_hub_knows(hub):
    hub.has(COMMIT, gated=True)
    hub.answers["/api/models/owner/name/auth-check"] = (200, {}, {})
    assert resolve("owner/name").revision == COMMIT


def test_a_gated_model_that_is_in_the_cache_needs_no_token(hub, cache):
    hub.has(COMMIT, gated=True)
    put_into_cache(cache, COMMIT)
    assert resolve("owner/name").revision == COMMIT
    assert hub.asked == ["/api/models/owner/name/revision/main"]


def test_a_token_that_may_not_read_the_model_is_said(hub):
    hub.says("/api/models/owner/name/revision/main", 403)
    with pytest.raises(SourceUnavailable, match=r"HF_TOKEN may not read owner/name \(403\)"):
        resolve("owner/name")


@pytest.mark.parametrize(("status", "code"), [(404, "RepoNotFound"), (401, "RepoNotFound")])
def test_a_model_that_the_hub_does_not_show_is_said(hub, status, code):
    hub.says("/api/models/owner/name/revision/main", status, code)
    with pytest.raises(
        SourceUnavailable, match=rf"no folder owner/name here, .* no such repository \({status}\).* HF_TOKEN"
    ):
        resolve("owner/name")


def test_a_revision_that_the_repository_lacks_is_said(hub):
    hub.says("/api/models/owner/name/revision/v9", 404, "RevisionNotFound")
    with pytest.raises(SourceUnavailable, match=r"owner/name has no branch, tag or commit 'v9' \(404\)"):
        resolve("owner/name", "v9")


def test_a_refusal_is_not_made_up_for_by_the_cache(hub, cache):
    # somebody who may no longer read a model is told so, and not served an old copy of it
    put_into_cache(cache, COMMIT)
    hub.says("/api/models/owner/name/revision/main", 403)
    with pytest.raises(SourceUnavailable):
        resolve("owner/name")


@pytest.mark.parametrize(
    "model", ["", "gpt2", "/no/such/folder", "./no", "a/b/c", "owner/", "owner/na me", "o--o/n"]
)
def test_what_is_neither_folder_nor_repository_is_refused_without_asking(hub, model):
    with pytest.raises(WrongUsage, match="takes a folder or a repository on the hub as owner/name"):
        resolve(model)
    assert hub.asked == []


def test_a_file_is_no_model(model):
    with pytest.raises(WrongUsage, match="is a file"):
        resolve(str(model / "model.safetensors"))


def test_a_repository_keeps_its_name(hub):
    with pytest.raises(WrongUsage, match="goes by its own name"):
        resolve("owner/name", COMMIT, name="another")


# --- run ids ---


@pytest.mark.parametrize(
    ("model_id", "slug"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB-SmolLM2-135M-Instruct"),
        ("a_b.c-1", "a_b.c-1"),
        ("über model (4 bit)", "ber-model-4-bit"),
        ("../../etc", "etc"),
        ("模型", "model"),
        ("x" * 100, "x" * 80),
        ("x" * 79 + "/y", "x" * 79),
    ],
)
def test_a_run_id_holds_of_a_name_what_a_folder_may_be_called(model_id, slug):
    assert run_slug(model_id) == slug
