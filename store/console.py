"""What the commands say: results on standard output, everything else on standard error."""

import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, Protocol

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from store.errors import LakeUnusable, StoreError
from store.formats import Sheet, is_right_aligned, records, text, to_json
from store.settings import home

_INTERRUPTED = 130
_BROKEN_PIPE = 141
_BUG = 70
_WIDE = 10_000

_Arguments = ParamSpec("_Arguments")


class Step(Protocol):
    """Moves a progress bar: how many of how many are done, and which one it was."""

    def __call__(self, done: int, total: int, name: str) -> None:
        """Show the new state."""
        ...


def use_utf8() -> None:
    """Write UTF-8 whatever the locale: a cell may be ``+∞``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")


def say(sentence: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"{' '.join(sentence.split())}\n")


def write(result: str) -> None:
    """Write a result to standard output as it is."""
    # line by line: under `python -u` one long write into a closed pipe ends early without an error
    sys.stdout.writelines(result.splitlines(keepends=True))


def show(sheet: Sheet, *, as_json: bool = False) -> None:
    """Write a table to standard output: drawn, or as JSON; markup in a cell is shown, not obeyed."""
    if as_json:
        write(to_json(records(sheet)))
        return
    grid = Table(box=SIMPLE)
    for header, right in zip(sheet.headers, is_right_aligned(sheet), strict=True):
        grid.add_column(Text(header), overflow="fold", justify="right" if right else "left")
    for row in sheet.rows:
        grid.add_row(*(Text(text(cell)) for cell in row))
    # into a file or a pipe a row stays one line
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDE).print(grid)


class _Rate(ProgressColumn):
    """How many are done per second."""

    def render(self, task: Task) -> Text:
        """Return the rate of the last half minute."""
        return Text("" if task.speed is None else f"{task.speed:,.1f}/s")


@contextmanager
def progress(title: str, *, has_rate: bool = False) -> Iterator[Step]:
    """Show a progress bar on standard error if that is a terminal.

    Parameters
    ----------
    has_rate
        Show rate and time left too: for steps that take about equally long.
    """
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *((_Rate(), TimeRemainingColumn()) if has_rate else ()),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        shown = ""

        def step(done: int, total: int, name: str) -> None:
            nonlocal shown
            if has_rate and name != shown:
                # another name is other work, with a rate of its own
                bar.reset(task, total=total)
                shown = name
            bar.update(task, completed=done, total=total, description=f"{title}: {name}"[:60])

        yield step


def guarded(command: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Make a command end with the exit code of its error and one line instead of a traceback."""

    @wraps(command)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except BrokenPipeError:
            # the reader went away, as `head` does; at exit Python would flush into the closed pipe again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_BROKEN_PIPE) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(_INTERRUPTED) from None
        except Exception as error:
            raise typer.Exit(_report(error)) from None

    return run


def _report(error: Exception) -> int:
    """Say what went wrong and return the exit code."""
    # DuckDB is slow to import, and most commands do not fail
    from store.database import explain

    if os.environ.get("COGLAKE_DEBUG"):
        traceback.print_exception(error)
    known = error if isinstance(error, StoreError) else explain(error, home())
    if known is None and isinstance(error, OSError) and error.filename is not None:
        known = LakeUnusable(f"{error.filename}: {error.strerror}")
    if known is not None:
        say(f"error: {known}")
        return known.exit_code
    say(
        f"error: {type(error).__name__}: {error}; this is a bug in coglake: "
        "please report it with what the same command prints under COGLAKE_DEBUG=1"
    )
    return _BUG
