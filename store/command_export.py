"""``coglake export``: a table of the last build as a file."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from store import console, export_learning, export_metrics
from store import export as tables
from store.database import connect
from store.errors import WrongUsage
from store.formats import Format, Sheet, render, to_json
from store.freshness import require_fresh
from store.learning_tasks import CATEGORIES
from store.privacy import without_quotes
from store.settings import home, project_dir
from store.uncertainty import Uncertainty


def run(
    what: str,
    form: Format,
    models: Sequence[str],
    *,
    allow_partial: bool,
    beside: Uncertainty | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Write a table of the last build: into a file with its provenance beside it, or to standard output.

    Raises
    ------
    WrongUsage
        If options do not go together.
    """
    if what == "metrics" and models:
        raise WrongUsage(f"--models does not belong to {what}")
    require_one_answer(output, as_json=as_json)
    con = connect(home())
    try:
        built = require_fresh(con, home(), project_dir())
        found = _sheet(con, what, models, allow_partial=allow_partial, beside=beside)
        # these tables are made to be handed on
        sheet = without_quotes(con, found)
    finally:
        con.close()
    for note in sheet.notes:
        console.say(note)
    if output == "-":
        console.write(render(sheet, form))
        return
    path = Path(output) if output else home().exports / f"{what}.{form.extension}"
    say_where(path, tables.write_export(path, sheet, form, built), len(sheet.rows), as_json=as_json)


def require_one_answer(output: str | None, *, as_json: bool) -> None:
    """Refuse two answers on standard output: the table, and as JSON where it is."""
    if as_json and output == "-":
        raise WrongUsage("--json says where the file is; --format json -o - prints the table itself")


def say_where(path: Path, provenance: Path, n_rows: int, *, as_json: bool) -> None:
    """Print where an export is."""
    if as_json:
        console.write(to_json({"file": str(path), "provenance": str(provenance), "n_rows": n_rows}))
    else:
        console.write(f"{path}\n")


def _sheet(
    con: duckdb.DuckDBPyConnection,
    what: str,
    models: Sequence[str],
    *,
    allow_partial: bool,
    beside: Uncertainty | None,
) -> Sheet:
    match what:
        case "table3":
            return tables.export_table3(con, models, allow_partial, beside)
        case "cogniscore":
            return tables.export_cogniscore(con, models, allow_partial, beside)
        case "learning":
            return export_learning.export_learning(con, CATEGORIES, models, allow_partial, beside)
        case _:
            return export_metrics.export_metrics(con, allow_partial, beside)
