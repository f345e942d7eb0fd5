"""The episodes of one run as a model carries them on: what it is told, what it said, and what that led to.

Whatever the lake holds of the run is replayed first and never asked again. No episode depends on others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from generate.contract import Answer, Message, Request, Response
from generate.learning.dialogues.contract import AnyDialogue, Turns
from generate.learning.transcripts import Transcript
from generate.model_rows import said_columns
from generate.rollouts import Choosing
from store.errors import LakeUnusable
from store.prompts import load_template

PLAIN_TEMPLATE = "learning_transcript"

# what a turn is made of whoever replied
_REPLAYED = ("mode_id", "trial", "observation", "action", "outcome", "hidden_values", "is_last")


@dataclass(slots=True)
class Episode:
    """One episode that is carried on here.

    Attributes
    ----------
    table
        Number of its task's dialogue.
    lane
        Its place in that dialogue.
    history
        Messages and the replies to them.
    trial
        Of the last reply.
    has_failed
        Whether a reply did not come: with it the episode ended.
    """

    episode_id: str
    task_id: str
    table: int
    lane: int
    history: list[tuple[str, str]] = field(default_factory=list)
    trial: int = 0
    has_failed: bool = False


class Conversations:
    """Episodes of one run.

    Parameters
    ----------
    dialogues
        Of the tasks, each with all its instances.
    episodes
        Those of them that are carried on here.
    stored
        Rows of ``raw/steps`` that the lake holds of the run; those of other episodes are ignored.

    Raises
    ------
    LakeUnusable
        If the stored turns are not what the dialogues make of the stored replies.
    """

    def __init__(
        self, run_id: str, dialogues: Sequence[AnyDialogue], episodes: Sequence[Episode], stored: pa.Table
    ) -> None:
        self._run_id = run_id
        self._dialogues = dialogues
        self._states: list[Any] = [dialogue.start() for dialogue in dialogues]
        self._episodes = episodes
        self._plain = load_template(PLAIN_TEMPLATE)
        self._transcript = Transcript(run_id)
        self._unwritten: list[Response] = []
        self._replay(stored)

    @property
    def n_over(self) -> int:
        """How many episodes are over."""
        return len(self._episodes) - len(self.pending())

    def pending(self) -> list[Episode]:
        """Return the episodes that await a reply."""
        told = [
            dialogue.messages(state) for dialogue, state in zip(self._dialogues, self._states, strict=True)
        ]
        return [
            episode
            for episode in self._episodes
            if not episode.has_failed and told[episode.table][episode.lane] is not None
        ]

    def request(self, episode: Episode, choosing: Choosing) -> Request:
        """Return what the model is asked now: the whole dialogue so far.

        A message to which nothing was said is told together with the one behind it: some chat templates and
        servers refuse a turn without text.
        """
        turns, waiting = [], ""
        for told, reply in episode.history:
            if reply.strip():
                turns.append((waiting + told, reply))
                waiting = ""
            else:
                waiting += f"{told}\n\n"
        message = waiting + self._message(episode)
        task = Answer(choosing.max_response_tokens, choosing.stop)
        if not choosing.is_chat:
            history = "".join(
                self._plain.fill("turn", {"message": told, "reply": reply.strip()}) for told, reply in turns
            )
            return Request(self._plain.fill("prompt", {"history": history, "message": message}), task)
        chat = [one for told, reply in turns for one in (Message("user", told), Message("assistant", reply))]
        return Request((*chat, Message("user", message)), task)

    def take(self, heard: Sequence[tuple[Episode, Response]]) -> None:
        """Take responses, at most one for each episode."""
        replies: dict[str, str] = {}
        said: dict[str, Mapping[str, Any]] = {}
        for episode, response in heard:
            said[episode.episode_id] = said_columns(response)
            if response.status == "ok":
                replies[episode.episode_id] = response.text or ""
                continue
            reason = response.reason or "the engine gave no reason"
            self._transcript.fail(
                episode.task_id,
                episode.episode_id,
                len(episode.history),
                self._message(episode),
                episode.trial,
                {**said[episode.episode_id], "status": response.status, "status_reason": reason},
            )
            episode.has_failed = True
        self._step([episode for episode, _ in heard if episode.episode_id in replies], replies, said)
        self._unwritten += [response for _, response in heard]

    def take_rows(self) -> tuple[pa.Table, list[Response]]:
        """Return the rows since the last call, and the responses that they come from."""
        rows = self._transcript.take([episode.episode_id for episode in self._episodes])
        responses, self._unwritten = self._unwritten, []
        return rows, responses

    def _message(self, episode: Episode) -> str:
        message = self._dialogues[episode.table].messages(self._states[episode.table])[episode.lane]
        assert message is not None
        return message

    def _step(
        self, episodes: Sequence[Episode], replies: Mapping[str, str], said: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Give replies to the dialogues, and write the turns down."""
        for table, dialogue in enumerate(self._dialogues):
            some = [episode for episode in episodes if episode.table == table]
            if not some:
                continue
            messages = dialogue.messages(self._states[table])
            given: list[str | None] = [None] * len(messages)
            for episode in some:
                given[episode.lane] = replies[episode.episode_id]
            turns: Turns
            self._states[table], turns = dialogue.step(self._states[table], given)
            for episode in some:
                message = messages[episode.lane] or ""
                self._transcript.add(
                    episode.task_id,
                    episode.episode_id,
                    len(episode.history),
                    message,
                    turns,
                    episode.lane,
                    said[episode.episode_id],
                )
                episode.trial = int(turns.trials[episode.lane])
                episode.history.append((message, replies[episode.episode_id]))

    # --- what the lake holds ---

    def _replay(self, stored: pa.Table) -> None:
        own = {episode.episode_id: episode for episode in self._episodes}
        rows = pl.DataFrame(stored).filter(pl.col("episode_id").is_in(list(own))).sort("step_index")
        turns = rows.rows(named=True)
        by_episode: dict[str, list[dict[str, Any]]] = {episode_id: [] for episode_id in own}
        for row in turns:
            by_episode[row["episode_id"]].append(row)
        for number in range(max((len(found) for found in by_episode.values()), default=0)):
            now = {key: found[number] for key, found in by_episode.items() if number < len(found)}
            for key, row in now.items():
                self._require_next(own[key], row, number)
                if row["status"] != "ok":
                    own[key].has_failed = True
            replies = {key: row["response_text"] or "" for key, row in now.items() if not own[key].has_failed}
            self._step([own[key] for key in replies], replies, {key: {} for key in replies})
        replayed = self._transcript.take(list(own))
        self._require_same([row for row in turns if row["status"] == "ok"], replayed)

    def _require_next(self, episode: Episode, row: Mapping[str, Any], number: int) -> None:
        told = self._dialogues[episode.table].messages(self._states[episode.table])
        if row["step_index"] != number:
            raise LakeUnusable(
                f"{self._run_id}: episode {episode.episode_id}: expected step {number} next, found step "
                f"{row['step_index']} in the lake: the episode was played twice, or a part is gone; run "
                "`coglake doctor`, or ask again as a repeated run"
            )
        if episode.has_failed or told[episode.lane] is None:
            raise LakeUnusable(
                f"{self._run_id}: episode {episode.episode_id}: expected its end before step {number}, found "
                f"a reply in the lake: {_ADVICE}"
            )

    def _require_same(self, stored: Sequence[Mapping[str, Any]], replayed: pa.Table) -> None:
        found = {(row["episode_id"], row["step_index"]): row for row in stored}
        for row in replayed.to_pylist():
            kept = found[row["episode_id"], row["step_index"]]
            for name in _REPLAYED:
                if kept[name] != row[name]:
                    raise LakeUnusable(
                        f"{self._run_id}: episode {row['episode_id']}, step {row['step_index']}: expected "
                        f"{name} {str(row[name])[:80]!r} as the dialogue says, found "
                        f"{str(kept[name])[:80]!r} in the lake: {_ADVICE}"
                    )


_ADVICE = "the family, its words or its row of learning_tasks.csv was changed: take the change back"
