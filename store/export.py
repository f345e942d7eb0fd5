"""Tables for readers outside the store, and the build that they come from."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import duckdb

from store.errors import CheckFailed, NothingToExport, WrongUsage
from store.files import write_whole
from store.formats import Format, Sheet, render, to_json
from store.freshness import Build
from store.uncertainty import Error, Uncertainty, groups

_BEFORE_MODELS = ("Domain", "Task mode", "Primary target", "Better direction")
_REFERENCE = ("Reference", "Reference mark", "Reference type")

_MODES = """
    select
        mode_id, domain, label, primary_target, direction, s1cogbench_modes.decimals, reference_mark,
        reference_type
    from s1cogbench_modes
    left join s1cogbench_references using (mode_id)
    where variant_of is null
    order by display_order
"""
_CELLS = """
    select
        mode_id, column_kind, column_id, status, printed, printed_partial, se, ci_low, ci_high
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
    select evaluation_id, component_id, dataset_id, is_stand_in, value, value_scored, se, ci_low, ci_high
    from cognirank_scores
    where is_primary
"""
# published composites first, then those of stand-ins, then what has none; better ones first
_EVALUATIONS = """
    select
        scores.run_id, scores.model_id, scores.model_revision, ranks.ranked, ranks.rank, ranks.tied_group,
        scores.cogniscore, scores.cogniscore_standin, scores.se, scores.ci_low, scores.ci_high,
        scores.withheld_because,
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
    error: Error

    @property
    def is_partial(self) -> bool:
        return self.status == "part." and self.printed_partial is not None

    def shown(
        self, beside: Uncertainty | None, decimals: int, *, allow_partial: bool
    ) -> tuple[str | None, ...]:
        """Return the text of the cell and, if asked for, what stands beside it."""
        is_part = self.is_partial and allow_partial
        error = self.error if is_part or self.status == "complete" else Error()
        return (
            self.printed_partial if is_part else self.printed,
            *(error.rounded(beside, decimals, "s" if is_part else "") if beside else ()),
        )


_NOT_EVALUATED = _Cell("n.e.", "n.e.", None, Error())


def export_table3(
    con: duckdb.DuckDBPyConnection,
    models: Sequence[str] = (),
    allow_partial: bool = False,
    beside: Uncertainty | None = None,
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
    beside
        What stands in columns of its own after each model and the reference, which are estimates; the uniform
        cell is exact.

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
    for mode_id, kind, column_id, status, printed, partial, *error in con.execute(_CELLS).fetchall():
        cell = _Cell(status, printed, partial, Error(*error))
        if kind in _MODEL_KINDS:
            by_model[mode_id, column_id] = cell
        else:
            by_kind[mode_id, kind] = cell
    n_withheld = 0
    rows: list[tuple[object, ...]] = []
    for mode_id, domain, label, target, direction, decimals, mark, reference in con.execute(
        _MODES
    ).fetchall():
        exact = by_kind.get((mode_id, "uniform"), _NOT_EVALUATED)
        estimates = [
            *(by_model.get((mode_id, column), _NOT_EVALUATED) for column in columns),
            by_kind.get((mode_id, "reference"), _NOT_EVALUATED),
        ]
        n_withheld += sum(cell.is_partial and not allow_partial for cell in (exact, *estimates))
        shown = [cell.shown(beside, decimals, allow_partial=allow_partial) for cell in estimates]
        uniform, *_ = exact.shown(None, decimals, allow_partial=allow_partial)
        cells = (uniform, *(text for cell in shown for text in cell))
        rows.append((domain, label, target, direction, *cells, mark or "", reference or ""))
    reference_column, *after = _REFERENCE
    names = [(name, *(beside.headers(name) if beside else ())) for name in (*columns, reference_column)]
    first = len(_BEFORE_MODELS)
    width = len(names[0])
    end = first + 1 + width * len(names)
    note = f"partial cells withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    return Sheet(
        headers=(*_BEFORE_MODELS, "Uniform", *(name for group in names for name in group), *after),
        rows=tuple(rows),
        printed=frozenset(range(first, end)),
        notes=(note,) if n_withheld else (),
        beside=groups(range(first + 1, end, width), width),
    )


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
    se: float | None
    ci_low: float | None
    ci_high: float | None
    withheld_because: str | None
    context_tokens: int | None
    is_context_extension: bool
    generation_id: str | None
    deviations: str | None
    trust_remote_code: bool

    def printed(self, score: float | None, beside: Uncertainty | None) -> tuple[str | None, ...]:
        """Return a composite and what stands beside it; an evaluation has one of the two at most."""
        error = Error() if score is None else Error(self.se, self.ci_low, self.ci_high)
        return (_two_decimals(score), *(error.beside(beside, _two_decimals) if beside else ()))


@dataclass(frozen=True, slots=True)
class _Component:
    """One component of one evaluation."""

    dataset_id: str
    is_stand_in: bool
    value: float | None
    value_scored: float | None
    error: Error

    @property
    def partial(self) -> str | None:
        """The score over the items that have one, marked."""
        return None if self.value_scored is None else f"{_two_decimals(self.value_scored)}s"


def export_cogniscore(
    con: duckdb.DuckDBPyConnection,
    models: Sequence[str] = (),
    allow_partial: bool = False,
    beside: Uncertainty | None = None,
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
    beside
        What stands in columns of its own after each component, the composite and the stand-in score.

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
        (evaluation_id, component_id): _Component(dataset_id, is_stand_in, value, value_scored, Error(*error))
        for evaluation_id, component_id, dataset_id, is_stand_in, value, value_scored, *error in con.execute(
            _COMPONENT_SCORES
        ).fetchall()
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
        cells = [
            cell
            for name, _ in components
            for cell in _with_error(published.get(name), allow_partial=allow_partial, beside=beside)
        ]
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
                *each.printed(each.cogniscore, beside),
                _interval(each.ci_low, each.ci_high),
                each.tied_group,
                *each.printed(each.cogniscore_standin, beside),
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
    note = f"partial scores withheld: {n_withheld}; --allow-partial prints what could be scored, marked s"
    names = [*_BEFORE_COMPONENTS, *(label for _, label in components), *_AFTER_COMPONENTS]
    first = len(_BEFORE_COMPONENTS)
    estimates = {
        *range(first, first + len(components)),
        names.index("CogniScore"),
        names.index("Stand-in score"),
    }
    headers: list[str] = []
    starts: list[int] = []
    for place, name in enumerate(names):
        if place in estimates:
            starts.append(len(headers))
        headers += [name, *(beside.headers(name) if beside and place in estimates else ())]
    return Sheet(
        headers=tuple(headers),
        rows=tuple(rows),
        printed=frozenset(range(first, headers.index("Stand-ins"))),
        notes=(note,) if n_withheld else (),
        beside=groups(starts, 1 + len(beside.headers("")) if beside else 1),
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
    # a link stays a link
    write_whole(path.resolve(), content)
    return write_provenance(path, hashlib.sha256(content.encode()).hexdigest(), build)


def write_provenance(path: Path, sha256: str, build: Build) -> Path:
    """Write ``<name>.provenance.json`` beside an exported file; return its path.

    Raises
    ------
    WrongUsage
        If the file cannot be written there.
    LakeUnusable
        If the disk is full.
    """
    provenance = path.with_name(f"{path.name}.provenance.json")
    statement = {
        "file": path.name,
        "sha256": sha256,
        "raw_sha256": build.raw_sha256,
        "project_sha256": build.project_sha256,
        "build_id": build.invocation_id,
        "built_at": build.finished_at,
        "coglake_version": coglake_version(),
    }
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
            names = [*known, *model_of.values()]
            close = near(wanted, names) or f"{len(known)} models are there"
            raise WrongUsage(f"--models {wanted}: no such model; {close}")
        chosen += [name for name in matches if name not in chosen]
    return chosen


def near(wanted: str, known: Iterable[str]) -> str | None:
    """Return the names most like a wrong one as a question, or None if none is."""
    close = get_close_matches(wanted, sorted(set(known)), n=3)
    return f"did you mean {' or '.join(close)}?" if close else None


def _component_cell(part: _Component | None, allow_partial: bool) -> str | None:
    if part is None:
        return None
    return _two_decimals(part.value) or (part.partial if allow_partial else None)


def _with_error(
    part: _Component | None, *, allow_partial: bool, beside: Uncertainty | None
) -> tuple[str | None, ...]:
    """Return the score of a component and what stands beside it; nothing stands beside an empty cell."""
    cell = _component_cell(part, allow_partial)
    error = Error() if part is None or cell is None else part.error
    mark = "s" if part is not None and part.value is None else ""
    return (cell, *(error.beside(beside, _two_decimals, mark) if beside else ()))


def _two_decimals(value: float | None) -> str | None:
    """Print a score, rounded as C's printf does; the only place where it is."""
    return None if value is None else f"{value:.2f}"


def _interval(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"
