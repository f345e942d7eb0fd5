"""Any server that speaks OpenAI's protocol: vLLM's own, llama.cpp's, TGI's, or a service.

With the model's tokenizer, prompts are rendered and tokenised here and the server is sent token ids, so a row
says exactly what was asked, and options can be scored. Without it the server renders chats, and only answers
can be had.
"""

import asyncio
import hashlib
import json
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import httpx

from generate.contract import (
    Answer,
    Choose,
    EngineFacts,
    Request,
    Response,
    ResponseStatus,
    ScoredOption,
)
from generate.engines.replies import SCORING, Completion, Scoring, is_logprob
from generate.engines.server import Clock, Gone, Key, Refused, Server
from generate.engines.settings import EngineSettings
from generate.tokens import Continuation, Encoded, Tokens, half_of_a_pair, load_tokenizer
from store.errors import EngineFailed, WrongUsage

_log = logging.getLogger(__name__)

_CHAT, _TEXT = "/v1/chat/completions", "/v1/completions"
# what a server decides by itself, with the value that asks for nothing
_OF_THE_SERVER = {
    "revision": None,
    "dtype": "auto",
    "tensor_parallel": 1,
    "data_parallel": 1,
    "prefix_caching": False,
    "trust_remote_code": False,
}
# ends of a response that is not the whole of what the model has to say, nor cut at the budget
_BROKEN_ENDS = ("content_filter", "error", "abort")
# a sentence that any tokenizer can encode
_SAMPLE = "The answer to 2 + 2 is 4."

T = TypeVar("T")


def describe(settings: EngineSettings) -> EngineFacts:
    """Return what the servers say of themselves and of the model.

    Raises
    ------
    WrongUsage
        If the settings name no server, or something that a server decides by itself.
    EngineFailed
        If a server cannot be reached, does not have the model, or differs from the others.
    """
    engine = OpenAIEngine(settings)
    try:
        return engine.facts
    finally:
        engine.close()


def open_engine(settings: EngineSettings) -> "OpenAIEngine":
    """Reach the servers. Raises as :func:`describe` does."""
    return OpenAIEngine(settings)


@dataclass(frozen=True, slots=True)
class _Said:
    """What one server says of itself."""

    server: str
    version: str
    context_tokens: int | None
    weights: str | None


class OpenAIEngine:
    """One model behind one or more servers. Requests go to whichever server is free first.

    Parameters
    ----------
    settings
        ``base_urls`` name the servers, ``tokenizer`` the tokenizer of the model that they serve.
    transport
        HTTP transport in place of the network.
    clock
        Time and waiting.

    Raises
    ------
    WrongUsage, EngineFailed
        As :func:`describe`.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        _check(settings)
        self._settings = settings
        key, clock = Key.from_environment(), clock or Clock()
        servers = [
            Server(
                address,
                key,
                concurrency=settings.concurrency,
                per_minute=settings.requests_per_minute,
                timeout_s=settings.timeout_s,
                clock=clock,
                transport=transport,
            )
            for address in settings.base_urls
        ]
        # one server named twice would be asked twice as much at once
        self._servers = list({server.url: server for server in servers}.values())
        self._scoring: dict[str, Scoring] = {}
        self._takes_ids: set[str] = set()
        self._runner = asyncio.Runner()
        self._is_closed = False
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def facts(self) -> EngineFacts:
        """What the run states of it."""
        return self._facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order.

        Raises
        ------
        EngineFailed
            If no server is left, or options are to be scored and a server gives no log-probabilities.
        """
        return self._run(self._respond(requests))

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._run(_together(server.close() for server in self._servers))
        finally:
            self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except KeyboardInterrupt:
            # what was under way would raise it again as soon as the loop goes on, when the engine is closed
            with suppress(KeyboardInterrupt):
                self._runner.run(_drop_all())
            raise

    # --- what the servers are ---

    def _open(self) -> None:
        settings = self._settings
        said = self._run(_together(self._look_at(server) for server in self._servers))
        first = said[0]
        for server, other in zip(self._servers, said, strict=True):
            if other != first:
                raise EngineFailed(
                    f"the servers differ: {self._servers[0].url} is {_in_words(first)}, {server.url} is "
                    f"{_in_words(other)}; name servers that are the same, or give each a run of its own"
                )
        asked, has = settings.max_context_tokens, first.context_tokens
        if asked is not None and has is not None and asked > has:
            raise EngineFailed(
                f"{self._servers[0].url} accepts {has} tokens, {asked} were asked for: lower --max-context"
            )
        self._context_tokens = asked if asked is not None else has
        self._is_vllm = first.server == "vllm"
        self._tokens: Tokens | None = None
        decisive = {"server": first.server, "prompts": "rendered by the server"}
        if first.weights:
            # the name that a model is served under may stand for other weights tomorrow
            decisive["weights"] = first.weights
        if settings.tokenizer is not None:
            tokenizer = load_tokenizer(settings.tokenizer, None)
            # where nobody names a limit, the server itself refuses what is too long
            self._tokens = Tokens(tokenizer, self._context_tokens or sys.maxsize)
            decisive |= {"prompts": "token ids", "tokenizer": _fingerprint(tokenizer)}
            self._sample_ids = _sample_ids(tokenizer)
            self._run(_together(self._check_tokenizer(server) for server in self._servers))
        self._facts = EngineFacts(
            name="openai",
            version=first.version,
            dtype="unknown",
            context_declared_tokens=None,
            context_effective_tokens=self._context_tokens,
            has_chat_template=self._tokens.has_chat_template
            if self._tokens
            else self._run(self._has_chat_template()),
            n_leading_bos=self._tokens.n_leading_bos if self._tokens else None,
            bos_token_id=self._tokens.bos_token_id if self._tokens else None,
            decisive=decisive,
            incidental={
                "urls": " ".join(server.url for server in self._servers),
                "concurrency": str(settings.concurrency),
                "requests_per_minute": str(settings.requests_per_minute or "no limit"),
                **({"tokenizer": settings.tokenizer} if settings.tokenizer else {}),
            },
        )

    async def _look_at(self, server: Server) -> _Said:
        try:
            served = await server.served()
        except Gone as error:
            raise EngineFailed(str(error)) from None
        card = next((model for model in served if model.id == self._settings.model), None)
        if card is None:
            names = ", ".join(model.id for model in served[:10]) or "none"
            more = f" and {len(served) - 10} more" if len(served) > 10 else ""
            raise EngineFailed(
                f"{server.url} does not serve {self._settings.model}: it serves {names}{more}; "
                "correct --model"
            )
        found = await server.look_up("/version")
        version = found.get("version") if isinstance(found, dict) else None
        return _Said(
            server=card.owned_by or "unknown",
            version=version if isinstance(version, str) else "unknown",
            context_tokens=card.context_tokens,
            weights=card.root,
        )

    async def _check_tokenizer(self, server: Server) -> None:
        """Fail if a vLLM server makes other tokens of a text than the tokenizer that was named."""
        if not self._is_vllm:
            return
        found = await server.look_up("/tokenize", {"model": self._settings.model, "prompt": _SAMPLE})
        theirs = found.get("tokens") if isinstance(found, dict) else None
        ours = self._sample_ids
        if theirs is not None and theirs != ours:
            raise EngineFailed(
                f"tokenizer {self._settings.tokenizer} is not the one of {self._settings.model} at "
                f"{server.url}: {_SAMPLE!r} is {ours} here and {theirs} there; correct --tokenizer"
            )

    async def _has_chat_template(self) -> bool:
        """Return whether the first server renders messages; one that cannot be asked is believed to."""
        if not self._is_vllm:
            return True
        messages = [{"role": "user", "content": _SAMPLE}]
        found = await self._servers[0].look_up(
            "/tokenize", {"model": self._settings.model, "messages": messages}
        )
        if found is not None:
            return True
        plain = await self._servers[0].look_up(
            "/tokenize", {"model": self._settings.model, "prompt": _SAMPLE}
        )
        return plain is None

    # --- whether they can do what is asked ---

    async def _prepare(self, requests: Sequence[Request]) -> None:
        """Fail before anything is asked if the servers cannot do it at all."""
        is_scoring = any(isinstance(request.task, Choose) for request in requests)
        if self._tokens is None:
            if is_scoring:
                raise EngineFailed(
                    "engine openai: options can be scored only with the tokenizer of "
                    f"{self._settings.model}: name it with --tokenizer, or have them answered in text "
                    "(--choice text)"
                )
            return
        for server in self._live():
            try:
                if is_scoring and server.url not in self._scoring:
                    self._scoring[server.url] = await self._find_scoring(server)
                elif server.url not in self._takes_ids:
                    await self._check_ids(server)
                self._takes_ids.add(server.url)
            except Gone as error:
                self._lose(server, error)

    async def _check_ids(self, server: Server) -> None:
        ids = self._sample_ids
        try:
            completion = await server.complete(_TEXT, self._body(prompt=ids, max_tokens=1))
        except Refused as error:
            raise EngineFailed(
                f"{server.url} does not take token ids ({error}): leave out --tokenizer, or use another "
                "engine"
            ) from None
        _check_count(server, completion, ids)

    async def _find_scoring(self, server: Server) -> Scoring:
        ids = self._sample_ids
        why = "it leaves them out"
        for name, wanted in SCORING.items():
            try:
                completion = await server.complete(_TEXT, self._body(prompt=[ids], max_tokens=1, **wanted))
            except Refused as error:
                why = str(error)
                continue
            found = completion.choices[0].of_prompt(ids, name)
            if all(is_logprob(logprob) for logprob in found[1:]):
                _check_count(server, completion, ids)
                return name
        raise EngineFailed(
            f"{server.url} gives no log-probabilities of prompt tokens ({why}), so options cannot be scored: "
            "have them answered in text (--choice text), or use another engine"
        )

    # --- sharing the work ---

    async def _respond(self, requests: Sequence[Request]) -> list[Response]:
        await self._prepare(requests)
        encoded: Sequence[Encoded | Response | None] = [None] * len(requests)
        if self._tokens is not None:
            encoded = self._tokens.encode_many(requests)
        responses: list[Response | None] = [
            found if isinstance(found, Response) else None for found in encoded
        ]
        pending = deque(place for place, response in enumerate(responses) if response is None)

        async def work(server: Server) -> None:
            while pending and server.trouble is None:
                place = pending.popleft()
                try:
                    responses[place] = await self._one(server, requests[place], encoded[place])
                except Gone as error:
                    pending.appendleft(place)
                    self._lose(server, error)

        while pending:
            live = self._live()
            async with asyncio.TaskGroup() as group:
                for server in live:
                    for _ in range(min(self._settings.concurrency, len(pending))):
                        group.create_task(work(server))
        return [response for response in responses if response is not None]

    def _live(self) -> list[Server]:
        live = [server for server in self._servers if server.trouble is None]
        if not live:
            troubles = "; ".join(str(server.trouble) for server in self._servers)
            raise EngineFailed(f"no server can be used: {troubles}; then run the same command again")
        return live

    def _lose(self, server: Server, error: Gone) -> None:
        if server.trouble is None:
            server.trouble = str(error)
            if any(other.trouble is None for other in self._servers):
                _log.warning("%s; the other servers go on", error)

    # --- one request ---

    async def _one(self, server: Server, request: Request, encoded: Encoded | Response | None) -> Response:
        ours = encoded if isinstance(encoded, Encoded) else None
        if ours is None and (surrogate := half_of_a_pair(_as_text(request))) is not None:
            written = _as_text(request).encode(errors="backslashreplace").decode()
            return Response("error", written, surrogate)
        asked = Response(
            "ok",
            prompt_text=ours.prompt_text if ours else _as_text(request),
            prompt_token_ids=ours.prompt_token_ids if ours else None,
            n_prompt_tokens=len(ours.prompt_token_ids) if ours else None,
        )
        try:
            if isinstance(request.task, Answer):
                return await self._answer(server, request, request.task, ours, asked)
            assert ours is not None  # _prepare refuses it otherwise
            return await self._choose(server, ours, asked)
        except Refused as error:
            if not error.error.is_too_long:
                return _failed(asked, "error", str(error))
            n_tokens = asked.n_prompt_tokens or error.error.n_prompt_tokens
            asked = replace(asked, n_prompt_tokens=n_tokens)
            return _failed(asked, "too_long", _lengths(error, n_tokens))

    async def _answer(
        self, server: Server, request: Request, task: Answer, ours: Encoded | None, asked: Response
    ) -> Response:
        budget = task.max_tokens if ours is None or ours.max_tokens is None else ours.max_tokens
        wanted: dict[str, object] = {"seed": self._settings.seed}
        if task.stop:
            wanted["stop"] = list(task.stop)
        if self._is_vllm:
            # the penalty of the model's generation_config.json would otherwise apply, even to greedy decoding
            wanted |= {"repetition_penalty": 1.0, "return_token_ids": True}
        path = _TEXT
        if ours is not None:
            wanted["prompt"] = list(ours.prompt_token_ids)
        elif isinstance(request.prompt, str):
            wanted["prompt"] = request.prompt
        else:
            path = _CHAT
            wanted["messages"] = [asdict(message) for message in request.prompt]
            if self._is_vllm:
                wanted["chat_template_kwargs"] = {"enable_thinking": False}
        try:
            completion = await server.complete(path, self._body(**wanted, max_tokens=budget))
        except Refused as refused:
            # it may be the budget alone that does not fit: the server's own numbers tell
            context, n_prompt = refused.error.context_tokens, refused.error.n_prompt_tokens
            if context is None or n_prompt is None or not 1 <= context - n_prompt < budget:
                raise
            budget = context - n_prompt
            completion = await server.complete(path, self._body(**wanted, max_tokens=budget))
        return self._read_answer(completion, budget, asked)

    def _read_answer(self, completion: Completion, budget: int, asked: Response) -> Response:
        [choice, *_], usage = completion.choices, completion.usage
        if asked.n_prompt_tokens is None and usage is not None:
            asked = replace(asked, n_prompt_tokens=usage.prompt_tokens)
        if self._context_tokens is not None and asked.n_prompt_tokens is not None:
            # servers that know their context shrink a budget without a word
            budget = max(1, min(budget, self._context_tokens - asked.n_prompt_tokens))
        text = choice.message.content if choice.message is not None else choice.text
        asked = replace(asked, finish_reason=choice.finish_reason, max_tokens=budget)
        if choice.finish_reason in _BROKEN_ENDS:
            return _failed(asked, "error", f"the server ended the response: {choice.finish_reason}")
        if text is None:
            refusal = choice.message.refusal if choice.message else None
            why = f"the model refuses: {refusal}" if refusal else f"finish reason {choice.finish_reason}"
            return _failed(asked, "error", f"the server's answer holds no text ({why})")
        ids = None if choice.token_ids is None else tuple(choice.token_ids)
        counted = usage.completion_tokens if usage else None
        return replace(
            asked,
            text=text,
            response_token_ids=ids,
            n_response_tokens=counted if ids is None else len(ids),
        )

    async def _choose(self, server: Server, ours: Encoded, asked: Response) -> Response:
        scoring = self._scoring[server.url]
        sequences = [list(option.token_ids) for option in ours.continuations]
        completion = await server.complete(
            _TEXT, self._body(prompt=sequences, max_tokens=1, **SCORING[scoring])
        )
        choices = {choice.index: choice for choice in completion.choices}
        if set(choices) != set(range(len(sequences))):
            raise Refused(f"the server answers {len(choices)} sequences, {len(sequences)} were sent")
        options = tuple(
            _scored(continuation, choices[place].of_prompt(continuation.token_ids, scoring))
            for place, continuation in enumerate(ours.continuations)
        )
        asked = replace(asked, options=options)
        for option in options:
            if option.status != "ok":
                return _failed(asked, option.status, f"option {option.option!r}: {option.reason}")
        return asked

    def _body(self, **wanted: object) -> dict[str, object]:
        return {"model": self._settings.model, "temperature": 0, **wanted}


def _check(settings: EngineSettings) -> None:
    if not settings.base_urls:
        raise WrongUsage(
            "engine openai: expected the address of a server, found none; name it with --base-url"
        )
    for name, nothing in _OF_THE_SERVER.items():
        if getattr(settings, name) != nothing:
            raise WrongUsage(
                f"engine openai: --{name.replace('_', '-')} is decided where the server is started; "
                "leave it out"
            )
    if settings.may_extend_context:
        raise WrongUsage(
            "engine openai: how long a context may be is decided where the server is started, so none can be "
            "extended here; ask for one within the server's, or leave it out"
        )
    if settings.max_context_tokens is not None and settings.tokenizer is None:
        raise WrongUsage(
            "engine openai: --max-context needs the tokenizer that counts the tokens; "
            "name it with --tokenizer"
        )


def _check_count(server: Server, completion: Completion, ids: Sequence[int]) -> None:
    counted = completion.usage.prompt_tokens if completion.usage else None
    if counted is not None and counted != len(ids):
        raise EngineFailed(
            f"{server.url} counts {counted} tokens where {len(ids)} token ids were sent, so it does not take "
            "them as they are: leave out --tokenizer, or use another engine"
        )


def _sample_ids(tokenizer: Any) -> list[int]:  # noqa: ANN401
    encoded = Tokens(tokenizer, sys.maxsize).encode(Request(_SAMPLE, Answer(1)))
    if isinstance(encoded, Response):
        raise EngineFailed(f"the tokenizer cannot encode {_SAMPLE!r}: {encoded.reason}; correct --tokenizer")
    return list(encoded.prompt_token_ids)


def _scored(continuation: Continuation, logprobs: Sequence[float | None]) -> ScoredOption:
    """Return an option with the log-probabilities of its own tokens, or without any."""
    ids = continuation.token_ids[continuation.start :]
    own = logprobs[continuation.start :]
    found = tuple(logprob for logprob in own if is_logprob(logprob))
    scored = ScoredOption(
        continuation.option,
        token_ids=ids,
        token_logprobs_nats=found,
        is_merged=continuation.is_merged,
        terminator=continuation.terminator,
    )
    if len(found) == len(ids):
        return scored
    lacking = next(token for token, logprob in zip(ids, own, strict=True) if not is_logprob(logprob))
    return replace(
        scored,
        token_logprobs_nats=(),
        status="missing_option",
        reason=f"the server gives no log-probability of token {lacking}",
    )


def _failed(asked: Response, status: ResponseStatus, reason: str) -> Response:
    return replace(asked, status=status, reason=reason)


def _lengths(error: Refused, n_prompt_tokens: int | None) -> str:
    context_tokens = error.error.context_tokens
    if n_prompt_tokens is None or context_tokens is None:
        return f"the prompt does not fit in the server's context: {error}"
    return (
        f"the prompt has {n_prompt_tokens} tokens; with what is asked behind it, it does not fit in the "
        f"server's context of {context_tokens} tokens"
    )


def _as_text(request: Request) -> str:
    """Return the prompt, or its messages as canonical JSON."""
    if isinstance(request.prompt, str):
        return request.prompt
    messages = [asdict(message) for message in request.prompt]
    return json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _fingerprint(tokenizer: Any) -> str:  # noqa: ANN401
    """Return a short sha256 of vocabulary and template: a folder's name says nothing on another machine."""
    content = [sorted(tokenizer.get_vocab().items()), getattr(tokenizer, "chat_template", None)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _in_words(said: _Said) -> str:
    context = "an unknown number of" if said.context_tokens is None else said.context_tokens
    weights = f" and weights {said.weights}" if said.weights else ""
    return f"{said.server} {said.version} with {context} tokens of context{weights}"


async def _drop_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _together(work: Iterable[Awaitable[T]]) -> list[T]:
    return await asyncio.gather(*work)
