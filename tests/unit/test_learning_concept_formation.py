"""Concept formation: does every lesson have one answer, found from its text, and none from its form?"""

import csv
import tomllib
from collections import Counter
from functools import cache
from importlib import import_module
from itertools import pairwise

import pytest
from concept_reader import answers_that_fit
from pydantic import ValidationError

from generate.learning.concept_formation.numeric_property import NumericProperty
from generate.learning.concept_formation.object_exception import ObjectException
from generate.learning.contract import LessonFamily
from generate.learning.dice import Dice
from store.errors import InvalidSource
from store.settings import project_dir

CATEGORY = "concept_formation"
MANIFESTS = project_dir() / "manifests"
FAMILIES = tomllib.loads((MANIFESTS / "learning" / f"{CATEGORY}.toml").read_text(encoding="utf-8"))
with (MANIFESTS / "learning_tasks.csv").open(newline="", encoding="utf-8") as file:
    ROWS = {row["task_id"]: row for row in csv.DictReader(file) if row["category"] == CATEGORY}
TASKS = {f"{name}_{level}": (name, level) for name in FAMILIES for level in (1, 2, 3)}
LABELS = ("REJECT", "ACCEPT")
N_MORE = 20

every_task = pytest.mark.parametrize("task", TASKS)


def rewrites(task):
    return task.startswith("string_rewrite")


@cache
def family(task):
    name, level = TASKS[task]
    module, _, made = FAMILIES[name]["family"].partition(":")
    constants = FAMILIES[name]["levels"][level - 1]
    return getattr(import_module(f"generate.learning.{CATEGORY}.{module}"), made).model_validate(constants)


@cache
def lessons(task, n=N_MORE + 4):
    """Return the instances of the task's own seeds, then some of the seeds that follow."""
    name, level = TASKS[task]
    row, first = ROWS[task], FAMILIES[name]["seeds"]["first"]
    numbers = int(row["max_examples"]), int(row["n_test_items"])
    return [family(task).lesson(Dice(name, level, first + i), *numbers) for i in range(n)]


def right(lesson):
    return tuple(question.answer for question in lesson.questions)


def read(lesson, n_examples):
    """Return the answers that a reader finds possible after so many examples."""
    asked = [question.text for question in lesson.questions]
    return answers_that_fit(lesson.introduction, lesson.examples[:n_examples], asked)


def test_the_manifest_has_eight_families_of_three_levels_and_a_row_for_each():
    assert len(FAMILIES) == 8
    assert set(TASKS) == set(ROWS)
    assert all(isinstance(family(task), LessonFamily) for task in TASKS)
    assert len({block["seeds"]["first"] for block in FAMILIES.values()}) == len(FAMILIES)


@every_task
def test_the_same_dice_give_the_same_lesson_and_other_dice_another(task):
    name, level = TASKS[task]
    numbers = int(ROWS[task]["max_examples"]), int(ROWS[task]["n_test_items"])
    first = FAMILIES[name]["seeds"]["first"]
    assert family(task).lesson(Dice(name, level, first), *numbers) == lessons(task)[0]
    assert len({(lesson.examples, lesson.questions) for lesson in lessons(task)}) == len(lessons(task))


@every_task
def test_a_reader_of_the_text_finds_the_right_answers_and_no_others(task):
    for lesson in lessons(task)[:10]:
        assert read(lesson, len(lesson.examples)) == {right(lesson)}


@every_task
def test_the_search_allows_what_the_text_allows_after_any_number_of_examples(task):
    n, initial = (int(ROWS[task][name]) for name in ("max_examples", "initial_examples"))
    for lesson in lessons(task)[:3]:
        for n_examples in {initial, n // 4, n // 2, 3 * n // 4}:
            fitting = family(task).fitting_answers(lesson.shown[:n_examples], lesson.questions)
            assert fitting == read(lesson, n_examples), n_examples


@every_task
def test_all_examples_decide_the_answers_and_those_given_at_the_start_do_not(task):
    initial = int(ROWS[task]["initial_examples"])
    for lesson in lessons(task):
        assert family(task).fitting_answers(lesson.shown, lesson.questions) == {right(lesson)}
        assert len(family(task).fitting_answers(lesson.shown[:initial], lesson.questions)) > 1


@every_task
def test_more_examples_never_make_more_answers_fit(task):
    for lesson in lessons(task)[:4]:
        fitting = [
            family(task).fitting_answers(lesson.shown[:n], lesson.questions)
            for n in range(len(lesson.examples) + 1)
        ]
        assert all(later <= sooner for sooner, later in pairwise(fitting))


def test_some_lessons_are_undecided_without_one_of_their_examples():
    undecided = 0
    for task in TASKS:
        for lesson in lessons(task)[:4]:
            for left_out in range(len(lesson.shown)):
                shown = lesson.shown[:left_out] + lesson.shown[left_out + 1 :]
                undecided += len(family(task).fitting_answers(shown, lesson.questions)) > 1
    assert undecided


@every_task
def test_questions_are_new_and_what_is_written_fits_on_a_line(task):
    for lesson in lessons(task):
        asked = [question.asked for question in lesson.questions]
        given = [what for what, _ in lesson.shown]
        assert len(set(asked + given)) == len(asked) + len(given)
        assert len(set(lesson.examples)) == len(lesson.examples)
        lines = [*lesson.examples, *(q.text for q in lesson.questions), *(q.answer for q in lesson.questions)]
        assert all(line and line == line.strip() and len(line.splitlines()) == 1 for line in lines)
        assert lesson.introduction.isascii()


@every_task
def test_answers_have_the_form_that_their_kind_of_match_needs(task):
    for question in (question for lesson in lessons(task) for question in lesson.questions):
        assert question.match_kind == ROWS[task]["match_kind"]
        if rewrites(task):
            assert question.match_kind == "sequence"
            assert question.labels == ()
            assert set(question.answer.split(" ")) <= set(question.guess.symbols)
            assert question.answer != question.text.removesuffix(" -> ?")
        else:
            assert question.match_kind == "substring"
            assert question.labels == question.guess.symbols == LABELS
            assert question.answer in LABELS
            # who repeats the question does not answer it
            assert question.text.endswith(": ?")
            assert not [label for label in LABELS if label.casefold() in question.text.casefold()]


@every_task
def test_numbers_of_examples_and_questions_are_as_asked_for(task):
    n = int(ROWS[task]["max_examples"])
    for n_examples, n_questions in ((n, 1), (n, 2), (n - 2, 3), (n + 1, 5), (n + 2, 6)):
        lesson = family(task).lesson(Dice(task, n_examples, n_questions), n_examples, n_questions)
        assert len(lesson.examples) == len(lesson.shown) == n_examples
        assert len(lesson.questions) == n_questions
        assert family(task).fitting_answers(lesson.shown, lesson.questions) == {right(lesson)}


@every_task
def test_neither_a_constant_answer_nor_a_guess_tells_more_than_the_form(task):
    n_lessons = 200
    questions = [question for lesson in lessons(task, n_lessons) for question in lesson.questions]
    often = Counter(question.answer for question in questions)
    dice = Dice("guesses", task)
    n_right = sum(question.guess.draw(dice) == question.answer for question in questions)
    if rewrites(task):
        assert max(often.values()) < 0.05 * len(questions)
        assert n_right < 0.05 * len(questions)
        return
    # 800 coins: three standard errors are 3 * 0.5 / sqrt(800)
    margin = 3 * 0.5 / 800**0.5
    assert n_right / len(questions) == pytest.approx(0.5, abs=margin)
    assert often["ACCEPT"] / len(questions) == pytest.approx(0.5, abs=margin)
    per_lesson = Counter(right(lesson).count("ACCEPT") for lesson in lessons(task, n_lessons))
    assert set(per_lesson) == {1, 2, 3}


@every_task
def test_no_two_rules_of_a_space_are_alike_and_none_is_constant(task):
    answers = family(task).space().answers
    assert len({row.tobytes() for row in answers}) == len(answers)
    assert (answers != answers[:, :1]).any(axis=1).all()


def test_one_example_of_the_last_exception_level_has_a_wrong_label():
    said = "At most one label of all the examples that you can see may be wrong."
    refuted = 0
    for lesson in lessons("object_exception_3"):
        assert said in lesson.introduction
        asked = [question.text for question in lesson.questions]
        trusting = answers_that_fit(lesson.introduction.replace(said, ""), lesson.examples, asked)
        refuted += not trusting
    # a wrong label may by chance be what another rule gives
    assert refuted > 0.8 * len(lessons("object_exception_3"))


def test_labels_are_right_where_none_is_said_to_be_wrong():
    level = ObjectException(n_attributes=4, main="one", n_exceptional=2)
    assert "may be wrong" not in level.introduction()
    assert level.most_wrong == 0


def test_more_examples_than_there_are_inputs_are_refused_with_the_constants():
    level = NumericProperty(kinds=("remainder",))
    with pytest.raises(InvalidSource, match=r"NumericProperty\(kinds=.*200 examples and 4 questions"):
        level.lesson(Dice("too many"), 200, 4)


@pytest.mark.parametrize("n_examples", [0, 1])
def test_so_few_examples_decide_nothing_and_are_refused(n_examples):
    with pytest.raises(InvalidSource, match=f"{n_examples} examples"):
        family("object_exception_3").lesson(Dice("too few"), n_examples, 4)


def test_a_level_with_an_unknown_kind_is_refused():
    with pytest.raises(InvalidSource, match="found colour"):
        NumericProperty(kinds=("remainder", "colour")).space()


def test_a_level_with_an_unknown_constant_is_refused():
    with pytest.raises(ValidationError, match="n_digits"):
        NumericProperty(kinds=("remainder",), n_digits=2)


def test_the_reader_is_not_pleased_with_everything():
    lesson = lessons("numeric_property_1")[0]
    assert read(lesson, 0) > {right(lesson)}
    text, _, label = lesson.examples[0].rpartition(": ")
    other = LABELS[1 - LABELS.index(label)]
    asked = [question.text for question in lesson.questions]
    assert not answers_that_fit(lesson.introduction, [*lesson.examples, f"{text}: {other}"], asked)
