"""Distributions as functions of SQL: the numbers of SciPy, null in and null out."""

import duckdb
import pytest
from pytest import approx
from scipy import integrate, stats

from store import statistics


@pytest.fixture
def con():
    with duckdb.connect() as con:
        statistics.register(con)
        yield con


def value(con, expression):
    return con.execute(f"select {expression}").fetchall()[0][0]


@pytest.mark.parametrize(("fewer", "n"), [(0, 0), (0, 1), (3, 7), (500, 1000), (4_900, 10_000)])
def test_so_many_successes_or_fewer(con, fewer, n):
    assert value(con, f"binomial_cdf({fewer}, {n}, 0.5)") == approx(stats.binom.cdf(fewer, n, 0.5), rel=1e-12)


@pytest.mark.parametrize("df", [1, 2, 3, 7, 30, 1000, 100_000])
@pytest.mark.parametrize("power", [0.2, 0.8, 0.99])
def test_an_effect_is_seen_with_the_power_asked_for(con, df, power):
    effect = value(con, f"detectable_t({power}, 0.05, {df})")
    critical = stats.t.isf(0.025, df)

    # by its definition: a normal variable about the effect, over the root of a chi-square one
    def rejects(share):
        limit = critical * (stats.chi2.ppf(share, df) / df) ** 0.5
        return stats.norm.sf(limit - effect) + stats.norm.cdf(-limit - effect)

    assert integrate.quad(rejects, 0, 1, epsabs=1e-11, limit=500)[0] == approx(power, abs=1e-9)


def test_there_is_no_effect_without_a_degree_of_freedom_or_below_the_level(con):
    assert value(con, "detectable_t(0.8, 0.05, 0)") is None
    # a test at 0.05 rejects more often than that whatever the effect
    assert value(con, "detectable_t(0.01, 0.05, 10)") is None


@pytest.mark.parametrize(
    "call",
    [
        "student_t_quantile(0.975, x)",
        "student_t_cdf(x, 3)",
        "binomial_cdf(x, 5, 0.5)",
        "detectable_t(0.8, 0.05, x)",
    ],
)
def test_a_null_among_numbers_stays_null(con, call):
    found = con.execute(f"select {call} from (values (2.0), (null), (4.0)) as t(x)").fetchall()
    assert [number is None for (number,) in found] == [False, True, False]


def test_a_connection_and_its_cursors_have_the_functions_once(con):
    statistics.register(con)
    statistics.register(con.cursor())
    assert value(con.cursor(), "student_t_cdf(0, 5)") == 0.5
