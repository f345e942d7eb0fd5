"""Ingest: fetch pinned files, read them and append what they hold to the raw tables."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from ingest.cogbench import CogBenchImporter
from ingest.contract import Imported, Importer, JoiningImporter, StreamingImporter
from ingest.discounting import DelayDiscountingImporter
from ingest.fetch import Fetcher, cache_path, needs_login
from ingest.learning_bench import LearningBenchImporter
from ingest.marc import GridPuzzleImporter
from ingest.mouselab import MouselabImporter
from ingest.multi_attribute import MultiAttributeImporter
from ingest.nonliteral import NonliteralImporter
from ingest.participants import Salt, require_one_salt, run_ids_of, salted_run_id, without_names
from ingest.politeness import PolitenessImporter
from ingest.pragmatics import PragmaticsImporter
from ingest.procedural_pile import ProceduralPileImporter
from ingest.psych_101 import PsychImporter
from ingest.rlwm import PictureLearningImporter
from ingest.self_regulation import SelfRegulationImporter
from ingest.smolcua import ComputerUseImporter
from ingest.tomi import ToMiImporter
from ingest.ttm import TheoryOfMindImporter
from ingest.wcst import CardSortingImporter
from ingest.weather import WeatherImporter
from store.errors import ChecksumMismatch, InvalidSource, LakeUnusable, StoreError
from store.lake import Part, append, commit, commit_parts, committed_runs, part_paths
from store.manifest import PinnedFile, Source
from store.protocol import load_components, load_datasets
from store.schemas import RUNS
from store.settings import Home

# source id -> importer; a source that is not here is pinned and verified, no more
IMPORTERS: dict[str, Importer | JoiningImporter | StreamingImporter] = {
    "cogbench": CogBenchImporter(),
    "demo_archive": CogBenchImporter(),
    "hbayesdm": DelayDiscountingImporter(),
    "hmmr": WeatherImporter(),
    "hyperbole": NonliteralImporter(),
    "learning_bench": LearningBenchImporter(),
    "marc": GridPuzzleImporter(),
    "marc_like": GridPuzzleImporter(),
    "mouselab": MouselabImporter(),
    "multinomineq": MultiAttributeImporter(),
    "pile_like": ProceduralPileImporter(),
    "polite_speaker": PolitenessImporter(),
    "pragmatics": PragmaticsImporter(),
    "procedural_pile": ProceduralPileImporter(),
    "psych_101": PsychImporter(),
    "psych_101_test": PsychImporter(),
    "rlwm": PictureLearningImporter(),
    "self_regulation": SelfRegulationImporter(),
    "smolcua": ComputerUseImporter(),
    "smolcua_like": ComputerUseImporter(),
    "tomi": ToMiImporter(),
    "ttm": TheoryOfMindImporter(),
    "ttm_like": TheoryOfMindImporter(),
    "wcst_prl": CardSortingImporter(),
}

_UPSTREAMS = {"psych_101": "marcelbinz/Psych-101", "psych_101_test": "marcelbinz/Psych-101-test"}

OnProgress = Callable[[str, int, int, str], None]
"""Called after each file with source id, files done, files in all and the file's path."""

# reading is bound by the processor and goes one file at a time; fetching the next files meanwhile is free
_FETCHES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one ingest did with one source.

    Attributes
    ----------
    n_files
        Pinned files.
    n_new_files
        Files imported now; on a dry run, files that would be. Without an importer: files fetched now.
    n_present_files
        Files whose rows were in the lake before; without an importer: files that were in the cache.
    n_new_rows
        Rows appended now, all raw tables together.
    n_source_rows, n_unreadable_rows
        Data rows of the files imported now, and how many of them carry a status other than ``ok``.
    notes
        One sentence each.
    failures
        One error per file that is not what the manifest declares; its sentence names the file. One if no
        pinned file of a data set of CogniRank can hold its questions.
    """

    source_id: str
    n_files: int
    n_new_files: int
    n_present_files: int
    n_new_rows: int
    n_source_rows: int
    n_unreadable_rows: int
    notes: tuple[str, ...]
    failures: tuple[StoreError, ...]


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the lake holds of one source.

    Attributes
    ----------
    pin
        ``repo@revision``, the revision cut to 12 digits.
    bytes
        Size of all pinned files; None if one of them is not known.
    n_rows
        Data rows of the files whose rows are in the lake.
    state
        ``imported``, ``partly imported (k of n files)``, ``cached, not imported``, ``not fetched`` or
        ``gated: set HF_TOKEN``.
    """

    id: str
    pin: str
    licence: str
    n_files: int
    bytes: int | None
    n_rows: int
    state: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """Files of one source that hold rows: those that the lake lacks and those that it has."""

    new: tuple[PinnedFile, ...]
    present: tuple[PinnedFile, ...]


def upstream(source_id: str) -> str | None:
    """Return what ``coglake pin SOURCE`` is told to pin the files of an importer; None if nobody knows.

    Some have no pin here: not every account sees them, or the names of their files are not public.

    Raises
    ------
    InvalidSource
        If the protocol of CogniRank cannot be read.
    """
    for dataset in load_datasets().values():
        if dataset.source_id == source_id and not dataset.is_stand_in:
            component = load_components()[dataset.component_id]
            return f"{component.repo} --revision {component.revision}"
    return _UPSTREAMS.get(source_id)


def ingest(
    lake: Home,
    sources: Iterable[Source],
    *,
    mirror: str | None = None,
    salt: Salt | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> list[SourceReport]:
    """Bring every pinned file of ``sources`` into the raw tables, once.

    A file whose rows are committed is not fetched again, so a second ingest adds nothing and one after
    an interruption completes. A file that is not what the manifest declares does not stop the others.

    Parameters
    ----------
    lake
        Lake to append to.
    sources
        Sources in the order they are worked on; one report each.
    mirror
        Folder or http(s) address asked before upstream.
    salt
        What participants are hashed with; None to call them as the files do.
    dry_run
        Fetch and write nothing; report what would be done.
    on_progress
        Called after each file.

    Raises
    ------
    SourceUnavailable
        If a file cannot be had; rows of the files before it stay.
    WrongUsage
        If participants of one of the sources are in the lake under another salt or none.
    LakeUnusable
        If the lake cannot be written.
    """
    sources = list(sources)
    committed = require_same_salt(lake, sources, salt)
    if dry_run:
        return [_report(source, _plan(lake, source, committed)) for source in sources]
    with Fetcher(lake, mirror) as fetcher:
        return [
            _ingest_source(lake, source, _plan(lake, source, committed), fetcher, salt, on_progress)
            for source in sources
        ]


def require_same_salt(lake: Home, sources: Iterable[Source], salt: Salt | None) -> frozenset[str]:
    """Return the runs that the lake holds, if none of them calls a participant of the sources otherwise.

    Raises
    ------
    WrongUsage
        If participants of one of the sources are in the lake under another salt or none.
    """
    committed = committed_runs(lake)
    files = (
        (source, file, run_id)
        for source in sources
        if source.id in IMPORTERS
        for file in source.files
        for run_id in [IMPORTERS[source.id].identify(source, file)]
        if run_id is not None
    )
    require_one_salt(files, committed, salt)
    return committed


def listing(lake: Home, sources: Iterable[Source]) -> list[SourceState]:
    """Return what the lake holds of each source; cached files are looked for, not hashed.

    Raises
    ------
    LakeUnusable
        If the table of runs cannot be read.
    """
    committed = committed_runs(lake)
    n_rows = _n_rows_by_source(lake)
    return [
        SourceState(
            id=source.id,
            pin=f"{source.repo}@{source.revision[:12]}",
            licence=source.licence,
            n_files=source.n_files,
            bytes=source.n_bytes,
            n_rows=n_rows.get(source.id, 0),
            state=_state(lake, source, _plan(lake, source, committed)),
        )
        for source in sources
    ]


def _plan(lake: Home, source: Source, committed: frozenset[str]) -> _Plan:
    importer = IMPORTERS.get(source.id)
    if importer is None:
        is_present = {file: cache_path(lake, file).is_file() for file in source.files}
    else:
        run_ids = {file: importer.identify(source, file) for file in source.files}
        is_present = {
            file: bool(run_ids_of(run_id, committed))
            for file, run_id in run_ids.items()
            if run_id is not None
        }
    return _Plan(
        new=tuple(file for file in is_present if not is_present[file]),
        present=tuple(file for file in is_present if is_present[file]),
    )


def _report(source: Source, plan: _Plan) -> SourceReport:
    """Return the report of a source before anything is fetched: what there is to do."""
    notes = []
    if source.id not in IMPORTERS:
        notes.append("no importer yet")
    if n_without_rows := source.n_files - len(plan.new) - len(plan.present):
        notes.append(f"{n_without_rows} of {source.n_files} files hold no rows for the store")
    return SourceReport(
        source_id=source.id,
        n_files=source.n_files,
        n_new_files=len(plan.new),
        n_present_files=len(plan.present),
        n_new_rows=0,
        n_source_rows=0,
        n_unreadable_rows=0,
        notes=tuple(notes),
        failures=_no_questions(source, plan),
    )


def _no_questions(source: Source, plan: _Plan) -> tuple[StoreError, ...]:
    """Return what is wrong with a data set of CogniRank of whose pinned files none holds its questions."""
    is_data_set = source.id in {dataset.source_id for dataset in load_datasets().values()}
    if not is_data_set or plan.new or plan.present:
        return ()
    found = ", ".join(file.path for file in source.files)
    return (
        InvalidSource(
            f"manifests/sources.toml: [{source.id}] files: expected a file of questions, found only {found}; "
            "docs/benchmarks/cognirank.md says what is read: pin such a file too"
        ),
    )


def _ingest_source(
    lake: Home,
    source: Source,
    plan: _Plan,
    fetcher: Fetcher,
    salt: Salt | None,
    on_progress: OnProgress | None,
) -> SourceReport:
    report = _report(source, plan)
    # without an importer the cached files are all there is to check; with one, their rows are in the lake
    todo = plan.new if source.id in IMPORTERS else source.files
    failures: dict[PinnedFile, StoreError] = {}
    pool = ThreadPoolExecutor(_FETCHES_AT_ONCE)
    try:
        fetches = [pool.submit(fetcher.fetch, source, file) for file in todo]
        n_done = source.n_files - len(todo)
        for done, (file, fetched) in enumerate(zip(todo, fetches, strict=True), start=n_done + 1):
            try:
                report = _add_file(lake, source, file, fetched.result(), report, fetcher, salt)
            except (InvalidSource, ChecksumMismatch) as error:
                failures[file] = _naming(source.uri(file), error)
            if on_progress is not None:
                on_progress(source.id, done, source.n_files, file.path)
    finally:
        # after an error nothing more is asked of upstream
        pool.shutdown(cancel_futures=True)
    if source.id not in IMPORTERS and not failures:
        report = replace(report, notes=("pinned and verified; no importer yet",))
    return replace(
        report,
        n_new_files=sum(file not in failures for file in plan.new),
        n_present_files=sum(file not in failures for file in plan.present),
        failures=(*report.failures, *failures.values()),
    )


def _add_file(
    lake: Home,
    source: Source,
    file: PinnedFile,
    path: Path,
    report: SourceReport,
    fetcher: Fetcher,
    salt: Salt | None,
) -> SourceReport:
    """Append what ``file`` holds and return the report with its rows counted."""
    importer = IMPORTERS.get(source.id)
    if importer is None:
        return report
    if isinstance(importer, StreamingImporter):
        parts, imported = _commit_stream(lake, importer, source, file, path, salt)
    else:
        imported = _without_names(source, file, _read(importer, source, file, path, fetcher), salt)
        *tables, (_, runs) = [(raw.table, raw.rows) for raw in imported.rows]
        parts = commit(lake, imported.run_id, tables, runs)
    return replace(
        report,
        n_new_rows=report.n_new_rows + sum(part.n_rows for part in parts if part.is_new),
        n_source_rows=report.n_source_rows + imported.n_source_rows,
        n_unreadable_rows=report.n_unreadable_rows + imported.n_unreadable_rows,
        notes=(*report.notes, *(f"{file.path}: {note}" for note in imported.notes)),
    )


def _read(
    importer: Importer | JoiningImporter, source: Source, file: PinnedFile, path: Path, fetcher: Fetcher
) -> Imported:
    if isinstance(importer, JoiningImporter):
        companions = {other.path: fetcher.fetch(source, other) for other in importer.companions(source, file)}
        return importer.read_with(source, file, path, companions)
    return importer.read(source, file, path)


def _commit_stream(
    lake: Home,
    importer: StreamingImporter,
    source: Source,
    file: PinnedFile,
    path: Path,
    salt: Salt | None,
) -> tuple[tuple[Part, ...], Imported]:
    """Append tables as they come and commit them with the last; return the parts and what the run says."""
    read_as = str(importer.identify(source, file))
    run_id = salted_run_id(source, file, read_as, salt)
    parts: list[Part] = []
    for found in importer.stream(source, file, path):
        [raw] = without_names(source, file, read_as, [found], salt)
        if raw.table == "runs":
            [run] = raw.rows.to_pylist()
            imported = Imported(
                run_id, (raw,), run["n_source_rows"], run["n_unreadable_rows"], tuple(run["notes"])
            )
            return commit_parts(lake, run_id, parts, raw.rows), imported
        parts.append(append(lake, raw.table, raw.rows, run_id))
    raise InvalidSource(f"{run_id}: expected a run after its rows, found none")


def _without_names(source: Source, file: PinnedFile, imported: Imported, salt: Salt | None) -> Imported:
    if salt is None:
        return imported
    rows = without_names(source, file, imported.run_id, imported.rows, salt)
    [run] = rows[-1].rows.to_pylist()
    return replace(imported, run_id=run["run_id"], rows=rows, notes=tuple(run["notes"]))


def _naming(uri: str, error: StoreError) -> StoreError:
    """Return ``error`` with the file's name in its sentence."""
    return error if uri in str(error) else type(error)(f"{uri}: {error}")


def _state(lake: Home, source: Source, plan: _Plan) -> str:
    # files that hold no rows count only where there are no others
    files = (*plan.new, *plan.present) or source.files
    if source.id in IMPORTERS and plan.present:
        partly = f"partly imported ({len(plan.present)} of {len(files)} files)"
        return partly if plan.new else "imported"
    if all(cache_path(lake, file).is_file() for file in files):
        return "cached, not imported"
    return "gated: set HF_TOKEN" if needs_login(source) else "not fetched"


def _n_rows_by_source(lake: Home) -> dict[str, int]:
    parts = [str(path) for path in part_paths(lake, "runs")]
    if not parts:
        return {}
    try:
        runs = ds.dataset(parts, schema=RUNS).to_table(columns=["source_id", "n_source_rows"])
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"{lake.raw / 'runs'}: {error}; run `coglake doctor`") from error
    totals = runs.group_by("source_id").aggregate([("n_source_rows", "sum")]).to_pylist()
    return {total["source_id"]: total["n_source_rows_sum"] or 0 for total in totals}
