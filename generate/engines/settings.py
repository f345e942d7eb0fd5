"""How a model is loaded or reached, and which engine does it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Engine, EngineFacts
from store.errors import EngineFailed

EngineName = Literal["vllm", "hf", "openai"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Count = Annotated[int, Field(ge=1, lt=2**31)]

# what `pip install coglake[...]` brings each engine's packages
_EXTRAS: Mapping[EngineName, str] = {"vllm": "vllm", "hf": "hf", "openai": "hf"}


class EngineSettings(BaseModel):
    """One model on one engine.

    Attributes
    ----------
    engine
        ``vllm``, ``hf`` or ``openai``.
    model
        Repository on the hub, or folder; the name that a server gives it.
    revision
        Immutable revision of the repository; None for a folder or a server.
    dtype
        Of weights and arithmetic; ``auto`` takes what the model's configuration declares.
    max_context_tokens
        Prompt and response together; None takes what the model declares.
    may_extend_context
        Let ``max_context_tokens`` exceed what the model declares, up to what its architecture can do. What a
        model says beyond its declared context it was never trained to say.
    trust_remote_code
        Run the code that comes with the model's files, if any does: it may do whatever this account may do.
    batch_size
        Requests given to the engine at once; None takes the engine's own.
    seed
        Of the engine; decoding is greedy, so it decides nothing but ties of its kernels.
    tensor_parallel, data_parallel
        Devices that share one copy of the model, and copies of it.
    prefix_caching
        Reuse the states of shared beginnings when options are scored. The run checks first that it changes
        nothing, and fails if it does.
    base_urls
        Servers; requests are spread over all.
    concurrency
        Requests in flight at one server.
    requests_per_minute
        Most requests to one server; None for no limit.
    timeout_s
        Of one request to a server.
    tokenizer
        Repository or folder of the tokenizer of a server's model; None if unknown.
    ray_workers
        Copies of the engine on a Ray cluster; None runs it here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: EngineName
    model: str
    revision: str | None = None
    dtype: Dtype = "auto"
    max_context_tokens: Count | None = None
    may_extend_context: bool = False
    trust_remote_code: bool = False
    batch_size: Count | None = None
    seed: int = 0
    tensor_parallel: Count = 1
    data_parallel: Count = 1
    prefix_caching: bool = False
    base_urls: tuple[str, ...] = ()
    concurrency: Count = 16
    requests_per_minute: Count | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    tokenizer: str | None = None
    ray_workers: Count | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the model is a folder on this machine."""
        return self.engine != "openai" and Path(self.model).is_dir()


class _EngineModule(Protocol):
    @staticmethod
    def describe(settings: EngineSettings) -> EngineFacts: ...

    @staticmethod
    def open_engine(settings: EngineSettings) -> Engine: ...


def describe(settings: EngineSettings) -> EngineFacts:
    """Return what a run will state of the engine, without loading weights.

    Raises
    ------
    EngineFailed
        If the engine is not installed, or the model's configuration cannot be read.
    """
    return _module(settings).describe(settings)


def open_engine(settings: EngineSettings) -> Engine:
    """Load the model, or reach the server.

    Raises
    ------
    EngineFailed
        If the engine is not installed or cannot load the model.
    """
    return _module(settings).open_engine(settings)


def _module(settings: EngineSettings) -> _EngineModule:
    name = "ray" if settings.ray_workers is not None else settings.engine
    try:
        return cast(_EngineModule, import_module(f"generate.engines.{name}_engine"))
    except ModuleNotFoundError as error:
        extra = _EXTRAS[settings.engine]
        raise EngineFailed(
            f"engine {settings.engine}: package {error.name} is not installed: "
            f"pip install 'coglake[{extra}]', or choose another engine"
        ) from error
