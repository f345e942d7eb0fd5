"""CogniRank's components of one model: what there is to ask, under which limits, and doing that.

An evaluation is a model at a revision on an engine, asked under the protocol and with a context. Each of its
components is a run of its own. Which data set plays a component is no part of the evaluation's identity, so a
component that was asked a stand-in may be asked the published set later.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from generate.contract import Engine, EngineFacts, Request, Response
from generate.engines.settings import Dtype, EngineName, EngineSettings
from generate.model_runs import (
    IsStopping,
    ModelTask,
    OnProgress,
    TaskReport,
    do,
    identity_of,
    run_id_of,
)
from generate.pending import Questions, Slice, pending, templates_of
from generate.questions import Brought, item_runs, runs_of
from generate.rollouts import Choosing
from generate.weights import Weights, run_slug
from store.errors import EngineFailed, StoreError, first_line
from store.manifest import load_sources
from store.protocol import (
    Component,
    Dataset,
    datasets_of,
    generation_id,
    load_components,
)
from store.settings import Home

T = TypeVar("T")

NATIVE = 0
"""As a context that is asked for: what the model itself declares, at most the protocol's."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What the user decides of an evaluation.

    Attributes
    ----------
    context_tokens
        Prompt and response together; ``NATIVE`` for the model's own.
    stand_ins
        Components that are asked their stand-in.
    limit
        Questions per component; None for all.
    repeat
        0, or a number that tells a repeated evaluation from the first.
    """

    engine: EngineName
    dtype: Dtype
    context_tokens: int
    trust_remote_code: bool
    stand_ins: frozenset[str]
    limit: int | None
    repeat: int


@dataclass(frozen=True, slots=True)
class Described:
    """A model as an engine will run it, before its weights are loaded.

    Attributes
    ----------
    is_extension
        Whether its context is longer than it declares.
    deviations
        One sentence for each respect in which the protocol is not followed.
    """

    weights: Weights
    settings: EngineSettings
    facts: EngineFacts
    asking: Asking
    evaluation_id: str
    is_extension: bool
    deviations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One component of an evaluation, all questions of which are in the lake."""

    component: Component
    dataset: Dataset
    task: ModelTask
    choosing: Choosing


# --- what there is to ask ---


def played(stand_ins: Collection[str]) -> dict[str, Dataset]:
    """Return which data set plays each component, in the order in which they are shown."""
    return {name: datasets_of(name, is_stand_in=name in stand_ins) for name in load_components()}


def questions_of(lake: Home, dataset: Dataset) -> dict[str, Brought]:
    """Return the runs that brought the questions of a data set at its pin; of an unpinned one all."""
    runs, pinned = runs_of(lake), _pinned_uris(dataset.source_id)
    if pinned:
        # another revision holds other questions under the same name
        runs = runs.filter(pc.is_in(runs["source_uri"], value_set=pa.array(pinned)))
    return item_runs(runs, dataset.dataset_id, dataset.source_id)


@cache
def _pinned_uris(source_id: str) -> tuple[str, ...]:
    source = load_sources().get(source_id)
    return () if source is None else tuple(source.uri(file) for file in source.files)


def n_questions(lake: Home, dataset: Dataset) -> int:
    """Return how many questions of a data set the lake holds."""
    brought = questions_of(lake, dataset)
    if not brought:
        return 0
    with pending(lake, Questions(dataset.dataset_id, brought), Slice(), 1) as found:
        return found.n_chosen


def n_needed(dataset: Dataset, asking: Asking) -> int:
    """Return how many questions of a data set are to be asked."""
    return min(dataset.n_examples, asking.limit or dataset.n_examples)


# --- under which limits ---


def describe_model(
    weights: Weights, asking: Asking, describe: Callable[[EngineSettings], EngineFacts]
) -> Described:
    """Return how an engine will run a model.

    The protocol's context may be more than a model declares; its own, which ``NATIVE`` asks for, never is.

    Parameters
    ----------
    describe
        As :func:`generate.engines.settings.describe`.

    Raises
    ------
    EngineFailed
        If the engine is not installed, or the model's configuration cannot be read.
    """
    is_native = asking.context_tokens == NATIVE
    settings = EngineSettings(
        engine=asking.engine,
        model=weights.path,
        revision=None if weights.is_folder else weights.revision,
        dtype=asking.dtype,
        max_context_tokens=protocol_context() if is_native else asking.context_tokens,
        may_extend_context=not is_native,
        trust_remote_code=asking.trust_remote_code,
        batch_size=max(component.batch_size for component in load_components().values()),
    )
    facts = _guarded(weights, lambda: describe(settings))
    declared, effective = facts.context_declared_tokens, facts.context_effective_tokens
    return Described(
        weights=weights,
        settings=settings,
        facts=facts,
        asking=asking,
        evaluation_id=_evaluation_id(weights, facts, asking),
        is_extension=declared is not None and effective is not None and effective > declared,
        deviations=tuple(_deviations(facts, asking)),
    )


def protocol_context() -> int:
    """Return how many tokens the protocol gives prompt and response together."""
    return max(component.context_tokens for component in load_components().values())


def _evaluation_id(weights: Weights, facts: EngineFacts, asking: Asking) -> str:
    decisive = {
        "model_id": weights.model_id,
        "model_revision": weights.revision,
        "engine": facts.name,
        "engine_version": facts.version,
        "engine_settings": dict(facts.decisive),
        "dtype": facts.dtype,
        "context_requested_tokens": asking.context_tokens,
        "context_effective_tokens": facts.context_effective_tokens,
        "trust_remote_code": asking.trust_remote_code,
        "generation_id": generation_id(),
        "repeat": asking.repeat,
    }
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:12]
    return f"{run_slug(weights.model_id)}-{digest}"


def _deviations(facts: EngineFacts, asking: Asking) -> list[str]:
    (dtype,) = {component.dtype for component in load_components().values()}
    found = []
    if facts.dtype != dtype:
        found.append(f"computed in {facts.dtype}, where the protocol has {dtype}")
    if asking.context_tokens != protocol_context():
        asked = "its own" if asking.context_tokens == NATIVE else f"{asking.context_tokens:,} tokens"
        found.append(f"asked for a context of {asked}, where the protocol has {protocol_context():,} tokens")
    return found


# --- what is asked ---


def plan_component(lake: Home, described: Described, dataset: Dataset) -> Planned | None:
    """Return the run of one component; None if the lake has no question of its data set."""
    component = load_components()[dataset.component_id]
    brought = questions_of(lake, dataset)
    templates = templates_of(lake, Questions(dataset.dataset_id, brought))
    if templates is None:
        return None
    weights, facts, asking = described.weights, described.facts, described.asking
    choosing = Choosing(
        choice="argmax",
        is_chat=component.prompt_style == "chat_or_plain" and facts.has_chat_template,
        # of a component whose questions are choices nothing is written
        max_response_tokens=component.max_response_tokens or 0,
        # the whole budget is the model's: what ends an answer is decided where it is read
        stop=(),
        seed=0,
        batch_size=component.batch_size,
    )
    identity: Mapping[str, Any] = {
        **identity_of(weights, facts, choosing, asking.context_tokens),
        "mode_id": dataset.dataset_id,
        "source_id": dataset.source_id,
        "items": sorted(brought),
        "templates": templates,
        "evaluation": {
            "evaluation_id": described.evaluation_id,
            "component_id": component.component_id,
            "dataset_id": dataset.dataset_id,
            "context_requested_tokens": asking.context_tokens,
            "context_effective_tokens": facts.context_effective_tokens,
            "is_context_extension": described.is_extension,
            "trust_remote_code": asking.trust_remote_code,
            "deviations": list(described.deviations),
            "generation_id": generation_id(),
        },
    }
    task = ModelTask(
        mode_id=dataset.dataset_id,
        source_id=dataset.source_id,
        schedule=None,
        identity=identity,
        repeat=asking.repeat,
        run_id=run_id_of(weights, dataset.dataset_id, identity, asking.repeat),
        facts=facts,
        evaluation_id=described.evaluation_id,
        is_one_batch=component.resumes_by == "component",
    )
    return Planned(component, dataset, task, choosing)


def ask_component(
    lake: Home,
    planned: Planned,
    weights: Weights,
    engine: "SharedEngine",
    limit: int | None,
    on_progress: OnProgress,
    is_stopping: IsStopping,
) -> TaskReport | None:
    """Ask what the lake lacks of a component; return None if nothing was to be begun any more.

    Raises
    ------
    EngineFailed
        If the engine cannot go on; of a component that resumes by prediction, what was answered is kept.
    LakeUnusable
        If the lake cannot be written or another process does the same.
    """
    reports = do(
        lake, weights, [planned.task], planned.choosing, engine.borrow, Slice(limit), on_progress, is_stopping
    )
    return reports[0] if reports else None


class SharedEngine:
    """An engine that is loaded by the first question and stays for all components of a model."""

    def __init__(self, described: Described, open_engine: Callable[[EngineSettings], Engine]) -> None:
        self._described = described
        self._open_engine = open_engine
        self._engine: Engine | None = None

    def borrow(self) -> Engine:
        """Return the engine for one component, whose end does not close it."""
        if self._engine is None:
            settings = self._described.settings
            self._engine = _guarded(self._described.weights, lambda: self._open_engine(settings))
        return _Borrowed(self._engine, self._described.weights)

    def close(self) -> None:
        """Free the engine if it was loaded."""
        if self._engine is not None:
            _guarded(self._described.weights, self._engine.close)
            self._engine = None


@dataclass(frozen=True, slots=True)
class _Borrowed:
    engine: Engine
    weights: Weights

    @property
    def facts(self) -> EngineFacts:
        return self.engine.facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        return _guarded(self.weights, lambda: self.engine.respond(requests))

    def close(self) -> None:
        pass


def _guarded(weights: Weights, act: Callable[[], T]) -> T:
    """Do something with a model, whatever code of others it brings: all that it raises is its failure."""
    try:
        return act()
    except StoreError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {first_line(error)}"
        raise EngineFailed(f"model {weights.model_id}: {said}") from error
