"""Questions that are answered together in one reply, as every category but runtime RL has them."""

from collections.abc import Sequence

from generate.learning.contract import Question
from generate.learning.dice import Dice
from store.prompts import Template

TEMPLATE = "learning_exam"


def message(template: Template, what: str, questions: Sequence[Question]) -> str:
    """Return what is told: the situation, the questions with their numbers, and how to answer."""
    lines = [
        template.fill("question", {"number": number, "question": question.text})
        for number, question in enumerate(questions, start=1)
    ]
    return template.fill("prompt", {"what": what, "questions": "".join(lines)})


def reply(answers: Sequence[str]) -> str:
    """Return a reply that holds these answers."""
    return "\n".join(f"{number}: {answer}" for number, answer in enumerate(answers, start=1))


def right(questions: Sequence[Question]) -> str:
    """Return the reply that answers all questions as they are scored."""
    return reply([question.answer for question in questions])


def guessed(questions: Sequence[Question], dice: Dice) -> str:
    """Return a reply of guesses."""
    return reply([question.guess.draw(dice) for question in questions])
