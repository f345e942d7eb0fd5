"""Paired comparison of two models on the same items, one row per mode of Table 3.

Verdicts are paired by the keys of what was asked. The difference is that of the two values, its error is over
clusters, and nothing is computed over what only one of the two has.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import numpy.typing as npt

from store import compare_sql as sql
from store import statistics
from store.errors import CheckFailed, WrongUsage
from store.export import near

N_REPLICATES = 2000
CONFIDENCE = 0.95
POWER = 0.8
SIGNIFICANCE = 0.05
_N_NAMED_PAIRS = 5
_REPLICATES_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two that are compared: a column of Table 3, or a run."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models in one mode; statistics are null where ``reason`` says why.

    Attributes
    ----------
    status
        ``tested``; ``untested`` (paired, but there is nothing to test against); ``absent`` (one of them or
        both have no answer here); ``unpaired`` (pairs are missing, which is an error).
    value_a, value_b, difference, se, ci_low, ci_high
        In ``unit``. ``difference`` is A - B; the interval holds 95 %.
    pair
        What a pair is: ``item``, or ``episode`` where the two played other trials.
    p, p_holm
        Two-sided p of ``test``, alone and corrected over all tested rows.
    both_right, a_only, b_only, both_wrong
        Flip table of an accuracy, in pairs.
    bootstrap_low, bootstrap_high, bootstrap_p
        Percentile interval of 95 % over clusters drawn with replacement, in ``unit``, and its two-sided p.
    margin, equivalence_p
        What counts as equivalent, in ``unit``, and the p of two one-sided tests.
    detectable
        Difference that a test at 0.05 would see with power 0.8, in ``unit``.
    note
        What to know of these numbers.
    """

    mode_id: str
    label: str
    metric: str
    unit: str
    decimals: int
    status: str
    reason: str | None
    run_a: str | None
    run_b: str | None
    value_a: float | None
    value_b: float | None
    difference: float | None
    se: float | None
    ci_low: float | None
    ci_high: float | None
    pair: str | None
    n_pairs: int
    n_a_lacks: int
    n_b_lacks: int
    n_clusters: int | None
    cluster: str
    test: str | None
    t: float | None
    degrees_of_freedom: int | None
    p: float | None
    p_holm: float | None
    both_right: int | None
    a_only: int | None
    b_only: int | None
    both_wrong: int | None
    mcnemar_p: float | None
    margin: float | None
    equivalence_p: float | None
    detectable: float | None
    note: str | None
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None
    bootstrap_p: float | None = None


def resolve(con: duckdb.DuckDBPyConnection, name: str) -> Compared:
    """Return what a name stands for: a column of Table 3, the only column of a model, or a run.

    Raises
    ------
    WrongUsage
        If it stands for nothing, for several columns, or for the exact expectation, which answered no item.
    """
    columns = con.execute(sql.COLUMNS).fetchall()
    kinds = {column_id: kind for column_id, kind, _ in columns}
    of_model = [column_id for column_id, kind, model in columns if model == name and kind != "reference"]
    runs = [run_id for (run_id,) in con.execute(sql.RUNS).fetchall()]
    if kinds.get(name) == "uniform":
        raise WrongUsage(
            f"{name}: this column is an exact expectation, which answered no item; name a run instead"
        )
    if name in kinds:
        return Compared(name, "column")
    if len(of_model) == 1:
        return Compared(of_model[0], "column")
    if of_model:
        found = ", ".join(of_model)
        raise WrongUsage(f"{name}: {len(of_model)} columns are of this model ({found}); name one of them")
    if name in runs:
        return Compared(name, "run")
    known = {*kinds, *(model for _, _, model in columns), *runs} - {"uniform"}
    hint = near(name, known) or "`coglake status` says what is there"
    raise WrongUsage(f"{name}: no such column of Table 3, model or run; {hint}")


def compare(
    con: duckdb.DuckDBPyConnection,
    one: Compared,
    another: Compared,
    modes: Sequence[str] = (),
    margins: Mapping[str, float] | None = None,
) -> list[Comparison]:
    """Compare two models on the same items, mode by mode.

    The statistics of a mode, with weights w of items or trials and clusters c of G:

    - difference: Σ w a / Σ w - Σ w b / Σ w, each over its own rows;
    - error: √(G / (G - 1) Σ d_c²), where d_c is how far the rows of cluster c pull the difference. With the
      same weights on both sides it is the cluster-robust error of a weighted mean of differences, and with
      clusters of equal weight that of the paired t test of their means;
    - bootstrap: whole clusters, drawn with PCG64, which the names of the mode and of both runs seed.

    Parameters
    ----------
    con
        Connection to a fresh build; temporary tables are made in it.
    modes
        Modes to compare, also other data of a mode; empty for the 27 of Table 3.
    margins
        What counts as equivalent, by mode and in the unit of its primary target; the manifest's by default.

    Raises
    ------
    WrongUsage
        If both names stand for the same, or a mode is not known or not compared.
    CheckFailed
        If one mode was scored by two versions of its rule.
    """
    if one == another:
        raise WrongUsage(f"{one.name}: expected two to compare, found the same twice")
    margins = margins or {}
    chosen = _chosen_modes(con, modes)
    for mode_id in margins:
        if mode_id not in chosen:
            hint = near(mode_id, chosen) or f"these are {', '.join(chosen)}"
            raise WrongUsage(f"--margin {mode_id}: not among the modes compared; {hint}")
    statistics.register(con)
    con.execute(sql.COMPARED)
    for side, each in (("a", one), ("b", another)):
        cells = sql.CELLS_OF_RUN if each.kind == "run" else sql.CELLS_OF_COLUMN
        con.execute(cells, {"side": side, "name": each.name})
    con.execute(sql.WANTED, {"stated": [*margins], "margins": [*margins.values()], "modes": chosen})
    con.execute(sql.KEYED)
    if mixed := con.execute(sql.MIXED_SCORERS).fetchall():
        mode_id, *hashes = mixed[0]
        raise CheckFailed(
            f"{mode_id}: expected one version of its scorer, found {', '.join(hashes)}; run `coglake build`"
        )
    con.execute(sql.PLAYED)
    con.execute(sql.PAIRS)
    con.execute(sql.CLUSTERS)
    result = con.execute(
        sql.COMPARISONS,
        {
            "upper": (1 + CONFIDENCE) / 2,
            "power": POWER,
            "significance": SIGNIFICANCE,
            "n_named": _N_NAMED_PAIRS,
        },
    )
    names = [column[0] for column in result.description or ()]
    found = [Comparison(**dict(zip(names, row, strict=True))) for row in result.fetchall()]
    return [_with_bootstrap(con, each) for each in found]


def _chosen_modes(con: duckdb.DuckDBPyConnection, wanted: Sequence[str]) -> list[str]:
    declared = con.execute(sql.MODES).fetchall()
    known = [mode_id for mode_id, _ in declared]
    for mode_id in wanted:
        if mode_id not in known:
            hint = near(mode_id, known) or f"these are {', '.join(known)}"
            raise WrongUsage(f"--modes {mode_id}: no such mode; {hint}")
    return [mode_id for mode_id, is_published in declared if (mode_id in wanted if wanted else is_published)]


def _with_bootstrap(con: duckdb.DuckDBPyConnection, found: Comparison) -> Comparison:
    """Add what clusters drawn with replacement say, where they differ."""
    if not found.se:
        return found
    columns = con.execute(sql.CLUSTERS_OF_MODE, [found.mode_id]).fetchnumpy()
    # A and B in the order of their runs: the answer for B and A is then that for A and B with the sign turned
    runs = {found.run_a: "a", found.run_b: "b"}
    first, second = (runs[run_id] for run_id in sorted(runs, key=str))
    names = (f"value_{first}", f"weight_{first}", f"value_{second}", f"weight_{second}")
    sums = np.column_stack([np.ma.filled(columns[name]) for name in names])
    seed = hashlib.sha256("\n".join((found.mode_id, *sorted(map(str, runs)))).encode()).digest()
    differences = _replicates(sums, int.from_bytes(seed[:16])) * (1 if first == "a" else -1)
    low, high = np.quantile(differences, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    # one more above and below the line, so that p is never 0
    n_beyond = 1 + min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    p = min(1.0, 2 * float(n_beyond) / (N_REPLICATES + 1))
    return replace(found, bootstrap_low=float(low), bootstrap_high=float(high), bootstrap_p=p)


def _replicates(sums: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    """Return the difference of two weighted means over clusters drawn with replacement, once per replicate.

    Parameters
    ----------
    sums
        Weighted sum and sum of weights of the one and of the other; shape (n_clusters, 4).
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    # clusters with the same sums are drawn together: right or wrong items are of four kinds
    kinds, n_of_kind = np.unique(sums, axis=0, return_counts=True)
    at_once = max(1, _REPLICATES_AT_ONCE // len(kinds))
    totals = np.concatenate(
        [
            generator.multinomial(len(sums), n_of_kind / len(sums), min(at_once, N_REPLICATES - done)) @ kinds
            for done in range(0, N_REPLICATES, at_once)
        ]
    )
    return np.asarray(totals[:, 0] / totals[:, 1] - totals[:, 2] / totals[:, 3])
