"""``coglake demo``: the whole way from nothing to Table 3, without a download."""

from generate.demo_archive import write
from ingest.pipeline import ingest
from store import console
from store.build import audit, build
from store.command_build import complain, counts, totals
from store.database import connect
from store.export import export_table3, write_export
from store.formats import Format, Sheet, records, to_json
from store.freshness import require_fresh
from store.manifest import load_sources
from store.settings import home, project_dir

_SOURCE = "demo_archive"
_STATUSES = frozenset({"", "n.a.", "n.e.", "n.f.", "canc.", "part."})
_N_MODELS_SHOWN = 6


def run(*, as_json: bool) -> None:
    """Generate an archive, ingest it, build, and show and export Table 3."""
    lake, project = home(), project_dir()
    folder = lake.root / "demo_mirror"
    source = load_sources()[_SOURCE]

    files = write(folder)
    console.say(f"1/4 generate: simple agents played {len(files)} files into {folder}")

    with console.progress("ingest") as step:
        (report,) = ingest(
            lake,
            [source],
            mirror=str(folder),
            on_progress=lambda _, done, total, path: step(done, total, path),
        )
    for failure in report.failures:
        raise failure
    console.say(f"2/4 ingest: {report.n_new_files} files new, {report.n_present_files} present")

    console.say("3/4 build: scoring the raw rows with dbt on DuckDB")
    built = build(lake, project, quiet=False)
    console.say(counts(built))
    complain(built)
    console.say(totals(audit(lake)))

    con = connect(lake)
    try:
        source_build = require_fresh(con, lake, project)
        sheet = export_table3(con)
    finally:
        con.close()
    path = lake.exports / "table3.csv"
    write_export(path, sheet, Format.CSV, source_build)
    console.say(f"4/4 export: Table 3 is in {path}")
    scored = _with_values(sheet)
    if as_json:
        console.write(to_json({"file": str(path), "rows": records(scored)}))
    else:
        console.show(scored)


def _with_values(sheet: Sheet) -> Sheet:
    """Keep the rows in which a model has a value, and as many columns as a terminal is wide."""
    uniform, *models, _reference = sorted(sheet.printed)
    columns = (1, uniform, *models[:_N_MODELS_SHOWN])
    return Sheet(
        headers=tuple(sheet.headers[column] for column in columns),
        rows=tuple(
            tuple(row[column] for column in columns)
            for row in sheet.rows
            if any(row[column] not in _STATUSES for column in models)
        ),
        printed=frozenset(range(1, len(columns))),
    )
