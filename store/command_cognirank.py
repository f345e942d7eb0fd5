"""``coglake cognirank``: ask models the components of CogniRank, one after another, and say what came of it.

Answers and verdicts go into the lake, scores come from the build, and the output folder tells both to readers
who have neither. A model that fails does not stop the next.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import typer

from generate.contract import EngineFacts
from generate.engines.settings import describe, open_engine
from generate.evaluation import (
    Asking,
    Described,
    Planned,
    SharedEngine,
    ask_component,
    describe_model,
    n_needed,
    n_questions,
    plan_component,
    played,
)
from generate.evaluation_predictions import Answered, answered, predictions, ungraded
from generate.verifier.grading import grade_run, grader_of
from generate.weights import Weights, resolve, run_slug
from store import console
from store.build import build
from store.command_build import complain
from store.command_generate_model import stop_after_batch
from store.command_ingest import ingest_stand_in
from store.database import connect
from store.errors import (
    CheckFailed,
    EngineFailed,
    InvalidSource,
    LakeUnusable,
    SourceUnavailable,
    StoreError,
    WrongUsage,
)
from store.evaluation_files import (
    COMPARISON,
    ENVIRONMENT,
    PACKAGES,
    RELEASE,
    RESULTS,
    ComponentRecord,
    ContextRecord,
    ModelFolder,
    RunRecord,
    begin_writing,
    json_lines,
    read_json,
    read_records,
    read_release,
    require_unchanged,
    write_sums,
)
from store.evaluation_results import item_scores, results_of
from store.export import coglake_version
from store.files import write_whole
from store.formats import Sheet, to_json
from store.lake import only_writer
from store.manifest import load_sources
from store.protocol import Dataset, generation_id, load_components, release_files, release_id
from store.settings import Home, home, project_dir
from store.usage import require_known

_INTERRUPTED = 130
_NOT_FOUND = "unresolved"
_LOG, _PREDICTIONS = "log.txt", "predictions.jsonl"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for.

    Attributes
    ----------
    models
        Folders, or repositories on the hub, each once.
    revision
        Of the only model; None for ``main``.
    output
        Folder of the results; None for a plan that is for no folder.
    is_resumed
        Whether it holds results that are to be gone on with.
    """

    models: Sequence[str]
    revision: str | None
    output: Path | None
    is_resumed: bool
    asking: Asking


def wanted(
    *,
    models: Sequence[str],
    revision: str | None,
    output: Path | None,
    is_resumed: bool,
    asking: Mapping[str, Any],
    stand_ins: Sequence[str],
) -> Wanted:
    """Return what a command line asks for.

    Parameters
    ----------
    asking
        Fields of :class:`generate.evaluation.Asking` but the components of ``stand_ins``.

    Raises
    ------
    WrongUsage
        If the arguments do not go together.
    """
    components = load_components()
    others = f"there are {', '.join(components)} and all"
    require_known("component", [name for name in stand_ins if name != "all"], components, others)
    chosen = frozenset(components if "all" in stand_ins else stand_ins)
    if len(set(models)) < len(models):
        raise WrongUsage(f"--models {' '.join(models)}: expected different models, found one twice")
    if revision is not None and len(models) != 1:
        raise WrongUsage(f"--model-revision: expected one model that it is of, found {len(models)}")
    if is_resumed and output is None:
        raise WrongUsage("--resume: expected the folder of the results as --output-dir")
    return Wanted(models, revision, output, is_resumed, Asking(**asking, stand_ins=chosen))


@dataclass(frozen=True, slots=True)
class Stop:
    """Whether the user wants an end, and how progress is shown."""

    is_wanted: Callable[[], bool]
    step: console.Step


def run(wanted: Wanted, *, as_json: bool) -> None:
    """Evaluate the models, write the folder, and print one row per model.

    Raises
    ------
    EngineFailed
        If a model or a component of it failed.
    SourceUnavailable
        If only questions of components are missing.
    """
    if not wanted.models or wanted.output is None:
        lacking = (
            "--output-dir, or --dry-run"
            if wanted.models
            else "--model or --models, or one of --dry-run, --verify, --print-requirements, --extract-only"
        )
        raise WrongUsage(f"expected {lacking}, found neither")
    lake, output = home(), wanted.output
    with _only_runner(lake, output):
        records = open_output(output, lake, is_resumed=wanted.is_resumed)
        # before anything is written: what is refused here leaves no folder behind
        opened = _open_models(output, wanted, records or {})
        _bring_questions(lake, wanted.asking)
        if records is None:
            write_whole(output / RELEASE, to_json(release_of()))
        begin_writing(output)
        folders = [folder for folder, _ in opened]
        try:
            is_stopped = _evaluate(lake, output, opened, wanted)
            if not is_stopped:
                _score(lake, folders)
            compared = _compare(output)
        finally:
            write_sums(output)
    if as_json:
        console.write(to_json(compared))
    elif not is_stopped:
        shown = sheet(compared)
        console.show(shown)
        for note in shown.notes:
            console.say(note)
    _end([folder.record for folder in folders], compared, is_stopped=is_stopped)


@contextmanager
def _only_runner(lake: Home, output: Path) -> Iterator[None]:
    with ExitStack() as stack:
        name = hashlib.sha256(str(output.resolve()).encode()).hexdigest()[:16]
        try:
            stack.enter_context(only_writer(lake, f"cognirank-{name}"))
        except LakeUnusable as error:
            raise LakeUnusable(f"{output}: another runner writes there; wait until it ends") from error
        yield


# --- what is there already ---


def open_output(output: Path, lake: Home, *, is_resumed: bool) -> dict[str, RunRecord] | None:
    """Return what the output folder holds, by the name of the model's folder; None if it is new or empty.

    Raises
    ------
    WrongUsage
        If it holds results and they are not to be gone on with, or something else, or results of another
        release; or if it is in the lake, or the lake in it.
    ChecksumMismatch, InvalidSource
        If what it holds was changed.
    """
    if output.exists() and not output.is_dir():
        raise WrongUsage(f"--output-dir {output}: expected a folder, found a file")
    here, there = output.resolve(), lake.root.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise WrongUsage(
            f"--output-dir {output}: expected a folder apart from the lake, found the lake {lake.root} "
            f"{'around' if here.is_relative_to(there) else 'in'} it: name another"
        )
    # what begins with a dot a killed runner may have left
    if not output.is_dir() or not any(path.name[:1] != "." for path in output.iterdir()):
        return None
    found, release = read_release(output), release_id()
    if found is None:
        raise WrongUsage(f"--output-dir {output}: expected an empty or new folder, found other files in it")
    if not is_resumed:
        raise WrongUsage(
            f"--output-dir {output}: holds results already: --resume goes on with them, or name a new folder"
        )
    if found != release:
        raise _refusal(output, "release", release[:12], found[:12])
    require_unchanged(output, lake)
    records = read_records(output)
    for name, record in records.items():
        expected = folder_name(record.model, record.revision)
        if name != expected:
            raise InvalidSource(
                f"{output / name}: expected the name {expected}, as its run.json says: give it that name, or "
                "take a copy away"
            )
    return records


def release_of() -> dict[str, Any]:
    """Return the content of ``release.json``."""
    return {
        "release_id": release_id(),
        "generation_id": generation_id(),
        "coglake_version": coglake_version(),
        "files": release_files(),
    }


def resolve_model(model: str, revision: str | None, records: Mapping[str, RunRecord]) -> Weights:
    """Return which model is meant: of one that was begun, the revision that it was begun with.

    Raises
    ------
    WrongUsage
        If it was begun with another revision than the one that is named, or than a folder now has.
    SourceUnavailable
        If the hub cannot be asked or does not have it.
    """
    known = {record.revision: record.model for record in records.values() if record.revision is not None}
    if not Path(model).is_dir():
        begun = [found for found, name in known.items() if name == model]
        if begun and revision is None:
            return Weights(model, begun[0], model, is_folder=False)
    weights = resolve(model, revision)
    begun = [found for found, name in known.items() if name == weights.model_id]
    if begun and weights.revision not in begun:
        raise _refusal(model, "revision", weights.revision, begun[0])
    return weights


def folder_name(model_id: str, revision: str | None) -> str:
    """Return the name of a model's folder, such as ``void.1@01234567``."""
    digits = _NOT_FOUND if revision is None else revision.removeprefix("sha256:")[:8]
    return f"{run_slug(model_id)}@{digits}"


def _refusal(where: object, what: str, expected: object, found: object) -> WrongUsage:
    return WrongUsage(
        f"{where}: {what}: expected {expected} as this command says, found {found} in the results: "
        "resume with the same, or name a new --output-dir"
    )


def require_same(name: str, record: RunRecord, new: RunRecord) -> None:
    """Refuse to go on with what was asked otherwise.

    Raises
    ------
    WrongUsage
        For the first difference.
    """
    for what, expected, found in (
        ("release", new.release_id[:12], record.release_id[:12]),
        ("revision", new.revision, record.revision),
        ("context", new.context.requested_tokens, record.context.requested_tokens),
        ("data sets", _datasets(new), _datasets(record)),
        ("dtype", new.asked_dtype, record.asked_dtype),
        ("engine", new.engine, record.engine),
        ("code of the model's own", new.trust_remote_code, record.trust_remote_code),
        ("limit", new.limit or "none", record.limit or "none"),
        ("repeat", new.repeat, record.repeat),
    ):
        if expected != found:
            raise _refusal(name, what, expected, found)


def _datasets(record: RunRecord) -> str:
    return ", ".join(component.dataset_id for component in record.components.values())


def new_record(model: str, revision: str | None, asking: Asking) -> RunRecord:
    """Return what ``run.json`` says of a model before anything ran."""
    return RunRecord(
        model=model,
        revision=revision,
        release_id=release_id(),
        generation_id=generation_id(),
        engine=asking.engine,
        asked_dtype=asking.dtype,
        context=ContextRecord(requested_tokens=asking.context_tokens),
        trust_remote_code=asking.trust_remote_code,
        limit=asking.limit,
        repeat=asking.repeat,
        components={
            name: ComponentRecord(
                dataset_id=dataset.dataset_id,
                source_id=dataset.source_id,
                is_stand_in=dataset.is_stand_in,
            )
            for name, dataset in played(asking.stand_ins).items()
        },
        started_at=_now(),
    )


# --- one model after another ---


Opened = tuple[ModelFolder, Weights | None]
"""A model's folder, on which nothing was written yet, and its weights; None if these cannot be had."""


def _bring_questions(lake: Home, asking: Asking) -> None:
    """Bring the questions of stand-ins into a lake that lacks them."""
    for dataset in played(asking.stand_ins).values():
        if dataset.is_stand_in and n_questions(lake, dataset) < n_needed(dataset, asking):
            console.say(f"{dataset.dataset_id}: bringing its {dataset.n_examples:,} questions into the lake")
            for failure in ingest_stand_in(lake, load_sources()[dataset.source_id]).failures:
                raise failure


def _open_models(output: Path, wanted: Wanted, records: Mapping[str, RunRecord]) -> list[Opened]:
    """Settle what every model is before the first runs: what a name stands for may change meanwhile."""
    opened = [_open_model(output, wanted, model, records) for model in wanted.models]
    paths = [folder.path for folder, _ in opened]
    if len(set(paths)) < len(paths):
        raise WrongUsage(f"--models {' '.join(wanted.models)}: expected different models, found one twice")
    return opened


def _evaluate(lake: Home, output: Path, opened: Sequence[Opened], wanted: Wanted) -> bool:
    """Ask all models; return whether the user stopped it."""
    for model, (folder, weights) in zip(wanted.models, opened, strict=True):
        if weights is None:
            folder.write()
        else:
            _remove_unresolved(output / folder_name(model, None))
    with console.progress("cognirank", has_rate=True) as step, stop_after_batch() as stops:
        stop = Stop(lambda: bool(stops), step)
        for folder, weights in opened:
            if weights is not None and not stop.is_wanted():
                _evaluate_model(lake, folder, weights, wanted.asking, stop)
    return bool(stops)


def _open_model(output: Path, wanted: Wanted, model: str, records: Mapping[str, RunRecord]) -> Opened:
    try:
        weights = resolve_model(model, wanted.revision, records)
    except (EngineFailed, SourceUnavailable) as error:
        console.say(f"{model}: failed: {error}")
        failed = new_record(model, None, wanted.asking).model_copy(update={"failure": str(error)})
        return ModelFolder(output / folder_name(model, None), failed), None
    new = new_record(weights.model_id, weights.revision, wanted.asking)
    name = folder_name(weights.model_id, weights.revision)
    if name in records:
        require_same(name, records[name], new)
    return ModelFolder(output / name, records.get(name, new)), weights


def _remove_unresolved(folder: Path) -> None:
    """Take away what said that a model could not be found, now that it is."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _evaluate_model(lake: Home, folder: ModelFolder, weights: Weights, asking: Asking, stop: Stop) -> None:
    """Ask a model everything; what makes it fail is said, written down, and no trouble of the next."""
    try:
        described = describe_model(weights, asking, describe)
    except (EngineFailed, SourceUnavailable, WrongUsage) as error:
        _fail(folder, error)
        return
    _state(folder, described)
    engine = SharedEngine(described, open_engine)
    try:
        with closing(engine):
            for component_id, dataset in played(asking.stand_ins).items():
                if not stop.is_wanted():
                    _evaluate_component(lake, folder, described, component_id, dataset, engine, stop)
    except EngineFailed as error:
        _fail(folder, error)
        return
    folder.write(finished_at=None if stop.is_wanted() else _now())


def _fail(folder: ModelFolder, error: StoreError) -> None:
    console.say(f"{folder.path.name}: failed: {error}")
    folder.write(failure=str(error), finished_at=_now())


def _state(folder: ModelFolder, described: Described) -> None:
    """Write down what the engine says of the model; refuse to go on with another engine."""
    record, facts = folder.record, described.facts
    if record.evaluation_id not in (None, described.evaluation_id):
        raise _refusal(
            folder.path.name,
            "engine",
            f"{facts.name} {facts.version} in {facts.dtype} with {facts.context_effective_tokens} tokens",
            f"{record.engine} {record.engine_version} in {record.dtype} with "
            f"{record.context.effective_tokens} tokens, or other settings of the engine",
        )
    console.say(
        f"{record.model} at {record.revision}: {facts.name} {facts.version}, {facts.dtype}, "
        f"{facts.context_effective_tokens} tokens of context"
        + (f" (the model declares {facts.context_declared_tokens})" if described.is_extension else "")
    )
    for deviation in described.deviations:
        console.say(f"warning: {record.model}: {deviation}")
    folder.write(
        {ENVIRONMENT: to_json(_environment(facts)), PACKAGES: _packages()},
        # they say nothing of what is asked now
        without=(RESULTS,),
        evaluation_id=described.evaluation_id,
        engine_version=facts.version,
        engine_settings=dict(facts.decisive),
        dtype=facts.dtype,
        context=ContextRecord(
            requested_tokens=record.context.requested_tokens,
            declared_tokens=facts.context_declared_tokens,
            effective_tokens=facts.context_effective_tokens,
            limit_tokens=facts.context_limit_tokens,
            is_extension=described.is_extension,
        ),
        deviations=list(described.deviations),
        failure=None,
        finished_at=None,
    )


def _environment(facts: EngineFacts) -> dict[str, Any]:
    return {
        "coglake": coglake_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "engine": facts.name,
        "engine_version": facts.version,
        "engine_settings": dict(facts.decisive),
        "machine": dict(facts.incidental),
    }


def _packages() -> str:
    names = {f"{found.metadata['Name']}=={found.version}" for found in distributions()}
    return "".join(f"{name}\n" for name in sorted(names, key=str.casefold))


# --- one component ---


class _Log:
    """The log of a component: what happened when."""

    def __init__(self, folder: ModelFolder, component_id: str) -> None:
        self._folder, self._component_id = folder, component_id
        self._text = ""
        with suppress(FileNotFoundError):
            self._text = (folder.path / component_id / _LOG).read_text(encoding="utf-8")

    def write(self, sentence: str, contents: Mapping[str, str] | None = None, **changes: object) -> None:
        """Add a line, and with it replace other files and fields of the component's record."""
        self._text += f"{_now()} {' '.join(sentence.split())}\n"
        self._folder.write_component(self._component_id, {**(contents or {}), _LOG: self._text}, **changes)


def _evaluate_component(
    lake: Home,
    folder: ModelFolder,
    described: Described,
    component_id: str,
    dataset: Dataset,
    engine: SharedEngine,
    stop: Stop,
) -> None:
    log, asking = _Log(folder, component_id), described.asking
    name = f"{folder.record.model}: {component_id}"
    n_there = n_questions(lake, dataset)
    is_there = n_there >= n_needed(dataset, asking)
    planned = plan_component(lake, described, dataset) if is_there else None
    if planned is None:
        lacking = (
            f"{n_there:,} of the {dataset.n_examples:,} questions of {dataset.dataset_id} are in the lake: "
            f"`coglake ingest {dataset.source_id}` brings them, or --stand-in {component_id} asks others"
        )
        console.say(f"{name}: missing: {lacking}")
        log.write(f"missing: {lacking}", state="missing", reason=lacking)
        return
    task = planned.task
    if folder.record.components[component_id].run_id not in (None, task.run_id):
        raise _refusal(name, "questions", task.run_id, str(folder.record.components[component_id].run_id))
    n_before = answered(lake, task.run_id).n
    # a prediction that is not kept is one that was not made
    log.write(
        f"begins: run {task.run_id}, {dataset.dataset_id}, {n_there} questions"
        + (f", at most {asking.limit}" if asking.limit else "")
        + f", {n_before} answered before",
        state="running",
        reason=None,
        run_id=task.run_id,
        parts={},
    )
    try:
        report = ask_component(
            lake, planned, described.weights, engine, asking.limit, stop.step, stop.is_wanted
        )
        found = answered(lake, task.run_id)
        if report is None or not report.is_whole:
            log.write(f"stopped by the user: {found.n} answered", state="stopped", n_answered=found.n)
            return
        log.write(
            f"{found.n} answered where {report.n_planned} are asked, {found.n - n_before} of them now",
            n_planned=report.n_planned,
            n_answered=found.n,
            n_by_status=dict(found.n_by_status),
        )
        failure = _what_failed(found)
        ungraded_because = _grade(lake, planned, log, stop)
        reason = failure or ungraded_because
    except EngineFailed as error:
        log.write(f"failed: {error}", state="failed", reason=str(error))
        raise
    if reason:
        console.say(f"{name}: failed: {reason}")
    parts = {table: list(hashes) for table, hashes in answered(lake, task.run_id).parts.items()}
    log.write(
        f"failed: {reason}" if reason else "complete",
        {_PREDICTIONS: json_lines(predictions(lake, planned))},
        state="failed" if reason else "complete",
        reason=reason,
        parts=parts,
    )


def _what_failed(found: Answered) -> str | None:
    """Return why a component failed whose questions did not all get an answer; None if they did."""
    if not found.n_by_status:
        return None
    counted = ", ".join(f"{n} {status}" for status, n in found.n_by_status.items())
    n_wrong = sum(found.n_by_status.values())
    return f"{n_wrong} of {found.n} questions have no answer ({counted}): {found.first_reason}"


def _grade(lake: Home, planned: Planned, log: _Log, stop: Stop) -> str | None:
    """Grade what has no verdict yet; return why the component failed, None if it did not."""
    dataset_id, run_id = planned.dataset.dataset_id, planned.task.run_id
    grader = grader_of(dataset_id)
    if grader is None:
        return None
    try:
        report = grade_run(lake, run_id, dataset_id, stop.step)
    except EngineFailed as error:
        # what was answered stays, and is graded by the next --resume
        return f"not graded: {error}"
    log.write(f"graded by {grader.id} {grader.version}: {report.n_verdicts} new verdicts")
    n, first = ungraded(lake, run_id, grader)
    return f"{n} answers have no verdict, the first: {first}" if n else None


# --- scores ---


def _score(lake: Home, folders: Sequence[ModelFolder]) -> None:
    """Build, and write what the build says of each model.

    Raises
    ------
    CheckFailed
        If the build fails, or would be one of another release than the models were asked under.
    """
    (begun,), now = {folder.record.release_id for folder in folders}, release_id()
    if begun != now:
        raise CheckFailed(
            f"the project changed while it ran: expected release {begun[:12]}, found {now[:12]}: put it back "
            "as it was and go on with --resume"
        )
    if not any(component.n_answered for folder in folders for component in folder.record.components.values()):
        for folder in folders:
            folder.write({RESULTS: to_json(results_of(None, folder.record))})
        return
    console.say("building the scores")
    report = build(lake, project_dir(), quiet=False)
    complain(report)
    con = connect(lake)
    try:
        for folder in folders:
            results = results_of(con, folder.record)
            for component_id, component in folder.record.components.items():
                if component.parts:
                    scores = item_scores(con, component_id, str(component.run_id))
                    told = results["components"][component_id]
                    _Log(folder, component_id).write(
                        f"scored: {told['value']}"
                        if told["reason"] is None
                        else f"no score: {told['reason']}",
                        {_PREDICTIONS: _with_scores(folder, component_id, scores)},
                    )
            folder.write({RESULTS: to_json(results)})
    finally:
        con.close()


def _with_scores(
    folder: ModelFolder, component_id: str, scores: Mapping[str, Mapping[str, float | None]]
) -> str:
    text = (folder.path / component_id / _PREDICTIONS).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        row["scores"] = {metric: values.get(row["item_id"]) for metric, values in scores.items()}
    return json_lines(rows)


def _compare(output: Path) -> dict[str, Any]:
    """Write ``comparison.json`` over all models in the folder, and return its content."""
    models = []
    for folder, record in read_records(output).items():
        path = output / folder / RESULTS
        # what the folder had before something else was begun in it says nothing of now
        results = read_json(path) if path.is_file() else results_of(None, record)
        models.append({"folder": folder, **results})
    compared = {"release_id": read_release(output), "models": models}
    write_whole(output / COMPARISON, to_json(compared))
    return compared


def sheet(compared: Mapping[str, Any]) -> Sheet:
    """Return one row per model.

    The score of a stand-in is marked by its name. Of a component that has none but answers, the mean over
    what could be scored is shown, marked ``s`` and with how many that are; no composite is made of those.
    """
    components = load_components()
    rows = tuple(
        (
            model["folder"],
            *(_cell(model["components"][name]) for name in components),
            _number(model["cogniscore"]),
            _number(model["cogniscore_standin"]),
        )
        for model in compared["models"]
    )
    headers = (
        "model",
        *(component.label for component in components.values()),
        "CogniScore",
        "of stand-ins",
    )
    partials = [
        _partial(component) for model in compared["models"] for component in model["components"].values()
    ]
    is_marked = any(partial is not None and partial["value_scored"] is not None for partial in partials)
    notes = ("s: the mean over the questions that have a score, which is no score of the component",)
    return Sheet(headers, rows, printed=frozenset(range(1, len(headers))), notes=notes if is_marked else ())


def _cell(component: Mapping[str, Any]) -> str:
    marks = [component["dataset_id"]] if component["is_stand_in"] else []
    shown = _number(component["value"])
    if component["value"] is None:
        partial = _partial(component)
        if partial is None:
            return shown
        if partial["value_scored"] is not None:
            shown = f"{_number(partial['value_scored'])}s"
        marks.insert(0, f"{partial['n_scored']:,} of {partial['n_planned']:,}")
    return f"{shown} ({', '.join(marks)})" if marks else shown


def _partial(component: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the metric that counts where only some questions have a score; else None."""
    for metric in component["metrics"].values():
        if metric["is_primary"] and 0 < metric["n_scored"] < metric["n_planned"]:
            found: Mapping[str, Any] = metric
            return found
    return None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _end(records: Sequence[RunRecord], compared: Mapping[str, Any], *, is_stopped: bool) -> None:
    """Say what is withheld, and end with the exit code of the worst."""
    if is_stopped:
        console.say("stopped: the same command with --resume goes on from here")
        raise typer.Exit(_INTERRUPTED)
    for model in compared["models"]:
        if model["cogniscore"] is None:
            console.say(f"{model['folder']}: no CogniScore: {model['withheld_because']}")
    failed = [record.model for record in records if record.failure is not None]
    parts = [
        (f"{record.model} {name}", component.state)
        for record in records
        for name, component in record.components.items()
    ]
    failed += [name for name, state in parts if state == "failed"]
    missing = [name for name, state in parts if state == "missing"]
    if failed:
        raise EngineFailed(
            f"{', '.join(failed)}: failed, as run.json says; mend the cause and run the same command with "
            "--resume"
        )
    if missing:
        raise SourceUnavailable(
            f"{', '.join(missing)}: questions are missing, as said above; --resume goes on once they are "
            "there"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
