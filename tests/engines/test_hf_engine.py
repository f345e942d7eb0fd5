"""The engine of transformers against whole passes in twice the width, which keep no states of a prompt."""

import math
import shutil

import pytest

pytest.importorskip("torch")

import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_models import write

from generate.contract import Answer, Choose, Message, Request
from generate.engines import hf_engine
from generate.engines.settings import EngineSettings, describe, open_engine
from generate.tokens import Tokens, load_tokenizer
from store.errors import EngineFailed, WrongUsage

pytestmark = pytest.mark.engines

STORY = "Machine F gave 12 points. Machine J gave 7 points. " * 6

REQUESTS = [
    Request(STORY + "You choose machine ", Choose(("F", "J"))),
    Request("The capital of France is", Choose((" Paris", " Rome", " the city of Lights", " unknown to me"))),
    Request((Message("user", "Which machine, F or J?"),), Choose(("F", "J", "neither of the two"))),
    Request("The probability in percent is", Choose((" 0", " 5", " 50", " 100"))),
    Request((Message("system", "Be brief."), Message("user", "Name a colour.")), Answer(12)),
    Request("One, two, three, four,", Answer(30, (" nine", "ten"))),
    Request("Answer:", Choose(("\n\nA", "…", "A" * 40))),
    Request("word " * 400, Answer(5)),
]


def settings(folder, **choices):
    return EngineSettings(engine="hf", model=str(folder), **choices)


def opened(folder, **choices):
    return open_engine(settings(folder, **choices))


@pytest.fixture(scope="module")
def engine(small_model_path):
    opened_here = opened(small_model_path, dtype="float32", max_context_tokens=400)
    yield opened_here
    opened_here.close()


@pytest.fixture(scope="module")
def tokens(small_model_path):
    return Tokens(load_tokenizer(str(small_model_path), None), 400)


@pytest.fixture(scope="module")
def oracle(small_model_path):
    return whole_pass(small_model_path)


def whole_pass(folder):
    """Return a function of tokens: log-probabilities of what follows each of them, in float64."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()

    def logprobs(ids):
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
        return logits - logits.exp().sum(dim=-1, keepdim=True).log()

    return logprobs


LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
RECURRENT_GEMMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "lru_width": 32,
    "attention_window_size": 8,
}
ARCHITECTURES = {
    # name: configuration, its sizes, and whether options share the prompt's states
    "llama": ("LlamaConfig", LLAMA, True),
    "sliding window": ("MistralConfig", LLAMA | {"sliding_window": 8}, True),
    "two kinds of layers": ("Gemma2Config", LLAMA | {"sliding_window": 8, "head_dim": 8}, True),
    "learned positions": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}, True),
    "without states": (
        "OpenAIGPTConfig",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
        False,
    ),
    "recurrent and sliding": ("RecurrentGemmaConfig", RECURRENT_GEMMA, False),
    "recurrent": ("MambaConfig", {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}, False),
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request, tmp_path_factory, small_model_path):
    name, sizes, shares = ARCHITECTURES[request.param]
    folder = write(tmp_path_factory.mktemp("tiny"), small_model_path, name, **sizes)
    return folder, shares


@pytest.fixture
def tiny_llama(tmp_path, small_model_path):
    return write(tmp_path, small_model_path, "LlamaConfig", **LLAMA)


def choose(engine, prompt, *options):
    [response] = engine.respond([Request(prompt, Choose(options))])
    assert response.status == "ok", response.reason
    return response


def answer(engine, prompt, max_tokens, *stop):
    [response] = engine.respond([Request(prompt, Answer(max_tokens, stop))])
    assert response.status == "ok", response.reason
    return response


def assert_as_oracle(response, oracle):
    for option in response.options:
        ids = [*response.prompt_token_ids, *option.token_ids]
        table = oracle(ids)
        places = range(len(ids) - len(option.token_ids), len(ids))
        expected = [table[place - 1, ids[place]].item() for place in places]
        # two float32 passes of the small model that differ in their attention alone are 2e-5 apart
        assert option.token_logprobs_nats == pytest.approx(expected, abs=5e-5)
        assert option.logprob_nats == pytest.approx(math.fsum(expected), abs=1e-4)


# --- options ---


@pytest.mark.parametrize("request_", REQUESTS[:4] + REQUESTS[6:7], ids=lambda one: str(one.prompt)[-20:])
def test_options_are_scored_as_in_one_pass_each(engine, oracle, request_):
    [response] = engine.respond([request_])
    assert response.status == "ok"
    assert tuple(option.option for option in response.options) == request_.task.options
    assert not any(option.is_merged for option in response.options)
    assert_as_oracle(response, oracle)


def test_every_architecture_is_scored_as_in_one_pass_each(architecture):
    folder, shares = architecture
    here = opened(folder, max_context_tokens=300)
    assert here.facts.decisive["options"].startswith("share states") is shares
    # longer than the sliding window, and options on both sides of its width
    last = " none of the two machines that are there now"
    response = choose(here, STORY + "You choose", " F", " J", last)
    assert_as_oracle(response, whole_pass(folder))
    assert len({option.logprob_nats for option in response.options}) == 3


def test_options_of_many_batches_are_those_of_one(engine, monkeypatch):
    prompt, options = "The probability in percent is", tuple(f" {value}" for value in range(101))
    together = choose(engine, prompt, *options)
    monkeypatch.setattr(hf_engine, "BATCH_BYTES", 10**7)
    in_parts = choose(engine, prompt, *options)
    for option, other in zip(together.options, in_parts.options, strict=True):
        assert option.token_ids == other.token_ids
        assert option.token_logprobs_nats == pytest.approx(other.token_logprobs_nats, abs=5e-5)


def test_a_merge_is_scored_from_the_last_token_that_all_share(engine, oracle, tokens):
    # the tokenizer has a word for "Answer", so the option takes a token of the prompt away
    response = choose(engine, "Give the Answ", "er", "1")
    assert [option.is_merged for option in response.options] == [True, True]
    for option in response.options:
        whole = tokens.encode(Request("Give the Answ" + option.option, Answer(1))).prompt_token_ids
        n_shared = len(whole) - len(option.token_ids)
        assert whole[n_shared:] == option.token_ids
        assert n_shared == len(response.prompt_token_ids) - 2
        table = oracle(list(whole))
        expected = [table[place - 1, whole[place]].item() for place in range(n_shared, len(whole))]
        assert option.token_logprobs_nats == pytest.approx(expected, abs=5e-5)


def test_a_space_before_or_behind_the_boundary_changes_nothing(engine):
    behind, before = choose(engine, "Answer: ", "A", "B"), choose(engine, "Answer:", " A", " B")
    assert behind.prompt_token_ids == before.prompt_token_ids
    for one, other in zip(behind.options, before.options, strict=True):
        assert one.token_ids == other.token_ids
        assert one.token_logprobs_nats == other.token_logprobs_nats


def test_options_that_begin_alike_exclude_each_other(engine):
    response = choose(engine, "Count: 1, 2, 3, 4, 5, 6, 7, 8, 9,", *(f" {number}" for number in range(1, 30)))
    assert {option.terminator for option in response.options} == {"\n"}
    total = math.fsum(math.exp(option.logprob_nats) for option in response.options)
    assert 0 < total <= 1


def test_refused_requests_take_nothing_from_the_others(engine):
    requests = [Request("A", Choose(("x", "x"))), REQUESTS[0], Request("word " * 400, Choose(("x", "y")))]
    refused, good, too_long = engine.respond(requests)
    assert (refused.status, good.status, too_long.status) == ("error", "ok", "too_long")
    assert "401" in too_long.reason
    assert "400" in too_long.reason
    assert too_long.options == ()


# --- batches ---


def test_a_request_gets_the_same_bits_in_any_batch(engine):
    together = engine.respond(REQUESTS)
    assert [engine.respond([request])[0] for request in REQUESTS] == together
    assert [response.status for response in together] == ["ok"] * 7 + ["too_long"]


def test_a_history_that_grows_gets_the_same_bits_as_one_that_is_new(tiny_llama, monkeypatch):
    monkeypatch.setattr(hf_engine, "BLOCK_TOKENS", 16)
    lines = [f"Trial {i}: machine {'FJ'[i % 2]}, {37 + 7 * i % 30} points.\n" for i in range(12)]
    # two episodes that take turns, and one that begins like them
    prompts = [
        f"You choose.\n{who}{''.join(lines[:n])}Machine " for n in range(12) for who in ("", "Again. ")
    ]
    engine = opened(tiny_llama, dtype="float32")
    asked = []

    def counted(rows, n_last, states=None, logprobs=engine._logprobs):
        asked.append(sum(map(len, rows)))
        return logprobs(rows, n_last, states)

    monkeypatch.setattr(engine, "_logprobs", counted)
    known = [choose(engine, prompt, "F", "neither of the two") for prompt in prompts]
    n_known, asked[:] = sum(asked), []
    new = []
    for prompt in prompts:
        engine._memory.forget()
        new.append(choose(engine, prompt, "F", "neither of the two"))
    assert known == new
    assert n_known < sum(asked) / 2


def held_bytes(engine):
    """What the kept states hold of the machine's memory: a part of a tensor holds all of it."""
    layers = [layer for kept in engine._memory._kept for layer in kept.states.layers]
    storages = [part.untyped_storage() for layer in layers for part in (layer.keys, layer.values)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def test_states_that_are_kept_are_bounded(tiny_llama, monkeypatch):
    monkeypatch.setattr(hf_engine, "BLOCK_TOKENS", 16)
    engine = opened(tiny_llama, dtype="float32")
    choose(engine, "word " * 100, "F", "J")
    # of a few prompts
    limit = 4 * held_bytes(engine)
    monkeypatch.setattr(engine._memory, "_n_bytes", limit)
    held = []
    for start in range(8):
        # each is the beginning of the one before it
        for n in range(100, 20, -8):
            choose(engine, f"{start} word " * (n // 2), "F", "J")
            held.append(held_bytes(engine))
    assert limit / 2 < max(held) <= limit


def test_a_prompt_that_is_asked_again_is_kept_once(tiny_llama, monkeypatch):
    monkeypatch.setattr(hf_engine, "BLOCK_TOKENS", 16)
    engine = opened(tiny_llama, dtype="float32")
    for n in (100, 40, 100, 40, 60, 40):
        choose(engine, "word " * n, "F", "J")
    [kept] = engine._memory._kept
    assert (
        len(kept.token_ids)
        == len(engine._tokens.encode(Request("word " * 100, Answer(1))).prompt_token_ids) // 16 * 16
    )


@pytest.mark.parametrize("name", ["sliding window", "two kinds of layers"])
def test_states_of_windows_that_slide_are_never_kept(tmp_path, small_model_path, monkeypatch, name):
    monkeypatch.setattr(hf_engine, "BLOCK_TOKENS", 16)
    config_class, sizes, _ = ARCHITECTURES[name]
    engine = opened(write(tmp_path, small_model_path, config_class, **sizes))
    for n in (50, 50, 60):
        choose(engine, "word " * n, "F", "J")
        assert engine._memory._kept == []


def test_a_prompt_that_is_too_long_to_be_kept_displaces_no_other(tiny_llama, monkeypatch):
    monkeypatch.setattr(hf_engine, "BLOCK_TOKENS", 16)
    engine = opened(tiny_llama, dtype="float32")
    choose(engine, "short " * 20, "F", "J")
    kept = list(engine._memory._kept)
    monkeypatch.setattr(engine._memory, "_n_bytes", 2 * held_bytes(engine))
    choose(engine, "long " * 100, "F", "J")
    assert engine._memory._kept == kept != []


# --- answers ---


def test_an_answer_takes_the_most_likely_token_at_every_step(engine, oracle, tokens):
    response = answer(engine, "The capital of France is", 12)
    assert (response.finish_reason, response.n_response_tokens, response.max_tokens) == ("length", 12, 12)
    table = oracle([*response.prompt_token_ids, *response.response_token_ids])
    best = table[response.n_prompt_tokens - 1 : -1].max(dim=-1).indices.tolist()
    assert list(response.response_token_ids) == best
    assert response.text == tokens.decode(response.response_token_ids)


def test_an_answer_that_ends_its_turn_has_stopped(engine):
    response = answer(engine, (Message("user", "Name a colour."),), 60)
    assert response.finish_reason == "stop"
    assert response.response_token_ids[-1] == 2
    assert response.text
    assert "<|im_end|>" not in response.text


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ((" nine",), " five, six, seven, eight, and"),
        # inside a token, and across two
        (("ev",), " five, six, s"),
        (("x, s",), " five, si"),
        (("eight", "six", "zzz"), " five, "),
        ((" five",), ""),
    ],
)
def test_an_answer_ends_right_before_its_first_stop(engine, stop, text):
    response = answer(engine, "One, two, three, four,", 30, *stop)
    assert (response.text, response.finish_reason) == (text, "stop")
    assert response.n_response_tokens < 30


def test_an_answer_may_stop_with_the_last_token_of_its_budget(engine):
    whole = answer(engine, "One, two, three, four,", 30, " six")
    again = answer(engine, "One, two, three, four,", whole.n_response_tokens, " six")
    assert again.finish_reason == "stop"


def test_a_budget_shrinks_to_the_space_left(engine):
    prompt = "word" + " word" * 389
    response = answer(engine, prompt, 50)
    assert response.n_prompt_tokens == 390
    assert (response.max_tokens, response.finish_reason) == (400 - 390, "length")
    assert response.n_response_tokens == 400 - 390


def test_rules_of_sampling_in_a_models_files_change_no_answer(tiny_llama):
    expected = answer(opened(tiny_llama), "The capital of France is", 20)
    rules = transformers.GenerationConfig(
        do_sample=True, temperature=3.0, repetition_penalty=9.0, min_new_tokens=3, eos_token_id=2
    )
    rules.save_pretrained(tiny_llama)
    here = opened(tiny_llama)
    assert answer(here, "The capital of France is", 20) == expected
    ignored = here.facts.incidental["ignored_generation_config"]
    assert ignored == "do_sample=True, min_new_tokens=3, repetition_penalty=9.0, temperature=3.0"


def test_every_eos_that_a_models_files_name_ends_an_answer(tiny_llama):
    whole = answer(opened(tiny_llama), "The capital of France is", 8).response_token_ids
    end = next(place for place, token in enumerate(whole) if place and token not in whole[:place])
    transformers.GenerationConfig(eos_token_id=[49000, whole[end]]).save_pretrained(tiny_llama)
    here = opened(tiny_llama)
    response = answer(here, "The capital of France is", 8)
    assert (response.response_token_ids, response.finish_reason) == (whole[: end + 1], "stop")
    assert here.facts.decisive["eos_token_ids"] == " ".join(map(str, sorted([2, 49000, whole[end]])))


# --- what a model does wrong ---


def without_number(folder):
    """Overwrite what makes the number of one token, which no test asks for."""
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"][7] = math.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("task", [Answer(5), Choose(("A", "B")), Choose(("A long one", "B"))], ids=str)
def test_what_is_no_number_is_an_error(tiny_llama, task):
    without_number(tiny_llama)
    [response] = opened(tiny_llama).respond([Request("Which?", task)])
    assert response.status == "error"
    assert "not a number" in response.reason
    assert (response.text, response.options) == (None, ())


def test_a_probability_of_zero_is_an_error(tiny_llama, monkeypatch):
    here = opened(tiny_llama)
    taken = choose(here, "Which?", "A", "B").options[0].token_ids[0]
    forward = transformers.LlamaForCausalLM.forward

    def without_one_token(model, input_ids, **keywords):
        output = forward(model, input_ids, **keywords)
        output.logits[..., taken] = -math.inf
        return output

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", without_one_token)
    [response] = here.respond([Request("Which?", Choose(("A", "B")))])
    assert response.status == "error"
    assert "option 'A' is not a number" in response.reason
    assert response.options == ()


def test_a_request_that_needs_too_much_memory_is_an_error_and_the_next_is_answered(tiny_llama, monkeypatch):
    here = opened(tiny_llama)
    forward = transformers.LlamaForCausalLM.forward

    def in_small_memory(model, input_ids, **keywords):
        if input_ids.shape[1] > 50:
            raise torch.OutOfMemoryError("tried to allocate 80 GiB\nmore lines")
        return forward(model, input_ids, **keywords)

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", in_small_memory)
    large, small = here.respond([Request(STORY, Choose(("A", "B"))), Request("Which?", Choose(("A", "B")))])
    assert (large.status, large.reason) == ("error", "out of memory: tried to allocate 80 GiB")
    assert large.n_prompt_tokens > 50
    assert small.status == "ok"


@pytest.mark.parametrize("n_words", [1, 300])
def test_a_model_that_keeps_no_states_is_an_error_that_says_so(tiny_llama, monkeypatch, n_words):
    here = opened(tiny_llama)
    forward = transformers.LlamaForCausalLM.forward

    def forgetful(model, input_ids, **keywords):
        return forward(model, input_ids, **keywords | {"past_key_values": None, "use_cache": False})

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", forgetful)
    [response] = here.respond([Request("word " * n_words, Choose(("A", "B")))])
    assert response.status == "error"
    assert response.reason == "the model does not keep the states of a prompt in the way of transformers"


def test_a_lost_device_ends_the_engine(tiny_llama, monkeypatch):
    here = opened(tiny_llama)

    def lost(*_, **__):
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", lost)
    with pytest.raises(EngineFailed, match="device-side assert"):
        here.respond([Request("Which?", Choose(("A", "B")))])


def test_a_tokenizer_of_another_model_is_said(tmp_path, small_model_path):
    # fewer rows of embeddings than the tokenizer has tokens
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=300, **LLAMA)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(small_model_path / name, tmp_path)
    [response] = opened(tmp_path).respond([Request("The capital of France", Answer(5))])
    assert response.status == "error"
    assert "300" in response.reason


# --- loading ---


def test_facts_are_known_before_weights_are_loaded(engine, small_model_path):
    facts = describe(settings(small_model_path, dtype="float32", max_context_tokens=400))
    assert facts == engine.facts
    assert (facts.name, facts.version, facts.dtype) == ("hf", transformers.__version__, "float32")
    assert (facts.context_declared_tokens, facts.context_effective_tokens) == (8192, 400)
    assert (facts.has_chat_template, facts.n_leading_bos, facts.bos_token_id) == (True, 0, 1)
    assert facts.decisive["attention"] == "sdpa"
    assert facts.incidental["torch"] == torch.__version__
    assert describe(settings(small_model_path, max_context_tokens=10**6)).context_effective_tokens == 8192


def test_numbers_are_half_as_wide_where_that_is_asked_for(engine, small_model_path):
    half = opened(small_model_path, dtype="bfloat16", max_context_tokens=400)
    assert half.facts.dtype == "bfloat16"
    wide, narrow = (choose(one, STORY, "Machine F", "Machine J") for one in (engine, half))
    for one, other in zip(wide.options, narrow.options, strict=True):
        assert one.logprob_nats != other.logprob_nats
        # eight bits of each number are left
        assert one.logprob_nats == pytest.approx(other.logprob_nats, abs=0.5)


def test_the_width_of_numbers_is_the_models_own_unless_asked(tmp_path, small_model_path):
    folder = write(tmp_path, small_model_path, "LlamaConfig", **LLAMA)
    transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)
    assert describe(settings(folder)).dtype == "bfloat16"
    own, asked = (choose(opened(folder, dtype=dtype), STORY, "F", "J") for dtype in ("auto", "bfloat16"))
    assert own == asked
    assert describe(settings(folder, dtype="float16")).dtype == "float16"


def test_a_model_without_all_its_weights_is_refused(tiny_llama):
    weights = load_file(tiny_llama / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tiny_llama / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineFailed, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        opened(tiny_llama)


def test_a_model_that_says_nothing_of_its_context_needs_one(tmp_path, small_model_path):
    folder = write(tmp_path, small_model_path, "MambaConfig", **ARCHITECTURES["recurrent"][1])
    with pytest.raises(EngineFailed, match="set max_context_tokens"):
        describe(settings(folder))
    facts = describe(settings(folder, max_context_tokens=300))
    assert (facts.context_declared_tokens, facts.context_effective_tokens) == (None, 300)


@pytest.mark.parametrize("open_or_describe", [describe, open_engine])
def test_a_folder_without_a_model_is_one_sentence(tmp_path, open_or_describe):
    with pytest.raises(EngineFailed) as failed:
        open_or_describe(settings(tmp_path))
    assert str(tmp_path) in str(failed.value)
    assert "\n" not in str(failed.value)


def test_broken_weights_are_one_sentence(tiny_llama):
    (tiny_llama / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(EngineFailed) as failed:
        opened(tiny_llama)
    assert str(tiny_llama) in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("choices", [{"tensor_parallel": 2}, {"data_parallel": 2}, {"prefix_caching": True}])
def test_settings_of_another_engine_are_refused(tmp_path, choices):
    with pytest.raises(WrongUsage, match="vllm"):
        describe(settings(tmp_path, **choices))
