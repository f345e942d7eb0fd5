"""Fetching: only pinned bytes enter the cache, wherever they come from, and nothing else stays."""

import errno
import gzip
import hashlib
import logging
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import huggingface_hub
import pytest

from ingest.fetch import Fetcher, cache_path
from store.errors import ChecksumMismatch, LakeUnusable, SourceUnavailable
from store.manifest import Source
from store.settings import Home

CONTENT = b"run,trial,reward\n0,0,1\n" * 1000
REVISION = "0123456789" * 4
RAW = f"https://raw.githubusercontent.com/owner/archive/{REVISION}/data/a%20b.csv"


def pinned(content: bytes = CONTENT, kind: str = "github", gated: bool = False) -> Source:
    sha256 = hashlib.sha256(content).hexdigest()
    return Source(
        id="archive",
        kind=kind,
        repo="owner/archive" if kind != "generated" else "archive",
        revision=REVISION if kind != "generated" else "1",
        licence="MIT",
        description="Outputs of others.",
        gated=gated,
        files=[{"path": "data/a b.csv", "sha256": sha256, "bytes": len(content)}],
    )


@dataclass(frozen=True)
class Answer:
    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Server:
    """Answers in turn, and remembers what it was asked; the last answer is repeated."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(str(request.url))
        if isinstance(answer, Exception):
            raise answer
        # a stream, because httpx would unpack bytes given as content
        body = httpx.ByteStream(answer.content)
        return httpx.Response(answer.status, headers=answer.headers, stream=body)

    def fetch(self, lake: Home, source: Source, mirror: str | None = None) -> Path:
        transport = httpx.MockTransport(self)
        with Fetcher(lake, mirror, transport=transport, sleep=self.pauses.append) as fetcher:
            return fetcher.fetch(source, source.files[0])


FOUND = Answer(content=CONTENT)
OFFLINE = httpx.ConnectError("Name or service not known")


@pytest.fixture
def lake(tmp_path) -> Home:
    return Home(tmp_path / "lake")


@pytest.fixture
def token(monkeypatch) -> None:
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")


@pytest.fixture
def no_token(monkeypatch) -> None:
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)


def mirror_with(tmp_path: Path, source: Source, content: bytes) -> str:
    path = tmp_path / "mirror" / source.mirror_path(source.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return str(tmp_path / "mirror")


def files_left(lake: Home) -> list[Path]:
    return [path for path in lake.root.rglob("*") if path.is_file()]


def test_bytes_from_github_land_in_the_cache_under_their_hash(lake):
    server, source = Server(FOUND), pinned()
    path = server.fetch(lake, source)
    sha256 = source.files[0].sha256
    assert path == lake.cache / "sha256" / sha256[:2] / sha256
    assert path.read_bytes() == CONTENT
    assert files_left(lake) == [path]
    assert server.asked == [RAW]


def test_a_second_fetch_asks_nobody(lake):
    source = pinned()
    Server(FOUND).fetch(lake, source)
    nobody = Server(OFFLINE)
    assert nobody.fetch(lake, source).read_bytes() == CONTENT
    assert nobody.asked == []


def test_a_damaged_cache_file_is_fetched_again_not_trusted(lake):
    source = pinned()
    path = Server(FOUND).fetch(lake, source)
    path.write_bytes(CONTENT[:-1] + b"X")
    assert Server(FOUND).fetch(lake, source).read_bytes() == CONTENT


def test_a_damaged_cache_file_does_not_survive_a_failed_fetch(lake):
    source = pinned()
    Server(FOUND).fetch(lake, source).write_bytes(b"damaged")
    with pytest.raises(SourceUnavailable):
        Server(OFFLINE).fetch(lake, source)
    assert files_left(lake) == []


def test_other_users_of_a_shared_lake_may_read_the_cache(lake):
    umask = os.umask(0o022)
    try:
        mode = Server(FOUND).fetch(lake, pinned()).stat().st_mode
    finally:
        os.umask(umask)
    assert stat.S_IMODE(mode) == 0o644


def test_a_wrong_file_leaves_nothing_behind_and_names_both_hashes(lake):
    wrong, source = b"<html>not the file</html>", pinned()
    server = Server(Answer(content=wrong))
    with pytest.raises(ChecksumMismatch) as refusal:
        server.fetch(lake, source)
    sentence = str(refusal.value)
    for word in (
        source.uri(source.files[0]),
        source.files[0].sha256,
        hashlib.sha256(wrong).hexdigest(),
        RAW,
    ):
        assert word in sentence
    assert refusal.value.exit_code == 11
    assert files_left(lake) == []
    assert len(server.asked) == 1


def test_an_empty_file_is_a_file(lake):
    assert Server(Answer(content=b"")).fetch(lake, pinned(b"")).read_bytes() == b""


def test_a_gz_file_is_not_unpacked_on_the_way(lake):
    packed = gzip.compress(CONTENT)
    server = Server(Answer(content=packed, headers={"Content-Encoding": "gzip"}))
    assert server.fetch(lake, pinned(packed)).read_bytes() == packed


def test_a_busy_server_is_asked_again(lake):
    server = Server(Answer(503), OFFLINE, Answer(429), FOUND)
    assert server.fetch(lake, pinned()).read_bytes() == CONTENT
    assert len(server.asked) == 4
    assert len(server.pauses) == 3
    assert all(0 <= pause <= 30 for pause in server.pauses)


def test_retry_after_in_seconds_is_honoured(lake):
    server = Server(Answer(429, headers={"Retry-After": "7"}), FOUND)
    server.fetch(lake, pinned())
    assert server.pauses == [7.0]


def test_retry_after_as_a_date_is_honoured(lake):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    server = Server(Answer(503, headers={"Retry-After": later}), FOUND)
    server.fetch(lake, pinned())
    assert 30 < server.pauses[0] <= 40


def test_retry_after_that_is_neither_falls_back_to_backoff(lake):
    server = Server(Answer(503, headers={"Retry-After": "soon"}), FOUND)
    server.fetch(lake, pinned())
    assert len(server.pauses) == 1


def test_a_server_that_asks_for_an_hour_is_not_waited_for(lake):
    server = Server(Answer(429, headers={"Retry-After": "3600"}), FOUND)
    with pytest.raises(SourceUnavailable, match="answers 429"):
        server.fetch(lake, pinned())
    assert server.pauses == []


def test_without_a_network_it_gives_up_with_one_sentence(lake):
    server = Server(OFFLINE)
    with pytest.raises(SourceUnavailable, match=r"Name or service not known.*COGLAKE_MIRROR") as refusal:
        server.fetch(lake, pinned())
    assert refusal.value.exit_code == 12
    assert "\n" not in str(refusal.value)
    assert len(server.asked) == 5
    assert files_left(lake) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "answers 401 Unauthorized"),
        (403, "answers 403 Forbidden"),
        (404, "is not there"),
        (410, "is not there"),
    ],
)
def test_a_refusal_is_not_repeated(lake, status, words):
    server = Server(Answer(status))
    with pytest.raises(SourceUnavailable, match=f"github://owner/archive.*: {RAW} {words}$"):
        server.fetch(lake, pinned())
    assert len(server.asked) == 1


def test_the_mirror_comes_before_upstream(lake, tmp_path):
    server, source = Server(OFFLINE), pinned()
    mirror = mirror_with(tmp_path, source, CONTENT)
    assert server.fetch(lake, source, mirror).read_bytes() == CONTENT
    assert server.asked == []


def test_a_wrong_mirror_copy_is_an_error_not_a_reason_to_look_elsewhere(lake, tmp_path):
    server, source = Server(FOUND), pinned()
    mirror = mirror_with(tmp_path, source, b"other bytes")
    with pytest.raises(ChecksumMismatch, match=f"in {mirror}/github/owner/archive"):
        server.fetch(lake, source, mirror)
    assert server.asked == []
    assert files_left(lake) == []


def test_a_file_missing_in_the_mirror_comes_from_upstream(lake, tmp_path):
    (tmp_path / "mirror").mkdir()
    server = Server(FOUND)
    assert server.fetch(lake, pinned(), str(tmp_path / "mirror")).read_bytes() == CONTENT
    assert server.asked == [RAW]


def test_a_mistyped_mirror_folder_is_named_and_not_passed_over(lake, tmp_path):
    with pytest.raises(SourceUnavailable, match=r"mirorr does not exist.*COGLAKE_MIRROR"):
        Fetcher(lake, str(tmp_path / "mirorr"))


def test_a_mirror_copy_that_cannot_be_read_is_the_mirrors_fault(lake, tmp_path, monkeypatch):
    source = pinned()
    mirror = mirror_with(tmp_path, source, CONTENT)
    real_open = Path.open

    def refusing(path: Path, *args, **options):
        if path.is_relative_to(mirror):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, *args, **options)

    monkeypatch.setattr(Path, "open", refusing)
    with pytest.raises(SourceUnavailable, match=r"cannot read .*mirror.*: Permission denied"):
        Server(FOUND).fetch(lake, source, mirror)


def test_a_mirror_address_is_asked_first_under_the_mirror_layout(lake):
    server = Server(FOUND)
    server.fetch(lake, pinned(), "https://mirror.example/pins/")
    assert server.asked == [f"https://mirror.example/pins/github/owner/archive/{REVISION}/data/a%20b.csv"]


def test_a_mirror_address_that_lacks_the_file_falls_back_to_upstream(lake):
    server = Server(Answer(404), FOUND)
    server.fetch(lake, pinned(), "https://mirror.example")
    assert server.asked[1] == RAW


def test_a_mirror_address_that_is_no_address_is_one_sentence(lake):
    with pytest.raises(SourceUnavailable, match="cannot read http://"):
        Server(FOUND).fetch(lake, pinned(), "http://mirror.example:port")


def test_generated_files_come_from_the_demo_only(lake, tmp_path):
    server, source = Server(FOUND), pinned(kind="generated")
    with pytest.raises(SourceUnavailable, match="coglake demo"):
        server.fetch(lake, source)
    mirror = mirror_with(tmp_path, source, CONTENT)
    assert server.fetch(lake, source, mirror).read_bytes() == CONTENT
    assert server.asked == []


@pytest.mark.usefixtures("no_token")
def test_a_gated_source_without_a_token_is_refused_before_any_request(lake, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: pytest.fail("asked the hub"))
    server = Server(FOUND)
    with pytest.raises(SourceUnavailable) as refusal:
        server.fetch(lake, pinned(kind="hub_dataset", gated=True))
    assert refusal.value.exit_code == 12
    assert "HF_TOKEN" in str(refusal.value)
    assert "huggingface.co/datasets/owner/archive" in str(refusal.value)
    assert server.asked == []
    assert not lake.root.exists()


@pytest.mark.usefixtures("no_token")
def test_a_gated_source_in_the_mirror_needs_no_token(lake, tmp_path):
    source = pinned(kind="hub_dataset", gated=True)
    mirror = mirror_with(tmp_path, source, CONTENT)
    assert Server(OFFLINE).fetch(lake, source, mirror).read_bytes() == CONTENT


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(("kind", "repo_type"), [("hub_dataset", "dataset"), ("hub_model", "model")])
def test_the_hub_is_asked_for_the_pinned_revision(lake, monkeypatch, kind, repo_type):
    asked = []

    def download(repo_id: str, filename: str, *, repo_type: str, revision: str, local_dir: str) -> str:
        asked.append((repo_id, filename, repo_type, revision))
        path = Path(local_dir) / filename
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    path = Server(OFFLINE).fetch(lake, pinned(kind=kind, gated=True))
    assert path.read_bytes() == CONTENT
    assert asked == [("owner/archive", "data/a b.csv", repo_type, REVISION)]
    assert files_left(lake) == [path]


@pytest.mark.usefixtures("token")
def test_wrong_bytes_from_the_hub_leave_nothing_behind(lake, monkeypatch):
    def download(_: str, filename: str, *, local_dir: str, **__: str) -> str:
        path = Path(local_dir) / "copy"
        path.write_bytes(b"other bytes")
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ChecksumMismatch, match=r"in https://huggingface.co/datasets/owner/archive"):
        Server(OFFLINE).fetch(lake, pinned(kind="hub_dataset"))
    assert files_left(lake) == []


class HubError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("first line\nsecond line")
        self.response = httpx.Response(status)


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HubError(401), r"HF_TOKEN may not read it \(401\)"),
        (HubError(403), r"HF_TOKEN may not read it \(403\).*accept the terms"),
        (HubError(404), r"at this revision \(404\)"),
        (
            HubError(500),
            "cannot read https://huggingface.co/datasets/owner/archive: first line; check the net",
        ),
        (ConnectionError(), "ConnectionError"),
    ],
)
def test_a_hub_refusal_is_one_sentence(lake, monkeypatch, error, words):
    def refuse(*_, **__) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(SourceUnavailable, match=words):
        Server(OFFLINE).fetch(lake, pinned(kind="hub_dataset", gated=True))
    assert files_left(lake) == []


def test_without_a_network_the_hub_client_is_silent_and_its_trouble_one_sentence(lake, monkeypatch, capfd):
    def refuse(*_, **__) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        advice = "An error happened and the file is not in the local cache. Please check your connection."
        raise LookupError(advice) from OFFLINE

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    level = huggingface_hub.utils.logging.get_verbosity()
    huggingface_hub.utils.logging.set_verbosity_warning()
    try:
        with pytest.raises(SourceUnavailable) as refusal:
            Server(OFFLINE).fetch(lake, pinned(kind="hub_dataset"))
    finally:
        huggingface_hub.utils.logging.set_verbosity(level)
    assert refusal.value.exit_code == 12
    assert str(refusal.value).endswith(
        "cannot read https://huggingface.co/datasets/owner/archive: Name or service not known; "
        "check the network and COGLAKE_MIRROR"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing_behind(lake, monkeypatch, code):
    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("ingest.fetch.os.fsync", full)
    with pytest.raises(LakeUnusable, match=r"no space left for .*cache") as refusal:
        Server(FOUND).fetch(lake, pinned())
    assert refusal.value.exit_code == 14
    assert files_left(lake) == []


@pytest.mark.usefixtures("token")
def test_a_disk_that_the_hub_client_fills_is_not_called_a_network_trouble(lake, monkeypatch):
    def full(*_, **__) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(LakeUnusable, match="no space left"):
        Server(OFFLINE).fetch(lake, pinned(kind="hub_dataset"))


def test_a_lake_that_is_a_file_is_one_sentence(lake):
    lake.root.write_text("not a folder")
    with pytest.raises(LakeUnusable, match=r"cannot use .*cache: Not a directory"):
        Server(FOUND).fetch(lake, pinned())


def test_the_same_file_fetched_by_several_threads_is_whole(lake):
    source = pinned()
    with Fetcher(lake, None, transport=httpx.MockTransport(Server(FOUND))) as fetcher:
        threads = [threading.Thread(target=fetcher.fetch, args=(source, source.files[0])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert files_left(lake) == [cache_path(lake, source.files[0])]
    assert cache_path(lake, source.files[0]).read_bytes() == CONTENT


# --- over a real socket ---


@pytest.fixture
def truncating_server() -> Iterator[ThreadingHTTPServer]:
    """Serve CONTENT at every path; the first ``n_cut`` answers break off in the middle."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.n_asked += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            is_cut = self.server.n_asked <= self.server.n_cut
            self.wfile.write(CONTENT[: len(CONTENT) // 2] if is_cut else CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.n_asked = server.n_cut = 0
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def fetch_from(server: ThreadingHTTPServer, lake: Home) -> Path:
    source = pinned()
    with Fetcher(lake, f"http://127.0.0.1:{server.server_port}", sleep=lambda _: None) as fetcher:
        return fetcher.fetch(source, source.files[0])


def test_a_body_that_breaks_off_is_fetched_again(lake, truncating_server):
    truncating_server.n_cut = 2
    path = fetch_from(truncating_server, lake)
    assert path.read_bytes() == CONTENT
    assert truncating_server.n_asked == 3
    assert files_left(lake) == [path]


def test_a_body_that_always_breaks_off_leaves_nothing_behind(lake, truncating_server):
    truncating_server.n_cut = 99
    with pytest.raises(SourceUnavailable, match=r"cannot read http://127.0.0.1"):
        fetch_from(truncating_server, lake)
    assert files_left(lake) == []


def test_the_cache_is_enough_when_the_mirror_is_gone(lake, truncating_server, tmp_path):
    path = fetch_from(truncating_server, lake)
    source = pinned()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert Server(OFFLINE).fetch(lake, source, str(empty)) == path
    shutil.rmtree(lake.cache)
    with pytest.raises(SourceUnavailable):
        Server(OFFLINE).fetch(lake, source, str(empty))
