"""vLLM against transformers on a small real model in float32, and where the two may not differ at all.

Models of random weights, which start in a moment, come first: one engine of vLLM is open at a time.
"""

import json
import math
import signal
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

pytest.importorskip("vllm")

import transformers
from tiny_models import GPT2, LLAMA, write
from transformers import dynamic_module_utils
from vllm import SamplingParams
from vllm.v1.engine.exceptions import EngineDeadError

from generate.contract import Answer, Choose, Message, Request
from generate.engines import hf_engine, vllm_engine
from generate.engines.settings import EngineSettings, describe, open_engine
from store.errors import EngineFailed, WrongUsage

pytestmark = pytest.mark.engines

CONTEXT = 400
STORY = "Machine F gave 12 points. Machine J gave 7 points. " * 6
PERCENT = tuple(f" {value}" for value in range(101))

CHOICES = [
    Request(STORY + "You choose machine ", Choose(("F", "J"))),
    Request("The capital of France is", Choose((" Paris", " Rome", " the city of Lights", " unknown to me"))),
    Request((Message("user", "Which machine, F or J?"),), Choose(("F", "J", "neither of the two"))),
    Request((Message("system", "Be brief."), Message("user", "A or A and B?")), Choose(("A", "A and B"))),
    Request("The probability in percent is", Choose(PERCENT)),
    Request("One: 1\nTwo:", Choose((" 2", " 22", " 2 and 2"))),
    Request("He is unbelie", Choose(("vable", "ving", "f"))),
    Request("Answer:", Choose(("\n\nA", "…", "A" * 40))),
]
ANSWERS = [
    Request((Message("system", "Be brief."), Message("user", "Name a colour.")), Answer(24)),
    Request((Message("user", "Say yes."),), Answer(40)),
    Request("One, two, three, four,", Answer(30, (" nine", "ten"))),
    Request("The capital of France is", Answer(1)),
    Request("日本の首都は", Answer(16)),
]
TOO_LONG = Request("word " * CONTEXT, Answer(5))


def settings(folder, engine="vllm", **choices):
    return EngineSettings(engine=engine, model=str(folder), batch_size=32, **choices)


@pytest.fixture(scope="module")
def engine(small_model_path):
    opened = open_engine(settings(small_model_path, dtype="float32", max_context_tokens=CONTEXT))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def responses(engine):
    return engine.respond([*CHOICES, *ANSWERS, TOO_LONG])


@pytest.fixture(scope="module")
def expected(small_model_path):
    """What transformers answer to the same."""
    opened = hf_engine.open_engine(
        settings(small_model_path, "hf", dtype="float32", max_context_tokens=CONTEXT)
    )
    yield opened.respond([*CHOICES, *ANSWERS, TOO_LONG])
    opened.close()


def tiny(folder, small_model_path):
    return write(folder, small_model_path, "LlamaConfig", **LLAMA | {"max_position_embeddings": 2048})


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory, small_model_path):
    return tiny(tmp_path_factory.mktemp("tiny"), small_model_path)


@pytest.fixture(scope="module", autouse=True)
def little_memory():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield


@contextmanager
def opened(folder, **choices):
    """Open an engine that compiles nothing, for models of which only one question is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_CI_ENV", "1")
        engine = open_engine(settings(folder, **choices))
        try:
            yield engine
        finally:
            engine.close()


def spy(engine, monkeypatch, change=lambda outputs: None):
    """Return a list that grows by what vLLM gives; ``change`` may tamper with it first."""
    seen = []
    generate = engine.llm.generate

    def spied(*arguments, **keywords):
        outputs = generate(*arguments, **keywords)
        change(outputs)
        seen.extend(outputs)
        return outputs

    monkeypatch.setattr(engine.llm, "generate", spied)
    return seen


def values(response):
    return [option.logprob_nats for option in response.options]


# --- what needs no model, and what a model of random weights shows ---


def test_describing_starts_no_engine_and_agrees_with_the_engine(tiny_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(vllm_engine, "LLM", None)
        facts = describe(settings(tiny_path, max_context_tokens=300))
    with opened(tiny_path, max_context_tokens=300) as engine:
        found = engine.facts
    assert found == replace(facts, incidental=found.incidental)
    assert facts.incidental.items() < found.incidental.items()
    assert found.incidental["max_num_seqs"] == "32"
    assert (facts.context_declared_tokens, facts.context_effective_tokens) == (2048, 300)
    # vLLM's own rule would make 16 bits of it
    assert facts.dtype == "float32"


def test_a_context_beyond_the_declared_one_is_not_used(tiny_path):
    assert describe(settings(tiny_path, max_context_tokens=5000)).context_effective_tokens == 2048


@pytest.mark.parametrize(
    ("config_class", "sizes", "limit"),
    [
        ("LlamaConfig", LLAMA, None),
        ("LlamaConfig", LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, None),
        ("GPT2Config", GPT2, 64),
        # of these vLLM makes a table of rotations for the trained length, or one whose rows depend on it
        ("LlamaConfig", LLAMA | {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, 128),
    ],
    ids=["rotations", "stretched rotations", "learned positions", "rotations by length"],
)
def test_a_context_is_extended_as_far_as_positions_go(tmp_path, small_model_path, config_class, sizes, limit):
    if "rope_parameters" in sizes:
        sizes = sizes | {"rope_parameters": sizes["rope_parameters"] | {"rope_theta": 10_000.0}}
    folder = write(tmp_path, small_model_path, config_class, **sizes)
    facts = describe(settings(folder, max_context_tokens=200, may_extend_context=True))
    assert facts.context_limit_tokens == limit
    assert facts.context_effective_tokens == (limit or 200)
    assert describe(settings(folder)).context_effective_tokens == facts.context_declared_tokens


def test_what_stands_beyond_the_declared_context_is_scored_as_with_transformers(tmp_path, small_model_path):
    folder = write(tmp_path, small_model_path, "LlamaConfig", **LLAMA)
    longer = {"dtype": "float32", "max_context_tokens": 300, "may_extend_context": True}
    n = 290
    requests = [
        Request("word " * n + "You choose", Choose((" F", " J", " neither of the two"))),
        Request("word " * (n + 2) + "is", Answer(50)),
        Request("word " * 301, Answer(5)),
    ]
    with opened(folder, **longer) as engine:
        found = engine.respond(requests)
        assert (engine.facts.context_declared_tokens, engine.facts.context_effective_tokens) == (64, 300)
    other = hf_engine.open_engine(settings(folder, "hf", **longer))
    expected = other.respond(requests)
    other.close()
    assert [response.status for response in found] == ["ok", "ok", "too_long"]
    assert values(found[0]) == pytest.approx(values(expected[0]), abs=1e-4)
    assert found[1:] == expected[1:]
    assert found[1].max_tokens == 300 - found[1].n_prompt_tokens < 50


def test_code_of_a_model_runs_only_where_that_is_asked_for(tmp_path, small_model_path, monkeypatch):
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = write(tmp_path / "own", small_model_path, "LlamaConfig", **LLAMA)
    assert "remote_code" not in describe(settings(folder, trust_remote_code=True)).decisive
    (folder / "configuration_own.py").write_text(
        'from transformers import LlamaConfig\n\n\nclass OwnConfig(LlamaConfig):\n    model_type = "own"\n'
    )
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineFailed, match="pass --trust-remote-code"):
        describe(settings(folder))
    with opened(folder, trust_remote_code=True) as engine:
        [response] = engine.respond([Request("The capital", Answer(3))])
        assert engine.facts.decisive["remote_code"] == "run"
    assert response.status == "ok"


def test_requests_of_one_batch_keep_budgets_of_their_own(tiny_path):
    with opened(tiny_path, max_context_tokens=1024) as engine:
        found = engine.respond([Request("The capital of France", Answer(n)) for n in (48, 512, 1)])
    assert [response.max_tokens for response in found] == [48, 512, 1]
    assert [response.n_response_tokens for response in found] == [48, 512, 1]
    assert {response.finish_reason for response in found} == {"length"}
    assert found[1].response_token_ids[:48] == found[0].response_token_ids


def test_copies_of_the_model_are_refused_with_what_to_do(tiny_path):
    with pytest.raises(
        WrongUsage, match="data_parallel 2; set ray_workers instead, or start several servers"
    ):
        describe(settings(tiny_path, data_parallel=2))


def test_a_folder_without_a_model_is_one_sentence(tmp_path):
    with pytest.raises(EngineFailed, match=f"model {tmp_path} cannot be loaded with vLLM") as raised:
        describe(settings(tmp_path))
    assert "\n" not in str(raised.value)


def test_bos_is_there_once_if_the_tokenizer_adds_it(tmp_path, small_model_path, monkeypatch):
    folder = tiny(tmp_path, small_model_path)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    bos = "<|im_start|>"
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [1], "tokens": [bos]}},
    }
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    chat = (Message("user", "Which?"),)
    with opened(folder) as engine:
        seen = spy(engine, monkeypatch)
        engine.respond(
            [
                Request("Which? ", Choose(("A", "B and C"))),
                Request("Which?", Answer(1)),
                # this template writes the token itself
                Request(chat, Answer(1)),
                Request(chat, Choose(("A", "B"))),
            ]
        )
        assert engine.facts.n_leading_bos == 1
    assert [(output.prompt_token_ids[0], output.prompt_token_ids[1] == 1) for output in seen] == [
        (1, False)
    ] * 5


def test_every_token_that_the_model_declares_ends_a_response(tmp_path, small_model_path):
    folder = tiny(tmp_path, small_model_path)
    request = Request("Which?", Answer(6))
    with opened(folder) as engine:
        [free] = engine.respond([request])
    third = free.response_token_ids[2]
    assert free.finish_reason == "length" and third not in free.response_token_ids[:2]
    (folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [2, third], "temperature": 0.3, "repetition_penalty": 9.0})
    )
    with opened(folder) as engine:
        [ended] = engine.respond([request])
        assert engine.facts.decisive["eos_token_ids"] == f"2 {third}"
    # penalties of the same file change nothing
    assert ended.response_token_ids == free.response_token_ids[:3]
    assert ended.finish_reason == "stop"


LONG = [Request(STORY * 3 + f"{number}. You choose machine", Choose((" F", " J"))) for number in range(12)]
SHORT = [Request("You choose machine", Choose((" F", " J")))]


def test_prefix_caching_is_trusted_once_it_gave_the_same(tiny_path, monkeypatch):
    def as_if_equal(outputs):
        # kernels may round a shorter computation otherwise, so the values of the first time are repeated
        for output in outputs:
            known = first.setdefault(tuple(output.prompt_token_ids), output.outputs[0].logprobs)
            output.outputs[0].logprobs = known

    first = {}
    with opened(tiny_path, prefix_caching=True) as engine:
        assert engine.facts.decisive["prefix_caching"] == "on"
        seen = spy(engine, monkeypatch, as_if_equal)
        engine.respond(SHORT)
        # no prompt fills a block, so nothing was proved yet and the next batch is tried again
        engine.respond(SHORT)
        assert len(seen) == 2 * 3 and not any(output.num_cached_tokens for output in seen)
        engine.respond(LONG)
        cold, warm, real = seen[6:14], seen[14:22], seen[22:]
        assert not any(output.num_cached_tokens for output in cold)
        assert all(output.num_cached_tokens for output in warm) and len(real) == len(LONG)
        engine.respond(LONG)
        assert len(seen) == 22 + 2 * len(LONG)


def test_prefix_caching_that_changes_a_number_ends_the_run(tiny_path, monkeypatch):
    def changed(outputs):
        for output in outputs:
            if output.num_cached_tokens:
                logprobs = output.outputs[0].logprobs
                logprobs.logprobs = [value - 0.25 for value in logprobs.logprobs]

    with opened(tiny_path, prefix_caching=True) as engine:
        spy(engine, monkeypatch, changed)
        with pytest.raises(EngineFailed, match=r"tried on 8 choices: .* found a difference of 0.25 nats"):
            engine.respond(LONG)


def test_answers_and_prompt_logprobs_read_no_cache(tiny_path, monkeypatch):
    with opened(tiny_path, prefix_caching=True) as engine:
        seen = spy(engine, monkeypatch)
        requests = [replace(LONG[0], task=task) for task in (Answer(2), Choose((" F and J", " J and F")))]
        engine.respond(requests)
        engine.respond(requests)
        assert len(seen) == 2 * 3 and not any(output.num_cached_tokens for output in seen)


def test_an_engine_in_its_own_process_ends_with_it_and_survives_ctrl_c(tiny_path, monkeypatch):
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")

    def started():
        found = [one for one in psutil.Process().children(recursive=True) if one not in before]
        return [one for one in found if "resource_tracker" not in " ".join(one.cmdline())]

    before = psutil.Process().children(recursive=True)
    with opened(tiny_path) as engine:
        processes = started()
        assert processes and engine.facts.incidental["own_process"] == "1"
        # a terminal sends it to all of them
        for one in processes:
            one.send_signal(signal.SIGINT)
        [response] = engine.respond(SHORT)
        assert response.status == "ok"
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


# --- the small model ---


@pytest.mark.parametrize("number", range(len(CHOICES)), ids=lambda number: str(CHOICES[number].prompt)[-24:])
def test_options_score_as_with_transformers(responses, expected, number):
    found, other = responses[number], expected[number]
    assert found.status == other.status == "ok"
    assert values(found) == pytest.approx(values(other), abs=1e-4)
    # but for the numbers, nothing differs: tokens, merges, terminators, the rendered prompt
    assert untimed(found) == untimed(other)


def untimed(response):
    options = tuple(replace(option, token_logprobs_nats=()) for option in response.options)
    return replace(response, options=options)


def test_the_requests_have_what_can_go_wrong(responses):
    options = [response.options for response in responses[: len(CHOICES)]]
    assert any(option.is_merged for some in options for option in some)
    assert any(option.terminator for some in options for option in some)
    assert any(len(option.token_ids) > 3 for some in options for option in some)


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_answers_are_those_of_transformers(responses, expected, number):
    found, other = responses[len(CHOICES) + number], expected[len(CHOICES) + number]
    assert found == other and found.status == "ok"


def test_answers_end_for_each_reason(responses):
    answers = responses[len(CHOICES) : -1]
    assert {answer.finish_reason for answer in answers} == {"stop", "length"}
    # its end of turn is among the tokens and not in the text
    assert any(answer.response_token_ids[-1] == 2 and "<|im_end|>" not in answer.text for answer in answers)
    assert answers[2].finish_reason == "stop" and " nine" not in answers[2].text


def test_a_prompt_that_is_too_long_is_told_with_its_lengths(responses, expected):
    assert responses[-1] == expected[-1]
    assert responses[-1].status == "too_long" and f"the context has {CONTEXT}" in responses[-1].reason


def test_a_budget_shrinks_to_the_space_left(engine):
    prompt = "one " * (CONTEXT - 4)
    [response] = engine.respond([Request(prompt, Answer(50))])
    space = CONTEXT - response.n_prompt_tokens
    assert 0 < space < 50
    assert response.max_tokens == space and response.n_response_tokens <= space


def test_the_longest_sequence_that_fits_is_scored(engine, small_model_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(small_model_path)
    # each of these words is one token
    prompt = "one" + " one" * (CONTEXT - 3)
    assert len(tokenizer(prompt + " two two")["input_ids"]) == CONTEXT
    fits, single, exceeds = engine.respond(
        [
            Request(prompt, Choose((" two two", " three"))),
            Request(prompt + " one", Choose((" two", " three"))),
            Request(prompt + " one", Choose((" two two", " three"))),
        ]
    )
    assert (fits.status, single.status, exceeds.status) == ("ok", "ok", "too_long")
    assert len(fits.options[0].token_ids) == 2


def test_named_tokens_and_prompt_tokens_give_the_same(engine, responses):
    """The last token of an option is named behind the rest; as part of the prompt it must score the same."""
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    for response in responses[: len(CHOICES)]:
        for option in response.options[:4]:
            before = response.prompt_token_ids
            if option.is_merged:
                # scored from a token of the prompt on
                continue
            ids = [*before, *option.token_ids]
            [output] = engine.llm.generate([{"prompt_token_ids": ids}], params, use_tqdm=False)
            places = range(len(before), len(ids))
            whole = [output.prompt_logprobs[place][ids[place]].logprob for place in places]
            assert option.token_logprobs_nats == pytest.approx(whole, abs=1e-5)


def test_one_request_at_a_time_gives_the_same_as_a_batch(engine, responses):
    requests = [*CHOICES, *ANSWERS]
    alone = [engine.respond([request])[0] for request in requests]
    together = engine.respond((requests * 3)[:32])
    for one, other in zip(alone * 3, together, strict=False):
        assert untimed(one) == untimed(other)
        assert values(one) == pytest.approx(values(other), abs=1e-5)


def test_options_far_from_the_likely_ones_have_their_number(engine, small_model_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(small_model_path)
    words = (tokenizer.decode([token]) for token in range(2000, 40000))
    # of one length, so that none begins with another
    words = [word for word in words if len(word) == 6 and word[0] == " " and word[1:].isalpha()][:300]
    # more than vLLM names log-probabilities for at once
    assert len(words) == 300
    [response] = engine.respond([Request("The capital of France is", Choose(tuple(words)))])
    [output] = engine.llm.generate(
        [{"prompt_token_ids": list(response.prompt_token_ids)}],
        SamplingParams(temperature=0, max_tokens=1, logprobs=20),
        use_tqdm=False,
    )
    top = output.outputs[0].logprobs[0]
    far = [option for option in response.options if option.token_ids[0] not in top]
    assert len(far) > 250
    floor = min(one.logprob for one in top.values())
    assert all(option.status == "ok" and -60 < option.logprob_nats <= floor for option in far)
    assert math.fsum(math.exp(value) for value in values(response)) < 1


# --- what fails ---


def test_one_failing_request_is_an_error_row(engine, monkeypatch, responses):
    generate = engine.llm.generate
    bad = responses[1].prompt_token_ids

    def failing(prompts, *arguments, **keywords):
        if any(tuple(prompt["prompt_token_ids"][: len(bad)]) == bad for prompt in prompts):
            raise ValueError("no such token\nand what came of it")
        return generate(prompts, *arguments, **keywords)

    monkeypatch.setattr(engine.llm, "generate", failing)
    found = engine.respond([*CHOICES[:3], ANSWERS[0]])
    assert [response.status for response in found] == ["ok", "error", "ok", "ok"]
    assert found[1].reason == "vLLM refused the request: no such token"
    assert found[1].prompt_token_ids == bad
    assert values(found[2]) == pytest.approx(values(responses[2]), abs=1e-5)
    assert found[3] == responses[len(CHOICES)]


def test_what_a_failed_batch_left_in_the_engine_is_in_no_other_batch(engine, monkeypatch, responses):
    step = engine.llm.llm_engine.step
    failures = iter([RuntimeError("a kernel failed")])

    def failing():
        found = step()
        for failure in failures:
            raise failure
        return found

    monkeypatch.setattr(engine.llm.llm_engine, "step", failing)
    found = engine.respond(ANSWERS)
    assert found == responses[len(CHOICES) : -1]


def test_an_interrupted_batch_leaves_nothing_behind(engine, monkeypatch, responses):
    step = engine.llm.llm_engine.step

    def interrupted():
        step()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine.llm.llm_engine, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.respond(ANSWERS)
    assert engine.respond(ANSWERS[:2]) == responses[len(CHOICES) : len(CHOICES) + 2]


def test_a_dead_engine_ends_the_run(engine, monkeypatch):
    def dead(*arguments, **keywords):
        raise EngineDeadError

    monkeypatch.setattr(engine.llm, "generate", dead)
    with pytest.raises(EngineFailed, match="has died"):
        engine.respond(ANSWERS)


@pytest.mark.parametrize("value", [-math.inf, math.nan, -9999.0, None])
def test_an_option_without_a_number_is_missing(engine, monkeypatch, responses, value):
    request = CHOICES[1]
    paris, rome = (option.token_ids[0] for option in responses[1].options[:2])

    def changed(outputs):
        flat = outputs[0].outputs[0].logprobs
        place = flat.token_ids.index(rome)
        if value is None:
            flat.token_ids[place] = paris
            flat.logprobs[place] = flat.logprobs[flat.token_ids.index(paris)]
        else:
            flat.logprobs[place] = value

    spy(engine, monkeypatch, changed)
    [response] = engine.respond([request])
    assert response.status == "ok"
    assert [option.status for option in response.options] == ["ok", "missing_option", "ok", "ok"]
    assert response.options[1].logprob_nats is None and response.options[1].token_logprobs_nats == ()
    assert f"log-probability of token {rome}" in response.options[1].reason
