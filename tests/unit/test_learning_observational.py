"""Observational learning: what every family promises, on the levels and seeds of the manifest."""

import csv
import importlib
import tomllib
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from generate.learning.contract import SheetFamily
from generate.learning.dice import Dice
from generate.learning.observational_learning.demonstrations import N_MISLEADING
from store.errors import InvalidSource

MANIFEST = tomllib.loads(Path("manifests/learning/observational_learning.toml").read_text(encoding="utf-8"))
with Path("manifests/learning_tasks.csv").open(encoding="utf-8", newline="") as lines:
    TASKS = {row["task_id"]: row for row in csv.DictReader(lines)}
CASES = [(family_id, level) for family_id in MANIFEST for level in (1, 2, 3)]
N_QUESTIONS = 4
N_FURTHER = 20

of_every_level = pytest.mark.parametrize(("family_id", "level"), CASES)


def class_of(family_id: str) -> type:
    module, name = MANIFEST[family_id]["family"].split(":")
    return getattr(importlib.import_module(f"generate.learning.observational_learning.{module}"), name)


def family_of(family_id: str, level: int, **changes):
    return class_of(family_id).model_validate(MANIFEST[family_id]["levels"][level - 1] | changes)


@pytest.fixture(scope="module")
def instances():
    """Families with the sheets of the manifest's seeds and of further ones, each made once."""
    made = {}

    def of(family_id: str, level: int):
        if (family_id, level) not in made:
            family = family_of(family_id, level)
            seeds = MANIFEST[family_id]["seeds"]
            keys = [*range(seeds["first"], seeds["first"] + seeds["count"]), *range(N_FURTHER)]
            made[family_id, level] = (
                family,
                [family.sheet(Dice(family_id, level, key), N_QUESTIONS) for key in keys],
            )
        return made[family_id, level]

    return of


def answers_of(sheet) -> tuple[str, ...]:
    return tuple(question.answer for question in sheet.questions)


def result_of(demonstration) -> str:
    return " ".join(demonstration.result)


def test_every_task_has_a_family_and_every_family_three_tasks_and_seeds_of_its_own():
    tasks = {row["task_id"] for row in TASKS.values() if row["category"] == "observational_learning"}
    assert tasks >= {f"{family_id}_{level}" for family_id, level in CASES}
    assert all(len(block["levels"]) == 3 for block in MANIFEST.values())
    seeds = [
        block["seeds"]["first"] + place
        for block in MANIFEST.values()
        for place in range(block["seeds"]["count"])
    ]
    assert len(seeds) == len(set(seeds)) == 10 * 4


@of_every_level
def test_the_same_dice_make_the_same_instance_and_others_another(instances, family_id, level):
    family, sheets = instances(family_id, level)
    first = MANIFEST[family_id]["seeds"]["first"]
    assert isinstance(family, SheetFamily)
    assert family.sheet(Dice(family_id, level, first), N_QUESTIONS) == sheets[0]
    assert len({sheet.text for sheet in sheets}) == len(sheets)


@of_every_level
def test_the_demonstrations_leave_one_answer_to_every_question(instances, family_id, level):
    family, sheets = instances(family_id, level)
    for sheet in sheets:
        assert family.fitting_answers(sheet.shown, sheet.questions) == {answers_of(sheet)}


@of_every_level
def test_with_the_first_demonstrations_alone_other_rules_fit_too(instances, family_id, level):
    # what shows that the search can find a second rule at all
    family, sheets = instances(family_id, level)
    weak = (family.fitting_answers(sheet.shown[:N_MISLEADING], sheet.questions) for sheet in sheets)
    assert any(len(fitting) > 1 for fitting in weak)


@of_every_level
def test_no_rule_fits_an_input_that_came_out_in_two_ways(instances, family_id, level):
    family, sheets = instances(family_id, level)
    shown = sheets[0].shown
    one, other = next(
        (one, other)
        for one in shown
        for other in (one.result[::-1], *(another.result for another in shown))
        if other != one.result and (len(other) == 1 or sorted(other) == sorted(one.result))
    )
    spoilt = type(one)(one.given, other)
    assert family.fitting_answers((*shown, spoilt), sheets[0].questions) == frozenset()


@of_every_level
def test_questions_are_new_and_answers_can_neither_be_copied_nor_be_all_alike(instances, family_id, level):
    _, sheets = instances(family_id, level)
    for sheet in sheets:
        shown = [demonstration.given for demonstration in sheet.shown]
        asked = [question.asked for question in sheet.questions]
        assert len({*shown, *asked}) == len(shown) + len(asked)
        assert len(set(answers_of(sheet))) == N_QUESTIONS


SIZES = {
    "hidden_state_machine": len,
    "hidden_group_operation": len,
    "cipher": lambda word: len(word.letters),
    "string_transducer": len,
    "cellular_automaton": len,
    "stack_machine": lambda program: sum(isinstance(token, str) for token in program),
    "affine_chain": lambda chain: len(chain.letters),
    "simple_physics": lambda bead: bead.n_ticks,
}


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("family_id", SIZES)
def test_every_question_goes_further_than_all_demonstrations(instances, family_id, level):
    _, sheets = instances(family_id, level)
    size = SIZES[family_id]
    for sheet in sheets:
        farthest = max(size(one.given) for one in sheet.shown)
        assert all(size(question.asked) > farthest for question in sheet.questions)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_lists_that_are_asked_for_have_an_order_that_was_not_shown(instances, level):
    _, sheets = instances("sorting_network", level)
    for sheet in sheets:
        orders = [
            sorted(range(len(numbers)), key=numbers.__getitem__)
            for numbers in (*(one.given for one in sheet.shown), *(one.asked for one in sheet.questions))
        ]
        assert len(set(map(tuple, orders))) == len(orders)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_sentences_that_are_asked_for_have_words_that_were_not_shown(instances, level):
    _, sheets = instances("linguistic_transducer", level)
    for sheet in sheets:
        shown = {one.given.verb for one in sheet.shown} | {one.given.subject.noun for one in sheet.shown}
        for question in sheet.questions:
            assert not {question.asked.verb, question.asked.subject.noun, question.asked.object.noun} & shown


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    ("family_id", "words"), [("stack_machine", "zub kel mip dor fay wex"), ("affine_chain", "P Q R")]
)
def test_no_question_has_a_word_that_was_never_shown(instances, family_id, words, level):
    _, sheets = instances(family_id, level)
    for sheet in sheets:
        told = sheet.text.split("Demonstrations:\n")[1].split("\n\n")[0]
        for word in words.split():
            if any(word in question.text.removeprefix("What does") for question in sheet.questions):
                assert word in told


@pytest.mark.parametrize(("level", "n_groups"), [(1, 2), (2, 5), (3, 5)])
def test_every_group_of_the_order_is_drawn(level, n_groups):
    # groups of orders 6, 8 and 12 differ in how often an element must be combined until it is neutral
    family = family_of("hidden_group_operation", level)
    dice = Dice("groups", level)
    kinds = Counter()
    for _ in range(30 * n_groups):
        table = family.draw_rule(dice)
        periods = []
        for element in range(family.order):
            power, period = element, 1
            while power != 0:
                power, period = table[power][element], period + 1
            periods.append(period)
        kinds[tuple(sorted(periods))] += 1
    assert len(kinds) == n_groups
    assert min(kinds.values()) >= 10


@of_every_level
def test_answers_are_one_trimmed_line_of_the_form_that_is_scored(instances, family_id, level):
    family, sheets = instances(family_id, level)
    match_kind = TASKS[f"{family_id}_{level}"]["match_kind"]
    for sheet in sheets:
        for question in sheet.questions:
            assert question.answer == " ".join(question.answer.split())
            assert question.answer
            assert question.answer == unicodedata.normalize("NFC", question.answer)
            assert "\n" not in question.text
            assert question.match_kind == family.match_kind == match_kind
            assert question.labels == ()
            if match_kind == "integer":
                assert str(int(question.answer)) == question.answer
    assert match_kind == "integer" or any(" " in answer for sheet in sheets for answer in answers_of(sheet))


@of_every_level
def test_all_demonstrations_are_told_and_no_answer_is(instances, family_id, level):
    family, sheets = instances(family_id, level)
    for sheet in sheets:
        lines = sheet.text.split("Demonstrations:\n")[1].split("\n\n")[0].split("\n")
        assert len(lines) == len(sheet.shown) == family.n_demonstrations
        for line, demonstration in zip(lines, sheet.shown, strict=True):
            assert line.endswith(f" -> {result_of(demonstration)}")
        assert all(question.text not in sheet.text for question in sheet.questions)


@of_every_level
def test_no_constant_answer_is_right_in_more_than_half_of_the_questions(instances, family_id, level):
    _, sheets = instances(family_id, level)
    answers = Counter(answer for sheet in sheets for answer in answers_of(sheet))
    assert answers.most_common(1)[0][1] <= answers.total() / 2


@of_every_level
@pytest.mark.parametrize("n_questions", [1, 2, 6])
def test_as_many_questions_are_asked_as_are_wanted(family_id, level, n_questions):
    sheet = family_of(family_id, level).sheet(Dice("number", n_questions), n_questions)
    assert len(sheet.questions) == n_questions


# sequences of which one is right among very many, and numbers or cells among few
FLOORS = {
    "hidden_group_operation_1": 1 / 6,
    "hidden_group_operation_2": 1 / 8,
    "hidden_group_operation_3": 1 / 12,
    "stack_machine_2": 1 / 40,
    "stack_machine_3": 1 / 40,
    "affine_chain_1": 1 / 61,
    "affine_chain_2": 1 / 61,
    "simple_physics_1": 1 / 64,
    "simple_physics_2": 1 / 64,
    "simple_physics_3": 1 / 64,
}


@of_every_level
def test_guesses_have_the_form_of_an_answer_and_are_as_rarely_right_as_the_form_says(
    instances, family_id, level
):
    _, sheets = instances(family_id, level)
    dice = Dice("guesses", family_id, level)
    n_right = n_guesses = 0
    for sheet in sheets:
        for question in sheet.questions:
            for _ in range(8):
                guess = question.guess.draw(dice)
                assert guess == " ".join(guess.split())
                n_elements = len(guess.split())
                assert question.guess.min_length <= n_elements <= question.guess.max_length
                n_right += guess == question.answer
                n_guesses += 1
    floor = FLOORS.get(f"{family_id}_{level}", 0.004)
    # four standard deviations
    assert n_right <= n_guesses * floor + 4 * (n_guesses * floor) ** 0.5


def decoys_of_a_group(sheet, question):
    n_numbers = len(question.guess.symbols)
    return [lambda given: str(sum(given) % n_numbers)]


def decoys_of_a_network(sheet, question):
    def told(numbers):
        return " ".join(map(str, numbers))

    return [
        lambda given: told(sorted(given)),
        lambda given: told(sorted(given, reverse=True)),
        told,
        lambda given: told(given[::-1]),
    ]


def decoys_of_a_cipher(sheet, question):
    # one fixed code per letter: the shortest words leave no doubt, and say nothing of the other letters
    codes = {}
    for one in sheet.shown[:N_MISLEADING]:
        codes.update(zip(one.given.letters, one.result, strict=True))
    letters = {code: letter for letter, code in codes.items()}

    def told(given):
        return " ".join((letters if given.is_coded else codes).get(letter, "?") for letter in given.letters)

    return [told]


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    ("family_id", "decoys"),
    [
        ("hidden_group_operation", decoys_of_a_group),
        ("sorting_network", decoys_of_a_network),
        ("cipher", decoys_of_a_cipher),
    ],
)
def test_one_simple_rule_explains_the_first_demonstrations_and_no_question(
    instances, family_id, level, decoys
):
    _, sheets = instances(family_id, level)
    for sheet in sheets:
        explaining = [
            decoy
            for decoy in decoys(sheet, sheet.questions[0])
            if all(decoy(one.given) == result_of(one) for one in sheet.shown[:N_MISLEADING])
        ]
        assert explaining
        assert any(all(decoy(one.asked) != one.answer for one in sheet.questions) for decoy in explaining)
        assert not any(all(decoy(one.given) == result_of(one) for one in sheet.shown) for decoy in explaining)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_two_pairs_of_states_write_the_same_and_yet_no_state_is_superfluous(level):
    family = family_of("hidden_state_machine", level)
    dice = Dice("aliases", level)
    drawn = [machine for _ in range(200) if (machine := family.draw_rule(dice)) is not None]
    assert drawn
    for machine in drawn:
        looks = Counter(
            tuple(machine.table["writes", state, symbol] for symbol in "ab")
            for state in range(family.n_states)
        )
        assert sorted(looks.values())[-2:] == [2, 2]
        assert (
            len({tuple(later(machine.table, state)) for state in range(family.n_states)}) == family.n_states
        )


def later(table, state, n_steps=5):
    """Yield what is written on all ways of some steps from a state."""
    for symbol in "ab":
        yield table["writes", state, symbol]
        if n_steps:
            yield from later(table, table["moves to", state, symbol], n_steps - 1)


def test_constants_that_allow_no_instance_are_named():
    # four demonstrations cannot decide between so many machines
    family = family_of("hidden_state_machine", 1, n_demonstrations=4)
    with pytest.raises(InvalidSource, match=r"4 questions.*n_states=4.*change the constants"):
        family.sheet(Dice("impossible"), 4)
