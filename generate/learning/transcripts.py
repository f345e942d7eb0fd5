"""Turns of dialogues as rows of ``raw/steps``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from generate.learning.dialogues.contract import Turns
from store.schemas import STEPS


class Transcript:
    """Rows of one run, in the order in which they come."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        task_id: str,
        episode_id: str,
        step_index: int,
        message: str,
        turns: Turns,
        lane: int,
        said: Mapping[str, Any],
    ) -> None:
        """Add a reply and what it led to.

        Parameters
        ----------
        said
            Columns of the reply itself: ``response_text`` and what an engine states of it.
        """
        progress = float(turns.progress[lane])
        self._rows.append(
            self._common(task_id, episode_id, step_index, message)
            | {
                "trial": int(turns.trials[lane]),
                "action": turns.actions[lane],
                "outcome": turns.outcomes[lane],
                "hidden_values": None if np.isnan(progress) else [progress],
                "is_last": bool(turns.is_last[lane]),
                "status": "ok",
                **said,
            }
        )

    def fail(
        self,
        task_id: str,
        episode_id: str,
        step_index: int,
        message: str,
        trial: int,
        said: Mapping[str, Any],
    ) -> None:
        """Add a reply that did not come, with which the episode ends; ``said`` has its status and reason."""
        row = self._common(task_id, episode_id, step_index, message)
        self._rows.append(row | {"trial": trial, "is_last": True, **said})

    def take(self, episode_ids: Sequence[str]) -> pa.Table:
        """Return the rows since the last call: by episode in this order, each from its first row on."""
        place = {episode_id: number for number, episode_id in enumerate(episode_ids)}
        rows = sorted(self._rows, key=lambda row: (place[row["episode_id"]], row["step_index"]))
        self._rows = []
        return pa.Table.from_pylist(rows, STEPS)

    def _common(self, task_id: str, episode_id: str, step_index: int, message: str) -> dict[str, Any]:
        return {
            "run_id": self._run_id,
            "mode_id": task_id,
            "episode_id": episode_id,
            "step_index": step_index,
            "stage": 0,
            "observation": message,
            "is_forced": False,
            "is_rewarded": False,
        }
