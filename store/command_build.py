"""``coglake build``: build and say what came of it."""

from collections.abc import Iterator, Sequence

from store import console
from store.build import Audit, BuildReport, audit, build
from store.formats import to_json
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
        console.write("".join(f"{line}\n" for line in describe(report, summary)))
    for warning in report.warnings:
        console.say(f"warning: {warning}")
    for failure in report.failures:
        query = f"; its query: {failure.query}" if failure.query else ""
        console.say(f"failed: {failure.kind} {failure.name}: {failure.message}{query}")
    report.require_success()


def describe(report: BuildReport, summary: Audit | None) -> Iterator[str]:
    """Return what was built and how it compares with what is published, line by line."""
    ends = [
        f"{count.kind} {count.ok} ok"
        + (f", {count.failed} failed" if count.failed else "")
        + (f", {count.skipped} skipped" if count.skipped else "")
        for count in report.counts
    ]
    yield f"{'; '.join(ends)} ({report.elapsed_s:.1f} s)"
    if summary is not None:
        for compared in summary.published:
            yield (
                f"published {compared.metric}: {compared.n_agree} agree, {compared.n_disagree} disagree, "
                f"{compared.n_not_comparable} not comparable"
            )
        yield f"incomplete cells: {summary.n_incomplete_cells}"
