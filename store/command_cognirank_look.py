"""What ``coglake cognirank`` says without an engine: its plan, its pins, what it needs, its files."""

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import typer

from generate import standins
from generate.evaluation import (
    NATIVE,
    Asking,
    n_needed,
    n_questions,
    played,
    protocol_context,
    questions_of,
)
from generate.questions import Brought, rows_of_run, runs_of
from generate.verifier.grading import grader_of
from ingest.fetch import cache_path
from ingest.procedural_pile import SELECTION, selection
from store import console
from store.command_cognirank import (
    Wanted,
    folder_name,
    new_record,
    open_output,
    release_of,
    require_same,
    resolve_model,
)
from store.command_ingest import ingest_stand_in
from store.errors import StoreError, WrongUsage
from store.evaluation_files import RELEASE, write_sums
from store.files import write_whole
from store.formats import Sheet, to_json
from store.manifest import Source, load_sources
from store.protocol import (
    Component,
    Dataset,
    generation_id,
    load_components,
    load_datasets,
    load_graders,
    load_metrics,
    release_id,
    release_paths,
)
from store.settings import Home, home

_SET_UP_VERIFIER = "make setup-verifier"
_EXTRA = re.compile(r"(?P<requirement>[^;]+?)\s*;\s*extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b")
_OK, _DIFFERS, _NOT_HERE = "ok", "differs", "not here"


# --- the plan ---


def dry_run(wanted: Wanted, *, as_json: bool) -> None:
    """Print protocol, questions and revisions; nothing is written, and no engine is looked at."""
    lake, stand_ins = home(), wanted.asking.stand_ins
    components = [
        _planned(lake, load_components()[name], dataset, wanted.asking)
        for name, dataset in played(stand_ins).items()
    ]
    models = list(_models(wanted, lake))
    if as_json:
        protocol = {"release_id": release_id(), "generation_id": generation_id()}
        asking = {**asdict(wanted.asking), "stand_ins": sorted(stand_ins)}
        console.write(to_json({**protocol, "asking": asking, "components": components, "models": models}))
        return
    console.write(f"release {release_id()}\nasks {_asked(wanted.asking)}\n")
    console.show(_as_sheet(components))
    if models:
        console.show(_as_sheet(models))


def _asked(asking: Asking) -> str:
    said = [f"{asking.engine} in {asking.dtype}"]
    said.append(
        f"with the model's own context, at most {protocol_context():,} tokens"
        if asking.context_tokens == NATIVE
        else f"with {asking.context_tokens:,} tokens of context"
    )
    if asking.limit is not None:
        said.append(f"at most {asking.limit:,} questions per component, so there is no composite")
    if asking.trust_remote_code:
        said.append("running code that comes with a model")
    if asking.repeat:
        said.append(f"repeat {asking.repeat}")
    return ", ".join(said)


def _planned(lake: Home, component: Component, dataset: Dataset, asking: Asking) -> dict[str, Any]:
    source = load_sources().get(dataset.source_id)
    return {
        "component_id": component.component_id,
        "dataset_id": dataset.dataset_id,
        "revision": component.revision if source is None else source.revision,
        "n_examples": dataset.n_examples,
        "n_in_lake": n_questions(lake, dataset),
        "n_asked": n_needed(dataset, asking),
        "weight": f"{component.weight_numerator}/{component.weight_denominator}",
        "prompt_style": component.prompt_style,
        "batch_size": component.batch_size,
        "max_response_tokens": component.max_response_tokens,
        "max_response_tokens_short": component.max_response_tokens_short,
        "context_tokens": component.context_tokens,
        "dtype": component.dtype,
        "resumes_by": component.resumes_by,
        "metric": component.metric,
    }


def _models(wanted: Wanted, lake: Home) -> Iterator[dict[str, Any]]:
    records = {}
    if wanted.output is not None:
        records = open_output(wanted.output, lake, is_resumed=wanted.is_resumed) or {}
    for model in wanted.models:
        weights = resolve_model(model, wanted.revision, records)
        name = folder_name(weights.model_id, weights.revision)
        new = new_record(weights.model_id, weights.revision, wanted.asking)
        begun = records.get(name)
        if begun is not None:
            require_same(name, begun, new)
        states = {key: part.state for key, part in (begun or new).components.items()}
        yield {
            "model": weights.model_id,
            "revision": weights.revision,
            "folder": str(name if wanted.output is None else wanted.output / name),
            "state": ", ".join(f"{key} {state}" for key, state in states.items()),
        }


def _as_sheet(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    cells = (
        {name: _short(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows
    )
    return Sheet(tuple(rows[0]), tuple(tuple(row.values()) for row in cells))


# --- pins ---


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is pinned, and what it is."""

    what: str
    expected: str
    found: str
    state: str


def verify(*, as_json: bool) -> None:
    """Compare every pin of the protocol with what is here; end with 1 if one differs."""
    checks = list(_checks(home()))
    if as_json:
        console.write(to_json(checks))
    else:
        rows = tuple(
            (check.what, _short(check.expected), _short(check.found), check.state) for check in checks
        )
        console.show(Sheet(("what", "expected", "found", "state"), rows))
    n_wrong = sum(check.state == _DIFFERS for check in checks)
    n_not_here = sum(check.state == _NOT_HERE for check in checks)
    console.say(
        f"release {release_id()}: {len(checks)} compared, {n_wrong} differ, {n_not_here} not here to compare"
    )
    if n_wrong:
        raise typer.Exit(1)


def _short(text: str) -> str:
    return _HASH.sub(r"\1", text)


def _checks(lake: Home) -> Iterator[Check]:
    sources = load_sources()
    components = load_components().values()
    total = sum(component.weight_numerator for component in components)
    denominators = {component.weight_denominator for component in components}
    yield _same("weights", f"{total}/{total}", f"{total}/{', '.join(map(str, sorted(denominators)))}")
    for dataset in load_datasets().values():
        source = sources.get(dataset.source_id)
        component = load_components()[dataset.component_id]
        if source is None:
            what = f"{dataset.dataset_id}: pin"
            yield Check(what, f"[{dataset.source_id}] in sources.toml", "none", _NOT_HERE)
        elif dataset.is_stand_in:
            yield from _stand_in(dataset, source)
        else:
            yield from _published(lake, dataset, component, source)
        yield from _questions(lake, dataset, component, source)
    for dataset in load_datasets().values():
        if not dataset.is_stand_in:
            yield from _grader(dataset)


def _same(what: str, expected: object, found: object) -> Check:
    return Check(what, str(expected), str(found), _OK if expected == found else _DIFFERS)


def _published(lake: Home, dataset: Dataset, component: Component, source: Source) -> Iterator[Check]:
    name = dataset.dataset_id
    yield _same(f"{name}: repository", component.repo, source.repo)
    yield _same(f"{name}: revision", component.revision, source.revision)
    if component.source_sha256 is None:
        return
    pinned = {file.sha256: file for file in source.files}
    found = component.source_sha256 if component.source_sha256 in pinned else ", ".join(pinned)
    yield _same(f"{name}: file", component.source_sha256, found)
    if component.selection_sha256 is None or component.source_sha256 not in pinned:
        return
    shard = cache_path(lake, pinned[component.source_sha256])
    what = f"{name}: selection"
    if not shard.is_file():
        yield Check(what, component.selection_sha256, "the file is not here", _NOT_HERE)
        return
    chosen = [cache_path(lake, file) for file in source.files if file.path == SELECTION]
    try:
        made = selection(shard, name, component, chosen[0] if chosen else None)
    except StoreError as error:
        yield Check(what, component.selection_sha256, str(error), _DIFFERS)
    else:
        yield _same(what, component.selection_sha256, made.sha256)


def _stand_in(dataset: Dataset, source: Source) -> Iterator[Check]:
    what, pin = f"{dataset.dataset_id}: generator", f"{source.revision}, {source.files[0].sha256}"
    wrong = standins.differences(source)
    if wrong:
        yield Check(what, pin, "; ".join(wrong), _DIFFERS)
    else:
        yield Check(what, pin, pin, _OK)


def _questions(lake: Home, dataset: Dataset, component: Component, source: Source | None) -> Iterator[Check]:
    name = dataset.dataset_id
    brought = questions_of(lake, dataset)
    if not brought:
        yield Check(f"{name}: questions", f"{dataset.n_examples}", "none in the lake", _NOT_HERE)
        return
    items = list(_items(lake, brought))
    yield _same(f"{name}: questions", dataset.n_examples, len(items))
    yield _same(f"{name}: different questions", dataset.n_examples, len({item_id for item_id, _ in items}))
    runs = {run["run_id"]: run["source_sha256"] for run in runs_of(lake).to_pylist()}
    hashes = {file.sha256 for file in source.files} if source is not None else set()
    if not dataset.is_stand_in and component.source_sha256 is not None:
        hashes = {component.source_sha256}
    for run_id in brought:
        if hashes:
            is_pinned = runs[run_id] in hashes
            expected = str(runs[run_id]) if is_pinned else " or ".join(sorted(hashes))
            yield _same(f"{name}: file of the questions", expected, str(runs[run_id]))
    if component.stratum_fact is not None:
        sizes = Counter(str(facts.get(component.stratum_fact)) for _, facts in items)
        size = dataset.n_examples // component.n_strata
        yield _same(
            f"{name}: questions by {component.stratum_fact}",
            _sizes([size] * component.n_strata),
            _sizes(sizes.values()),
        )
    if component.selection is not None and component.cluster_fact is not None:
        # as many of each family as can be, and one more of some
        sizes = Counter(str(facts.get(component.cluster_fact)) for _, facts in items)
        fewest, n_with_one_more = divmod(dataset.n_examples, len(sizes))
        balanced = [fewest] * (len(sizes) - n_with_one_more) + [fewest + 1] * n_with_one_more
        yield _same(
            f"{name}: questions by {component.cluster_fact}", _sizes(balanced), _sizes(sizes.values())
        )


def _sizes(sizes: Iterable[int]) -> str:
    counted = sorted(Counter(sizes).items(), reverse=True)
    return ", ".join(f"{n} x {size}" for size, n in counted)


def _items(lake: Home, brought: Mapping[str, Brought]) -> Iterator[tuple[str, dict[str, Any]]]:
    for run_id, run in brought.items():
        rows = rows_of_run(lake, "items", run_id, run.parts, ["item_id", "facts_json"])
        for row in rows.to_pylist():
            yield row["item_id"], json.loads(row["facts_json"] or "{}")


def _grader(dataset: Dataset) -> Iterator[Check]:
    named = {
        (metric.grader_id, metric.grader_version)
        for metric in load_metrics()
        if metric.component_id == dataset.component_id and metric.grader_id is not None
    }
    for grader_id, version in sorted(named):
        declared = load_graders().get(str(grader_id))
        found = "no such grader" if declared is None else declared.version
        yield _same(f"{dataset.component_id}: grader {grader_id}", version, found)
    if named:
        rules = {
            metric.readout
            for metric in load_metrics()
            if metric.component_id == dataset.component_id and metric.grader_id is not None
        }
        grader = grader_of(dataset.dataset_id)
        known = () if grader is None else grader.answer_rules
        yield _same(
            f"{dataset.component_id}: answer rules",
            ", ".join(sorted(map(str, rules))),
            ", ".join(sorted(known)),
        )


# --- what is needed ---


def print_requirements(*, as_json: bool) -> None:
    """Print what inference needs and, apart from it, the verifier; nothing is installed."""
    needed = _requirements()
    if as_json:
        console.write(to_json(needed))
        return
    lines = ["# scores and tables: pip install coglake", *needed["coglake"]]
    for engine, requirements in needed["inference"].items():
        lines += [f"# inference with --engine {engine}: pip install 'coglake[{engine}]'", *requirements]
    lines.append(f"# the verifier, in an environment of its own and not in this one: {_SET_UP_VERIFIER}")
    lines += [f"# {requirement}" for requirement in needed["verifier"]]
    console.write("".join(f"{line}\n" for line in lines))


def _requirements() -> dict[str, Any]:
    try:
        declared = requires("coglake") or []
    except PackageNotFoundError:
        raise WrongUsage(
            "coglake is not installed, so nothing says what it needs: pip install -e ."
        ) from None
    base, extras = [], {"vllm": [], "hf": []}  # type: tuple[list[str], dict[str, list[str]]]
    for requirement in declared:
        matched = _EXTRA.fullmatch(requirement)
        if matched is None:
            base.append(requirement)
        elif matched["extra"] in extras:
            extras[matched["extra"]].append(matched["requirement"])
    return {
        "coglake": base,
        "inference": extras,
        "verifier": [grader.package for grader in load_graders().values()],
    }


# --- all of it as files ---


def extract(folder: Path, *, as_json: bool) -> None:
    """Write protocol, prompts and scoring as files to look at.

    Raises
    ------
    WrongUsage
        If the folder is not empty or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise WrongUsage(f"--extract-only {folder}: expected a folder, found a file")
    if folder.exists() and any(folder.iterdir()):
        raise WrongUsage(f"--extract-only {folder}: expected an empty or new folder, found files in it")
    contents: dict[str, str | bytes] = {name: path.read_bytes() for name, path in release_paths().items()}
    n_files = len(contents)
    contents |= {RELEASE: to_json(release_of()), "protocol.json": to_json(_protocol())}
    without = []
    with tempfile.TemporaryDirectory() as made:
        for dataset in load_datasets().values():
            example = _example(home(), dataset)
            if example is None and dataset.is_stand_in:
                # what is not in the lake yet is made, and read by the importer as it would be
                lake = Home(Path(made) / dataset.dataset_id)
                for failure in ingest_stand_in(lake, load_sources()[dataset.source_id]).failures:
                    raise failure
                example = _example(lake, dataset)
            if example is None:
                without.append(dataset.dataset_id)
            else:
                contents[f"prompts/{dataset.dataset_id}.json"] = to_json(example)
    # whatever went wrong before left no half of it
    for name, content in contents.items():
        write_whole(folder / name, content)
    write_sums(folder)
    if as_json:
        console.write(to_json({"folder": str(folder), "n_files": n_files, "without_example": without}))
        return
    console.write(f"{folder}: {n_files} files of release {release_id()[:12]}\n")
    if without:
        console.say(f"no example of {', '.join(without)}: their questions are not in the lake")


def _protocol() -> dict[str, Any]:
    return {
        "release_id": release_id(),
        "generation_id": generation_id(),
        "components": [row.model_dump(mode="json") for row in load_components().values()],
        "datasets": [row.model_dump(mode="json") for row in load_datasets().values()],
        "metrics": [row.model_dump(mode="json") for row in load_metrics()],
        "graders": [row.model_dump(mode="json") for row in load_graders().values()],
        "pins": {
            name: source.model_dump(mode="json")
            for name, source in load_sources().items()
            if name in {dataset.source_id for dataset in load_datasets().values()}
        },
    }


def _example(lake: Home, dataset: Dataset) -> dict[str, Any] | None:
    """Return the first question of a data set as models are asked it."""
    columns = [
        "item_id",
        "prompt",
        "legal_options",
        "max_response_tokens",
        "template_id",
        "template_sha256",
    ]
    for run_id, run in sorted(questions_of(lake, dataset).items()):
        for row in rows_of_run(lake, "items", run_id, run.parts, columns).slice(0, 1).to_pylist():
            found: dict[str, Any] = row
            return found | {"prompt_sha256": hashlib.sha256(found["prompt"].encode()).hexdigest()}
    return None
