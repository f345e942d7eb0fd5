"""One OpenAI-compatible server: its address, the key, pace, repeats, and what its errors mean."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential_jitter,
)

from generate.engines.replies import Completion, ErrorReply, Served, ServedList, error_in
from store.errors import WrongUsage

KEY_NAMES = ("COGLAKE_API_KEY", "OPENAI_API_KEY")

_TRIES = 6
_BACKOFF = wait_exponential_jitter(initial=1, max=30)
# a server that asks for more is out for now: going on would only turn the plan into errors
_LONGEST_PAUSE_S = 300.0
_LONGEST_SENTENCE = 300
_QUICK_S = 30.0
# 4xx that say nothing against the request: it came too slowly, or too many came
_MAY_PASS = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_EARLY, httpx.codes.TOO_MANY_REQUESTS)


class Gone(Exception):
    """The server cannot be used any more; the message says why."""


class Refused(Exception):
    """The server does not do this one request; the message says why.

    Attributes
    ----------
    error
        What the server says of it.
    """

    def __init__(self, sentence: str, error: ErrorReply | None = None) -> None:
        super().__init__(sentence)
        self.error = error or ErrorReply()


class _MayPass(Exception):
    """The same request may succeed a little later."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from, in seconds, and how it is waited for."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Key:
    """The secret that a server is shown; it is in no text that this module makes."""

    value: str | None
    name: str | None

    @classmethod
    def from_environment(cls) -> "Key":
        """Return the key of the first variable of ``KEY_NAMES`` that is set.

        Raises
        ------
        WrongUsage
            If it cannot be sent.
        """
        for name in KEY_NAMES:
            if value := os.environ.get(name, "").strip():
                if not (value.isascii() and value.isprintable()):
                    raise WrongUsage(
                        f"{name}: expected printable ASCII, found other characters; set it to the key alone"
                    )
                return cls(value, name)
        return cls(None, None)

    def __repr__(self) -> str:
        return f"Key({self.name})"

    def advice(self) -> str:
        """Return what to do about a key that is not accepted."""
        return f"correct {self.name}" if self.name else f"set {KEY_NAMES[0]}"


class Pace:
    """Lets requests go one after the other, evenly, and none while the server wants a pause."""

    def __init__(self, per_minute: int | None, clock: Clock) -> None:
        self._gap_s = 60 / per_minute if per_minute else 0.0
        self._clock = clock
        self._next_s = clock.now()
        self._order = asyncio.Lock()

    async def turn(self) -> None:
        """Wait until the next request may go."""
        async with self._order:
            while (wait_s := self._next_s - self._clock.now()) > 0:
                await self._clock.sleep(wait_s)
            self._next_s = self._clock.now() + self._gap_s

    def hold(self, pause_s: float) -> None:
        """Let no request go for some seconds."""
        self._next_s = max(self._next_s, self._clock.now() + pause_s)


class Server:
    """One server, for as long as an engine is open.

    Attributes
    ----------
    url
        Its address as it may be shown: without user, password and ``/v1``.
    trouble
        Why it is not used any more; None while it is.

    Parameters
    ----------
    address
        With or without ``/v1``; a user and a password in it are sent in place of the key.
    concurrency
        Most requests in flight.
    per_minute
        Most requests; None for no limit.
    timeout_s
        Of one request.
    transport
        HTTP transport in place of the network.

    Raises
    ------
    WrongUsage
        If the address is none.
    """

    def __init__(
        self,
        address: str,
        key: Key,
        *,
        concurrency: int,
        per_minute: int | None,
        timeout_s: float,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url, self._secrets = _parsed(address)
        user = (url.username, url.password) if url.userinfo else None
        self.url = str(url.copy_with(userinfo=b"")).rstrip("/").removesuffix("/v1").rstrip("/")
        self.trouble: str | None = None
        self._key = key
        if key.value:
            self._secrets.append(key.value)
        headers = {"Authorization": f"Bearer {key.value}"} if key.value and not user else {}
        self._quick_s = min(timeout_s, _QUICK_S)
        self._client = httpx.AsyncClient(
            headers=headers,
            auth=user,
            transport=transport,
            timeout=httpx.Timeout(timeout_s, connect=self._quick_s),
            limits=httpx.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency),
        )
        self._clock = clock
        self._pace = Pace(per_minute, clock)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def served(self) -> list[Served]:
        """Return the models that the server has.

        Raises
        ------
        Gone
            If it cannot be asked.
        """
        try:
            response = await self._client.get(f"{self.url}/v1/models", timeout=self._quick_s)
        except httpx.HTTPError as error:
            raise Gone(
                f"cannot reach the server {self.url}: {self._trouble_of(error)}; start it, or correct the "
                "address"
            ) from None
        self._check_access(response)
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Gone(
                f"{self.url} has no /v1/models (404): expected an OpenAI-compatible server; correct the "
                "address"
            )
        if not response.is_success:
            raise Gone(f"{self.url}/v1/models {self._answers(response)}; try again when the server is well")
        try:
            return ServedList.model_validate_json(response.content).data
        except ValidationError:
            raise Gone(
                f"{self.url}/v1/models: expected a list of models, found something else; correct the address"
            ) from None

    async def look_up(self, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401
        """Return the JSON that a path beside ``/v1`` answers; None if the server has no such thing."""
        try:
            response = await self._client.request(
                "GET" if body is None else "POST", f"{self.url}{path}", json=body, timeout=self._quick_s
            )
            return response.json() if response.is_success else None
        except (httpx.HTTPError, ValueError, RecursionError):
            return None

    async def complete(self, path: str, body: Mapping[str, object]) -> Completion:
        """Return what the server answers to one request, asked again where that may help.

        Raises
        ------
        Refused
            If it does not do this request.
        Gone
            If no request will succeed.
        """
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(_TRIES),
                wait=_BACKOFF,
                retry=retry_if_exception_type(_MayPass),
                sleep=self._clock.sleep,
                reraise=True,
            ):
                with attempt:
                    if self.trouble:
                        raise Gone(self.trouble)
                    await self._pace.turn()
                    return await self._post(path, body)
        except _MayPass as error:
            # one request that fails, or all that will come? the list of models costs the server nothing
            await self.served()
            raise Refused(f"{error} (asked {_TRIES} times)") from None
        raise AssertionError  # the loop returns or raises

    async def _post(self, path: str, body: Mapping[str, object]) -> Completion:
        try:
            response = await self._client.post(f"{self.url}{path}", json=body)
        except httpx.HTTPError as error:
            raise _MayPass(f"the server {self.url} did not answer: {self._trouble_of(error)}") from None
        self._check_access(response, forbidden_is_final=False)
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Gone(f"{self.url}{path} {self._answers(response)}; the server does not have it")
        if not response.is_success:
            raise self._failure(response, response.status_code)
        try:
            return Completion.model_validate_json(response.content)
        except ValidationError as error:
            # some servers and proxies answer 200 with an error in the body
            reply = error_in(response.content)
            if reply is not None:
                raise self._failure(response, reply.code or httpx.codes.BAD_REQUEST) from None
            found = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, found["loc"])) or "the whole of it"
            trouble = f"the server's answer is not a completion: {where}: {found['msg']}"
            # half a body is worth another try; a server with another form stays as it is
            raise (_MayPass(trouble) if found["type"] == "json_invalid" else Refused(trouble)) from None

    def _failure(self, response: httpx.Response, code: int) -> Exception:
        """Return the exception for an answer that is an error."""
        sentence = f"the server {self._answers(response, code)}"
        reply = error_in(response.content)
        if code == httpx.codes.PAYMENT_REQUIRED or (reply is not None and reply.is_spent):
            return Gone(f"{self.url} {self._answers(response, code)}; add credit to the account")
        is_too_long = reply is not None and reply.is_too_long
        if code not in _MAY_PASS and (is_too_long or code < httpx.codes.INTERNAL_SERVER_ERROR):
            return Refused(sentence, reply)
        pause_s = _asked_pause_s(response)
        if pause_s > _LONGEST_PAUSE_S:
            return Gone(f"{self.url} asks to come back in {pause_s:.0f} s: {sentence}")
        self._pace.hold(pause_s)
        return _MayPass(sentence)

    def _check_access(self, response: httpx.Response, *, forbidden_is_final: bool = True) -> None:
        if response.status_code == httpx.codes.UNAUTHORIZED:
            found = "the key" if self._key.name else "a request without a key"
            raise Gone(f"{self.url} does not accept {found} (401): {self._key.advice()}")
        # later on it may be about one request alone, such as a prompt that a filter does not let pass
        if response.status_code == httpx.codes.FORBIDDEN and forbidden_is_final:
            raise Gone(f"{self.url} {self._answers(response)}; ask for access to it, or {self._key.advice()}")

    def _answers(self, response: httpx.Response, code: int | None = None) -> str:
        """Return status and words of an answer that is an error, in short and without secrets."""
        reply = error_in(response.content)
        is_plain = response.headers.get("Content-Type", "").startswith("text/plain")
        text = reply.message if reply else response.text if is_plain else ""
        return f"answers {code or response.status_code}: {self._shown(text or response.reason_phrase)}"

    def _trouble_of(self, error: httpx.HTTPError) -> str:
        cause = error.__cause__
        while cause is not None and cause.__cause__ is not None:
            cause = cause.__cause__
        kind = "no answer in time" if isinstance(error, httpx.TimeoutException) else type(error).__name__
        return self._shown(str(error) or str(cause or "") or kind)

    def _shown(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join(text.split()).rstrip(".")
        return text if len(text) <= _LONGEST_SENTENCE else f"{text[:_LONGEST_SENTENCE]}..."


def _parsed(address: str) -> tuple[httpx.URL, list[str]]:
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        # user, password and query may be secrets
        shown = re.split("[?#]", address.rpartition("@")[2])[0]
        raise WrongUsage(
            f"server address {shown!r}: expected "
            "http(s)://host:port, with or without /v1 and without a query; correct --base-url"
        )
    return url, [url.password] if url.password else []


def _asked_pause_s(response: httpx.Response) -> float:
    """Return the seconds that Retry-After names, as a number or a date; 0 if it names none."""
    value: str = response.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0
