"""Code that comes with a model's files: it runs where the user says so, and the run then says that it did."""

import json
import os

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file
from tiny_models import LLAMA, write, write_own
from transformers import dynamic_module_utils

from generate.contract import Answer, Choose, Request
from generate.engines.settings import EngineSettings, describe, open_engine
from generate.tokens import load_tokenizer
from store.errors import EngineFailed, WrongUsage

pytestmark = pytest.mark.engines

TRACE = "COGLAKE_TEST_OWN_CODE"


@pytest.fixture
def own_path(tmp_path, small_model_path, monkeypatch):
    """A model whose files leave a trace when their code runs, and no copy of that code behind."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv(TRACE, "")
    folder = write_own(tmp_path / "own", small_model_path)
    for path in folder.glob("*.py"):
        path.write_text(f"import os\nos.environ[{TRACE!r}] += {path.stem!r}\n{path.read_text()}")
    return folder


def settings(folder, engine="hf", **choices):
    return EngineSettings(engine=engine, model=str(folder), **choices)


@pytest.mark.parametrize("open_or_describe", [describe, open_engine])
def test_a_model_that_needs_its_own_code_is_refused_and_none_of_it_runs(own_path, open_or_describe):
    with pytest.raises(EngineFailed, match="pass --trust-remote-code") as failed:
        open_or_describe(settings(own_path))
    assert "may do whatever your account may do" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert os.environ[TRACE] == ""


def test_trusted_code_runs_and_the_facts_say_so(own_path):
    trusted = settings(own_path, trust_remote_code=True)
    engine = open_engine(trusted)
    prompt = "Machine F gave 12 points. You choose machine "
    scored, answered = engine.respond([Request(prompt, Choose(("F", "J"))), Request(prompt, Answer(5))])
    engine.close()
    assert engine.facts == describe(trusted)
    assert engine.facts.decisive["remote_code"] == "run"
    assert "configuration_own" in os.environ[TRACE] and "modeling_own" in os.environ[TRACE]
    # the model in one line, on the weights themselves
    weights = load_file(own_path / "model.safetensors")
    for option in scored.options:
        ids = torch.tensor([*scored.prompt_token_ids, *option.token_ids])
        mean = (weights["embed.weight"][ids] + weights["pos_emb"][0, : len(ids)]).cumsum(0)
        mean = mean / torch.arange(1, len(ids) + 1)[:, None]
        table = torch.log_softmax(torch.tanh(mean) @ weights["head.weight"].T, dim=-1)
        places = range(len(scored.prompt_token_ids), len(ids))
        expected = [table[place - 1, ids[place]].item() for place in places]
        assert option.token_logprobs_nats == pytest.approx(expected, abs=1e-4)
    assert (answered.status, answered.n_response_tokens) == ("ok", 5), answered.reason


def test_a_table_of_positions_in_own_code_is_a_limit_as_any_other(own_path):
    facts = describe(
        settings(own_path, trust_remote_code=True, max_context_tokens=500, may_extend_context=True)
    )
    assert (facts.context_limit_tokens, facts.context_effective_tokens) == (64, 64)


def test_a_model_without_code_of_its_own_is_the_same_run_whether_trusted_or_not(tmp_path, small_model_path):
    folder = write(tmp_path, small_model_path, "LlamaConfig", **LLAMA)
    trusted = describe(settings(folder, trust_remote_code=True))
    assert trusted == describe(settings(folder))
    assert "remote_code" not in trusted.decisive


def test_code_of_another_repository_is_refused_for_no_revision_fixes_it(own_path):
    config = json.loads((own_path / "config.json").read_text())
    config["auto_map"]["AutoModelForCausalLM"] = "somebody/else--modeling_own.OwnForCausalLM"
    (own_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineFailed, match="takes code from somebody/else"):
        describe(settings(own_path, trust_remote_code=True))
    assert os.environ[TRACE] == ""


def write_tokenizer_code(folder, reference):
    path = folder / "tokenizer_config.json"
    written = json.loads(path.read_text())
    written |= {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, reference]}}
    path.write_text(json.dumps(written))
    (folder / "tokenization_own.py").write_text(
        f"import os\nos.environ[{TRACE!r}] += 'tokenization_own'\n"
        "from transformers import PreTrainedTokenizerFast\n\n\n"
        "class OwnTokenizer(PreTrainedTokenizerFast):\n    pass\n"
    )


def test_the_code_of_a_tokenizer_is_asked_for_as_that_of_a_model(tmp_path, small_model_path, monkeypatch):
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv(TRACE, "")
    folder = write(tmp_path / "model", small_model_path, "LlamaConfig", **LLAMA)
    write_tokenizer_code(folder, "tokenization_own.OwnTokenizer")
    with pytest.raises(EngineFailed, match="pass --trust-remote-code"):
        load_tokenizer(str(folder), None)
    assert os.environ[TRACE] == ""
    assert describe(settings(folder, trust_remote_code=True)).decisive["remote_code"] == "run"
    assert os.environ[TRACE] == "tokenization_own"
    write_tokenizer_code(folder, "somebody/else--tokenization_own.OwnTokenizer")
    with pytest.raises(EngineFailed, match="takes code from somebody/else"):
        load_tokenizer(str(folder), None, trust_remote_code=True)


def test_a_server_decides_by_itself_whose_code_it_runs():
    asked = settings("model", "openai", base_urls=("http://127.0.0.1:9",), trust_remote_code=True)
    with pytest.raises(WrongUsage, match="--trust-remote-code is decided where the server is started"):
        describe(asked)
