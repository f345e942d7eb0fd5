"""``coglake grade``: let the declared graders grade what they have not, and say what came of it."""

from collections import Counter
from collections.abc import Sequence

from generate.verifier.grading import GradeReport, grade_run, graded_runs
from store import console
from store.errors import EngineFailed
from store.formats import Sheet, to_json
from store.settings import home
from store.usage import require_known


def run(models: Sequence[str] | None, *, as_json: bool) -> None:
    """Grade the outputs of models, of all by default.

    Raises
    ------
    WrongUsage
        If a model has no run with a grader in the lake.
    EngineFailed
        If the verifier cannot go on, or a text got no score.
    """
    lake = home()
    runs = list(graded_runs(lake))
    known = sorted({model_id for _, model_id, _ in runs})
    require_known("model", models or (), known, f"there are {', '.join(known) or 'none'}")
    reports = []
    with console.progress("grade", has_rate=True) as step:
        for run_id, model_id, dataset_id in runs:
            if not models or model_id in models:
                reports.append(grade_run(lake, run_id, dataset_id, step))
    if as_json:
        console.write(to_json({"runs": reports}))
    else:
        console.show(sheet(reports))
    complain(reports)


def complain(reports: Sequence[GradeReport]) -> None:
    """Say which verdicts have no score.

    Raises
    ------
    EngineFailed
        If the grader gave none to an answer.
    """
    by_status: Counter[str] = Counter()
    for report in reports:
        by_status.update(report.n_by_status)
    for status, n in sorted(by_status.items()):
        console.say(
            f"warning: {n} new verdicts are {status}: they have no score, nor has a metric that needs one"
        )
    if n := sum(report.n_not_graded for report in reports):
        raise EngineFailed(
            f"expected a score in each verdict on a text, found {n} without one: status_reason in "
            "stg_verdicts says why; an answer is not asked again for its sake, --repeat is another run"
        )


def sheet(reports: Sequence[GradeReport]) -> Sheet:
    """Return one row per run."""
    return Sheet(
        headers=("data set", "outputs", "new verdicts", "not ok", "seconds", "grader", "run"),
        rows=tuple(
            (
                report.dataset_id,
                report.n_outputs,
                report.n_verdicts,
                sum(report.n_by_status.values()),
                f"{report.seconds:.1f}",
                f"{report.grader_id} {report.grader_version}",
                report.run_id,
            )
            for report in reports
        ),
        printed=frozenset({4}),
    )
