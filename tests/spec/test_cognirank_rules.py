"""CogniRank's rules for single items: each against the plain Python statement of it in ``oracles.py``, over
drawn and hostile answers; what builds do to them; and that Table 3 does not know they are there."""

import json
import math
import random
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from pytest import approx
from spec import oracles
from spec.oracles import Given
from support import (
    MARTS,
    built,
    copy_lake,
    copy_project,
    mart_hashes,
    query,
    raw_hashes,
    relation_hash,
)

from generate.standins import MAKERS
from store.lake import commit, commit_batch, open_run
from store.protocol import load_graders, load_metrics
from store.schemas import ITEMS, RAW_TABLES, RUNS
from store.settings import Home

Row = dict[str, Any]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS, GRIDS, STORIES, PILE = "smolcua_like", "marc_like", "ttm_like", "pile_like"
[GRADER] = load_graders().values()
READOUTS = tuple(oracles.LENGTHS)
RULES = ("answer_match", "normalised_likelihood", "verdict")
# with what they read: enough where nothing but a score can change
THESE_RULES = tuple(f"+int_scored__{rule}" for rule in RULES)


# ---- answers in words ----


@dataclass(frozen=True)
class Asked:
    """One question with an answer format, and one answer to it."""

    answer_format: str
    credited: tuple[str, ...]
    response: str
    choices: tuple[str, ...] = ()

    @property
    def mode_id(self) -> str:
        return GRIDS if self.answer_format == "grid" else WORDS

    @property
    def expected(self) -> int:
        return oracles.answer_match(self.answer_format, self.response, self.credited, self.choices)


KEYS: dict[str, list[tuple[str, ...]]] = {
    "choice": [("e7",), ("Save as",), ("3",), ("yes", "no")],
    "integer": [("12",), ("-5",), ("0",), ("1200", "7")],
    "word": [("notes.txt",), ("Inc.", "GmbH"), ("café",), ("'tis",), ("e.g.",), ("Ångström",), ("İzmir",)],
    "action": [
        ("click(e7)",),
        ('type(e3, "red, shoes")', 'type(e3, "red ( shoes")'),
        ('drag(e1, e2, "a")',),
        ('say("é")',),
        ("wait()", "scroll(down)"),
    ],
    "text": [("The café is open.",), ("Σίσυφος",), ("No",), ("a\u3000b", "Straße 1"), ("İ",)],
    "steps": [
        ('click(e1)\ntype(e2, "1. x")\npress("Enter")',),
        ("click(e7)", "wait()\nclick(e7)"),
        ("open(é)\nclose(é)",),
    ],
    "grid": [("1 0\n0 1",), ("5",), ("a é\nb c\nd e", "0 0")],
}
CHOICES = {
    ("e7",): ("e7", "e1", "e17", "E7"),
    ("Save as",): ("Save", "Save as", "Cancel"),
    ("3",): ("1", "2", "3", "13"),
    ("yes", "no"): ("yes", "no", "maybe"),
}

# what a model, or whoever writes for one, may come up with
HOSTILE = (
    "",
    " \t\r\n",
    "\0",
    "\N{RIGHT-TO-LEFT OVERRIDE}7e\N{POP DIRECTIONAL FORMATTING}",
    "\N{ZERO WIDTH SPACE}e7",
    "\N{ZERO WIDTH NO-BREAK SPACE}click(e7)",
    "\N{NO-BREAK SPACE}12\N{NO-BREAK SPACE}",
    "e\N{COMBINING ACUTE ACCENT}" * 50,
    "🧑‍🚀🏳️‍🌈",
    *['"', "'", "`", "``", "```", '""', "“”", "'\"'", '".', '.".', "...", "`.`"],
    *["(", ")", ",", "( , )", '("', 'click("e7)', '"click( e7 )"', "click((e7))", "click(e7"],
    *["nan", "inf", "-inf", "1e999", "-1e999", "9" * 400, "0x0C", "１２", "1_2", "12 or 12.5", "\\d+", ".*"],
    *["1. ", "1.", "1) 1) click(e7)", "99999999999999999999. click(e7)", "-\n-", "\n\n\nclick(e7)"],
    *["'; drop table items; --", "{{ 1/0 }}", "%s%n", "\\1\\2", "null", "None", "true", "\\", "\\n"],
    *["<answer>12</answer>", "```\nclick(e7)\n```", "\x0b\x0c12\x1c", "\u2028e7\u2029", "\x85No\x85"],
    *["1 0\r0 1", "1 0\r\n0 1\r\n\r\nmore", "1 0\n\n0 1", "5\n \t\n5", "\ufffd", "\U0010ffff", "ﬁ"],
)


def edits(rng: random.Random) -> Sequence[Callable[[str], str]]:
    """Return ways to write an answer otherwise, some of which change what it says."""
    inside = rng.choice(
        [" ", "\t", "  ", "\0", "\N{COMBINING ACUTE ACCENT}", "x", ".", ",", '"', "\n", "\r\n"]
    )
    quote = rng.choice(['""', "''", "``", "“”", "‘’", "”“", '"', "()"])

    def put_in(text: str) -> str:
        at = rng.randint(0, len(text))
        return text[:at] + inside + text[at:]

    return (
        lambda text: text,
        put_in,
        lambda text: rng.choice([" ", "\n", "\t\r\n", "\N{NO-BREAK SPACE}"]) + text,
        lambda text: text + rng.choice([" ", "\n", ".", "..", "!", "\n\nmore", "\nmore", " more", "\0"]),
        lambda text: quote[0] + text + quote[-1],
        lambda text: unicodedata.normalize(rng.choice(["NFD", "NFC", "NFKD"]), text),
        rng.choice([str.upper, str.lower, str.swapcase]),
        lambda text: text.replace(" ", rng.choice(["  ", "\t", "", "\N{NO-BREAK SPACE}"])),
        lambda text: text.replace("\n", rng.choice(["\r\n", "\r", "\n\n", " \n ", "\n1. "])),
        lambda text: text.replace("(", rng.choice([" ( ", "(\t", "["])).replace(
            ",", rng.choice([" ,", ",  "])
        ),
        lambda text: rng.choice(["1. ", "12) ", "- ", "1 . ", "The answer is ", "I say: "]) + text,
        lambda text: text[: rng.randint(0, len(text))],
    )


def draws(n_each: int) -> Iterator[Asked]:
    """Draw answers that were made from an accepted one."""
    rng = random.Random("answers in words")
    for answer_format, keys in KEYS.items():
        for _ in range(n_each):
            credited = rng.choice(keys)
            choices = CHOICES[credited] if answer_format == "choice" else ()
            response = rng.choice([*credited, *credited, *choices])
            for _ in range(rng.randint(0, 3)):
                response = rng.choice(edits(rng))(response)
            yield Asked(answer_format, credited, response, choices)


def hostile_answers() -> Iterator[Asked]:
    for answer_format, keys in KEYS.items():
        for place, response in enumerate(HOSTILE):
            credited = keys[place % len(keys)]
            choices = CHOICES[credited] if answer_format == "choice" else ()
            yield Asked(answer_format, credited, response, choices)


def accepted_answers() -> Iterator[Asked]:
    """Answer the questions of the stand-ins as they want to be answered."""
    for source_id, of_row in (
        (WORDS, lambda row: (row["format"], tuple(row["answers"]), tuple(row["choices"] or ()))),
        (GRIDS, lambda row: ("grid", (row["answer"],), ())),
    ):
        for line in MAKERS[source_id].content().splitlines():
            answer_format, credited, choices = of_row(json.loads(line))
            yield from (Asked(answer_format, credited, response, choices) for response in credited)


ACCEPTED = list(accepted_answers())
ASKED = [*draws(120), *hostile_answers(), *ACCEPTED[::9]]


# ---- log-likelihoods ----


@dataclass(frozen=True)
class Story:
    """One question with options, and what an engine said of them."""

    options: tuple[Given, ...]
    legal: tuple[str, ...]
    credited: str
    is_merged: bool = False


def stories(n: int) -> Iterator[Story]:
    """Draw options of a few lengths, so that ties by one length or another are frequent."""
    rng = random.Random("stories")
    odd = (None, math.nan, -9999.0, 0.5, -math.inf, 0.0, 1e-7)
    for _ in range(n):
        names = [f"{'é' * rng.randint(0, 3)}ending {place}" for place in range(rng.choice([2, 4, 4, 4]))]
        options = []
        for name in names:
            nats = rng.choice([-rng.randint(1, 3) * 2.0, -rng.randint(1, 3) * 2.0, -rng.random() * 9])
            nats = rng.choice(odd) if rng.random() < 0.06 else nats
            n_tokens = None if rng.random() < 0.02 else rng.randint(1, 4)
            options.append(Given(name, nats, n_tokens, rng.randint(3, 6), rng.choice([4, 6, 12])))
        if rng.random() < 0.05:
            options = [given._replace(nats=-math.inf) for given in options]
        said = rng.sample(options, len(options))
        if rng.random() < 0.03:
            said.append(said[0]._replace(nats=-1.0))
        elif rng.random() < 0.03:
            said.pop()
        yield Story(tuple(said), tuple(names), rng.choice(names), rng.random() < 0.05)


STORIES_ASKED = list(stories(600))


def expected_of(story: Story, readout: str) -> tuple[Fraction | None, str]:
    given = {option.option for option in story.options}
    # of an option that is not among those that were scored nothing is known
    missing = [Given(name, None, None, None, None) for name in story.legal if name not in given]
    return oracles.normalised_likelihood(
        [*story.options, *missing], story.credited, readout, is_merged=story.is_merged
    )


# ---- verdicts ----


@dataclass(frozen=True)
class Graded:
    """What the grader said of one answer."""

    verdict: float | None
    status: str
    reason: str | None


def gradings() -> Iterator[Graded]:
    failures = ("timeout", "crash", "error", "not_finite", *oracles.OUTPUT_FAILURES)
    reasons = (None, "some reason", "timeout: some reason", "crashed", "")
    verdicts = (None, 0.0, -0.0, 1.0, 0.375, 1 / 3, 1 + 1e-9, -1e-300, math.nan, math.inf, -math.inf, 1e300)
    yield from (Graded(verdict, "ok", None) for verdict in verdicts)
    yield from (Graded(None, status, reason) for status in failures for reason in reasons)
    # what is said beside a failure is no verdict
    yield from (Graded(1.0, status, "after all") for status in failures)
    rng = random.Random("verdicts")
    yield from (Graded(rng.choice([0.0, 1.0, rng.random()]), "ok", None) for _ in range(100))


GRADED = list(gradings())


# ---- the lake ----


def item(mode_id: str, place: int, **columns: Any) -> Row:
    return {
        "item_id": f"{mode_id}/{place}",
        "mode_id": mode_id,
        "source_id": mode_id,
        "prompt": "Answer.",
        "weight": 1.0,
    } | columns


def items_of(mode_id: str) -> list[Row]:
    if mode_id == STORIES:
        return [
            item(mode_id, place, legal_options=list(story.legal), credited_options=[story.credited])
            for place, story in enumerate(STORIES_ASKED)
        ]
    if mode_id == PILE:
        return [item(mode_id, place, weight=1.0 + place % 3) for place in range(len(GRADED))]
    return [
        item(
            mode_id,
            place,
            credited_options=list(asked.credited),
            facts_json=json.dumps({"format": asked.answer_format, "choices": list(asked.choices)}),
            weight=1.0 + place % 3,
        )
        for place, asked in enumerate(ASKED)
        if asked.mode_id == mode_id
    ]


def commit_items(lake: Home, mode_id: str, rows: Sequence[Row]) -> None:
    run = run_row(f"items-{mode_id}", mode_id, kind="items", model_id=mode_id, agent_kind="none")
    items = pa.Table.from_pylist(list(rows), ITEMS)
    commit(lake, f"items-{mode_id}", [("items", items)], pa.Table.from_pylist([run], RUNS))


def run_row(run_id: str, mode_id: str, **columns: Any) -> Row:
    return {
        "run_id": run_id,
        "kind": "model",
        "model_id": "hub/evaluated",
        "model_revision": "89abcdef0123456789abcdef0123456789abcdef",
        "agent_kind": "language_model",
        "planned_modes": [mode_id],
        "protocol": "chat",
        "repeat": 0,
        "identity_sha256": None if columns.get("kind") == "items" else run_id,
        "identity_json": json.dumps({"run": run_id}),
        "source_id": mode_id,
        "importer_version": 1,
        "notes": [],
    } | columns


def start(lake: Home, run_id: str, mode_id: str, **columns: Any) -> None:
    open_run(lake, pa.Table.from_pylist([run_row(run_id, mode_id, **columns)], RUNS))


def grow(lake: Home, run_id: str, n_requests: int = 1, **tables: Sequence[Row]) -> None:
    rows = [(name, pa.Table.from_pylist(list(table), RAW_TABLES[name])) for name, table in tables.items()]
    commit_batch(lake, run_id, rows, n_requests=n_requests, environment={"device": "a test"}, started_at=NOON)


def output(run_id: str, item_row: Row, response: str | None, **columns: Any) -> Row:
    return {
        "run_id": run_id,
        "mode_id": item_row["mode_id"],
        "item_id": item_row["item_id"],
        "episode_id": item_row["item_id"],
        "response_text": response,
        "status": "ok",
    } | columns


def option_rows(run_id: str, item_row: Row, story: Story) -> list[Row]:
    return [
        output(run_id, item_row, None)
        | {
            "option_index": place,
            "option": given.option,
            "logprob_nats": given.nats,
            "n_tokens": given.n_tokens,
            "n_characters": given.n_characters,
            "n_bytes": given.n_bytes,
            "is_merged": story.is_merged,
        }
        for place, given in enumerate(story.options)
    ]


def verdict_row(run_id: str, item_row: Row, graded: Graded, **columns: Any) -> Row:
    return {
        "run_id": run_id,
        "mode_id": item_row["mode_id"],
        "item_id": item_row["item_id"],
        "episode_id": item_row["item_id"],
        "grader_id": GRADER.id,
        "grader_version": GRADER.version,
        "answer_rule": GRADER.answer_rules[0],
        "verdict": graded.verdict,
        "status": graded.status,
        "status_reason": graded.reason,
    } | columns


def pile_verdicts(run_id: str = "pile") -> list[Row]:
    return [verdict_row(run_id, row, graded) for row, graded in zip(items_of(PILE), GRADED, strict=True)]


def answer_all(lake: Home) -> None:
    """Add every data set with one run that answered it, in two batches."""
    for mode_id in (WORDS, GRIDS, STORIES, PILE):
        commit_items(lake, mode_id, items_of(mode_id))
    for run_id, mode_id in (("words", WORDS), ("grids", GRIDS)):
        start(lake, run_id, mode_id)
        rows = [
            output(run_id, row, asked.response)
            for row, asked in zip(
                items_of(mode_id), (asked for asked in ASKED if asked.mode_id == mode_id), strict=True
            )
        ]
        grow(lake, run_id, outputs=rows[::2])
        grow(lake, run_id, outputs=rows[1::2])
    start(lake, "stories", STORIES)
    for rows in (items_of(STORIES)[::2], items_of(STORIES)[1::2]):
        told = [(row, STORIES_ASKED[int(row["item_id"].rpartition("/")[2])]) for row in rows]
        grow(
            lake,
            "stories",
            outputs=[output("stories", row, None) for row, _ in told],
            output_options=[each for row, story in told for each in option_rows("stories", row, story)],
        )
    start(lake, "pile", PILE)
    grow(lake, "pile", outputs=[output("pile", row, "x = 1") for row in items_of(PILE)])
    grow(lake, "pile", n_requests=0, verdicts=pile_verdicts())


@pytest.fixture(scope="module")
def answered(tmp_path_factory, demo_lake, project) -> Home:
    """The demo with a run of every data set. Read only."""
    lake = copy_lake(demo_lake, tmp_path_factory.mktemp("answered") / "lake")
    answer_all(lake)
    built(lake, project)
    return lake


def scored(lake: Home, rule: str, run_id: str) -> dict[tuple[str, str | None], Row]:
    rows = query(lake, "select * from int_scored where rule = $1 and run_id = $2", rule, run_id)
    found = {(row["item_id"], row["readout"]): row for row in rows}
    assert len(found) == len(rows)
    return found


# ---- answer_match ----


def test_answers_in_words_are_matched_as_the_plain_statement_of_the_rule_says(answered):
    found = scored(answered, "answer_match", "words") | scored(answered, "answer_match", "grids")
    assert len(found) == len(ASKED)
    wrong = [
        (asked, row["value"])
        for place, asked in enumerate(ASKED)
        if (row := found[f"{asked.mode_id}/{place}", None])["value"] != asked.expected
    ]
    assert wrong == []
    assert {row["status"] for row in found.values()} == {"ok"}
    assert {row["status_reason"] for row in found.values()} == {None}


def test_the_drawn_answers_meet_both_outcomes_of_every_format():
    # a draw that never met one of them would show nothing
    n = Counter((asked.answer_format, asked.expected) for asked in ASKED)
    assert all(n[answer_format, credit] >= 15 for answer_format in KEYS for credit in (0, 1)), n


def test_every_accepted_answer_of_a_stand_in_is_right():
    # some of them are in the lake as well
    assert len({asked.credited for asked in ACCEPTED}) > 500
    assert [asked for asked in ACCEPTED if asked.expected != 1] == []


def test_an_answer_weighs_as_its_item_does(answered):
    found = scored(answered, "answer_match", "words")
    assert {row["weight"] for row in found.values()} == {1.0, 2.0, 3.0}
    assert all(
        row["weight"] == 1.0 + int(item_id.split("/")[1]) % 3
        for item_id, _ in found
        for row in [found[item_id, None]]
    )


LONG = 10_000_000
LONG_ANSWERS = {
    "choice": "e1 e7 " * (LONG // 6),
    "integer": "12" + " and so on" * (LONG // 10),
    # normal forms take the square of the accents on a letter
    "word": "e" + "\N{COMBINING ACUTE ACCENT}\N{COMBINING DOT BELOW}" * (LONG // 4),
    "action": '"( ' * (LONG // 3),
    "text": "e" + "\N{COMBINING ACUTE ACCENT}\N{COMBINING DOT BELOW}" * (LONG // 4),
    "steps": "`click(e1)`\n" * (LONG // 12),
    "grid": "\0 " * (LONG // 2),
}


def test_ten_megabytes_are_an_answer_like_any_other_and_take_seconds(tmp_path, empty_lake, project):
    lake = copy_lake(empty_lake, tmp_path / "lake")
    rows = {
        answer_format: item(
            WORDS,
            place,
            credited_options=list(KEYS[answer_format][0]),
            facts_json=json.dumps({"format": answer_format, "choices": list(CHOICES["e7",])}),
        )
        for place, answer_format in enumerate(LONG_ANSWERS)
    }
    commit_items(lake, WORDS, list(rows.values()))
    start(lake, "long", WORDS)
    grow(lake, "long", outputs=[output("long", row, LONG_ANSWERS[name]) for name, row in rows.items()])
    begun = time.monotonic()
    built(lake, project, select=THESE_RULES)
    # one that is normalised before its length is looked at takes hours
    assert time.monotonic() - begun < 300
    found = scored(lake, "answer_match", "long")
    # the integer is the one number in what is said, however much that is
    assert {name: found[row["item_id"], None]["value"] for name, row in rows.items()} == dict.fromkeys(
        LONG_ANSWERS, 0.0
    ) | {"integer": 1.0}


# ---- normalised_likelihood ----


@pytest.mark.parametrize("readout", READOUTS)
def test_likeliest_options_are_those_of_exact_fractions(answered, readout):
    found = scored(answered, "normalised_likelihood", "stories")
    credits_of = Counter()
    for place, story in enumerate(STORIES_ASKED):
        row = found[f"{STORIES}/{place}", readout]
        credit, status = expected_of(story, readout)
        assert row["status"] == status, (story, row)
        assert row["value"] == (None if credit is None else approx(float(credit), rel=1e-15, abs=0)), story
        assert (row["value"] is None) == (row["status_reason"] is not None)
        credits_of[credit] += 1
    # ties and failures are met
    assert {None, Fraction(0), Fraction(1, 2), Fraction(1)} <= credits_of.keys()
    assert min(credits_of[None], credits_of[Fraction(1, 2)]) >= 10


def test_every_answer_has_a_row_for_each_length_and_these_are_the_declared_ones(answered):
    found = scored(answered, "normalised_likelihood", "stories")
    assert Counter(readout for _, readout in found) == dict.fromkeys(READOUTS, len(STORIES_ASKED))
    assert {row.readout for row in load_metrics() if row.rule == "normalised_likelihood"} == set(READOUTS)


def test_in_another_order_options_get_the_same_credit(tmp_path, answered, project):
    lake = copy_lake(answered, tmp_path / "lake")
    start(lake, "backwards", STORIES)
    told = list(zip(items_of(STORIES), STORIES_ASKED, strict=True))
    backwards = [
        (row, Story(story.options[::-1], story.legal, story.credited, story.is_merged)) for row, story in told
    ]
    grow(
        lake,
        "backwards",
        outputs=[output("backwards", row, None) for row, _ in backwards],
        output_options=[each for row, story in backwards for each in option_rows("backwards", row, story)],
    )
    built(lake, project, select=THESE_RULES)
    first, other = (scored(lake, "normalised_likelihood", run_id) for run_id in ("stories", "backwards"))
    assert {key: (row["value"], row["status"], row["status_reason"]) for key, row in other.items()} == {
        key: (row["value"], row["status"], row["status_reason"]) for key, row in first.items()
    }


# ---- verdict ----


def test_verdicts_are_scores_and_failures_say_first_what_became_of_the_grader(answered):
    found = scored(answered, "verdict", "pile")
    for place, graded in enumerate(GRADED):
        row = found[f"{PILE}/{place}", GRADER.answer_rules[0]]
        value, status, word = oracles.verdict_score(graded.verdict, graded.status)
        assert (row["value"], row["status"]) == (value, status), graded
        assert row["weight"] == 1.0 + place % 3
        assert (row["status_reason"] is None) == (status == "ok")
        assert word is None or row["status_reason"].startswith(word), (graded, row)


def test_no_failure_of_a_grader_is_a_zero(answered):
    failed = query(
        answered,
        "select count(*) as n from int_scored__verdict as scored "
        "inner join stg_verdicts as verdicts on scored.item_id = verdicts.item_id "
        "where verdicts.status <> 'ok' and scored.value is not null",
    )
    assert failed == [{"n": 0}]


# ---- what builds do ----


def test_a_build_with_nothing_new_changes_no_score(tmp_path, answered, project):
    lake = copy_lake(answered, tmp_path / "lake")
    built(lake, project, select=THESE_RULES)
    assert relation_hash(lake, "int_scored") == relation_hash(answered, "int_scored")
    built(lake, project, select=THESE_RULES, full_refresh=True)
    assert relation_hash(lake, "int_scored") == relation_hash(answered, "int_scored")


def test_verdicts_that_come_later_are_scored_by_the_next_build(tmp_path, answered, empty_lake, project):
    lake = copy_lake(empty_lake, tmp_path / "lake")
    commit_items(lake, PILE, items_of(PILE))
    start(lake, "pile", PILE)
    grow(lake, "pile", outputs=[output("pile", row, "x = 1") for row in items_of(PILE)])
    built(lake, project, select=THESE_RULES)
    assert scored(lake, "verdict", "pile") == {}
    verdicts = pile_verdicts()
    grow(lake, "pile", n_requests=0, verdicts=verdicts[:50])
    built(lake, project, select=THESE_RULES)
    assert len(scored(lake, "verdict", "pile")) == 50
    before = query(lake, "select part_id, scorer_sha, count(*) as n from int_scored__verdict group by all")
    grow(lake, "pile", n_requests=0, verdicts=verdicts[50:])
    built(lake, project, select=THESE_RULES)
    after = query(lake, "select part_id, scorer_sha, count(*) as n from int_scored__verdict group by all")
    assert [row for row in before if row not in after] == []
    plain = [
        {
            key: {name: row[name] for name in ("value", "status", "status_reason", "weight")}
            for key, row in found.items()
        }
        for found in (scored(lake, "verdict", "pile"), scored(answered, "verdict", "pile"))
    ]
    assert plain[0] == plain[1]


def shas(lake: Home) -> dict[str, set[str]]:
    found = defaultdict(set)
    for row in query(lake, "select distinct rule, scorer_sha from int_scored"):
        found[row["rule"]].add(row["scorer_sha"])
    return found


@pytest.mark.parametrize(
    ("path", "old", "new", "changed", "select"),
    [
        ("macros/answers.sql", "<= 16 *", "<= 17 *", {"answer_match"}, THESE_RULES),
        (
            "models_sql/intermediate/scored/int_scored__verdict.sql",
            "coalesce(items.weight, 1)",
            "coalesce(items.weight, 1.0)",
            {"verdict"},
            THESE_RULES,
        ),
        # everything is built, and no rule of Table 3 has another version
        ("manifests/cognirank_metrics.csv", "percent,100,", "percent,100.0,", set(RULES), ()),
    ],
)
def test_what_a_rule_reads_is_its_version_and_no_other_rules(
    tmp_path, answered, path, old, new, changed, select
):
    lake, project = copy_lake(answered, tmp_path / "lake"), copy_project(tmp_path / "project")
    file = project / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    built(lake, project, select=select)
    before, after = shas(answered), shas(lake)
    assert {rule for rule, versions in after.items() if versions != before[rule]} == changed
    assert {rule: len(versions) for rule, versions in after.items()} == dict.fromkeys(before, 1)
    counts = "select rule, count(*) as n from int_scored group by all order by all"
    assert query(lake, counts) == query(answered, counts)
    assert raw_hashes(lake) == raw_hashes(answered)


def test_verdicts_of_another_version_are_kept_and_scored_once_it_is_declared(tmp_path, answered):
    lake, project = copy_lake(answered, tmp_path / "lake"), copy_project(tmp_path / "project")
    later = [row | {"grader_version": "9", "verdict": 0.5, "status": "ok"} for row in pile_verdicts()]
    grow(lake, "pile", n_requests=0, verdicts=later)
    built(lake, project, select=THESE_RULES)
    assert relation_hash(lake, "int_scored") == relation_hash(answered, "int_scored")
    metrics = project / "manifests" / "cognirank_metrics.csv"
    metrics.write_text(metrics.read_text().replace(f",{GRADER.version},", ",9,"))
    built(lake, project, select=THESE_RULES)
    assert [row["value"] for row in scored(lake, "verdict", "pile").values()] == [0.5] * len(GRADED)
    n = query(lake, "select count(*) as n from stg_verdicts")
    assert n == [{"n": 2 * len(GRADED)}]


def test_what_is_answered_or_graded_twice_is_a_warning(tmp_path, answered, project):
    lake = copy_lake(answered, tmp_path / "lake")
    [first, *_] = items_of(WORDS)
    grow(lake, "words", outputs=[output("words", first, "another answer")])
    grow(lake, "pile", n_requests=0, verdicts=[pile_verdicts()[0] | {"duration_s": 1.0}])
    # what withholds the score is said beside it, and other runs have nothing to do with it
    warnings = " ".join(built(lake, project, select=THESE_RULES).warnings)
    assert "each_cognirank_question_is_answered_once" in warnings
    assert "each_answer_is_graded_once" in warnings


# ---- Table 3 ----


def test_the_marts_of_s1cogbench_do_not_know_of_it(answered, demo_lake):
    of_table_3 = [mart for mart in MARTS if not mart.startswith("cogni")]
    before, after = mart_hashes(demo_lake), mart_hashes(answered)
    assert [mart for mart in of_table_3 if before[mart] != after[mart]] == []
    assert query(
        answered, "select count(*) as n from int_scored where rule in ('answer_match', 'verdict')"
    ) != [{"n": 0}]
