"""Databases with the verdicts of a few models, as a build leaves them, for tests of comparisons."""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import statsmodels.api as sm
from support import ROOT

_TABLES = f"""
    create table s1cogbench_modes as
    select * from read_csv('{ROOT}/manifests/s1cogbench_modes.csv', all_varchar = false);
    create table s1cogbench_metrics as
    select * replace (cast(readout as varchar) as readout)
    from read_csv('{ROOT}/manifests/s1cogbench_metrics.csv', all_varchar = false);
    create table table_3 (
        mode_id varchar, column_id varchar, column_kind varchar, model_id varchar, run_id varchar,
        value double, reason varchar
    );
    create table substitutes as from table_3;
    create table metrics (run_id varchar, mode_id varchar, metric varchar, value double, reason varchar);
    create table int_scored (
        run_id varchar, mode_id varchar, episode_id varchar, item_id varchar, step_index integer,
        rule varchar, readout varchar, value double, weight double, status varchar, scorer_sha varchar
    );
    create table stg_steps (
        run_id varchar, mode_id varchar, episode_id varchar, step_index integer, trial integer,
        hidden_values double[], credited_options varchar[], is_forced boolean
    );
    create table int_clusters (run_id varchar, mode_id varchar, episode_id varchar, cluster_id varchar);
    create view int_episode_metrics as
    select
        run_id, mode_id, metric, episode_id,
        count(*) filter (status = 'ok') as n_scored,
        sum(cast(case when isfinite(value) then value * weight end * pow(2::double, 60) as hugeint)) filter (
            status = 'ok'
        ) as value_sum_fixed,
        sum(cast(weight * pow(2::double, 60) as hugeint)) filter (status = 'ok') as weight_sum_fixed
    from int_scored
    inner join s1cogbench_metrics as declared using (mode_id, rule)
    where declared.is_primary
    group by all;
    insert into table_3 select mode_id, 'uniform', 'uniform', null, null, 0.5, null from s1cogbench_modes;
"""
_SCORED = (
    "run_id",
    "mode_id",
    "episode_id",
    "item_id",
    "step_index",
    "rule",
    "readout",
    "value",
    "weight",
    "status",
    "scorer_sha",
)
_STEPS = {
    "run_id": pl.String,
    "mode_id": pl.String,
    "episode_id": pl.String,
    "step_index": pl.Int32,
    "trial": pl.Int32,
    "hidden_values": pl.List(pl.Float64),
    "credited_options": pl.List(pl.String),
    "is_forced": pl.Boolean,
}
with (ROOT / "manifests" / "s1cogbench_metrics.csv").open(newline="", encoding="utf-8") as handle:
    PRIMARY = {row["mode_id"]: row for row in csv.DictReader(handle) if row["is_primary"] == "true"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of one answer or trial; its episode is its cluster unless another is named.

    Of a trial, ``hidden`` is what decides its outcomes and ``credited`` the option that is right.
    """

    episode: str
    value: float | None
    item: str | None = None
    step: int | None = None
    weight: float = 1.0
    status: str = "ok"
    cluster: str | None = None
    hidden: tuple[float | None, ...] | None = None
    credited: str | None = None


class PairedLake:
    """A database that grows by the verdicts of one model in one mode at a time."""

    def __init__(self) -> None:
        """Make the tables of a build without a run."""
        self.con = duckdb.connect()
        self.con.execute(_TABLES)

    def add(
        self, model: str, mode_id: str, verdicts: Iterable[Verdict], *, n_absent: int = 0, sha: str = "v1"
    ) -> str:
        """Add a run, with the value that its metric has if all was asked and answered; return its id."""
        verdicts = list(verdicts)
        declared = PRIMARY[mode_id]
        run_id = f"{model}-{mode_id}"
        is_whole = not n_absent and all(each.status == "ok" for each in verdicts)
        value = None
        if is_whole and verdicts:
            weighted = math.fsum(each.weight * (each.value or 0) for each in verdicts)
            value = float(declared["scale"]) * weighted / math.fsum(each.weight for each in verdicts)
        reason = None if is_whole else f"{n_absent} of {n_absent + len(verdicts)} planned rows have no answer"
        self.con.execute(
            "insert into table_3 values (?, ?, 'model', ?, ?, ?, ?)",
            [mode_id, model, model, run_id, value, reason],
        )
        self.con.execute(
            "insert into metrics values (?, ?, ?, ?, ?)", [run_id, mode_id, declared["metric"], value, reason]
        )
        kinds = dict.fromkeys(_SCORED, pl.String) | {"step_index": pl.Int32, "value": pl.Float64}
        rows = [
            (
                run_id,
                mode_id,
                e.episode,
                e.item,
                e.step,
                declared["rule"],
                None,
                e.value,
                e.weight,
                e.status,
                sha,
            )
            for e in verdicts
        ]
        self._insert("int_scored", pl.DataFrame(rows, kinds | {"weight": pl.Float64}, orient="row"))
        steps = [
            (
                run_id,
                mode_id,
                e.episode,
                e.step,
                e.step,
                e.hidden and list(e.hidden),
                e.credited and [e.credited],
                False,
            )
            for e in verdicts
            if e.step is not None
        ]
        self._insert("stg_steps", pl.DataFrame(steps, _STEPS, orient="row"))
        clusters = {(run_id, mode_id, e.episode, e.cluster or e.episode) for e in verdicts}
        columns = ("run_id", "mode_id", "episode_id", "cluster_id")
        self._insert(
            "int_clusters", pl.DataFrame(sorted(clusters), dict.fromkeys(columns, pl.String), orient="row")
        )
        return run_id

    def _insert(self, table: str, rows: pl.DataFrame) -> None:
        self.con.register("rows_to_add", rows)
        self.con.execute(f"insert into {table} from rows_to_add")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Estimate of one difference with what belongs to it."""

    difference: float
    se: float
    p: float
    low: float
    high: float


def weighted_least_squares(differences, weights, clusters) -> Fitted:
    """Return the weighted mean of differences of pairs, with its cluster-robust error."""
    codes = np.unique(clusters, return_inverse=True)[1]
    fit = sm.WLS(differences, np.ones(len(differences)), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    [[low, high]] = fit.conf_int()
    return Fitted(fit.params[0], fit.bse[0], fit.pvalues[0], low, high)


def of_two_means(values, is_first, weights, clusters) -> Fitted:
    """Return the difference of two weighted means whose rows need not pair, by a regression on who is first.

    statsmodels counts both coefficients as estimated: (N - 1) / (N - 2) is taken out of the variance again.
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    fit = sm.WLS(values, sm.add_constant(np.asarray(is_first, dtype=float)), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    n = len(values)
    se = fit.bse[1] * math.sqrt((n - 2) / (n - 1))
    return Fitted(fit.params[1], se, math.nan, math.nan, math.nan)
