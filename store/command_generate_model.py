"""``coglake generate --model``: find out what a model lacks, ask it, say what came of it."""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import typer
from pydantic import ValidationError

from generate.contract import EngineFacts
from generate.engines.settings import EngineSettings, describe, open_engine
from generate.model_runs import ModelTask, TaskReport, count, do, plan, protocol_name
from generate.pending import Slice
from generate.pipeline import item_sources
from generate.rollouts import Choosing
from generate.schedule import load_schedules
from generate.weights import Weights, resolve
from store import console
from store.errors import EngineFailed, WrongUsage
from store.formats import Sheet, to_json
from store.settings import home
from store.usage import require_known

_INTERRUPTED = 130
_OF_SERVERS = {
    "base_urls": "--base-url",
    "concurrency": "--concurrency",
    "requests_per_minute": "--requests-per-minute",
    "timeout_s": "--timeout",
    "tokenizer": "--tokenizer",
}
_BATCH_SIZES = {"hf": 16, "openai": 64, "vllm": 1024}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for, beside the engine's own settings.

    Attributes
    ----------
    engine
        Fields of :class:`generate.engines.settings.EngineSettings`; None for its default.
    name
        What the model is called in the lake; None for its own name.
    shard
        Which part is done here, such as ``1/4``.
    plain_stop
        Text before which an answer ends where the model is asked in plain text, which would go on.
    """

    engine: dict[str, Any]
    name: str | None
    modes: Sequence[str]
    limit: int | None
    shard: str
    format: Literal["auto", "chat", "plain"]
    choice: Literal["argmax", "sampled", "text"]
    max_response_tokens: int
    seed: int
    repeat: int
    plain_stop: str = "\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of a command.

    Attributes
    ----------
    reports
        One per run that was looked at.
    n_tasks
        Runs that there are.
    is_stopped
        Whether the user stopped it.
    """

    reports: Sequence[TaskReport]
    n_tasks: int
    is_stopped: bool


def run(wanted: Wanted, *, dry_run: bool, as_json: bool) -> None:
    """Ask a model what the lake lacks of its answers."""
    prepared = _prepare(wanted)
    if idle := [mode for mode in wanted.modes if mode not in {task.mode_id for task in prepared.tasks}]:
        console.say(
            f"warning: {', '.join(idle)}: left out, for no question of it is in the lake and none is made "
            "here: ingest its source first (`coglake ingest --list`)"
        )
    if dry_run:
        _show_plan(prepared.tasks, prepared.model.part, as_json=as_json)
        return
    asked = _ask(prepared)
    if as_json:
        console.write(to_json({"runs": asked.reports}))
    else:
        console.show(sheet(asked.reports))
    complain(asked)


def ask(wanted: Wanted) -> Asked:
    """Ask a model what the lake lacks of its answers, and return what came of it."""
    return _ask(_prepare(wanted))


@dataclass(frozen=True, slots=True)
class Described:
    """A model and how it is asked, before it is loaded."""

    settings: EngineSettings
    weights: Weights
    facts: EngineFacts
    choosing: Choosing
    part: Slice


def described(wanted: Wanted) -> Described:
    """Find out which model is meant, and say how it is asked.

    Raises
    ------
    WrongUsage
        If the options do not go together.
    """
    part = _slice(wanted)
    settings = _settings(wanted)
    weights = _weights(settings, wanted.name)
    settings = settings.model_copy(update={"model": weights.path, "revision": _revision(settings, weights)})
    facts = describe(settings)
    choosing = _choosing(wanted, settings, has_chat_template=facts.has_chat_template)
    return Described(settings, weights, facts, choosing, part)


def say_who(model: Described) -> None:
    """Say which model is asked, and how."""
    weights, facts = model.weights, model.facts
    console.say(
        f"{weights.model_id} at {weights.revision or 'a revision that is not known'}: "
        f"{protocol_name(model.choosing)}, {facts.name} {facts.version}, {facts.dtype}, "
        f"{facts.context_effective_tokens} tokens of context"
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything that is decided before a model is loaded."""

    model: Described
    tasks: Sequence[ModelTask]


def _prepare(wanted: Wanted) -> _Prepared:
    require_known("mode", wanted.modes, item_sources(), f"there are {', '.join(item_sources())}")
    model = described(wanted)
    tasks = plan(
        home(),
        model.weights,
        model.facts,
        model.choosing,
        load_schedules(),
        wanted.modes,
        context_requested_tokens=model.settings.max_context_tokens,
        repeat=wanted.repeat,
    )
    if not tasks:
        raise WrongUsage(
            f"{', '.join(wanted.modes)}: no question of it is in the lake and none is made here: ingest its "
            "source first (`coglake ingest --list`)"
        )
    say_who(model)
    return _Prepared(model, tasks)


def _ask(prepared: _Prepared) -> Asked:
    model = prepared.model
    with console.progress("generate", has_rate=True) as step, stop_after_batch() as stops:
        reports = do(
            home(),
            model.weights,
            prepared.tasks,
            model.choosing,
            lambda: open_engine(model.settings),
            model.part,
            step,
            lambda: bool(stops),
        )
    return Asked(reports, len(prepared.tasks), bool(stops))


def _slice(wanted: Wanted) -> Slice:
    matched = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", wanted.shard)
    if matched is None or int(matched[1]) > int(matched[2]):
        raise WrongUsage(f"--shard: expected a part of a whole such as 1/4, found {wanted.shard}")
    return Slice(wanted.limit, int(matched[1]) - 1, int(matched[2]))


def _settings(wanted: Wanted) -> EngineSettings:
    given = {name: value for name, value in wanted.engine.items() if value is not None}
    try:
        settings = EngineSettings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "-".join(str(part) for part in first["loc"]).replace("_", "-")
        raise WrongUsage(f"--{name}: {first['msg']}, found {first.get('input')!r}") from error
    if settings.engine == "openai" and not settings.base_urls:
        raise WrongUsage(
            "--engine openai: expected the server's address, such as --base-url http://host:8000/v1"
        )
    of_servers = [option for name, option in _OF_SERVERS.items() if name in given]
    if settings.engine != "openai" and of_servers:
        raise WrongUsage(f"{of_servers[0]} goes with --engine openai, found --engine {settings.engine}")
    return settings


def _weights(settings: EngineSettings, name: str | None) -> Weights:
    if settings.engine == "openai":
        # which weights a server has loaded, it does not say: the user may
        return Weights(name or settings.model, settings.revision or "", settings.model, is_folder=False)
    return resolve(settings.model, settings.revision, name=name)


def _revision(settings: EngineSettings, weights: Weights) -> str | None:
    return None if weights.is_folder or settings.engine == "openai" else weights.revision


def _choosing(wanted: Wanted, settings: EngineSettings, *, has_chat_template: bool) -> Choosing:
    is_chat = has_chat_template if wanted.format == "auto" else wanted.format == "chat"
    if is_chat and not has_chat_template:
        raise WrongUsage("--format chat: this model has no chat template; ask it in --format plain")
    return Choosing(
        choice=wanted.choice,
        is_chat=is_chat,
        max_response_tokens=wanted.max_response_tokens,
        stop=() if is_chat else (wanted.plain_stop,),
        seed=wanted.seed,
        batch_size=settings.batch_size or _BATCH_SIZES[settings.engine],
    )


@contextmanager
def stop_after_batch() -> Iterator[list[int]]:
    """Take the first interrupt as a wish to stop after the batch in flight, and the second as an order."""
    stops: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if stops:
            raise KeyboardInterrupt
        stops.append(number)
        console.say("stopping after the batch in flight; interrupt again to drop it")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stops
    finally:
        signal.signal(signal.SIGINT, before)


def complain(asked: Asked) -> None:
    """Say what is missing, and end with the exit code of it.

    Raises
    ------
    EngineFailed
        If a question or decision failed.
    """
    by_status: Counter[str] = Counter()
    for report in asked.reports:
        by_status.update(report.n_by_status)
    for status, n in sorted(by_status.items()):
        console.say(f"warning: {n} new rows are {status}: they count as planned and have no score")
    if asked.is_stopped:
        n_whole = sum(report.is_whole for report in asked.reports)
        console.say(
            f"stopped: {n_whole} of {asked.n_tasks} runs are whole; the same command goes on from here"
        )
        raise typer.Exit(_INTERRUPTED)
    if by_status["error"]:
        raise EngineFailed(
            f"{by_status['error']} questions or decisions failed, so their runs are incomplete: each row has "
            "its reason (status_reason in stg_outputs and stg_steps); --repeat asks all again as another run"
        )


def sheet(reports: Sequence[TaskReport]) -> Sheet:
    """Return one row per run."""
    return Sheet(
        headers=("mode", "planned", "new rows", "not ok", "state", "seconds", "run"),
        rows=tuple(
            (
                report.mode_id,
                report.n_planned,
                report.n_new,
                sum(report.n_by_status.values()),
                ("whole" if report.is_whole else "stopped") if report.n_new else "0 new",
                f"{report.seconds:.1f}",
                report.run_id,
            )
            for report in reports
        ),
        printed=frozenset({5}),
    )


def _show_plan(tasks: Sequence[ModelTask], part: Slice, *, as_json: bool) -> None:
    counted = [(task, *count(home(), task, part)) for task in tasks]
    if as_json:
        runs = [
            {"mode_id": task.mode_id, "run_id": task.run_id, "n_planned": n, "n_pending": n_pending}
            for task, n, n_pending in counted
        ]
        console.write(to_json({"runs": runs}))
        return
    rows = tuple(
        (task.mode_id, "episodes" if task.environment is not None else "questions", n, n_pending, task.run_id)
        for task, n, n_pending in counted
    )
    console.show(Sheet(("mode", "of", "planned", "to do", "run"), rows))
