"""Servers that speak OpenAI's protocol: what is sent, what becomes of each kind of answer, who does what."""

import asyncio
import json
import math
import re
import signal
import threading
from base64 import b64encode
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import httpx
import pytest

from generate.contract import Answer, Choose, Message, Request
from generate.engines import openai_engine
from generate.engines.openai_engine import OpenAIEngine
from generate.engines.replies import error_in
from generate.engines.server import Clock
from generate.engines.settings import EngineSettings
from store.errors import EngineFailed, WrongUsage

KEY = "sk-secret-0123456789"
CHAT = (Message("system", "Be brief."), Message("user", "2 + 2?"))


class Letters:
    """A tokenizer whose tokens are characters, without BOS."""

    name_or_path = "letters"
    chat_template = "written below"
    all_special_tokens = ()
    bos_token_id = None
    eos_token = "\x03"

    def __init__(self):
        self.added_tokens_decoder = {}

    def __call__(self, texts, **_):
        return {"input_ids": [[ord(letter) for letter in text] for text in texts]}

    def get_vocab(self):
        return {chr(number): number for number in range(128)}

    def convert_ids_to_tokens(self, ids):
        return [chr(number) for number in ids]

    def decode(self, ids, **_):
        return "".join(map(chr, ids))

    def apply_chat_template(self, messages, **_):
        return "".join(f"<{one['role']}>{one['content']}" for one in messages) + "<assistant>"


def logprob(token, position):
    """What the fake servers say of a token: something that differs by token and by place."""
    return -((token * 31 + position * 17) % 97) / 10 - 0.1


class Fake:
    """A server with one model; ``reply`` may answer in its place, or raise."""

    def __init__(
        self,
        reply=None,
        *,
        owned_by="vllm",
        version="9.1",
        context=1000,
        weights="/weights",
        scoring="prompt_logprobs",
    ):
        self.reply, self.scoring, self.version = reply, scoring, version
        self.card = {"id": "m", "owned_by": owned_by, "max_model_len": context, "root": weights}
        self.has_template, self.is_up = True, True
        self.asked, self.headers = [], []
        self.n_in_flight = self.most_in_flight = 0

    def bodies(self):
        return [body for _, body in self.asked]

    async def __call__(self, request):
        if not self.is_up:
            raise httpx.ConnectError("Connection refused", request=request)
        path, self.headers = request.url.path, [*self.headers, dict(request.headers)]
        if path == "/v1/models":
            return httpx.Response(200, json={"data": [self.card, {"id": "other"}]})
        body = json.loads(request.content or b"{}")
        if path == "/version" and self.version:
            return httpx.Response(200, json={"version": self.version})
        if path == "/tokenize" and self.card["owned_by"] == "vllm":
            if "messages" in body and not self.has_template:
                return httpx.Response(400, json={"error": {"message": "no chat template"}})
            return httpx.Response(200, json={"tokens": [ord(letter) for letter in body.get("prompt", "")]})
        if path not in ("/v1/completions", "/v1/chat/completions"):
            return httpx.Response(404)
        self.asked.append((path, body))
        self.n_in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.n_in_flight)
        try:
            answer = self.reply and self.reply(body)
            if asyncio.iscoroutine(answer):
                answer = await answer
        finally:
            self.n_in_flight -= 1
        return answer or httpx.Response(200, json=self.completion(path, body))

    def completion(self, path, body):
        prompts = body.get("prompt", "")
        prompts = prompts if isinstance(prompts, list) and isinstance(prompts[0], list) else [prompts]
        choices = [self.choice(path, body, index, prompt) for index, prompt in enumerate(prompts)]
        n_prompt = sum(map(len, prompts)) if path == "/v1/completions" else 12
        # the order of choices is nobody's promise
        return {"choices": choices[::-1], "usage": {"prompt_tokens": n_prompt, "completion_tokens": 3}}

    def choice(self, path, body, index, prompt):
        choice = {"index": index, "finish_reason": "stop"}
        if path == "/v1/chat/completions":
            return choice | {
                "message": {"role": "assistant", "content": f"to {body['messages'][-1]['content']}"}
            }
        text = prompt if isinstance(prompt, str) else "".join(map(chr, prompt))
        choice["text"] = f"to {text}"
        if body.get("return_token_ids"):
            choice["token_ids"] = [1, 2]
        if isinstance(prompt, str):
            return choice
        found = [None, *(logprob(token, place) for place, token in enumerate(prompt) if place)]
        if body.get("prompt_logprobs") is not None and self.scoring == "prompt_logprobs":
            choice["prompt_logprobs"] = [
                None if value is None else {str(token): {"logprob": value, "rank": 1}}
                for token, value in zip(prompt, found, strict=True)
            ]
        if body.get("echo") and self.scoring == "echo":
            choice["logprobs"] = {"token_logprobs": [*found, -0.5], "tokens": []}
        return choice


class FakeClock:
    """Time that passes only while somebody waits."""

    def __init__(self):
        self.s, self.slept = 1000.0, []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        # whoever does not wait has the time to do something meanwhile
        for _ in range(30):
            await asyncio.sleep(0)
        self.s += seconds

    def clock(self):
        return Clock(now=lambda: self.s, sleep=self.sleep)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("COGLAKE_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(openai_engine, "load_tokenizer", lambda name, revision: Letters())


@pytest.fixture
def time_passes():
    return FakeClock()


@pytest.fixture
def opened(time_passes):
    engines = []

    def opened(*fakes, **settings):
        hosts = {f"s{number}": fake for number, fake in enumerate(fakes)}
        urls = settings.pop("base_urls", tuple(f"http://{host}:8000" for host in hosts))
        engine = OpenAIEngine(
            EngineSettings(engine="openai", model="m", base_urls=urls, **settings),
            transport=httpx.MockTransport(lambda request: hosts[request.url.host](request)),
            clock=time_passes.clock(),
        )
        engines.append(engine)
        return engine

    yield opened
    for engine in engines:
        engine.close()


def answers(n, max_tokens=8):
    return [Request(f"question {number}", Answer(max_tokens)) for number in range(n)]


def replying(*replies):
    """Give these replies first, each once, and then the server's own."""
    left = list(replies)
    return lambda body: left.pop(0) if left else None


def always(status=200, **keywords):
    return lambda body: httpx.Response(status, **keywords)


def error(status, message, **more):
    return httpx.Response(status, json={"error": {"message": message, **more}})


# --- what a server says of itself ---


def test_the_facts_are_what_the_server_says(opened):
    facts = opened(Fake(), Fake(), concurrency=3).facts
    assert (facts.name, facts.version, facts.dtype) == ("openai", "9.1", "unknown")
    assert (facts.context_declared_tokens, facts.context_effective_tokens) == (None, 1000)
    assert (facts.has_chat_template, facts.n_leading_bos) == (True, None)
    assert facts.decisive == {
        "server": "vllm",
        "prompts": "rendered by the server",
        "weights": "/weights",
    }
    assert facts.incidental == {
        "urls": "http://s0:8000 http://s1:8000",
        "concurrency": "3",
        "requests_per_minute": "no limit",
    }


def test_what_a_server_does_not_say_is_unknown(opened):
    facts = opened(Fake(owned_by=None, version=None, context=None)).facts
    assert (facts.version, facts.context_effective_tokens) == ("unknown", None)
    assert facts.decisive["server"] == "unknown"


def test_with_a_tokenizer_its_template_and_its_content_are_facts(opened, monkeypatch):
    facts = opened(Fake(), tokenizer="somewhere").facts
    assert facts.has_chat_template and facts.n_leading_bos == 0
    assert facts.decisive["prompts"] == "token ids"
    moved = opened(Fake(), tokenizer="elsewhere").facts
    assert moved.decisive == facts.decisive
    monkeypatch.setattr(Letters, "chat_template", "another")
    assert opened(Fake(), tokenizer="somewhere").facts.decisive != facts.decisive


def test_a_base_model_without_template_is_not_asked_in_chats(opened):
    fake = Fake()
    fake.has_template = False
    assert not opened(fake).facts.has_chat_template


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://s0:8000/v1", "http://s0:8000"),
        ("http://s0:8000/v1/", "http://s0:8000"),
        ("http://s0:8000/", "http://s0:8000"),
        (" http://s0 ", "http://s0"),
    ],
)
def test_an_address_may_end_in_v1_or_not(opened, address, shown):
    engine = opened(Fake(), base_urls=(address,))
    assert engine.facts.incidental["urls"] == shown
    assert engine.respond(answers(1))[0].text == "to question 0"


def test_a_server_that_is_named_twice_is_one(opened):
    async def reply(body):
        await asyncio.sleep(0.001)

    fake = Fake(reply)
    engine = opened(fake, base_urls=("http://s0:8000", "http://s0:8000/v1/"), concurrency=2)
    engine.respond(answers(9))
    assert engine.facts.incidental["urls"] == "http://s0:8000" and fake.most_in_flight == 2


@pytest.mark.parametrize(
    "address",
    ["s0:8000", "ftp://s0", "http://", "http://user:hidden@s0?key=hidden", "http://s0:port", "http://s0#x"],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(opened, address):
    with pytest.raises(WrongUsage, match="expected http") as found:
        opened(Fake(), base_urls=(address,))
    assert "hidden" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"base_urls": ()}, "--base-url"),
        ({"dtype": "float32"}, "--dtype is decided where the server is started"),
        ({"tensor_parallel": 2}, "--tensor-parallel is decided"),
        ({"revision": "a" * 40}, "--revision is decided"),
        ({"max_context_tokens": 10}, "--max-context needs the tokenizer"),
    ],
)
def test_what_a_server_decides_cannot_be_asked_of_it(opened, settings, sentence):
    with pytest.raises(WrongUsage, match=sentence):
        opened(Fake(), **settings)


def test_more_context_than_there_is_is_refused_and_less_is_kept(opened):
    with pytest.raises(EngineFailed, match="accepts 1000 tokens, 1001 were asked for"):
        opened(Fake(), tokenizer="t", max_context_tokens=1001)
    engine = opened(Fake(), tokenizer="t", max_context_tokens=20)
    assert engine.facts.context_effective_tokens == 20
    [fits, is_long] = engine.respond([Request("x" * 15, Answer(8)), Request("x" * 20, Answer(8))])
    assert (fits.status, fits.max_tokens) == ("ok", 20 - 15)
    assert is_long.status == "too_long" and "20" in is_long.reason


# --- servers that cannot be used ---


def test_a_server_that_is_not_there_is_named_with_the_cause():
    # a port that was free a moment ago
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
    settings = EngineSettings(engine="openai", model="m", base_urls=(url,))
    with pytest.raises(
        EngineFailed, match=f"cannot reach the server {url}: .*[Cc]onnect.*; start it"
    ) as found:
        openai_engine.describe(settings)
    assert found.value.exit_code == 13


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (httpx.Response(401), "does not accept the key .401.: correct COGLAKE_API_KEY"),
        (error(403, f"{KEY} may not"), r"answers 403: \*\*\* may not; ask for access"),
        (httpx.Response(404), "has no /v1/models .404."),
        (httpx.Response(503, text="starting"), "answers 503: starting"),
        (httpx.Response(301, headers={"Location": "http://x"}), "answers 301"),
        (httpx.Response(200, text="<html>"), "expected a list of models"),
        (httpx.Response(200, json={"data": None}), "expected a list of models"),
        (httpx.Response(200, json={"data": []}), "does not serve m: it serves none"),
        (httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b"}]}), "does not serve m: it serves a, b;"),
    ],
)
def test_each_trouble_with_a_server_is_a_sentence(opened, answer, sentence):
    async def fake(request):
        return answer

    with pytest.raises(EngineFailed, match=sentence) as found:
        opened(fake)
    assert KEY not in str(found.value) and "\n" not in str(found.value)


def test_without_a_key_a_server_that_wants_one_says_which_to_set(opened, monkeypatch):
    monkeypatch.setenv("COGLAKE_API_KEY", "")

    async def fake(request):
        assert "authorization" not in request.headers
        return httpx.Response(401)

    with pytest.raises(EngineFailed, match=r"a request without a key \(401\): set COGLAKE_API_KEY"):
        opened(fake)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"context": 500}, "vllm 9.1 with 500 tokens of context"),
        ({"version": "9.2"}, "vllm 9.2 with"),
        ({"owned_by": "llamacpp"}, "llamacpp 9.1"),
        ({"weights": "/others"}, "with 1000 tokens of context and weights /others"),
    ],
)
def test_servers_that_differ_are_refused(opened, other, difference):
    with pytest.raises(EngineFailed, match=f"the servers differ: http://s0:8000 is .*{difference}"):
        opened(Fake(), Fake(**other))


def test_the_tokenizer_of_another_model_is_found_out(opened, monkeypatch):
    monkeypatch.setattr(Letters, "__call__", lambda self, texts, **_: {"input_ids": [[7]] * len(texts)})
    with pytest.raises(
        EngineFailed, match=r"tokenizer t is not the one of m at http://s0:8000.*is \[7\] here"
    ):
        opened(Fake(), tokenizer="t")


# --- the key ---


def test_the_own_key_is_sent_before_that_of_openai(opened, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    fake = Fake()
    opened(fake)
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"
    monkeypatch.delenv("COGLAKE_API_KEY")
    fake = Fake()
    opened(fake)
    assert fake.headers[0]["authorization"] == "Bearer another"


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(opened, monkeypatch, key):
    monkeypatch.setenv("COGLAKE_API_KEY", key)
    with pytest.raises(WrongUsage, match="COGLAKE_API_KEY: expected printable ASCII") as found:
        opened(Fake())
    assert key not in str(found.value)


def test_user_and_password_of_an_address_are_sent_and_never_shown(opened):
    fake = Fake(always(400, json={"error": {"message": "hidden is wrong"}}))
    engine = opened(fake, base_urls=("http://user:hidden@s0:8000/v1",))
    [response] = engine.respond(answers(1))
    assert fake.headers[-1]["authorization"] == f"Basic {b64encode(b'user:hidden').decode()}"
    assert "hidden" not in f"{asdict(engine.facts)} {response}"


def test_the_key_is_in_no_row_and_no_fact(opened, caplog):
    engine = opened(Fake(always(400, json={"error": {"message": f"key {KEY} is not allowed"}})))
    with caplog.at_level("DEBUG"):
        [response] = engine.respond(answers(1))
    assert response.reason == "the server answers 400: key *** is not allowed"
    assert KEY not in f"{asdict(engine.facts)} {response} {caplog.text}"


# --- answers ---


def test_a_chat_is_asked_greedily_with_thinking_off_where_that_is_known(opened):
    fake, other = Fake(), Fake(owned_by="somebody")
    [response] = opened(fake, seed=7).respond([Request(CHAT, Answer(8, stop=("\n",)))])
    [(path, body)] = fake.asked
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 2?"},
        ],
        "temperature": 0,
        "max_tokens": 8,
        "seed": 7,
        "stop": ["\n"],
        "repetition_penalty": 1.0,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert (response.status, response.text, response.finish_reason) == ("ok", "to 2 + 2?", "stop")
    assert (response.n_prompt_tokens, response.n_response_tokens, response.max_tokens) == (12, 3, 8)
    assert response.prompt_text == (
        '[{"content":"Be brief.","role":"system"},{"content":"2 + 2?","role":"user"}]'
    )
    assert response.prompt_token_ids is None
    opened(other).respond([Request(CHAT, Answer(8))])
    # servers of other makes refuse what they do not know
    assert set(other.asked[0][1]) == {"model", "messages", "temperature", "max_tokens", "seed"}


def test_a_text_goes_to_completions_as_it_is(opened):
    fake = Fake()
    [response] = opened(fake).respond([Request("2 + 2 =", Answer(8))])
    [(path, body)] = fake.asked
    assert (path, body["prompt"]) == ("/v1/completions", "2 + 2 =")
    assert (response.prompt_text, response.text) == ("2 + 2 =", "to 2 + 2 =")
    assert response.response_token_ids == (1, 2) and response.n_response_tokens == 2


def test_with_a_tokenizer_the_server_is_sent_token_ids(opened):
    fake = Fake()
    [response] = opened(fake, tokenizer="t").respond([Request(CHAT, Answer(8))])
    rendered = "<system>Be brief.<user>2 + 2?<assistant>"
    path, body = fake.asked[-1]
    assert (path, body["prompt"]) == ("/v1/completions", [ord(letter) for letter in rendered])
    assert response.prompt_text == rendered and response.prompt_token_ids == tuple(body["prompt"])
    assert response.n_prompt_tokens == len(rendered)


def test_a_server_that_takes_no_token_ids_is_found_out_before_anything_is_asked(opened):
    fake = Fake(always(422, json={"error": "prompt must be a string", "error_type": "validation"}))
    engine = opened(fake, tokenizer="t")
    with pytest.raises(EngineFailed, match=r"does not take token ids .*prompt must be a string.*leave out"):
        engine.respond(answers(5))
    assert len(fake.asked) == 1


def test_a_server_that_adds_tokens_of_its_own_is_found_out(opened):
    choice = {"text": "x", "finish_reason": "stop"}
    reply = always(json={"choices": [choice], "usage": {"prompt_tokens": 26}})
    with pytest.raises(EngineFailed, match="counts 26 tokens where 25 token ids were sent"):
        opened(Fake(reply), tokenizer="t").respond(answers(1))


def test_texts_of_all_languages_and_sizes_come_back_as_they_are(opened):
    texts = ["naïve 你好 🧠 \x00 \u2028 'quotes\"", "x" * 2_000_000]
    responses = opened(Fake()).respond([Request(text, Answer(8)) for text in texts])
    assert [response.text for response in responses] == [f"to {text}" for text in texts]


def test_an_empty_response_is_an_answer(opened):
    reply = always(json={"choices": [{"text": "", "finish_reason": "stop"}]})
    [response] = opened(Fake(reply)).respond(answers(1))
    assert (response.status, response.text, response.n_prompt_tokens) == ("ok", "", None)


def test_a_budget_that_the_server_shrinks_without_a_word_is_in_the_row(opened):
    fake = Fake(context=20)
    [response] = opened(fake).respond([Request("x" * 15, Answer(8))])
    assert fake.asked[0][1]["max_tokens"] == 8 and response.max_tokens == 20 - 15


MALFORMED = {
    "half a body": (httpx.Response(200, text='{"choices": [{"te'), "not a completion: .*Invalid JSON"),
    "a page": (httpx.Response(200, text="<html></html>"), "not a completion: .*Invalid JSON"),
    "not Unicode": (
        httpx.Response(200, content=b'{"choices": [{"text": "\xff"}]}'),
        "not a completion: .*Invalid JSON",
    ),
    "half a surrogate pair": (
        httpx.Response(200, content=rb'{"choices": [{"text": "\ud83d"}]}'),
        "not a completion: .*Invalid JSON",
    ),
    "a list": (httpx.Response(200, json=[1]), "not a completion"),
    "nothing": (httpx.Response(200, json=None), "not a completion"),
    "no choices": (httpx.Response(200, json={"id": "x"}), "choices: Field required"),
    "empty choices": (httpx.Response(200, json={"choices": []}), "choices: .*at least 1"),
    "text that is none": (httpx.Response(200, json={"choices": [{"text": 4}]}), "text: .*string"),
    "null": (httpx.Response(200, json={"choices": [{"text": None}]}), "holds no text"),
    "null content": (
        httpx.Response(200, json={"choices": [{"message": {"content": None}, "finish_reason": "length"}]}),
        "holds no text .finish reason length",
    ),
    "a refusal": (
        httpx.Response(200, json={"choices": [{"message": {"content": None, "refusal": "I will not."}}]}),
        "the model refuses: I will not",
    ),
    "a filter": (
        httpx.Response(200, json={"choices": [{"text": "4", "finish_reason": "content_filter"}]}),
        "ended the response: content_filter",
    ),
    "an error that claims success": (error(200, "no such thing"), "the server answers 400: no such thing"),
    "an error in words": (httpx.Response(200, json={"error": "out of order"}), "answers 400: out of order"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_answer_that_is_none_is_an_error_and_never_a_text(opened, name):
    answer, sentence = MALFORMED[name]
    fake = Fake(lambda body: answer if "question 1" in str(body) else None)
    before, response, after = opened(fake).respond(answers(3))
    assert (before.status, after.status) == ("ok", "ok")
    assert (response.status, response.text, response.prompt_text) == ("error", None, "question 1")
    assert re.search(sentence, response.reason), response.reason
    assert "\n" not in response.reason


def test_the_words_of_a_server_are_shortened(opened):
    [response] = opened(Fake(always(400, json={"error": {"message": "no\n" * 5000}}))).respond(answers(1))
    assert response.status == "error" and len(response.reason) < 400 and "\n" not in response.reason


# --- too long ---

REFUSALS = {
    "vllm": (
        error(
            400,
            "This model's maximum context length is 1024 tokens. However, your prompt contains 1030 input "
            "tokens, which exceeds this limit even without any output tokens.",
        ),
        (1030, 1024),
    ),
    "vllm, which stopped counting": (
        error(
            400,
            "This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 "
            "input tokens, which exceeds this limit even without any output tokens.",
        ),
        (None, 1024),
    ),
    "vllm, scoring": (
        error(
            400,
            "The decoder prompt (length 1024) plus the number of requested output tokens (at least 1) is "
            "longer than the maximum model length of 1024.",
        ),
        (1024, 1024),
    ),
    "openai": (
        error(
            400,
            "This model's maximum context length is 4097 tokens. However, your messages resulted in 4113 "
            "tokens.",
            code="context_length_exceeded",
        ),
        (4113, 4097),
    ),
    "llama.cpp": (
        error(
            500,
            "the request exceeds the available context size",
            type="exceed_context_size_error",
            n_prompt_tokens=1407,
            n_ctx=256,
        ),
        (1407, 256),
    ),
    "tgi": (
        httpx.Response(
            422,
            json={
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
                "Given: 8740 `inputs` tokens and 500 `max_new_tokens`",
                "error_type": "validation",
            },
        ),
        (8740, 4096),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_prompt_that_a_server_calls_too_long_is_too_long_with_its_lengths(opened, name):
    answer, (n_prompt, context) = REFUSALS[name]
    fake = Fake(lambda body: answer)
    [response] = opened(fake).respond(answers(1))
    assert (response.status, response.n_prompt_tokens, response.text) == ("too_long", n_prompt, None)
    assert str(context) in response.reason and str(n_prompt or "at least 1025") in response.reason
    # it is not asked again: it will not get shorter
    assert len(fake.asked) == 1


def test_an_error_about_something_else_names_no_lengths():
    found = error_in(b'{"error": {"message": "max_tokens: 5000 input tokens per minute is the limit"}}')
    assert (found.is_too_long, found.n_prompt_tokens, found.context_tokens) == (False, None, None)


def test_a_budget_that_does_not_fit_is_shrunk_and_the_prompt_is_asked_again(opened):
    message = (
        "This model's maximum context length is 4096 tokens. However, you requested 4118 tokens "
        "(4088 in the messages, 30 in the completion)."
    )
    fake = Fake(
        replying(error(400, message, code="context_length_exceeded")), owned_by="openai", context=None
    )
    [response] = opened(fake).respond([Request(CHAT, Answer(30))])
    assert [body["max_tokens"] for body in fake.bodies()] == [30, 4096 - 4088]
    assert (response.status, response.max_tokens) == ("ok", 4096 - 4088)


# --- options ---


def expected(prompt, option):
    ids = [ord(letter) for letter in prompt + option]
    return sum(logprob(ids[place], place) for place in range(len(prompt), len(ids)))


@pytest.mark.parametrize("scoring", ["prompt_logprobs", "echo"])
def test_options_have_the_log_probabilities_of_their_own_tokens(opened, scoring):
    fake = Fake(scoring=scoring, owned_by="vllm" if scoring == "prompt_logprobs" else "somebody")
    engine = opened(fake, tokenizer="t")
    options = ("yes", "no", "maybe")
    responses = engine.respond([Request("Is it? ", Choose(options)), Request(CHAT, Choose(options))])
    # the space before an option in plain text belongs to the option
    stem = "<system>Be brief.<user>2 + 2?<assistant>"
    for response, prompt, space in zip(responses, ["Is it?", stem], [" ", ""], strict=True):
        assert response.status == "ok" and response.prompt_text == prompt
        assert [option.option for option in response.options] == list(options)
        for option in response.options:
            assert option.logprob_nats == pytest.approx(expected(prompt, space + option.option))
            assert option.token_ids == tuple(map(ord, space + option.option))
    # whether the server can is asked once
    assert len(fake.asked) == len(responses) + (1 if scoring == "prompt_logprobs" else 2)
    engine.respond([Request("Is it? ", Choose(options))])
    assert len(fake.asked) == len(responses) + (1 if scoring == "prompt_logprobs" else 2) + 1


def test_an_option_that_another_goes_on_from_is_scored_with_its_end(opened):
    [response] = opened(Fake(), tokenizer="t").respond([Request("x", Choose(("a", "ab")))])
    assert [option.terminator for option in response.options] == ["\n", "\n"]
    assert response.options[0].logprob_nats == pytest.approx(expected("x", "a\n"))


@pytest.mark.parametrize("value", [None, -math.inf, math.inf, math.nan, -9999.0, 0.25, "absent"])
def test_an_option_without_log_probability_is_missing_and_never_a_number(opened, value):
    def reply(body):
        if body["prompt"] == [[120, 97], [120, 98]]:
            second = {"99": {"logprob": -1}} if value == "absent" else {"98": {"logprob": value}}
            choices = [
                {"index": 0, "text": "", "prompt_logprobs": [None, {"97": {"logprob": -0.5}}]},
                {"index": 1, "text": "", "prompt_logprobs": [None, second]},
            ]
            return httpx.Response(200, content=json.dumps({"choices": choices}))
        return None

    [response] = opened(Fake(reply), tokenizer="t").respond([Request("x", Choose(("a", "b")))])
    assert response.status == "missing_option"
    assert response.reason == "option 'b': the server gives no log-probability of token 98"
    here, missing = response.options
    assert (here.status, here.logprob_nats) == ("ok", -0.5)
    assert (missing.status, missing.logprob_nats, missing.token_logprobs_nats) == ("missing_option", None, ())


def test_a_log_probability_that_rounding_lifts_above_zero_is_one(opened):
    def reply(body):
        choices = [
            {"index": index, "text": "", "prompt_logprobs": [None, {str(ids[1]): {"logprob": 1e-6}}]}
            for index, ids in enumerate(body["prompt"])
        ]
        return httpx.Response(200, json={"choices": choices}) if len(body["prompt"]) == 2 else None

    [response] = opened(Fake(reply), tokenizer="t").respond([Request("x", Choose(("a", "b")))])
    assert [option.logprob_nats for option in response.options] == [1e-6, 1e-6]


@pytest.mark.parametrize("n_answers", [1, 2])
def test_an_answer_to_other_options_than_were_sent_is_an_error(opened, n_answers):
    def reply(body):
        is_probe = len(body["prompt"]) == 1
        choices = [{"index": 0, "text": ""}] * n_answers
        return None if is_probe else httpx.Response(200, json={"choices": choices})

    [response] = opened(Fake(reply), tokenizer="t").respond([Request("x", Choose(("a", "b")))])
    assert (response.status, response.options) == ("error", ())
    assert response.reason == "the server answers 1 sequences, 2 were sent"


def test_log_probabilities_of_other_tokens_are_not_taken_for_the_options(opened):
    # one token more than was sent, such as a BOS that the server puts before it
    def reply(body):
        if len(body["prompt"]) == 1:
            return None
        rows = [{"index": i, "text": "", "logprobs": {"token_logprobs": [None] + [-1.0] * 9}} for i in (0, 1)]
        return httpx.Response(200, json={"choices": rows})

    fake = Fake(reply, scoring="echo", owned_by="somebody")
    [response] = opened(fake, tokenizer="t").respond([Request("x", Choose(("a", "b")))])
    assert response.status == "missing_option"


def test_options_are_not_scored_without_the_tokenizer(opened):
    fake = Fake()
    with pytest.raises(EngineFailed, match="only with the tokenizer of m: name it with --tokenizer"):
        opened(fake).respond([*answers(3), Request("x", Choose(("a", "b")))])
    assert fake.asked == []


@pytest.mark.parametrize("scoring", [None, "refused"])
def test_a_server_without_log_probabilities_refuses_before_anything_is_asked(opened, scoring):
    reply = always(400, json={"error": {"message": "unknown field"}}) if scoring == "refused" else None
    fake = Fake(reply, scoring=None, owned_by="somebody")
    engine = opened(fake, tokenizer="t")
    with pytest.raises(EngineFailed, match=r"gives no log-probabilities of prompt tokens.*--choice text"):
        engine.respond([*answers(3), Request("x", Choose(("a", "b")))])
    assert len(fake.asked) == 2
    assert all("question" not in str(body) for body in fake.bodies())


# --- repeats and pace ---


def test_a_busy_server_is_asked_again_after_the_time_it_names(opened, time_passes):
    busy = httpx.Response(429, headers={"Retry-After": "7"})
    fake = Fake(replying(busy, busy))
    [response] = opened(fake).respond(answers(1))
    assert response.status == "ok" and time_passes.s == 1000 + 7 + 7


def test_a_date_to_come_back_is_understood(opened, time_passes):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    fake = Fake(replying(httpx.Response(503, headers={"Retry-After": later})))
    assert opened(fake).respond(answers(1))[0].status == "ok"
    assert 90 < time_passes.s - 1000 <= 101


def test_while_a_server_wants_a_pause_it_is_sent_nothing(opened, time_passes):
    sent = []

    def reply(body):
        sent.append(time_passes.s)
        return httpx.Response(429, headers={"Retry-After": "60"}) if len(sent) == 1 else None

    responses = opened(Fake(reply), concurrency=2).respond(answers(20))
    assert [response.status for response in responses] == ["ok"] * 20
    assert min(sent[1:]) >= sent[0] + 60


def test_a_server_that_is_out_for_hours_ends_the_run(opened):
    fake = Fake(always(429, headers={"Retry-After": "7200"}))
    with pytest.raises(EngineFailed, match=r"http://s0:8000 asks to come back in 7200 s: .*429"):
        opened(fake).respond(answers(4))


def test_troubles_that_may_pass_are_waited_for_longer_each_time(opened, time_passes):
    def unreachable(body):
        raise httpx.ReadTimeout("")

    replies = [always(500), always(502), unreachable, always(429), always(408)]
    fake = Fake(lambda body: replies.pop(0)(body) if replies else None)
    [response] = opened(fake).respond(answers(1))
    assert response.status == "ok" and len(fake.asked) == 6
    # doubled each time, with up to a second at random
    assert all(2**n <= wait <= 2**n + 1 for n, wait in enumerate(time_passes.slept))


@pytest.mark.parametrize("wrap", [str, lambda text: (Message("user", text),)])
def test_text_that_cannot_be_sent_is_an_error_of_its_row_that_can_be_stored(opened, wrap):
    fake = Fake()
    requests = [Request(wrap(text), Answer(4)) for text in ("before", "a\ud83d", "behind")]
    before, broken, behind = opened(fake).respond(requests)
    assert (before.status, broken.status, behind.status) == ("ok", "error", "ok")
    assert "found half of a surrogate pair" in broken.reason
    assert r"a\ud83d" in broken.prompt_text and broken.prompt_text.encode()
    assert len(fake.asked) == 2


def test_what_does_not_pass_is_an_error_of_its_row(opened):
    fake = Fake(lambda body: error(500, "cannot do this") if "question 1" in str(body) else None)
    statuses = [response.status for response in opened(fake).respond(answers(3))]
    assert statuses == ["ok", "error", "ok"]
    [response] = opened(Fake(always(500, json={"detail": "cannot do this"}))).respond(answers(1))
    assert response.reason == "the server answers 500: cannot do this (asked 6 times)"


def test_half_an_answer_is_asked_for_again_and_one_of_another_form_is_not(opened):
    for name, status in (("half a body", "ok"), ("a list", "error")):
        [response] = opened(Fake(replying(MALFORMED[name][0]))).respond(answers(1))
        assert response.status == status


def test_errors_of_the_request_are_not_asked_again(opened):
    fake = Fake(always(400, text="bad", headers={"Content-Type": "text/plain"}))
    [response] = opened(fake).respond(answers(1))
    assert (response.reason, len(fake.asked)) == ("the server answers 400: bad", 1)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (httpx.Response(401), "does not accept the key"),
        (error(404, "The model `m` does not exist."), "/v1/completions answers 404: The model `m` does not"),
        (error(402, "Insufficient balance."), "answers 402: Insufficient balance; add credit"),
        (
            httpx.Response(429, json={"error": {"message": "Too much.", "code": "insufficient_quota"}}),
            "answers 429: Too much; add credit",
        ),
    ],
)
def test_a_server_that_will_do_nothing_more_ends_the_run(opened, answer, sentence):
    fake = Fake(lambda body: answer)
    with pytest.raises(EngineFailed, match=sentence):
        opened(fake, concurrency=1).respond(answers(50))
    assert len(fake.asked) == 1


def test_as_many_requests_as_allowed_are_in_flight_and_never_more(opened):
    async def reply(body):
        await asyncio.sleep(0.002)

    fake = Fake(reply)
    opened(fake, concurrency=5).respond(answers(40))
    assert fake.most_in_flight == 5


def test_requests_of_one_server_keep_their_distance(opened, time_passes):
    sent = []
    fake = Fake(lambda body: sent.append(time_passes.s))
    opened(fake, requests_per_minute=120, concurrency=4).respond(answers(20))
    gaps = [after - before for before, after in pairwise(sent)]
    assert min(gaps) >= 60 / 120 - 1e-9 and sum(gaps) == pytest.approx(19 * 60 / 120)


def test_repeats_keep_the_distance_too(opened, time_passes):
    sent = []

    def reply(body):
        sent.append(time_passes.s)
        return httpx.Response(500) if len(sent) < 4 else None

    opened(Fake(reply), requests_per_minute=1).respond(answers(1))
    assert min(after - before for before, after in pairwise(sent)) >= 60


def test_an_interrupt_stops_at_once_and_the_engine_still_closes(opened):
    async def reply(body):
        if "question 3" in str(body):
            raise KeyboardInterrupt
        await asyncio.sleep(30)

    fake = Fake(reply)
    engine = opened(fake, concurrency=8)
    with pytest.raises(KeyboardInterrupt):
        engine.respond(answers(20))
    assert fake.n_in_flight == 0 and len(fake.asked) <= 8
    engine.close()


def test_an_interrupt_from_outside_stops_at_once_too(opened):
    def interrupt(*_):
        raise KeyboardInterrupt

    async def reply(body):
        await asyncio.sleep(30)

    engine = opened(Fake(reply))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.respond(answers(20))
    finally:
        signal.signal(signal.SIGALRM, before)
    engine.close()


# --- several servers ---


def test_servers_share_the_work_and_results_keep_their_order(opened):
    async def reply(body):
        await asyncio.sleep(0.001)

    fakes = [Fake(reply), Fake(reply), Fake(reply)]
    responses = opened(*fakes, concurrency=4).respond(answers(60))
    assert [response.text for response in responses] == [f"to question {number}" for number in range(60)]
    assert sum(len(fake.asked) for fake in fakes) == 60
    assert all(len(fake.asked) >= 10 and fake.most_in_flight == 4 for fake in fakes)


def test_a_slow_server_gets_less_to_do(opened):
    async def slow(body):
        await asyncio.sleep(0.05)

    async def quick(body):
        await asyncio.sleep(0.001)

    fakes = [Fake(slow), Fake(quick)]
    opened(*fakes, concurrency=1).respond(answers(30))
    assert len(fakes[0].asked) < 10 < len(fakes[1].asked)


def test_requests_of_a_server_that_dies_go_to_the_others(opened, caplog):
    async def reply(body):
        await asyncio.sleep(0.001)
        if len(dying.asked) == 7:
            dying.is_up = False
        if not dying.is_up:
            raise httpx.ReadError("connection lost")

    async def steady(body):
        await asyncio.sleep(0.001)

    dying, other = Fake(reply), Fake(steady)
    engine = opened(dying, other, concurrency=3)
    responses = engine.respond(answers(40))
    assert [response.text for response in responses] == [f"to question {number}" for number in range(40)]
    assert (
        "cannot reach the server http://s0:8000" in caplog.text and "the other servers go on" in caplog.text
    )
    n_asked = len(dying.asked)
    assert [response.status for response in engine.respond(answers(5))] == ["ok"] * 5
    assert len(dying.asked) == n_asked


def test_a_server_that_dies_at_the_very_end_leaves_nothing_undone(opened):
    async def reply(body):
        # the other server has done all the rest by now
        while len(other.asked) < 9:
            await asyncio.sleep(0)
        dying.is_up = False
        raise httpx.ReadError("connection lost")

    dying, other = Fake(reply), Fake()
    responses = opened(dying, other, concurrency=1).respond(answers(10))
    assert [response.status for response in responses] == ["ok"] * 10 and len(other.asked) == 10


def test_when_all_servers_are_gone_nothing_of_the_batch_is_kept(opened):
    def dies_after(n):
        def reply(body):
            fake = fakes[n]
            if len(fake.asked) > n:
                fake.is_up = False
                raise httpx.ReadError("connection lost")

        return reply

    fakes = {n: Fake(dies_after(n)) for n in (2, 5)}
    engine = opened(*fakes.values(), concurrency=1)
    with pytest.raises(EngineFailed, match=r"no server can be used: .*http://s0:8000.*http://s1:8000.*again"):
        engine.respond(answers(40))
    with pytest.raises(EngineFailed, match="no server can be used"):
        engine.respond(answers(1))


def test_options_are_scored_by_all_servers_whatever_their_way(opened):
    async def reply(body):
        await asyncio.sleep(0.001)

    fakes = [Fake(reply), Fake(reply, scoring="echo")]
    requests = [Request(f"question {number}: ", Choose(("a", "b"))) for number in range(12)]
    responses = opened(*fakes, tokenizer="t", concurrency=2).respond(requests)
    for number, response in enumerate(responses):
        assert response.options[1].logprob_nats == pytest.approx(expected(f"question {number}:", " b"))
    assert all(len(fake.asked) > 2 for fake in fakes)


# --- over a real connection ---


@pytest.fixture
def loopback():
    """A server whose first completion breaks off in the middle of its body."""
    broken = [True]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def send(self, body, n_missing=0):
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content) + n_missing))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            if self.path == "/v1/models":
                self.send({"data": [{"id": "m", "owned_by": "me"}]})
            else:
                self.send_error(404)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            n_missing = 100 if broken else 0
            broken.clear()
            self.send({"choices": [{"text": body["prompt"], "finish_reason": "stop"}]}, n_missing)
            self.close_connection = n_missing > 0

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_body_that_breaks_off_is_asked_for_again(loopback, time_passes):
    settings = EngineSettings(engine="openai", model="m", base_urls=(loopback,), concurrency=4)
    engine = OpenAIEngine(settings, clock=time_passes.clock())
    try:
        text = "你好 🧠" * 100_000
        responses = engine.respond([Request(text, Answer(8)), *answers(20)])
    finally:
        engine.close()
        engine.close()
    assert [response.text for response in responses[1:]] == [f"question {number}" for number in range(20)]
    assert responses[0].text == text
    assert len(time_passes.slept) == 1
