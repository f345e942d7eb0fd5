"""Do sums give one total, whatever the order, the grouping and the number of threads?"""

import math
import random
import struct
from collections.abc import Callable

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import macro

ordered_sum = macro("exact.sql", "ordered_sum")
to_fixed = macro("exact.sql", "to_fixed")
from_fixed = macro("exact.sql", "from_fixed")

STEP = 2.0**-60


def exact_sum(value: str) -> str:
    return from_fixed(f"sum({to_fixed(value)})")


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as con:
        yield con


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def total(values: list[float], con: duckdb.DuckDBPyConnection) -> float:
    query = f"select {exact_sum('value')} from (select unnest($1::double[]) as value)"
    return con.execute(query, [values]).fetchall()[0][0]


def cancelling(rng: random.Random) -> list[float]:
    big = [rng.uniform(-1e15, 1e15) for _ in range(500)]
    return [*big, *(-value for value in big), *(rng.uniform(-1, 1) for _ in range(500))]


ADVERSARIES: dict[str, Callable[[random.Random], list[float]]] = {
    "large_numbers_that_cancel": cancelling,
    "one_large_and_many_small": lambda rng: [1e15, *([1e-3] * 5000), -1e15],
    "tenths": lambda rng: [0.1] * 10_001,
    "magnitudes_far_apart": lambda rng: [
        rng.uniform(-1, 1) * 10.0 ** rng.randint(-10, 12) for _ in range(5000)
    ],
    "alternating_harmonic": lambda rng: [(-1) ** k / (k + 1) for k in range(5000)],
    "rewards_of_two_decimals": lambda rng: [round(rng.gauss(50, 12), 2) for _ in range(5000)],
    "nothing_but_zeros_of_both_signs": lambda rng: [0.0, -0.0] * 50,
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_the_order_does_not_matter_and_the_total_is_right(name, con):
    rng = random.Random(name)
    values = ADVERSARIES[name](rng)
    result = total(values, con)
    found = {bits(result)}
    for _ in range(20):
        rng.shuffle(values)
        found.add(bits(total(values, con)))
    # the running total of ordinary addition does depend on it, unless all terms are alike
    plain = {bits(sum(rng.sample(values, len(values)))) for _ in range(20)}
    assert len(found) == 1
    assert len(plain) > 1 or len(set(values)) <= 3
    # math.fsum rounds the true total once; each term here is off by half a step of 2^-60 at most
    assert result == pytest.approx(math.fsum(values), rel=2**-52, abs=len(values) * STEP / 2)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_any_order_of_any_doubles_adds_up_to_the_same_bits(con, values, rng):
    first = total(values, con)
    rng.shuffle(values)
    assert bits(total(values, con)) == bits(first)
    assert first == pytest.approx(math.fsum(values), rel=2**-52, abs=len(values) * STEP / 2)


def test_sums_of_sums_are_the_sum():
    # episodes are added up once and put together in many ways later
    rng = random.Random("sums of sums")
    values = [rng.uniform(-100, 100) for _ in range(20_000)]
    with duckdb.connect() as con:
        con.execute("create table rows as select unnest($1::double[]) as value", [values])
        con.execute("create table scored as select row_number() over () as place, value from rows")
        found = set()
        for n_groups in (1, 3, 45, 7919):
            query = f"""
                with parts as (
                    select place % {n_groups} as part, sum({to_fixed("value")}) as fixed
                    from scored group by part
                )
                select {from_fixed("sum(fixed)")} from parts
            """
            found.add(bits(con.execute(query).fetchall()[0][0]))
        assert found == {bits(total(values, con))}


def test_the_number_of_threads_does_not_matter():
    rng = random.Random("threads")
    found = set()
    with duckdb.connect() as con:
        con.execute("create table rows (value double)")
        values = [rng.uniform(-1, 1) * 10.0 ** rng.randint(0, 6) for _ in range(50_000)]
        # a table of 20 row groups, so that several threads have work
        con.execute(
            "insert into rows select v.value from (select unnest($1::double[]) as value) as v, range(50)",
            [values],
        )
        for threads in (1, 2, 4, 4, 4):
            con.execute(f"set threads = {threads}")
            found.add(bits(con.execute(f"select {exact_sum('value')} from rows").fetchall()[0][0]))
    assert len(found) == 1


def test_no_rows_have_no_sum(con):
    assert total([], con) is None


@pytest.mark.parametrize("size", [1e-24, 1.0, 1e24])
def test_an_ordered_sum_keeps_its_digits_at_any_size_and_in_any_order(con, size):
    rng = random.Random(str(size))
    values = [rng.uniform(0, size) for _ in range(5000)]
    found = set()
    for _ in range(5):
        rng.shuffle(values)
        query = f"select {ordered_sum('value')} from (select unnest($1::double[]) as value)"
        found.add(con.execute(query, [values]).fetchall()[0][0])
    [one] = found
    assert one == pytest.approx(math.fsum(values), rel=1e-15)
