"""Runs of models: what exactly is asked of whom, what the lake lacks of it, and doing that.

A run is named by everything that may change an answer, so that two runs are never merged: the model's
immutable revision, the engine and its version, the protocol, the questions and their templates, and the seed.
What is missing of a run is read from the lake each time, so a run that was stopped anywhere goes on there.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generate.contract import (
    Answer,
    AnyEnvironment,
    Choose,
    Engine,
    EngineFacts,
    Environment,
    Request,
    Response,
)
from generate.model_rows import PromptBook, answer_rows
from generate.pending import Questions, Slice, pending, templates_of
from generate.pipeline import ensure_items, item_sources, schedule_run_id
from generate.questions import item_runs, rows_of_parts, runs_of
from generate.rollouts import Choosing, as_prompt, play_with_model
from generate.schedule import Schedule
from generate.weights import Weights, run_slug
from store.errors import EngineFailed
from store.lake import batch_parts, commit_batch, committed_runs, only_writer, open_run
from store.prompts import load_template
from store.schemas import RUNS
from store.settings import Home

OnProgress = Callable[[int, int, str], None]
"""Called with what is done and planned of one task, in questions or decisions, and its name."""

IsStopping = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class ModelTask:
    """One model in one mode under one protocol.

    Attributes
    ----------
    schedule
        The environment that is played, or whose questions are asked; None for questions that were ingested.
    identity
        Everything that may change an answer.
    repeat
        0, or a number that tells a repeated run from the first.
    facts
        What the engine says of itself.
    evaluation_id
        What this run is a part of; None if it stands alone.
    is_one_batch
        Whether the answers are kept once all are there: a run that is stopped before starts anew.
    planned_modes
        Modes of its rows where they are not the one that names the run.
    """

    mode_id: str
    source_id: str
    schedule: Schedule | None
    identity: Mapping[str, Any]
    repeat: int
    run_id: str
    facts: EngineFacts
    evaluation_id: str | None = None
    is_one_batch: bool = False
    planned_modes: tuple[str, ...] = ()

    @property
    def environment(self) -> AnyEnvironment | None:
        """The environment if it is played, else None."""
        environment = None if self.schedule is None else self.schedule.environment()
        return environment if isinstance(environment, Environment) else None

    @property
    def identity_json(self) -> str:
        """The identity as canonical JSON."""
        return json.dumps(self.identity, sort_keys=True)

    @property
    def identity_sha256(self) -> str:
        """Hash of the identity, the same for repeated runs."""
        return hashlib.sha256(self.identity_json.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of one task.

    Attributes
    ----------
    n_planned
        Questions or episodes of the slice.
    n_new
        Questions that were answered, or decisions that were made, this time.
    n_by_status
        How many of these have another status than ok.
    is_whole
        Whether nothing of the slice is missing any more.
    """

    mode_id: str
    source_id: str
    run_id: str
    n_planned: int
    n_new: int
    n_by_status: Mapping[str, int]
    is_whole: bool
    seconds: float


# --- what there is to do ---


def plan(
    lake: Home,
    weights: Weights,
    facts: EngineFacts,
    choosing: Choosing,
    schedules: Mapping[str, Schedule],
    modes: Collection[str] = (),
    *,
    context_requested_tokens: int | None = None,
    repeat: int = 0,
) -> list[ModelTask]:
    """Return the runs of a model: one per mode that has questions in the lake or an environment here.

    Raises
    ------
    InvalidSource
        If a manifest is not valid, or a schedule was changed under the version that the lake holds.
    """
    by_mode = {schedule.mode: schedule for schedule in schedules.values()}
    runs = runs_of(lake)
    tasks = []
    for mode_id, source_id in item_sources().items():
        if source_id is None or (modes and mode_id not in modes):
            continue
        schedule = by_mode.get(mode_id)
        of_items = _of_source(lake, runs, mode_id, source_id) if schedule is None else _of_schedule(schedule)
        if of_items is None:
            continue
        asked = identity_of(weights, facts, choosing, context_requested_tokens)
        identity = asked | {"mode_id": mode_id, "source_id": source_id} | of_items
        run_id = run_id_of(weights, mode_id, identity, repeat)
        tasks.append(ModelTask(mode_id, source_id, schedule, identity, repeat, run_id, facts))
    return tasks


def identity_of(
    weights: Weights, facts: EngineFacts, choosing: Choosing, context_requested_tokens: int | None
) -> dict[str, Any]:
    """Return all of a model, an engine and a protocol that may change an answer."""
    identity = {
        "model_id": weights.model_id,
        "model_revision": weights.revision,
        "engine": facts.name,
        "engine_version": facts.version,
        "dtype": facts.dtype,
        "context_tokens": facts.context_effective_tokens,
        "engine_settings": dict(facts.decisive),
        "protocol": protocol_identity(choosing),
    }
    if context_requested_tokens is not None:
        identity["context_requested_tokens"] = context_requested_tokens
    return identity


def run_id_of(weights: Weights, mode_id: str, identity: Mapping[str, Any], repeat: int) -> str:
    """Return the id of the run that an identity and its repeat name."""
    digest = hashlib.sha256(json.dumps([identity, repeat], sort_keys=True).encode()).hexdigest()[:12]
    return f"{run_slug(weights.model_id)}-{mode_id}-{digest}"


def _of_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return what names the questions of a schedule and their words."""
    environment = schedule.environment()
    episodes = environment.episodes(schedule.seeds.range)
    brought = {"items": [schedule_run_id(schedule)]}
    if isinstance(environment, Environment):
        # what an adaptive task asks is known once it was played, how often it is played beforehand
        templates = [load_template(play_template_id(schedule)).sha256]
        return brought | {"templates": templates, "n_episodes": len(episodes)}
    templates = sorted({item.template_sha256 or "" for item in environment.items(episodes)})
    return brought | {"templates": templates}


def _of_source(lake: Home, runs: pa.Table, mode_id: str, source_id: str) -> dict[str, Any] | None:
    """Return what names the questions that were ingested; None if there are none that can be asked."""
    brought = item_runs(runs, mode_id, source_id)
    templates = templates_of(lake, Questions(mode_id, brought))
    return None if templates is None else {"items": sorted(brought), "templates": templates}


def _questions(lake: Home, task: ModelTask) -> Questions:
    brought = item_runs(runs_of(lake), task.mode_id, task.source_id)
    # of a schedule the version that is declared, whatever others the lake holds
    named = {run_id: brought[run_id] for run_id in task.identity["items"] if run_id in brought}
    return Questions(task.mode_id, named, task.run_id)


def protocol_name(choosing: Choosing) -> str:
    """Return how a model is asked in two words at most: part of the name of its column."""
    form = "chat" if choosing.is_chat else "plain"
    return form if choosing.choice == "argmax" else f"{form}, {choosing.choice}"


def protocol_identity(choosing: Choosing) -> dict[str, Any]:
    """Return all of a protocol that may change an answer."""
    return {
        "format": "chat" if choosing.is_chat else "plain",
        "choice": choosing.choice,
        "max_response_tokens": choosing.max_response_tokens,
        "stop": list(choosing.stop),
        "seed": choosing.seed,
    }


def play_template_id(schedule: Schedule) -> str:
    """Return the template in whose words an environment is played."""
    return f"play_{schedule.id}"


def count(lake: Home, task: ModelTask, part: Slice) -> tuple[int, int | None]:
    """Return how many questions or episodes a slice has, and how many have no answer yet or are not over.

    The latter is None for episodes of which any was begun: only a replay can tell.
    """
    if task.environment is not None:
        assert task.schedule is not None
        n_all = len(task.environment.episodes(task.schedule.seeds.range))
        n_episodes = _of_slice(n_all, part).size
        return n_episodes, None if batch_parts(lake, task.run_id, "steps") else n_episodes
    if task.schedule is not None and schedule_run_id(task.schedule) not in committed_runs(lake):
        # a plan alone lays nothing out
        environment = task.schedule.environment()
        n_items = len(environment.items(environment.episodes(task.schedule.seeds.range)))
        return (n := _of_slice(n_items, part).size), n
    with pending(lake, _questions(lake, task), part, 1) as found:
        return found.n_chosen, found.n_pending


# --- doing it ---


def do(
    lake: Home,
    weights: Weights,
    tasks: Sequence[ModelTask],
    choosing: Choosing,
    open_engine: Callable[[], Engine],
    part: Slice,
    on_progress: OnProgress,
    is_stopping: IsStopping,
) -> list[TaskReport]:
    """Ask the model what the lake lacks, task by task, and append what it says batch by batch.

    The engine is opened when the first question is to be asked, and so never for a run that is whole.

    Parameters
    ----------
    is_stopping
        Asked after each batch: when true, nothing more is asked and the reports so far are returned.

    Raises
    ------
    EngineFailed
        If the engine cannot go on; what was answered before is in the lake.
    LakeUnusable
        If the lake cannot be written or another process does the same part of a run.
    """
    reports = []
    known = PromptBook(lake)
    with closing(Opened(open_engine)) as engine:
        for task in tasks:
            if is_stopping():
                break
            started = datetime.now(UTC)
            writer = Writer(lake, weights, task, known, choosing)
            if task.schedule is not None:
                ensure_items(lake, task.schedule)
            n_planned, n_pending = count(lake, task, part)
            is_whole = n_pending == 0
            if not is_whole:
                with only_writer(lake, task.run_id + part.suffix):
                    ask = _ask if task.environment is None else _play
                    is_whole = ask(
                        lake, task, engine.of(task), choosing, part, writer, on_progress, is_stopping
                    )
            seconds = (datetime.now(UTC) - started).total_seconds()
            reports.append(
                TaskReport(
                    task.mode_id,
                    task.source_id,
                    task.run_id,
                    n_planned,
                    writer.n_rows,
                    dict(sorted(writer.n_by_status.items())),
                    is_whole,
                    seconds,
                )
            )
    return reports


class Opened:
    """An engine that is opened by the first question."""

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        self._open_engine = open_engine
        self._engine: Engine | None = None

    def of(self, task: ModelTask) -> "EngineOf":
        """Return the engine as it does one task."""
        return EngineOf(self, task.facts)

    def respond(self, requests: Sequence[Request], described: EngineFacts) -> list[Response]:
        """Pass requests on."""
        if self._engine is None:
            self._engine = self._open_engine()
        _require_same(self._engine.facts, described)
        responses = self._engine.respond(requests)
        if len(responses) != len(requests):
            raise EngineFailed(f"expected {len(requests)} responses, found {len(responses)}")
        return responses

    def close(self) -> None:
        """Close the engine if it was opened."""
        if self._engine is not None:
            self._engine.close()


@dataclass(frozen=True, slots=True)
class EngineOf:
    """The engine for one task: opened only if the task has anything to ask."""

    opened: Opened
    facts: EngineFacts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request."""
        return self.opened.respond(requests, self.facts)

    def close(self) -> None:
        """Leave the engine open for the tasks that follow."""


class Writer:
    """Makes batches durable and counts what is in them."""

    def __init__(
        self, lake: Home, weights: Weights, task: ModelTask, known: PromptBook, choosing: Choosing
    ) -> None:
        self._lake, self._task, self._known, self._choosing = lake, task, known, choosing
        self._run = _run(task, weights, choosing)
        self._environment = _environment(task, choosing)
        self._started_at = datetime.now(UTC)
        self.n_rows = 0
        self.n_by_status: dict[str, int] = {}

    def write(self, tables: Sequence[tuple[str, pa.Table]], responses: Sequence[Response], n: int) -> None:
        """Commit rows, the first table of which has one per question or decision."""
        rows = tables[0][1]
        prompts = self._known.rows(
            self._task.run_id, responses, self._task.facts, is_chat=self._choosing.is_chat
        )
        # only now: a model that cannot be loaded leaves no run behind
        open_run(self._lake, self._run)
        commit_batch(
            self._lake,
            self._task.run_id,
            [*tables, ("prompts", prompts)],
            n_requests=n,
            environment=self._environment,
            started_at=self._started_at,
        )
        self._started_at = datetime.now(UTC)
        self.n_rows += rows.num_rows
        for status, count in zip(*(column.to_pylist() for column in _counts(rows["status"])), strict=True):
            if status != "ok":
                self.n_by_status[status] = self.n_by_status.get(status, 0) + count

    def write_steps(self, steps: pa.Table, responses: Sequence[Response], n_requests: int) -> None:
        """Commit decisions."""
        self.write([("steps", steps)], responses, n_requests)


def _counts(statuses: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    counted = pc.value_counts(statuses)
    return counted.field("values"), counted.field("counts")


def _ask(
    lake: Home,
    task: ModelTask,
    engine: Engine,
    choosing: Choosing,
    part: Slice,
    writer: Writer,
    on_progress: OnProgress,
    is_stopping: IsStopping,
) -> bool:
    """Ask the questions that have no answer yet; return whether all have one now."""
    with pending(lake, _questions(lake, task), part, choosing.batch_size) as found:
        asked: list[pa.Table] = []
        heard: list[Response] = []
        n_done = 0
        for questions in found.batches:
            responses = engine.respond([_request(question, choosing) for question in questions.to_pylist()])
            asked.append(questions)
            heard += responses
            n_done += len(responses)
            if not task.is_one_batch:
                _keep(task, asked, heard, writer)
            on_progress(n_done, found.n_pending, task.mode_id)
            if n_done < found.n_pending and is_stopping():
                return False
        if asked:
            _keep(task, asked, heard, writer)
    return True


def _keep(task: ModelTask, asked: list[pa.Table], heard: list[Response], writer: Writer) -> None:
    """Commit what was answered as one batch, and forget it here."""
    rows = answer_rows(task.run_id, task.mode_id, pa.concat_tables(asked), heard)
    writer.write(rows, heard, len(heard))
    asked.clear()
    heard.clear()


def _request(question: Mapping[str, Any], choosing: Choosing) -> Request:
    """Ask a question; its own budget holds where that is smaller than the protocol's."""
    options, budget = question["legal_options"], question["max_response_tokens"]
    if options and choosing.choice != "text":
        task: Answer | Choose = Choose(tuple(options))
    else:
        task = Answer(
            min(budget or choosing.max_response_tokens, choosing.max_response_tokens), choosing.stop
        )
    return Request(as_prompt(question["prompt"], choosing.is_chat, task), task)


def _play(
    lake: Home,
    task: ModelTask,
    engine: Engine,
    choosing: Choosing,
    part: Slice,
    writer: Writer,
    on_progress: OnProgress,
    is_stopping: IsStopping,
) -> bool:
    """Play the episodes that are not over; return whether all are now."""
    assert task.schedule is not None
    assert task.environment is not None
    episodes = task.environment.episodes(task.schedule.seeds.range)
    return play_with_model(
        task.environment,
        episodes.only(_of_slice(len(episodes), part)),
        load_template(play_template_id(task.schedule)),
        engine,
        choosing,
        run_id=task.run_id,
        mode_id=task.mode_id,
        stored=rows_of_parts("steps", batch_parts(lake, task.run_id, "steps")),
        write=writer.write_steps,
        on_step=lambda done, total: on_progress(done, total, task.mode_id),
        is_stopping=is_stopping,
    )


def _of_slice(n: int, part: Slice) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(n if part.limit is None else min(n, part.limit))[part.shard :: part.n_shards]


def _require_same(found: EngineFacts, described: EngineFacts) -> None:
    """Refuse an engine that is not the one that the run was named for."""
    for name in ("name", "version", "dtype", "context_effective_tokens", "decisive"):
        if getattr(found, name) != getattr(described, name):
            raise EngineFailed(
                f"engine {found.name}: {name}: expected {getattr(described, name)} as the model's "
                f"configuration says, found {getattr(found, name)} once it was loaded"
            )


# --- rows that state what a run is ---


def _run(task: ModelTask, weights: Weights, choosing: Choosing) -> pa.Table:
    facts = task.facts
    run = {
        "run_id": task.run_id,
        "kind": "model",
        "model_id": weights.model_id,
        "model_revision": weights.revision,
        "agent_kind": "language_model",
        "planned_modes": list(task.planned_modes) or [task.mode_id],
        "protocol": protocol_name(choosing),
        "engine": facts.name,
        "engine_version": facts.version,
        "dtype": facts.dtype,
        "context_declared_tokens": facts.context_declared_tokens,
        "context_requested_tokens": task.identity.get("context_requested_tokens"),
        "context_effective_tokens": facts.context_effective_tokens,
        "seed": choosing.seed,
        "repeat": task.repeat,
        "evaluation_id": task.evaluation_id,
        "identity_sha256": task.identity_sha256,
        "identity_json": task.identity_json,
        "source_id": task.source_id,
        "importer_version": None if task.schedule is None else task.schedule.version,
        "notes": [],
    }
    return pa.Table.from_pylist([run], RUNS)


def _environment(task: ModelTask, choosing: Choosing) -> dict[str, str]:
    """Return the machine and packages behind a batch."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "coglake": version("coglake"),
        "batch_size": str(choosing.batch_size),
        **task.facts.incidental,
    }
