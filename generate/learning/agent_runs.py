"""Runs of agents in the Learning benchmark: who plays what, and doing it."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from generate.learning.blocks import read_blocks
from generate.learning.dialogues.contract import AnyDialogue
from generate.learning.families import Family
from generate.learning.instances import dialogue_of, episode_ids, templates_of
from generate.learning.item_runs import ensure_items, refuse_changed
from generate.learning.players import Player
from generate.learning.transcripts import Transcript
from generate.pipeline import OnProgress, TaskReport
from generate.questions import runs_of
from generate.schedule import Positive, Seed, made, validated
from store.errors import InvalidSource
from store.lake import commit, committed_runs
from store.learning_tasks import Category, Task
from store.prompts import load_template
from store.schemas import RUNS
from store.settings import Home, project_dir


class Agent(BaseModel):
    """One agent of the Learning benchmark.

    Attributes
    ----------
    id
        Name of the block, and ``model_id`` of the runs.
    version
        Raised whenever it would reply otherwise.
    kind
        ``uniform`` for one that knows the form alone, else ``reference``.
    player
        Module and class under ``generate.learning``, such as ``players:Oracle``.
    categories
        Those that it plays; all where none is named.
    seed
        Of its own draws.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    version: Positive
    kind: Literal["uniform", "reference"]
    description: Annotated[str, Field(strict=True, min_length=1)]
    player: Annotated[str, Field(strict=True, pattern=r"^[a-z_]+:[A-Za-z]+$")]
    categories: tuple[Category, ...] = ()
    seed: Seed

    @property
    def sha256(self) -> str:
        """Hash of what decides its replies."""
        decisive = self.model_dump(mode="json", exclude={"description", "categories"})
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def evaluation_id(self) -> str:
        """What all its runs are a part of."""
        return f"learning-{self.id}-{self.sha256[:12]}"

    def made(self) -> Player:
        """Return the player.

        Raises
        ------
        InvalidSource
            If there is no such class, or it is no player.
        """
        where = f"learning_agents.toml: {self.id}"
        player = made(where, "learning", self.player, {})
        if not isinstance(player, Player):
            raise InvalidSource(f"{where}: player: expected a player, found {self.player}")
        return player


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One agent in one family; ``is_present`` tells whether the lake has the run."""

    agent: Agent
    family: Family
    run_id: str
    is_present: bool

    @property
    def mode_id(self) -> str:
        """What is played: the family."""
        return self.family.id


def load_agents(path: Path | None = None) -> dict[str, Agent]:
    """Return the agents by id, in the order of ``manifests/learning_agents.toml``.

    Raises
    ------
    InvalidSource
        If the manifest is not valid; the sentence names the block and the key.
    """
    return dict(_load(path or project_dir() / "manifests" / "learning_agents.toml"))


@cache
def _load(path: Path) -> dict[str, Agent]:
    return {
        name: validated(f"{path.name}: {name}", Agent, block | {"id": name})
        for name, block in read_blocks(path, ("id",)).items()
    }


def plan(lake: Home, agents: Sequence[Agent], families: Mapping[str, Family]) -> list[AgentTask]:
    """Return what the agents have to do in some families.

    Raises
    ------
    InvalidSource
        If a manifest is not valid, or a family was changed under the version that the lake holds.
    """
    committed, runs = committed_runs(lake), runs_of(lake)
    tasks = []
    for family in families.values():
        refuse_changed(family, runs)
        # the words in which a family is asked decide what is replied to
        templates = [load_template(name).sha256 for name in templates_of(family)]
        for agent in agents:
            if agent.categories and family.category not in agent.categories:
                continue
            parts = "\n".join([agent.sha256, family.run_id, family.sha256, *templates])
            run_id = f"{agent.id}-{family.id}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"
            tasks.append(AgentTask(agent, family, run_id, run_id in committed))
    return tasks


def generate(lake: Home, tasks: Sequence[AgentTask], on_progress: OnProgress) -> list[TaskReport]:
    """Do what the lake lacks; each task is one run, committed as a whole, and a second time adds nothing.

    Raises
    ------
    InvalidSource
        If the lake holds other items of a family under the same version.
    LakeUnusable
        If the lake cannot be written.
    """
    reports = []
    made_of: tuple[str, list[AnyDialogue]] = ("", [])
    for done, task in enumerate(tasks, start=1):
        started_at = datetime.now(UTC)
        n_rows, is_new = 0, False
        if not task.is_present:
            family = task.family
            if made_of[0] != family.id:
                made_of = (family.id, [dialogue_of(family, row) for row in family.tasks])
                ensure_items(lake, family, made_of[1])
            steps = play(family, made_of[1], task.agent, task.run_id)
            # another process may have done the same meanwhile
            is_new = commit(lake, task.run_id, [("steps", steps)], _run(task, started_at))[-1].is_new
            n_rows = steps.num_rows if is_new else 0
        seconds = (datetime.now(UTC) - started_at).total_seconds()
        reports.append(
            TaskReport(task.agent.id, task.family.id, task.family.id, task.run_id, is_new, n_rows, seconds)
        )
        on_progress(done, len(tasks), f"{task.agent.id}: {task.family.id}")
    return reports


def play(family: Family, dialogues: Sequence[AnyDialogue], agent: Agent, run_id: str) -> pa.Table:
    """Let an agent reply in every episode of a family, and return the rows of ``raw/steps``."""
    transcript = Transcript(run_id)
    player = agent.made()
    order: list[str] = []
    for task, dialogue in zip(family.tasks, dialogues, strict=True):
        ids = episode_ids(task, family)
        order += ids
        _play(transcript, task, dialogue, ids, player, agent.seed)
    return transcript.take(order)


def _play(
    transcript: Transcript,
    task: Task,
    dialogue: AnyDialogue,
    ids: Sequence[str],
    player: Player,
    seed: int,
) -> None:
    replies_of = player.begin(task, dialogue, ids, seed)
    state = dialogue.start()
    n_steps = np.zeros(len(ids), dtype=np.int64)
    while lanes := [lane for lane, message in enumerate(dialogue.messages(state)) if message is not None]:
        messages = dialogue.messages(state)
        replies: list[str | None] = [None] * len(ids)
        for lane, reply in zip(lanes, replies_of(state, lanes), strict=True):
            replies[lane] = reply
        state, turns = dialogue.step(state, replies)
        for lane in lanes:
            transcript.add(
                task.task_id,
                ids[lane],
                int(n_steps[lane]),
                messages[lane] or "",
                turns,
                lane,
                {"response_text": replies[lane]},
            )
            n_steps[lane] += 1


def _run(task: AgentTask, started_at: datetime) -> pa.Table:
    packages = {name: version(name) for name in ("numpy", "polars", "pyarrow")}
    run: dict[str, Any] = {
        "run_id": task.run_id,
        "kind": task.agent.kind,
        "model_id": task.agent.id,
        "model_revision": task.agent.sha256,
        "agent_kind": "policy",
        "planned_modes": [row.task_id for row in task.family.tasks],
        "protocol": "replies in dialogues",
        "seed": task.agent.seed,
        "evaluation_id": task.agent.evaluation_id,
        "identity_json": json.dumps({"items": [task.family.run_id]}),
        "source_id": task.family.id,
        "importer_version": task.family.version,
        "notes": [],
        "environment_json": json.dumps({"python": platform.python_version(), **packages}, sort_keys=True),
        "started_at": started_at,
        "finished_at": datetime.now(UTC),
    }
    return pa.Table.from_pylist([run], RUNS)
