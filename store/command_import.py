"""``coglake import``: bring in a log that another harness wrote, and say what came of it."""

from collections.abc import Sequence
from pathlib import Path

from ingest.eval_logs import Asked, LogFormat, LogReport, import_log
from store import console
from store.command_task import questions_of
from store.formats import to_json
from store.settings import home


def run(
    form: LogFormat,
    path: Path,
    mode_id: str,
    model_id: str | None,
    model_revision: str | None,
    *,
    as_json: bool,
) -> None:
    """Import one log as runs of one mode: one per epoch."""
    found = questions_of(home(), mode_id)
    asked = Asked(found.mode_id, found.source_id, found.parts)
    with console.progress(f"import {path.name}"):
        reports = import_log(home(), form, path, asked, model_id=model_id, model_revision=model_revision)
    if as_json:
        console.write(to_json({"runs": reports}))
        return
    console.write(_sentences(path, mode_id, reports))


def _sentences(path: Path, mode_id: str, reports: Sequence[LogReport]) -> str:
    if not reports:
        return f"{path.name}: 0 new: its answers to {mode_id} are in the lake\n"
    lines = []
    for report in reports:
        lines.append(
            f"{report.run_id}: {report.n_new_rows:,} rows written from {report.n_source_rows:,} samples of "
            f"{report.model_id}; {report.n_answered:,} of {report.n_questions:,} questions answered, "
            f"{report.n_unreadable_rows:,} outputs unusable"
        )
        lines += [f"  {note}" for note in report.notes]
    return "\n".join([*lines, ""])
