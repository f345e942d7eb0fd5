"""Tables for readers outside the store, and the build that they come from."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import duckdb

from store.errors import CheckFailed, NothingToExport, WrongUsage
from store.files import write_whole
from store.formats import Format, Sheet, render, text, to_json
from store.freshness import Build

_BEFORE_MODELS = ("Domain", "Task mode", "Primary target", "Better direction")
_REFERENCE = ("Reference", "Reference mark", "Reference type")

_MODES = """
    select mode_id, domain, label, primary_target, direction, reference_mark, reference_type
    from s1cogbench_modes
    left join s1cogbench_references using (mode_id)
    where variant_of is null
    order by display_order
"""
_CELLS = """
    select mode_id, column_kind, column_id, status, printed, printed_partial
    from table_3
"""
_MIXED_SCORERS = """
    select mode_id, string_agg(distinct scorer_sha, ', ' order by scorer_sha)
    from table_3
    where column_kind in ('model', 'human') and scorer_sha is not null
    group by mode_id
    having count(distinct scorer_sha) > 1
    order by mode_id
"""
_MODEL_KINDS = ("model", "human")

_COMPONENTS = "select component_id, label from cognirank_components order by display_order"
_COMPONENT_SCORES = """
    select evaluation_id, component_id, dataset_id, is_stand_in, value, value_scored
    from cognirank_scores
    where is_primary
"""
# published composites first, then those of stand-ins, then what has none; better ones first
_EVALUATIONS = """
    select
        scores.run_id, scores.model_id, scores.model_revision, ranks.ranked, ranks.rank, ranks.tied_group,
        scores.cogniscore, scores.cogniscore_standin, scores.ci_low, scores.ci_high, scores.withheld_because,
        scores.context_tokens, scores.is_context_extension, scores.generation_id, scores.deviations,
        scores.trust_remote_code
    from cogniscore as scores
    left join cogniscore_ranks as ranks using (run_id)
    order by
        ranks.ranked nulls last, ranks.deviations nulls first, ranks.datasets, ranks.generation_id,
        ranks.rank, lower(scores.model_id), scores.model_id, scores.run_id
"""
_MIXED_METRICS = """
    select dataset_id, metric, string_agg(distinct scorer_sha, ', ' order by scorer_sha)
    from cognirank_scores
    group by dataset_id, metric
    having count(distinct scorer_sha) > 1
    order by dataset_id, metric
"""
_BEFORE_COMPONENTS = ("Rank", "Ranked by", "Model", "Revision")
_AFTER_COMPONENTS = (
    "CogniScore",
    "95% CI",
    "Tied group",
    "Stand-in score",
    "Stand-ins",
    "Withheld because",
    "Context",
    "Context extended",
    "Custom code",
    "Protocol",
    "Deviations",
    "Evaluation",
)
_RANKED_AS = {"cogniscore": "CogniScore", "cogniscore_standin": "stand-in score"}


@dataclass(frozen=True, slots=True)
class _Cell:
    """One cell of ``table_3`` as text; ``printed`` never shows a part of the rows."""

    status: str
    printed: str
    printed_partial: str | None

    @property
    def is_partial(self) -> bool:
        return self.status == "part." and self.printed_partial is not None


_NOT_EVALUATED = _Cell("n.e.", "n.e.", None)


def export_table3(
    con: duckdb.DuckDBPyConnection, models: Sequence[str] = (), allow_partial: bool = False
) -> Sheet:
    """Return Table 3 in the published layout: one row per mode, one column per model.

    Parameters
    ----------
    con
        Connection to a fresh build.
    models
        Column ids, models, or shell patterns of either, in the order wanted; empty for every model by name.
        A model stands for all its columns.
    allow_partial
        In a partial cell, print the value over the rows that could be scored, which ends in ``s``.

    Raises
    ------
    WrongUsage
        If an id or a pattern matches no column.
    CheckFailed
        If one mode was scored by two versions of its rule.
    """
    mixed = con.execute(_MIXED_SCORERS).fetchall()
    if mixed:
        mode_id, hashes = mixed[0]
        raise CheckFailed(
            f"{mode_id}: expected one version of its scorer, found {hashes}; run `coglake build`"
        )

    columns = _columns(con, models)
    # apart, because a model may be called as a kind is
    by_kind: dict[tuple[str, str], _Cell] = {}
    by_model: dict[tuple[str, str], _Cell] = {}
    for mode_id, kind, column_id, *rest in con.execute(_CELLS).fetchall():
        if kind in _MODEL_KINDS:
            by_model[mode_id, column_id] = _Cell(*rest)
        else:
            by_kind[mode_id, kind] = _Cell(*rest)
    n_withheld = 0
    rows = []
    for mode_id, domain, label, target, direction, mark, reference_type in con.execute(_MODES).fetchall():
        cells = [
            by_kind.get((mode_id, "uniform"), _NOT_EVALUATED),
            *(by_model.get((mode_id, column), _NOT_EVALUATED) for column in columns),
            by_kind.get((mode_id, "reference"), _NOT_EVALUATED),
        ]
        n_withheld += sum(cell.is_partial and not allow_partial for cell in cells)
        printed = [
            cell.printed_partial if cell.is_partial and allow_partial else cell.printed for cell in cells
        ]
        rows.append((domain, label, target, direction, *printed, mark or "", reference_type or ""))
    note = f"partial cells withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    return Sheet(
        headers=(*_BEFORE_MODELS, "Uniform", *columns, *_REFERENCE),
        rows=tuple(rows),
        printed=frozenset(range(len(_BEFORE_MODELS), len(_BEFORE_MODELS) + len(columns) + 2)),
        notes=(note,) if n_withheld else (),
    )


def export_metrics(con: duckdb.DuckDBPyConnection) -> Sheet:
    """Return every metric of every run and mode; an infinite value reads ``+∞`` in every form."""
    result = con.execute("select * from metrics order by all")
    headers = tuple(column[0] for column in result.description or ())
    rows = tuple(
        tuple(text(cell) if isinstance(cell, float) and math.isinf(cell) else cell for cell in row)
        for row in result.fetchall()
    )
    return Sheet(headers, rows)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """One row of ``cogniscore`` with its rank."""

    run_id: str
    model_id: str
    model_revision: str | None
    ranked: str | None
    rank: int | None
    tied_group: int | None
    cogniscore: float | None
    cogniscore_standin: float | None
    ci_low: float | None
    ci_high: float | None
    withheld_because: str | None
    context_tokens: int | None
    is_context_extension: bool
    generation_id: str | None
    deviations: str | None
    trust_remote_code: bool


@dataclass(frozen=True, slots=True)
class _Component:
    """One component of one evaluation."""

    dataset_id: str
    is_stand_in: bool
    value: float | None
    value_scored: float | None

    @property
    def partial(self) -> str | None:
        """The score over the items that have one, marked."""
        return None if self.value_scored is None else f"{_two_decimals(self.value_scored)}s"


def export_cogniscore(
    con: duckdb.DuckDBPyConnection, models: Sequence[str] = (), allow_partial: bool = False
) -> Sheet:
    """Return the CogniScore of every evaluation, by rank: one row per evaluation, one column per component.

    What has no rank comes last and says why. A stand-in never shows in the column of its component. Ranks are
    among evaluations of one protocol with the same deviations from it, of the same data.

    Parameters
    ----------
    con
        Connection to a fresh build.
    models
        Models, evaluations, or shell patterns of either; empty for all.
    allow_partial
        Print a component without a score over the items that have one, which ends in ``s``; the composite
        stays empty.

    Raises
    ------
    NothingToExport
        If no model was evaluated.
    WrongUsage
        If a name or a pattern matches no evaluation.
    CheckFailed
        If one data set was scored by two versions of its rule.
    """
    mixed = con.execute(_MIXED_METRICS).fetchall()
    if mixed:
        dataset_id, metric, hashes = mixed[0]
        raise CheckFailed(
            f"{dataset_id}: expected one version of the scorer of {metric}, found {hashes}; "
            "run `coglake build`"
        )
    evaluations = [_Evaluation(*row) for row in con.execute(_EVALUATIONS).fetchall()]
    if not evaluations:
        raise NothingToExport("no model was evaluated on CogniRank; run `coglake cognirank --model ...`")
    model_of = {each.run_id: each.model_id for each in evaluations}
    chosen = set(matching(list(model_of), model_of, models)) if models else set(model_of)

    components = con.execute(_COMPONENTS).fetchall()
    parts = {
        (evaluation_id, component_id): _Component(*rest)
        for evaluation_id, component_id, *rest in con.execute(_COMPONENT_SCORES).fetchall()
    }
    n_withheld = 0
    rows: list[tuple[object, ...]] = []
    for each in evaluations:
        if each.run_id not in chosen:
            continue
        asked = {name: parts[each.run_id, name] for name, _ in components if (each.run_id, name) in parts}
        published = {name: part for name, part in asked.items() if not part.is_stand_in}
        n_withheld += sum(
            part.value is None and part.partial is not None and not allow_partial for part in asked.values()
        )
        cells = [_component_cell(published.get(name), allow_partial) for name, _ in components]
        stand_ins = [
            f"{part.dataset_id} {_component_cell(part, allow_partial) or 'without a score'}"
            for part in asked.values()
            if part.is_stand_in
        ]
        rows.append(
            (
                each.rank,
                _RANKED_AS.get(each.ranked or ""),
                each.model_id,
                each.model_revision or None,
                *cells,
                _two_decimals(each.cogniscore),
                _interval(each.ci_low, each.ci_high),
                each.tied_group,
                _two_decimals(each.cogniscore_standin),
                ", ".join(stand_ins) or None,
                each.withheld_because,
                each.context_tokens,
                each.is_context_extension,
                each.trust_remote_code,
                each.generation_id and each.generation_id[:12],
                each.deviations,
                each.run_id,
            )
        )
    labels = [label for _, label in components]
    note = f"partial scores withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    first = len(_BEFORE_COMPONENTS)
    n_numbers = len(labels) + _AFTER_COMPONENTS.index("Stand-ins")
    return Sheet(
        headers=(*_BEFORE_COMPONENTS, *labels, *_AFTER_COMPONENTS),
        rows=tuple(rows),
        printed=frozenset(range(first, first + n_numbers)),
        notes=(note,) if n_withheld else (),
    )


def write_export(path: Path, sheet: Sheet, form: Format, build: Build) -> Path:
    """Write a table, and beside it ``<name>.provenance.json`` with the build it comes from.

    Each is whole or absent, and the second holds the hash of the first, so a wrong pair is seen.

    Returns
    -------
    Path
        The provenance file.

    Raises
    ------
    WrongUsage
        If the file cannot be written there.
    LakeUnusable
        If the disk is full.
    """
    if path.exists() and not path.is_file():
        raise WrongUsage(f"{path}: expected a file, found a folder or device")
    content = render(sheet, form)
    provenance = path.with_name(f"{path.name}.provenance.json")
    statement = {
        "file": path.name,
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "raw_sha256": build.raw_sha256,
        "project_sha256": build.project_sha256,
        "build_id": build.invocation_id,
        "built_at": build.finished_at,
        "coglake_version": coglake_version(),
    }
    # a link stays a link
    write_whole(path.resolve(), content)
    write_whole(provenance.resolve(), to_json(statement))
    return provenance


def coglake_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("coglake")
    except PackageNotFoundError:
        return "not installed"


def _columns(con: duckdb.DuckDBPyConnection, models: Sequence[str]) -> list[str]:
    found = con.execute("select distinct column_id, column_kind, model_id from table_3").fetchall()
    kinds = {column_id: kind for column_id, kind, _ in found if kind in _MODEL_KINDS}
    # one model may have several columns, by revision and protocol
    model_of = {column_id: model_id or column_id for column_id, _, model_id in found if column_id in kinds}
    known = sorted(kinds, key=lambda column_id: (column_id.casefold(), column_id))
    if not models:
        return [column_id for column_id in known if kinds[column_id] == "model"]
    return matching(known, model_of, models)


def matching(known: Sequence[str], model_of: Mapping[str, str], models: Sequence[str]) -> list[str]:
    """Return those of ``known`` that the names and patterns stand for, in the order wanted."""
    chosen: list[str] = []
    for wanted in models:
        # an id may hold the characters of a pattern, so the exact one comes first
        matches = (
            [name for name in known if name == wanted]
            or [name for name in known if model_of[name] == wanted]
            or [name for name in known if fnmatchcase(name, wanted) or fnmatchcase(model_of[name], wanted)]
        )
        if not matches:
            close = get_close_matches(wanted, {*known, *model_of.values()}, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"{len(known)} models are there"
            raise WrongUsage(f"--models {wanted}: no such model; {hint}")
        chosen += [name for name in matches if name not in chosen]
    return chosen


def _component_cell(part: _Component | None, allow_partial: bool) -> str | None:
    if part is None:
        return None
    return _two_decimals(part.value) or (part.partial if allow_partial else None)


def _two_decimals(value: float | None) -> str | None:
    """Print a score, rounded as C's printf does; the only place where it is."""
    return None if value is None else f"{value:.2f}"


def _interval(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"
