"""A game and a skill that a test sees through: find a digit, from feedback that says higher or lower."""

from dataclasses import dataclass

import numpy as np

from generate.learning.contract import Guess, Lesson, Moved, Question, Sheet
from store.learning_tasks import load_tasks

DIGITS = tuple("0123456789")


def question(text, answer, labels=()):
    return Question(text, answer, "substring", Guess(labels or DIGITS), labels)


def sheet(name):
    questions = (question(f"{name} first?", "YES", ("YES", "NO")), question(f"{name} second?", "7"))
    return Sheet(f"This is {name}.", questions, name)


def lesson(name, n_examples):
    questions = tuple(question(f"{name} {k}?", str(k)) for k in range(1, 5))
    examples = tuple(f"{name} example {k}" for k in range(1, n_examples + 1))
    return Lesson(f"Learn {name}.", examples, questions, examples)


def task(task_id, **changed):
    """Return the row of a real task with other parameters."""
    return load_tasks()[task_id].model_copy(update=changed)


@dataclass(frozen=True)
class Tries:
    """Best distance so far, as progress, of each episode."""

    progress: np.ndarray


class FindDigit:
    """Find the hidden digit; 9 is not allowed."""

    grammar = "Write one digit."

    def __init__(self, digits=()):
        self._digits = digits

    def draw(self, dice):
        return np.array([die.integer(0, 8) for die in dice])

    def rivals(self, world, lane):
        return np.arange(9)

    def introduction(self, world):
        return ["A digit is hidden."] * len(world)

    def start(self, world):
        return Tries(np.zeros(len(world)))

    def read(self, text):
        return (int(text),) if text in DIGITS else None

    def step(self, world, state, actions, which):
        tried = actions[:, 0]
        is_legal = which & (tried != 9)
        progress = np.where(
            is_legal, np.maximum(state.progress, 1 - np.abs(tried - world) / 9), state.progress
        )
        words = np.where(tried == 9, "Not allowed.", np.where(tried < world, "Higher.", "Lower."))
        feedback = [
            "" if not takes else "Found." if found else str(word)
            for takes, found, word in zip(which, tried == world, words, strict=True)
        ]
        return Tries(progress), Moved(is_legal, is_legal & (tried == world), progress, feedback)

    def best(self, world, state, lanes):
        return [str(world[lane]) for lane in lanes]

    def random(self, world, state, lanes, dice):
        return [die.choice(DIGITS) for die in dice]

    def n_best(self, world):
        return np.ones(len(world), dtype=np.int64)


class FindDigits(FindDigit):
    """The same as a skill: the digit of a round is the skill plus the number that the round shows."""

    def skill(self, dice):
        return dice.integer(0, 3)

    def opening(self, skill):
        return "Something is added."

    def draw(self, skills, dice):
        return np.array([skill + die.integer(0, 5) for skill, die in zip(skills, dice, strict=True)])

    def transfer(self, skill, dice, n_questions):
        return tuple(question(f"{k} becomes?", str(k + skill)) for k in range(n_questions))

    def transfer_introduction(self, skill):
        return "Say what becomes of each number."
