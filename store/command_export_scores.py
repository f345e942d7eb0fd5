"""``coglake export scores``: item verdicts as a file, row by row."""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from store import console
from store.command_export import require_one_answer, say_where
from store.database import connect, explain
from store.errors import WrongUsage
from store.export import write_export, write_provenance
from store.export_scores import Selection, score_sheet, select_scores, write_scores
from store.files import replacing
from store.formats import Format, render
from store.freshness import require_fresh
from store.settings import home, project_dir

_STREAMED = (Format.CSV, Format.JSON)
_CHUNK = 1 << 20


def run(
    form: Format,
    models: Sequence[str],
    modes: Sequence[str],
    *,
    allow_partial: bool,
    is_public: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Write the verdicts of the last build: into a file with its provenance beside it, or to standard output.

    Raises
    ------
    WrongUsage
        If options do not go together, or the file cannot be written there.
    """
    require_one_answer(output, as_json=as_json)
    path = Path(output) if output else home().exports / f"scores.{form.extension}"
    if output != "-" and path.exists() and not path.is_file():
        raise WrongUsage(f"{path}: expected a file, found a folder or device")
    con = connect(home())
    try:
        built = require_fresh(con, home(), project_dir())
        chosen = select_scores(con, models, modes, allow_partial=allow_partial, is_public=is_public)
        for note in chosen.notes:
            console.say(note)
        if output == "-":
            _print(con, chosen, form)
            return
        if form in _STREAMED:
            with replacing(path.resolve()) as temporary:
                n_rows = _write(con, chosen, form, temporary)
                with temporary.open("rb") as file:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            provenance = write_provenance(path, sha256, built)
        else:
            sheet = score_sheet(con, chosen)
            n_rows, provenance = len(sheet.rows), write_export(path, sheet, form, built)
    finally:
        con.close()
    say_where(path, provenance, n_rows, as_json=as_json)


def _print(con: duckdb.DuckDBPyConnection, chosen: Selection, form: Format) -> None:
    if form not in _STREAMED:
        console.write(render(score_sheet(con, chosen), form))
        return
    with tempfile.TemporaryDirectory(prefix="coglake-") as folder:
        path = Path(folder) / "scores"
        _write(con, chosen, form, path)
        with path.open(encoding="utf-8", newline="") as file:
            for chunk in iter(lambda: file.read(_CHUNK), ""):
                console.write(chunk)


def _write(con: duckdb.DuckDBPyConnection, chosen: Selection, form: Format, path: Path) -> int:
    with _explained(path):
        return write_scores(con, chosen, form, path)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise explain(error, home()) or WrongUsage(f"{path}: cannot be written ({reason})") from error
