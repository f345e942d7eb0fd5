"""Runs of models in the Learning benchmark: what the lake lacks of them, and asking it.

A run is one family. The episodes of several runs are asked side by side, so that batches are full.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from generate.contract import Engine, EngineFacts
from generate.learning.conversations import PLAIN_TEMPLATE, Conversations, Episode
from generate.learning.families import Family
from generate.learning.instances import dialogue_of, episode_ids, templates_of
from generate.learning.item_runs import ensure_items, refuse_changed
from generate.model_rows import PromptBook
from generate.model_runs import (
    IsStopping,
    ModelTask,
    OnProgress,
    Opened,
    TaskReport,
    Writer,
    identity_of,
    run_id_of,
)
from generate.pending import Slice
from generate.questions import rows_of_parts, runs_of
from generate.rollouts import Choosing
from generate.weights import Weights, run_slug
from store.lake import batch_parts, only_writer
from store.prompts import load_template
from store.settings import Home

FLUSH_SECONDS = 20.0
"""Replies that wait longer to be made durable are handed over after the batch in flight, a part per run."""


@dataclass(frozen=True, slots=True)
class FamilyTask:
    """One model in one family under one protocol."""

    family: Family
    task: ModelTask


def plan(
    lake: Home,
    weights: Weights,
    facts: EngineFacts,
    choosing: Choosing,
    families: Iterable[Family],
    *,
    context_requested_tokens: int | None = None,
    repeat: int = 0,
) -> list[FamilyTask]:
    """Return the runs of a model: one per family.

    Raises
    ------
    InvalidSource
        If a manifest is not valid, or a family was changed under the version that the lake holds.
    """
    runs = runs_of(lake)
    asked = identity_of(weights, facts, choosing, context_requested_tokens) | {"benchmark": "learning"}
    evaluation_id = _evaluation_id(weights, asked, repeat)
    tasks = []
    for family in families:
        refuse_changed(family, runs)
        names = (*templates_of(family), *(() if choosing.is_chat else (PLAIN_TEMPLATE,)))
        identity = asked | {
            "family_id": family.id,
            "family_sha256": family.sha256,
            "items": [family.run_id],
            "templates": [load_template(name).sha256 for name in names],
        }
        task = ModelTask(
            family.id,
            family.id,
            None,
            identity,
            repeat,
            run_id_of(weights, family.id, identity, repeat),
            facts,
            evaluation_id,
            planned_modes=tuple(row.task_id for row in family.tasks),
        )
        tasks.append(FamilyTask(family, task))
    return tasks


def _evaluation_id(weights: Weights, asked: Mapping[str, Any], repeat: int) -> str:
    digest = hashlib.sha256(json.dumps([asked, repeat], sort_keys=True).encode()).hexdigest()[:12]
    return f"learning-{run_slug(weights.model_id)}-{digest}"


def count(lake: Home, task: FamilyTask, part: Slice) -> tuple[int, int]:
    """Return how many episodes a slice has, and how many of them are not over."""
    chosen = {episode.episode_id for episode in _episodes(task.family, part)}
    parts = batch_parts(lake, task.task.run_id, "steps")
    steps = rows_of_parts("steps", parts, ["episode_id", "is_last"])
    over = set(steps.filter(pc.field("is_last"))["episode_id"].to_pylist())
    return len(chosen), len(chosen - over)


def _episodes(family: Family, part: Slice) -> list[Episode]:
    """Return the episodes of a slice: of each task the first, as far as the limit goes."""
    limit = family.seeds.count if part.limit is None else part.limit
    episodes = [
        Episode(episode_id, task.task_id, table, lane)
        for table, task in enumerate(family.tasks)
        for lane, episode_id in enumerate(episode_ids(task, family)[:limit])
    ]
    return episodes[part.shard :: part.n_shards]


def do(
    lake: Home,
    weights: Weights,
    tasks: Sequence[FamilyTask],
    choosing: Choosing,
    open_engine: Callable[[], Engine],
    part: Slice,
    on_progress: OnProgress,
    is_stopping: IsStopping,
) -> list[TaskReport]:
    """Ask the model what the lake lacks, and append what it says.

    The engine is opened when the first message is to be told, and so never for runs that are whole.

    Parameters
    ----------
    is_stopping
        Asked after each batch: when true, nothing more is asked and the reports so far are returned.

    Raises
    ------
    EngineFailed
        If the engine cannot go on; what was said before is in the lake.
    LakeUnusable
        If the lake cannot be written or another process does the same part of a run.
    """
    known = PromptBook(lake)
    reports: dict[str, TaskReport] = {}
    waiting = list(tasks)
    n_all = sum(len(_episodes(task.family, part)) for task in tasks)
    n_closed = 0
    talks: list[_Talk] = []
    flushed_at = time.monotonic()
    with closing(Opened(open_engine)) as engine:
        try:
            while (waiting or talks) and not is_stopping():
                while waiting and sum(len(talk.pending) for talk in talks) < choosing.batch_size:
                    planned = waiting.pop(0)
                    n_episodes, n_pending = count(lake, planned, part)
                    if n_pending:
                        talks.append(_Talk.begun(lake, weights, planned, choosing, known, part))
                    else:
                        n_closed += n_episodes
                        reports[planned.task.run_id] = _whole(planned.task, n_episodes)
                _ask(talks, choosing, engine)
                for talk in [talk for talk in talks if not talk.pending]:
                    n_closed += talk.n_episodes
                    reports[talk.run_id] = talk.end()
                    talks.remove(talk)
                if time.monotonic() - flushed_at >= FLUSH_SECONDS:
                    for talk in talks:
                        talk.flush()
                    flushed_at = time.monotonic()
                n_over = n_closed + sum(talk.conversations.n_over for talk in talks)
                on_progress(n_over, n_all, "learning")
        finally:
            # each on its own: one that cannot be written keeps no other from being written
            with ExitStack() as ends:
                for talk in reversed(talks):
                    ends.callback(_end, talk, reports)
    return [reports[task.task.run_id] for task in tasks if task.task.run_id in reports]


def _end(talk: "_Talk", reports: dict[str, TaskReport]) -> None:
    reports[talk.run_id] = talk.end()


def _whole(task: ModelTask, n_episodes: int) -> TaskReport:
    """Report a run of which nothing is missing."""
    return TaskReport(task.mode_id, task.source_id, task.run_id, n_episodes, 0, {}, True, 0.0)


def _ask(talks: Sequence["_Talk"], choosing: Choosing, engine: Opened) -> None:
    """Ask one batch: of all episodes those that have heard least, so that none is left to the end alone."""
    pending = [(talk, episode) for talk in talks for episode in talk.pending]
    batch = sorted(pending, key=lambda pair: len(pair[1].history))[: choosing.batch_size]
    if not batch:
        return
    requests = [talk.conversations.request(episode, choosing) for talk, episode in batch]
    responses = engine.respond(requests, batch[0][0].task.facts)
    for talk in talks:
        heard = [
            (episode, response)
            for (other, episode), response in zip(batch, responses, strict=True)
            if other is talk
        ]
        talk.conversations.take(heard)


class _Talk:
    """One run while it is asked; no other process may ask it meanwhile."""

    def __init__(
        self, task: ModelTask, conversations: Conversations, n_episodes: int, writer: Writer, lock: ExitStack
    ) -> None:
        self.task, self.run_id = task, task.run_id
        self.conversations, self.n_episodes = conversations, n_episodes
        self._writer, self._lock = writer, lock
        self._started_at = datetime.now(UTC)

    @classmethod
    def begun(
        cls,
        lake: Home,
        weights: Weights,
        planned: FamilyTask,
        choosing: Choosing,
        known: PromptBook,
        part: Slice,
    ) -> "_Talk":
        """Lay out the items, and replay what the lake holds."""
        family, task = planned.family, planned.task
        episodes = _episodes(family, part)
        with ExitStack() as stack:
            stack.enter_context(only_writer(lake, task.run_id + part.suffix))
            dialogues = [dialogue_of(family, row) for row in family.tasks]
            ensure_items(lake, family, dialogues)
            stored = rows_of_parts("steps", batch_parts(lake, task.run_id, "steps"))
            conversations = Conversations(task.run_id, dialogues, episodes, stored)
            writer = Writer(lake, weights, task, known, choosing)
            return cls(task, conversations, len(episodes), writer, stack.pop_all())

    @property
    def pending(self) -> list[Episode]:
        """Episodes that await a reply."""
        return self.conversations.pending()

    def flush(self) -> None:
        """Make durable what was said."""
        rows, responses = self.conversations.take_rows()
        if rows.num_rows:
            self._writer.write_steps(rows, responses, len(responses))

    def end(self) -> TaskReport:
        """Make durable what was said, let others ask, and report."""
        with self._lock:
            self.flush()
        return TaskReport(
            self.task.mode_id,
            self.task.source_id,
            self.run_id,
            self.n_episodes,
            self._writer.n_rows,
            dict(sorted(self._writer.n_by_status.items())),
            not self.pending,
            (datetime.now(UTC) - self._started_at).total_seconds(),
        )
