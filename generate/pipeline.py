"""Generate: let agents play the environments and answer the questions, and append what they did."""

import csv
import hashlib
import json
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from generate.agents.recorded import is_recorded, recorded_sha256
from generate.answers import Author, RawTables, answered, fits, predicted
from generate.contract import (
    Answerer,
    AnyEnvironment,
    Environment,
    Family,
    FittedToPeople,
    PredictsPeople,
)
from generate.episodes import play
from generate.questions import item_runs, questions, runs_of, trials
from generate.schedule import AgentSettings, Schedule
from store.errors import EngineFailed, InvalidSource, LakeUnusable
from store.lake import commit, committed_runs
from store.schemas import ITEMS, RUNS
from store.settings import Home, project_dir

OnProgress = Callable[[int, int, str], None]
"""Called after each task with tasks done, tasks in all and the task's name."""


@dataclass(frozen=True, slots=True)
class Task:
    """One agent in one mode.

    Attributes
    ----------
    source_id
        Environment, or source of the questions.
    schedule
        None for questions that were ingested.
    run_id
        Names agent, settings and items: the same work has the same id.
    is_present
        Whether the lake has it.
    displaced_by
        A later run of the agent in the same mode and source, under other settings: the newest one counts.
    """

    agent: AgentSettings
    mode_id: str
    source_id: str
    schedule: Schedule | None
    run_id: str
    is_present: bool
    displaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of one task; ``n_rows`` counts the decisions or answers that were added."""

    agent_id: str
    mode_id: str
    source_id: str
    run_id: str
    is_new: bool
    n_rows: int
    seconds: float


def plan(
    lake: Home,
    agents: Iterable[AgentSettings],
    schedules: Mapping[str, Schedule],
    modes: Collection[str] = (),
) -> list[Task]:
    """Return what the agents have to do: in the modes named, or in all that they can play or answer.

    Raises
    ------
    InvalidSource
        If a manifest is not valid, or a schedule was changed under the version that the lake holds.
    """
    committed = committed_runs(lake)
    runs = runs_of(lake)
    chosen = {name: schedule for name, schedule in schedules.items() if not modes or schedule.mode in modes}
    for schedule in chosen.values():
        _require_owner(schedule)
        _refuse_changed(schedule, runs)
    return [
        Task(
            agent,
            mode_id,
            source_id,
            schedule,
            run_id,
            run_id in committed,
            _displaced_by(run_id, agent, mode_id, source_id, runs),
        )
        for agent in agents
        for mode_id, source_id, schedule, identity in _work(agent, schedules, runs)
        if not modes or mode_id in modes
        # modes that share a source are runs of their own
        for digest in [_digest(agent.sha256, recorded_sha256(agent.id), source_id, identity)]
        for run_id in [f"{agent.id}-{mode_id}-{digest}"]
    ]


def generate(lake: Home, tasks: Iterable[Task], on_progress: OnProgress | None = None) -> list[TaskReport]:
    """Do what the lake lacks of ``tasks``; each is one run, and a second time adds nothing.

    A run is committed as a whole: one that was interrupted is done again, to the same rows.

    Raises
    ------
    EngineFailed
        If an agent does not act.
    LakeUnusable
        If the lake cannot be written.
    """
    tasks = list(tasks)
    reports = []
    for done, task in enumerate(tasks, start=1):
        reports.append(_do(lake, task))
        if on_progress is not None:
            on_progress(done, len(tasks), f"{task.agent.id}: {task.source_id}")
    return reports


def is_ready(agent: AgentSettings) -> bool:
    """Tell whether an agent can act: one that is fitted to people needs its parameters on record."""
    return not isinstance(agent.made(), FittedToPeople) or is_recorded(agent.id)


def schedule_run_id(schedule: Schedule) -> str:
    """Return the id of the run that holds a schedule's items."""
    return f"schedule-{schedule.id}-v{schedule.version}"


def ensure_items(lake: Home, schedule: Schedule) -> None:
    """Write the items of a schedule, once.

    Raises
    ------
    InvalidSource
        If the lake holds this version of the schedule with another content.
    """
    _refuse_changed(schedule, runs_of(lake))
    run_id = schedule_run_id(schedule)
    if run_id in committed_runs(lake):
        return
    environment = schedule.environment()
    items = [
        {
            "item_id": f"{schedule.id}@{schedule.version}/{item.item_id}",
            "mode_id": schedule.mode,
            "source_id": schedule.id,
            "participant_id": item.participant_id,
            "prompt": item.prompt,
            "template_id": item.template_id,
            "template_sha256": item.template_sha256,
            "legal_options": item.legal_options,
            "credited_options": item.credited_options,
            "support_low": item.support_low,
            "support_high": item.support_high,
            "target": item.target,
            "facts_json": json.dumps(item.facts, sort_keys=True) if item.facts else None,
            "weight": item.weight,
        }
        for item in environment.items(environment.episodes(schedule.seeds.range))
    ]
    run = {
        "run_id": run_id,
        "kind": "schedule",
        "model_id": schedule.id,
        "agent_kind": "none",
        "planned_modes": [schedule.mode],
        "source_id": schedule.id,
        "source_sha256": schedule.sha256,
        "importer_version": schedule.version,
        "notes": [],
    }
    commit(lake, run_id, [("items", pa.Table.from_pylist(items, ITEMS))], pa.Table.from_pylist([run], RUNS))


# --- what there is to do ---


def _work(
    agent: AgentSettings, schedules: Mapping[str, Schedule], runs: pa.Table
) -> Iterator[tuple[str, str, Schedule | None, str]]:
    """Yield mode, source, schedule and the identity of the items of all that an agent can do."""
    family = agent.made()
    if agent.schedule is not None and agent.schedule not in schedules:
        raise InvalidSource(
            f"agents.toml: {agent.id}: schedule: found {agent.schedule}, expected one of "
            f"{', '.join(schedules)}"
        )
    if unknown := sorted(set(agent.predicts) - set(item_sources())):
        raise InvalidSource(f"agents.toml: {agent.id}: predicts: expected modes, found {', '.join(unknown)}")
    # who predicts people acts in no environment, whatever its class has in common with those who do
    for schedule in () if agent.predicts else schedules.values():
        is_played = isinstance(schedule.environment(), Environment)
        if agent.schedule in (None, schedule.id) and isinstance(family, Family if is_played else Answerer):
            yield schedule.mode, schedule.id, schedule, schedule.sha256
    if agent.schedule is not None or not isinstance(family, Answerer | PredictsPeople):
        return
    for mode_id, source_id in item_sources().items():
        if source_id is None or source_id in schedules or (agent.predicts and mode_id not in agent.predicts):
            continue
        if brought := item_runs(runs, mode_id, source_id):
            yield mode_id, source_id, None, _digest(*sorted(brought))


def item_sources() -> dict[str, str | None]:
    """Return which source or environment holds the items of each mode; None where it is not known."""
    return {row["mode_id"]: row["item_source_id"] or None for row in _modes()}


def published_modes(*, is_played: bool) -> list[str]:
    """Return the modes of Table 3, without variants: those that are played, or the others."""
    return [
        row["mode_id"]
        for row in _modes()
        if not row["variant_of"] and (row["is_played"] == "true") is is_played
    ]


@cache
def _modes() -> list[dict[str, str]]:
    path = project_dir() / "manifests" / "s1cogbench_modes.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _displaced_by(
    run_id: str, agent: AgentSettings, mode_id: str, source_id: str, runs: pa.Table
) -> str | None:
    of_agent = (pc.field("model_id") == agent.id) & (pc.field("source_id") == source_id)
    same = [run for run in runs.filter(of_agent).to_pylist() if mode_id in run["planned_modes"]]
    newest = max(same, key=lambda run: run["started_at"], default=None)
    if newest is None or newest["run_id"] == run_id or run_id not in {run["run_id"] for run in same}:
        return None
    return str(newest["run_id"])


def _require_owner(schedule: Schedule) -> None:
    if schedule.mode not in item_sources():
        raise InvalidSource(f"environments.toml: {schedule.id}: mode: expected a mode, found {schedule.mode}")
    if item_sources()[schedule.mode] != schedule.id:
        raise InvalidSource(
            f"environments.toml: {schedule.id}: mode: the items of {schedule.mode} come from "
            f"{item_sources()[schedule.mode]}, as item_source_id in s1cogbench_modes.csv says"
        )


def _refuse_changed(schedule: Schedule, runs: pa.Table) -> None:
    same = runs.filter(pc.field("run_id") == schedule_run_id(schedule))
    if same.num_rows and same["source_sha256"][0].as_py() != schedule.sha256:
        raise InvalidSource(
            f"environments.toml: {schedule.id}: the lake holds version {schedule.version} with another "
            f"content (expected sha256 {same['source_sha256'][0].as_py()[:12]}, found "
            f"{schedule.sha256[:12]}): raise the version, or take the change back"
        )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


# --- doing it ---


def _do(lake: Home, task: Task) -> TaskReport:
    started_at = datetime.now(UTC)
    n_rows, is_new = 0, False
    if task.schedule is not None:
        ensure_items(lake, task.schedule)
    if not task.is_present:
        tables = _done(lake, task)
        # another process may have done the same meanwhile
        is_new = commit(lake, task.run_id, tables, _run(task, started_at))[-1].is_new
        n_rows = tables[0][1].num_rows if is_new else 0
    seconds = (datetime.now(UTC) - started_at).total_seconds()
    return TaskReport(task.agent.id, task.mode_id, task.source_id, task.run_id, is_new, n_rows, seconds)


def _done(lake: Home, task: Task) -> RawTables:
    """Return what the agent did, as raw tables; whatever else it raises is said to be its failure."""
    environment = None if task.schedule is None else task.schedule.environment()
    try:
        if isinstance(environment, Environment):
            return _played(task, environment)
        return _said(lake, task)
    except (LakeUnusable, InvalidSource):
        raise
    except EngineFailed as error:
        raise EngineFailed(f"{task.agent.id} in {task.source_id}: {error}") from error
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise EngineFailed(f"{task.agent.id} in {task.source_id}: {said}") from error


def _played(task: Task, environment: AnyEnvironment) -> RawTables:
    schedule, agent = task.schedule, task.agent
    assert schedule is not None
    training = () if schedule.training_seeds is None else schedule.training_seeds.range
    fitted = agent.made().fit(environment, training)
    episodes = environment.episodes(schedule.seeds.range)
    steps = play(environment, episodes, fitted, agent.seed, run_id=task.run_id, mode_id=task.mode_id)
    tables = [("steps", steps)]
    if fitted.fits:
        tables.append(("fits", fits(_author(task), fitted.fits, fitted.training_set)))
    return tables


def _said(lake: Home, task: Task) -> RawTables:
    agent = task.agent.made()
    brought = item_runs(runs_of(lake), task.mode_id, task.source_id)
    if isinstance(agent, PredictsPeople):
        return predicted(_author(task), agent, *trials(lake, brought, task.mode_id))
    assert isinstance(agent, Answerer)
    if task.schedule is not None:
        # of a schedule the version that is played, whatever others the lake holds
        run_id = schedule_run_id(task.schedule)
        brought = {run_id: brought[run_id]}
    return answered(_author(task), agent, questions(lake, brought, task.mode_id))


def _author(task: Task) -> Author:
    agent = task.agent
    family = agent.family.partition(":")[0]
    return Author(task.run_id, task.mode_id, task.source_id, family, agent.seed, agent.provenance)


def _run(task: Task, started_at: datetime) -> pa.Table:
    packages: dict[str, Any] = {name: version(name) for name in ("numpy", "scipy", "polars", "pyarrow")}
    run = {
        "run_id": task.run_id,
        "kind": task.agent.kind,
        "model_id": task.agent.id,
        "model_revision": task.agent.sha256,
        "agent_kind": "policy",
        "planned_modes": [task.mode_id],
        "protocol": _protocol(task),
        "seed": task.agent.seed,
        "source_id": task.source_id,
        "importer_version": None if task.schedule is None else task.schedule.version,
        "notes": [],
        "environment_json": json.dumps({"python": platform.python_version(), **packages}, sort_keys=True),
        "started_at": started_at,
        "finished_at": datetime.now(UTC),
    }
    return pa.Table.from_pylist([run], RUNS)


def _protocol(task: Task) -> str:
    if task.agent.predicts:
        return "predicts people"
    return "plays episodes" if task.schedule is not None else "answers items"
