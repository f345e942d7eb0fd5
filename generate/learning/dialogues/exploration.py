"""One hidden problem, action by action, within a budget: runtime RL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from generate.contract import Bools, Floats, Ints
from generate.learning.contract import Game, Question
from generate.learning.dialogues.actions import take
from generate.learning.dialogues.contract import Turns
from generate.learning.dice import Dice
from store.learning_tasks import Task
from store.prompts import load_template

_TEMPLATE = "learning_exploration"
TEMPLATES = (_TEMPLATE,)


@dataclass(frozen=True, slots=True)
class _State:
    """Where the lanes stand: what is told, the game's own state, replies, progress, and who is over."""

    messages: tuple[str | None, ...]
    game: Any
    n_replies: Ints
    progress: Floats
    is_over: Bools


class Exploration:
    """Episodes of a game, one per lane."""

    def __init__(self, task: Task, game: Game[Any, Any], world: object, n_lanes: int) -> None:
        self._game, self._world = game, world
        self._budget = task.of_play("budget_steps")
        self._template = load_template(_TEMPLATE)
        self._introductions = game.introduction(world)
        self.questions: Sequence[tuple[Question, ...]] = [()] * n_lanes
        self.texts: Sequence[Sequence[str]] = [(game.grammar, one) for one in self._introductions]
        self.n_best = game.n_best(world)

    @property
    def game(self) -> Game[Any, Any]:
        """The game that is played."""
        return self._game

    @property
    def world(self) -> object:
        """Everything that is hidden."""
        return self._world

    def start(self) -> _State:
        """Return the state before the first action."""
        n = len(self.questions)
        messages = tuple(
            self._fill("prompt", introduction=introduction, budget=self._budget)
            for introduction in self._introductions
        )
        return _State(
            messages,
            self._game.start(self._world),
            np.zeros(n, dtype=np.int64),
            np.zeros(n),
            np.zeros(n, dtype=np.bool_),
        )

    def messages(self, state: _State) -> list[str | None]:
        """Return what each lane is told now."""
        return [None if over else text for text, over in zip(state.messages, state.is_over, strict=True)]

    def step(self, state: _State, replies: Sequence[str | None]) -> tuple[_State, Turns]:
        """Take an action in every lane with a reply; one that cannot be read uses up a step."""
        game, taken = take(self._game, self._world, state.game, replies)
        has_reply = np.array([reply is not None for reply in replies], dtype=np.bool_)
        n_replies = state.n_replies + has_reply
        progress = np.where(taken.is_read, taken.moved.progress, state.progress)
        is_solved = taken.is_read & taken.moved.is_solved
        is_over = state.is_over | (has_reply & (is_solved | (n_replies >= self._budget)))
        turns = Turns.blank(len(replies))
        messages = list(state.messages)
        for lane in np.flatnonzero(has_reply).tolist():
            feedback = taken.moved.feedback[lane] if taken.is_read[lane] else self._fill("unread")
            messages[lane] = self.told(feedback, int(n_replies[lane]))
            turns.actions[lane], turns.outcomes[lane] = taken.lines[lane], taken.outcome(lane)
        turns.progress[:] = progress
        turns.is_last[:] = is_over
        return _State(tuple(messages), game, n_replies, progress, is_over), turns

    def told(self, feedback: str, n_replies: int) -> str:
        """Return the message that follows an action with this feedback, after so many replies."""
        return self._fill("moved", feedback=feedback, left=self._budget - n_replies)

    def knowing(self, state: _State, lanes: Sequence[int]) -> list[str]:
        """Return the next action on a shortest way to the goal."""
        return self._game.best(self._world, state.game, lanes)

    def guessing(self, state: _State, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return an action drawn from those that are visibly possible."""
        return self._game.random(self._world, state.game, lanes, dice)

    def _fill(self, name: str, **places: object) -> str:
        return self._template.fill(name, {"grammar": self._game.grammar, **places})
