"""The project's own archive: its schema, its pinned bytes, its environments, and what a player may see."""

import codecs
import csv
import hashlib
import io
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from pytest import approx

from generate import demo_archive
from generate.demo_archive import EXPERIMENTS, PLAYERS, Rng
from store.manifest import load_sources

ENGINES = ("demo-uniform", "demo-greedy", "demo-bayes")
# the real archive's columns
COLUMNS = {
    "BART": "trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx,run",
    "HorizonTask": "trial,mean0,mean1,reward0,reward1,choice,reward,run",
    "InstrumentalLearning": "trial,task,mean0,mean1,reward0,reward1,choice,reward,run",
    "ProbabilisticReasoning": "informative_lh,prior,lh,left_pred,red_observation,run",
    "RestlessBandit": "trial,block,block_trial,choice,reward,confidence,accurate,run",
    "TemporalDiscounting": (
        "present bias,subaddictivity,delay-speedup asymmetry-1,delay-length asymmetry-2,score,run"
    ),
    "TwoStepTask": "trial,action1,state,action2,reward,probsA,probsB,probsC,probsD,run",
}
N_ROWS = {
    "BART": 10 * 45,
    "InstrumentalLearning": 10 * 4 * 24,
    "ProbabilisticReasoning": 100 * 2,
    "RestlessBandit": 10 * (21 + 20 + 20 + 19),
    "TemporalDiscounting": 10,
    "TwoStepTask": 50 * 20,
}
# the real archive's score columns, each with its label; intervals have none
SCORES = {
    "BART": [
        ("performance_score1", "Average rewards"),
        ("behaviour_score1", "Risk"),
        ("behaviour_score2", "Adj Risk"),
    ],
    "HorizonTask": [
        ("performance_score1", "rewards mean"),
        ("behaviour_score1", "Directed Exploration"),
        ("behaviour_score2", "Random Exploration"),
        ("behaviour_score1_CI", None),
        ("behaviour_score2_CI", None),
        ("performance_score1_CI", None),
    ],
    "InstrumentalLearning": [
        ("performance_score1", "mean_reward"),
        ("behaviour_score1", "learning_rate"),
        ("behaviour_score2", "optimism_bias"),
        ("behaviour_score3", "difference to optimal LR"),
        ("behaviour_score4", "difference to optimal optimism bias"),
    ],
    "ProbabilisticReasoning": [
        ("performance_score1", "1 - Difference to bayes optimal posterior prediction"),
        ("performance_score1_CI", None),
        ("behaviour_score1", "prior weighting"),
        ("behaviour_score1_CI", None),
        ("behaviour_score2", "likelihood weighting"),
        ("behaviour_score2_CI", None),
        ("behaviour_score3", "prior / likelihood"),
        ("behaviour_score3_CI", None),
        ("behaviour_score4", "prior - likelihood"),
        ("behaviour_score4_CI", None),
    ],
    "RestlessBandit": [
        ("performance_score1", "rewards mean"),
        ("behaviour_score1", "meta-cognitive sensitivity"),
        ("behaviour_score2", "confidence mean"),
        ("performance_score2", "mean accuracy"),
        ("behaviour_score3", "adjusted qsr"),
    ],
    "TemporalDiscounting": [
        ("performance_score1", "temporal discounting score"),
        ("behaviour_score1", "present bias"),
        ("behaviour_score2", "subaddictivity"),
        ("behaviour_score3", "delay-speedup asymmetry-1"),
        ("behaviour_score4", "delay-length asymmetry-2"),
    ],
    "TwoStepTask": [
        ("performance_score1", "rewards mean"),
        ("performance_score1_CI", None),
        ("behaviour_score1", "interaction effect"),
        ("behaviour_score1_CI", None),
    ],
}


@pytest.fixture(scope="module")
def archive():
    return demo_archive.files()


@pytest.fixture(scope="module")
def read(archive):
    """Read one data file as a reader of the archive does: by column name, byte order mark dropped."""
    return lambda name, engine: pl.read_csv(archive[f"Experiments/{name}/data/{engine}.csv"])


@pytest.fixture(scope="module")
def scores(archive):
    """Published scores of one experiment: (engine, run) to {label: text}."""

    def of(name):
        rows = csv.DictReader(io.StringIO(archive[f"Experiments/{name}/scores_data.csv"].decode()))
        labelled = [column for column, label in SCORES[name] if label]
        return {
            (row["engine"], int(row["run"])): {row[f"{c}_name"]: row[c] for c in labelled} for row in rows
        }

    return of


def played(name, engine, world):
    return EXPERIMENTS[name].play(world, PLAYERS[engine](Rng([7, 8])))


def test_one_data_file_per_engine_and_one_score_file_per_experiment(archive):
    expected = {f"Experiments/{name}/data/{engine}.csv" for name in COLUMNS for engine in ENGINES}
    assert set(archive) == expected | {f"Experiments/{name}/scores_data.csv" for name in COLUMNS}


def test_bytes_equal_the_pins(archive):
    pinned = {file.path: (file.sha256, file.bytes) for file in load_sources()["demo_archive"].files}
    assert {path: (hashlib.sha256(data).hexdigest(), len(data)) for path, data in archive.items()} == pinned


def test_two_calls_give_equal_bytes(archive):
    assert demo_archive.files() == archive


def test_written_as_a_mirror_lays_out_the_pinned_source(archive, tmp_path):
    source = load_sources()["demo_archive"]
    assert source.revision == demo_archive.REVISION
    paths = demo_archive.write(tmp_path)
    assert set(paths) == {tmp_path / source.mirror_path(file) for file in source.files}
    for file in source.files:
        assert (tmp_path / source.mirror_path(file)).read_bytes() == archive[file.path]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", COLUMNS)
def test_data_file_has_the_real_columns(archive, read, name, engine):
    table = read(name, engine)
    assert set(table.columns) == set(COLUMNS[name].split(","))
    assert table["run"].dtype == pl.Int64
    assert table.null_count().pipe(sum).item() == 0
    if name in N_ROWS:
        assert table.height == N_ROWS[name]
    content = archive[f"Experiments/{name}/data/{engine}.csv"]
    assert b"\r" not in content
    assert content.endswith(b"\n")


def test_column_order_and_byte_order_mark_vary(archive):
    first_lines = {path: data.split(b"\n")[0] for path, data in archive.items()}
    assert len({first_lines[f"Experiments/BART/data/{engine}.csv"] for engine in ENGINES}) == 2
    assert sum(line.startswith(codecs.BOM_UTF8) for line in first_lines.values()) == 1


@pytest.mark.parametrize("name", SCORES)
def test_score_file_has_the_real_columns_and_labels(archive, name):
    header = ["engine", "run"]
    for column, label in SCORES[name]:
        header += [column, f"{column}_name"] if label else [column]
    lines = list(csv.reader(io.StringIO(archive[f"Experiments/{name}/scores_data.csv"].decode())))
    assert lines[0] == header
    for line in lines[1:]:
        row = dict(zip(header, line, strict=True))
        assert {c: row[f"{c}_name"] for c, label in SCORES[name] if label} == {
            c: label for c, label in SCORES[name] if label
        }


# ---- environments ----


@pytest.mark.parametrize("engine", ENGINES)
def test_horizon_trials_0_to_3_are_forced(read, engine):
    game = read("HorizonTask", engine).sort("run", "trial")
    forced = game.filter(pl.col("trial") < 4)
    # the same for every engine, whatever it would have chosen
    uniform = read("HorizonTask", "demo-uniform").sort("run", "trial").filter(pl.col("trial") < 4)
    assert forced["choice"].to_list() == uniform["choice"].to_list()
    assert set(forced.group_by("run").agg(pl.col("choice").sum())["choice"]) == {1, 2, 3}
    assert set(game.group_by("run").agg(pl.len())["len"]) == {5, 10}
    assert game["run"].n_unique() == 200
    paid = game.select(pl.when(pl.col("choice") == 1).then("reward1").otherwise("reward0"))
    assert paid.to_series().to_list() == game["reward"].to_list()


@pytest.mark.parametrize("engine", ENGINES)
def test_bart_pays_the_pumps_unless_the_balloon_exploded(read, engine):
    balloons = read("BART", engine)
    exploded, banked = balloons.filter("exploded"), balloons.filter(~pl.col("exploded"))
    assert (exploded["reward"] == 0).all()
    assert (exploded["pumps"] >= 1).all()
    assert (banked["reward"] == banked["pumps"]).all()
    assert (balloons["pumps"] <= balloons["max_pumps"]).all()
    assert (banked["pumps"] < banked["max_pumps"]).all()
    per_letter = balloons.group_by("run", "balloon_idx").agg(pl.col("max_pumps").unique(), pl.len())
    assert per_letter["max_pumps"].list.len().to_list() == [1] * 30
    assert per_letter["len"].to_list() == [15] * 30
    assert sorted(balloons["max_pumps"].unique()) == [8, 32, 128]


@pytest.mark.parametrize("engine", ENGINES)
def test_instrumental_run_has_four_tasks_of_24_trials(read, engine):
    trials = read("InstrumentalLearning", engine)
    tasks = trials.group_by("task").agg(pl.col("mean0", "mean1").unique(), pl.len()).sort("task")
    assert tasks.rows() == [
        (1, [0.25], [0.25], 240),
        (2, [0.25], [0.75], 240),
        (3, [0.75], [0.25], 240),
        (4, [0.75], [0.75], 240),
    ]


def test_restless_greedy_finds_the_better_arm_more_often_than_uniform(read):
    accuracy = {engine: read("RestlessBandit", engine)["accurate"].mean() for engine in ENGINES}
    assert accuracy["demo-greedy"] > accuracy["demo-uniform"]
    assert accuracy["demo-bayes"] > accuracy["demo-uniform"]


def test_restless_last_trial_of_a_block_is_scored_against_the_switched_means(read):
    world = EXPERIMENTS["RestlessBandit"].draw(Rng([0]))
    table = pl.DataFrame(played("RestlessBandit", "demo-uniform", world))
    before = np.argmax(world.means[:, :80], axis=2).ravel()
    table = table.with_columns(agrees=(pl.col("choice") == pl.Series(before)) == (pl.col("accurate") == 1))
    disagree = table.filter(~pl.col("agrees"))
    assert sorted(disagree["trial"].unique()) == [20, 40, 60, 79]
    assert disagree.height == 4 * 10


def test_urn_bayes_reports_the_posterior(read):
    questions = read("ProbabilisticReasoning", "demo-bayes").with_columns(
        seen=pl.when("red_observation").then("lh").otherwise(1 - pl.col("lh"))
    )
    left, right = (
        questions["prior"] * questions["seen"],
        (1 - questions["prior"]) * (1 - questions["seen"]),
    )
    # printed with six decimals
    assert (left / (left + right) - questions["left_pred"]).abs().max() <= 0.5e-6 + 1e-12
    assert questions["informative_lh"].to_list() == [True, False] * 100


def test_two_step_transitions_are_common_seven_times_in_ten(read):
    trials = pl.concat([read("TwoStepTask", engine) for engine in ENGINES], how="diagonal")
    assert (trials["action1"] == trials["state"]).mean() == approx(0.7, abs=0.05)
    aliens = trials.group_by("state").agg(pl.col("action2").unique().sort()).sort("state")
    assert aliens.rows() == [("X", ["D", "F"]), ("Y", ["J", "K"])]
    rates = trials.select("probsA", "probsB", "probsC", "probsD").to_numpy()
    assert rates.min() >= 0.25
    assert rates.max() <= 0.75


@pytest.mark.parametrize("engine", ENGINES)
def test_discounting_score_and_flags_are_in_range(read, engine):
    table = read("TemporalDiscounting", engine)
    assert table["score"].is_between(0, 16).all()
    assert set(np.unique(table.drop("score", "run").to_numpy())) <= {0, 1}


# ---- what a player may see ----


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["HorizonTask", "InstrumentalLearning", "RestlessBandit"])
def test_no_hidden_mean_or_forgone_payoff_reaches_a_bandit_player(name, engine):
    world = EXPERIMENTS[name].draw(Rng([0]))
    # every trial is played, also those after a game's end
    world = replace(world, lengths=np.full_like(world.lengths, world.tasks.shape[1]))
    choice = played(name, engine, world)["choice"]
    is_chosen = choice.reshape(world.tasks.shape)[..., None] == np.arange(2)
    other = replace(
        world, means=world.means[..., ::-1], payoffs=np.where(is_chosen, world.payoffs, -1_000_000)
    )
    assert played(name, engine, other)["choice"].tolist() == choice.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_restless_player_sees_whole_points(engine):
    world = EXPERIMENTS["RestlessBandit"].draw(Rng([0]))
    rounded = replace(world, payoffs=world.payoffs // 100 * 100)
    choices = [played("RestlessBandit", engine, w)["choice"].tolist() for w in (world, rounded)]
    assert choices[0] == choices[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_hidden_maximum_or_burst_point_to_come_reaches_a_balloon_player(engine):
    world = EXPERIMENTS["BART"].draw(Rng([0]))
    table = played("BART", engine, world)
    exploded = table["exploded"].reshape(world.letters.shape)
    other = replace(world, maxima=world.maxima * 8, burst_at=np.where(exploded, world.burst_at, 1_000))
    assert played("BART", engine, other)["pumps"].tolist() == table["pumps"].tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_hidden_rate_or_forgone_payoff_reaches_a_two_step_player(engine):
    world = EXPERIMENTS["TwoStepTask"].draw(Rng([0]))
    table = played("TwoStepTask", engine, world)
    aliens = np.searchsorted(["D", "F", "J", "K"], table["action2"]).reshape(world.is_common.shape)
    is_asked = aliens[..., None] == np.arange(4)
    other = replace(world, rates=10_000 - world.rates, payoffs=np.where(is_asked, world.payoffs, 99))
    again = played("TwoStepTask", engine, other)
    assert all((again[column] == table[column]).all() for column in ("action1", "action2", "reward"))


# ---- published scores, by another route ----


def test_bart_scores_are_means_of_the_rows(read, scores):
    for engine in ENGINES:
        for run, rows in read("BART", engine).group_by("run"):
            banked = rows.filter(~pl.col("exploded"))
            expected = {
                "Average rewards": rows["reward"],
                "Risk": rows["pumps"],
                "Adj Risk": banked["reward"],
            }
            found = scores("BART")[engine, run[0]]
            assert {k: float(v) for k, v in found.items()} == approx(
                {k: v.mean() for k, v in expected.items()}
            )


def test_scores_of_all_rows_are_published_as_run_0(read, scores):
    for name in ("HorizonTask", "TwoStepTask"):
        assert set(scores(name)) == {(engine, 0) for engine in ENGINES}
        for engine in ENGINES:
            assert float(scores(name)[engine, 0]["rewards mean"]) == approx(
                read(name, engine)["reward"].mean()
            )


def test_a_score_that_is_not_computed_is_empty(scores):
    row = scores("InstrumentalLearning")["demo-greedy", 3]
    assert [label for label, value in row.items() if value == ""] == list(row)[1:]


def test_constant_confidence_stays_unscaled(read, scores):
    assert read("RestlessBandit", "demo-greedy")["confidence"].unique().to_list() == [0.8]
    row = scores("RestlessBandit")["demo-greedy", 0]
    assert row["adjusted qsr"] == row["meta-cognitive sensitivity"]


def test_varying_confidence_is_scaled_within_the_run(read, scores):
    run = read("RestlessBandit", "demo-bayes").filter(pl.col("run") == 2)
    scaled = (pl.col("confidence") - pl.col("confidence").min()) / (
        pl.col("confidence").max() - pl.col("confidence").min()
    )
    expected = run.select((1 - (pl.col("accurate") - scaled) ** 2).mean()).item()
    assert float(scores("RestlessBandit")["demo-bayes", 2]["adjusted qsr"]) == approx(expected)


def test_urn_weights_tell_the_players_apart(scores):
    found = scores("ProbabilisticReasoning")
    weights = {
        engine: [float(found[engine, 0][label]) for label in ("prior weighting", "likelihood weighting")]
        for engine in ENGINES
    }
    assert weights["demo-bayes"] == approx([1, 1], abs=1e-5)
    assert weights["demo-greedy"] == approx([0, 1], abs=1e-9)
    label = "1 - Difference to bayes optimal posterior prediction"
    assert float(found["demo-bayes", 0][label]) == approx(1, abs=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_step_interaction_is_the_ols_coefficient(read, scores, engine):
    rows = (
        read("TwoStepTask", engine)
        .sort("run", "trial")
        .with_columns(
            stay=pl.col("action1").shift(-1).over("run") == pl.col("action1"),
            rewarded=2 * pl.col("reward") - 1,
            common=pl.when(pl.col("action1") == pl.col("state")).then(1).otherwise(-1),
        )
        .drop_nulls("stay")
    )
    assert rows.height == 50 * 19
    rewarded, common = rows["rewarded"].to_numpy(), rows["common"].to_numpy()
    design = np.stack([np.ones(rows.height), rewarded, common, rewarded * common], axis=1)
    coefficients = np.linalg.lstsq(design, rows["stay"].to_numpy().astype(float))[0]
    assert float(scores("TwoStepTask")[engine, 0]["interaction effect"]) == approx(coefficients[3])
