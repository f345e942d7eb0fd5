"""Data frames in files of R (.RData, .rda): what cannot be read is said in one sentence."""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from store.errors import InvalidSource

_NA_INTEGER = -(2**31)


def read_data_frame(path: Path, name: str, columns: Sequence[str], where: str) -> pa.Table:
    """Return a data frame of a file that R's ``save`` wrote.

    Nothing in the file is evaluated. Factors become strings, and ``NA`` becomes null.

    Parameters
    ----------
    name
        Object in the file.
    columns
        All columns of the data frame, in the order in which they are returned.
    where
        The file as an error names it.

    Raises
    ------
    InvalidSource
        If the file is damaged, has no such object, or the object is no data frame of these columns.
    """
    objects = _objects(path, where)
    if name not in objects:
        raise InvalidSource(f"{where}: expected the object {name}, found {', '.join(objects) or 'none'}")
    frame = objects[name]
    found = [str(column) for column in getattr(frame, "columns", ())]
    if sorted(found) != sorted(columns):
        missing, unknown = sorted(set(columns) - set(found)), sorted(set(found) - set(columns))
        raise InvalidSource(
            f"{where}: expected {name} to be a data frame of the columns {', '.join(columns)}, each once; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    try:
        table: pa.Table = pa.Table.from_pandas(frame[list(columns)], preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidSource(f"{where}: a column of {name} has values of several kinds ({error})") from error
    if nested := [field.name for field in table.schema if pa.types.is_nested(field.type)]:
        raise InvalidSource(f"{where}: expected one value per cell, found lists in {', '.join(nested)}")
    return table.replace_schema_metadata()


def _objects(path: Path, where: str) -> dict[str, Any]:
    # here: it brings pandas and xarray along, and few commands read a file of R
    rdata = import_module("rdata")
    constructors = {
        **rdata.conversion.DEFAULT_CLASS_MAP,
        "factor": _factor,
        # a tibble is a data frame that prints in another way
        "tbl_df": rdata.conversion.dataframe_constructor,
        "tbl": rdata.conversion.dataframe_constructor,
    }
    try:
        with warnings.catch_warnings():
            # classes without a constructor are read as what they are made of
            warnings.simplefilter("ignore")
            objects = rdata.read_rda(path, constructor_dict=constructors)
    # damaged bytes fail wherever they happen to: in decompression, parsing or conversion
    except Exception as error:
        said = " ".join(str(error).split())
        fault = f"{type(error).__name__}: {said}" if said else type(error).__name__
        raise InvalidSource(f"{where}: not readable as data of R ({fault:.120})") from error
    if not isinstance(objects, dict):
        raise InvalidSource(f"{where}: expected named objects of R, found a {type(objects).__name__}")
    return objects


def _factor(codes: NDArray[np.int32], attributes: Mapping[str, Any]) -> NDArray[np.object_]:
    """Return the strings of a factor; the reader's own constructor takes 0 for the last level."""
    levels = np.array([*attributes["levels"], None], dtype=object)
    positions = np.ma.filled(codes, _NA_INTEGER)
    is_missing = positions == _NA_INTEGER
    if np.any(~is_missing & ((positions < 1) | (positions >= levels.size))):
        raise ValueError("a factor has a value that is none of its levels")
    found: NDArray[np.object_] = levels[np.where(is_missing, levels.size, positions) - 1]
    return found
