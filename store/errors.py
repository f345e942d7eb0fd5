"""Errors that a user can act on.

Each class is one kind of trouble with one exit code; the message is a sentence that names what was
expected, what was found and what to do. The command line prints it without a traceback.
"""

from importlib import import_module

_LONGEST_LINE = 300


class StoreError(Exception):
    """Something went wrong that the user can fix."""

    exit_code = 1


class CheckFailed(StoreError):
    """A check did not hold: a dbt test failed or a hash differs."""

    exit_code = 1


class WrongUsage(StoreError):
    """The command was called with arguments that cannot work."""

    exit_code = 2


class InvalidSource(StoreError):
    """A manifest, a pin or the content of a pinned file is not what the project declares."""

    exit_code = 10


class ChecksumMismatch(StoreError):
    """A fetched file is not the pinned file."""

    exit_code = 11


class SourceUnavailable(StoreError):
    """A source cannot be reached, or is gated and no credential is set."""

    exit_code = 12


class EngineFailed(StoreError):
    """A model or engine failed."""

    exit_code = 13


class LakeUnusable(StoreError):
    """The lake is locked by another process, damaged, or out of space."""

    exit_code = 14


class NothingToExport(StoreError):
    """There is nothing to export, or the last build failed or is older than the raw rows."""

    exit_code = 15


def first_line(error: BaseException) -> str:
    """Return what an error of another library says, as part of a sentence of one's own.

    Returns
    -------
    str
        Its first line that is not blank, without the full stop, cut where it goes on and on; of a pydantic
        error, whose first line is a heading, the first thing that is wrong. The name of the error's class
        where it says nothing.
    """
    # only here, so that `coglake --help` need not wait for it
    pydantic = import_module("pydantic")
    text = str(error)
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        text = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    line = next(iter(text.strip().splitlines()), "").rstrip(". ") or type(error).__name__
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
