"""Agents of the Learning benchmark: what can be scored at most and at least, and what a system makes of it.

A player is no model of learning. It marks the scale: :class:`Oracle` its end, :class:`Random` and
:class:`Silent` its beginning, :class:`Expert` what skill without practice gives, and :class:`Prober` what
orderly elimination gives without any hidden knowledge.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict

from generate.contract import Bools
from generate.learning.dialogues.actions import take
from generate.learning.dialogues.contract import AnyDialogue
from generate.learning.dialogues.exploration import Exploration
from generate.learning.dialogues.practice_rounds import PracticeRounds
from generate.learning.dice import Dice
from store.errors import InvalidSource
from store.learning_tasks import Task

Replies = Callable[[Any, Sequence[int]], list[str]]
"""Given the state of a dialogue and some of its lanes, returns the reply in each of them."""


@runtime_checkable
class Player(Protocol):
    """An agent; an object of it holds its settings."""

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return what replies in the episodes of one task, from their first message on.

        Parameters
        ----------
        episode_ids
            One per lane.
        seed
            Of the agent's own draws.
        """
        ...


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expert(_Settings):
    """Knows everything that is hidden, and shows it at once."""

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return right answers and shortest ways."""
        return dialogue.knowing


class Oracle(_Settings):
    """Knows everything that is hidden, and earns the most that the formula gives for it.

    Procedural learning pays for getting better, so the oracle holds back in the first rounds: before it takes
    the shortest way it spends actions that cannot be read, or it spends all of them.
    """

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return right answers and shortest ways, late where that pays."""
        if not isinstance(dialogue, PracticeRounds):
            return dialogue.knowing
        solved_at = most_paying_steps(task)

        def replies(state: Any, lanes: Sequence[int]) -> list[str]:  # noqa: ANN401
            known = dialogue.knowing(state, lanes)
            return [
                "" if _waits(dialogue, state, lane, solved_at) else reply
                for lane, reply in zip(lanes, known, strict=True)
            ]

        return replies


def _waits(
    dialogue: PracticeRounds,
    state: Any,  # noqa: ANN401
    lane: int,
    solved_at: Sequence[int | None],
) -> bool:
    number, n_replies = dialogue.place(state, lane)
    if number == len(solved_at):
        return False
    step = solved_at[number]
    return step is None or n_replies < step - dialogue.n_best_of(number, lane)


def most_paying_steps(task: Task) -> list[int | None]:
    """Return at which action of each practice round a player should solve it to score most; None: not at all.

    Every round of the second half is best solved at once, since no weight of it is negative; those before are
    tried out. Formula: see ``int_learning__procedural``.
    """
    n_rounds, budget = task.of_play("practice_rounds"), task.of_play("budget_steps")
    free, floor = min(task.of_play("min_explore_steps"), budget), task.efficiency_floor or 0.0
    steps: list[int | None] = [free, *range(free + 1, budget + 1), None]
    paid = max(budget - free, 1)
    efficiency = {
        step: 0.0 if step is None else max(floor, 1 - (1 - floor) * (step - free) / paid) for step in steps
    }
    late = [free] * (n_rounds - n_rounds // 2)
    plans = [[*early, *late] for early in product(steps, repeat=n_rounds // 2)]
    scores = [_practice_score(task, [efficiency[step] for step in plan]) for plan in plans]
    return plans[int(np.argmax(scores))]


def _practice_score(task: Task, efficiencies: Sequence[float]) -> float:
    n = len(efficiencies)
    values, x = np.array(efficiencies), np.arange(n)
    n_last = max(1, int(n * (task.asymptote_share or 0.0)))
    slope = 0.0 if n == 1 else float(np.polyfit(x, values, 1)[0]) * (n - 1)
    parts = {
        "asymptote": values[n - n_last :].mean(),
        "trajectory": (np.clip(slope, -1, 1) + 1) / 2,
        "consistency": np.average(values, weights=x + 1),
    }
    return sum(float(getattr(task, f"weight_{name}") or 0.0) * float(value) for name, value in parts.items())


class Random(_Settings):
    """Knows the form of an answer or action, and nothing else."""

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return guesses, those of each episode from dice of its own."""
        dice = [Dice("random", seed, episode_id) for episode_id in episode_ids]
        return lambda state, lanes: dialogue.guessing(state, lanes, [dice[lane] for lane in lanes])


class Silent(_Settings):
    """Never says a word."""

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return empty replies."""
        return lambda state, lanes: [""] * len(lanes)


class Prober(_Settings):
    """Keeps every hidden world in mind that fits what it was told, and acts as would be best in the first.

    It plays games alone, since only there is anything to be tried out.
    """

    def begin(self, task: Task, dialogue: AnyDialogue, episode_ids: Sequence[str], seed: int) -> Replies:
        """Return the best action of the first world that is still possible.

        Raises
        ------
        InvalidSource
            If the task is no game.
        """
        if not isinstance(dialogue, Exploration):
            raise InvalidSource(
                f"players:Prober: expected a game, found {task.task_id}: name runtime_rl alone among the "
                "agent's categories"
            )
        minds = [_Mind(dialogue, lane) for lane in range(len(episode_ids))]
        return lambda state, lanes: [minds[lane].reply(dialogue.messages(state)[lane]) for lane in lanes]


class _Mind:
    """Worlds that one episode may be, side by side."""

    def __init__(self, dialogue: Exploration, lane: int) -> None:
        self._dialogue, self._game = dialogue, dialogue.game
        self._worlds = self._game.rivals(dialogue.world, lane)
        self._state = self._game.start(self._worlds)
        self._fits: Bools = np.ones(len(self._game.introduction(self._worlds)), dtype=np.bool_)
        self._feedback: list[str] = []
        self._n_replies = 0

    def reply(self, message: str | None) -> str:
        """Drop the worlds in which the message would have been another, and return the next action."""
        if self._feedback:
            told = {text: self._dialogue.told(text, self._n_replies) for text in set(self._feedback)}
            self._fits &= np.array([told[text] == message for text in self._feedback])
        first = int(np.argmax(self._fits))
        (action,) = self._game.best(self._worlds, self._state, [first])
        replies = [action if fits else None for fits in self._fits]
        self._state, taken = take(self._game, self._worlds, self._state, replies)
        self._feedback = taken.moved.feedback
        self._n_replies += 1
        return action
