"""Does the macro ``printed`` print as C does? Python's % formatting is C's printf for doubles."""

import math
import random

import duckdb
import pytest
from spec import oracles
from support import macro

printed = macro("printed.sql", "printed")


def prints(values: list[float], decimals: list[int]) -> list[str | None]:
    query = f"select {printed('value', 'decimals')} from numbers order by place"
    with duckdb.connect() as con:
        con.execute("create table numbers (place integer, value double, decimals integer)")
        places = list(range(len(values)))
        con.execute(
            "insert into numbers select unnest($1), unnest($2::double[]), unnest($3)",
            [places, values, decimals],
        )
        return [row[0] for row in con.execute(query).fetchall()]


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        # exact ties go to the even digit, which no half-up rule gives
        (78.25, 1, "78.2"),
        (68.75, 1, "68.8"),
        (0.5, 0, "0"),
        (1.5, 0, "2"),
        (2.5, 0, "2"),
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        # no ties: the double is a little below or above what its decimals say
        (2.675, 2, "2.67"),
        (1.005, 2, "1.00"),
        (0.15, 1, "0.1"),
        (0.25 + 2**-54, 1, "0.3"),
        # a tiny negative number keeps its sign, as in C
        (-1e-9, 3, "-0.000"),
        (-0.0, 1, "-0.0"),
        (-2.5, 0, "-2"),
        # the model gave probability 0 to what a human did: a value, and not a missing one
        (math.inf, 3, "+∞"),
        # these are no values at all
        (-math.inf, 3, None),
        (math.nan, 3, None),
        (1e22, 1, "10000000000000000000000.0"),
        (5e-324, 4, "0.0000"),
    ],
)
def test_a_value_prints_as_c_prints_it(value, decimals, expected):
    assert prints([value], [decimals]) == [expected]
    assert oracles.printed(value, decimals) == expected


def test_no_value_prints_nothing():
    with duckdb.connect() as con:
        [row] = con.execute(f"select {printed('cast(null as double)', '2')}").fetchall()
    assert row == (None,)


def test_ten_thousand_doubles_print_as_in_c():
    rng = random.Random("printing")
    draws = (
        lambda: rng.uniform(-100, 100),
        lambda: rng.gauss(0, 1) * 10.0 ** rng.randint(-12, 12),
        # dyadic rationals tie most often
        lambda: rng.randint(-(2**12), 2**12) / 2 ** rng.randint(0, 12),
        # decimals as people write them, which never tie though they look it
        lambda: rng.randint(-(10**6), 10**6) / 1000 + rng.choice((0.0005, 0.005, 0.05)),
    )
    values = [rng.choice(draws)() for _ in range(10_000)]
    decimals = [rng.randint(0, 6) for _ in values]
    expected = [
        "%.*f" % (places, value)  # noqa: UP031 - this is printf
        for places, value in zip(decimals, values, strict=True)
    ]
    assert prints(values, decimals) == expected
