"""Do the rules of Learning score what their plain statement in ``learning_oracles.py`` says? 10,000 drawn
episodes of each, the boundaries of the formulas, answers that were written to deceive, and dialogues that
went wrong."""

import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from pytest import approx
from spec import learning_oracles as oracles
from spec.learning_lakes import (
    MODELS,
    NOON,
    Asked,
    Instances,
    Played,
    declare,
    exam,
    moves,
    practice,
    requests,
    task,
)
from support import built, copy_project, query

from store.settings import Home

N = 10_000
N_TASKS = 100


# ---- what is drawn ----

LABELS = (("YES", "NO", "UNKNOWN"), ("ALERT", "QUIET", "UNKNOWN"), ("on", "on-off"), ("É", "ÉA", "B_1"))
RIGHT: dict[str, tuple[str, ...]] = {
    "substring": ("88", "grön", "a b", "é", "-4", "lo(ck)", "Σίσυφος", "*", "it's"),
    "integer": ("88", "0", "-5", "12345678901234567890123456789", "007"),
    "exact_nfc": ("nˤaru", "tó̤ka", "Kel vin", "ạ̈", "'alu"),
    "sequence": ("A B B A", "1 0 -3 12", "(x, y, Z)", "LRLLR", "#..#", "é 07"),
}
ASIDE = (
    "",
    "",
    "",
    " ",
    "**",
    "`",
    '"',
    "(",
    ")",
    ".",
    "  \t",
    "\N{NO-BREAK SPACE}",
    "\N{RIGHT-TO-LEFT MARK}",
    '",',
    ", ",
    "x",
    "0",
    "_",
    "“",
)
SEPARATORS = (
    "：",
    "\N{NARROW NO-BREAK SPACE}: ",
    ": ",
    ". ",
    ") ",
    "= ",
    "- ",
    ":",
    "**: ",
    ":** ",
    '": "',
    ")) ",
    "` : ",
    ".) ",
)
BEFORE = (
    "",
    "",
    "",
    "- ",
    "**",
    "> ",
    "### Question ",
    "Q",
    "q_",
    "Item #",
    "answer_",
    '"',
    "  a ",
    "* _",
    "(",
    "• ",
    "\N{ZERO WIDTH NO-BREAK SPACE}",
)
NOISE = (
    "",
    "",
    "Let me think.",
    "10 apples",
    "3.",
    "1:",
    "Q:",
    "2 = 1 + 1",
    "\t",
    "{",
    "```",
    "99: x",
    "1234567: y",
)
DIGITS = {
    "full width": "０１２３４５６７８９",
    "Arabic": "٠١٢٣٤٥٦٧٨٩",
    "Persian": "۰۱۲۳۴۵۶۷۸۹",
    "Hindi": "०१२३४५६७८९",
}
DIGITS_UNREAD = "๐๑๒๓๔๕๖๗๘๙"


def edited(rng: random.Random, text: str) -> str:
    """Write an answer otherwise; some of it changes what it says."""
    digits = rng.choice([*DIGITS.values(), DIGITS_UNREAD])
    edits: Sequence[Callable[[], str]] = (
        lambda: text,
        lambda: rng.choice(ASIDE) + text + rng.choice(ASIDE),
        lambda: unicodedata.normalize(rng.choice(["NFD", "NFC"]), text),
        lambda: rng.choice([str.upper, str.lower, str.swapcase])(text),
        lambda: text.translate({ord("0") + value: digit for value, digit in enumerate(digits)}),
        lambda: text.replace("-", "−"),
        lambda: text.replace(" ", rng.choice(["  ", ", ", "; ", "\N{EM SPACE}", ""])),
        lambda: rng.choice(["+", "-", "00", "1", "The answer is ", "not "]) + text,
        lambda: text[: rng.randint(0, len(text))],
        lambda: (
            text + rng.choice([" or NO", " UNKNOWN", " yes", "\0", "9", "\N{COMBINING ACUTE ACCENT}" * 9])
        ),
    )
    return rng.choice(edits)()


def drawn_reply(rng: random.Random, questions: Sequence[Asked]) -> str:
    """Answer in a form that a model may come up with, perhaps not all of them and not in order."""
    lines = []
    for k, asked in enumerate(questions, start=1):
        said = rng.choice([asked.right, asked.right, rng.choice(asked.labels or (asked.right,))])
        for _ in range(rng.choice([0, 0, 1, 2])):
            said = edited(rng, said)
        if rng.random() < 0.97:
            lines.append(f"{rng.choice(BEFORE)}{k}{rng.choice(SEPARATORS)}{said}")
    if rng.random() < 0.2:
        rng.shuffle(lines)
    for _ in range(rng.choice([0, 0, 1, 2])):
        lines.insert(rng.randint(0, len(lines)), rng.choice(NOISE))
    if len(questions) == 1 and rng.random() < 0.5:
        lines = [line for line in [edited(rng, questions[0].right)] if not line[:1].isdigit()]
    return rng.choice(["\n", "\n", "\r\n", "\r"]).join(lines)


def drawn_questions(rng: random.Random, kinds: Sequence[str], n: int) -> list[Asked]:
    questions = []
    for _ in range(n):
        kind = rng.choice(kinds)
        labels = rng.choice(LABELS) if kind == "substring" and rng.random() < 0.6 else ()
        questions.append(Asked(rng.choice(labels or RIGHT[kind]), kind, labels))
    return questions


class Drawn:
    """Tasks, instances and replies of all rules, with what each episode was made from."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, str]] = {}
        self.episodes: dict[str, dict[str, Any]] = {}
        self.instances, self.played = Instances(), Played("played")
        rng = random.Random("learning")
        for name, kinds in (("words", ("substring", "integer")), ("sequences", ("sequence",))):
            for number in range(N_TASKS):
                n = rng.randint(1, 8)
                self.add(f"{name}_{number}", "fraction_correct", self.sheets(rng, kinds, n), n_test_items=n)
        for name, kinds in (("concepts", ("substring", "integer")), ("languages", ("exact_nfc",))):
            for number in range(N_TASKS):
                # at times nothing is left to pay for
                initial, free, n = rng.randint(0, 15), rng.randint(3, 10), rng.randint(1, 5)
                most = rng.randint(max(initial, 3), 20)
                parameters = {"free_threshold": free, "initial_examples": initial, "max_examples": most}
                lessons = self.lessons(rng, kinds, n, most - initial)
                self.add(f"{name}_{number}", "active_induction", lessons, n_test_items=n, **parameters)
        for number in range(N_TASKS):
            budget, min_explore = rng.randint(1, 44), rng.randint(1, 13)
            parameters = {"budget_steps": budget, "min_explore_steps": min_explore}
            self.add(f"games_{number}", "runtime_rl", self.games(rng, budget), **parameters)
        for number in range(N_TASKS):
            budget, min_explore = rng.randint(1, 20), rng.randint(1, 9)
            n, n_rounds = rng.randint(1, 4), rng.randint(1, 7)
            parameters = {
                "budget_steps": budget,
                "min_explore_steps": min_explore,
                "practice_rounds": n_rounds,
            }
            courses = self.courses(rng, n, n_rounds, budget)
            self.add(f"skills_{number}", "procedural", courses, n_test_items=n, **parameters)

    def add(self, task_id: str, rule: str, draw: Callable[[], dict[str, Any]], **parameters: int) -> None:
        self.tasks[task_id] = task(task_id, rule, **parameters)
        for number in range(N // N_TASKS):
            episode = draw()
            episode_id = f"{task_id}/{number}"
            self.episodes[episode_id] = episode | {"task_id": task_id}
            self.instances.add(task_id, episode_id, episode.get("questions", ()))
            self.played.episode(task_id, episode_id, episode["replies"])

    def sheets(self, rng: random.Random, kinds: Sequence[str], n: int) -> Callable[[], dict[str, Any]]:
        def draw() -> dict[str, Any]:
            questions = drawn_questions(rng, kinds, n)
            reply = drawn_reply(rng, questions)
            replies = [{"response_text": reply, "outcome": "examined"}]
            return {"questions": questions, "reply": reply, "replies": replies}

        return draw

    def lessons(
        self, rng: random.Random, kinds: Sequence[str], n: int, n_more: int
    ) -> Callable[[], dict[str, Any]]:
        draw_sheet = self.sheets(rng, kinds, n)

        def draw() -> dict[str, Any]:
            sheet, n_examples = draw_sheet(), rng.randint(0, n_more)
            # what asks for nothing, or for more than there is, costs no example
            asked = requests(n_examples)
            for _ in range(rng.choice([0, 0, 1, 3])):
                outcome = rng.choice(["unread", "no_more"])
                asked.insert(rng.randint(0, len(asked)), {"response_text": "?", "outcome": outcome})
            return sheet | {"replies": [*asked, *sheet["replies"]], "n_examples": n_examples}

        return draw

    def games(self, rng: random.Random, budget: int) -> Callable[[], dict[str, Any]]:
        def draw() -> dict[str, Any]:
            solved_at = rng.choice([None, rng.randint(1, budget)])
            progress = rng.choice([0.0, 1.0, rng.random(), round(rng.random(), 2), -0.5, 1.5, 0.375])
            replies = moves(solved_at, budget, progress)
            # the progress of the last move that was one counts
            for place in rng.sample(range(len(replies) - 1), k=min(len(replies) - 1, rng.randint(0, 3))):
                replies[place] = rng.choice(
                    [
                        {"outcome": "unread", "hidden_values": None},
                        {"outcome": "illegal", "hidden_values": [rng.random()]},
                    ]
                )
            return {"replies": replies, "solved_at": solved_at, "progress": progress}

        return draw

    def courses(self, rng: random.Random, n: int, n_rounds: int, budget: int) -> Callable[[], dict[str, Any]]:
        def draw() -> dict[str, Any]:
            share = rng.random()
            rounds = [rng.randint(1, budget) if rng.random() < share else None for _ in range(n_rounds)]
            n_right = rng.choice([0, rng.randint(0, n)])
            said = ["right"] * n_right + ["wrong"] * (n - n_right)
            return {
                "questions": [Asked("right")] * n,
                "replies": practice(rounds, budget, *said),
                "rounds": rounds,
                "transfer": n_right / n,
            }

        return draw


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return Drawn()


@pytest.fixture(scope="module")
def lake(tmp_path_factory, drawn) -> Home:
    """All drawn episodes, built once. Read only."""
    folder = tmp_path_factory.mktemp("learning")
    project = copy_project(folder / "project")
    declare(project, drawn.tasks.values())
    lake = Home(folder / "lake")
    drawn.instances.commit(lake)
    drawn.played.commit(lake)
    built(lake, project, select=MODELS)
    return lake


@pytest.fixture(scope="module")
def scores(lake) -> dict[str, dict[str, Any]]:
    return {row["episode_id"]: row for row in query(lake, "select * from int_learning_episodes")}


def of(drawn: Drawn, name: str) -> dict[str, dict[str, Any]]:
    found = {key: episode for key, episode in drawn.episodes.items() if key.startswith(f"{name}_")}
    assert len(found) == N
    return found


def number(drawn: Drawn, episode: dict[str, Any], column: str) -> int:
    return int(drawn.tasks[episode["task_id"]][column])


# ---- 10,000 of each ----


def test_every_drawn_episode_has_a_score(drawn, scores):
    assert scores.keys() == drawn.episodes.keys()
    assert {(row["status"], row["status_reason"]) for row in scores.values()} == {("ok", None)}


def test_answers_are_read_and_compared_as_the_plain_statement_says(drawn, lake):
    found = {
        (row["episode_id"], row["question"]): row for row in query(lake, "select * from int_learning_answers")
    }
    outcomes: Counter[tuple[str, bool, bool]] = Counter()
    wrong = []
    for key, episode in drawn.episodes.items():
        if "reply" not in episode:
            continue
        said = oracles.answers(episode["reply"], len(episode["questions"]))
        for k, asked in enumerate(episode["questions"], start=1):
            row = found[key, k]
            is_right = oracles.is_right(asked.match_kind, said[k], asked.right)
            expected = {
                "answer": said[k],
                "is_correct": is_right,
                "is_strict": oracles.is_strictly_right(asked.match_kind, said[k], asked.right, asked.labels),
                "n_labels_matched": oracles.n_labels_matched(said[k], asked.labels),
                "position_accuracy": approx(float(oracles.position_accuracy(said[k], asked.right)))
                if asked.match_kind == "sequence"
                else None,
                "status": "unparsed" if said[k] is None else "ok",
            }
            outcomes[asked.match_kind, is_right, expected["is_strict"]] += 1
            if {name: row[name] for name in expected} != expected:
                wrong.append((episode["reply"], asked, expected, row))
    assert wrong == []
    # a draw that never met one of them would show nothing
    assert all(outcomes[kind, credit, credit] > 500 for kind in RIGHT for credit in (True, False)), outcomes
    assert outcomes["substring", True, False] > 500, outcomes


def n_right(episode: dict[str, Any]) -> int:
    said = oracles.answers(episode["reply"], len(episode["questions"]))
    return sum(
        oracles.is_right(asked.match_kind, said[k], asked.right)
        for k, asked in enumerate(episode["questions"], start=1)
    )


@pytest.mark.parametrize("name", ["words", "sequences"])
def test_a_share_of_right_answers_is_the_score(drawn, scores, name):
    for key, episode in of(drawn, name).items():
        assert scores[key]["value"] == oracles.fraction_correct(n_right(episode), len(episode["questions"]))


@pytest.mark.parametrize("name", ["concepts", "languages"])
def test_active_induction_is_accuracy_times_what_was_saved(drawn, scores, name):
    for key, episode in of(drawn, name).items():
        initial = number(drawn, episode, "initial_examples")
        assert scores[key]["examples_used"] == initial + episode["n_examples"]
        assert scores[key]["value"] == oracles.active_induction(
            n_right(episode),
            len(episode["questions"]),
            initial + episode["n_examples"],
            initial,
            number(drawn, episode, "free_threshold"),
            number(drawn, episode, "max_examples"),
        ), episode


def test_a_game_is_success_efficiency_and_progress_rounded_as_python_rounds(drawn, scores):
    for key, episode in of(drawn, "games").items():
        assert scores[key]["value"] == oracles.runtime_rl(
            episode["solved_at"],
            number(drawn, episode, "budget_steps"),
            number(drawn, episode, "min_explore_steps"),
            episode["progress"],
        ), episode


def test_practice_is_transfer_asymptote_trajectory_and_consistency(drawn, scores):
    n_tied = 0
    for key, episode in of(drawn, "skills").items():
        budget, free = (number(drawn, episode, each) for each in ("budget_steps", "min_explore_steps"))
        rounds = [oracles.step_efficiency(step, budget, free) for step in episode["rounds"]]
        allowed = oracles.procedural(rounds, episode["transfer"])
        n_tied += len(allowed) > 1
        assert scores[key]["value"] in allowed, (episode, scores[key], allowed)
        parts = oracles.curve([Fraction(each) for each in rounds])
        assert scores[key]["transfer"] == episode["transfer"]
        assert scores[key]["asymptote"] == approx(float(parts.asymptote), abs=1e-15)
        assert scores[key]["consistency"] == approx(float(parts.consistency), abs=1e-15)
        assert scores[key]["trajectory"] in [float(each) for each in oracles.roundings(parts.slope, 4)]
    # ties are rare, so that hardly any score is let off
    assert n_tied < N / 100


def test_a_score_is_the_same_in_any_build(tmp_path_factory, drawn, scores):
    folder = tmp_path_factory.mktemp("again")
    project = copy_project(folder / "project")
    declare(project, drawn.tasks.values())
    lake = Home(folder / "lake")
    drawn.instances.commit(lake)
    drawn.played.commit(lake)
    built(lake, project, select=MODELS, threads=1)
    assert {row["episode_id"]: row for row in query(lake, "select * from int_learning_episodes")} == scores


# ---- boundaries, one by one ----

LONG = 1_000_000
NEVER = "the episode was not brought to its end"


def sheet(right: str, said: str | None, match_kind: str = "substring", labels: Sequence[str] = ()) -> Any:
    return [Asked(right, match_kind, labels)], [exam(said)]


GAME = {"budget_steps": 40, "min_explore_steps": 7}
CONCEPT = {"free_threshold": 5, "initial_examples": 3, "max_examples": 16, "n_test_items": 4}
SKILL = {"budget_steps": 10, "min_explore_steps": 1, "n_test_items": 4}
YES = [Asked("yes")]


def concept(n_right: int, n_more: int) -> Any:
    return YES * 4, [*requests(n_more), exam(*["yes"] * n_right, *["no"] * (4 - n_right))]


def skill(rounds: Sequence[int | None], n_right: int, budget: int = 10) -> Any:
    return YES * 4, practice(rounds, budget, *["yes"] * n_right, *["no"] * (4 - n_right))


# task -> what it is, and episode -> questions, replies and the value or what keeps it from having one
CASES: dict[str, tuple[dict[str, str], dict[str, tuple[Any, Any]]]] = {
    "concept": (
        task("concept_1", "active_induction", **CONCEPT),
        {
            "all right, none asked for": (concept(4, 0), 1.0),
            "all right, all free ones used": (concept(4, 2), 1.0),
            "all right, the first that costs": (concept(4, 3), 0.40 + 0.60 * (1 - 1 / 11)),
            "all right, all examples used": (concept(4, 13), 0.40),
            "all right, more than there are": (concept(4, 20), 0.40),
            "half right, none asked for": (concept(2, 0), 0.50),
            "half right, all examples used": (concept(2, 13), 0.20),
            "none right": (concept(0, 0), 0.0),
            "none right, all examples used": (concept(0, 13), 0.0),
        },
    ),
    "all free": (
        task("free_1", "active_induction", **(CONCEPT | {"max_examples": 5})),
        {
            "as many examples as are free": (concept(4, 2), 1.0),
            "more examples than there are": (concept(4, 9), 1.0),
        },
    ),
    "free to begin with": (
        task("begun_1", "active_induction", **(CONCEPT | {"initial_examples": 12})),
        {"four of four that cost": (concept(4, 4), 0.40), "one of them": (concept(4, 1), 0.40 + 0.60 * 0.75)},
    ),
    "game": (
        task("game_1", "runtime_rl", **GAME),
        {
            "at once": (([], moves(1, 40, 1.0)), 1.0),
            "the last step that costs nothing": (([], moves(7, 40, 1.0)), 1.0),
            "the first that costs": (([], moves(8, 40, 1.0)), 0.9932),
            "the last of the budget": (([], moves(40, 40, 1.0)), 0.775),
            "beyond the budget": (([], moves(45, 40, 1.0)), 0.775),
            "not solved, nearly": (([], moves(None, 40, 0.9)), 0.18),
            "not solved, not a step nearer": (([], moves(None, 40, 0.0)), 0.0),
            "not solved, nothing read": (([], [{"outcome": "unread"}] * 40), 0.0),
            "not solved, illegal forever": (
                ([], [{"outcome": "illegal", "hidden_values": [0.25]}] * 40),
                0.05,
            ),
            "progress beyond the goal": (([], moves(None, 40, 7.0)), 0.2),
            "progress below the start": (([], moves(None, 40, -7.0)), 0.0),
            # 0.55 + 0.25 + 0.2 x 0.00025 is halfway in decimals and below it as a double
            "progress halfway between two decimals": (
                ([], moves(1, 40, 0.00025)),
                round(0.8 + 0.2 * 0.00025, 4),
            ),
        },
    ),
    "budget that is all free": (
        task("brief_1", "runtime_rl", budget_steps=5, min_explore_steps=5),
        {"the last": (([], moves(5, 5, 1.0)), 1.0), "not solved": (([], moves(None, 5, 0.5)), 0.1)},
    ),
    "budget within what is free": (
        task("within_1", "runtime_rl", budget_steps=3, min_explore_steps=9),
        {"the last": (([], moves(3, 3, 1.0)), 1.0)},
    ),
    "skill": (
        task("skill_1", "procedural", practice_rounds=5, **SKILL),
        {
            # without a rise 1/2 of a quarter is lost
            "perfect from the first round on": (skill([1] * 5, 4), 0.30 + 0.25 + 0.125 + 0.20),
            "never": (skill([None] * 5, 0), 0.0),
            "never, but one transfer": (skill([None] * 5, 1), 0.075 + 0.125),
            # slope of 0, 0, 1, 1, 1 is 0.3, times 4 more than the steepest
            "from failing to perfect": (
                skill([None, None, 1, 1, 1], 4),
                round(0.30 + 0.25 + 0.25 + 0.20 * (3 + 4 + 5) / 15, 4),
            ),
            "from perfect to failing": (
                skill([1, 1, None, None, None], 0),
                # guarded: the last rounds and the transfer show nothing
                0.0,
            ),
            "from perfect to failing, one transfer": (
                skill([1, 1, None, None, None], 1),
                round(0.075 + 0.20 * (1 + 2) / 15, 4),
            ),
        },
    ),
    "one round": (
        task("single_1", "procedural", practice_rounds=1, **SKILL),
        {
            "solved": (skill([1], 4), 0.30 + 0.25 + 0.125 + 0.20),
            "not solved": (skill([None], 4), 0.30 + 0.125),
            "not solved and nothing known": (skill([None], 0), 0.0),
        },
    ),
    "no practice": (
        task("none_1", "procedural", practice_rounds=0, **SKILL),
        {"transfer alone": (skill([], 4), "the task has no practice rounds")},
    ),
    "rounds that are free": (
        task(
            "relaxed_1", "procedural", practice_rounds=2, budget_steps=3, min_explore_steps=3, n_test_items=4
        ),
        {"solved at the last": (skill([3, 3], 4, 3), 0.30 + 0.25 + 0.125 + 0.20)},
    ),
    "short rounds": (
        task("short_1", "procedural", practice_rounds=5, budget_steps=4, min_explore_steps=2, n_test_items=4),
        {"solved at the last": (skill([4] * 5, 4, 4), 0.30 + 0.025 + 0.125 + 0.02)},
    ),
    "an even number of rounds": (
        task("even_1", "procedural", practice_rounds=4, budget_steps=4, min_explore_steps=1, n_test_items=4),
        {"solved at the last": (skill([4] * 4, 4, 4), 0.30 + 0.025 + 0.125 + 0.02)},
    ),
    "labels": (
        task("labels_1", "fraction_correct", n_test_items=1),
        {
            "all labels in one answer": (
                sheet("UNKNOWN", "ALERT, QUIET or UNKNOWN", labels=("ALERT", "QUIET", "UNKNOWN")),
                1.0,
            ),
            "one label inside another": (sheet("NO", "UNKNOWN", labels=("YES", "NO", "UNKNOWN")), 1.0),
            "other capitals": (sheet("NO", "no", labels=("YES", "NO", "UNKNOWN")), 1.0),
            "nothing": (sheet("NO", None, labels=("YES", "NO", "UNKNOWN")), 0.0),
            "no text at all": (([Asked("NO")], [exam(response_text=None)]), 0.0),
            "an empty reply": (([Asked("NO")], [exam(response_text="")]), 0.0),
            "a reply without a number": (([Asked("NO")], [exam(response_text="\n I say no.\r\n")]), 1.0),
            "only another number": (([Asked("NO")], [exam(response_text="2: no")]), 0.0),
            "the last of several": (([Asked("NO")], [exam(response_text="1: yes\nQ1. no\n1) **yes**")]), 0.0),
            "JSON": (([Asked("NO")], [exam(response_text='{\n  "answer_1": "No",\n}')]), 1.0),
            "a heading": (([Asked("NO")], [exam(response_text="### Question 1: **no**")]), 1.0),
            "headings behind the answer": (
                ([Asked("NO")], [exam(response_text="1: no\n**Question 1:**\nIt was alone.\n1:")]),
                1.0,
            ),
            "a number in brackets": (([Asked("NO")], [exam(response_text="(1) no")]), 1.0),
            "a full-width colon": (([Asked("NO")], [exam(response_text="1：no")]), 1.0),
            "a mark of byte order": (([Asked("NO")], [exam(response_text="\ufeff1: no")]), 1.0),
            "a space that does not break": (([Asked("NO")], [exam(response_text="Q\xa01\u202f: no")]), 1.0),
        },
    ),
    "numbers": (
        task("numbers_1", "fraction_correct", n_test_items=1),
        {
            "88 in 188": (sheet("88", "188", "integer"), 0.0),
            "88 as text in 188": (sheet("88", "188"), 1.0),
            "full-width": (sheet("88", "８８", "integer"), 1.0),
            "Arabic-Indic": (sheet("88", "**٨٨.**", "integer"), 1.0),
            "Persian": (sheet("88", "(۸۸)", "integer"), 1.0),
            "Hindi": (sheet("88", "'८८'", "integer"), 1.0),
            "digits of several scripts": (sheet("88", "8８", "integer"), 1.0),
            "a minus sign": (sheet("-88", "−0088", "integer"), 1.0),
            "a plus sign": (sheet("88", "+088", "integer"), 1.0),
            "full-width signs": (sheet("-88", "－８８", "integer"), 1.0),
            "a line of JSON": (([Asked("88", "integer")], [exam(response_text='{\n "1": "88",\n}')]), 1.0),
            "a number of JSON": (([Asked("88", "integer")], [exam(response_text='{\n "1": 88,\n}')]), 1.0),
            "marks of direction": (sheet("88", "\u200f٨٨\u200e", "integer"), 1.0),
            "narrow spaces": (sheet("88", "\u202f88\u2009", "integer"), 1.0),
            "no number": (sheet("88", "eighty-eight", "integer"), 0.0),
            "two numbers": (sheet("88", "88 88", "integer"), 0.0),
            "as a decimal": (sheet("88", "88.0", "integer"), 0.0),
            "minus nothing": (sheet("0", "-00", "integer"), 1.0),
            "longer than any integer": (sheet("9" * 400, "0" + "9" * 400, "integer"), 1.0),
            "a digit less": (sheet("9" * 400, "9" * 399, "integer"), 0.0),
        },
    ),
    "forms": (
        task("forms_1", "fraction_correct", n_test_items=1),
        {
            "accents in either order": (
                sheet("a\N{COMBINING DOT BELOW}\N{COMBINING TILDE}", "a\u0303\u0323", "exact_nfc"),
                1.0,
            ),
            "composed": (sheet("tó", "to\N{COMBINING ACUTE ACCENT}", "exact_nfc"), 1.0),
            "a line of JSON": (
                ([Asked("tó", "exact_nfc")], [exam(response_text='{\n  "1": "tó",\n}')]),
                1.0,
            ),
            "what takes no room": (sheet("tó", "\u200etó\u200b", "exact_nfc"), 1.0),
            "an accent less": (sheet("tó", "to", "exact_nfc"), 0.0),
            "an accent more": (sheet("to", "tó", "exact_nfc"), 0.0),
            "a raised letter": (sheet("nˤa", "na", "exact_nfc"), 0.0),
            "other capitals": (sheet("Kel", "kel", "exact_nfc"), 0.0),
            "white space": (sheet("a b", " a \t\N{NO-BREAK SPACE} b ", "exact_nfc"), 1.0),
            "a word more": (sheet("kel", "the form is kel", "exact_nfc"), 0.0),
            "in marks": (sheet("kel", "**`kel`**", "exact_nfc"), 1.0),
        },
    ),
    "sequences": (
        task("sequences_1", "fraction_correct", n_test_items=1),
        {
            "commas and brackets": (sheet("A B 12", "[a, B; 012]", "sequence"), 1.0),
            "one wrong": (sheet("A B B A", "A B A A", "sequence"), 0.0),
            "too long": (sheet("A B", "A B B", "sequence"), 0.0),
            "too short": (sheet("A B", "A", "sequence"), 0.0),
            "one word": (sheet("LRLLR", "LRLRR", "sequence"), 0.0),
            "nothing": (sheet("A B", None, "sequence"), 0.0),
        },
    ),
    "a megabyte": (
        task("long_1", "fraction_correct", n_test_items=1),
        {
            "of words": (([Asked("NO")], [exam(response_text="well " * (LONG // 5) + "no")]), 1.0),
            "of lines": (([Asked("NO")], [exam(response_text="1: no\n" * (LONG // 6) + "1: yes")]), 0.0),
            "of accents": (
                ([Asked("é", "exact_nfc")], [exam(response_text="1: e" + "\u0301\u0323" * (LONG // 2))]),
                0.0,
            ),
            "of accents to search": (
                ([Asked("é")], [exam(response_text="1: e" + "\u0301\u0323" * (LONG // 2) + " é")]),
                1.0,
            ),
            "of digits": (([Asked("7", "integer")], [exam(response_text="1: 7" + "7" * LONG)]), 0.0),
            "of elements": (
                ([Asked("7", "sequence")], [exam(response_text="1: 7" + " 7" * (LONG // 2))]),
                0.0,
            ),
            "of spaces": (([Asked("7", "exact_nfc")], [exam(response_text="1:" + " " * LONG + "7")]), 1.0),
            "of marks": (([Asked("7")], [exam(response_text="*" * LONG)]), 0.0),
        },
    ),
    "what went wrong": (
        task("wrong_1", "fraction_correct", n_test_items=1),
        {
            "an error": (
                (YES, [exam("yes", status="error", status_reason="the server is gone")]),
                "the server is gone",
            ),
            "too long": (
                (YES, [exam("yes", status="too_long", status_reason="9,000 tokens")]),
                "9,000 tokens",
            ),
            "an error without a word": ((YES, [exam("yes", status="error")]), "error"),
            "an error and then answers": (
                (YES, [{"status": "error", "status_reason": "first"}, exam("yes", status="error")]),
                "first",
            ),
            "no answers": ((YES, [{"outcome": "unread"}]), NEVER),
            "answers twice": ((YES, [exam("yes"), exam("no")]), "examined 2 times"),
            "a reply that is missing": (
                (YES, [exam("yes", step_index=1)]),
                "some are missing or stored twice",
            ),
            "a reply that is there twice": (
                (YES, [{"step_index": 0}, {"step_index": 0}, exam("yes", step_index=1)]),
                "3 replies at 2 places: some are stored twice",
            ),
            "a reply that is there twice in the place of another": (
                (YES, [*[{"step_index": 0, "outcome": "unread"}] * 2, exam("yes", step_index=2)]),
                "3 replies at 2 places: some are stored twice",
            ),
            "an outcome that nobody knows": (
                (YES, [{"outcome": "flown"}, exam("yes")]),
                "reply 1 led to nothing that is known as an outcome",
            ),
            "a question too many": ((YES * 2, [exam("yes", "yes")]), "2 questions where 1 are declared"),
            "not asked": ((YES, None), "the episode was not asked"),
        },
    ),
    "games that went wrong": (
        task("broken_1", "runtime_rl", **GAME),
        {
            "not at its end": (([], moves(3, 40, 0.5, is_last=False)), NEVER),
            "an error on the way": (
                ([], [*moves(None, 3, 0.5), {"status": "error", "status_reason": "gone"}]),
                "gone",
            ),
            "a progress that is no number": (([], moves(None, 40, float("nan"))), "the progress is nan"),
            "a progress without end": (([], moves(3, 40, float("inf"))), "the progress is inf"),
            "no progress": (([], moves(3, 40, None)), "no progress is stored with its moves"),
            "an end that is none": (
                ([], [*moves(None, 1, 0.5, is_last=True), *moves(None, 1, 0.5, is_last=False)]),
                NEVER,
            ),
            "moves after it was solved": (
                ([], [*moves(2, 40, 1.0), *moves(None, 2, 0.5)]),
                "solved at reply 2 and gone on with until reply 4",
            ),
            "an outcome that is missing": (
                ([], [{"hidden_values": [0.5]}]),
                "reply 1 led to nothing that is known as an outcome",
            ),
        },
    ),
    "practice that went wrong": (
        task("stopped_1", "procedural", practice_rounds=3, **SKILL),
        {
            "too few rounds": (skill([1, 1], 4), "2 practice rounds where 3 are declared"),
            "too many rounds": (skill([1] * 4, 4), "4 practice rounds where 3 are declared"),
            "no round": (skill([], 4), "no practice round was begun"),
            "no transfer": ((YES * 4, practice([1, 1, 1], 10)[:-1]), NEVER),
            "a round left out": (
                (YES * 4, [move | {"trial": 2 * move["trial"]} for move in practice([1, 1, 1], 10)]),
                "3 practice rounds of which the last is number 5",
            ),
            "a round that breaks off": (
                (YES * 4, [reply for place, reply in enumerate(practice([1, None, 1], 10)) if place != 3]),
                "practice round 2 ended before it was solved and before its replies were used up",
            ),
            "a round that goes on": (
                (
                    YES * 4,
                    [reply for reply in practice([1, 1, 1], 10) for _ in range(1 + (reply["trial"] == 0))],
                ),
                "practice round 1 goes on after it was solved",
            ),
            "rounds in another order": (
                (YES * 4, [*reversed(practice([1, 1, 1], 10)[:-1]), exam(*["yes"] * 4, trial=3)]),
                "practice round 1 does not follow what came before it",
            ),
            "transfer before practice": (
                (YES * 4, [exam(*["yes"] * 4, trial=3), *practice([1, 1, 1], 10)[:-1]]),
                "practice round 1 does not follow what came before it",
            ),
        },
    ),
    "a row without a maximum": (
        task("open_1", "active_induction", **(CONCEPT | {"max_examples": None})),
        {
            "free examples": (concept(4, 2), 1.0),
            "examples that cost": (concept(4, 3), "the task lacks a parameter of its formula"),
        },
    ),
    "a row without a budget": (
        task("endless_1", "runtime_rl", budget_steps=None, min_explore_steps=7),
        {
            "solved": (([], moves(1, 40, 1.0)), "the task lacks a parameter of its formula"),
            "not solved": (([], moves(None, 40, 0.5)), 0.1),
        },
    ),
    "a row without a share": (
        task("shareless_1", "procedural", practice_rounds=2, asymptote_share=None, **SKILL),
        {"solved": (skill([1, 1], 4), "the task lacks a parameter of its formula")},
    ),
    "a row that free steps cost": (
        task("paid_1", "runtime_rl", budget_steps=2, min_explore_steps=0),
        {"at once": (([], moves(1, 2, 1.0)), 0.55 + 0.25 * (1 - 0.9 / 2) + 0.2)},
    ),
    "a row without a parameter": (
        task("bare_1", "runtime_rl", budget_steps=40, min_explore_steps=7, weight_progress=None),
        {"solved": (([], moves(1, 40, 1.0)), "the task lacks a parameter of its formula")},
    ),
}


def episodes_of_cases() -> Sequence[tuple[str, str, Any, Any]]:
    return [
        (row["task_id"], f"{row['task_id']}/{name}", asked, expected)
        for row, episodes in CASES.values()
        for name, (asked, expected) in episodes.items()
    ]


# one category whose tasks all have a score, one with a task that is never asked
REPORTED = [
    task("whole_1", "fraction_correct", n_test_items=2, category="observational_learning"),
    task("whole_2", "fraction_correct", n_test_items=2, category="observational_learning"),
    task("part_1", "active_induction", category="language_learning", **(CONCEPT | {"n_test_items": 2})),
    task("part_2", "active_induction", category="language_learning", **(CONCEPT | {"n_test_items": 2})),
]


def commit_reported(lake: Home) -> None:
    """Evaluations of two instances per task: a model, random play, one of older instances, and a namesake."""
    for version in (1, 2):
        instances = Instances(f"reported-v{version}", version)
        for row in REPORTED:
            for number in range(2):
                instances.add(row["task_id"], f"{row['task_id']}/{number}", YES * 2)
        instances.commit(lake)
    # of the model's runs one was asked older instances, one was begun again
    told = {
        "model": ("reported-v2", "hub/model", {}, {"whole_1": (2, 1), "whole_2": (2, 2), "part_1": (1, 0)}),
        "model-older": (
            "reported-v1",
            "hub/model",
            {},
            {"whole_1": (0, 0), "whole_2": (0, 0), "part_1": (0, 0)},
        ),
        "model-before": (
            "reported-v2",
            "hub/model",
            {"started_at": None},
            {"whole_1": (0, 0), "whole_2": (0, 0), "part_1": (0, 0)},
        ),
        "random": (
            "reported-v2",
            "random",
            # a task that is planned twice is asked once
            {"agent_kind": "policy", "kind": "uniform", "planned_modes": ["whole_1", "whole_2", "whole_1"]},
            {"whole_1": (1, 0), "whole_2": (0, 0)},
        ),
        "outdated": ("reported-v1", "hub/other", {}, {"whole_1": (2, 2), "whole_2": (2, 2)}),
        # a model that is called as the agent is
        "namesake": (
            "reported-v2",
            "random",
            {"started_at": NOON + timedelta(days=1)},
            {"whole_1": (2, 2), "whole_2": (2, 2)},
        ),
    }
    for run_id, (of_run, model_id, columns, n_right_of) in told.items():
        evaluation_id = "model" if run_id.startswith("model") else run_id
        played = Played(run_id, evaluation_id, model_id, of_run, columns)
        for task_id, n_rights in n_right_of.items():
            for number, right in enumerate(n_rights):
                said = ["yes"] * right + ["no"] * (2 - right)
                begun = requests(0) if task_id.startswith("part") else []
                played.episode(task_id, f"{task_id}/{number}", [*begun, exam(*said)])
        played.commit(lake)


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> Home:
    """Every case, and a report, built once. Read only."""
    folder = tmp_path_factory.mktemp("cases")
    project = copy_project(folder / "project")
    declare(project, [*(row for row, _ in CASES.values()), *REPORTED])
    lake = Home(folder / "lake")
    instances, played = Instances(), Played("played", "cases")
    for task_id, episode_id, (questions, replies), _ in episodes_of_cases():
        instances.add(task_id, episode_id, questions)
        if replies is not None:
            played.episode(task_id, episode_id, replies)
    instances.commit(lake)
    played.commit(lake)
    commit_reported(lake)
    built(lake, project, select=MODELS)
    return lake


@pytest.fixture(scope="module")
def found(cases) -> dict[str, dict[str, Any]]:
    rows = query(cases, "select * from int_learning_episodes where run_id = 'played'")
    return {row["episode_id"]: row for row in rows}


@pytest.mark.parametrize(
    ("episode_id", "expected"),
    [(episode_id, expected) for _, episode_id, _, expected in episodes_of_cases()],
    ids=lambda value: value if isinstance(value, str) and "/" in value else "",
)
def test_a_boundary_is_scored_or_refused_as_the_rule_says(found, episode_id, expected):
    row = found[episode_id]
    if isinstance(expected, str):
        assert row["value"] is None and row["strict_value"] is None
        assert expected in row["status_reason"]
        assert row["status"] == ("too_long" if "tokens" in expected else "error")
    else:
        assert (row["value"], row["status"], row["status_reason"]) == (
            approx(expected, abs=1e-12),
            "ok",
            None,
        )


def test_strict_matches_stand_beside_the_score(cases):
    rows = {
        row["episode_id"].partition("/")[2]: (row["is_correct"], row["is_strict"], row["n_labels_matched"])
        for row in query(cases, "select * from int_learning_answers where mode_id = 'labels_1'")
    }
    assert rows["all labels in one answer"] == (True, False, 3)
    assert rows["one label inside another"] == (True, False, 2)
    assert rows["other capitals"] == (True, True, 1)
    assert rows["nothing"] == (False, False, 0)


def test_position_accuracy_counts_elements_or_the_letters_of_one_word(cases):
    rows = {
        row["episode_id"].partition("/")[2]: row["position_accuracy"]
        for row in query(cases, "select * from int_learning_answers where mode_id = 'sequences_1'")
    }
    assert rows == {
        "commas and brackets": 1.0,
        "one wrong": 3 / 4,
        "too long": 1.0,
        "too short": 1 / 2,
        "one word": 4 / 5,
        "nothing": 0.0,
    }


def test_parts_of_a_score_are_kept_beside_it(found):
    row = found["skill_1/from failing to perfect"]
    parts = {name: row[name] for name in ("transfer", "asymptote", "trajectory", "consistency")}
    assert parts == {"transfer": 1.0, "asymptote": 1.0, "trajectory": 1.0, "consistency": approx(12 / 15)}
    row = found["game_1/the first that costs"]
    assert (row["success"], row["progress"], row["solved_at_reply"]) == (1.0, 1.0, 8)
    assert row["efficiency"] == approx(1 - 0.9 / 33)
    row = found["concept_1/half right, all examples used"]
    assert (row["accuracy"], row["efficiency"], row["examples_used"]) == (0.5, 0.0, 16)


def test_a_task_has_a_score_only_if_every_planned_instance_has_one(cases):
    rows = {
        row["task_id"]: row for row in query(cases, "select * from learning_scores where run_id = 'cases'")
    }
    assert rows["wrong_1"]["value"] is None
    assert rows["wrong_1"]["n_planned"] == len(CASES["what went wrong"][1])
    assert (rows["wrong_1"]["n_scored"], rows["wrong_1"]["n_too_long"]) == (0, 1)
    assert f"0 of {rows['wrong_1']['n_planned']} instances have a score" in rows["wrong_1"]["reason"]
    assert (rows["wrong_1"]["value_count_as_wrong"], rows["wrong_1"]["se_reason"]) == (0, "there is no value")
    values = [expected for _, expected in CASES["concept"][1].values()]
    assert rows["concept_1"]["value"] == approx(sum(values) / len(values))
    assert rows["concept_1"]["reason"] is None


# ---- reports ----


def test_a_category_has_a_score_only_if_all_declared_tasks_do(cases):
    rows = {
        row["category"]: row for row in query(cases, "select * from learning_report where run_id = 'model'")
    }
    assert rows.keys() == {
        "associative_learning",
        "concept_formation",
        "language_learning",
        "observational_learning",
        "runtime_rl",
        "procedural_learning",
    }
    whole = rows["observational_learning"]
    # tasks of 3/4 and 1
    assert (whole["score"], whole["n_tasks"], whole["n_planned"]) == (approx(7 / 8), 2, 2)
    # two instances of 1 and 1/2, whose mean has an error of 1/4, and two of 1 and 1, whose mean has none
    assert whole["se"] == approx((0.25**2 + 0**2) ** 0.5 / 2)
    assert (whole["n_clusters"], whole["score_count_as_wrong"]) == (4, whole["score"])
    assert (whole["n_episodes"], whole["n_episodes_planned"], whole["reason"]) == (4, 4, None)
    part = rows["language_learning"]
    assert (part["score"], part["score_scored"], part["n_tasks"], part["n_planned"]) == (None, 1 / 4, 1, 2)
    assert part["reason"] == "1 of 2 tasks have a score, the first without: part_2: not asked"
    assert part["score_count_as_wrong"] is None  # what was not asked is no wrong answer
    unasked = rows["runtime_rl"]
    assert (unasked["score"], unasked["n_tasks"]) == (None, 0)
    assert unasked["reason"] == "no task of the category was asked"


def test_a_floor_is_random_play_of_the_same_instances(cases):
    rows = {
        row["run_id"]: row
        for row in query(cases, "select * from learning_report where category = 'observational_learning'")
    }
    # tasks of 1/4 and 0
    assert rows["model"]["floor"] == rows["random"]["floor"] == rows["random"]["score"] == approx(1 / 8)
    assert rows["model"]["floor_because"] is None
    assert (rows["namesake"]["score"], rows["namesake"]["floor"]) == (1.0, approx(1 / 8))
    assert rows["outdated"]["score"] == 1.0 and rows["outdated"]["floor"] is None
    assert "random play of the same instances of whole_1" in rows["outdated"]["floor_because"]
    assert {run_id: row["n_older_tasks"] for run_id, row in rows.items() if row["n_older_tasks"]} == {
        "outdated": 2
    }
    [language] = query(
        cases, "select * from learning_report where run_id = 'model' and category = 'language_learning'"
    )
    assert language["floor"] is None and "part_1" in language["floor_because"]


def test_curves_are_means_over_instances_round_by_round(cases):
    rows = query(cases, "select * from learning_curves where task_id = 'skill_1' order by round")
    courses = [[1] * 5, [None] * 5, [None] * 5, [None, None, 1, 1, 1], [1, 1, None, None, None]]
    courses.append(courses[-1])
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        solved = [float(course[row["round"] - 1] is not None) for course in courses]
        mean = sum(solved) / 6
        assert (row["efficiency"], row["solved_share"], row["n"]) == (approx(mean), approx(mean), 6)
        assert row["se"] == approx((sum((each - mean) ** 2 for each in solved) / 5 / 6) ** 0.5)


def test_shares_of_solved_games_never_fall(cases):
    rows = query(cases, "select * from learning_solved where task_id = 'game_1' order by step")
    assert [row["step"] for row in rows] == list(range(1, 41))
    shares = [row["solved_share"] for row in rows]
    assert all(one <= other for one, other in pairwise(shares))
    # of twelve games two are solved at the first step, and five within the budget
    assert (shares[0], shares[7], shares[39]) == (approx(2 / 12), approx(4 / 12), approx(5 / 12))


@pytest.mark.parametrize(
    ("task_id", "n_rounds", "budget", "min_explore"),
    [("short_1", 5, 4, 2), ("even_1", 4, 4, 1), ("single_1", 1, 10, 1), ("stopped_1", 3, 10, 1)],
)
def test_a_ceiling_is_the_best_of_all_courses(cases, task_id, n_rounds, budget, min_explore):
    [row] = query(cases, "select * from int_learning_ceilings where task_id = $1", task_id)
    steps = [None, *range(1, budget + 1)]
    efficiencies = [oracles.step_efficiency(step, budget, min_explore) for step in steps]
    assert row["ceiling"] == oracles.highest_procedural(efficiencies, n_rounds)


def test_other_rules_reach_one(cases):
    rows = query(
        cases,
        "select distinct ceiling from int_learning_ceilings inner join learning_tasks using (task_id) "
        "where score_rule <> 'procedural'",
    )
    assert rows == [{"ceiling": 1.0}]
