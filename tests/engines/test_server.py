"""A real vLLM server: rows equal those of the model in this process, through one server and through two."""

import asyncio
import threading
import time
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec

import pytest
from servers import vllm_servers

if find_spec("vllm") is None:
    pytest.skip("vllm is not installed", allow_module_level=True)

from generate.contract import Answer, Choose, Message, Request
from generate.engines import openai_engine, settings
from generate.engines.openai_engine import OpenAIEngine
from generate.engines.server import Clock
from generate.engines.settings import EngineSettings
from store.errors import EngineFailed

pytestmark = pytest.mark.engines

KEY = "a-key-of-the-tests"
CONTEXT_TOKENS = 256

QUESTIONS = (
    "Which is larger, 3 or 5?",
    "Name a colour.",
    "You see two doors, A and B. Behind A are 3 points, behind B are 7. Which do you open?",
    "Ist Wien in Österreich? 🧭",
)
CHATS = tuple((Message("system", "Answer in one word."), Message("user", one)) for one in QUESTIONS)
TEXTS = tuple(f"Question: {one}\nAnswer: " for one in QUESTIONS)
PROMPTS = (*CHATS, *TEXTS)

ANSWERS = [Request(prompt, Answer(12, stop=("\n\n",))) for prompt in PROMPTS]
CHOICES = [
    Request(prompt, Choose(options))
    for prompt in PROMPTS
    # one token and several; and one that goes on where another ends
    for options in (("A", "B", "C"), ("the red door", "the blue one"), ("3", "35", "yes, 3"))
]
TOO_LONG = [
    Request("word " * CONTEXT_TOKENS, Answer(1)),
    Request("word " * (CONTEXT_TOKENS - 8), Choose(("a", "a long option of more tokens than are left here"))),
]
# 250 tokens of 256, so the budget shrinks
NEARLY_FULL = Request("word" + " word" * (CONTEXT_TOKENS - 7), Answer(50))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("COGLAKE_API_KEY", KEY)


@pytest.fixture(scope="module")
def servers(small_model_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    with vllm_servers(small_model_path, 2, folder, max_model_len=CONTEXT_TOKENS, key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def offline(small_model_path):
    """What the model in this process answers, asked once."""
    engine = settings.open_engine(
        EngineSettings(
            engine="hf", model=str(small_model_path), dtype="float32", max_context_tokens=CONTEXT_TOKENS
        )
    )
    try:
        yield engine.respond([*ANSWERS, *CHOICES, *TOO_LONG, NEARLY_FULL])
    finally:
        engine.close()


@pytest.fixture
def opened(servers, small_model_path):
    engines = []

    def opened(n=1, *, clock=None, **given):
        given = {"tokenizer": str(small_model_path), "concurrency": 8} | given
        urls = tuple(server.url for server in servers[:n])
        engines.append(
            OpenAIEngine(EngineSettings(engine="openai", model="small", base_urls=urls, **given), clock=clock)
        )
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


def assert_same(found, expected):
    """Fail unless responses are equal, log-probabilities up to rounding in float32."""
    for here, there in zip(found, expected, strict=True):
        assert (here.status, here.prompt_text) == (there.status, there.prompt_text)
        assert here.prompt_token_ids == there.prompt_token_ids
        assert here.n_prompt_tokens == there.n_prompt_tokens
        assert (here.text, here.finish_reason, here.max_tokens) == (
            there.text,
            there.finish_reason,
            there.max_tokens,
        )
        assert here.response_token_ids == there.response_token_ids
        for mine, other in zip(here.options, there.options, strict=True):
            assert (mine.option, mine.token_ids, mine.is_merged, mine.terminator) == (
                other.option,
                other.token_ids,
                other.is_merged,
                other.terminator,
            )
            assert mine.logprob_nats == pytest.approx(other.logprob_nats, abs=1e-4, rel=0)
            assert mine.token_logprobs_nats == pytest.approx(other.token_logprobs_nats, abs=1e-4, rel=0)


@pytest.mark.parametrize("n", [1, 2])
def test_answers_and_options_equal_those_of_the_model_in_this_process(opened, servers, offline, n):
    before = [server.n_requests() for server in servers]
    found = opened(n).respond([*ANSWERS, *CHOICES, *TOO_LONG, NEARLY_FULL])
    assert_same(found, offline)
    statuses = [response.status for response in found]
    assert statuses == ["ok"] * len(ANSWERS + CHOICES) + ["too_long"] * len(TOO_LONG) + ["ok"]
    assert found[-1].max_tokens == CONTEXT_TOKENS - found[-1].n_prompt_tokens < 50
    did = [server.n_requests() - n_done for server, n_done in zip(servers, before, strict=True)]
    assert all(n_done >= 10 for n_done in did[:n]) and not any(did[n:])


def test_the_facts_are_those_of_the_server(opened, small_model_path):
    facts = opened(2).facts
    [package] = set(packages_distributions()["vllm"])
    assert facts.version == version(package) and facts.decisive["server"] == "vllm"
    assert (facts.context_effective_tokens, facts.has_chat_template) == (CONTEXT_TOKENS, True)
    assert facts.decisive["weights"] == str(small_model_path)


def test_without_a_tokenizer_the_server_renders_the_same_prompts(opened, offline):
    engine = opened(tokenizer=None)
    assert engine.facts.has_chat_template
    for request, here, there in zip(ANSWERS, engine.respond(ANSWERS), offline, strict=False):
        assert (here.text, here.finish_reason) == (there.text, there.finish_reason)
        assert here.n_prompt_tokens == there.n_prompt_tokens and here.prompt_token_ids is None
        if isinstance(request.prompt, tuple):
            assert here.prompt_text.startswith('[{"content":"Answer in one word.","role":"system"},')


def test_without_a_tokenizer_what_the_server_finds_too_long_is_too_long(opened):
    message = Message("user", "word " * CONTEXT_TOKENS)
    found = opened(tokenizer=None).respond(
        [Request("word " * 400, Answer(1)), Request((message,), Answer(1))]
    )
    assert [response.status for response in found] == ["too_long"] * 2
    assert all(str(CONTEXT_TOKENS) in response.reason for response in found)


def test_a_wrong_key_is_one_sentence(opened, monkeypatch):
    monkeypatch.setenv("COGLAKE_API_KEY", "wrong")
    with pytest.raises(EngineFailed, match=r"does not accept the key \(401\): correct COGLAKE_API_KEY"):
        opened()


def test_a_tokenizer_of_another_model_is_found_out(opened, monkeypatch):
    real = openai_engine.load_tokenizer

    def shifted(name, revision):
        tokenizer = real(name, revision)
        tokenizer.add_tokens(["answer"])
        return tokenizer

    monkeypatch.setattr(openai_engine, "load_tokenizer", shifted)
    with pytest.raises(EngineFailed, match="is not the one of small at"):
        opened()


# the last one: a server less
def test_a_server_that_is_killed_leaves_its_requests_to_the_other(opened, servers, offline, caplog):
    # waits between repeats are cut short
    engine = opened(2, clock=Clock(time.monotonic, lambda seconds: asyncio.sleep(seconds / 50)))
    requests = [*ANSWERS, *CHOICES] * 3
    n_done = servers[1].n_requests()

    def kill_when_busy():
        while servers[1].n_requests() < n_done + 10:
            time.sleep(0.05)
        servers[1].kill()

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    found = engine.respond(requests)
    killer.join()
    assert_same(found, offline[: len(ANSWERS + CHOICES)] * 3)
    assert f"cannot reach the server {servers[1].url}" in caplog.text
