"""Are standard errors, intervals and denominators right? From the item verdicts of drawn lakes, the demo and
the real archive statsmodels and SciPy estimate once more."""

import csv
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pytest import approx
from spec import statistics_oracles as oracle
from spec.statistics_oracles import Estimate
from support import ROOT, built, copy_lake, query

from ingest.pipeline import ingest
from store.lake import commit
from store.manifest import load_sources
from store.schemas import RAW_TABLES
from store.settings import Home

Row = dict[str, Any]
SEEDS = range(3)


def manifest(name: str) -> list[dict[str, str]]:
    with (ROOT / "manifests" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


MODES = {row["mode_id"]: row for row in manifest("s1cogbench_modes")}
METRICS = {(row["mode_id"], row["metric"]): row for row in manifest("s1cogbench_metrics")}


# ---- drawn lakes ----


def plant(lake: Home, run_id: str, mode_id: str, tables: Mapping[str, Sequence[Row]], **run: Any) -> None:
    """Commit rows of one mode; what all rows of the run share is filled in."""
    row = {"run_id": run_id, "planned_modes": [mode_id], "notes": [], "kind": "archived"} | run
    row = {"model_id": run_id, "agent_kind": "language_model", "source_id": "drawn"} | row
    shared = {"run_id": run_id, "mode_id": mode_id, "status": "ok", "weight": 1.0, "stage": 0}
    shared |= {"source_id": row["source_id"], "is_forced": False, "is_rewarded": True}

    def table(name: str, rows: Sequence[Row]) -> pa.Table:
        schema = RAW_TABLES[name]
        known = {key: value for key, value in shared.items() if key in schema.names}
        return pa.Table.from_pylist([known | each for each in rows], schema)

    written = [(name, table(name, rows)) for name, rows in tables.items()]
    commit(lake, run_id, written, pa.Table.from_pylist([row], RAW_TABLES["runs"]))


def choices(rng: np.random.Generator) -> list[Row]:
    """Episodes of unequal length whose players differ; some choices cannot be read."""
    rows = []
    for episode in range(rng.integers(5, 15)):
        skill = rng.random()
        for step in range(rng.integers(1, 10)):
            is_read = rng.random() > 0.1
            said = {"action": "a" if rng.random() < skill else "b"} if is_read else {"status": "unparsed"}
            rows.append(
                {"episode_id": str(episode), "step_index": step, "credited_options": ["a"], "reward": 0.0}
                | said
            )
    return rows


def games(rng: np.random.Generator) -> list[Row]:
    """Games of timelines: those of one timeline share how well they go."""
    luck = rng.random(6)
    return [
        {
            "episode_id": f"{timeline}/{game}",
            "step_index": step,
            "action": "a" if rng.random() < luck[timeline] else "b",
            "credited_options": ["a"],
            "reward": float(rng.normal(40, 8)),
        }
        for timeline in range(6)
        for game in range(rng.integers(2, 6))
        for step in range(rng.choice([1, 6]))
    ]


def voyages(rng: np.random.Generator) -> list[Row]:
    """Players who each play the same runs, whose rewards they share."""
    rates = rng.random(7)
    rows = []
    for player in range(5):
        for run, rate in enumerate(rates):
            for trial in range(12):
                ship, place = rng.choice(["0", "1"], 2)
                episode = {"episode_id": f"{player}/{run}", "trial": trial}
                rows.append(
                    episode
                    | {"step_index": 2 * trial, "action": ship, "outcome": place, "is_rewarded": False}
                )
                rows.append(
                    episode
                    | {"step_index": 2 * trial + 1, "stage": 1, "action": "0"}
                    | {"reward": float(rng.random() < rate)}
                )
    return rows


def urns(rng: np.random.Generator, run_id: str) -> dict[str, list[Row]]:
    """Runs of several urns; who reports leans the same way throughout a run."""
    items, outputs = [], []
    for seed in range(12):
        lean = rng.normal(0, 0.1)
        for question in range(rng.integers(1, 5)):
            prior, likelihood = (float(share) for share in rng.choice([0.2, 0.3, 0.4, 0.6, 0.7], 2))
            posterior = prior * likelihood / (prior * likelihood + (1 - prior) * (1 - likelihood))
            item_id = f"{run_id}/{seed}/{question}"
            facts = f'{{"prior": {prior}, "likelihood": {likelihood}}}'
            items.append(
                {"item_id": item_id, "support_low": 0.0, "support_high": 1.0, "target": posterior}
                | {"facts_json": facts}
            )
            report = float(np.clip(posterior + lean + rng.normal(0, 0.1), 0.01, 0.99))
            outputs.append({"item_id": item_id, "episode_id": item_id, "response_number": report})
    return {"items": items, "outputs": outputs}


def questions(rng: np.random.Generator, run_id: str) -> dict[str, list[Row]]:
    """Questions with several options, answered by people, each answer with a weight."""
    items, responses, outputs, options = [], [], [], []
    legal = ["a", "b", "c"]
    for number in range(8):
        item_id = f"{run_id}/{number}"
        items.append({"item_id": item_id, "legal_options": legal})
        outputs.append({"item_id": item_id, "episode_id": item_id})
        nats = np.log(rng.dirichlet(np.ones(3)))
        options += [
            {"item_id": item_id, "episode_id": item_id, "option_index": place, "option": option}
            | {"logprob_nats": float(nats[place])}
            for place, option in enumerate(legal)
        ]
        responses += [
            {"item_id": item_id, "participant_id": f"p{person}", "response": rng.choice(legal)}
            | {"weight": float(rng.integers(1, 4))}
            for person in range(10)
            if rng.random() < 0.8
        ]
    return {"items": items, "human_responses": responses, "outputs": outputs, "output_options": options}


def stories(rng: np.random.Generator, run_id: str) -> dict[str, list[Row]]:
    """Several questions of one story, which are got right together."""
    items, outputs, options = [], [], []
    for story in range(15):
        is_easy = rng.random() < 0.6
        for number in range(4):
            item_id = f"{run_id}/{story}/{number}"
            items.append({"item_id": item_id, "legal_options": ["x", "y"], "credited_options": ["x"]})
            outputs.append({"item_id": item_id, "episode_id": item_id})
            is_right = is_easy if rng.random() < 0.8 else rng.random() < 0.5
            options += [
                {"item_id": item_id, "episode_id": item_id, "option_index": place, "option": option}
                | {"logprob_nats": -0.1 if (option == "x") == is_right else -2.5}
                for place, option in enumerate("xy")
            ]
    return {"items": items, "outputs": outputs, "output_options": options}


def verdicts_of(story: str, statuses: Sequence[str]) -> dict[str, list[Row]]:
    """Questions of one story each, by what becomes of them: right, wrong, or why not."""
    items, outputs, options = [], [], []
    for number, status in enumerate(statuses):
        item_id = f"{story}/{number}/0"
        items.append({"item_id": item_id, "legal_options": ["x", "y"], "credited_options": ["x"]})
        is_answered = status in ("right", "wrong")
        how = {} if is_answered else {"status": status, "status_reason": f"it was {status}"}
        outputs.append({"item_id": item_id, "episode_id": item_id} | how)
        if is_answered:
            options += [
                {"item_id": item_id, "episode_id": item_id, "option_index": place, "option": option}
                | {"logprob_nats": -0.1 if (option == "x") == (status == "right") else -2.5}
                for place, option in enumerate("xy")
            ]
    return {"items": items, "outputs": outputs, "output_options": options}


# run -> what becomes of each of its questions
FATES = {
    "two_refusals": ["right"] * 3 + ["wrong"] + ["unparsed"] * 2,
    "two_errors": ["right"] * 2 + ["wrong"] * 4 + ["error"] * 2,
    "all_refused": ["unparsed"] * 3,
    "all_right": ["right"] * 5,
    "all_five_ways": ["right", "wrong", "unparsed", "error", "too_long", "missing_option"],
    "one": ["right"],
    "fourteen_of_307": ["right"] * 14 + ["wrong"] * (307 - 14),
}
# three episodes of a right and a wrong choice each
AGREEING = [
    {
        "episode_id": str(episode),
        "step_index": step,
        "action": action,
        "credited_options": ["a"],
        "reward": 1.0,
    }
    for episode in range(3)
    for step, action in enumerate("ab")
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("drawn") / "lake")
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        plant(lake, f"choices-{seed}", "instrumental_learning", {"steps": choices(rng)})
        plant(lake, f"games-{seed}", "horizon_autonomous", {"steps": games(rng)})
        plant(lake, f"voyages-{seed}", "two_step", {"steps": voyages(rng)})
        plant(lake, f"urns-{seed}", "bayesian_urn", urns(rng, f"urns-{seed}"))
        plant(lake, f"people-{seed}", "pragmatic_interpretation", questions(rng, f"people-{seed}"))
        plant(lake, f"stories-{seed}", "false_belief_qa", stories(rng, f"stories-{seed}"))
    for name, statuses in FATES.items():
        plant(lake, name, "false_belief_qa", verdicts_of(name, statuses))
    plant(lake, "agreeing", "instrumental_learning", {"steps": AGREEING})
    built(lake, project)
    return lake


# ---- estimates ----


def cluster_of(mode_id: str, episode_id: str) -> str:
    """Return the cluster by the mode's row, read anew."""
    part = MODES[mode_id]["cluster_part"]
    parts = episode_id.split("/")
    if not part or abs(int(part)) > len(parts):
        return episode_id
    return parts[int(part) - 1 if int(part) > 0 else int(part)]


def item_values(lake: Home, where: str = "true") -> Iterator[tuple[Row, Row, pl.DataFrame]]:
    """Yield each row of metrics that has a rule, its row of the manifest, and its scored verdicts."""
    verdicts = pl.DataFrame(
        query(
            lake,
            "select run_id, mode_id, rule, readout, episode_id, value, weight from int_scored "
            f"where status = 'ok' and {where}",
        ),
        infer_schema_length=None,
    ).partition_by("run_id", "mode_id", "rule", as_dict=True)
    for row in query(lake, f"select * from metrics where {where}"):
        declared = METRICS[row["mode_id"], row["metric"]]
        found = verdicts.get((row["run_id"], row["mode_id"], declared["rule"]))
        if found is not None and declared["readout"]:
            found = found.filter(pl.col("readout") == declared["readout"])
        if found is not None and len(found):
            yield row, declared, found


def as_estimate(row: Row) -> Estimate:
    return Estimate(row["value_scored"], row["se"], row["ci_low"], row["ci_high"], row["n_clusters"])


def assert_same(row: Row, expected: Estimate, relative: float = 1e-9) -> None:
    """Compare all digits, but for an error that is no larger than the rounding of the value."""
    noise = 1e-13 * abs(expected.value) + 1e-15
    for name, found, wanted in zip(Estimate._fields, as_estimate(row), expected, strict=True):
        where = (row["run_id"], row["mode_id"], row["metric"], name)
        assert (found is None) == (wanted is None), where
        assert wanted is None or found == approx(wanted, rel=relative, abs=noise), where


def check_means(lake: Home, where: str = "true") -> set[tuple[str, str]]:
    """Compare every metric that is a mean with weighted least squares; return what was compared."""
    compared = set()
    for row, declared, verdicts in item_values(lake, where):
        if declared["estimator"] != "mean" or row["n_infinite"]:
            continue
        clusters = [cluster_of(row["mode_id"], episode) for episode in verdicts["episode_id"]]
        values, weights = verdicts["value"].to_list(), verdicts["weight"].to_list()
        assert_same(row, oracle.mean_of(values, weights, clusters, float(declared["scale"])))
        compared.add((row["mode_id"], row["metric"]))
    return compared


def test_means_and_their_intervals_are_those_of_clustered_least_squares(lake):
    assert check_means(lake) >= {
        ("instrumental_learning", "better_action"),
        ("horizon_autonomous", "optimal_choice"),
        ("horizon_autonomous", "mean_reward_horizon_6"),
        ("two_step", "mean_reward"),
        ("bayesian_urn", "posterior_mae"),
        ("pragmatic_interpretation", "human_nll_renormalised"),
        ("pragmatic_interpretation", "choice_accuracy"),
        ("false_belief_qa", "accuracy"),
    }


def test_means_of_the_demo_are_those_of_clustered_least_squares(demo_lake):
    assert len(check_means(demo_lake)) >= 20


@pytest.mark.mirror
def test_means_of_the_archive_are_those_of_clustered_least_squares(tmp_path_factory, empty_lake, project):
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("archive") / "lake")
    whole = load_sources()["cogbench"]
    engines = ("gpt-4", "claude-2", "human", "llama-2-70")
    files = [file for file in whole.files if file.path.rpartition("/")[2].removesuffix(".csv") in engines]
    source = whole.model_copy(update={"files": tuple(files)})
    ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    built(lake, project)
    assert len(check_means(lake)) >= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trimmed_mean_has_the_error_of_winsorised_values(lake, seed):
    ((row, declared, verdicts),) = (
        found
        for found in item_values(lake, f"run_id = 'urns-{seed}'")
        if found[1]["estimator"] == "trimmed_mean"
    )
    clusters = [cluster_of(row["mode_id"], episode) for episode in verdicts["episode_id"]]
    expected = oracle.trimmed_mean_of(verdicts["value"].to_list(), clusters, float(declared["trim_share"]))
    assert_same(row, expected)
    # what is left out still says how far the cut may move
    naive = oracle.mean_of(
        [value for value in verdicts["value"] if value > np.quantile(verdicts["value"], 0.05)],
        [1.0] * row["n_scored"],
        clusters[: row["n_scored"]],
    )
    assert naive.se != approx(row["se"], rel=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_belief_weights_have_the_errors_of_clustered_least_squares(lake, seed):
    reports = query(
        lake,
        "select episode_id, response_number, (facts_json ->> '$.prior')::double as prior, "
        "(facts_json ->> '$.likelihood')::double as likelihood "
        "from int_answers inner join stg_items using (item_id) where run_id = $1",
        f"urns-{seed}",
    )
    logits = [
        [math.log(row[name] / (1 - row[name])) for name in ("prior", "likelihood", "response_number")]
        for row in reports
    ]
    x, y = np.array(logits)[:, :2], np.array(logits)[:, 2]
    clusters = [cluster_of("bayesian_urn", row["episode_id"]) for row in reports]
    found = {row["metric"]: row for row in query(lake, f"select * from metrics where run_id = 'urns-{seed}'")}
    for metric, contrast in (
        ("prior_weight", (1, 0)),
        ("likelihood_weight", (0, 1)),
        ("weight_difference", (1, -1)),
    ):
        assert_same(found[metric], oracle.coefficient_of(y, x, contrast, clusters))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stay_interaction_has_the_error_of_clustered_least_squares(lake, seed):
    stays = query(lake, "select * from int_scored where rule = 'stay' and run_id = $1", f"voyages-{seed}")
    reward, common = (
        np.array([1 if word in row["readout"].split("_") else -1 for row in stays])
        for word in ("rewarded", "common")
    )
    x = np.column_stack([np.ones(len(stays)), reward, common, reward * common])
    clusters = [cluster_of("two_step", row["episode_id"]) for row in stays]
    expected = oracle.coefficient_of([row["value"] for row in stays], x, (0, 0, 0, 1), clusters)
    (row,) = query(
        lake,
        "select * from metrics where metric = 'stay_interaction' and run_id = $1",
        f"voyages-{seed}",
    )
    assert_same(row, expected)
    assert row["n_clusters"] == 7


def test_players_of_the_same_chances_are_no_further_evidence(lake):
    # five players times seven runs: what they share is the run
    [row] = query(
        lake,
        "select cluster, n_clusters from metrics where metric = 'mean_reward' and run_id = 'voyages-0'",
    )
    assert row == {"cluster": "environment seed", "n_clusters": 7}


# ---- an error of zero, and none ----


def one(lake: Home, run_id: str, metric: str) -> Row:
    [row] = query(lake, "select * from metrics where run_id = $1 and metric = $2", run_id, metric)
    return row


def test_the_error_of_a_share_is_its_closed_form(lake):
    row, share = one(lake, "fourteen_of_307", "accuracy"), 14 / 307
    assert row["se"] == approx(100 * math.sqrt(share * (1 - share) / (307 - 1)), rel=1e-12)
    assert row["se"] == approx(1.1926, abs=5e-5)


def test_an_error_is_zero_only_if_all_values_are_equal(lake):
    row = one(lake, "all_right", "accuracy")
    assert (row["value"], row["se"], row["ci_low"], row["ci_high"]) == (100, 0, 100, 100)
    row = one(lake, "agreeing", "better_action")
    assert (row["value"], row["se"], row["ci_low"], row["n_clusters"]) == (50, None, None, 3)
    assert row["se_reason"] == "the clusters agree although the values in them differ"


def test_one_cluster_has_no_error_and_nothing_scored_no_value(lake):
    row = one(lake, "one", "accuracy")
    assert (row["value"], row["se"], row["ci_low"], row["n_clusters"]) == (100, None, None, 1)
    assert row["se_reason"] == "one cluster does not show how clusters differ"
    row = one(lake, "all_refused", "accuracy")
    assert (row["value_scored"], row["se"], row["n_clusters"]) == (None, None, 0)
    assert row["se_reason"] == "there is no value"


def test_a_cell_of_table_3_has_the_interval_of_its_metric(lake):
    cells = query(lake, "select * from table_3 where column_kind = 'model' and run_id is not null")
    assert len(cells) == len(SEEDS) * 6 + len(FATES) + 1
    for cell in cells:
        [row] = query(
            lake,
            "select * from metrics inner join s1cogbench_metrics using (mode_id, metric) "
            "where is_primary and run_id = $1 and mode_id = $2",
            cell["run_id"],
            cell["mode_id"],
        )
        assert as_estimate(cell) == as_estimate(row)


# ---- rows without a score ----


def test_refusals_and_errors_leave_no_denominator(lake):
    row = one(lake, "two_refusals", "accuracy")
    assert (row["value"], row["value_scored"], row["value_count_as_wrong"]) == (None, 75.0, 100 * 3 / 6)
    assert (row["n_planned"], row["n_scored"], row["n_unparsed"]) == (6, 4, 2)
    row = one(lake, "two_errors", "accuracy")
    assert (row["value"], row["value_count_as_wrong"], row["n_error"]) == (None, 100 * 2 / 8, 2)


def test_planned_rows_are_those_with_a_score_and_of_four_ways_to_have_none(lake):
    row = one(lake, "all_five_ways", "accuracy")
    ways = ("n_unparsed", "n_error", "n_too_long", "n_missing_option")
    assert [row[name] for name in ("n_planned", "n_scored", *ways)] == [6, 2, 1, 1, 1, 1]
    assert row["value_count_as_wrong"] == approx(100 / 6)


def test_where_nothing_is_missing_the_policies_agree(lake):
    row = one(lake, "all_right", "accuracy")
    assert row["value_count_as_wrong"] == row["value"] == row["value_scored"] == 100
    assert row["count_as_wrong_reason"] is None


def test_nothing_scored_is_all_wrong_by_one_policy_and_no_value_by_the_other(lake):
    row = one(lake, "all_refused", "accuracy")
    assert (row["value"], row["value_count_as_wrong"]) == (None, 0)
    assert row["reason"] is not None


def test_no_value_of_a_likelihood_is_wrong(lake):
    row = one(lake, "people-0", "human_nll_renormalised")
    assert (row["value"] is None, row["value_count_as_wrong"]) == (False, None)
    assert row["count_as_wrong_reason"] == "no value of the metric is declared as wrong"


def test_every_mode_says_what_is_independent():
    words = defaultdict(set)
    for mode_id, row in MODES.items():
        words[row["cluster"], row["cluster_part"]].add(mode_id)
    assert words.keys() == {
        ("participant", ""),
        ("question", ""),
        ("story", "-2"),
        ("run", "-2"),
        ("session", ""),
        ("environment", ""),
        ("environment seed", ""),
        ("environment seed", "-1"),
        ("timeline", "1"),
        ("participant slot", "1"),
    }
    played = {mode_id for mode_id, row in MODES.items() if row["is_played"] == "true"}
    assert not played & words["participant", ""]
