"""Distributions that DuckDB does not have, as functions of SQL: the numbers are those of SciPy."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from duckdb import DuckDBPyConnection
from scipy import special

_Column = pa.Array | pa.ChunkedArray


def register(con: DuckDBPyConnection) -> None:
    """Give a connection, and those made of it, the functions below; each is null where an argument is.

    ``student_t_quantile(probability, degrees_of_freedom)`` and ``student_t_cdf(t, degrees_of_freedom)``.
    """
    for name, function in (
        ("student_t_quantile", _student_t_quantile),
        ("student_t_cdf", _student_t_cdf),
    ):
        con.create_function(name, function, ["DOUBLE", "DOUBLE"], "DOUBLE", type="arrow")  # type: ignore[arg-type]


def _student_t_quantile(probability: _Column, degrees_of_freedom: _Column) -> _Column:
    return pa.array(special.stdtrit(_numbers(degrees_of_freedom), _numbers(probability)))


def _student_t_cdf(t: _Column, degrees_of_freedom: _Column) -> _Column:
    return pa.array(special.stdtr(_numbers(degrees_of_freedom), _numbers(t)))


def _numbers(column: _Column) -> npt.NDArray[np.float64]:
    return np.asarray(column, dtype=np.float64)
