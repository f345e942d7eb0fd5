"""What a model's files beside its weights say: whose code reads them, and how long a sequence may be.

Shared by the engines that load models here, so that both read the same of the same files.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.auto_factory import add_generation_mixin_to_remote_model

from generate.engines.own_code import is_refused, needs_code, require_own
from generate.engines.settings import EngineSettings
from store.errors import EngineFailed, first_line

_MODEL_CLASS = "AutoModelForCausalLM"

# parts of the names of tables with one row per position: `wpe`, `embed_positions`, `pos_encoding`, ...
_POSITIONS = re.compile(r"(?:^|[._])(?:pos|position|positions|positional|wpe)(?:[._]|$)")
# the same words where no row stands for a place in the text: distances, rotations, patches of an image
_NOT_OF_PLACES = re.compile(
    r"(?:^|[._])(?:rel|relative|rotary|rope|bias|ids|vision|image|img|audio)(?:[._]|$)"
)


@dataclass(frozen=True, slots=True)
class Context:
    """How long a sequence may be: prompt and response together, in tokens.

    Attributes
    ----------
    declared
        What the configuration declares; None if it does not.
    limit
        What no setting can exceed, because the model has a table of that many positions; None if it has none.
    effective
        What is accepted; None if nobody says.
    """

    declared: int | None
    limit: int | None
    effective: int | None

    @property
    def extended(self) -> int | None:
        """What is accepted if that is more than the configuration declares, else None."""
        if self.declared is None or self.effective is None or self.effective <= self.declared:
            return None
        return self.effective


def read_config(settings: EngineSettings) -> Any:  # noqa: ANN401
    """Return the model's configuration.

    Raises
    ------
    EngineFailed
        If code that reads it is taken from another repository.
    Exception
        Whatever transformers raises of files that it cannot read.
    """
    if settings.trust_remote_code:
        written, _ = PreTrainedConfig.get_config_dict(settings.model, revision=settings.revision)
        require_own(settings.model, written.get("auto_map"))
    return AutoConfig.from_pretrained(
        settings.model, revision=settings.revision, trust_remote_code=settings.trust_remote_code
    )


def read_skeleton(settings: EngineSettings, config: Any) -> Any:  # noqa: ANN401
    """Return the model without weights, in which every module and every shape is the model's own.

    Raises
    ------
    Exception
        Whatever transformers, or the code of the model, raises.
    """
    reference = (getattr(config, "auto_map", None) or {}).get(_MODEL_CLASS)
    with torch.device("meta"):
        if reference is None or not settings.trust_remote_code:
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        # `from_config` would take the code of the repository's main branch
        found = get_class_from_dynamic_module(reference, settings.model, code_revision=settings.revision)
        return add_generation_mixin_to_remote_model(found)._from_config(config)


def cannot_load(settings: EngineSettings, library: str, error: Exception) -> EngineFailed:
    """Return what a user is told of a model that a library, named with its version, cannot load."""
    if not settings.trust_remote_code and is_refused(error):
        return needs_code(settings.model)
    return EngineFailed(f"model {settings.model} cannot be loaded with {library}: {first_line(error)}")


def context_of(settings: EngineSettings, declared: int | None, limit: int | None) -> Context:
    """Return the context that is accepted, of what is declared, what is possible and what is asked for."""
    wanted = settings.max_context_tokens
    if wanted is None or not settings.may_extend_context:
        wanted = min(filter(None, (declared, wanted)), default=None)
    return Context(declared, limit, min(filter(None, (wanted, limit)), default=None))


def rope_types(text_config: Any) -> set[str]:  # noqa: ANN401
    """Return in which ways positions are turned into rotations; none for a model without them."""
    # one set of parameters, or one per kind of layer
    found = getattr(text_config, "rope_parameters", None) or {}
    parts = [found] if "rope_type" in found else list(found.values())
    return {part.get("rope_type", "default") for part in parts if isinstance(part, Mapping)}


def n_positions(skeleton: Any) -> int | None:  # noqa: ANN401
    """Return how many positions the smallest table of positions has; None if there is no such table.

    Learned or computed once, such a table has no row for what stands further behind. Rotations, distances and
    recurrent states have none. A few architectures lengthen their table as they go: theirs counts as well.
    Where code ends for another reason, a request that is too long for it fails on its own.
    """
    return min(_lengths_of_tables(skeleton), default=None)


def _lengths_of_tables(skeleton: Any) -> Iterator[int]:  # noqa: ANN401
    for name, tensor in (*skeleton.named_parameters(), *skeleton.named_buffers()):
        module = skeleton.get_submodule(name.rpartition(".")[0])
        if (
            tensor.is_floating_point()
            and tensor.ndim > 1
            and _POSITIONS.search(name)
            and not _NOT_OF_PLACES.search(name)
            and not isinstance(module, torch.nn.Linear)
        ):
            yield tensor.shape[-2] - _first_position(module)


def _first_position(module: Any) -> int:  # noqa: ANN401
    """Return how many rows stand before that of the first position: some are kept for padding."""
    offset, padding = getattr(module, "offset", None), getattr(module, "padding_idx", None)
    return max(offset if isinstance(offset, int) else 0, 0 if padding is None else padding + 1)
