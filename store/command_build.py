"""``coglake build``: build and say what came of it."""

from collections.abc import Sequence
from pathlib import Path

from store import console
from store.build import Audit, BuildReport, audit, build
from store.errors import CheckFailed, WrongUsage
from store.formats import Sheet, to_json
from store.lock import Difference, Lock, input_differences, read_lock, result_differences, sentences
from store.settings import home, project_dir


def run(
    select: Sequence[str] = (),
    threads: int | None = None,
    *,
    full_refresh: bool = False,
    locked: Path | None = None,
    as_json: bool = False,
) -> None:
    """Build the marts and print the counts, what failed, and how published cells compare.

    With ``locked`` nothing is built if what goes in is not what that lock file says, and what comes out is
    compared with it.
    """
    if locked is not None and select:
        raise WrongUsage("--locked: a lock is of a full build: leave out --select")
    lake, project = home(), project_dir()
    lock = None if locked is None else read_lock(locked)
    differences = [] if lock is None else input_differences(lock, lake, project)
    if lock is not None and differences:
        if as_json:
            _write_json(None, None, differences)
        _refuse(lock, differences, f"{locked}: not built, since what goes in differs from the lock")
    report = build(lake, project, select=select, threads=threads, full_refresh=full_refresh, quiet=False)
    summary = None if report.failures else audit(lake)
    if lock is not None and not report.failures:
        differences = result_differences(lock, lake, project)
    if as_json:
        _write_json(report, summary, None if lock is None else differences)
    else:
        console.write(f"{counts(report)}\n")
        if summary is not None:
            console.show(_by_metric(summary))
            console.write(f"{totals(summary)}\n")
    complain(report)
    if lock is not None and differences:
        _refuse(lock, differences, f"{locked}: built, but what came out differs from the lock")
    if lock is not None and not as_json:
        console.write(f"as locked: {len(lock.results.rules)} rules and {len(lock.results.marts)} marts\n")


def _write_json(
    report: BuildReport | None, summary: Audit | None, differences: Sequence[Difference] | None
) -> None:
    """Write what a build did; without a lock there is nothing that could differ from it."""
    locked = {} if differences is None else {"differences": differences}
    console.write(to_json({"build": report, "audit": summary, **locked}))


def _refuse(lock: Lock, differences: Sequence[Difference], sentence: str) -> None:
    """Say what differs from a lock, kind by kind, and raise ``CheckFailed``."""
    for line in sentences(lock, differences):
        console.say(f"differs: {line}")
    kinds = ", ".join(dict.fromkeys(difference.kind for difference in differences))
    raise CheckFailed(f"{sentence}: {kinds}")


def complain(report: BuildReport) -> None:
    """Say what dbt warned of and what failed; raise ``CheckFailed`` if anything did."""
    for warning in report.warnings:
        console.say(f"warning: {warning}")
    for failure in report.failures:
        query = f"; its query: {failure.query}" if failure.query else ""
        console.say(f"failed: {failure.kind} {failure.name}: {failure.message}{query}")
    report.require_success()


def counts(report: BuildReport) -> str:
    """Return in one line what was built and how long it took."""
    ends = [
        f"{count.kind} {count.ok} ok"
        + (f", {count.failed} failed" if count.failed else "")
        + (f", {count.skipped} skipped" if count.skipped else "")
        for count in report.counts
    ]
    return f"{'; '.join(ends)} ({report.elapsed_s:.1f} s)"


def totals(summary: Audit) -> str:
    """Return in one line how the marts compare with what is published and planned."""
    n_agree = sum(compared.n_agree for compared in summary.published)
    n_disagree = sum(compared.n_disagree for compared in summary.published)
    n_not_comparable = sum(compared.n_not_comparable for compared in summary.published)
    return (
        f"published cells: {n_agree:,} agree, {n_disagree:,} disagree, {n_not_comparable:,} not comparable; "
        f"incomplete metrics: {summary.n_incomplete:,} of {summary.n_metrics:,}"
    )


def _by_metric(summary: Audit) -> Sheet:
    return Sheet(
        headers=("published metric", "agree", "disagree", "not comparable"),
        rows=tuple(
            (compared.metric, compared.n_agree, compared.n_disagree, compared.n_not_comparable)
            for compared in summary.published
        ),
    )
