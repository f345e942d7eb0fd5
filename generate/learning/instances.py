"""Instances of a family as dialogues, and as rows of ``raw/items``."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from generate.learning.contract import Game, LessonFamily, Practice, SheetFamily
from generate.learning.dialogues import active_request, exploration, practice_rounds, single_turn
from generate.learning.dialogues.active_request import ActiveRequest
from generate.learning.dialogues.contract import AnyDialogue
from generate.learning.dialogues.exploration import Exploration
from generate.learning.dialogues.practice_rounds import PracticeRounds
from generate.learning.dialogues.single_turn import SingleTurn
from generate.learning.dice import Dice
from generate.learning.families import Family
from store.errors import InvalidSource
from store.learning_tasks import Category, Task
from store.schemas import ITEMS

_TEMPLATES: dict[Category, tuple[str, ...]] = {
    "associative_learning": single_turn.TEMPLATES,
    "concept_formation": active_request.TEMPLATES,
    "language_learning": active_request.TEMPLATES,
    "observational_learning": single_turn.TEMPLATES,
    "runtime_rl": exploration.TEMPLATES,
    "procedural_learning": practice_rounds.TEMPLATES,
}


def templates_of(family: Family) -> tuple[str, ...]:
    """Return the templates in whose words a family is asked, beside its own texts."""
    return _TEMPLATES[family.category]


def episode_ids(task: Task, family: Family) -> list[str]:
    """Return the episodes of a task, in order."""
    return [f"{task.task_id}/{number}" for number in range(family.seeds.count)]


def dialogue_of(family: Family, task: Task) -> AnyDialogue:
    """Make all instances of a task, side by side in the order of their episodes.

    Raises
    ------
    InvalidSource
        If the manifests do not fit the family.
    """
    assert task.level is not None
    made = family.made(task.level)
    dice = [Dice(family.id, task.level, seed) for seed in family.seeds.range]
    match family.category:
        case "associative_learning" | "observational_learning" if isinstance(made, SheetFamily):
            n_questions = task.of_play("n_test_items")
            with _drawing(family, task):
                sheets = [made.sheet(die, n_questions) for die in dice]
            return SingleTurn(sheets)
        case "concept_formation" | "language_learning" if isinstance(made, LessonFamily):
            n_examples, n_questions = task.of_play("max_examples"), task.of_play("n_test_items")
            with _drawing(family, task):
                lessons = [made.lesson(die, n_examples, n_questions) for die in dice]
            return ActiveRequest(task, lessons)
        case "runtime_rl" if isinstance(made, Game):
            with _drawing(family, task):
                world = made.draw(dice)
            return Exploration(task, made, world, len(dice))
        case "procedural_learning" if isinstance(made, Practice):
            return _practice(family, task, made, dice)
        case category:
            raise InvalidSource(
                f"{category}.toml: {family.id}: family: expected a class that keeps what contract.py asks of "
                f"{category}, found {family.family}"
            )


def _practice(
    family: Family, task: Task, practice: Practice[Any, Any, Any], dice: Sequence[Dice]
) -> PracticeRounds:
    n_rounds, n_questions = task.of_play("practice_rounds"), task.of_play("n_test_items")
    with _drawing(family, task):
        skills = [practice.skill(die.named("skill")) for die in dice]
        worlds = [
            practice.draw(skills, [die.named("round", number) for die in dice]) for number in range(n_rounds)
        ]
        questions = [
            practice.transfer(skill, die.named("transfer"), n_questions)
            for skill, die in zip(skills, dice, strict=True)
        ]
    return PracticeRounds(task, practice, skills, worlds, questions)


@contextmanager
def _drawing(family: Family, task: Task) -> Iterator[None]:
    """Say of constants that allow no instance whose they are."""
    try:
        yield
    except InvalidSource as error:
        raise InvalidSource(f"{family.category}.toml: {family.id}: level {task.level}: {error}") from error


def items(family: Family, dialogues: Sequence[AnyDialogue]) -> pa.Table:
    """Return the rows of ``raw/items`` of a family: one per scored question, or per episode of a game.

    Parameters
    ----------
    dialogues
        Of the family's tasks, in their order.
    """
    rows = []
    for task, dialogue in zip(family.tasks, dialogues, strict=True):
        for lane, episode_id in enumerate(episode_ids(task, family)):
            common = {
                "mode_id": task.task_id,
                "source_id": family.id,
                "participant_id": episode_id,
                "weight": 1.0,
            }
            n_best = None if dialogue.n_best is None else int(dialogue.n_best[lane])
            for number, question in enumerate(dialogue.questions[lane], start=1):
                facts = {"question": number, "match_kind": question.match_kind}
                rows.append(
                    common
                    | {
                        "item_id": f"{family.id}@{family.version}/{episode_id}/{number}",
                        "prompt": question.text,
                        "legal_options": list(question.labels) or None,
                        "credited_options": [question.answer],
                        "facts_json": json.dumps(facts, sort_keys=True),
                    }
                )
            if not dialogue.questions[lane]:
                rows.append(
                    common
                    | {
                        "item_id": f"{family.id}@{family.version}/{episode_id}/0",
                        "facts_json": json.dumps({"n_best": n_best}),
                    }
                )
    return pa.Table.from_pylist(rows, ITEMS)
