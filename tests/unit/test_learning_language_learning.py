"""Are the invented languages learnable from their examples, and from these alone?"""

import csv
import importlib
import re
import tomllib
import unicodedata
from functools import cache

import language_solvers
import pytest

from generate.learning.contract import LessonFamily, Question
from generate.learning.dice import Dice
from generate.learning.language_learning.glosses import ANIMALS, PERSONS
from store.errors import InvalidSource
from store.settings import project_dir

MANIFESTS = project_dir() / "manifests"
FAMILIES = tomllib.loads((MANIFESTS / "learning" / "language_learning.toml").read_text("utf-8"))
with (MANIFESTS / "learning_tasks.csv").open(encoding="utf-8", newline="") as lines:
    TASKS = {row["task_id"]: row for row in csv.DictReader(lines) if row["family_id"] in FAMILIES}
LEVELS = [(name, level) for name in FAMILIES for level in (1, 2, 3)]
N_QUESTIONS = 4

every_level = pytest.mark.parametrize(("name", "level"), LEVELS)
every_family = pytest.mark.parametrize("name", FAMILIES)


def family_of(name, level):
    module, class_name = FAMILIES[name]["family"].split(":")
    module = importlib.import_module(f"generate.learning.language_learning.{module}")
    return getattr(module, class_name)(**FAMILIES[name]["levels"][level - 1])


def n_shown(name, level):
    return int(TASKS[f"{name}_{level}"]["max_examples"])


def seeds_of(name):
    first = FAMILIES[name]["seeds"]["first"]
    return range(first, first + FAMILIES[name]["seeds"]["count"])


@cache
def lesson_of(name, level, seed):
    return family_of(name, level).lesson(Dice(name, level, seed), n_shown(name, level), N_QUESTIONS)


def lessons_of(name, level):
    return [lesson_of(name, level, seed) for seed in seeds_of(name)]


def right(lesson):
    return tuple(question.answer for question in lesson.questions)


def roots_in(text):
    return set(re.findall(r"`([^`]+)` '", text))


def kind_of(gloss):
    return 2 if gloss in PERSONS else 1 if gloss in ANIMALS else 0


def solve(name, level, examples, questions):
    more = (kind_of,) if name == "agreement" else ()
    return getattr(language_solvers, name)(examples, questions, level, *more)


@every_level
def test_the_same_dice_give_the_same_lesson_and_other_dice_another(name, level):
    lessons = lessons_of(name, level)
    again = family_of(name, level).lesson(Dice(name, level, seeds_of(name)[0]), n_shown(name, level), 4)
    assert again == lessons[0]
    assert len({lesson.examples for lesson in lessons}) == len(lessons)
    assert len({right(lesson) for lesson in lessons}) == len(lessons)


@every_level
def test_a_solver_that_reads_the_text_alone_finds_the_right_answers_and_no_others(name, level):
    for lesson in lessons_of(name, level):
        questions = [question.text for question in lesson.questions]
        assert solve(name, level, lesson.examples, questions) == {right(lesson)}


@every_level
def test_all_rules_that_fit_all_examples_give_the_right_answers(name, level):
    family = family_of(name, level)
    first = seeds_of(name)[0]
    for seed in (*seeds_of(name), *range(first + 1000, first + 1020)):
        lesson = lesson_of(name, level, seed)
        assert family.fitting_answers(lesson.shown, lesson.questions) == {right(lesson)}


@every_level
def test_the_search_looks_at_what_is_asked_and_never_at_the_answer(name, level):
    lesson = lessons_of(name, level)[0]
    blank = [Question("", "nothing", q.match_kind, q.guess, asked=q.asked) for q in lesson.questions]
    assert family_of(name, level).fitting_answers(lesson.shown, blank) == {right(lesson)}


@every_level
def test_fewer_examples_leave_rules_that_differ_and_more_never_bring_them_back(name, level):
    family, lesson = family_of(name, level), lessons_of(name, level)[0]
    n_all = len(lesson.shown)
    numbers = [len(family.fitting_answers(lesson.shown[:n], lesson.questions)) for n in range(0, n_all, 3)]
    assert numbers[0] == 2
    assert numbers == sorted(numbers, reverse=True)
    # two thirds of the examples settle it, so that who asks for them never needs the last
    two_thirds = lesson.shown[: -(-2 * n_all // 3)]
    assert family.fitting_answers(two_thirds, lesson.questions) == {right(lesson)}


@every_level
def test_an_example_with_another_form_is_noticed(name, level):
    family, lesson = family_of(name, level), lessons_of(name, level)[1]
    first, *rest = lesson.shown
    spoilt = type(first)(first.cue, first.form + first.form)
    assert family.fitting_answers([spoilt, *rest], lesson.questions) == frozenset()


@every_level
def test_no_root_of_a_question_was_shown(name, level):
    for lesson in lessons_of(name, level):
        shown = set().union(*map(roots_in, lesson.examples))
        for question in lesson.questions:
            assert roots_in(question.text)
            assert not roots_in(question.text) & shown


@every_level
@pytest.mark.parametrize(("n_examples", "n_questions"), [(24, 1), (30, 4), (36, 6)])
def test_there_are_as_many_examples_and_questions_as_asked_for(name, level, n_examples, n_questions):
    lesson = family_of(name, level).lesson(Dice("numbers", name, level), n_examples, n_questions)
    assert (len(lesson.examples), len(lesson.shown), len(lesson.questions)) == (
        n_examples,
        n_examples,
        n_questions,
    )


@every_level
def test_texts_are_lines_in_nfc_and_answers_are_single_words(name, level):
    for lesson in lessons_of(name, level):
        texts = (lesson.introduction, *lesson.examples, *(question.text for question in lesson.questions))
        assert all(unicodedata.is_normalized("NFC", text) for text in texts)
        assert all("\n" not in text and text == text.strip() for text in texts[1:])
        assert len(set(texts)) == len(texts)
        for question in lesson.questions:
            assert question.match_kind == TASKS[f"{name}_{level}"]["match_kind"] == "exact_nfc"
            assert question.answer and unicodedata.is_normalized("NFC", question.answer)
            assert question.answer.split() == [question.answer]
            assert question.labels == ()


@every_level
def test_every_sound_of_an_answer_is_told_of(name, level):
    marks = {"\u02e4", "\u0301", "\u0300", "\u0304", "\u030c"}
    for lesson in lessons_of(name, level):
        told = set(unicodedata.normalize("NFD", lesson.introduction))
        for answer in right(lesson):
            parts = set(unicodedata.normalize("NFD", answer))
            assert parts <= told
            # the letters are listed one by one, between backticks or in the table of vowels
            for letter in parts - marks:
                assert re.search(rf"[`\s]{letter}[`\s]", unicodedata.normalize("NFD", lesson.introduction))


@every_family
def test_the_bare_root_is_never_right_and_no_form_is_right_twice(name):
    lessons = [lesson for level in (1, 2, 3) for lesson in lessons_of(name, level)]
    answers = [answer for lesson in lessons for answer in right(lesson)]
    assert len(set(answers)) == len(answers)
    for lesson in lessons:
        for question in lesson.questions:
            roots = re.findall(r"`([^`]+)` '", question.text)
            assert question.answer not in (*roots, "".join(roots))


@every_family
def test_a_guess_has_the_form_of_an_answer_and_is_never_right(name):
    for level in (1, 2, 3):
        first = seeds_of(name)[0]
        for seed in (*seeds_of(name), *range(first + 1000, first + 1005)):
            dice = Dice("guess", name, level, seed)
            for question in lesson_of(name, level, seed).questions:
                guess = question.guess.draw(dice)
                assert unicodedata.is_normalized("NFC", guess)
                assert guess.split() == [guess]
                assert guess != question.answer
                # every sound of the answer is one that a guess may have
                left = question.answer
                for symbol in sorted(question.guess.symbols, key=len, reverse=True):
                    left = left.replace(symbol, "")
                assert left == ""


def test_one_harmony_of_drelkovak_alone_answers_half_of_the_questions():
    answers = [
        (language_solvers.one_root([question.text])[0][0], question.answer)
        for level in (1, 2, 3)
        for lesson in lessons_of("drelkovak", level)
        for question in lesson.questions
    ]
    endings = [answer[len(root) :] for root, answer in answers]
    n_plain = sum("\u02e4" not in ending for ending in endings)
    # of the four kinds of roots two leave the consonants of endings alone
    assert n_plain >= len(endings) / 2
    assert n_plain <= len(endings) * 3 / 4


def test_half_of_the_questions_of_gwelthar_are_on_surprise():
    for level in (1, 2, 3):
        for lesson in lessons_of("gwelthar", level):
            assert sum("MIRATIVE" in question.text for question in lesson.questions) == 2


@pytest.mark.parametrize("level", [1, 2, 3])
def test_what_surprise_acts_on_is_told_unless_it_is_to_be_found(level):
    is_hidden = family_of("gwelthar", level).has_order
    told = lessons_of("gwelthar", level)[0].introduction
    assert ("Surprise acts on the root, before the affix takes its tone." in told) != is_hidden
    assert ("Surprise may act on the root before" in told) == is_hidden


def test_vowels_move_by_more_than_one_place_in_a_ring_alone_as_the_text_says():
    ablaut = family_of("ablaut", 1)
    moves = {pattern[0] for pattern in ablaut.patterns()} & {"step up", "step down", "ring 2", "step 2"}
    assert moves == {"step up", "step down", "ring 2"}
    assert ablaut.applied(("step up", "all", "none"), "ubobi") == "obabi"
    assert ablaut.applied(("ring 2", "all", "none"), "ubobi") == "abebo"
    assert "(the row then closes into a ring) or by one place" in lessons_of("ablaut", 1)[0].introduction


def test_tone_sandhi_is_a_matter_of_marks_alone():
    for level in (1, 2, 3):
        for lesson in lessons_of("tone_sandhi", level):
            for question in lesson.questions:
                joined = "".join(re.findall(r"`([^`]+)` '", question.text))
                letters, tones, _ = language_solvers.untoned(joined)
                assert language_solvers.untoned(question.answer)[0] == letters
                assert language_solvers.untoned(question.answer)[1] != tones


@every_level
def test_a_family_keeps_the_contract(name, level):
    assert isinstance(family_of(name, level), LessonFamily)


def test_parameters_of_the_tasks_vary_and_leave_examples_to_pay_for():
    for column, low, high in (
        ("free_threshold", 3, 10),
        ("initial_examples", 0, 15),
        ("max_examples", 12, 40),
    ):
        values = {int(row[column]) for row in TASKS.values()}
        assert min(values) >= low and max(values) <= high and len(values) >= 6
    for row in TASKS.values():
        assert int(row["max_examples"]) > max(int(row["free_threshold"]), int(row["initial_examples"]))
        assert int(row["n_test_items"]) == N_QUESTIONS


@every_family
def test_questions_that_no_example_settles_are_an_error(name):
    with pytest.raises(InvalidSource, match="expected 0 examples that settle 4 questions"):
        family_of(name, 1).lesson(Dice("none"), 0, 4)


@pytest.mark.parametrize("name", ["drelkovak", "ablaut", "agreement"])
def test_more_examples_than_there_are_meanings_are_an_error(name):
    with pytest.raises(InvalidSource, match="lower max_examples"):
        family_of(name, 1).lesson(Dice("many"), 300, 4)
