"""Distributions that DuckDB does not have, as functions of SQL: the numbers are those of SciPy."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from duckdb import DuckDBPyConnection
from scipy import special
from scipy.optimize import elementwise

_Column: TypeAlias = pa.Array | pa.ChunkedArray
_Numbers = npt.NDArray[np.float64]


def register(con: DuckDBPyConnection) -> None:
    """Give a connection, and those made of it, the functions below, unless it has them.

    Each is null where an argument is.

    ``student_t_quantile(probability, degrees_of_freedom)`` and ``student_t_cdf(t, degrees_of_freedom)``.

    ``binomial_cdf(n_successes, n_trials, probability)``: so many successes, or fewer.

    ``detectable_t(power, significance, degrees_of_freedom)``: the effect, in standard errors, that
    a two-sided t test at that significance sees with that power; null where there is none, as with no degree
    of freedom.
    """
    there = con.execute("select distinct function_name from duckdb_functions()").fetchall()
    for name, function, n_arguments in (
        ("student_t_quantile", _student_t_quantile, 2),
        ("student_t_cdf", _student_t_cdf, 2),
        ("binomial_cdf", _binomial_cdf, 3),
        ("detectable_t", _detectable_t, 3),
    ):
        if (name,) in there:
            continue
        arguments = ["DOUBLE"] * n_arguments
        # rows with a null do not reach the function by default, but it may find that there is no number
        nulls = "special" if name == "detectable_t" else "default"
        con.create_function(name, function, arguments, "DOUBLE", type="arrow", null_handling=nulls)  # type: ignore[call-overload]


def _student_t_quantile(probability: _Column, degrees_of_freedom: _Column) -> _Column:
    return pa.array(special.stdtrit(_numbers(degrees_of_freedom), _numbers(probability)))


def _student_t_cdf(t: _Column, degrees_of_freedom: _Column) -> _Column:
    return pa.array(special.stdtr(_numbers(degrees_of_freedom), _numbers(t)))


def _binomial_cdf(n_successes: _Column, n_trials: _Column, probability: _Column) -> _Column:
    # its second argument is a whole number, and given as a double it is warned about
    trials = _numbers(n_trials).astype(np.int64)
    return pa.array(special.bdtr(_numbers(n_successes), trials, _numbers(probability)))


def _detectable_t(power: _Column, significance: _Column, degrees_of_freedom: _Column) -> _Column:
    df = _numbers(degrees_of_freedom)
    critical = special.stdtrit(df, 1 - _numbers(significance) / 2)
    given = (critical, df, _numbers(power))
    bracket = elementwise.bracket_root(
        _power_above, np.zeros_like(critical), critical + 1, xmin=0, args=given
    ).bracket
    found = elementwise.find_root(_power_above, bracket, args=given)
    # NaN, where nothing is found, would be a value
    return pa.array(np.where(found.success, found.x, np.nan), from_pandas=True)


def _power_above(effect: _Numbers, critical: _Numbers, df: _Numbers, power: _Numbers) -> _Numbers:
    """Return by how much the power of a two-sided t test is above what is wanted."""
    above = 1 - special.nctdtr(df, effect, critical)
    # SciPy has no number for the other tail where it is too thin to count
    below = np.nan_to_num(special.nctdtr(df, effect, -critical))
    return np.asarray(above + below - power)


def _numbers(column: _Column) -> _Numbers:
    return np.asarray(column, dtype=np.float64)
