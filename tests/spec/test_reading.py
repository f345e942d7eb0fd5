"""What a written answer says: both rules of reading, as SQL and as a plain scanner that goes by letters.
Options are read as they are of models that act, too."""

import itertools
import math
import random
from collections.abc import Callable

import duckdb
import pytest
from spec import oracles
from support import macro

from generate.reading import read_option

OPTIONS = [
    ["1", "10", "100"],
    ["NO", "UNKNOWN"],
    ["a", "A"],
    ["yes", "no", "maybe"],
    ["0", "1", "2", "3", "4"],
    ["C++", "C", "(b)", "x.y", "[a-z]*", "^$", "\\d"],
    ["red", "dark red", "red wine"],
    ["été", "ete", "Straße", "日本", "日"],
    ["option 1", "option 2", "1st"],
    ["-5", "5", "+5"],
    ["0.5", "5", ".5"],
    ["STOP", "7", "17"],
    ["_x", "x", "x_"],
]
JOINTS = ["", " ", "  ", "\n", "\t", *".,;:-+_'’/()*%–−"]
WORDS = ["the", "I", "2nd", "10", "1.5", "-1", "x2", "No", "unknown", "é", "ß", "5", "½", "٣"]

NUMBERS = [
    "0.5",
    ".5",
    "5",
    "-5",
    "+5",
    "−5",
    "50%",
    "1,000",
    "0,5",
    "1e-3",
    "2E3",
    "1e400",
    "007",
    "10:30",
    "1/2",
    "40-60",
    "40–60",
    "0.50",
    "3.",
    "1.2.3",
    "5²",
    "٣",
    "½",
    "2nd",
    "x2",
    "COVID-19",
    "v1.5",
    "1_000",
    "5e",
]
TEXTS = [
    "",
    *["between", "and", "is", "p=", "Answer:", "(", ")", "**", "$", "...", "-", ".", "e", "…", "%", "don't"],
]


def reading(name: str) -> Callable[..., str]:
    return macro("reading.sql", name)


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as con:
        con.execute("set threads = 1")
        yield con


def named_in_sql(con, cases: list[tuple[str, list[str]]]) -> list[list[str]]:
    """Read trimmed texts in the database, all at once."""
    return [
        named
        for (named,) in con.execute(
            f"select {reading('options_named')('said', 'options')} "
            "from (select unnest($said) as said, unnest($options) as options)",
            {"said": [said for said, _ in cases], "options": [options for _, options in cases]},
        ).fetchall()
    ]


def number_in_sql(con, texts: list[str]) -> list[tuple[float | None, bool]]:
    """Return the number that each text holds, and whether it holds any at all."""
    return con.execute(
        f"select {reading('number_read')('numbers')}, len(numbers) > 0 "
        f"from (select {reading('numbers_in')('said')} as numbers from (select unnest($said) as said))",
        {"said": texts},
    ).fetchall()


def answers(n: int) -> list[tuple[str, list[str]]]:
    rng = random.Random("answers")
    cases = []
    for _ in range(n):
        options = rng.choice(OPTIONS)
        pieces = []
        for _ in range(rng.randint(0, 4)):
            word = rng.choice(rng.choice((options, options, WORDS)))
            word = rng.choice((word, word, word, word.lower(), word.upper()))
            pieces += [word, rng.choice(JOINTS)]
        text = (rng.choice(JOINTS) + "".join(pieces)).strip(" \t\r\n")
        cases.append((text, options))
    return cases


# SQL and Python fold capitals of a few letters apart: ß and its capital, the dotted and the dotless i
def is_folded_alike(text: str) -> bool:
    return all(len(letter.upper()) == 1 and len(letter.lower()) == 1 for letter in text)


def test_options_are_read_as_the_plain_statement_of_the_rule_says(con):
    cases = [case for case in answers(6000) if is_folded_alike(case[0])]
    found = named_in_sql(con, cases)
    expected = [oracles.options_named(text, options) for text, options in cases]
    assert [
        (case, named, said) for case, named, said in zip(cases, found, expected, strict=True) if named != said
    ] == []
    # a draw that never met one of the outcomes would show nothing
    assert {min(len(named), 2) for named in expected} == {0, 1, 2}


def test_models_that_act_are_read_by_the_same_rule(con):
    cases = [case for case in answers(3000) if is_folded_alike(case[0])]
    found = [named[0] if len(named) == 1 else None for named in named_in_sql(con, cases)]
    acted = [read_option(text, options) for text, options in cases]
    assert [
        (case, sql_says, python_says)
        for case, sql_says, python_says in zip(cases, found, acted, strict=True)
        if sql_says != python_says
    ] == []


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        ("10", ["1", "10"], ["10"]),
        ("I take 10.", ["1", "10"], ["10"]),
        ("1, not 10", ["1", "10"], ["1", "10"]),
        ("1.5", ["1", "5"], []),
        ("-1", ["1"], []),
        ("option -1", ["1"], []),
        ("UNKNOWN", ["NO", "UNKNOWN"], ["UNKNOWN"]),
        ("unknown", ["NO", "UNKNOWN"], ["UNKNOWN"]),
        ("no.", ["NO", "UNKNOWN"], ["NO"]),
        ("nobody", ["NO", "UNKNOWN"], []),
        ("a", ["a", "A"], ["a"]),
        ("I say A", ["a", "A"], ["A"]),
        ("C++!", ["C++", "C"], ["C++", "C"]),
        ("(b)", ["(b)", "b"], ["(b)"]),
        ("x-y", ["x.y"], []),
        ("L'été", ["été"], ["été"]),
        ("ÉTÉ", ["été"], ["été"]),
        ("étés", ["été"], []),
        ("", ["a"], []),
    ],
)
def test_an_option_is_named_by_a_whole_word(con, text, options, named):
    assert named_in_sql(con, [(text, options)]) == [named]
    assert oracles.options_named(text, options) == named


def test_numbers_are_read_as_the_plain_statement_of_the_rule_says(con):
    rng = random.Random("numbers")
    texts = ["".join(pair) for pair in itertools.product(NUMBERS, [*JOINTS, *TEXTS], NUMBERS)]
    texts += [
        "".join(rng.choice(rng.choice((NUMBERS, TEXTS, JOINTS, JOINTS))) for _ in range(rng.randint(1, 7)))
        for _ in range(6000)
    ]
    found = number_in_sql(con, texts)
    expected = [oracles.number_read(text) for text in texts]
    assert [
        (text, read, said) for text, read, said in zip(texts, found, expected, strict=True) if read != said
    ] == []
    n_read = sum(number is not None for number, _ in expected)
    n_several = sum(number is None and is_any for number, is_any in expected)
    assert min(n_read, n_several, len(texts) - n_read - n_several) > 100


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5),
        (".5", 0.5),
        ("50%", 50),
        ("50 %", 50),
        ("-5", -5),
        ("−5", -5),
        ("+5", 5),
        ("(5)", 5),
        ("**0.25**", 0.25),
        ("Answer: 0.25.", 0.25),
        ("p=0.25", 0.25),
        ("1e-3", 0.001),
        ("2E3", 2000),
        ("007", 7),
        ("1e400", math.inf),
        ("0.5, that is .50", 0.5),
        ("... 5", 5),
        ("...5", 5),
        ("the 2nd of x2: 7", 7),
        ("COVID-19 has 3", 3),
    ],
)
def test_a_number_is_read_however_it_is_written(con, text, number):
    assert number_in_sql(con, [text]) == [(number, True)]
    assert oracles.number_read(text) == (number, True)


@pytest.mark.parametrize(
    "text",
    [
        "between 40 and 60",
        "0.2 or 0.3",
        *["40-60", "40–60", "1,000", "0,5", "5,5", "1/2", "3/3", "10:30", "1.2.3"],
    ],
)
def test_several_numbers_are_not_read_nor_is_one_that_can_be_read_in_several_ways(con, text):
    assert number_in_sql(con, [text]) == [(None, True)]
    assert oracles.number_read(text) == (None, True)


@pytest.mark.parametrize(
    "text", ["", *["half", "2nd", "x2", "COVID-19", "1_000", "½", "٣", "nan", "inf", "-", "..."]]
)
def test_a_text_without_a_number_has_none(con, text):
    assert number_in_sql(con, [text]) == [(None, False)]
    assert oracles.number_read(text) == (None, False)
