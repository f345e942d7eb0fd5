"""Is the Uniform column exact, and who may stand in the Reference column? Small lakes of items are written as
ingest and generate write them, built once, and compared with exact fractions from ``oracles.py``."""

import csv
import json
import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest
from pytest import approx
from spec import oracles
from support import ROOT, built, copy_lake, query

from generate.pipeline import generate, plan, schedule_run_id
from generate.schedule import load_agents, load_schedules
from store.build import build
from store.lake import append, commit
from store.schemas import RAW_TABLES
from store.settings import Home

Row = dict[str, Any]
NODE_VALUES = [-10, -5, 5, 10]


# ---- writing lakes ----


def modes() -> dict[str, dict[str, str]]:
    with (ROOT / "manifests" / "s1cogbench_modes.csv").open(newline="", encoding="utf-8") as file:
        return {row["mode_id"]: row for row in csv.DictReader(file)}


def add_run(lake: Home, run_id: str, mode_id: str, tables: Mapping[str, Sequence[Row]], **run: Any) -> None:
    """Commit a run; what its rows share with all others of it is filled in."""
    shared = {"run_id": run_id, "mode_id": mode_id, "status": "ok", "weight": 1.0, "episode_id": "e"}
    source_id = run.setdefault("source_id", modes()[mode_id]["item_source_id"])
    shared["source_id"] = source_id

    def table(name: str, rows: Sequence[Row]) -> pa.Table:
        schema = RAW_TABLES[name]
        filled = [{key: value for key, value in shared.items() if key in schema.names} | row for row in rows]
        return pa.Table.from_pylist(filled, schema)

    row = {"run_id": run_id, "planned_modes": [mode_id], "notes": []} | run
    row = {"kind": "schedule", "model_id": source_id, "importer_version": 1} | row
    row["agent_kind"] = "policy" if row["kind"] in ("model", "reference", "uniform") else "none"
    runs = pa.Table.from_pylist([row], RAW_TABLES["runs"])
    commit(lake, run_id, [(name, table(name, rows)) for name, rows in tables.items()], runs)


def items_of(facts: Sequence[Mapping[str, Any]], **columns: Any) -> list[Row]:
    return [
        {"item_id": f"i{i}", "facts_json": json.dumps(fact, sort_keys=True), **columns}
        for i, fact in enumerate(facts)
    ]


def named(mode_id: str, rows: Sequence[Row], version: int = 1) -> list[Row]:
    return [row | {"item_id": f"{mode_id}@{version}/{row['item_id']}"} for row in rows]


def options(n: int) -> list[str]:
    return [f"option {i}" for i in range(n)]


def choice(i: int, n_legal: int, n_credited: int = 1, **columns: Any) -> Row:
    legal = options(n_legal)
    return {
        "item_id": f"i{i}",
        "legal_options": legal,
        "credited_options": legal[n_legal - n_credited :],
    } | columns


def report(i: int, target: float | None, low: float = 0, high: float = 1, **columns: Any) -> Row:
    return {"item_id": f"i{i}", "support_low": low, "support_high": high, "target": target, **columns}


# ---- what is printed ----


def urn_questions() -> list[tuple[Fraction, Fraction]]:
    """Posterior and probability of every question that the generator can draw."""
    clear = [Fraction(tenths, 10) for tenths in (1, 2, 3, 7, 8, 9)]
    vague = [Fraction(tenths, 10) for tenths in (4, 5, 5, 6)]
    questions = []
    for is_informative, one, other, is_red in product((True, False), clear, vague, (True, False)):
        prior, red = (other, one) if is_informative else (one, other)
        likelihood = red if is_red else 1 - red
        seen = prior * likelihood + (1 - prior) * (1 - likelihood)
        questions.append((prior * likelihood / seen, seen / (2 * len(clear) * len(vague))))
    assert sum(probability for _, probability in questions) == 1
    return questions


CONDITIONS = [
    (n_arms, n_trials)
    for n_arms, n_trials, _scenario, _rewards in product((5, 20), (300, 1000), range(2), range(2))
]
# legal options -> decisions
MOUSELAB_PREDICTION = {1: 63, 2: 167, 3: 576, 4: 2212, 5: 11096, 6: 4280, 7: 1385, 8: 464, 9: 120}
# options -> responses
PRAGMATICS = ((2, 14960), (4, 3 * 7480), (4, 9350), (5, 9350), (5, 7480))
HIT_BY_CHANCE = sum(n / k for k, n in PRAGMATICS) / sum(n for _, n in PRAGMATICS)
SELF_ASSESSMENT = [5] * 20 + [21] * 2 + [101] * 2 + [11] * 4
CONTEXTS = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
RATES = [[0.3, 0.6, 0.4, 0.7], [0.25, 0.25, 0.75, 0.5]]


def best(means: Sequence[float]) -> list[str]:
    return [str(arm) for arm, mean in enumerate(means) if mean == max(means)]


def printed_items() -> dict[str, list[Row]]:
    """Items with the published parameters."""
    rng = random.Random("printed")
    games = [[rng.choice((40, 60)) for _ in range(2)] for _ in range(20)]
    games = [[a, a + rng.choice((-8, -4, 4, 8))] for a, _ in games]
    arms = ["0", "1"]
    return {
        "bart": items_of([{"maximum": m} for m in (128, 32, 8)]),
        "mouselab_autonomous": items_of(
            [{"branching": [4, 1, 2], "node_values": NODE_VALUES}], weight=23_750.0
        ),
        "two_step": items_of([{"reward_rates": rates} for rates in RATES]),
        "bayesian_urn": [
            report(i, float(posterior), weight=float(probability))
            for i, (posterior, probability) in enumerate(urn_questions())
        ],
        "stationary_bandits": [
            choice(i, n_arms, weight=float(n_trials)) for i, (n_arms, n_trials) in enumerate(CONDITIONS)
        ],
        "instrumental_learning": [
            row | {"legal_options": arms, "credited_options": best(means), "weight": 24.0}
            for row, means in zip(items_of([{"reward_means": m} for m in CONTEXTS]), CONTEXTS, strict=True)
        ],
        "horizon_autonomous": [
            row
            | {"legal_options": arms, "credited_options": best(means)}
            | {"template_id": f"horizon_{n}", "weight": float(n), "item_id": f"{row['item_id']}/{n}"}
            for n in (1, 6)
            for row, means in zip(items_of([{"reward_means": m} for m in games]), games, strict=True)
        ],
        "restless_bandit": [choice(i, 2) for i in range(80)],
        "temporal_discounting": [
            choice(0, 2),
            choice(1, 2),
            # a question about payments is none of the metric
            {"item_id": "payment", "legal_options": options(2), "credited_options": None},
        ],
        "mouselab_prediction": [
            choice(i, n, weight=float(count)) for i, (n, count) in enumerate(MOUSELAB_PREDICTION.items())
        ],
        "pragmatic_interpretation": [
            choice(i, n, weight=float(count)) for i, (n, count) in enumerate(PRAGMATICS)
        ],
        "self_assessment": [choice(i, n) for i, n in enumerate(SELF_ASSESSMENT)],
    }


@pytest.fixture(scope="module")
def printed_lake(tmp_path_factory, empty_lake, project) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("printed") / "lake")
    for mode_id, rows in printed_items().items():
        add_run(lake, f"schedule-{mode_id}", mode_id, {"items": named(mode_id, rows)})
    # none of these is an item of its mode: an older schedule, an archived run, another source, questions for
    # fitting, and what an agent asks itself
    add_run(
        lake,
        "schedule-bart-v0",
        "bart",
        {"items": named("bart", items_of([{"maximum": 3}]), version=0)},
        importer_version=0,
    )
    archived = {"kind": "archived", "importer_version": 9, "source_uri": "a file"}
    add_run(
        lake,
        "archived",
        "bayesian_urn",
        {"items": named("archived", [report(0, 1.0)])},
        source_id="cogbench",
        **archived,
    )
    add_run(
        lake,
        "substitute",
        "wcst_prediction",
        {"items": named("substitute", [choice(0, 4)])},
        source_id="wcst_prl",
        kind="items",
        importer_version=9,
        source_uri="a file",
    )
    fitting = [choice(9, 5, split="train", prompt=None)]
    add_run(lake, "fitting", "pragmatic_interpretation", {"items": named("fitting", fitting)})
    halved = {"items": named("halves", [report(0, 1.0, 0, 100)])}
    add_run(lake, "halves", "nonliteral_number", halved, kind="reference", model_id="split_half")
    built(lake, project)
    return lake


@pytest.fixture(scope="module")
def printed(printed_lake) -> dict[tuple[str, str], Row]:
    """(mode, metric) -> row of the mart."""
    return {(row["mode_id"], row["metric"]): row for row in query(printed_lake, "select * from uniform")}


@pytest.mark.parametrize(
    ("mode_id", "metric", "expected", "n_items"),
    [
        ("bart", "mean_reward", 0.8377278646682195, 3),
        ("mouselab_autonomous", "expected_return", 7.0077579291, 1),
        ("mouselab_autonomous", "mean_reveals", 4, 1),
        ("bayesian_urn", "posterior_mae", 2302997 / 6603300, 96),
        ("stationary_bandits", "optimal_arm", 12.5, 16),
        ("instrumental_learning", "better_action", 75, 4),
        ("instrumental_learning", "mean_reward", 0.5, 4),
        ("temporal_discounting", "later_reward", 50, 2),
        ("restless_bandit", "better_arm", 50, 80),
        ("mouselab_prediction", "human_nll_renormalised", 1.6336348460, 9),
        ("pragmatic_interpretation", "human_nll_renormalised", 1.2822683175, 5),
        ("self_assessment", "human_nll_renormalised", 2.0392723303, 28),
        ("self_assessment", "human_nll_raw", 2.0392723303, 28),
        # one of k likeliest, for each of the responses that a weight stands for
        ("pragmatic_interpretation", "choice_accuracy", 100 * HIT_BY_CHANCE, 5),
        # from the declaration alone
        ("wcst_prediction", "human_nll_renormalised", math.log(4), 0),
        ("wcst_prediction", "human_nll_raw", math.log(4), 0),
        ("wcst_prediction", "choice_accuracy", 25, 0),
        ("wcst_prediction_prl", "human_nll_renormalised", math.log(4), 0),
        ("rlwm", "correct_probability", 100 / 3, 0),
        ("rlwm", "human_nll_renormalised", math.log(3), 0),
        ("rlwm", "accuracy", 100 / 3, 0),
    ],
)
def test_what_is_printed_comes_out(printed, mode_id, metric, expected, n_items):
    row = printed[mode_id, metric]
    assert row["value"] == approx(expected, abs=1e-10)
    assert row["n_items"] == n_items


def test_the_cells_of_table_3_print_as_published(printed_lake):
    cells = query(
        printed_lake,
        "select mode_id, printed, uniform_printed from table_3 inner join s1cogbench_modes using (mode_id) "
        "where column_id = 'uniform' and table_3.value is not null",
    )
    differing = {cell["mode_id"] for cell in cells if cell["printed"] != cell["uniform_printed"]}
    # the rates of this test are not those of the published schedule
    assert differing == {"two_step"}
    assert len(cells) == 24


def test_the_two_step_cell_says_that_its_seed_is_inferred(printed_lake):
    [cell] = query(printed_lake, "select * from table_3 where mode_id = 'two_step' and column_id = 'uniform'")
    assert cell["value"] == approx(oracles.weighted_mean([sum(map(Fraction, r)) / 4 for r in RATES]))
    assert cell["reason"].startswith("seed inferred")


def test_every_mode_has_a_uniform_value_or_names_what_it_waits_for(printed):
    waiting = {mode_id: row["reason"] for (mode_id, _), row in printed.items() if row["value"] is None}
    assert set(waiting) == {"probability_coherence", "politeness", "nonliteral_number", "wcst_autonomous"}
    assert "psych_101" in waiting["probability_coherence"]
    assert "polite_speaker" in waiting["politeness"]
    assert "coglake generate --agent uniform" in waiting["wcst_autonomous"]
    assert {mode_id for mode_id, _ in printed} == set(modes())


def test_the_tree_is_walked_over_every_set_of_known_nodes(printed_lake):
    [tree] = query(printed_lake, "select * from int_uniform_trees")
    expected = oracles.uniform_tree([4, 1, 2], NODE_VALUES)
    assert expected.n_known_sets == 6**4
    # six shapes of a branch on four branches, whatever their order
    assert tree["n_states"] == math.comb(6 + 4 - 1, 4)
    assert tree["return_points"] == approx(float(expected.expected_return), rel=1e-12)
    assert tree["reveals"] == approx(float(expected.reveals), rel=1e-12)


def test_a_document_value_of_another_metric_is_audited_too(printed_lake):
    rows = query(
        printed_lake,
        "select * from audit_published_cells where source = 'document' and column_id = 'uniform'",
    )
    found = {(row["mode_id"], row["metric"]): row for row in rows}
    assert {metric for _, metric in found} == {
        "perseveration",
        "set_loss",
        "mean_reward_free",
        "mean_reward_horizon_1",
        "mean_reward_horizon_6",
    }
    assert found["wcst_autonomous", "set_loss"]["agrees"] is None


def test_items_that_contradict_the_declared_support_fail_the_build(tmp_path, printed_lake, project):
    contradicting = copy_lake(printed_lake, tmp_path / "lake")
    # three actions are declared
    add_run(contradicting, "four-actions", "rlwm", {"items": named("rlwm", [choice(0, 4)])}, kind="items")
    assert [failure.name for failure in build(contradicting, project).failures] == [
        "items_have_the_declared_support"
    ]


def test_a_run_with_two_rows_fails_the_build_by_its_run_id(tmp_path, printed_lake, project):
    repeated = copy_lake(printed_lake, tmp_path / "lake")
    [run] = query(printed_lake, "select * from stg_runs where run_id = 'schedule-bart'")
    again = pa.Table.from_pylist([run | {"started_at": day(1)}], RAW_TABLES["runs"])
    append(repeated, "runs", again, "schedule-bart")
    assert [failure.name for failure in build(repeated, project).failures] == ["unique_grain_stg_runs_run_id"]


# ---- other parameters ----

MAXIMA = [1, 2, 3, 5, 8, 32, 100]
TREES = [
    ([3, 1, 2], NODE_VALUES),
    ([2, 1, 2], NODE_VALUES),
    ([2, 2], [-1, 4]),
    ([2, 2], [-10, -5, 5, 20]),
    ([3], [1, 2, 7]),
    ([1], [-1, 3]),
    ([1, 2], [0, 0, 3]),
    ([2, 2, 2], [0, 4]),
    ([2, 1, 1], [0.1, 0.2, 0.7]),
]
ARMS = [(3, 1), (7, 2), (4, 4), (20, 19), (2, 0)]
SUPPORTS = [(0.0, 0, 1), (0.3, 0, 1), (12.5, 10, 18), (50.0, 0, 100), (-3.0, -4, 4), (120.0, 0, 100)]
INTEGERS = [(0, 0, 100), (50, 0, 100), (37, 0, 100), (33.5, 0, 100), (4, 1, 7), (9, 1, 7), (2, 2, 2)]
N_CARDS = 4


def sortings(rng: random.Random, episodes: int, trials: int) -> dict[str, list[oracles.Sorted]]:
    """Play card sorting with random rules; a choice is missing now and then."""
    played: dict[str, list[oracles.Sorted]] = {}
    for episode in range(episodes):
        rule = rng.randrange(3)
        rows = []
        for trial in range(trials):
            if trial and rng.random() < 0.3:
                rule = rng.choice([other for other in range(3) if other != rule])
            cards = tuple(rng.sample(range(1, N_CARDS + 1), 3))
            rows.append(oracles.Sorted(rule, cards, rng.randint(1, N_CARDS)))
        played[f"e{episode}"] = rows
    played["e0"][3] = played["e0"][3]._replace(chosen=None)
    return played


def transitions(
    played: Mapping[str, Sequence[oracles.Sorted]],
) -> list[tuple[oracles.Sorted, oracles.Sorted]]:
    return [pair for rows in played.values() for pair in pairwise(rows)]


SORTED = sortings(random.Random("cards"), episodes=5, trials=12)


def card_items() -> list[Row]:
    return [
        {
            "item_id": f"{episode}/{t}",
            "participant_id": episode,
            "legal_options": [str(card) for card in range(1, N_CARDS + 1)],
            "credited_options": [str(trial.cards[trial.rule])],
            "facts_json": json.dumps(
                {"trial": t, "is_rule_switch": trial.rule != rows[t - 1].rule if t else None}
            ),
        }
        for episode, rows in SORTED.items()
        for t, trial in enumerate(rows)
    ]


def card_steps() -> list[Row]:
    return [
        {
            "episode_id": episode,
            "step_index": t,
            "trial": t,
            "stage": 0,
            "action": None if trial.chosen is None else str(trial.chosen),
            "legal_options": [str(card) for card in range(1, N_CARDS + 1)],
            "credited_options": [str(trial.cards[trial.rule])],
            "is_forced": False,
            "is_rewarded": True,
            "reward": float(trial.chosen == trial.cards[trial.rule]),
            "hidden_values": [float(value) for value in (trial.rule, *trial.cards)],
            "status": "ok" if trial.chosen else "unparsed",
            "status_reason": None if trial.chosen else "no card",
        }
        for episode, rows in SORTED.items()
        for t, trial in enumerate(rows)
    ]


def other_items() -> dict[str, list[Row]]:
    """Items with parameters that nobody published; those of answered modes weigh differently."""
    rng = random.Random("other")

    def weight() -> float:
        return rng.choice((0.5, 1.0, 2.0, 7.0, 0.1))

    declared = {
        "multiple_cue_judgment": 9,
        "multi_attribute_choice": 2,
        "shj_categories": 2,
        "medin_categories": 2,
        "weather_prediction": 2,
        "rlwm": 3,
        "recent_probes": 2,
        "horizon_prediction": 2,
        "false_belief_qa": 2,
    }
    varying = ("mouselab_prediction", "politeness", "pragmatic_interpretation", "self_assessment")
    return {
        "bart": items_of([{"maximum": m} for m in MAXIMA]),
        "mouselab_autonomous": items_of([{"branching": b, "node_values": v} for b, v in TREES]),
        "two_step": items_of([{"reward_rates": [rng.random() for _ in range(4)]} for _ in range(50)]),
        "stationary_bandits": [
            choice(i, n_arms, n_best, weight=weight()) for i, (n_arms, n_best) in enumerate(ARMS)
        ],
        "bayesian_urn": [report(i, *support, weight=weight()) for i, support in enumerate(SUPPORTS)],
        "probability_coherence": [
            report(
                i, target, low, high, legal_options=[str(k) for k in range(low, high + 1)], weight=weight()
            )
            for i, (target, low, high) in enumerate(INTEGERS)
        ],
        "nonliteral_number": [report(i, rng.uniform(0, 100), 0, 100, weight=weight()) for i in range(30)],
        "wcst_autonomous": card_items(),
        **{
            mode_id: [choice(i, n_legal, weight=weight()) for i in range(8)]
            for mode_id, n_legal in declared.items()
        },
        **{
            mode_id: [choice(i, rng.randint(1, 9), weight=weight()) for i in range(12)] for mode_id in varying
        },
    }


# modes whose items come with what humans did; of other predictions, such as those of self-assessment, nothing
# can be scored
PREDICTED = (
    "multiple_cue_judgment",
    "multi_attribute_choice",
    "politeness",
    "pragmatic_interpretation",
    "horizon_prediction",
    "mouselab_prediction",
)


def human_responses(mode_id: str, items: Sequence[Row]) -> list[Row]:
    rng = random.Random(mode_id)
    return [
        {
            "item_id": item["item_id"],
            "participant_id": f"p{participant}",
            "response": rng.choice(item["legal_options"]),
            "weight": rng.choice((1.0, 1.0, 0.25)),
        }
        # nobody answered the last one
        for item in items[:-1]
        for participant in rng.sample(range(6), rng.randint(1, 6))
    ]


def even_options(item: Row) -> list[Row]:
    """Write an answer that makes all legal options alike."""
    logprob = -math.log(len(item["legal_options"]))
    return [
        {"item_id": item["item_id"], "option_index": i, "option": option, "logprob_nats": logprob}
        for i, option in enumerate(item["legal_options"])
    ]


def engine_answers(rng: random.Random, item: Row) -> list[Row]:
    """Write what an engine makes of the legal options; ties happen, and they do not add up to 1."""
    return [
        {"item_id": item["item_id"], "option_index": i, "option": option}
        | {"logprob_nats": -float(rng.randint(1, 4))}
        for i, option in enumerate(item["legal_options"])
    ]


ENGINE_MODES = ("politeness", "pragmatic_interpretation", "rlwm", "horizon_prediction")


@pytest.fixture(scope="module")
def written() -> dict[str, list[Row]]:
    """Items of the lake by mode."""
    return {mode_id: named(mode_id, rows) for mode_id, rows in other_items().items()}


@pytest.fixture(scope="module")
def engine(written) -> dict[str, list[Row]]:
    """Log-probabilities of an engine by mode."""
    rng = random.Random("engine")
    rows = {
        mode_id: [row for item in written[mode_id] for row in engine_answers(rng, item)]
        for mode_id in ENGINE_MODES
    }
    # one option that a human chose is impossible; of one legal option the engine says nothing
    first = human_responses("politeness", written["politeness"])[0]
    rows["politeness"] = [
        row | {"logprob_nats": -math.inf}
        if (row["item_id"], row["option"]) == (first["item_id"], first["response"])
        and len([r for r in rows["politeness"] if r["item_id"] == row["item_id"]]) > 1
        else row
        for row in rows["politeness"]
    ]
    rows["horizon_prediction"] = rows["horizon_prediction"][1:]
    return rows


def steps_of(mode_id: str, rewards: Sequence[float], **columns: Any) -> list[Row]:
    return [
        {
            "episode_id": f"e{i}",
            "step_index": 0,
            "stage": 0,
            "is_forced": False,
            "is_rewarded": True,
            "action": "0",
            "legal_options": ["0", "1"],
            "credited_options": ["0"] if i % 4 else ["1"],
            "reward": reward,
            **columns,
        }
        for i, reward in enumerate(rewards)
    ]


def balloon_steps() -> list[Row]:
    """Three balloons in two runs: decision by decision, the last reward alone is paid."""
    rows: list[Row] = []
    for episode, trial, n_inflated, outcome in (
        ("a", 0, 2, "banked"),
        ("a", 1, 3, "exploded"),
        ("b", 0, 0, "banked"),
    ):
        n_decisions = n_inflated + (outcome == "banked")
        for decision in range(n_decisions):
            is_last = decision == n_decisions - 1
            rows.append(
                {
                    "episode_id": episode,
                    "step_index": len([row for row in rows if row["episode_id"] == episode]),
                    "trial": trial,
                    "stage": 0,
                    "action": "skip" if is_last and outcome == "banked" else "inflate",
                    "legal_options": ["skip", "inflate"],
                    "is_forced": False,
                    "is_rewarded": is_last,
                    "outcome": outcome if is_last else "inflated",
                    "reward": float(n_inflated if outcome == "banked" else 0) if is_last else None,
                }
            )
    return rows


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project, written, engine) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("other") / "lake")
    urn = load_schedules()["bayesian_urn"]
    for mode_id, items in written.items():
        tables = {"items": items}
        if mode_id in PREDICTED:
            tables["human_responses"] = human_responses(mode_id, items)
        kind = "schedule" if mode_id in ("stationary_bandits", "wcst_autonomous") else "items"
        if mode_id != urn.mode:
            add_run(lake, f"items-{mode_id}", mode_id, tables, kind=kind)
    # as if the environment had laid them down
    questions = {"importer_version": urn.version, "source_sha256": urn.sha256}
    add_run(lake, schedule_run_id(urn), urn.mode, {"items": written[urn.mode]}, **questions)
    # what answers is the agent of the command, over all items but those of a mode that is played
    generate(lake, plan(lake, [load_agents()["uniform"]], {urn.id: urn}))
    for mode_id, rows in engine.items():
        outputs = [{"item_id": item["item_id"]} for item in written[mode_id]]
        tables = {"outputs": outputs, "output_options": rows}
        add_run(lake, f"engine-{mode_id}", mode_id, tables, kind="model", model_id="engine")
    add_run(lake, "sorter", "wcst_autonomous", {"steps": card_steps()}, kind="model", model_id="sorter")
    add_run(lake, "pumper", "bart", {"steps": balloon_steps()}, kind="model", model_id="pumper")
    plant_references(lake)
    built(lake, project)
    return lake


def day(n: int) -> datetime:
    return datetime(2026, 1, n, tzinfo=UTC)


def plant_references(lake: Home) -> None:
    """Write reference runs that may fill a cell, and others that must not."""
    horizon = "horizon_autonomous"
    add_run(lake, "items-horizon", horizon, {"items": named(horizon, [choice(0, 2)])})
    # fitted on other data: it stands in for the reference, and is not it
    stand_in = {"steps": steps_of(horizon, [1.0] * 8)}
    add_run(lake, "stand-in", horizon, stand_in, kind="reference", model_id="horizon_rw_softmax")
    add_run(lake, "greedy", horizon, stand_in, kind="reference", model_id="horizon_rw_greedy")
    # the likelihood that a policy gives to human reveals, in the mode that is played and by its very agent
    tree = named("likelihoods", [choice(0, 3)])
    likelihoods = {
        "items": tree,
        "human_responses": [{"item_id": tree[0]["item_id"], "participant_id": "p", "response": "option 1"}],
        "outputs": [{"item_id": tree[0]["item_id"]}],
        "output_options": even_options(tree[0]),
    }
    add_run(
        lake,
        "likelihoods",
        "mouselab_autonomous",
        likelihoods,
        kind="reference",
        model_id="metagreedy",
        source_id="mouselab",
        importer_version=None,
    )
    # the right agent has played; later it predicted choices of humans, which would be a hit as well
    casino = "instrumental_learning"
    scheduled = named(casino, [choice(0, 2)])
    add_run(lake, "items-casino", casino, {"items": scheduled})
    two_rates = {"kind": "reference", "model_id": "rescorla_wagner_two_rates"}
    played = {"steps": steps_of(casino, [1.0] * 8)}
    add_run(lake, "played", casino, played, **two_rates, started_at=day(1))
    predicted = {"outputs": [{"item_id": scheduled[0]["item_id"], "response_text": "option 1"}]}
    add_run(lake, "predicted", casino, predicted, **two_rates, started_at=day(2))
    # later still it played another casino, of the same version; and so did other agents elsewhere
    lost = {"steps": steps_of(casino, [0.0] * 4, credited_options=["1"])}
    add_run(lake, "elsewhere", casino, lost, **two_rates, source_id="another_casino", started_at=day(3))
    slots = "stationary_bandits"
    elsewhere = {"steps": steps_of(slots, [0.0] * 4)}
    for kind, agent in (("reference", "thompson"), ("uniform", "uniform")):
        run_id = f"{agent}-elsewhere"
        add_run(lake, run_id, slots, elsewhere, kind=kind, model_id=agent, source_id="other_slots")
    # a schedule that was replaced since
    restless = "restless_bandit"
    for version in (1, 2):
        items = named(restless, [choice(0, 2)], version)
        add_run(lake, f"restless-{version}", restless, {"items": items}, importer_version=version)
    outdated = {"steps": steps_of(restless, [1.0] * 80)}
    add_run(
        lake,
        "outdated",
        restless,
        outdated,
        kind="reference",
        model_id="restless_q_learning",
        importer_version=1,
    )


def expectations(lake: Home, rule: str) -> dict[str, float]:
    """Return what a uniform rule expects of each item."""
    return {row["item_id"]: row["expectation"] for row in query(lake, f"select * from int_uniform__{rule}")}


def uniform(lake: Home, mode_id: str, metric: str) -> Row:
    [row] = query(lake, "select * from uniform where mode_id = $1 and metric = $2", mode_id, metric)
    return row


def close(value: float | Fraction) -> Any:
    return approx(float(value), rel=1e-12, abs=1e-14)


def test_a_balloon_of_any_maximum(lake, written):
    reward, pumps = expectations(lake, "bart"), expectations(lake, "bart_pumps")
    for item, maximum in zip(written["bart"], MAXIMA, strict=True):
        expected = oracles.uniform_balloon(maximum)
        assert reward[item["item_id"]] == close(expected.reward), maximum
        assert pumps[item["item_id"]] == close(expected.pumps), maximum
    mean = oracles.weighted_mean([oracles.uniform_balloon(maximum).reward for maximum in MAXIMA])
    assert uniform(lake, "bart", "mean_reward")["value"] == close(mean)


def test_balloons_of_8_and_32_are_exact_fractions():
    assert oracles.uniform_balloon(8).reward == Fraction(1291, 2048)
    assert oracles.uniform_balloon(32).reward == Fraction(124554051619, 137438953472)


def test_a_tree_of_any_branching_and_values(lake, written):
    returns, reveals = expectations(lake, "mouselab"), expectations(lake, "mouselab_reveals")
    for item, (branching, values) in zip(written["mouselab_autonomous"], TREES, strict=True):
        expected = oracles.uniform_tree(branching, values)
        assert returns[item["item_id"]] == close(expected.expected_return), (branching, values)
        assert reveals[item["item_id"]] == close(expected.reveals), (branching, values)
    by_tree = {
        str(tree): returns[item["item_id"]]
        for item, tree in zip(written["mouselab_autonomous"], TREES, strict=True)
    }
    assert by_tree[str(([2, 1, 2], NODE_VALUES))] == approx(4.04, abs=5e-3)
    assert by_tree[str(([3, 1, 2], NODE_VALUES))] == approx(5.78, abs=5e-3)


@pytest.mark.parametrize(
    ("branching", "values"), [([2, 2], [-1, 4]), ([3], [1, 2, 7]), ([1, 2], [0, 0, 3]), ([2, 1], [-2, 1, 3])]
)
def test_the_oracle_of_trees_agrees_with_every_order_of_reveals_on_every_tree(branching, values):
    assert oracles.uniform_tree(branching, values) == oracles.uniform_tree_by_play(branching, values)


def test_arms_in_any_number_and_any_ties(lake, written):
    shares = expectations(lake, "credited_share")
    expected = [oracles.uniform_credited_pct(*arms) for arms in ARMS]
    for item, value in zip(written["stationary_bandits"], expected, strict=True):
        assert shares[item["item_id"]] == close(value)
    weights = [item["weight"] for item in written["stationary_bandits"]]
    assert uniform(lake, "stationary_bandits", "optimal_arm")["value"] == close(
        oracles.weighted_mean(expected, weights)
    )


def test_reports_on_any_interval_and_any_range_of_integers(lake, written):
    errors = expectations(lake, "continuous_report")
    for item, support in zip(written["bayesian_urn"], SUPPORTS, strict=True):
        assert errors[item["item_id"]] == close(oracles.uniform_interval_error(*support)), support
    errors = expectations(lake, "integer_report")
    for item, support in zip(written["probability_coherence"], INTEGERS, strict=True):
        assert errors[item["item_id"]] == close(oracles.uniform_grid_error(*support)), support


def test_an_integer_report_is_its_closed_form():
    for y in (0, 1, 50, 99, 100):
        closed = Fraction(y * (y + 1) + (100 - y) * (101 - y), 202)
        assert oracles.uniform_grid_error(y, 0, 100) == closed


def test_two_step_takes_the_rates_of_every_trial(lake, written):
    rates = [json.loads(item["facts_json"])["reward_rates"] for item in written["two_step"]]
    expected = oracles.weighted_mean([sum(map(Fraction, four)) / 4 for four in rates])
    assert uniform(lake, "two_step", "mean_reward")["value"] == close(expected)


@pytest.mark.parametrize(
    ("metric", "is_error"), [("perseveration", oracles.perseverates), ("set_loss", oracles.loses_set)]
)
def test_card_errors_are_those_of_every_pair_of_choices(lake, metric, is_error):
    shares = [
        oracles.uniform_card_error(before, now, N_CARDS, is_error) for before, now in transitions(SORTED)
    ]
    # a switch of the rule rules out one more category
    assert set(shares) == {Fraction(3, 16), Fraction(1, 8)}
    row = uniform(lake, "wcst_autonomous", metric)
    assert row["value"] == close(100 * oracles.weighted_mean(shares))
    switches = [before.rule != now.rule for before, now in transitions(SORTED)]
    assert row["value"] == close(100 * (Fraction(3, 16) - Fraction(sum(switches), 16 * len(switches))))
    assert row["n_items"] == len(switches)
    assert row["value"] != approx(17.13, abs=5e-3)
    assert "not public" in row["reason"]


@pytest.mark.parametrize("mode_id", PREDICTED)
def test_a_prediction_weighs_as_the_humans_who_answered(lake, written, mode_id):
    n_legal = {item["item_id"]: len(item["legal_options"]) for item in written[mode_id]}
    responses = human_responses(mode_id, written[mode_id])
    expected = oracles.weighted_mean(
        [oracles.uniform_nll(n_legal[row["item_id"]]) for row in responses],
        [row["weight"] for row in responses],
    )
    for metric in ("human_nll_renormalised", "human_nll_raw"):
        assert uniform(lake, mode_id, metric)["value"] == close(expected)
    hits = oracles.weighted_mean(
        [Fraction(100, n_legal[row["item_id"]]) for row in responses],
        [row["weight"] for row in responses],
    )
    assert uniform(lake, mode_id, "choice_accuracy")["value"] == close(hits)


# ---- the uniform agent ----


def test_the_uniform_agent_over_given_items_scores_the_uniform_cell(lake):
    audited = query(lake, "select * from audit_uniform_agent")
    rows = {(row["mode_id"], row["metric"]): row for row in audited}
    # without items there is nothing to answer
    answered = {
        mode_id
        for mode_id, mode in modes().items()
        if mode["is_played"] == "false" and not mode["variant_of"]
    } - {"wcst_prediction", "hybrid_sampling"}
    assert {mode_id for mode_id, _ in rows} == answered
    assert {row["is_sampled"] for row in rows.values()} == {False}
    of_people = {
        (row["mode_id"], row["metric"])
        for row in query(lake, "select * from s1cogbench_metrics where is_per_response")
    }
    declared = query(lake, "select * from s1cogbench_metrics where is_primary")
    primary = {row["mode_id"]: row["metric"] for row in declared}
    for (mode_id, metric), row in rows.items():
        if (mode_id, metric) in of_people and mode_id not in PREDICTED:
            assert (row["played"], row["agrees"]) == (None, None)
            assert row["reason"] == f"the run holds no rows for {metric}"
            continue
        assert row["played"] == approx(row["exact"], abs=1e-12), (mode_id, metric)
        assert row["agrees"] is True, (mode_id, metric)
        if metric == primary[mode_id]:
            [cell] = query(
                lake, "select value from table_3 where column_id = 'uniform' and mode_id = $1", mode_id
            )
            assert cell["value"] == row["exact"]


def test_the_uniform_agent_and_schedules_are_no_columns(lake):
    columns = query(lake, "select distinct column_id, column_kind from table_3 order by all")
    assert {(row["column_id"], row["column_kind"]) for row in columns} == {
        ("uniform", "uniform"),
        ("reference", "reference"),
        *((name, "model") for name in ("engine", "sorter", "pumper")),
    }


def test_a_uniform_agent_that_lies_off_fails_the_build(tmp_path, lake, project):
    broken = copy_lake(lake, tmp_path / "lake")
    mode_id = "nonliteral_number"
    items = query(lake, "select item_id from stg_items where mode_id = $1", mode_id)
    outputs = [
        {"item_id": item["item_id"], "report_low": 0.0, "report_high": 99.0, "report_spacing": 0.0}
        for item in items
    ]
    add_run(
        broken,
        "off",
        mode_id,
        {"outputs": outputs},
        kind="uniform",
        model_id="uniform",
        # the newest run counts
        started_at=datetime(2100, 1, 1, tzinfo=UTC),
    )
    assert [failure.name for failure in build(broken, project).failures] == [
        "no_row_where_audit_uniform_agent_not_agrees"
    ]


# ---- engines ----


def scored(lake: Home, run_id: str, metric: str) -> Row:
    [row] = query(lake, "select * from metrics where run_id = $1 and metric = $2", run_id, metric)
    return row


def logprobs(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        found[row["item_id"]][row["option"]] = row["logprob_nats"]
    return found


def test_human_nll_renormalises_over_the_legal_options(lake, written, engine):
    mode_id = "pragmatic_interpretation"
    found, responses = logprobs(engine[mode_id]), human_responses(mode_id, written[mode_id])
    nlls = [oracles.human_nll(found[row["item_id"]], row["response"]) for row in responses]
    weights = [row["weight"] for row in responses]
    row = scored(lake, f"engine-{mode_id}", "human_nll_renormalised")
    assert row["value"] == close(oracles.weighted_mean(nlls, weights))
    assert row["n"] == len(responses)
    # participants are independent, their responses are not
    pulls: dict[str, float] = defaultdict(float)
    for response, nll in zip(responses, nlls, strict=True):
        pulls[response["participant_id"]] += response["weight"] * (nll - row["value"])
    n = len(pulls)
    se = math.sqrt(n / (n - 1) * math.fsum(pull**2 for pull in pulls.values())) / math.fsum(weights)
    assert (row["se"], row["n_clusters"]) == (approx(se, rel=1e-9), n)


def test_one_impossible_response_makes_the_cell_infinite_and_not_missing(lake, written):
    [cell] = query(lake, "select * from table_3 where column_id = 'engine' and mode_id = 'politeness'")
    assert (cell["value"], cell["printed"], cell["status"]) == (math.inf, "+∞", "complete")
    assert cell["se"] is None
    first, *others = human_responses("politeness", written["politeness"])
    done = (first["item_id"], first["response"])
    n_infinite = 1 + sum((row["item_id"], row["response"]) == done for row in others)
    for metric in ("human_nll_renormalised", "human_nll_raw"):
        row = scored(lake, "engine-politeness", metric)
        assert (row["value"], row["n_infinite"]) == (math.inf, n_infinite)


def test_an_option_without_a_log_probability_withholds_the_cell(lake, written):
    [cell] = query(
        lake, "select * from table_3 where column_id = 'engine' and mode_id = 'horizon_prediction'"
    )
    first = written["horizon_prediction"][0]["item_id"]
    n_missing = sum(
        row["item_id"] == first
        for row in human_responses("horizon_prediction", written["horizon_prediction"])
    )
    assert (cell["value"], cell["status"], cell["n_missing_option"]) == (None, "part.", n_missing)
    assert cell["reason"] == "no log-probability of option 0"


def test_an_engine_chooses_its_likeliest_options_and_items_count_as_they_weigh(lake, written, engine):
    found = logprobs(engine["rlwm"])
    shares = [
        100 * oracles.credited_of_likeliest(found[item["item_id"]], item["credited_options"])
        for item in written["rlwm"]
    ]
    weights = [item["weight"] for item in written["rlwm"]]
    assert scored(lake, "engine-rlwm", "accuracy")["value"] == close(oracles.weighted_mean(shares, weights))


# ---- played modes ----


@pytest.mark.parametrize(
    ("metric", "is_error"), [("perseveration", oracles.perseverates), ("set_loss", oracles.loses_set)]
)
def test_card_errors_of_a_player(lake, metric, is_error):
    row, expected = scored(lake, "sorter", metric), oracles.card_errors(SORTED, is_error)
    for count in ("n_planned", "n_scored", "n_unparsed", "n_error", "n_clusters"):
        assert row[count] == getattr(expected, count), count
    # one missing choice spoils the transitions to it and from it
    assert row["n_unparsed"] == 2
    assert row["value"] is None
    assert row["value_scored"] == close(expected.value_scored)
    assert row["se"] == approx(expected.se, rel=1e-9)


def test_pumps_are_counted_decision_by_decision(lake):
    pumps, banked = scored(lake, "pumper", "mean_pumps"), scored(lake, "pumper", "mean_pumps_banked")
    assert (pumps["value_scored"], pumps["n_scored"]) == ((2 + 3 + 0) / 3, 3)
    assert (banked["value_scored"], banked["n_scored"]) == ((2 + 0) / 2, 2)
    assert scored(lake, "pumper", "mean_reward")["value_scored"] == 2 / 3


# ---- references ----


@pytest.fixture(scope="module")
def reference_cells(lake) -> dict[str, Row]:
    rows = query(lake, "select * from table_3 where column_id = 'reference'")
    assert len(rows) == 27
    return {row["mode_id"]: row for row in rows}


@pytest.fixture(scope="module")
def reference_audit(lake) -> dict[tuple[str, str | None], Row]:
    return {(row["mode_id"], row["agent_id"]): row for row in query(lake, "select * from audit_references")}


def test_a_stand_in_never_fills_the_cell(reference_cells, reference_audit):
    cell = reference_cells["horizon_autonomous"]
    assert (cell["value"], cell["printed"], cell["run_id"]) == (None, "n.e.", None)
    assert "stand-in only: see audit_references" in cell["reason"]
    row = reference_audit["horizon_autonomous", "horizon_rw_softmax"]
    assert (row["value"], row["n"], row["fills_cell"], row["agrees"]) == (75.0, 8, False, None)
    assert row["reason"].startswith("stand-in")
    # and neither does an agent that the manifest does not name
    other = reference_audit["horizon_autonomous", "horizon_rw_greedy"]
    assert (other["value"], other["fills_cell"], other["agrees"]) == (75.0, False, None)
    # and what is said of the cell is not said of it
    assert other["reason"] == "the manifest does not name the agent for the cell"


def test_a_human_action_likelihood_never_fills_an_autonomous_cell(reference_cells, reference_audit):
    cell = reference_cells["mouselab_autonomous"]
    assert (cell["value"], cell["status"], cell["run_id"]) == (None, "n.e.", None)
    assert cell["reason"] == ("reference metagreedy has not been run: `coglake generate --agent metagreedy`")
    row = reference_audit["mouselab_autonomous", "metagreedy"]
    assert (row["value"], row["run_id"], row["fills_cell"]) == (None, None, True)


def test_predictions_of_human_choices_neither_fill_nor_displace_what_was_played(reference_cells):
    cell = reference_cells["instrumental_learning"]
    assert (cell["value"], cell["run_id"], cell["n_scored"]) == (75.0, "played", 8)
    # eight episodes, two of them 0 and six 100
    assert cell["se"] == approx(100 * math.sqrt(0.25 * 0.75 / (8 - 1)), rel=1e-12)


def test_a_later_run_on_another_schedule_of_the_mode_neither_fills_nor_displaces(
    lake, reference_cells, reference_audit
):
    # they are scored, so that nothing but their source keeps them out
    for run_id in ("elsewhere", "thompson-elsewhere", "uniform-elsewhere"):
        assert query(lake, "select * from metrics where run_id = $1 and value is not null", run_id), run_id
    assert reference_cells["instrumental_learning"]["run_id"] == "played"
    audited = reference_audit["instrumental_learning", "rescorla_wagner_two_rates"]
    assert (audited["run_id"], audited["value"]) == ("played", 75.0)
    cell = reference_cells["stationary_bandits"]
    assert (cell["value"], cell["status"], cell["run_id"]) == (None, "n.e.", None)
    assert cell["reason"] == "reference thompson has not been run: `coglake generate --agent thompson`"
    assert reference_audit["stationary_bandits", "thompson"]["run_id"] is None
    # what is expected of the mode is known, so that a run of it would be audited
    assert uniform(lake, "stationary_bandits", "optimal_arm")["value"] is not None
    assert query(lake, "select * from audit_uniform_agent where mode_id = 'stationary_bandits'") == []


def test_a_run_on_a_schedule_that_was_replaced_fills_no_cell_and_both_versions_are_named(
    reference_cells, reference_audit
):
    said = "restless_q_learning has played another version of the schedule only: version 1, not version 2"
    cell = reference_cells["restless_bandit"]
    assert (cell["value"], cell["status"], cell["run_id"]) == (None, "n.e.", None)
    assert cell["reason"] == f"reference {said}"
    row = reference_audit["restless_bandit", "restless_q_learning"]
    assert (row["value"], row["run_id"], row["fills_cell"]) == (None, None, True)
    assert row["reason"].startswith(f"{said}. Printed is 550 of 800")


def test_a_cell_without_an_agent_says_what_it_waits_for(reference_cells):
    waiting = {mode_id: cell["reason"] for mode_id, cell in reference_cells.items()}
    assert waiting["shj_categories"] == "needs Psych-101, which is on the hub"
    assert all(waiting[mode_id] for mode_id in waiting if mode_id != "instrumental_learning")


def test_a_printed_reference_says_why_it_cannot_be_met(lake):
    rows = query(lake, "select * from audit_published_cells where column_id = 'reference'")
    by_mode = {row["mode_id"]: row for row in rows}
    # twelve in the excerpt of Table 3, four elsewhere in the document
    assert len(by_mode) == 12 + 4
    assert "598 +- 20" in by_mode["restless_bandit"]["reason"]
    assert "not public" in by_mode["mouselab_autonomous"]["reason"]
    assert "67.40 +- 0.79" in by_mode["stationary_bandits"]["reason"]
    assert "not published" in by_mode["wcst_autonomous"]["reason"]


def test_every_reference_cell_is_audited(lake, reference_audit):
    assert [row["mode_id"] for row in query(lake, "select mode_id from s1cogbench_references")] == list(
        modes()
    )
    assert {mode_id for mode_id, _ in reference_audit} == set(modes())
    for (mode_id, _), row in reference_audit.items():
        assert row["target"] and row["aggregation"] and row["kind"], mode_id
        assert row["agrees"] is True or row["reason"], mode_id
    printed = reference_audit["restless_bandit", "restless_q_learning"]
    assert (printed["printed"], printed["value_published"], printed["n_published"]) == ("68.8", 68.75, 800)
