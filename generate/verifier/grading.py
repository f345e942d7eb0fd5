"""Verdicts on the outputs of a run: what the declared grader has not graded yet, appended batch by batch.

What is missing is read from the lake each time, and a batch counts once it is whole. So grading that was
stopped anywhere goes on there, and another version of a grader adds verdicts and changes none.
"""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from generate.questions import rows_of_run, runs_of
from generate.verifier.client import Asked, Verdict, Verifier
from generate.verifier.extraction import RULES
from store.errors import InvalidSource, LakeUnusable
from store.lake import batch_parts, commit_batch, only_writer
from store.protocol import Grader, load_datasets, load_graders, load_metrics
from store.schemas import RAW_TABLES, VERDICTS
from store.settings import Home

OnProgress = Callable[[int, int, str], None]
"""Called with outputs that are graded, outputs that were to be graded, and the name of the data set."""

# few, because a batch that is broken off is graded again, and because an output may be 10 MB of text
_N_OUTPUTS_PER_BATCH = 32
_OF_ROW = ("task", "answer", "metadata", "level", "mode")

# item and episode: what an output answers
_Key = tuple[str, str]
# what is known of an output: its key, its text, its status and the reason of that
_Output = Mapping[str, Any]
# a question as the verifier knows it
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GradeReport:
    """What became of the outputs of one run.

    Attributes
    ----------
    n_outputs
        Outputs that had no verdict under some answer rule.
    n_verdicts
        Verdicts that were added: one per output and answer rule.
    n_by_status
        How many of these have another status than ok.
    n_not_graded
        Of these, those of a text that the grader gave no score: ``timeout``, ``crash``, ``error`` and
        ``not_finite``. The rest are of outputs that had failed and keep their status.
    """

    run_id: str
    dataset_id: str
    grader_id: str
    grader_version: str
    n_outputs: int
    n_verdicts: int
    n_by_status: Mapping[str, int]
    n_not_graded: int
    seconds: float


def grader_of(dataset_id: str) -> Grader | None:
    """Return the grader of a data set's component; None if SQL grades it.

    Raises
    ------
    InvalidSource
        If there is no such data set or grader, its metrics name another version than ``graders.toml``, or it
        has an answer rule that is not in ``generate/verifier/extraction.py``.
    """
    dataset = load_datasets().get(dataset_id)
    if dataset is None:
        raise InvalidSource(
            f"{dataset_id}: expected a data set of manifests/cognirank_datasets.csv "
            f"({', '.join(load_datasets())}), found no such row"
        )
    named = {
        (row.grader_id, row.grader_version or "")
        for row in load_metrics()
        if row.component_id == dataset.component_id and row.grader_id is not None
    }
    if not named:
        return None
    graders = {(grader.id, grader.version): grader for grader in load_graders().values()}
    if len(named) > 1 or not named <= graders.keys():
        raise InvalidSource(
            f"cognirank_metrics.csv: {dataset.component_id}: expected one grader of manifests/graders.toml "
            f"at its version, found {', '.join(sorted(map(' '.join, named)))}"
        )
    grader = graders[named.pop()]
    if unknown := [rule for rule in grader.answer_rules if rule not in RULES]:
        raise InvalidSource(
            f"graders.toml: {grader.id}: answer_rules: expected {', '.join(RULES)}, found {unknown[0]}"
        )
    return grader


def grade_run(lake: Home, run_id: str, dataset_id: str, on_progress: OnProgress) -> GradeReport:
    """Grade the outputs of a run that the declared grader has not graded, under each of its answer rules.

    An output that failed gets verdicts without a value, with its own status and reason. The verifier starts
    only if there is a text to grade.

    Raises
    ------
    InvalidSource
        If a manifest is not valid, the data set has no grader, or an item that was answered is not in the
        lake.
    EngineFailed
        If the verifier is not there or cannot go on; verdicts of whole batches are in the lake.
    LakeUnusable
        If the lake cannot be read or written, or another process grades the run.
    """
    grader = grader_of(dataset_id)
    if grader is None:
        raise InvalidSource(f"{dataset_id}: expected a data set with a grader, found one that SQL scores")
    started = datetime.now(UTC)
    n_by_status: Counter[str] = Counter()
    with only_writer(lake, f"{run_id}.verdicts"):
        lacking = _lacking(lake, run_id, dataset_id, grader)
        rows = _rows(lake, run_id, dataset_id) if lacking else {}
        n_done = 0
        with closing(_Grading(grader, run_id, dataset_id, rows)) as grading:
            for outputs in _outputs(lake, run_id, dataset_id, lacking):
                began = datetime.now(UTC)
                verdicts = [verdict for output in outputs for verdict in grading.verdicts(output, lacking)]
                commit_batch(
                    lake,
                    run_id,
                    [("verdicts", pa.Table.from_pylist(verdicts, VERDICTS))],
                    n_requests=0,
                    environment=grading.environment(),
                    started_at=began,
                )
                n_by_status.update(verdict["status"] for verdict in verdicts)
                n_done += len(outputs)
                on_progress(n_done, len(lacking), dataset_id)
    return GradeReport(
        run_id,
        dataset_id,
        grader.id,
        grader.version,
        len(lacking),
        n_by_status.total(),
        {status: n for status, n in sorted(n_by_status.items()) if status != "ok"},
        grading.n_not_graded,
        (datetime.now(UTC) - started).total_seconds(),
    )


class _Grading:
    """Grades outputs of one run; the verifier starts with the first text.

    Attributes
    ----------
    n_not_graded
        Verdicts without a score on texts, so far.
    """

    def __init__(self, grader: Grader, run_id: str, dataset_id: str, rows: Mapping[str, _Row]) -> None:
        self._grader, self._run_id, self._dataset_id, self._rows = grader, run_id, dataset_id, rows
        self.n_not_graded = 0
        self._verifier: Verifier | None = None
        self._opened = ExitStack()

    def close(self) -> None:
        """End the verifier."""
        self._opened.close()

    def verdicts(self, output: _Output, lacking: Mapping[_Key, Sequence[str]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of an output in the schema of ``verdicts``."""
        for rule in lacking[_key(output)]:
            row = {
                "run_id": self._run_id,
                "item_id": output["item_id"],
                "mode_id": self._dataset_id,
                "episode_id": output["episode_id"],
                "grader_id": self._grader.id,
                "grader_version": self._grader.version,
                "answer_rule": rule,
            }
            if output["status"] != "ok":
                yield row | {"status": output["status"], "status_reason": output["status_reason"]}
            else:
                verdict = self._graded(output["item_id"], output["response_text"], rule)
                self.n_not_graded += verdict.status != "ok"
                yield row | {
                    "verdict": verdict.score,
                    "duration_s": verdict.seconds,
                    "status": verdict.status,
                    "status_reason": verdict.reason,
                }

    def _graded(self, item_id: str, response: str | None, rule: str) -> Verdict:
        if response is None:
            return Verdict(status="error", reason="the output has no text", seconds=0)
        if item_id not in self._rows:
            raise InvalidSource(
                f"{self._run_id}: {item_id}: expected the item that was answered in the lake, found none; "
                "ingest its source again (`coglake ingest --list`)"
            )
        if self._verifier is None:
            self._verifier = self._opened.enter_context(closing(Verifier(self._grader)))
        return self._verifier.verdict(Asked(self._rows[item_id], RULES[rule](response)))

    def environment(self) -> dict[str, str]:
        """Return the machine and packages behind a batch."""
        here = {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "coglake": version("coglake"),
        }
        if self._verifier is None:
            return here
        found = self._verifier.introduction
        packages = " ".join(f"{name}=={number}" for name, number in sorted(found.packages.items()))
        return here | {"verifier_python": found.python, "verifier_packages": packages}


def _key(output: _Output) -> _Key:
    return output["item_id"], output["episode_id"]


def _lacking(lake: Home, run_id: str, dataset_id: str, grader: Grader) -> dict[_Key, list[str]]:
    """Return the answer rules under which each output has no verdict; outputs that have all are left out."""
    of_version = (pc.field("grader_id") == grader.id) & (pc.field("grader_version") == grader.version)
    columns = ["item_id", "episode_id", "answer_rule"]
    graded = {
        (row["item_id"], row["episode_id"], row["answer_rule"])
        for batch in _scanned(lake, run_id, "verdicts", columns, of_version)
        for row in batch
    }
    answered = {
        _key(row)
        for batch in _scanned(lake, run_id, "outputs", columns[:2], pc.field("mode_id") == dataset_id)
        for row in batch
    }
    lacking = {key: [rule for rule in grader.answer_rules if (*key, rule) not in graded] for key in answered}
    return {key: rules for key, rules in sorted(lacking.items()) if rules}


def _outputs(
    lake: Home, run_id: str, dataset_id: str, lacking: Mapping[_Key, Sequence[str]]
) -> Iterator[list[_Output]]:
    """Yield the outputs that lack a verdict, in batches, each output once."""
    columns = ["item_id", "episode_id", "response_text", "status", "status_reason"]
    seen: set[_Key] = set()
    for batch in _scanned(lake, run_id, "outputs", columns, pc.field("mode_id") == dataset_id):
        fresh = {_key(row): row for row in batch if _key(row) in lacking and _key(row) not in seen}
        seen |= fresh.keys()
        if fresh:
            yield list(fresh.values())


def _scanned(
    lake: Home, run_id: str, table: str, columns: list[str], where: pc.Expression
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a raw table that a run's batches committed, some at a time."""
    parts = [str(path) for path in batch_parts(lake, run_id, table)]
    if not parts:
        return
    try:
        # nothing is read ahead, for a response may be long
        scanner = ds.dataset(parts, schema=RAW_TABLES[table]).scanner(
            columns, where, batch_size=_N_OUTPUTS_PER_BATCH, batch_readahead=0, fragment_readahead=0
        )
        for batch in scanner.to_batches():
            yield batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise LakeUnusable(f"raw/{table}: {error}; run `coglake doctor`") from error


def _rows(lake: Home, run_id: str, dataset_id: str) -> dict[str, _Row]:
    """Return by item what the verifier is told of it, from the runs that brought the items of this run."""
    runs = {
        run["run_id"]: run for run in runs_of(lake).select(["run_id", "identity_json", "parts"]).to_pylist()
    }
    identity = json.loads(runs[run_id]["identity_json"] or "{}") if run_id in runs else {}
    brought = [name for name in identity.get("items", []) if name in runs]
    found: dict[str, _Row] = {}
    for name in brought:
        items = rows_of_run(
            lake,
            "items",
            name,
            runs[name]["parts"],
            ["item_id", "prompt", "facts_json"],
            pc.field("mode_id") == dataset_id,
        )
        found |= {item["item_id"]: _row(item) for item in items.to_pylist()}
    return found


def _row(item: Mapping[str, Any]) -> _Row:
    facts = json.loads(item["facts_json"] or "{}")
    if lacking := [name for name in _OF_ROW if name not in facts]:
        raise InvalidSource(
            f"{item['item_id']}: facts_json: expected {', '.join(_OF_ROW)} for the verifier, found no "
            f"{lacking[0]}"
        )
    return {name: facts[name] for name in _OF_ROW} | {"prompt": item["prompt"]}


def graded_runs(lake: Home) -> Iterable[tuple[str, str, str]]:
    """Yield run, model and data set of every model's run on a data set that has a grader, by their names."""
    graded = [name for name in load_datasets() if grader_of(name) is not None]
    runs = runs_of(lake).filter(pc.field("kind") == "model")
    for run in sorted(runs.to_pylist(), key=lambda run: (run["model_id"], run["run_id"])):
        for dataset_id in graded:
            if dataset_id in run["planned_modes"]:
                yield run["run_id"], run["model_id"], dataset_id
