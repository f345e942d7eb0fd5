"""The engine ``hf``: models that transformers runs in this process, on CPUs and for odd architectures.

Every request is computed on its own, so no number depends on what else is in the batch, and a run that is
resumed equals one that was never broken. The options of a request share the states of its prompt: these are
computed once, and all options go on from them as one batch. A prompt is computed in blocks of a fixed length,
so blocks with which an earlier prompt began are used again: what they hold is the same to the last bit.
"""

import copy
import gc
import inspect
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import tokenizers
import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from generate.contract import Answer, EngineFacts, Request, Response, ScoredOption
from generate.engines import own_code
from generate.engines.model_files import (
    cannot_load,
    context_of,
    n_positions,
    read_config,
    read_skeleton,
    rope_types,
)
from generate.engines.settings import EngineSettings
from generate.tokens import Encoded, Ids, Tokens, load_tokenizer, n_same
from store.errors import EngineFailed, WrongUsage, first_line

# states of the prompt and log-probabilities that one batch of options may hold; a constant, because the size
# of a batch can change the last bits of a number
BATCH_BYTES = 2**30

# tokens of a prompt that are computed at once; a constant for the same reason
BLOCK_TOKENS = 128

# states of earlier prompts that are kept for prompts that go on from them, as those of an episode do
KEPT_BYTES = 2**30

# names under which configurations declare the longest sequence
_CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")

# rotations that depend on how long the whole sequence is, once it is longer than those of the training
_ROPES_BY_LENGTH = {"dynamic", "longrope"}

# entries of a generation configuration that are no rule of decoding
_BOOKKEEPING = ("transformers_version", "use_cache", "max_length", "max_new_tokens")
_BOOKKEEPING_AFFIXES = ("_", "output_", "return_")


class _Unusable(Exception):
    """Nothing can be made of what the model or the tokenizer gave; says what."""


@dataclass(frozen=True, slots=True)
class _Described:
    """What the files beside the weights say."""

    facts: EngineFacts
    tokens: Tokens
    dtype: torch.dtype
    shares_states: bool
    eos_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """States of the whole blocks that a prompt began with."""

    token_ids: Ids
    states: DynamicCache


class _Memory:
    """States of earlier prompts, the least recently used of which are forgotten first."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401
        self._config = config
        # windows that slide drop their beginning
        is_whole = {type(layer) for layer in DynamicCache(config=config).layers} <= {DynamicLayer}
        self._n_bytes = KEPT_BYTES if is_whole else 0
        self._kept: list[_Kept] = []

    def begin(self, token_ids: Ids) -> DynamicCache:
        """Return states of the longest beginning in whole blocks that is known; empty ones if none is."""
        found, n_known = None, 0
        for kept in self._kept:
            n_shared = n_same(kept.token_ids, token_ids) // BLOCK_TOKENS * BLOCK_TOKENS
            # something has to be left to compute, or nothing would follow the prompt
            if n_shared > n_known and n_shared < len(token_ids):
                found, n_known = kept, n_shared
        if found is None:
            return DynamicCache(config=self._config)
        self._kept.remove(found)
        if n_known < len(found.token_ids) - BLOCK_TOKENS:
            # another prompt may go on from its end
            self._kept.append(found)
        states = _copied(found.states)
        if n_known < len(found.token_ids):
            states.crop(n_known - len(found.token_ids))
        return states

    def keep(self, token_ids: Ids, states: DynamicCache) -> None:
        """Know the states of whole blocks from now on, unless they are known or too large to be kept."""
        is_known = any(kept.token_ids[: len(token_ids)] == token_ids for kept in self._kept)
        if is_known or _n_bytes(states) > self._n_bytes:
            return
        self._kept.append(_Kept(token_ids, _compact(states)))
        while sum(_n_bytes(kept.states) for kept in self._kept) > self._n_bytes:
            del self._kept[0]

    def forget(self) -> None:
        """Know nothing any more."""
        self._kept.clear()


class HfEngine:
    """A model of transformers in this process.

    Parameters
    ----------
    described
        What :func:`describe` reads.
    model
        Loaded, on its device, in evaluation mode.
    """

    def __init__(self, described: _Described, model: Any) -> None:  # noqa: ANN401
        self._facts = described.facts
        self._tokens = described.tokens
        self._shares_states = described.shares_states
        self._eos_ids = described.eos_ids
        self._model = model
        self._keywords = _keywords(model)
        self._n_embeddings: int = model.get_input_embeddings().num_embeddings
        self._memory = _Memory(model.config.get_text_config(decoder=True))

    @property
    def facts(self) -> EngineFacts:
        """What the run states of it."""
        return self._facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order.

        Raises
        ------
        EngineFailed
            If the device is lost.
        """
        encoded = self._tokens.encode_many(requests)
        return [
            one if isinstance(one, Response) else self._respond(request, one)
            for request, one in zip(requests, encoded, strict=True)
        ]

    def close(self) -> None:
        """Free the model."""
        self._model = None
        self._memory.forget()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _respond(self, request: Request, encoded: Encoded) -> Response:
        try:
            self._check_vocabulary(encoded)
            with torch.inference_mode():
                if isinstance(request.task, Answer):
                    return self._answer(encoded, request.task.stop)
                return self._choose(encoded)
        except torch.AcceleratorError as error:
            raise EngineFailed(f"engine hf: the device is lost: {first_line(error)}; start again") from error
        except _Unusable as error:
            reason = str(error)
        except (torch.OutOfMemoryError, MemoryError) as error:
            reason = f"out of memory: {first_line(error)}"
        # one request must not end the run, whatever a model's code does with it
        except Exception as error:
            reason = f"the model failed: {type(error).__name__}: {first_line(error)}"
        # what a failed request allocated lives as long as its traceback, so this comes behind the handlers
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        prompt = encoded.prompt_token_ids
        return Response("error", encoded.prompt_text, reason, prompt, len(prompt))

    def _check_vocabulary(self, encoded: Encoded) -> None:
        sequences = [encoded.prompt_token_ids, *(one.token_ids for one in encoded.continuations)]
        highest = max(map(max, sequences))
        if highest >= self._n_embeddings:
            raise _Unusable(
                f"the tokenizer gives token {highest}, and the model has {self._n_embeddings}; they do not "
                "belong together"
            )

    # --- answers ---

    def _answer(self, encoded: Encoded, stop: tuple[str, ...]) -> Response:
        prompt = encoded.prompt_token_ids
        inputs = self._tensor([prompt])
        watch = _Watch()
        stops = _StopTexts(self._tokens, prompt, stop)
        produced = self._model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            do_sample=False,
            max_new_tokens=encoded.max_tokens,
            logits_processor=[watch],
            stopping_criteria=[stops] if stop else [],
        )
        if watch.has_nan():
            raise _Unusable(f"the model's output is not a number in {self._facts.dtype}")
        ids = tuple(produced[0, len(prompt) :].tolist())
        text = self._tokens.decode_after(prompt, ids)
        end = stops.found_in(text)
        is_over = end is not None or ids[-1] in self._eos_ids
        return Response(
            "ok",
            encoded.prompt_text,
            prompt_token_ids=prompt,
            n_prompt_tokens=len(prompt),
            text=text[:end],
            finish_reason="stop" if is_over else "length",
            response_token_ids=ids,
            n_response_tokens=len(ids),
            max_tokens=encoded.max_tokens,
        )

    # --- options ---

    def _choose(self, encoded: Encoded) -> Response:
        start = encoded.continuations[0].start
        before = encoded.continuations[0].token_ids[:start]
        scored = [one.token_ids[start:] for one in encoded.continuations]
        logprobs = (self._together if self._shares_states else self._one_by_one)(before, scored)
        options = tuple(
            ScoredOption(one.option, ids, tuple(values), one.is_merged, one.terminator)
            for one, ids, values in zip(encoded.continuations, scored, logprobs, strict=True)
        )
        for option in options:
            # not a number, or minus infinity
            if not all(value > -torch.inf for value in option.token_logprobs_nats):
                raise _Unusable(
                    f"the log-probability of option {option.option!r} is not a number in {self._facts.dtype}"
                )
        prompt = encoded.prompt_token_ids
        return Response(
            "ok",
            encoded.prompt_text,
            prompt_token_ids=prompt,
            n_prompt_tokens=len(prompt),
            options=options,
        )

    def _together(self, before: Ids, scored: list[Ids]) -> list[list[float]]:
        after_prompt, states = self._prefilled(before)
        found = [[value] for value in after_prompt[[ids[0] for ids in scored]].tolist()]
        # options of one token are done; others go on, each distinct beginning once
        going_on: dict[Ids, list[int]] = {}
        for option, ids in enumerate(scored):
            if len(ids) > 1:
                going_on.setdefault(ids[:-1], []).append(option)
        width = max(map(len, going_on), default=0)
        n_rows = max(1, BATCH_BYTES // (_n_bytes(states) + 3 * width * after_prompt.nbytes))
        for rows in _batched(list(going_on), n_rows):
            # what stands on the right of a row changes nothing on its left, so any token fills it up
            padded = [ids + (0,) * (width - len(ids)) for ids in rows]
            logprobs = self._logprobs(padded, width, _repeated(states, len(rows)))
            for row, beginning in zip(logprobs, rows, strict=True):
                for option in going_on[beginning]:
                    found[option] += row[range(len(beginning)), scored[option][1:]].tolist()
        return found

    def _prefilled(self, before: Ids) -> tuple[torch.Tensor, DynamicCache]:
        """Return the log-probabilities of what follows a prompt, and its states."""
        states = self._memory.begin(before)
        n_whole = (len(before) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        for first in range(states.get_seq_length(), n_whole, BLOCK_TOKENS):
            self._logprobs([before[first : first + BLOCK_TOKENS]], 1, states)
        if n_whole:
            self._memory.keep(before[:n_whole], states)
        [[after_prompt]] = self._logprobs([before[n_whole:]], 1, states)
        if states.get_seq_length() != len(before):
            raise _Unusable("the model does not keep the states of a prompt in the way of transformers")
        return after_prompt, states

    def _one_by_one(self, before: Ids, scored: list[Ids]) -> list[list[float]]:
        found = []
        for ids in scored:
            [logprobs] = self._logprobs([before + ids[:-1]], len(ids))
            found.append(logprobs[range(len(ids)), ids].tolist())
        return found

    def _logprobs(self, rows: Sequence[Ids], n_last: int, states: DynamicCache | None = None) -> torch.Tensor:
        """Return what follows the last tokens of each row: log-probabilities, rows x tokens x vocabulary."""
        wanted = {"use_cache": states is not None, "logits_to_keep": n_last}
        keeping = {} if states is None else {"past_key_values": states}
        keeping |= {name: value for name, value in wanted.items() if name in self._keywords}
        logits = self._model(input_ids=self._tensor(rows), **keeping).logits
        # a model that knows of no `logits_to_keep` gives what follows every token
        return torch.log_softmax(logits[:, -n_last:].float(), dim=-1)

    def _tensor(self, rows: Sequence[Ids]) -> torch.Tensor:
        return torch.tensor(rows, device=self._model.device)


def describe(settings: EngineSettings) -> EngineFacts:
    """Return what a run will state of the engine, without loading weights.

    Raises
    ------
    EngineFailed
        If the model's configuration or tokenizer cannot be read.
    WrongUsage
        If the settings are those of another engine.
    """
    return _read(settings).facts


def open_engine(settings: EngineSettings) -> HfEngine:
    """Load the model.

    Raises
    ------
    EngineFailed
        If the model cannot be loaded, or its weights are not whole.
    WrongUsage
        If the settings are those of another engine.
    """
    described = _read(settings)
    torch.manual_seed(settings.seed)
    # TF32 would make float32 something else
    torch.set_float32_matmul_precision("highest")
    try:
        model, loading = AutoModelForCausalLM.from_pretrained(
            settings.model,
            revision=settings.revision,
            dtype=described.dtype,
            trust_remote_code=settings.trust_remote_code,
            output_loading_info=True,
        )
        model = model.to(_device()).eval()
    except Exception as error:
        raise _cannot_load(settings, error) from error
    # transformers fills in random numbers for weights that are not there
    absent = sorted(loading["missing_keys"])
    if absent:
        raise EngineFailed(
            f"model {settings.model}: expected all weights, found none for {absent[0]} and "
            f"{len(absent) - 1} others; fetch the model again"
        )
    # temperature, repetition penalty and the like have no place in greedy decoding
    eos_ids = list(described.eos_ids)
    model.generation_config = GenerationConfig(
        eos_token_id=eos_ids or None, pad_token_id=eos_ids[0] if eos_ids else 0
    )
    return HfEngine(described, model)


def _read(settings: EngineSettings) -> _Described:
    if settings.tensor_parallel > 1 or settings.data_parallel > 1 or settings.prefix_caching:
        raise WrongUsage(
            "engine hf runs one copy of a model on one device: expected no parallel devices and no prefix "
            "caching, found one of them; choose the engine vllm"
        )
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        config = read_config(settings)
        # which attention this architecture has, how it keeps states, and where its positions end
        skeleton = read_skeleton(settings, config)
    except EngineFailed:
        raise
    except Exception as error:
        raise _cannot_load(settings, error) from error
    decoding = GenerationConfig.from_model_config(config)
    with suppress(OSError):
        decoding = GenerationConfig.from_pretrained(settings.model, revision=settings.revision)
    text_config = config.get_text_config(decoder=True)
    tokenizer = load_tokenizer(
        settings.model, settings.revision, trust_remote_code=settings.trust_remote_code
    )
    context = context_of(settings, _declared_context(text_config), n_positions(skeleton))
    if context.effective is None:
        raise EngineFailed(
            f"model {settings.model}: expected a configuration that says how long a sequence may be, found "
            "none; set max_context_tokens"
        )
    tokens = Tokens(tokenizer, context.effective)
    dtype = _dtype(settings, text_config)
    shares_states = _shares_states(skeleton, text_config) and not (
        # states of a beginning would have the rotations of a shorter sequence
        context.extended and rope_types(text_config) & _ROPES_BY_LENGTH
    )
    eos_ids = _eos_ids(decoding, tokenizer)
    facts = EngineFacts(
        name="hf",
        version=transformers.__version__,
        dtype=str(dtype).removeprefix("torch."),
        context_declared_tokens=context.declared,
        context_effective_tokens=context.effective,
        context_limit_tokens=context.limit,
        has_chat_template=tokens.has_chat_template,
        n_leading_bos=tokens.n_leading_bos,
        bos_token_id=tokens.bos_token_id,
        decisive={
            "attention": skeleton.config._attn_implementation,
            "options": f"share states, blocks of {BLOCK_TOKENS}" if shares_states else "one pass each",
            "eos_token_ids": " ".join(map(str, eos_ids)),
            "quantization": _quantization(config),
            **({"remote_code": "run"} if own_code.is_run(config, skeleton, tokenizer) else {}),
        },
        incidental={
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
            "threads": str(torch.get_num_threads()),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "ignored_generation_config": _ignored(decoding),
        },
    )
    return _Described(facts, tokens, dtype, shares_states, eos_ids)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _dtype(settings: EngineSettings, text_config: Any) -> torch.dtype:  # noqa: ANN401
    if settings.dtype != "auto":
        return getattr(torch, settings.dtype)
    # configurations older than the entry come with weights in float32
    declared = text_config.dtype or torch.float32
    return getattr(torch, declared) if isinstance(declared, str) else declared


def _declared_context(text_config: Any) -> int | None:  # noqa: ANN401
    values = (getattr(text_config, name, None) for name in _CONTEXT_NAMES)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _quantization(config: Any) -> str:  # noqa: ANN401
    return str((getattr(config, "quantization_config", None) or {}).get("quant_method", "none"))


def _eos_ids(decoding: GenerationConfig, tokenizer: Any) -> tuple[int, ...]:  # noqa: ANN401
    declared = decoding.eos_token_id
    ids = set(declared) if isinstance(declared, list) else {declared}
    return tuple(sorted((ids | {tokenizer.eos_token_id}) - {None}))


def _ignored(decoding: GenerationConfig) -> str:
    return ", ".join(
        f"{name}={value}"
        for name, value in sorted(decoding.to_diff_dict().items())
        if value is not None
        and name not in _BOOKKEEPING
        and not name.startswith(_BOOKKEEPING_AFFIXES)
        and not name.endswith("_token_id")
    )


def _shares_states(skeleton: Any, text_config: Any) -> bool:  # noqa: ANN401
    """Return whether states can be copied for many rows: those of attention can, recurrent ones cannot."""
    takes_states = "past_key_values" in inspect.signature(skeleton.forward).parameters
    if not takes_states or skeleton._is_stateful or not skeleton._supports_default_dynamic_cache():
        return False
    layers = DynamicCache(config=text_config).layers
    return {type(layer) for layer in layers} <= {DynamicLayer, DynamicSlidingWindowLayer}


def _keywords(model: Any) -> frozenset[str]:  # noqa: ANN401
    """Return which of the arguments that save work a model takes: code of a model's own may know none."""
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return frozenset(parameters) | (frozenset({"use_cache"}) if takes_any else frozenset())


def _copied(states: DynamicCache) -> DynamicCache:
    # these layers replace their tensors and never write into them, so shallow copies leave the original whole
    copied = copy.copy(states)
    copied.layers = [copy.copy(layer) for layer in states.layers]
    return copied


def _compact(states: DynamicCache) -> DynamicCache:
    # what is cut off would stay in memory as long as the beginning does
    compact = _copied(states)
    for layer in (layer for layer in compact.layers if layer.is_initialized):
        layer.keys, layer.values = (
            part if part.untyped_storage().nbytes() == part.nbytes else part.clone()
            for part in (layer.keys, layer.values)
        )
    return compact


def _repeated(states: DynamicCache, n_rows: int) -> DynamicCache:
    repeated = _copied(states)
    repeated.batch_repeat_interleave(n_rows)
    return repeated


def _batched(rows: list[Ids], size: int) -> Iterator[list[Ids]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _n_bytes(states: DynamicCache) -> int:
    filled = (layer for layer in states.layers if layer.is_initialized)
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in filled)


def _cannot_load(settings: EngineSettings, error: Exception) -> EngineFailed:
    return cannot_load(settings, f"transformers {transformers.__version__}", error)


class _Watch:
    """Looks at the output of every step of an answer: taking its highest value hides what is no number."""

    def __init__(self) -> None:
        self._has_nan: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        now = scores.isnan().any()
        # stays on the device: reading it at every step would wait for every step
        self._has_nan = now if self._has_nan is None else self._has_nan | now
        return scores

    def has_nan(self) -> bool:
        return self._has_nan is not None and bool(self._has_nan)


class _StopTexts:
    """Ends an answer as soon as its text holds a stop, wherever tokens begin and end."""

    def __init__(self, tokens: Tokens, prompt: Ids, stop: tuple[str, ...]) -> None:
        self._tokens = tokens
        self._prompt = prompt
        self._stop = stop

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        ids = input_ids[0, len(self._prompt) :].tolist()
        is_over = self.found_in(self._tokens.decode_after(self._prompt, ids)) is not None
        return input_ids.new_full((1,), is_over, dtype=torch.bool)

    def found_in(self, text: str) -> int | None:
        """Return where the first stop begins."""
        return min((text.index(stop) for stop in self._stop if stop in text), default=None)
