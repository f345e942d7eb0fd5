"""``coglake ingest``: choose sources, fetch and import them, say what came of it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from generate import standins
from ingest.participants import Salt, read_salt
from ingest.pipeline import (
    IMPORTERS,
    OnProgress,
    SourceReport,
    ingest,
    listing,
    require_same_salt,
    upstream,
)
from store import console
from store.errors import InvalidSource, LakeUnusable, SourceUnavailable, StoreError, WrongUsage
from store.formats import Sheet, to_json
from store.manifest import Source, load_sources
from store.settings import Home, home
from store.usage import require_known

_REPORT = (
    "source_id",
    "n_files",
    "n_new_files",
    "n_present_files",
    "n_new_rows",
    "n_source_rows",
    "n_unreadable_rows",
    "notes",
)
_N_NOTES_SHOWN = 5
# below the lake: a mirror of what is made rather than fetched
_MADE = "standin_mirror"


def list_sources(names: Sequence[str], *, as_json: bool) -> None:
    """Print what the lake holds of the named sources, or of all."""
    known = load_sources()
    states = listing(home(), _choose(known, names) if names else list(known.values()))
    if as_json:
        console.write(to_json(states))
        return
    rows = tuple(
        (
            state.id,
            state.pin,
            state.licence,
            _mebibytes(state.bytes),
            state.n_files,
            state.n_rows,
            state.state,
        )
        for state in states
    )
    headers = ("source", "pin", "licence", "size (MiB)", "files", "rows", "state")
    console.show(Sheet(headers, rows, printed=frozenset({3})))


def run(
    names: Sequence[str], mirror: str | None, *, salt_file: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Ingest sources and print a report of each; the first error is raised after that.

    One source after another, so that a gated one does not keep the others out.
    """
    sources = _choose(load_sources(), names)
    salt = None if salt_file is None else _salt(salt_file)
    # all of them before the first is fetched; what else is wrong with a source keeps none of the others out
    for source in sources:
        with suppress(InvalidSource):
            require_same_salt(home(), [source], salt)
    reports: list[SourceReport] = []
    errors: list[StoreError] = []
    with console.progress("ingest") as step:
        for source in sources:
            try:
                report = _ingest(
                    home(),
                    source,
                    mirror,
                    salt,
                    dry_run=dry_run,
                    on_progress=lambda source_id, done, total, path: step(done, total, f"{source_id} {path}"),
                )
                reports.append(report)
                errors += report.failures
            except InvalidSource as error:
                errors.append(error)
            except SourceUnavailable as error:
                errors.append(error)
                if not source.gated:
                    break
    if as_json:
        results = [{name: getattr(report, name) for name in _REPORT} for report in reports]
        console.write(to_json({"sources": results, "errors": [str(error) for error in errors]}))
    else:
        for report in reports:
            console.write(_sentences(report, dry_run=dry_run))
    if errors:
        for other in errors[1:]:
            console.say(f"error: {other}")
        raise errors[0]


def ingest_stand_in(lake: Home, source: Source, on_progress: OnProgress | None = None) -> SourceReport:
    """Make the file of a stand-in, unless the lake has its rows, and ingest it.

    Raises
    ------
    InvalidSource
        If there is no such stand-in, or its generator makes anything but the pinned bytes.
    LakeUnusable
        If the lake cannot be written.
    """
    folder = lake.root / _MADE
    if ingest(lake, [source], dry_run=True)[0].n_new_files:
        try:
            standins.write(source.id, folder)
        except OSError as error:
            raise LakeUnusable(f"cannot use {folder}: {error.strerror or error}") from None
    mirror = str(folder) if folder.is_dir() else None
    [report] = ingest(lake, [source], mirror=mirror, on_progress=on_progress)
    return report


def _salt(path: Path) -> Salt:
    salt = read_salt(path)
    if path.stat().st_mode & 0o077:
        console.say(f"{path}: others can read this salt, and so find out who is who; `chmod 600` it")
    console.say(
        f"participants are hashed with the salt of fingerprint {salt.fingerprint}; {home().cache} keeps the "
        "files as they were fetched: delete it before you hand the lake on"
    )
    return salt


def _ingest(
    lake: Home,
    source: Source,
    mirror: str | None,
    salt: Salt | None,
    *,
    dry_run: bool,
    on_progress: OnProgress,
) -> SourceReport:
    if source.id in standins.MAKERS and not dry_run:
        return ingest_stand_in(lake, source, on_progress)
    [report] = ingest(lake, [source], mirror=mirror, salt=salt, dry_run=dry_run, on_progress=on_progress)
    return report


def _mebibytes(n_bytes: int | None) -> str:
    return "not known" if n_bytes is None else f"{n_bytes / 2**20:.2f}"


def _choose(known: Mapping[str, Source], names: Sequence[str]) -> list[Source]:
    for name in names:
        if name not in known and name in IMPORTERS and (repository := upstream(name)) is not None:
            raise WrongUsage(
                f"{name}: not pinned yet: `coglake pin {name} {repository} --write` does that, with "
                "HF_TOKEN of an account that may read it"
            )
    require_known("source", names, known, "`coglake ingest --list` shows all")
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    # what this project makes for want of the published is only there for those who ask for it by name
    return [source for source in known.values() if source.kind != "generated"]


def _sentences(report: SourceReport, *, dry_run: bool) -> str:
    verb = "to import" if dry_run else "new"
    parts = [f"{report.source_id}: {report.n_new_files} {verb}, {report.n_present_files} present"]
    if report.n_new_rows:
        parts.append(f"{report.n_new_rows:,} rows written from {report.n_source_rows:,} read")
    if report.n_unreadable_rows:
        parts.append(f"{report.n_unreadable_rows:,} have no usable response; notes say why")
    notes = list(report.notes[:_N_NOTES_SHOWN])
    if len(report.notes) > _N_NOTES_SHOWN:
        notes.append(f"and {len(report.notes) - _N_NOTES_SHOWN} more notes, which --json shows")
    return "\n  ".join(["; ".join(parts), *notes]) + "\n"
