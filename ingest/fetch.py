"""Fetch pinned files into a cache that is addressed by their content."""

import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote
from uuid import uuid4

import httpx
import huggingface_hub  # loads its parts on first use, so that an ingest without the hub stays quick
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from store.errors import ChecksumMismatch, LakeUnusable, SourceUnavailable
from store.manifest import PinnedFile, Source
from store.settings import Home

_TRIES = 5
_BACKOFF = wait_random_exponential(multiplier=1, max=30)
# a server that asks for more than this is out of order for now; the user decides when to come back
_LONGEST_PAUSE_S = 60.0
_CHUNK_BYTES = 1 << 20
_NOT_THERE = (httpx.codes.NOT_FOUND, httpx.codes.GONE)


def cache_path(lake: Home, file: PinnedFile) -> Path:
    """Return where the cache of ``lake`` keeps the bytes of ``file``."""
    return lake.cache / "sha256" / file.sha256[:2] / file.sha256


def needs_login(source: Source) -> bool:
    """Return True if ``source`` is gated and neither ``HF_TOKEN`` nor a stored hub login is there."""
    return source.gated and huggingface_hub.get_token() is None


class Fetcher:
    """Brings pinned files into the cache: from a mirror that has them, else from upstream.

    Memory use does not depend on the size of a file, and one fetcher may serve several threads.

    Parameters
    ----------
    lake
        Lake whose cache is filled.
    mirror
        Folder or http(s) address that holds files under :meth:`store.manifest.Source.mirror_path`.
    transport
        HTTP transport in place of the network.
    sleep
        Called with the seconds to wait before a request is repeated.

    Raises
    ------
    SourceUnavailable
        If ``mirror`` is neither an address nor an existing folder.
    """

    def __init__(
        self,
        lake: Home,
        mirror: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if mirror and not _is_address(mirror) and not Path(mirror).is_dir():
            raise SourceUnavailable(
                f"the mirror folder {mirror} does not exist: correct COGLAKE_MIRROR or --mirror"
            )
        self._lake = lake
        self._mirror = mirror
        self._client = httpx.Client(
            transport=transport,
            follow_redirects=True,
            timeout=httpx.Timeout(60, connect=20),
            # the pinned hash is that of the file, so it must not be packed again on the way
            headers={"User-Agent": "coglake", "Accept-Encoding": "identity"},
        )
        self._persist = Retrying(
            retry=retry_if_exception(_may_pass),
            wait=_pause_s,
            stop=stop_after_attempt(_TRIES),
            sleep=sleep,
            reraise=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def fetch(self, source: Source, file: PinnedFile) -> Path:
        """Return the path of the verified bytes of ``file``.

        Raises
        ------
        ChecksumMismatch
            If the bytes found are not the pinned ones; nothing of them is kept.
        SourceUnavailable
            If neither the mirror nor upstream gives the file.
        LakeUnusable
            If the cache cannot be written.
        """
        target = cache_path(self._lake, file)
        with _lake_errors(self._lake):
            if target.exists():
                if _sha256(target) == file.sha256:
                    return target
                target.unlink(missing_ok=True)
            if not self._from_mirror(source, file):
                self._from_upstream(source, file)
        return target

    def _from_mirror(self, source: Source, file: PinnedFile) -> bool:
        """Keep the mirror's copy; False if there is none."""
        if not self._mirror:
            return False
        if _is_address(self._mirror):
            return self._download(
                source, file, f"{self._mirror.rstrip('/')}/{quote(source.mirror_path(file))}"
            )
        copy = Path(self._mirror) / source.mirror_path(file)
        if not copy.is_file():
            return False
        self._keep(source, file, _chunks(source, file, copy), origin=str(copy))
        return True

    def _from_upstream(self, source: Source, file: PinnedFile) -> None:
        if source.kind == "generated":
            raise SourceUnavailable(
                f"{source.uri(file)} is made, not fetched: run `coglake demo`, or of a stand-in "
                "`coglake ingest` with its name"
            )
        if source.kind == "github":
            url = f"https://raw.githubusercontent.com/{source.repo}/{source.revision}/{quote(file.path)}"
            if not self._download(source, file, url):
                raise SourceUnavailable(f"{source.uri(file)}: {url} is not there")
        else:
            self._from_hub(source, file)

    def _download(self, source: Source, file: PinnedFile, url: str) -> bool:
        """Keep what ``url`` serves; False if the server says that there is no such file."""
        try:
            self._persist(self._stream, source, file, url)
        except httpx.HTTPStatusError as error:
            if error.response.status_code in _NOT_THERE:
                return False
            answer = f"{error.response.status_code} {error.response.reason_phrase}"
            raise SourceUnavailable(f"{source.uri(file)}: {url} answers {answer}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            trouble = str(error) or type(error).__name__
            raise SourceUnavailable(
                f"{source.uri(file)}: cannot read {url}: {trouble}; check the network and COGLAKE_MIRROR"
            ) from None
        return True

    def _stream(self, source: Source, file: PinnedFile, url: str) -> None:
        with self._client.stream("GET", url) as response:
            response.raise_for_status()
            # raw: a server that marks a .gz file as gzip-encoded would have it unpacked otherwise
            self._keep(source, file, response.iter_raw(_CHUNK_BYTES), origin=url)

    def _from_hub(self, source: Source, file: PinnedFile) -> None:
        kind = "dataset" if source.kind == "hub_dataset" else "model"
        page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{source.repo}"
        if needs_login(source):
            raise SourceUnavailable(
                f"{source.uri(file)}: {source.repo} is gated: accept its terms at {page}, then set HF_TOKEN"
            )
        # the command says itself what goes on, and once at the end what went wrong
        import_module("huggingface_hub.utils").disable_progress_bars()
        import_module("huggingface_hub.utils.logging").set_verbosity_error()
        # a folder of our own: the hub's cache would keep a second copy for good
        with tempfile.TemporaryDirectory(dir=self._temporary_folder()) as folder:
            try:
                copy = huggingface_hub.hf_hub_download(
                    source.repo, file.path, repo_type=kind, revision=source.revision, local_dir=folder
                )
            except Exception as error:  # its HTTP library differs by version, and so do the classes it raises
                if _is_full(error):
                    raise
                raise SourceUnavailable(f"{source.uri(file)}: {_hub_trouble(error, page)}") from None
            self._keep(source, file, _chunks(source, file, Path(copy)), origin=page)

    def _temporary_folder(self) -> Path:
        """Return a folder beside the cached files, so that a stopped fetch leaves nothing among them."""
        folder = self._lake.cache / ".tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _keep(self, source: Source, file: PinnedFile, chunks: Iterable[bytes], origin: str) -> None:
        """Write ``chunks`` into the cache if they are the pinned bytes, and nothing otherwise."""
        target = cache_path(self._lake, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = self._temporary_folder() / f"{file.sha256}-{uuid4().hex}.part"
        digest = hashlib.sha256()
        try:
            with partial.open("xb") as out:
                for chunk in chunks:
                    digest.update(chunk)
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            found = digest.hexdigest()
            if found != file.sha256:
                raise ChecksumMismatch(
                    f"{source.uri(file)}: expected sha256 {file.sha256}, found {found} in {origin}; "
                    "nothing was kept"
                )
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def _is_address(mirror: str) -> bool:
    return mirror.startswith(("http://", "https://"))


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _chunks(source: Source, file: PinnedFile, copy: Path) -> Iterator[bytes]:
    """Yield the bytes of ``copy``; what goes wrong here is the copy's fault, not the lake's."""
    try:
        with copy.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise SourceUnavailable(f"{source.uri(file)}: cannot read {copy}: {error.strerror}") from None


@contextmanager
def _lake_errors(lake: Home) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if _is_full(error):
            raise LakeUnusable(f"no space left for {lake.cache}: free some or move COGLAKE_HOME") from None
        raise LakeUnusable(f"cannot use {lake.cache}: {error.strerror or error}") from None


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _hub_trouble(error: Exception, page: str) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return f"the account of HF_TOKEN may not read it ({status}): accept the terms at {page}"
    if status == httpx.codes.NOT_FOUND:
        return f"{page} does not have it at this revision (404)"
    # its own advice is to look into its cache, where this file never is
    cause = error.__cause__ or error
    trouble = next(iter(str(cause).splitlines()), type(cause).__name__)
    return f"cannot read {page}: {trouble}; check the network and COGLAKE_MIRROR"


def _may_pass(error: BaseException) -> bool:
    """Return True if the same request may succeed a little later."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        is_busy = status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR
        return is_busy and (_asked_pause_s(error) or 0) <= _LONGEST_PAUSE_S
    return isinstance(error, httpx.TransportError)


def _pause_s(state: RetryCallState) -> float:
    asked = _asked_pause_s(state.outcome.exception() if state.outcome else None)
    return _BACKOFF(state) if asked is None else asked


def _asked_pause_s(error: BaseException | None) -> float | None:
    """Return the seconds that the server's Retry-After names: a number, or a date."""
    if not isinstance(error, httpx.HTTPStatusError):
        return None
    value: str = error.response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
