"""How long a sequence may be: as declared, as asked for, and never behind the last position there is."""

import pytest

pytest.importorskip("torch")

import torch
import transformers
from tiny_models import GPT2, LLAMA, OPT, write

from generate.contract import Answer, Choose, Request
from generate.engines.settings import EngineSettings, describe, open_engine
from store.errors import WrongUsage

pytestmark = pytest.mark.engines

DECLARED = 64
OPTIONS = (" F", " neither of the two")
# name: configuration, its sizes, and the last position there is
ARCHITECTURES = {
    "rotations": ("LlamaConfig", LLAMA, None),
    "rotations by length": (
        "LlamaConfig",
        LLAMA | {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}},
        None,
    ),
    "slopes": ("BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 2, "seq_length": 64}, None),
    "learned": ("GPT2Config", GPT2, 64),
    # with two rows of padding before the first position
    "learned, with rows of padding": ("OPTConfig", OPT, 64),
    "a fixed table of rotations": (
        "GPTJConfig",
        {"n_embd": 64, "n_layer": 2, "n_head": 2, "rotary_dim": 4, "n_positions": 64},
        64,
    ),
}


def settings(folder, **choices):
    return EngineSettings(engine="hf", model=str(folder), dtype="float32", **choices)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, small_model_path):
    """Return the folder of an architecture, written when it is first asked for."""
    written = {}

    def folder(name):
        if name not in written:
            config, sizes, _ = ARCHITECTURES[name]
            written[name] = write(tmp_path_factory.mktemp("tiny"), small_model_path, config, **sizes)
        return written[name]

    return folder


def words(n):
    # one token each
    return "word " * (n - 1) + "word"


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("asked", [None, 40, DECLARED, 200])
@pytest.mark.parametrize("may_extend", [False, True])
def test_the_effective_context_is_the_smallest_of_what_is_asked_allowed_and_possible(
    folders, name, asked, may_extend
):
    limit = ARCHITECTURES[name][2]
    facts = describe(settings(folders(name), max_context_tokens=asked, may_extend_context=may_extend))
    allowed = DECLARED if asked is None or not may_extend else 10**6
    expected = min(asked or 10**6, allowed, limit or 10**6)
    assert (facts.context_declared_tokens, facts.context_limit_tokens) == (DECLARED, limit)
    assert facts.context_effective_tokens == expected


def test_rows_of_padding_before_the_first_position_are_not_positions(tmp_path, small_model_path):
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    folder = write(
        tmp_path, small_model_path, "RobertaConfig", is_decoder=True, max_position_embeddings=64, **sizes
    )
    # token 2 fills rows, so places are counted from row 3 on: declared are more than there are
    facts = describe(settings(folder))
    assert (facts.context_declared_tokens, facts.context_limit_tokens) == (64, 61)
    assert facts.context_effective_tokens == 61
    engine = open_engine(settings(folder))
    [fits, does_not] = engine.respond([Request(words(60), Answer(5)), Request(words(61), Answer(5))])
    engine.close()
    assert (fits.status, fits.max_tokens, does_not.status) == ("ok", 1, "too_long"), fits.reason


@pytest.mark.parametrize("name", ["rotations", "learned"])
def test_a_prompt_beyond_the_effective_context_is_too_long_and_a_budget_shrinks_to_it(folders, name):
    engine = open_engine(settings(folders(name), max_context_tokens=200, may_extend_context=True))
    n = engine.facts.context_effective_tokens
    assert n == (200 if name == "rotations" else DECLARED)
    requests = [
        Request(words(n - 7), Answer(50)),
        Request(words(n - 1), Answer(50)),
        Request(words(n), Answer(50)),
        Request(words(n - 3), Choose(OPTIONS)),
    ]
    shrunk, last, too_long, long_option = engine.respond(requests)
    engine.close()
    assert (shrunk.status, shrunk.n_prompt_tokens, shrunk.max_tokens) == ("ok", n - 7, 7), shrunk.reason
    assert (last.status, last.max_tokens, last.n_response_tokens) == ("ok", 1, 1)
    assert too_long.status == long_option.status == "too_long"
    assert f"the prompt has {n} tokens" in too_long.reason and f"the context has {n}" in too_long.reason


@pytest.mark.parametrize("name", ["rotations", "rotations by length", "slopes"])
def test_what_stands_beyond_the_declared_context_is_scored_as_in_one_pass(folders, name):
    folder = folders(name)
    engine = open_engine(settings(folder, max_context_tokens=300, may_extend_context=True))
    # more than two blocks of a prompt, whose states are shared
    [response] = engine.respond([Request(words(270) + " You choose", Choose(OPTIONS))])
    engine.close()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for option in response.options:
        ids = torch.tensor([[*response.prompt_token_ids, *option.token_ids]])
        with torch.no_grad():
            table = torch.log_softmax(model(ids, use_cache=False).logits[0], dim=-1)
        places = range(len(response.prompt_token_ids), ids.shape[1])
        expected = [table[place - 1, ids[0, place]].item() for place in places]
        assert option.token_logprobs_nats == pytest.approx(expected, abs=5e-5)


def test_without_leave_the_run_is_named_as_before(folders):
    facts = describe(settings(folders("rotations"), max_context_tokens=200))
    allowed = describe(settings(folders("rotations"), max_context_tokens=DECLARED, may_extend_context=True))
    assert facts == allowed
    assert "remote_code" not in facts.decisive


def test_a_server_decides_by_itself_how_long_a_context_may_be():
    asked = EngineSettings(
        engine="openai", model="model", base_urls=("http://127.0.0.1:9",), may_extend_context=True
    )
    with pytest.raises(WrongUsage, match="decided where the server is started"):
        describe(asked)


# --- budgets of one batch ---


@pytest.mark.parametrize("order", [(48, 512, 1), (512, 1, 48)])
def test_requests_of_one_batch_keep_budgets_of_their_own(tmp_path, small_model_path, order):
    folder = write(tmp_path, small_model_path, "LlamaConfig", **LLAMA | {"max_position_embeddings": 1024})
    engine = open_engine(settings(folder))
    together = engine.respond([Request("The capital of France", Answer(budget)) for budget in order])
    alone = [engine.respond([Request("The capital of France", Answer(budget))])[0] for budget in order]
    engine.close()
    assert [response.max_tokens for response in together] == list(order)
    assert [response.n_response_tokens for response in together] == list(order)
    assert {response.finish_reason for response in together} == {"length"}
    assert together == alone
    # greedy decoding: a smaller budget is a beginning of a larger one
    longest = max(together, key=lambda response: response.n_response_tokens)
    for response in together:
        n = response.n_response_tokens
        assert response.response_token_ids == longest.response_token_ids[:n]
