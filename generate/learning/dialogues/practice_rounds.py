"""Rounds of practice with feedback, then questions without: procedural learning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from generate.contract import Ints
from generate.learning.contract import Practice, Question
from generate.learning.dialogues import exam
from generate.learning.dialogues.actions import take
from generate.learning.dialogues.contract import Turns
from generate.learning.dice import Dice
from store.errors import InvalidSource
from store.learning_tasks import Task
from store.prompts import load_template

_TEMPLATE = "learning_practice"
TEMPLATES = (_TEMPLATE, exam.TEMPLATE)


@dataclass(frozen=True, slots=True)
class _State:
    """Where the lanes stand.

    Attributes
    ----------
    messages
        What is told now; None where the lane is over.
    rounds
        The game's own state of each round, of all lanes.
    n_round
        Round that is played, from 0; the number of rounds where the questions are asked.
    n_replies
        Replies in this round.
    """

    messages: tuple[str | None, ...]
    rounds: tuple[Any, ...]
    n_round: Ints
    n_replies: Ints


class PracticeRounds:
    """Skills that are practised, one per lane.

    Parameters
    ----------
    skills
        What is to be learned in each lane.
    worlds
        The instances of each round, of all lanes.
    """

    def __init__(
        self,
        task: Task,
        practice: Practice[Any, Any, Any],
        skills: Sequence[Any],
        worlds: Sequence[Any],
        questions: Sequence[tuple[Question, ...]],
    ) -> None:
        if not worlds:
            raise InvalidSource(
                f"learning_tasks.csv: {task.task_id}: practice_rounds: expected at least 1, found 0"
            )
        self._practice, self._skills, self._worlds = practice, skills, worlds
        self._budget = task.of_play("budget_steps")
        self._template, self._exam = load_template(_TEMPLATE), load_template(exam.TEMPLATE)
        self._introductions = [practice.introduction(world) for world in worlds]
        self.questions = questions
        self.texts: Sequence[Sequence[str]] = [
            (practice.grammar, practice.opening(skill), *told, practice.transfer_introduction(skill))
            for skill, *told in zip(skills, *self._introductions, strict=True)
        ]
        self._n_best = np.stack([practice.n_best(world) for world in worlds])

    @property
    def n_best(self) -> Ints:
        """Actions on a shortest way to the goal, of the round that has the longest."""
        longest: Ints = self._n_best.max(axis=0)
        return longest

    def n_best_of(self, number: int, lane: int) -> int:
        """Return how many actions a shortest way to the goal of a round has."""
        return int(self._n_best[number, lane])

    def start(self) -> _State:
        """Return the state before the first action of the first round."""
        n = len(self._skills)
        zeros = np.zeros(n, dtype=np.int64)
        rounds = tuple(self._practice.start(world) for world in self._worlds)
        messages = tuple(
            self._fill(
                "prompt",
                opening=self._practice.opening(skill),
                n_questions=len(self.questions[lane]),
                budget=self._budget,
                round=self._round(lane, 0),
            )
            for lane, skill in enumerate(self._skills)
        )
        return _State(messages, rounds, zeros, zeros)

    def messages(self, state: _State) -> Sequence[str | None]:
        """Return what each lane is told now."""
        return state.messages

    def step(self, state: _State, replies: Sequence[str | None]) -> tuple[_State, Turns]:
        """Take an action of a round, or the answers to the questions."""
        turns = Turns.blank(len(replies))
        turns.trials[:] = state.n_round
        has_reply = np.array([reply is not None for reply in replies], dtype=np.bool_)
        messages, rounds = list(state.messages), list(state.rounds)
        n_round, n_replies = state.n_round.copy(), state.n_replies.copy()
        for lane in np.flatnonzero(has_reply & (n_round == len(rounds))).tolist():
            turns.outcomes[lane] = "examined"
            turns.is_last[lane], messages[lane] = True, None
        playing = has_reply & (state.n_round < len(rounds))
        for number in np.unique(state.n_round[playing]).tolist():
            in_round = playing & (state.n_round == number)
            own = [reply if plays else None for reply, plays in zip(replies, in_round, strict=True)]
            rounds[number], taken = take(self._practice, self._worlds[number], rounds[number], own)
            turns.progress[taken.is_read] = taken.moved.progress[taken.is_read]
            for lane in np.flatnonzero(in_round).tolist():
                n_replies[lane] += 1
                turns.actions[lane], turns.outcomes[lane] = taken.lines[lane], taken.outcome(lane)
                feedback = taken.moved.feedback[lane] if taken.is_read[lane] else self._fill("unread")
                is_solved = turns.outcomes[lane] == "solved"
                if is_solved or n_replies[lane] >= self._budget:
                    n_round[lane], n_replies[lane] = number + 1, 0
                    ended = self._fill("solved" if is_solved else "unsolved", feedback=feedback)
                    messages[lane] = self._after(lane, number + 1, ended)
                else:
                    left = self._budget - n_replies[lane]
                    messages[lane] = self._fill("moved", feedback=feedback, left=left)
        return _State(tuple(messages), tuple(rounds), n_round, n_replies), turns

    def knowing(self, state: _State, lanes: Sequence[int]) -> list[str]:
        """Return the next action on a shortest way to the goal of the round, and then the right answers."""
        replies: dict[int, str] = {}
        for number, some in self._by_round(state, lanes):
            if number == len(self._worlds):
                texts = [exam.right(self.questions[lane]) for lane in some]
            else:
                texts = self._practice.best(self._worlds[number], state.rounds[number], some)
            replies |= dict(zip(some, texts, strict=True))
        return [replies[lane] for lane in lanes]

    def guessing(self, state: _State, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return an action drawn from those that are visibly possible, and then guesses."""
        die_of = dict(zip(lanes, dice, strict=True))
        replies: dict[int, str] = {}
        for number, some in self._by_round(state, lanes):
            own = [die_of[lane] for lane in some]
            if number == len(self._worlds):
                texts = [exam.guessed(self.questions[lane], die) for lane, die in zip(some, own, strict=True)]
            else:
                texts = self._practice.random(self._worlds[number], state.rounds[number], some, own)
            replies |= dict(zip(some, texts, strict=True))
        return [replies[lane] for lane in lanes]

    def place(self, state: _State, lane: int) -> tuple[int, int]:
        """Return the round that a lane plays, from 0, and how many replies it has had in it."""
        return int(state.n_round[lane]), int(state.n_replies[lane])

    def _by_round(self, state: _State, lanes: Sequence[int]) -> list[tuple[int, list[int]]]:
        numbers = sorted({int(state.n_round[lane]) for lane in lanes})
        return [(number, [lane for lane in lanes if state.n_round[lane] == number]) for number in numbers]

    def _round(self, lane: int, number: int) -> str:
        return self._fill(
            "round",
            number=number + 1,
            introduction=self._introductions[number][lane],
            left=self._budget,
        )

    def _after(self, lane: int, number: int, ended: str) -> str:
        """Return what follows a round: the next one, or the questions."""
        if number < len(self._worlds):
            return self._fill("next", ended=ended, round=self._round(lane, number))
        transfer = self._practice.transfer_introduction(self._skills[lane])
        practised = self._fill("practised", ended=ended, transfer=transfer)
        return exam.message(self._exam, practised, self.questions[lane])

    def _fill(self, name: str, **places: object) -> str:
        common = {"grammar": self._practice.grammar, "n_rounds": len(self._worlds)}
        return self._template.fill(name, {**common, **places})
