"""CogniRank's protocol, as the manifests declare it: components, the data sets that can be one, and graders.

Everything that may move a score is a row or a file. Its hash is the release: two results of one release were
asked in the same way and scored by the same rules.
"""

import csv
import hashlib
import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from store.errors import InvalidSource
from store.manifest import load_sources
from store.settings import project_dir

_COMPONENTS, _DATASETS, _METRICS = (f"cognirank_{name}.csv" for name in ("components", "datasets", "metrics"))
_GRADERS = "graders.toml"

_MANIFESTS = tuple(f"manifests/{name}" for name in (_COMPONENTS, _DATASETS, _METRICS, _GRADERS))

# what turns rows of a source into a prompt, and a prompt into what a model sees
PROMPTS = (
    "generate/rollouts.py",
    "generate/tokens.py",
    "ingest/marc.py",
    "ingest/procedural_pile.py",
    "ingest/question_files.py",
    "ingest/smolcua.py",
    "ingest/ttm.py",
)
# rules, marts, graders and what they share: what turns raw rows into a CogniScore
GRADING = ("generate/verifier/*.py",)
SCORING = (
    "macros/answers.sql",
    "macros/exact.sql",
    "macros/ranking.sql",
    "macros/reading.sql",
    "macros/scoring.sql",
    "models_sql/intermediate/scored/int_answers.sql",
    "models_sql/intermediate/scored/int_scored__answer_match.sql",
    "models_sql/intermediate/scored/int_scored__normalised_likelihood.sql",
    "models_sql/intermediate/scored/int_scored__verdict.sql",
    "models_sql/intermediate/cognirank/*.sql",
    "models_sql/marts/cogni*.sql",
)

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Component(_Row):
    """One component of CogniScore; columns as ``manifests/_seeds.yml`` describes them."""

    component_id: Text
    display_order: Count
    label: Text
    n_examples: Count
    weight_numerator: Count
    weight_denominator: Count
    metric: Text
    stratum_fact: str | None
    n_strata: Count
    cluster_fact: str | None
    prompt_style: Literal["chat_or_plain", "plain"]
    batch_size: Count
    max_response_tokens: Count | None
    max_response_tokens_short: Count | None
    context_tokens: Count
    dtype: Literal["bfloat16"]
    resumes_by: Literal["prediction", "component"]
    chance_pct: float | None
    repo: Text
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    source_path: str | None
    source_sha256: str | None
    selection: str | None
    selection_sha256: str | None
    display_weight_pct: float


class Dataset(_Row):
    """One set of questions that can be a component: the published one, or a stand-in under its own name."""

    dataset_id: Text
    component_id: Text
    source_id: Text
    is_stand_in: bool
    n_examples: Count
    description: Text


class Metric(_Row):
    """One number that is computed of a component; the primary one is its score."""

    component_id: Text
    metric: Text
    rule: Text
    readout: str | None
    grader_id: str | None
    grader_version: str | None
    unit: Text
    scale: float
    is_primary: bool


class Grader(_Row):
    """A grader that needs a program of others.

    Attributes
    ----------
    version
        As in ``raw/verdicts``: the package's and the names of our patches.
    package
        What is installed for it.
    timeout_s, memory_mib
        Most time for one answer, in seconds, and most memory of a worker, in MiB.
    answer_rules
        Which part of a response is graded; the first is the one that scores.
    """

    id: Text
    version: Text
    package: Text
    timeout_s: Annotated[float, Field(gt=0)]
    memory_mib: Count
    answer_rules: Annotated[tuple[str, ...], Field(min_length=1)]


RowT = TypeVar("RowT", bound=_Row)


@cache
def load_components(folder: Path | None = None) -> Mapping[str, Component]:
    """Read the components, in the order in which they are shown.

    Raises
    ------
    InvalidSource
        If the manifest is not valid, or its weights do not add up to one.
    """
    found = _rows(_manifests(folder) / _COMPONENTS, Component)
    by_id = {row.component_id: row for row in sorted(found, key=lambda row: row.display_order)}
    total = sum(row.weight_numerator for row in found)
    if len(by_id) < len(found) or {row.weight_denominator for row in found} != {total}:
        raise InvalidSource(
            f"{_COMPONENTS}: expected each component once and weights that add up to one, found numerators "
            f"that add up to {total} over {', '.join(sorted({str(row.weight_denominator) for row in found}))}"
        )
    return by_id


@cache
def load_datasets(folder: Path | None = None) -> Mapping[str, Dataset]:
    """Read the data sets, in the order of the manifest.

    Raises
    ------
    InvalidSource
        If the manifest is not valid, or a component has not one published data set.
    """
    found = _rows(_manifests(folder) / _DATASETS, Dataset)
    published = sorted(row.component_id for row in found if not row.is_stand_in)
    if published != sorted(load_components(folder)):
        raise InvalidSource(
            f"{_DATASETS}: expected one published data set of each component, found those of "
            f"{', '.join(published)}"
        )
    return {row.dataset_id: row for row in found}


@cache
def load_metrics(folder: Path | None = None) -> tuple[Metric, ...]:
    """Read the metrics of all components.

    Raises
    ------
    InvalidSource
        If the manifest is not valid.
    """
    return tuple(_rows(_manifests(folder) / _METRICS, Metric))


@cache
def load_graders(folder: Path | None = None) -> Mapping[str, Grader]:
    """Read the graders.

    Raises
    ------
    InvalidSource
        If the manifest is not valid.
    """
    path = _manifests(folder) / _GRADERS
    try:
        blocks = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    return {name: _valid(path, Grader, {"id": name, **block}) for name, block in blocks.items()}


def datasets_of(component_id: str, *, is_stand_in: bool) -> Dataset:
    """Return the published data set of a component, or the one that stands in for it."""
    return next(
        found
        for found in load_datasets().values()
        if found.component_id == component_id and found.is_stand_in == is_stand_in
    )


def release_paths(project: Path | None = None) -> dict[str, Path]:
    """Return the files that make a release, by their names in the project: manifests, prompts and scoring.

    Parameters
    ----------
    project
        Folder with manifests and SQL; Python is what is installed.

    Raises
    ------
    InvalidSource
        If one of the files is not there.
    """
    root, code = project or project_dir(), Path(__file__).resolve().parents[1]
    found: dict[str, Path] = {}
    for folder, patterns in ((root, (*_MANIFESTS, *SCORING)), (code, (*PROMPTS, *GRADING))):
        for pattern in patterns:
            paths = sorted(folder.glob(pattern))
            if not paths:
                raise InvalidSource(f"{folder / pattern}: expected a file of the release, found none")
            found |= {path.relative_to(folder).as_posix(): path for path in paths}
    return dict(sorted(found.items()))


def release_files(project: Path | None = None) -> dict[str, str]:
    """Return what makes a release: SHA-256 by name of its files, and of the pin of each data set.

    A pin goes by ``manifests/sources.toml#<source>``: other sources are no part of the release.

    Raises
    ------
    InvalidSource
        If one of the files is not there, or a manifest is not valid.
    """
    files = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in release_paths(project).items()
    }
    return files | {f"manifests/sources.toml#{name}": _sha256(pin) for name, pin in _pins(project).items()}


def _pins(project: Path | None) -> dict[str, Any]:
    manifests = None if project is None else project / "manifests"
    pinned = load_sources(None if manifests is None else manifests / "sources.toml")
    wanted = (dataset.source_id for dataset in load_datasets(manifests).values())
    return {name: pinned[name].model_dump(mode="json") for name in wanted if name in pinned}


def release_id(project: Path | None = None) -> str:
    """Return the hash of :func:`release_files`, 64 hex digits."""
    return _sha256(release_files(project))


def generation_id() -> str:
    """Return the hash of what may change an answer of a model, 64 hex digits: scoring is no part of it."""
    asked = (
        "component_id",
        "prompt_style",
        "max_response_tokens",
        "max_response_tokens_short",
        "context_tokens",
        "dtype",
    )
    components = [row.model_dump(mode="json", include=set(asked)) for row in load_components().values()]
    return _sha256(components)


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _manifests(folder: Path | None) -> Path:
    return folder or project_dir() / "manifests"


def _rows(path: Path, kind: type[RowT]) -> list[RowT]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{key: cell or None for key, cell in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    return [_valid(path, kind, row) for row in rows]


def _valid(path: Path, kind: type[RowT], row: Mapping[str, Any]) -> RowT:
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        name = next(iter(row.values()), "")
        raise InvalidSource(f"{path.name}: {name}: {where}: {first['msg']}") from error
