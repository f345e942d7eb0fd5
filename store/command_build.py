"""``coglake build``: build and say what came of it."""

from collections.abc import Sequence

from store import console
from store.build import Audit, BuildReport, audit, build
from store.formats import Sheet, to_json
from store.settings import home, project_dir


def run(
    select: Sequence[str] = (),
    threads: int | None = None,
    *,
    full_refresh: bool = False,
    as_json: bool = False,
) -> None:
    """Build the marts and print the counts, what failed, and how published cells compare."""
    report = build(
        home(), project_dir(), select=select, threads=threads, full_refresh=full_refresh, quiet=False
    )
    summary = None if report.failures else audit(home())
    if as_json:
        console.write(to_json({"build": report, "audit": summary}))
    else:
        console.write(f"{counts(report)}\n")
        if summary is not None:
            console.show(_by_metric(summary))
            console.write(f"{totals(summary)}\n")
    complain(report)


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
