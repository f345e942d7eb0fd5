"""Is every rule right? Small archives full of traps go through one ingest and one build, and every metric
is compared with the plain Python statement of its rule in ``oracles.py``."""

import csv
import io
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from pytest import approx
from spec import oracles
from support import built, new_lake, query

from generate import demo_archive

Rows = list[dict[str, object]]

COUNTS = ("n_planned", "n_scored", "n_unparsed", "n_error", "n_clusters")


@dataclass(frozen=True)
class Trap:
    """One data file that a careless rule would score wrongly."""

    experiment: str
    engine: str
    text: str | bytes

    @property
    def path(self) -> str:
        return f"{self.experiment}/data/{self.engine}.csv"


TRAPS: dict[str, Callable[[random.Random], Trap]] = {}


def trap(make: Callable[[random.Random], Trap]) -> Callable[[random.Random], Trap]:
    TRAPS[make.__name__] = make
    return make


def traps() -> dict[str, Trap]:
    # a stream of its own for each, so that a new trap changes no other
    return {name: make(random.Random(name)) for name, make in TRAPS.items()}


def csv_of(rows: Rows, columns: Sequence[str] = (), *, mark: str = "") -> str:
    columns = columns or list(rows[0])
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return mark + out.getvalue()


def changed(rows: Rows, column: str, cells: Mapping[int, object]) -> Rows:
    """Replace single cells of a column."""
    return [row | {column: cells[i]} if i in cells else row for i, row in enumerate(rows)]


def with_decimals(rows: Rows, *columns: str) -> Rows:
    """Write whole numbers as a float column would: 3 as 3.0."""
    return [row | {column: f"{row[column]}.0" for column in columns} for row in rows]


# ---- balloons ----


def balloons(rng: random.Random, runs: Sequence[object] = (0, 1, 2), n: int = 45) -> Rows:
    def balloon(run: object, trial: int) -> dict[str, object]:
        maximum = rng.choice((128, 32, 8))
        pumps, exploded = rng.randint(0, maximum), rng.random() < 0.4
        return {
            "run": run,
            "trial": trial,
            "pumps": pumps,
            "reward": 0 if exploded else pumps,
            "max_pumps": maximum,
            "exploded": exploded,
            "balloon_trial": trial // 3,
            "balloon_idx": trial % 3,
        }

    return [balloon(run, trial) for run in runs for trial in range(n)]


@trap
def bart_three_whole_runs(rng):
    return Trap("BART", "gpt-4", csv_of(balloons(rng)))


@trap
def bart_a_run_of_40_balloons_is_short_of_5(rng):
    return Trap("BART", "claude-1", csv_of(balloons(rng) + balloons(rng, [7], n=40)))


@trap
def bart_pumps_rewards_and_maxima_that_cannot_be_read(rng):
    rows = changed(balloons(rng), "pumps", {1: "many", 5: "NaN", 9: -9999, 60: 129, 61: -1, 70: ""})
    rows = changed(rows, "reward", {2: "", 40: "inf", 61: "", 100: "nan"})
    rows = changed(rows, "max_pumps", {3: "", 90: "-Infinity"})
    return Trap("BART", "claude-2", csv_of(rows))


@trap
def bart_another_column_order_decimals_a_byte_order_mark_and_a_run_called_1x(rng):
    rows = with_decimals(balloons(rng, [0, 1]), "run", "trial", "pumps", "max_pumps")
    rows += balloons(rng, ["1x"])
    return Trap("BART", "claude-1_cot", csv_of(rows, list(rows[0])[::-1], mark="\ufeff"))


@trap
def bart_one_run_has_no_standard_error(rng):
    return Trap("BART", "random", csv_of(balloons(rng, [3])))


@trap
def bart_every_balloon_exploded_so_none_was_banked(rng):
    rows = [row | {"exploded": True, "reward": 0} for row in balloons(rng)]
    return Trap("BART", "claude-2_sb", csv_of(rows))


@trap
def bart_a_balloon_that_may_have_burst_or_not(rng):
    rows = changed(balloons(rng), "exploded", {4: "maybe", 80: ""})
    return Trap("BART", "gemini-pro", csv_of(rows))


@trap
def bart_an_empty_file(rng):
    return Trap("BART", "hf_LongAlpaca-70B_cot", "")


@trap
def bart_a_header_without_rows(rng):
    return Trap("BART", "gpt-4_sb", csv_of(balloons(rng)).partition("\n")[0] + "\n")


# ---- two arms ----


def arms_seen(rng: random.Random, means: Sequence[int]) -> dict[str, object]:
    payoffs = [round(mean + rng.gauss(0, 8)) for mean in means]
    choice = rng.randrange(2)
    return {
        "mean0": f"{means[0]}.0",
        "mean1": f"{means[1]}.0",
        "reward0": payoffs[0],
        "reward1": payoffs[1],
        "choice": choice,
        "reward": payoffs[choice],
    }


def games(rng: random.Random, n: int = 40, lengths: Sequence[int] = (5, 10)) -> Rows:
    rows = []
    for run in range(n):
        # in some games both arms are as good
        means = [rng.choice((40, 60)), rng.choice((36, 40, 60, 72))]
        rows += [{"run": run, "trial": trial} | arms_seen(rng, means) for trial in range(rng.choice(lengths))]
    return rows


@trap
def horizon_ties_and_forced_trials_behind_a_byte_order_mark(rng):
    return Trap("HorizonTask", "gpt-4", csv_of(games(rng), mark="\ufeff"))


@trap
def horizon_choices_that_are_no_arm_and_unknown_means(rng):
    rows = changed(games(rng), "choice", {4: "Xis", 14: "", 15: 2, 1: "Xis", 60: "0.5", 61: "NaN"})
    rows = changed(rows, "mean0", {20: "", 21: "nan", 30: -9999})
    rows = changed(rows, "reward", {40: "", 44: "inf", 0: ""})
    return Trap("HorizonTask", "claude-1", csv_of(rows))


@trap
def horizon_nothing_but_forced_trials_leaves_no_choice_to_score(rng):
    return Trap("HorizonTask", "random", csv_of(games(rng, lengths=[4])))


@trap
def horizon_choices_and_trials_written_with_decimals(rng):
    return Trap("HorizonTask", "claude-2", csv_of(with_decimals(games(rng), "run", "trial", "choice")))


@trap
def horizon_a_trial_that_cannot_be_told_from_a_forced_one(rng):
    return Trap("HorizonTask", "gpt-4_cot", csv_of(changed(games(rng), "trial", {0: "first", 17: ""})))


def casinos(rng: random.Random, runs: Sequence[object] = range(6), n: int = 24) -> Rows:
    rows = []
    for run in runs:
        for trial in range(n):
            task = rng.randint(1, 4)
            means = [(0.25, 0.25), (0.25, 0.75), (0.75, 0.25), (0.75, 0.75)][task - 1]
            payoffs = [int(rng.random() < mean) for mean in means]
            choice = rng.randrange(2)
            rows.append(
                {
                    "run": run,
                    "trial": trial,
                    "task": task,
                    "mean0": means[0],
                    "mean1": means[1],
                    "reward0": payoffs[0],
                    "reward1": payoffs[1],
                    "choice": choice,
                    "reward": payoffs[choice],
                }
            )
    return rows


@trap
def instrumental_repeated_trials_are_further_rows_of_their_run(rng):
    return Trap("InstrumentalLearning", "gpt-4", csv_of(casinos(rng) + casinos(rng, [2, 3])))


@trap
def instrumental_a_file_without_means_cannot_say_which_choice_was_better(rng):
    columns = ["run", "trial", "task", "choice", "reward"]
    return Trap("InstrumentalLearning", "human", csv_of(casinos(rng), columns))


@trap
def instrumental_some_means_missing_and_choices_illegal(rng):
    rows = changed(casinos(rng), "mean1", {0: "", 30: "inf"})
    rows = changed(rows, "choice", {0: "X", 1: -1, 50: "1.5", 51: "1.0"})
    return Trap("InstrumentalLearning", "claude-1", csv_of(rows))


# ---- restless bandit ----


def restless_trials(rng: random.Random, runs: Sequence[object] = (0, 1, 2), n: int = 80) -> Rows:
    return [
        {
            "run": run,
            "trial": trial,
            "block": trial // 20,
            "block_trial": trial % 20,
            "choice": rng.randrange(2),
            "reward": round(rng.gauss(50, 12), 2),
            "confidence": rng.randrange(101) / 100,
            "accurate": rng.randrange(2),
        }
        for run in runs
        for trial in range(n)
    ]


@trap
def restless_confidence_is_scaled_within_its_run(rng):
    rows = [
        row | {"confidence": round((0.3 + 0.2 * row["run"]) + row["confidence"] / 10, 3)}
        for row in restless_trials(rng)
    ]
    return Trap("RestlessBandit", "gpt-4", csv_of(rows))


@trap
def restless_a_run_of_50_trials_is_short_of_30(rng):
    return Trap("RestlessBandit", "claude-1", csv_of(restless_trials(rng) + restless_trials(rng, [9], n=50)))


@trap
def restless_one_confidence_throughout_a_run_is_not_scaled(rng):
    rows = [row | ({"confidence": 0.8} if row["run"] == 1 else {}) for row in restless_trials(rng)]
    return Trap("RestlessBandit", "claude-2", csv_of(rows))


@trap
def restless_confidence_empty_or_no_probability(rng):
    cells = {0: "", 1: 1.7, 2: -0.2, 3: "nan", 4: -9999, 5: "sure", 200: "", 201: "1.0", 202: "0"}
    rows = changed(restless_trials(rng), "confidence", cells)
    return Trap("RestlessBandit", "claude-1_cot", csv_of(rows))


@trap
def restless_a_run_without_any_confidence_is_no_cluster_of_it(rng):
    rows = [row | ({"confidence": ""} if row["run"] == 1 else {}) for row in restless_trials(rng)]
    return Trap("RestlessBandit", "claude-2_cot", csv_of(rows))


@trap
def restless_illegal_choices_and_unknown_accuracy(rng):
    rows = changed(restless_trials(rng), "choice", {0: "Xis", 7: "", 90: 2})
    rows = changed(rows, "accurate", {1: "", 8: 0.5, 91: "nan"})
    rows = changed(rows, "reward", {2: "", 92: "inf"})
    return Trap("RestlessBandit", "claude-1_sb", csv_of(rows))


@trap
def restless_everything_written_with_decimals(rng):
    rows = with_decimals(restless_trials(rng), "run", "trial", "choice", "accurate")
    return Trap("RestlessBandit", "random", csv_of(rows))


# ---- urns ----


def urn_questions(rng: random.Random, runs: int = 60) -> Rows:
    rows = []
    for run in range(runs):
        for is_informative in (True, False):
            clear, vague = rng.choice((0.1, 0.2, 0.3, 0.7, 0.8, 0.9)), rng.choice((0.4, 0.5, 0.6))
            prior, red = (vague, clear) if is_informative else (clear, vague)
            rows.append(
                {
                    "run": run,
                    "informative_lh": is_informative,
                    "prior": prior,
                    "lh": red,
                    "left_pred": rng.randrange(101) / 100,
                    "red_observation": rng.random() < 0.5,
                }
            )
    return rows


@trap
def urn_reports_outside_the_unit_interval_or_none(rng):
    cells = {0: 49, 1: -3, 2: 1, 3: 0, 4: "nan", 5: "", 6: "maybe", 7: -9999, 8: "1e-300", 9: 1.0000001}
    return Trap("ProbabilisticReasoning", "gpt-4", csv_of(changed(urn_questions(rng), "left_pred", cells)))


@trap
def urn_legal_reports_only(rng):
    return Trap("ProbabilisticReasoning", "claude-2_cot", csv_of(urn_questions(rng, runs=101)))


@trap
def urn_the_human_file_gives_the_likelihood_of_the_drawn_colour(rng):
    return Trap("ProbabilisticReasoning", "human", csv_of(urn_questions(rng)))


@trap
def urn_questions_that_cannot_be_read(rng):
    rows = changed(urn_questions(rng), "prior", {0: "", 1: "even", 3: "nan"})
    rows = changed(rows, "lh", {10: "inf", 11: -9999})
    rows = changed(rows, "red_observation", {20: "Maybe", 21: "", 22: 1})
    return Trap("ProbabilisticReasoning", "claude-1", csv_of(rows))


@trap
def urn_one_run_has_no_standard_error(rng):
    return Trap("ProbabilisticReasoning", "claude-1_sb", csv_of(urn_questions(rng, runs=1)))


@trap
def urn_even_priors_and_likelihoods_have_no_weights(rng):
    rows = [row | {"prior": 0.5, "lh": 0.5} for row in urn_questions(rng)]
    return Trap("ProbabilisticReasoning", "claude-2", csv_of(rows))


@trap
def urn_a_likelihood_that_mirrors_the_prior_has_no_weights_of_its_own(rng):
    # one logit is minus the other, up to the rounding of the two
    pairs = ((0.3, 0.7, 0.6), (0.2, 0.8, 0.3), (0.4, 0.6, 0.9), (0.9, 0.1, 0.2))
    rows = [
        row | {"prior": prior, "lh": red, "left_pred": report, "red_observation": True}
        for row, (prior, red, report) in zip(urn_questions(rng, runs=2), pairs, strict=True)
    ]
    return Trap("ProbabilisticReasoning", "claude-2_sb", csv_of(rows))


# ---- questionnaire ----

READOUTS = (
    "score",
    "present bias",
    "subaddictivity",
    "delay-speedup asymmetry-1",
    "delay-length asymmetry-2",
)


def readouts(rng: random.Random, runs: Sequence[object] = range(9)) -> Rows:
    return [
        {"run": run, "score": round(rng.uniform(5, 16), 1)}
        | {name: rng.randrange(2) for name in READOUTS[1:]}
        for run in runs
    ]


@trap
def discounting_readouts_as_they_are(rng):
    return Trap("TemporalDiscounting", "gpt-4", csv_of(readouts(rng)))


@trap
def discounting_an_empty_readout_stays_in_the_count(rng):
    rows = changed(readouts(rng, [*range(5), "1x"]), "score", {1: "", 2: "inf"})
    rows = changed(rows, "present bias", {0: "", 5: "yes"})
    return Trap("TemporalDiscounting", "claude-1", csv_of(rows, ["run", *READOUTS[::-1]]))


# ---- two-step task ----


def two_step_trials(rng: random.Random, runs: Sequence[object] = range(8), n: int = 20) -> Rows:
    rows = []
    for run in runs:
        ship = "X"
        for trial in range(n):
            ship = ship if rng.random() < 0.6 else "XY"[ship == "X"]
            planet = ship if rng.random() < 0.7 else "XY"[ship == "X"]
            rows.append(
                {
                    "run": run,
                    "trial": trial,
                    "action1": ship,
                    "state": planet,
                    "action2": rng.choice("DF" if planet == "X" else "JK"),
                    "reward": rng.randrange(2),
                }
                | {f"probs{letter}": round(rng.uniform(0.25, 0.75), 3) for letter in "ABCD"}
            )
    return rows


@trap
def two_step_pairs_never_cross_runs(rng):
    return Trap("TwoStepTask", "gpt-4", csv_of(two_step_trials(rng)))


@trap
def two_step_a_choice_counts_as_it_is_written(rng):
    # twice the same word is a stay, and no word is a common transition
    rows = changed(two_step_trials(rng), "action1", {3: "Xis", 4: "Xis", 50: "American", 51: "X"})
    return Trap("TwoStepTask", "llama-2-7", csv_of(rows))


@trap
def two_step_a_missing_choice_is_a_switch_and_its_trial_rare(rng):
    rows = two_step_trials(rng)
    for column in ("action1", "state", "action2"):
        rows = changed(rows, column, dict.fromkeys((5, 6, 19, 20, 77), ""))
    columns = ["run", "trial", "action1", "state", "action2", "reward"]
    return Trap("TwoStepTask", "human", csv_of(rows, columns, mark="\ufeff"))


@trap
def two_step_rows_of_a_run_lie_apart_and_repeat_trials(rng):
    first, second = two_step_trials(rng, [0, 1, "1x"]), two_step_trials(rng, ["0.0", 2, "1x"])
    mixed = [row for pair in zip(first, second, strict=True) for row in pair]
    return Trap("TwoStepTask", "claude-1", csv_of(mixed))


@trap
def two_step_without_rare_unrewarded_trials_there_is_no_interaction(rng):
    rows = [
        row | {"reward": 1 if row["state"] != row["action1"] else row["reward"]}
        for row in two_step_trials(rng)
    ]
    return Trap("TwoStepTask", "claude-2", csv_of(rows))


@trap
def two_step_single_trials_have_no_next_choice(rng):
    return Trap("TwoStepTask", "random", csv_of(two_step_trials(rng, n=1)))


# ---- worked examples, whose expected values are arithmetic ----


def choices_of(outcomes: Mapping[object, Sequence[object]]) -> str:
    """Write instrumental trials whose arm 1 is the better one: run -> its choices."""
    rows = [
        {"run": run, "trial": t, "task": 1, "mean0": 0.25, "mean1": 0.75, "choice": choice, "reward": 1}
        for run, choices in outcomes.items()
        for t, choice in enumerate(choices)
    ]
    return csv_of(rows)


EXAMPLES = {
    # four answers, two refusals
    "text-davinci-003": choices_of({0: [1, 1, 1, 0, "no", ""]}),
    # ten participants who give one answer a hundred times
    "text-bison@001": choices_of({run: [int(run < 3)] * 100 for run in range(10)}),
    # 307 independent answers, 14 of them right
    "text-bison@002": choices_of({run: [int(run < 14)] for run in range(307)}),
    # one participant, whatever the number of rows
    "llama_7": choices_of({0: [1] * 50}),
    "llama_13": csv_of(
        [
            {"run": 0, "trial": t, "task": 1, "mean0": mean0, "mean1": 0.75, "choice": 1, "reward": 1}
            # better, tied, worse
            for t, mean0 in enumerate((0.25, 0.75, 0.8))
        ]
    ),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project):
    files: dict[str, str | bytes] = {each.path: each.text for each in traps().values()}
    files |= {f"InstrumentalLearning/data/{engine}.csv": text for engine, text in EXAMPLES.items()}
    lake = new_lake(tmp_path_factory.mktemp("traps"), files, like=empty_lake)
    built(lake, project)
    return lake


@pytest.fixture(scope="module")
def metrics(lake) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """(engine, mode) -> metric -> row of the mart."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in query(lake, "select * from metrics"):
        found.setdefault((row["model_id"], row["mode_id"]), {})[row["metric"]] = row
    return found


@pytest.fixture(scope="module")
def cells(lake) -> dict[tuple[str, str], dict[str, Any]]:
    """(column, mode) -> cell of Table 3."""
    return {(row["column_id"], row["mode_id"]): row for row in query(lake, "select * from table_3")}


# trap -> the fault of the store that keeps it from being scored rightly
@pytest.mark.parametrize("name", TRAPS)
def test_every_metric_is_that_of_its_oracle(name, metrics):
    given = traps()[name]
    mode_id, _ = oracles.EXPERIMENTS[given.experiment]
    expected = oracles.metrics_of(given.experiment, given.engine, given.text)
    found = metrics.get((given.engine, mode_id), {})
    assert set(found) == set(expected)
    for metric, row in found.items():
        oracle = expected[metric]
        assert {name: row[name] for name in COUNTS} == {name: getattr(oracle, name) for name in COUNTS}, (
            metric
        )
        assert (row["n"], row["n_too_long"], row["n_missing_option"]) == (oracle.n_scored, 0, 0)
        assert row["value_scored"] == close(oracle.value_scored, 1e-12), metric
        assert row["value"] == close(oracle.value, 1e-12), metric
        assert row["se"] == close(oracle.se, 1e-9), metric
        assert (row["reason"] is None) == (row["value"] is not None), metric


def close(value: float | None, relative: float) -> Any:
    return None if value is None else approx(value, rel=relative, abs=0)


def test_the_traps_are_sprung():
    # a trap whose rows are all scored, or none, would test nothing
    expected = {
        name: oracles.metrics_of(each.experiment, each.engine, each.text) for name, each in traps().items()
    }
    n_flawed = sum(
        any(0 < metric.n_scored < metric.n_planned for metric in metrics.values())
        for metrics in expected.values()
    )
    assert n_flawed >= 10
    assert {each.experiment for each in traps().values()} == set(oracles.EXPERIMENTS)
    assert expected["bart_an_empty_file"] == expected["bart_a_header_without_rows"] == {}


@pytest.mark.parametrize("experiment", oracles.EXPERIMENTS)
def test_the_demo_is_scored_as_its_oracles_say(experiment, demo_lake):
    mode_id, _ = oracles.EXPERIMENTS[experiment]
    found = query(demo_lake, "select * from metrics where mode_id = $1", mode_id)
    assert len({row["model_id"] for row in found}) == 3
    archive = demo_archive.files()
    for row in found:
        text = archive[f"Experiments/{experiment}/data/{row['model_id']}.csv"]
        expected = oracles.metrics_of(experiment, row["model_id"], text)[row["metric"]]
        assert {name: row[name] for name in COUNTS} == {name: getattr(expected, name) for name in COUNTS}
        # an exact agent has errors and weights next to nothing, and then the last digits are noise
        assert row["value_scored"] == approx(expected.value_scored, rel=1e-12, abs=1e-15)
        se = expected.se
        assert row["se"] == (None if se is None else approx(se, rel=1e-9, abs=1e-10)), row["metric"]


def test_the_standard_error_of_an_almost_exact_agent_keeps_its_digits(demo_lake):
    [row] = query(
        demo_lake, "select se from metrics where model_id = 'demo-bayes' and metric = 'posterior_mae'"
    )
    text = demo_archive.files()["Experiments/ProbabilisticReasoning/data/demo-bayes.csv"]
    assert row["se"] == approx(oracles.urn(text)["posterior_mae"].se, rel=1e-9, abs=0)


def strange_urns(rng: random.Random) -> dict[str, Rows]:
    rows = urn_questions(rng)
    return {
        # a certain prior has no log odds
        "ProbabilisticReasoning/data/gpt-4.csv": changed(rows, "prior", {0: 0, 1: 1, 50: "1.0"}),
        # no prior at all
        "ProbabilisticReasoning/data/claude-1.csv": changed(rows, "prior", {0: 1.5, 1: -0.1}),
        # what was seen cannot happen
        "ProbabilisticReasoning/data/claude-2.csv": [
            rows[0] | {"prior": 1, "lh": 0, "red_observation": True},
            *rows[1:],
        ],
    }


def strange_rewards(rng: random.Random) -> dict[str, Rows]:
    return {"HorizonTask/data/gpt-4.csv": changed(games(rng), "reward", {5: 1e15})}


@pytest.mark.parametrize("strange", [strange_urns, strange_rewards])
def test_a_strange_row_does_not_stop_the_build(tmp_path, empty_lake, project, strange):
    texts = {path: csv_of(rows) for path, rows in strange(random.Random(strange.__name__)).items()}
    lake = new_lake(tmp_path, texts, like=empty_lake)
    built(lake, project)
    found = query(lake, "select * from metrics")
    assert {row["model_id"] for row in found} == {path.split("/")[-1].removesuffix(".csv") for path in texts}
    for row in found:
        [path] = [path for path in texts if path.endswith(f"/{row['model_id']}.csv")]
        expected = oracles.metrics_of(path.split("/")[0], row["model_id"], texts[path])[row["metric"]]
        assert {name: row[name] for name in COUNTS} == {name: getattr(expected, name) for name in COUNTS}
        assert row["value_scored"] == close(expected.value_scored, 1e-12)


# ---- denominators ----


def test_refusals_stay_in_the_denominator(metrics):
    row = metrics["text-davinci-003", "instrumental_learning"]["better_action"]
    assert row["value"] is None  # never 75 as if it were the whole
    assert row["value_scored"] == 100 * 3 / (3 + 1)
    assert (row["n_planned"], row["n_scored"], row["n_unparsed"]) == (6, 4, 2)
    assert row["reason"] == "choice is empty"


def test_a_short_run_is_not_a_whole_one(metrics):
    row = metrics["claude-1", "restless_bandit"]["better_arm"]
    assert (row["n_planned"], row["n_scored"], row["n_error"]) == (4 * 80, 3 * 80 + 50, 30)
    assert row["value"] is None
    assert "30 trials" in row["reason"]


def test_tied_arms_are_both_credited(metrics):
    # better, tied, worse: two of three choices are credited
    assert metrics["llama_13", "instrumental_learning"]["better_action"]["value"] == approx(100 * 2 / 3)


def test_a_missing_report_withholds_the_trimmed_mean_too(metrics):
    row = metrics["gpt-4", "bayesian_urn"]["posterior_score_trimmed"]
    assert row["value"] is None


# ---- standard errors ----


def test_repeated_rows_of_a_participant_are_no_further_evidence(metrics):
    row = metrics["text-bison@001", "instrumental_learning"]["better_action"]
    # the standard error of ten means, three of them 100 and seven 0
    share = 3 / 10
    assert row["se"] == approx(100 * math.sqrt(share * (1 - share) / (10 - 1)), rel=1e-12)
    assert (row["n"], row["n_clusters"]) == (1000, 10)


def test_the_standard_error_of_a_share_is_its_closed_form(metrics):
    row = metrics["text-bison@002", "instrumental_learning"]["better_action"]
    share = 14 / 307
    assert row["se"] == approx(100 * math.sqrt(share * (1 - share) / (307 - 1)), rel=1e-12)
    assert row["se"] == approx(1.1926, abs=5e-5)


def test_one_participant_has_no_standard_error_rather_than_zero(metrics):
    row = metrics["llama_7", "instrumental_learning"]["better_action"]
    assert (row["value"], row["se"], row["n_clusters"]) == (100, None, 1)


def test_a_standard_error_is_zero_only_if_all_episodes_agree(metrics):
    zeros = {
        (engine, row["metric"])
        for (engine, _), rows in metrics.items()
        for row in rows.values()
        if row["se"] == 0
    }
    # every step of these was rewarded alike
    assert zeros == {
        ("claude-2_sb", "mean_reward"),
        ("text-bison@001", "mean_reward"),
        ("text-bison@002", "mean_reward"),
    }


def oracle_cases() -> Iterator[tuple[str, list[oracles.Answer], oracles.Expected]]:
    for name, each in traps().items():
        if each.experiment == "RestlessBandit":
            answers = oracles.rewards(oracles.rows_of(each.text))
            yield name, answers, oracles.mean(answers)


@pytest.mark.parametrize(
    ("name", "answers", "expected"), list(oracle_cases()), ids=lambda case: str(case)[:60]
)
def test_statsmodels_gives_the_same_standard_error_of_a_mean(name, answers, expected):
    scored = [answer for answer in answers if answer.value is not None]
    values = np.array([answer.value for answer in scored])
    clusters = np.unique([answer.episode for answer in scored], return_inverse=True)[1]
    # its small-sample factor is G/(G-1) (N-1)/(N-K), and K is 1 here
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert expected.value_scored == approx(fit.params[0], rel=1e-12)
    assert expected.se == approx(fit.bse[0], rel=1e-9)


@pytest.mark.parametrize("name", ["urn_legal_reports_only", "urn_reports_outside_the_unit_interval_or_none"])
def test_statsmodels_gives_the_same_belief_weights(name):
    urns = oracles.urns_of(traps()[name].text, is_human=False)
    usable = [each for each in urns if each.clipped is not None]
    x = np.array([[oracles.logit(each.prior), oracles.logit(each.likelihood)] for each in usable])
    y = np.array([oracles.logit(each.clipped) for each in usable])
    clusters = np.unique([each.run for each in usable], return_inverse=True)[1]
    n_clusters = clusters.max() + 1
    fit = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    factor = math.sqrt(n_clusters / (n_clusters - 1))
    expected = oracles.belief_weights(urns)
    difference = fit.t_test([1, -1])
    for metric, value, se in (
        ("prior_weight", fit.params[0], fit.bse[0]),
        ("likelihood_weight", fit.params[1], fit.bse[1]),
        ("weight_difference", difference.effect.item(), difference.sd.item()),
    ):
        assert expected[metric].value_scored == approx(value, rel=1e-12)
        assert expected[metric].se == approx(factor * se, rel=1e-9)
    assert expected["weight_ratio"].value_scored == approx(fit.params[0] / fit.params[1], rel=1e-12)


@pytest.mark.parametrize(
    "name", [name for name in TRAPS if name.startswith("two_step") and "no_" not in name]
)
def test_statsmodels_gives_the_same_stay_interaction(name):
    stays = oracles.stays_of(traps()[name].text)
    reward, common = (np.array([1 if s[i] else -1 for s in stays]) for i in (2, 1))
    x = np.column_stack([np.ones(len(stays)), reward, common, reward * common])
    y = np.array([float(s.is_stay) for s in stays])
    clusters = np.unique([s.run for s in stays], return_inverse=True)[1]
    n_clusters = clusters.max() + 1
    fit = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    expected = oracles.stay_interaction(stays)
    assert expected.value_scored == approx(fit.params[3], rel=1e-12, abs=1e-15)
    assert expected.se == approx(math.sqrt(n_clusters / (n_clusters - 1)) * fit.bse[3], rel=1e-9)


# ---- Table 3 ----


def test_uniform_cells_are_ln_k_and_one_of_k(lake, cells):
    modes = query(lake, "select * from s1cogbench_modes where variant_of is null")
    n_known = 0
    for mode in modes:
        cell, k = cells["uniform", mode["mode_id"]], mode["declared_n_legal"]
        rule = {"log_legal": oracles.uniform_nll, "credited_share": oracles.uniform_credited_pct}.get(
            mode["uniform_rule"]
        )
        if rule is None or k is None:
            assert (cell["value"], cell["printed"]) == (None, "n.e.")
            assert cell["reason"].startswith("waits for its items")
        else:
            n_known += 1
            assert cell["value"] == approx(float(rule(k)), rel=1e-15)
            assert cell["printed"] == mode["uniform_printed"]
    assert (len(modes), n_known) == (27, 15)


def test_every_cell_prints_as_c_does(lake, cells):
    decimals = {row["mode_id"]: row["decimals"] for row in query(lake, "select * from s1cogbench_modes")}
    for (_, mode_id), cell in cells.items():
        expected = oracles.printed(cell["value"], decimals[mode_id])
        assert cell["printed"] == (expected if expected is not None else cell["status"])
        if cell["status"] == "part.":
            assert cell["printed_partial"] == oracles.printed(cell["value_scored"], decimals[mode_id]) + "s"


@pytest.mark.parametrize(
    ("column_id", "mode_id", "status", "reason"),
    [
        ("gpt-4", "bart", "complete", None),
        ("claude-1", "bart", "part.", "5 trials of an episode are not in the source"),
        ("hf_LongAlpaca-70B_cot", "bart", "n.f.", "the file is empty"),
        ("gpt-4_sb", "bart", "n.f.", "the file is empty"),
        ("hf_LongAlpaca-70B_cot", "two_step", "n.e.", "no run of this mode"),
        ("random", "horizon_autonomous", "n.a.", "the run holds no rows for optimal_choice"),
        ("gpt-4", "temporal_discounting", "n.a.", "the run holds no rows for later_reward"),
        ("human", "instrumental_learning", "n.a.", "the credited options are not known"),
        ("reference", "shj_categories", "n.e.", "needs Psych-101, which is on the hub"),
    ],
)
def test_a_cell_without_a_value_says_why(cells, column_id, mode_id, status, reason):
    cell = cells[column_id, mode_id]
    assert (cell["status"], cell["reason"]) == (status, reason)
    assert (cell["value"] is None) == (status != "complete")


def test_table_3_takes_the_primary_metric(lake, cells, metrics):
    primary = {
        row["mode_id"]: row["metric"]
        for row in query(lake, "select mode_id, metric from s1cogbench_metrics where is_primary")
    }
    for (column_id, mode_id), cell in cells.items():
        row = metrics.get((column_id, mode_id), {}).get(primary[mode_id])
        if row is not None:
            names = ("value", "value_scored", "n_planned", "n_scored", "n_unparsed", "n_error", "scorer_sha")
            assert [cell[name] for name in names] == [row[name] for name in names]
