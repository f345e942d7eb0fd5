"""Do logs of associative learning have the answers that follow from their text alone, and no others?"""

import csv
import re
import tomllib
from collections import Counter
from functools import cache
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from statistics import mean

import pytest

from generate.learning.associative_learning.asked import (
    HowFew,
    HowMany,
    HowManyWorlds,
    WhichOutcome,
    WhichRole,
    right_answer,
)
from generate.learning.associative_learning.causal_log import worlds_of
from generate.learning.associative_learning.choosing import Candidate, balanced, shared_out
from generate.learning.associative_learning.reading import Trial, agreeing_one_at_a_time
from generate.learning.associative_learning.wording import NAMES
from generate.learning.contract import Question, SheetFamily
from generate.learning.dice import Dice
from store.errors import InvalidSource

MANIFESTS = Path(__file__).parents[2] / "manifests"
FAMILIES = tomllib.loads((MANIFESTS / "learning" / "associative_learning.toml").read_text(encoding="utf-8"))
with (MANIFESTS / "learning_tasks.csv").open(encoding="utf-8", newline="") as lines:
    ROWS = {row["task_id"]: row for row in csv.DictReader(lines)}
TASKS = [(name, level) for name in FAMILIES for level in (1, 2, 3)]
N_FURTHER = 20

every_task = pytest.mark.parametrize(("name", "level"), TASKS)


def made(name, level, **changed):
    module, class_name = FAMILIES[name]["family"].split(":")
    family = getattr(import_module(f"generate.learning.associative_learning.{module}"), class_name)
    return family(**FAMILIES[name]["levels"][level - 1] | changed)


def n_asked(name, level):
    return int(ROWS[f"{name}_{level}"]["n_test_items"])


@cache
def instances(name, level):
    """The instances of a task, as its seeds have them."""
    seeds = FAMILIES[name]["seeds"]
    dice = [Dice(name, level, seeds["first"] + number) for number in range(seeds["count"])]
    return [made(name, level).sheet(die, n_asked(name, level)) for die in dice]


@cache
def further(name, level):
    """Instances of other seeds."""
    family = made(name, level)
    return [family.sheet(Dice("further", seed), n_asked(name, level)) for seed in range(N_FURTHER)]


def answers(sheet):
    return tuple(question.answer for question in sheet.questions)


# A reader of the text: it shares nothing with the families but the words on the page.


def words_of(text):
    return re.split(r", | and ", text)


def named(text, names):
    return [word for word in re.findall(r"[A-Z][a-z]+", text) if word in names]


def section(text, head):
    return text.split(f"{head}:\n")[1].split("\n\n")[0]


def every_assignment(names, roles):
    return [dict(zip(names, chosen, strict=True)) for chosen in product(roles, repeat=len(names))]


class Reader:
    """What one text says: the names, the worlds that its rules allow, and what a world makes of a trial."""

    names_are = r" are ((?:[A-Z][a-z]+(?:, | and )?)+)\.\n"

    def __init__(self, text):
        self.text = text
        self.rules = section(text, "Rules")
        self.situation = text.split("\n\n")[0] + "\n"
        self.names = words_of(re.findall(self.names_are, self.situation)[-1])
        log = [line.split(": ", 1)[1].split(" -> ") for line in section(text, "Log").split("\n")]
        worlds = self.worlds()
        for trial, outcome in log:
            worlds = [world for world in worlds if self.outcome(world, trial) == outcome]
        assert worlds
        self.fits = worlds
        self.old = [trial for trial, _ in log]

    def count(self, world, names, role):
        return sum(world[name] == role for name in names)

    def present(self, trial):
        return named(trial, self.names)

    def settled(self, values):
        found = set(values)
        return found.pop() if len(found) == 1 else "UNKNOWN"

    def role(self, name):
        return self.settled(world[name] for world in self.fits)

    def answer(self, question):
        if about := re.match(r"What is (?:the spring )?(\w+)\?|Of which kind is (\w+)\?", question):
            return self.role(about[1] or about[2])
        if about := re.match(r"How many of the \w+ (.*) are certainly ([A-Z]+)\?", question):
            return str(sum(self.role(name) == about[2] for name in words_of(about[1])))
        if about := re.match(r"For how many of the \w+ (.*) is it UNKNOWN what they are\?", question):
            return str(sum(self.role(name) == "UNKNOWN" for name in words_of(about[1])))
        if about := re.match(r"What is the (largest|smallest) number .* that can be ([A-Z]+) ", question):
            extreme = max if about[1] == "largest" else min
            return str(extreme(self.count(world, self.names, about[2]) for world in self.fits))
        if question.startswith("How many different "):
            return str(len(self.fits))
        return self.settled(self.outcome(world, question.split(" Answer ")[0]) for world in self.fits)


class ReaderOfHerbs(Reader):
    def worlds(self):
        self.points = {word: int(n) for word, n in re.findall(r"([A-Z]+) \((\d) points?\)", self.rules)}
        self.grades = {int(n): word for word, n in re.findall(r"([A-Z]+) at (\d)", self.rules)}
        return every_assignment(self.names, self.points)

    def outcome(self, world, trial):
        total = sum(self.points[world[name]] for name in self.present(trial))
        return self.grades[max(n for n in self.grades if n <= total)]


class ReaderOfPowders(Reader):
    def worlds(self):
        n = int(re.search(r"Exactly (\d+) of the", self.rules)[1])
        return [
            {name: "FERTILE" if name in chosen else "INERT" for name in self.names}
            for chosen in combinations(self.names, n)
        ]

    def outcome(self, world, trial):
        return "BLOOM" if self.count(world, self.present(trial), "FERTILE") else "WITHER"


class ReaderOfSwitches(Reader):
    def worlds(self):
        return every_assignment(self.names, ("EXCITER", "INHIBITOR", "INERT"))

    def outcome(self, world, trial):
        present = self.present(trial)
        n_for, n_against = self.count(world, present, "EXCITER"), self.count(world, present, "INHIBITOR")
        cancels_one = "cancels one EXCITER" in self.rules
        return "HONK" if n_for > (n_against if cancels_one else 99 * n_against) else "SILENT"


class ReaderOfSprings(Reader):
    def worlds(self):
        substances, springs = re.search(
            r"substances are (.*); the springs are (.*)\.\n", self.situation
        ).groups()
        self.names = words_of(substances) + words_of(springs)
        known = re.search(r"Exactly (\d+) of the \d+ springs", self.rules)
        return [
            one | other
            for one in every_assignment(words_of(substances), ("INERT", "CLOUDER"))
            for other in every_assignment(words_of(springs), ("PURE", "TAINTED"))
            if known is None or list(other.values()).count("TAINTED") == int(known[1])
        ]

    def outcome(self, world, trial):
        return (
            "CLOUDY" if {world[name] for name in self.present(trial)} & {"CLOUDER", "TAINTED"} else "LIMPID"
        )


class ReaderOfCrystals(Reader):
    def worlds(self):
        kinds = re.search(r"of one kind, (.*), in every", self.rules)[1]
        return every_assignment(self.names, re.findall(r"[A-Z]+", kinds))

    def outcome(self, world, trial):
        kinds = [world[name] for name in self.present(trial)]
        n_amber, n_teal = kinds.count("AMBER"), kinds.count("TEAL")
        if "QUENCHER" in kinds or n_amber + n_teal == 0:
            return "DARK"
        if n_amber == n_teal or (n_amber and n_teal and "if more AMBER" not in self.rules):
            return "WHITE"
        is_amber = (n_amber > n_teal) == (kinds.count("SWAPPER") in (0, 2, 4, 6))
        return "AMBER" if is_amber else "TEAL"


class ReaderOfNights(Reader):
    names_are = r"code names: (.*?)\."

    def worlds(self):
        def world(**roles):
            return dict.fromkeys(self.names, "BYSTANDER") | roles

        alone = [world(**{name: "CULPRIT"}) for name in self.names]
        pairs = [world(**dict.fromkeys(pair, "CULPRIT")) for pair in combinations(self.names, 2)]
        vetoed = [
            world(**{one: "CULPRIT", other: "VETO"})
            for one, other in product(self.names, repeat=2)
            if one != other and "VETO" in self.rules
        ]
        return alone + pairs + vetoed

    def outcome(self, world, trial):
        happened = self.present(trial)
        is_given = all(
            (name in happened) == (role == "CULPRIT") for name, role in world.items() if role[0] != "B"
        )
        return "ALERT" if is_given else "CALM"


class ReaderOfBeads(Reader):
    def worlds(self):
        known = re.search(r"At least (\d+) and at most (\d+) of the", self.rules)
        low, high = map(int, known.groups()) if known else (0, len(self.names))
        found = re.search(r"BUZZ if at least (\w+) CHARGED", self.rules)[1]
        self.threshold = 1 if found == "one" else int(found)
        return [
            world
            for world in every_assignment(self.names, ("INERT", "CHARGED"))
            if low <= list(world.values()).count("CHARGED") <= high
        ]

    def outcome(self, world, trial):
        return "BUZZ" if self.count(world, self.present(trial), "CHARGED") >= self.threshold else "QUIET"


class ReaderOfRelays(Reader):
    def worlds(self):
        later = [("LOOSE", "BELL", *self.names[place + 1 :]) for place in range(len(self.names))]
        worlds = []
        for targets in product(*later):
            driven = [target for target in targets if target != "LOOSE"]
            if "No two relays drive" not in self.rules or len(set(driven)) == len(driven):
                worlds.append(dict(zip(self.names, targets, strict=True)))
        return worlds

    def outcome(self, world, trial):
        removed = re.search(r"(\w+) (?:is )?taken out", trial)
        on = re.search(r"(\w+) (?:is )?switched on", trial)[1]
        lamp = re.search(r"the lamp of (\w+)", trial)
        lit = []
        while on in world and not (removed and on == removed[1]):
            lit.append(on)
            on = world[on]
        if lamp:
            return "GLOW" if lamp[1] in lit else "DIM"
        return "CHIME" if on == "BELL" else "QUIET"

    def answer(self, question):
        if about := re.match(r"What does (\w+) drive itself", question):
            return self.role(about[1])
        if about := re.match(
            r"If one of (.*) is switched on and none .* for how many of them (.*)\?", question
        ):
            word = {
                "is it UNKNOWN whether the bell rings": "UNKNOWN",
                "is it certain that the bell rings": "CHIME",
                "is it certain that the bell stays quiet": "QUIET",
            }[about[2]]
            found = [
                super(ReaderOfRelays, self).answer(f"{name} is switched on") for name in words_of(about[1])
            ]
            return str(found.count(word))
        return super().answer(question)


READERS = {
    "blocking": ReaderOfHerbs,
    "overshadowing": ReaderOfPowders,
    "conditioned_inhibition": ReaderOfSwitches,
    "causal_insufficiency": ReaderOfSprings,
    "compound_prediction": ReaderOfCrystals,
    "spurious_co_occurrence": ReaderOfNights,
    "unresolved_cues": ReaderOfBeads,
    "second_order_conditioning": ReaderOfRelays,
}


def test_each_family_has_three_levels_and_a_reader():
    assert list(FAMILIES) == list(READERS)
    assert all(len(block["levels"]) == 3 for block in FAMILIES.values())
    assert all(isinstance(made(name, level), SheetFamily) for name, level in TASKS)


@every_task
def test_who_reads_the_text_alone_finds_the_same_answers(name, level):
    for sheet in instances(name, level):
        reader = READERS[name](sheet.text)
        assert answers(sheet) == tuple(reader.answer(question.text) for question in sheet.questions)


@every_task
def test_the_same_dice_give_the_same_instance_and_others_another(name, level):
    first, *others = instances(name, level)
    again = made(name, level).sheet(Dice(name, level, FAMILIES[name]["seeds"]["first"]), n_asked(name, level))
    assert again == first
    assert len({sheet.text for sheet in [first, *others, *further(name, level)]}) == 4 + N_FURTHER


@every_task
def test_the_log_has_one_tuple_of_answers_and_that_is_the_right_one(name, level):
    family = made(name, level)
    for sheet in instances(name, level) + further(name, level):
        assert family.fitting_answers(sheet.shown, sheet.questions) == {answers(sheet)}


@every_task
def test_answers_change_when_a_trial_is_left_out(name, level):
    family = made(name, level)
    n_changed = 0
    for sheet in instances(name, level):
        for place in range(len(sheet.shown)):
            left = sheet.shown[:place] + sheet.shown[place + 1 :]
            n_changed += family.fitting_answers(left, sheet.questions) != {answers(sheet)}
    assert n_changed > 0


@every_task
def test_no_answers_follow_from_a_log_that_contradicts_itself(name, level):
    sheet = instances(name, level)[0]
    trial = sheet.shown[0]
    family = made(name, level)
    assert family.fitting_answers(
        (*sheet.shown, Trial(trial.setup, 1 - min(trial.outcome, 1))), sheet.questions
    ) == (frozenset())


@every_task
def test_no_question_is_about_a_trial_of_the_log_and_none_is_asked_twice(name, level):
    for sheet in instances(name, level) + further(name, level):
        shown = {trial.setup for trial in sheet.shown}
        asked = [question.asked for question in sheet.questions]
        assert not shown & {one.setup for one in asked if isinstance(one, WhichOutcome)}
        assert len({question.text for question in sheet.questions}) == len(asked) == n_asked(name, level)


@every_task
def test_every_sheet_mixes_attribution_prediction_and_counting(name, level):
    for sheet in instances(name, level):
        kinds = {type(question.asked) for question in sheet.questions}
        assert {WhichOutcome, WhichRole} < kinds
        assert kinds & {HowMany, HowFew, HowManyWorlds}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n_questions", [6, 11])
def test_as_many_questions_as_are_asked_for(name, n_questions):
    for level in (1, 2):
        assert len(made(name, level).sheet(Dice("any"), n_questions).questions) == n_questions


@every_task
def test_answers_have_the_form_that_the_question_names(name, level):
    for sheet in instances(name, level) + further(name, level):
        for question in sheet.questions:
            assert question.text == question.text.strip()
            assert "\n" not in question.text
            if question.labels:
                assert question.match_kind == "substring"
                assert question.answer in question.labels
                assert set(question.guess.symbols) == set(question.labels)
            else:
                assert question.match_kind == "integer"
                assert question.answer == str(int(question.answer))
                assert question.text.endswith(" Answer with a number.")
                if question.guess.max_length == 1:
                    assert question.answer in question.guess.symbols
                else:
                    assert len(question.answer) <= question.guess.max_length


@every_task
def test_a_question_that_is_repeated_as_the_answer_is_wrong(name, level):
    for sheet in instances(name, level) + further(name, level):
        for question in sheet.questions:
            assert not [label for label in question.labels if label.casefold() in question.text.casefold()]


@every_task
def test_every_word_of_an_answer_is_told_before_the_questions(name, level):
    for sheet in instances(name, level):
        how = sheet.text.split("How to answer: ")[1]
        assert how.count("UNKNOWN") == 1
        for question in sheet.questions:
            assert all(re.search(rf"\b{label}\b", how) for label in question.labels)


@every_task
def test_no_label_is_a_part_of_another_or_of_a_name(name, level):
    labels = {
        label for sheet in instances(name, level) for question in sheet.questions for label in question.labels
    }
    words = {word.upper() for word in labels | set(NAMES)}
    assert len(words) == len(labels | set(NAMES))
    assert not [(one, other) for one in words for other in words if one != other and one in other]


def test_no_label_hides_in_words_that_an_explanation_needs():
    labels = {
        label
        for name, level in TASKS
        for sheet in instances(name, level)
        for question in sheet.questions
        for label in question.labels
    }
    explanation = (
        "because the answer cannot be determined, nothing is known: either explains it; since the result "
        "was certain, confirmed, consistent, required, ruled out, triggered, inactive, possible, therefore"
    )
    assert not [label for label in labels if label.lower() in explanation]


@every_task
def test_no_constant_word_is_right_in_half_of_the_questions(name, level):
    for sheet in instances(name, level) + further(name, level):
        given = Counter(question.answer for question in sheet.questions if question.labels)
        assert 2 * max(given.values()) <= len(sheet.questions)
        assert given["UNKNOWN"] > 0


@every_task
def test_every_word_but_the_names_is_right_somewhere(name, level):
    questions = [
        question for sheet in instances(name, level) + further(name, level) for question in sheet.questions
    ]
    labels = {label for question in questions for label in question.labels} - set(NAMES)
    assert labels <= {question.answer for question in questions}


@every_task
def test_guessing_is_right_in_no_more_than_a_third_of_the_questions(name, level):
    questions = [
        question for sheet in instances(name, level) + further(name, level) for question in sheet.questions
    ]
    hits = [question.guess.draw(Dice("guess", n)) == question.answer for n, question in enumerate(questions)]
    # a third, and three standard errors of a mean of so many guesses
    assert mean(hits) < 1 / 3 + 3 * (2 / 9 / len(questions)) ** 0.5
    assert any(hits)


def role_questions(sheet):
    for question in sheet.questions:
        if about := re.match(r"What is (\w+)\?", question.text):
            yield about[1], question.answer


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_blocked_herb_is_asked_about(level):
    for sheet in instances("blocking", level):
        reader = ReaderOfHerbs(sheet.text)

        def changes_nothing(name, reader=reader):
            trials = [(trial, trial.replace(name, "")) for trial in reader.old if name in trial]
            return trials and all(
                reader.outcome(world, trial) == reader.outcome(world, without)
                for world in reader.fits
                for trial, without in trials
            )

        assert any(answer == "UNKNOWN" and changes_nothing(name) for name, answer in role_questions(sheet))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_powder_that_is_never_without_another_is_asked_about(level):
    for sheet in instances("overshadowing", level):
        reader = ReaderOfPowders(sheet.text)
        places = {name: [name in trial for trial in reader.old] for name in reader.names}
        assert any(list(places.values()).count(places[name]) > 1 for name, _ in role_questions(sheet))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_relay_is_asked_about_with_which_the_bell_was_never_watched(level):
    for sheet in instances("second_order_conditioning", level):
        old = ReaderOfRelays(sheet.text).old
        asked = [
            re.match(r"What does the bell do when (\w+) is switched", one.text) for one in sheet.questions
        ]
        assert any(about and f"{about[1]} switched on, the bell watched" not in old for about in asked)


@pytest.mark.parametrize("name", FAMILIES)
def test_who_never_combines_two_trials_does_worse_at_the_last_level_than_at_the_first(name):
    scores = []
    for level in (1, 2, 3):
        family = made(name, level)
        hits = []
        for sheet in further(name, level):
            left = agreeing_one_at_a_time(family, worlds_of(family), sheet.shown)
            found = [
                right_answer(family, left, question.asked) == question.answer for question in sheet.questions
            ]
            assert found.count(False) >= family.n_deep
            hits += found
        scores.append(mean(hits))
    assert scores[2] < scores[0]
    assert scores[2] < 0.65


def asked(*questions):
    return [
        Question("", "?", "substring", guess=None, asked=question)  # the search reads what is asked alone
        for question in questions
    ]


def follows(family, log, *questions):
    shown = [Trial(setup, outcome) for setup, outcome in log]
    (found,) = family.fitting_answers(shown, asked(*questions))
    return found


STRENGTHS = ("INERT", "MILD")
RASH = ("CLEAR", "FAINT", "MARKED")


def test_a_cue_beside_a_known_cause_is_blocked_and_one_beside_an_inert_cue_is_not():
    herbs = made("blocking", 1)
    log = [((0,), 1), ((0, 1), 1), ((2,), 0), ((2, 3), 1)]
    roles = [WhichRole(part, STRENGTHS) for part in range(4)]
    assert follows(herbs, log, *roles) == ("MILD", "UNKNOWN", "INERT", "MILD")
    assert follows(herbs, log, WhichOutcome((1, 3), RASH)) == ("FAINT",)


def test_blocking_needs_the_ceiling():
    herbs = made("blocking", 2)
    alone, at_ceiling = [((0,), 1), ((0, 1), 1)], [((0,), 1), ((2,), 1), ((0, 1, 2), 2)]
    assert follows(herbs, alone, WhichRole(1, STRENGTHS)) == ("INERT",)
    assert follows(herbs, at_ceiling, WhichRole(1, STRENGTHS)) == ("UNKNOWN",)


def test_compounds_alone_leave_a_pair_open_unless_the_number_of_causes_decides():
    powders = made("overshadowing", 1)
    roles = [WhichRole(part, ("INERT", "FERTILE")) for part in range(6)]
    # two of six: with both pairs fertile somewhere, the other two powders are inert
    assert follows(powders, [((0, 1), 1), ((2, 3), 1)], *roles) == ("UNKNOWN",) * 4 + ("INERT",) * 2
    assert follows(powders, [((0, 1), 1), ((2, 3, 4, 5), 0)], *roles) == ("FERTILE",) * 2 + ("INERT",) * 4


def test_an_inhibitor_shows_only_beside_an_exciter():
    switches = made("conditioned_inhibition", 1)
    role = WhichRole(1, ("INERT", "EXCITER", "INHIBITOR"))
    assert follows(switches, [((0,), 1), ((1,), 0)], role) == ("UNKNOWN",)
    assert follows(switches, [((0,), 1), ((0, 1), 0)], role) == ("INHIBITOR",)


def test_one_inhibitor_stops_two_exciters_or_only_one():
    log = [((0,), 1), ((1,), 1), ((0, 2), 0)]
    both = WhichOutcome((0, 1, 2), ("SILENT", "HONK"))
    assert follows(made("conditioned_inhibition", 2), log, both) == ("SILENT",)
    assert follows(made("conditioned_inhibition", 3), log, both) == ("HONK",)


def test_a_cue_that_was_tested_alone_stays_unknown_where_the_place_may_be_the_cause():
    springs = made("causal_insufficiency", 1)
    role = WhichRole(0, ("INERT", "CLOUDER"))
    in_spring = 4
    assert follows(springs, [((0, in_spring), 1)], role) == ("UNKNOWN",)
    assert follows(springs, [((0, in_spring), 1), ((1, in_spring), 0)], role) == ("CLOUDER",)


def test_colours_mix_swap_and_are_quenched():
    crystals = made("compound_prediction", 3)
    lights = ("DARK", "AMBER", "TEAL", "WHITE")
    log = [((0,), 1), ((1,), 1), ((2,), 2), ((0, 3), 2), ((0, 4), 0), ((0, 1, 4), 0), ((2, 4), 0)]
    predicted = [
        WhichOutcome(setup, lights) for setup in [(0, 2), (0, 1, 2), (0, 1, 2, 3), (1, 3), (1, 2, 4)]
    ]
    # 3 swaps, or is teal and outdoes one amber: no, then both together would be white
    assert follows(crystals, log, *predicted) == ("WHITE", "AMBER", "TEAL", "TEAL", "DARK")


def test_an_event_that_mostly_goes_along_with_the_alarm_is_a_bystander_after_one_calm_night():
    nights = made("spurious_co_occurrence", 1)
    roles = ("BYSTANDER", "CULPRIT")
    together = [((0, 1, 2), 1), ((0, 1, 3), 1)]
    assert follows(nights, together, WhichRole(1, roles), HowManyWorlds()) == ("UNKNOWN", "3")
    assert follows(nights, [*together, ((0,), 1)], WhichRole(1, roles), HowManyWorlds()) == ("BYSTANDER", "1")


def test_confirmed_unresolved_fewest_most_and_all_sets_are_counted():
    beads = made("unresolved_cues", 1)
    of = tuple(WhichRole(part, ("INERT", "CHARGED")) for part in range(6))
    log = [((0,), 1), ((1, 2), 1), ((3,), 0)]
    counted = [HowMany(of, "CHARGED"), HowMany(of, "INERT"), HowMany(of, "UNKNOWN")]
    assert follows(beads, log, *counted) == ("1", "1", "4")
    # three ways to charge 1, 2 or both; 4 and 5 are free
    assert follows(beads, log, HowFew(1, False), HowFew(1, True), HowManyWorlds()) == (
        "2",
        "5",
        str(3 * 2 * 2),
    )


def test_a_relay_rings_the_bell_through_another_with_which_the_bell_was_never_watched():
    relays = made("second_order_conditioning", 2)
    bell = -1
    log = [((1, bell, bell), 1), ((0, bell, 1), 1)]
    rings = [
        WhichOutcome(setup, ("QUIET", "CHIME")) for setup in [(0, bell, bell), (0, 1, bell), (0, 5, bell)]
    ]
    # 5 may be between 1 and the bell
    assert follows(relays, log, *rings) == ("CHIME", "QUIET", "UNKNOWN")


def test_constants_that_allow_no_instance_are_named():
    with pytest.raises(
        InvalidSource, match=r"Blocking: expected .* change n_test_items or the constants .*'n_trials': 20"
    ):
        made("blocking", 1, n_trials=20).sheet(Dice("none"), 6)


def test_what_is_left_over_goes_to_the_first_shares():
    assert shared_out(11, (3, 3, 2)) == [4 + 1, 4, 2]
    assert shared_out(7, (1, 1, 2)) == [1 + 1, 1 + 1, 3]


def test_right_answers_take_turns_and_what_is_due_comes_first():
    def candidate(answer, n, *, is_deep=False, is_due=False):
        return Candidate(WhichRole(n, ()), answer, is_deep, is_due)

    many = [candidate("A", n) for n in range(5)]
    few = [
        candidate("B", 5),
        candidate("B", 6, is_deep=True),
        candidate("C", 7),
        candidate("C", 8, is_due=True),
    ]
    chosen = balanced([*many, *few], 5, Dice("turns"))
    assert sorted(one.answer for one in chosen) in [list("AABBC"), list("AABCC"), list("ABBCC")]
    assert chosen[0].is_due
    assert next(one for one in chosen if one.answer == "B").is_deep
