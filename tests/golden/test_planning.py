"""What do MetaGreedy and the sequential learning model predict of the public participants, and how well?

The published figures are 1.3670 nats for MetaGreedy, from the authors' parameters, and 0.840 for sequential
learning, from people whose data are not identified. Neither is aimed at: what is measured here is said here.
"""

import os

import duckdb
import polars as pl
import pytest
from pytest import approx

from generate.contract import Training
from generate.pipeline import generate, plan
from generate.references.planning import MetaGreedyPrediction
from generate.schedule import load_agents, load_schedules
from ingest.pipeline import ingest
from store.manifest import load_sources
from store.settings import Home

pytestmark = pytest.mark.mirror


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """A lake with both sources and what both references predict, as views of the raw tables."""
    lake = Home(tmp_path_factory.mktemp("planning") / "lake")
    sources = load_sources()
    reports = ingest(lake, [sources["mouselab"], sources["wcst_prl"]], mirror=os.environ["COGLAKE_MIRROR"])
    assert all(report.failures == () for report in reports)
    agents = [load_agents()[name] for name in ("metagreedy_prediction", "wcst_sl_prediction")]
    generate(lake, plan(lake, agents, load_schedules()))
    with duckdb.connect() as connection:
        for table in ("items", "human_responses", "output_options", "fits"):
            connection.execute(
                f"create view {table} as select * from "
                f"read_parquet('{lake.raw}/{table}/**/*.parquet', union_by_name = true)"
            )
        connection.execute(
            """
            create view scored as
            select mode_id, item_id, people.participant_id, fold, -logprob_nats as nll
            from human_responses as people inner join output_options as predicted using (mode_id, item_id)
            where predicted.option = people.response
            """
        )
        yield connection


def rows(con, sql):
    return con.sql(sql).fetchall()


def test_every_response_is_predicted_once_and_options_share_all_probability(con):
    counts = rows(con, "select mode_id, count(*), count(distinct item_id) from scored group by 1 order by 1")
    assert counts == [("mouselab_prediction", 20_363, 20_363), ("wcst_prediction_prl", 4_062, 4_062)]
    [(low, high)] = rows(
        con,
        "select min(total), max(total) from "
        "(select sum(exp(logprob_nats)) as total from output_options group by item_id)",
    )
    assert (low, high) == (approx(1, abs=1e-9), approx(1, abs=1e-9))


def test_metagreedy_predicts_people_across_folds_as_well_as_was_measured(con):
    [(nats,)] = rows(con, "select favg(nll) from scored where mode_id = 'mouselab_prediction'")
    assert nats == approx(1.3645, abs=0.001)
    # printed is 1.3670; a search that starts from 20 points, as the authors' does, ends at worse parameters
    assert 0 < 1.3670 - nats < 0.004
    [(uniform,)] = rows(con, "select favg(ln(len(legal_options))) from items where mode_id like 'mouse%'")
    assert uniform == approx(1.6336348460, abs=5e-11)


def test_metagreedy_fits_its_own_trials_better_than_those_of_another_fold(con):
    trials = pl.DataFrame(
        con.sql(
            """
            select item_id, 'exp1' as dataset, items.participant_id, legal_options, facts_json, response
            from items inner join human_responses using (item_id)
            where items.mode_id = 'mouselab_prediction' order by items.participant_id, item_id
            """
        ).to_arrow_table()
    )
    estimate = MetaGreedyPrediction().fit(Training(trials, pl.DataFrame()))
    total = sum(fit.value for fit in estimate.fits if fit.parameter == "negative_log_likelihood")
    assert total / 20_363 == approx(1.3430, abs=0.0005)


def test_every_person_has_parameters_for_every_fold(con):
    found = rows(
        con,
        """
        select parameter, count(*), count(distinct participant_id), count(distinct fold)
        from fits where mode_id = 'mouselab_prediction' group by 1
        """,
    )
    assert len(found) == 5 and {row[1:] for row in found} == {(475, 95, 5)}
    [(n_converged, n_at_bound)] = rows(
        con,
        """
        select count(*) filter (is_converged), count(*) filter (is_at_bound) from (
            select bool_and(is_converged) as is_converged, bool_or(is_at_bound) as is_at_bound
            from fits where mode_id = 'mouselab_prediction' group by participant_id, fold
        )
        """,
    )
    assert n_converged >= 470 and n_at_bound == approx(246, abs=10)


def test_sequential_learning_predicts_other_people_as_well_as_was_measured(con):
    [(nats, n)] = rows(con, "select favg(nll), count(*) from scored where mode_id = 'wcst_prediction_prl'")
    assert (nats, n) == (approx(0.3729, abs=0.0005), 4_062)
    values = dict(rows(con, "select parameter, value from fits where mode_id = 'wcst_prediction_prl'"))
    assert values.pop("negative_log_likelihood") / 15_909 == approx(0.3713, abs=0.0002)
    assert values == {
        "reward_rate": approx(1.0, abs=0.001),
        "punishment_rate": approx(0.995, abs=0.005),
        "decision_consistency": approx(0.3295, abs=0.002),
        "lapse": approx(0.01336, abs=0.0001),
    }
