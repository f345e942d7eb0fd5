"""CogniScore from planted raw rows: what makes it, all that withholds it, and who is told apart."""

import csv
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import statistics_oracles as oracle
import statsmodels.api as sm
from pytest import approx
from scipy import stats
from statistics_oracles import Answered
from support import ROOT, built, copy_lake, copy_project, query, relation_hash

from store.lake import commit
from store.schemas import ITEMS, OUTPUT_OPTIONS, OUTPUTS, RUNS, VERDICTS
from store.settings import Home

Row = dict[str, Any]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
GRADER = "reasoning_core"
RELATIONS = (
    "cognirank_scores",
    "cogniscore",
    "cogniscore_ranks",
    "cogniscore_pairs",
    "int_cognirank_replicates",
)
MODELS = [
    f"{name},resource_type:{kind}"
    for name in ("+cogniscore_ranks", "cogniscore", "cognirank_scores")
    for kind in ("seed", "model")
]


def scored(lake: Home, project: Path, **choices: Any) -> None:
    """Build what CogniScore comes from, without the tests of a whole lake, which refuse some of these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_INDIRECT_SELECTION", "empty")
        built(lake, project, select=MODELS, **choices)


def manifest(name: str, project: Path = ROOT) -> list[dict[str, str]]:
    with (project / "manifests" / f"cognirank_{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def edit(project: Path, name: str, change: Callable[[dict[str, str]], Mapping[str, object]]) -> None:
    """Change columns of each row of a manifest."""
    rows = manifest(name, project)
    with (project / "manifests" / f"cognirank_{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **change(row)} for row in rows)


COMPONENTS = {row["component_id"]: row for row in manifest("components")}
DATASETS = {row["dataset_id"]: row for row in manifest("datasets")}
GRADER_VERSION = next(row["grader_version"] for row in manifest("metrics") if row["grader_version"])


# ---- what is planted ----


@dataclass(frozen=True)
class Questions:
    """The items of one data set: parts, groups and weights, in the order of the items."""

    dataset_id: str
    strata: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def component(self) -> Mapping[str, str]:
        return COMPONENTS[DATASETS[self.dataset_id]["component_id"]]

    def item_id(self, place: int) -> str:
        return f"{self.dataset_id}/{place:04}"

    def weight(self, place: int) -> float:
        return self.weights[place] if self.weights else 1.0

    def answered(self, values: Sequence[float]) -> list[Answered]:
        """What an oracle needs to know of answers with these values."""
        return [
            Answered(
                value,
                self.weight(place),
                self.strata[place],
                self.clusters[place] if self.clusters else None,
            )
            for place, value in enumerate(values)
        ]

    def rows(self) -> list[Row]:
        return [self._row(place) for place in range(len(self.strata))]

    def _row(self, place: int) -> Row:
        facts: dict[str, object] = {"format": "word"}
        if self.component["stratum_fact"]:
            facts[self.component["stratum_fact"]] = int(self.strata[place])
        if self.component["cluster_fact"]:
            facts[self.component["cluster_fact"]] = self.clusters[place]
        row = {
            "item_id": self.item_id(place),
            "mode_id": self.dataset_id,
            "source_id": DATASETS[self.dataset_id]["source_id"],
            "prompt": f"question {place}",
            "facts_json": json.dumps(facts),
            "weight": self.weight(place),
        }
        match self.component["component_id"]:
            case "ttm":
                return row | {"legal_options": ["a", "b", "c", "d"], "credited_options": ["a"]}
            case "procedural_pile":
                return row
            case _:
                return row | {"credited_options": ["right"]}


def run_row(run_id: str, kind: str, dataset_id: str, **columns: Any) -> pa.Table:
    row = {
        "run_id": run_id,
        "kind": kind,
        "model_id": "none",
        "agent_kind": "none",
        "planned_modes": [dataset_id],
        "source_id": DATASETS[dataset_id]["source_id"],
        "notes": [],
        "started_at": NOON,
    }
    return pa.Table.from_pylist([row | columns], RUNS)


def plant_items(lake: Home, questions: Questions, rows: Sequence[Row] | None = None, **columns: Any) -> None:
    """Commit the items of a data set, as an import of the declared file does."""
    run_id = f"items-{columns.get('source_id', questions.dataset_id)}-{questions.dataset_id}"
    declared = questions.component["source_sha256"] or hashlib.sha256(run_id.encode()).hexdigest()
    items = pa.Table.from_pylist(questions.rows() if rows is None else list(rows), ITEMS)
    run = run_row(run_id, "items", questions.dataset_id, **({"source_sha256": declared} | columns))
    commit(lake, run_id, [("items", items)], run)


def options_of(value: float) -> dict[str, float]:
    """Log-probabilities of four options of equal length, of which the first has this share of the maximum."""
    n_best = round(1 / value) if value else 0
    return {
        option: -1.0 if (place < n_best if value else place == 1) else -9.0
        for place, option in enumerate("abcd")
    }


@dataclass(frozen=True)
class Answers:
    """What one model answered to one data set: the share of the credit of each item.

    Attributes
    ----------
    outputs, verdicts
        Columns to change, by place of the item; None leaves the row out.
    again, graded_again
        Places whose answer, or verdict, is there a second time.
    grader_version
        Whose verdicts they are.
    """

    questions: Questions
    values: Sequence[float]
    outputs: Mapping[int, Row | None] = field(default_factory=dict)
    verdicts: Mapping[int, Row | None] = field(default_factory=dict)
    options: Mapping[int, Row] = field(default_factory=dict)
    again: tuple[int, ...] = ()
    graded_again: tuple[int, ...] = ()
    grader_version: str = GRADER_VERSION
    columns: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    def tables(self, run_id: str) -> list[tuple[str, pa.Table]]:
        component = self.questions.component["component_id"]
        outputs, options, verdicts = [], [], []
        for place in [*range(len(self.values)), *self.again]:
            value, said = self.values[place], self.outputs.get(place, {})
            if said is None:
                continue
            key = {
                "run_id": run_id,
                "item_id": self.questions.item_id(place),
                "mode_id": self.questions.dataset_id,
                "episode_id": self.questions.item_id(place),
            }
            text = None if component == "ttm" else "right" if value else "wrong"
            outputs.append({**key, "response_text": text, "status": "ok", **said})
            if component == "ttm":
                options += [
                    {**key, "option_index": index, "option": option, "logprob_nats": nats}
                    | {"n_tokens": 2, "n_characters": 1, "n_bytes": 1, "is_merged": False, "status": "ok"}
                    | self.options.get(place, {})
                    for index, (option, nats) in enumerate(options_of(value).items())
                ]
            found = self.verdicts.get(place, {})
            if component == "procedural_pile" and found is not None and place not in self.again:
                verdicts += [
                    {**key, "grader_id": GRADER, "grader_version": self.grader_version, "answer_rule": rule}
                    | {"verdict": value, "status": "ok", **found}
                    for rule in ("raw-v1", "answer-tags-v1", "last-line-v1")
                ] * (2 if place in self.graded_again else 1)
        planted = [("outputs", OUTPUTS, outputs), ("output_options", OUTPUT_OPTIONS, options)]
        planted.append(("verdicts", VERDICTS, verdicts))
        return [(name, pa.Table.from_pylist(rows, schema)) for name, schema, rows in planted if rows]


def evaluate(lake: Home, evaluation_id: str, components: Sequence[Answers], **evaluation: Any) -> None:
    """Commit one evaluation: a run per component."""
    for number, answers in enumerate(components):
        run_id = f"{evaluation_id}-{answers.questions.dataset_id}-{number}"
        identity = {"evaluation": evaluation | dict(answers.evaluation)}
        columns = {
            "model_id": f"hub/{evaluation_id.partition('-')[0]}",
            "model_revision": "0123456789abcdef0123456789abcdef01234567",
            "agent_kind": "language_model",
            "dtype": "bfloat16",
            "repeat": 0,
            "evaluation_id": evaluation_id,
            "context_effective_tokens": 4096,
            "identity_json": json.dumps(identity),
        }
        run = run_row(run_id, "model", answers.questions.dataset_id, **columns | dict(answers.columns))
        commit(lake, run_id, answers.tables(run_id), run)


def only(rows: list[Row]) -> Row:
    [row] = rows
    return row


def cogniscore(lake: Home, evaluation_id: str) -> Row:
    return only(query(lake, "select * from cogniscore where run_id = $1", evaluation_id))


# ---- the published sizes ----

PUBLISHED = {
    "smolcua": Questions("smolcua", tuple(str(1 + place // 400) for place in range(1200))),
    "marc": Questions("marc", tuple(str(place // 80) for place in range(320))),
    "procedural_pile": Questions(
        "procedural_pile", ("",) * 350, tuple(f"family {place % 55:02}" for place in range(350))
    ),
    "ttm": Questions("ttm", ("",) * 2000),
}


def shares(total: float, n: int) -> list[float]:
    """Return ``n`` values that add up to ``total``: ones, a rest, and zeros."""
    whole = math.floor(total)
    return [1.0] * whole + ([total - whole] if total > whole else []) + [0.0] * (n - math.ceil(total))


# 61.25 and 40 in every part, 37.5 with a reward of a quarter among them, 55.05
FIXTURE = {
    "smolcua": shares(245, 400) * 3,
    "marc": shares(32, 80) * 4,
    "procedural_pile": shares(131.25, 350),
    "ttm": shares(1101, 2000),
}


ABILITIES = {"ada": 0.62, "bob": 0.61, "cid": 0.57, "dot": 0.5, "eve": 0.3}
TWIN = "dot_twin"
FLOAT32 = "float32 where bfloat16 is declared"


def drawn_values(model: str) -> dict[str, list[float]]:
    """Return what a model of some ability scores on every item; graded rewards may be a quarter."""
    rng = np.random.default_rng(sorted(ABILITIES).index(model))
    values = {
        name: (rng.random(len(questions.strata)) < ABILITIES[model]).astype(float).tolist()
        for name, questions in PUBLISHED.items()
    }
    parts = rng.choice([0.25, 1.0], size=350).tolist()
    values["procedural_pile"] = [a * b for a, b in zip(values["procedural_pile"], parts, strict=True)]
    return values


DRAWN = {model: drawn_values(model) for model in ABILITIES}


@pytest.fixture(scope="module")
def fixture_lake(tmp_path_factory, empty_lake, project) -> Home:
    """The document's sizes and manifests as they are."""
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("published") / "lake")
    for questions in PUBLISHED.values():
        plant_items(lake, questions)
    complete = [Answers(PUBLISHED[name], FIXTURE[name]) for name in PUBLISHED]
    evaluate(lake, "fixture", complete)
    for name in PUBLISHED:
        evaluate(lake, f"without_{name}", [each for each in complete if each.questions.dataset_id != name])
    for model, values in {**DRAWN, TWIN: DRAWN["dot"]}.items():
        evaluate(lake, model, [Answers(PUBLISHED[name], values[name]) for name in PUBLISHED])
    extended = {"is_context_extension": True, "deviations": [FLOAT32]}
    evaluate(lake, "deviant", [replace(each, evaluation=extended) for each in complete])
    evaluate(lake, "older", complete, generation_id="of an older protocol")
    built(lake, project)
    return lake


def test_the_fixture_is_the_double_nearest_to_18403_over_380(fixture_lake):
    found = cogniscore(fixture_lake, "fixture")
    assert [found[name] for name in PUBLISHED] == [61.25, 40.0, 37.5, 55.05]
    assert found["cogniscore"] == float(Fraction(18403, 380))
    assert (found["withheld_because"], found["cogniscore_standin"]) == (None, None)
    # rounded display weights would give another number
    printed = {name: float(row["display_weight_pct"]) for name, row in COMPONENTS.items()}
    assert sum(printed[name] * found[name] for name in PUBLISHED) / 100 != approx(
        found["cogniscore"], abs=1e-3
    )


def part_ids(lake: Home, run_id: str) -> str:
    """Return the parts of a run's rows as the history names them, read from the folders."""
    paths = [path for path in lake.raw.glob(f"*/run={run_id}/part-*.parquet") if path.parts[-3] != "runs"]
    return " ".join(sorted({path.stem.removeprefix("part-")[:16] for path in paths}))


def test_the_history_holds_every_score_of_a_component_and_what_went_in(fixture_lake):
    history = query(
        fixture_lake,
        """
        select * from audit_score_history
        where benchmark = 'cognirank'
            and invocation_id = (select arg_max(invocation_id, rowid) from build_log)
        """,
    )
    scores = query(fixture_lake, "select *, dataset_id as mode_id from cognirank_scores")
    found = {(row["run_id"], row["mode_id"], row["metric"]): row for row in history}
    assert len(found) == len(history) == len(scores) > 0
    assert {row["component_id"] for row in scores} == COMPONENTS.keys()
    rules = {(row["component_id"], row["metric"]): row["rule"] for row in manifest("metrics")}
    current = query(fixture_lake, "select distinct rule, scorer_sha from int_scored")
    versions = {row["rule"]: row["scorer_sha"] for row in current}
    assert len(versions) == len(current)
    counts = ("n_planned", "n_scored", "n_unparsed", "n_error", "n_too_long", "n_missing_option")
    kept = ("model_id", "value", "value_scored", *counts, "scorer_sha")
    for score in scores:
        row = found[score["run_id"], score["mode_id"], score["metric"]]
        assert {name: row[name] for name in kept} == {name: score[name] for name in kept}
        assert row["rule"] == rules[score["component_id"], score["metric"]]
        assert row["rule_sha"] == versions[row["rule"]]
        dataset_id = row["mode_id"]
        parts = [part_ids(fixture_lake, run) for run in (row["run_id"], f"items-{dataset_id}-{dataset_id}")]
        assert row["raw_parts_sha256"] == hashlib.sha256("|".join(parts).encode()).hexdigest()


@pytest.mark.parametrize("name", PUBLISHED)
def test_without_one_component_there_is_none_and_it_is_named(fixture_lake, name):
    found = cogniscore(fixture_lake, f"without_{name}")
    assert (found["cogniscore"], found["ci_low"], found["ci_high"]) == (None, None, None)
    assert found["withheld_because"] == f"{name}: no run"
    assert [found[other] is None for other in PUBLISHED] == [other == name for other in PUBLISHED]


@pytest.mark.parametrize("name", PUBLISHED)
def test_standard_errors_are_those_of_parts_and_families(fixture_lake, name):
    found = only(
        query(
            fixture_lake,
            "select * from cognirank_scores "
            "where is_primary and evaluation_id = 'fixture' and component_id = $1",
            name,
        )
    )
    items = PUBLISHED[name].answered(FIXTURE[name])
    assert found["value"] == float(oracle.score(items))
    assert found["se"] == approx(oracle.standard_error(items), rel=1e-12)
    assert found["n_planned"] == found["n_scored"] == len(items)
    assert found["n_clusters"] == (55 if name == "procedural_pile" else len(items))


@pytest.mark.parametrize("name", PUBLISHED)
def test_intervals_of_components_are_those_of_independent_parts(fixture_lake, name):
    rows = query(
        fixture_lake,
        "select * from cognirank_scores "
        "where is_primary and evaluation_id in ('ada', 'eve') and component_id = $1",
        name,
    )
    for row in rows:
        parts = oracle.strata(PUBLISHED[name].answered(DRAWN[row["model_id"].removeprefix("hub/")][name]))
        # Welch's degrees of freedom for the mean of several independent means
        squares = [oracle.standard_error(part) ** 2 for part in parts.values()]
        dfs = [len(oracle.clusters(part)) - 1 for part in parts.values()]
        df = sum(squares) ** 2 / sum(square**2 / n for square, n in zip(squares, dfs, strict=True))
        se = math.sqrt(sum(squares)) / len(parts)
        assert row["se"] == approx(se, rel=1e-9)
        low, high = stats.t.interval(0.95, df, row["value"], se)
        assert (row["ci_low"], row["ci_high"]) == (approx(low, rel=1e-9), approx(high, rel=1e-9))
        assert row["value_count_as_wrong"] == row["value"]


@pytest.mark.parametrize("model", ["ada", "dot", "fixture"])
def test_the_error_of_a_composite_follows_from_its_weights_and_agrees_with_its_bootstrap(fixture_lake, model):
    errors = {
        row["component_id"]: row["se"]
        for row in query(
            fixture_lake, "select * from cognirank_scores where is_primary and evaluation_id = $1", model
        )
    }
    expected = math.hypot(*(oracle.WEIGHTS[name] * errors[name] for name in errors)) / oracle.WEIGHT_SUM
    assert cogniscore(fixture_lake, model)["se"] == approx(expected, rel=1e-12)
    [row] = query(
        fixture_lake, "select replicates from int_cognirank_composites where evaluation_id = $1", model
    )
    # the SD of 2,000 replicates is known to 1.6 %, and a bootstrap of n clusters lacks the factor n / (n - 1)
    assert np.std(row["replicates"]) == approx(expected, rel=0.06)


def test_every_normalisation_and_answer_rule_is_there_and_one_of_each_counts(fixture_lake):
    rows = query(
        fixture_lake,
        "select component_id, metric, is_primary from cognirank_scores "
        "where evaluation_id = 'fixture' order by all",
    )
    assert rows == sorted(
        (
            {
                "component_id": row["component_id"],
                "metric": row["metric"],
                "is_primary": row["is_primary"] == "true",
            }
            for row in manifest("metrics")
        ),
        key=lambda row: (row["component_id"], row["metric"]),
    )


# ---- small manifests, so that one lake holds every fault ----

SMALL = {
    "smolcua": Questions("smolcua", ("1", "1", "2", "2", "3", "3"), weights=(1, 3, 2, 2, 0.5, 1)),
    "marc": Questions("marc", ("0", "0", "1", "1", "2", "2", "3", "3")),
    "procedural_pile": Questions("procedural_pile", ("",) * 6, ("a", "a", "a", "b", "b", "c")),
    "ttm": Questions("ttm", ("",) * 4),
}
STANDIN_OF = {
    row["component_id"]: row["dataset_id"] for row in DATASETS.values() if row["is_stand_in"] == "true"
}
STANDINS = {name: replace(SMALL[name], dataset_id=STANDIN_OF[name]) for name in SMALL}
GOOD = {
    "smolcua": [1, 0, 1, 1, 0, 1],
    "marc": [1, 0, 0, 0, 1, 1, 1, 0],
    "procedural_pile": [1, 0.5, 0, 0.25, 1, 0],
    "ttm": [1, 0.5, 0, 0.25],
}
COMPLETE = {name: Answers(SMALL[name], GOOD[name]) for name in SMALL}


def with_one(name: str, **changes: Any) -> list[Answers]:
    """Return answers to all components, of which one is changed."""
    return [replace(each, **changes) if key == name else each for key, each in COMPLETE.items()]


def small_project(folder: Path) -> Path:
    project = copy_project(folder)
    sizes = {name: len(questions.strata) for name, questions in SMALL.items()}
    edit(project, "components", lambda row: {"n_examples": sizes[row["component_id"]]})
    edit(project, "datasets", lambda row: {"n_examples": sizes[row["component_id"]]})
    return project


NO_TEXT = {"response_text": None}
STANDIN_TTM = Answers(STANDINS["ttm"], GOOD["ttm"])
TWICE = {"smolcua": 1, "marc": 4, "procedural_pile": 2, "ttm": 3}

# evaluation -> its runs, and why there is no CogniScore
FAULTS: dict[str, tuple[list[Answers], str]] = {
    **{
        f"short-{name}": (
            with_one(name, outputs={1: None}),
            f"{name}: {len(GOOD[name]) - 1} of {len(GOOD[name])} items have a score, "
            f"the first without: {name}/0001: no answer",
        )
        for name in SMALL
    },
    **{
        f"twice-{name}": (
            with_one(name, again=(place,)),
            f"{name}: {len(GOOD[name]) - 1} of {len(GOOD[name])} items have a score, "
            f"the first without: {name}/000{place}: answered 2 times",
        )
        for name, place in TWICE.items()
    },
    "failed": (
        with_one("marc", outputs={0: {"status": "too_long", "status_reason": "5,000 tokens"}}),
        "marc: 7 of 8 items have a score, the first without: marc/0000: 5,000 tokens",
    ),
    "limited": (
        with_one("smolcua", outputs={place: None for place in range(2, 6)}),
        "smolcua: 2 of 6 items have a score, the first without: smolcua/0002: no answer",
    ),
    "not_begun": (
        with_one("ttm", outputs={place: None for place in range(4)}),
        "ttm: 0 of 4 items have a score, the first without: ttm/0000: no answer",
    ),
    "nan_verdict": (
        with_one("procedural_pile", verdicts={3: {"verdict": math.nan}}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0003: not_finite",
    ),
    "high_verdict": (
        with_one("procedural_pile", verdicts={3: {"verdict": 1.5}}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0003: error",
    ),
    "timeout": (
        with_one(
            "procedural_pile",
            verdicts={2: {"verdict": None, "status": "timeout", "status_reason": "after 20 s"}},
        ),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0002: timeout",
    ),
    "crash": (
        with_one("procedural_pile", verdicts={0: {"verdict": None, "status": "crash"}}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0000: crash",
    ),
    "older_grader": (
        with_one("procedural_pile", grader_version="0.4.0"),
        "procedural_pile: 0 of 6 items have a score, the first without: procedural_pile/0000: "
        f"no verdict of {GRADER} {GRADER_VERSION} by raw-v1",
    ),
    "not_graded": (
        with_one("procedural_pile", verdicts={5: None}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0005: "
        f"no verdict of {GRADER} {GRADER_VERSION} by raw-v1",
    ),
    "failed_and_graded": (
        with_one(
            "procedural_pile", outputs={1: {"status": "too_long", "status_reason": "5,000 tokens", **NO_TEXT}}
        ),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0001: 5,000 tokens",
    ),
    "graded_another_answer": (
        with_one("procedural_pile", verdicts={0: {"episode_id": "another"}}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0000: "
        f"no verdict of {GRADER} {GRADER_VERSION} by raw-v1",
    ),
    "graded_as_the_stand_in": (
        with_one("procedural_pile", verdicts={0: {"mode_id": "pile_like"}}),
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0000: "
        f"no verdict of {GRADER} {GRADER_VERSION} by raw-v1",
    ),
    "nan_nats": (
        with_one("ttm", options={2: {"logprob_nats": math.nan}}),
        "ttm: 3 of 4 items have a score, the first without: ttm/0002: ",
    ),
    "no_tokens": (
        with_one("ttm", options={2: {"n_tokens": None}}),
        "ttm: 3 of 4 items have a score, the first without: ttm/0002: ",
    ),
    "standin": ([*list(COMPLETE.values())[:3], STANDIN_TTM], "ttm: a stand-in (ttm_like)"),
    "half_standin": (
        [*list(COMPLETE.values())[:3], replace(STANDIN_TTM, outputs={1: None})],
        "ttm: a stand-in (ttm_like), 3 of 4 items have a score, the first without: ttm_like/0001: no answer",
    ),
    "disguised": (
        # a run of the published name over the source of the stand-in
        with_one("ttm", columns={"source_id": "ttm_like"}),
        "ttm: its run names source ttm_like, not ttm",
    ),
    "stray": (
        with_one("marc", outputs={0: {"item_id": "marc/9999"}}),
        "marc: 7 of 8 items have a score, the first without: marc/0000: no answer",
    ),
    "mixed": (
        with_one("ttm", columns={"model_id": "hub/another"}),
        "its runs are not of one model under one protocol",
    ),
    "remote_code_in_part": (
        with_one("ttm", evaluation={"trust_remote_code": True}),
        "its runs are not of one model under one protocol",
    ),
    "alone": (
        [COMPLETE["marc"]],
        "smolcua: no run; procedural_pile: no run; ttm: no run",
    ),
    "all_wrong": (
        [
            replace(COMPLETE["marc"], outputs={7: None}),
            replace(COMPLETE["procedural_pile"], verdicts={1: {"verdict": None, "status": "timeout"}}),
            STANDIN_TTM,
        ],
        "smolcua: no run; marc: 7 of 8 items have a score, the first without: marc/0007: no answer; "
        "procedural_pile: 5 of 6 items have a score, the first without: procedural_pile/0001: timeout; "
        "ttm: a stand-in (ttm_like)",
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return small_project(tmp_path_factory.mktemp("small") / "project")


@pytest.fixture(scope="module")
def faulty_lake(tmp_path_factory, small) -> Home:
    lake = Home(tmp_path_factory.mktemp("faulty") / "lake")
    for questions in (*SMALL.values(), *STANDINS.values()):
        plant_items(lake, questions)
    evaluate(lake, "good", list(COMPLETE.values()))
    for name, (components, _) in FAULTS.items():
        evaluate(lake, name, components)
    evaluate(lake, "standins", [Answers(STANDINS[name], GOOD[name]) for name in SMALL])
    # published data count, whatever came later or has more answers
    begun = replace(COMPLETE["ttm"], outputs={0: None})
    evaluate(lake, "both", [*with_one("ttm", outputs={0: None}), STANDIN_TTM])
    later = {"started_at": NOON + timedelta(days=1)}
    evaluate(lake, "again", [*COMPLETE.values(), replace(begun, columns=later)])
    evaluate(lake, "mended", [*with_one("ttm", outputs={0: None}), replace(COMPLETE["ttm"], columns=later)])
    repeated = replace(COMPLETE["ttm"], values=[0, 0, 0, 0], columns=later | {"repeat": 1})
    evaluate(lake, "repeated", [*COMPLETE.values(), repeated])
    scored(lake, small)
    return lake


def test_runs_that_went_wrong_withhold_their_own_scores_and_warn_and_keep_nobody_elses_back(tmp_path, small):
    lake = Home(tmp_path / "lake")
    for questions in SMALL.values():
        plant_items(lake, questions)
    evaluate(lake, "good", list(COMPLETE.values()))
    evaluate(lake, "twice", with_one("marc", again=(4,)))
    evaluate(lake, "unknown", with_one("procedural_pile", verdicts={0: {"episode_id": "another"}}))
    evaluate(lake, "graded_again", with_one("procedural_pile", graded_again=(2,)))
    # a run that plans the questions of two components is each of them once
    evaluate(lake, "wide", with_one("marc", columns={"planned_modes": ["marc", "ttm"]}))
    report = built(lake, small)
    for check in (
        "each_cognirank_question_is_answered_once",
        "each_answer_is_graded_once",
        "graded_answers_are_there",
    ):
        assert any(check in warning for warning in report.warnings), check
    found = {row["run_id"]: row["cogniscore"] for row in query(lake, "select * from cogniscore")}
    assert found["good"] == found["wide"] is not None
    assert {name for name, score in found.items() if score is None} == {"twice", "unknown", "graded_again"}
    assert cogniscore(lake, "graded_again")["withheld_because"].endswith(": scored 2 times")


def test_scores_of_weighted_items_are_those_of_exact_fractions(faulty_lake):
    found = cogniscore(faulty_lake, "good")
    exact = {name: oracle.score(SMALL[name].answered(GOOD[name])) for name in SMALL}
    assert {name: found[name] for name in SMALL} == approx(
        {name: float(exact[name]) for name in SMALL}, rel=1e-15
    )
    assert found["cogniscore"] == approx(float(oracle.composite(exact)), rel=1e-15)
    assert found["withheld_because"] is None


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_component_withholds_the_score_and_is_said(faulty_lake, name):
    found = cogniscore(faulty_lake, name)
    assert found["cogniscore"] is None
    assert found["withheld_because"].startswith(FAULTS[name][1])
    # sentences end where the reason of an item does
    assert found["withheld_because"].count("; ") >= FAULTS[name][1].count("; ")


def test_a_component_without_a_fault_keeps_its_score_and_one_with_has_none(faulty_lake):
    for name, (components, because) in FAULTS.items():
        found = cogniscore(faulty_lake, name)
        for component in SMALL:
            run = [each for each in components if each.questions.dataset_id == component]
            is_good = bool(run) and f"{component}: " not in because
            assert (found[component] is not None) == is_good, (name, component)


def test_a_stand_in_makes_a_score_of_its_own_and_never_shows_under_the_name_of_its_component(faulty_lake):
    exact = {name: oracle.score(SMALL[name].answered(GOOD[name])) for name in SMALL}
    one, all_four = cogniscore(faulty_lake, "standin"), cogniscore(faulty_lake, "standins")
    assert (one["ttm"], one["standin_datasets"]) == (None, "ttm_like")
    assert one["cogniscore_standin"] == approx(float(oracle.composite(exact)), rel=1e-15)
    assert all_four["standin_datasets"] == ", ".join(STANDIN_OF[name] for name in SMALL)
    assert all_four["cogniscore_standin"] == one["cogniscore_standin"]
    assert [all_four[name] for name in SMALL] == [None] * 4
    assert all_four["withheld_because"] == "; ".join(
        f"{name}: a stand-in ({STANDIN_OF[name]})" for name in SMALL
    )
    assert cogniscore(faulty_lake, "half_standin")["cogniscore_standin"] is None


def test_published_data_count_before_a_stand_in_and_the_newest_run_before_an_older(faulty_lake):
    assert cogniscore(faulty_lake, "both")["withheld_because"].startswith("ttm: 3 of 4 items have a score")
    assert cogniscore(faulty_lake, "both")["cogniscore_standin"] is None
    assert cogniscore(faulty_lake, "again")["withheld_because"].startswith("ttm: 3 of 4 items have a score")
    assert cogniscore(faulty_lake, "mended")["cogniscore"] == cogniscore(faulty_lake, "good")["cogniscore"]
    # a repeat is there to be compared
    assert cogniscore(faulty_lake, "repeated")["cogniscore"] == cogniscore(faulty_lake, "good")["cogniscore"]


def test_counts_add_up_to_what_was_planned(faulty_lake):
    rows = query(faulty_lake, "select * from cognirank_scores")
    assert len(rows) > 4 * len(FAULTS)
    for row in rows:
        kinds = ("n_scored", "n_unparsed", "n_error", "n_too_long", "n_missing_option")
        assert sum(row[kind] for kind in kinds) == row["n_planned"]
        assert (row["value"] is None) == (row["reason"] is not None)
        if row["value"] is not None:
            assert row["value"] == row["value_scored"] and row["n_scored"] == row["n_planned"]


def test_one_strategy_of_reading_may_fail_without_another(faulty_lake):
    # per token there is no length; the sum needs none
    rows = query(
        faulty_lake,
        "select metric, value from cognirank_scores "
        "where evaluation_id = 'no_tokens' and component_id = 'ttm'",
    )
    assert {row["metric"] for row in rows if row["value"] is None} == {"accuracy_per_token"}


# ---- items that are not those of the data set ----


def altered(name: str, place: int, **columns: Any) -> list[Row]:
    rows = SMALL[name].rows()
    rows[place] |= columns
    return rows


OTHER_ITEMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "one_short": ("marc", {"rows": SMALL["marc"].rows()[:7]}, "marc: 7 of 8 items are in the lake"),
    "for_fitting": (
        "marc",
        {"rows": altered("marc", 0, split="train")},
        "marc: 7 of 8 items are in the lake",
    ),
    "one_more": (
        "ttm",
        {"rows": [*SMALL["ttm"].rows(), SMALL["ttm"].rows()[0] | {"item_id": "ttm/new"}]},
        "ttm: the lake holds 5 items, 5 of them different, where 4 are declared",
    ),
    "one_twice": (
        "ttm",
        {"rows": [*SMALL["ttm"].rows()[:3], SMALL["ttm"].rows()[0]]},
        "ttm: the lake holds 4 items, 3 of them different, where 4 are declared",
    ),
    "of_the_stand_in": (
        "ttm",
        {"source_id": "ttm_like"},
        "ttm: 0 of 4 items are in the lake; 4 more go by its name and are of source ttm_like",
    ),
    "one_of_the_stand_in": (
        "ttm",
        {"rows": altered("ttm", 2, source_id="ttm_like")},
        "ttm: 3 of 4 items are in the lake; 1 more go by its name and are of source ttm_like",
    ),
    "of_another_file": (
        "smolcua",
        {"source_sha256": "0" * 64},
        "smolcua: 0 of 6 items are in the lake; 6 more go by its name and are of a file with sha256 "
        f"{'0' * 12}, not 74fb0a12a8dd",
    ),
    "of_no_file": (
        "ttm",
        {"source_sha256": None},
        "ttm: 0 of 4 items are in the lake; 4 more go by its name and are of a file with sha256 unknown, not "
        "58827a036159",
    ),
    "without_weight": (
        "smolcua",
        {"rows": altered("smolcua", 3, weight=0.0)},
        "smolcua: 1 of 6 items have no weight from 0.000001 to 1000000, the first smolcua/0003",
    ),
    "nan_weight": (
        "smolcua",
        {"rows": altered("smolcua", 0, weight=math.nan)},
        "smolcua: 1 of 6 items have no weight from 0.000001 to 1000000, the first smolcua/0000",
    ),
    "without_its_part": (
        "marc",
        {"rows": altered("marc", 0, facts_json="{}")},
        "marc: 1 of 8 items do not say their level",
    ),
    "unreadable_facts": (
        "procedural_pile",
        {"rows": altered("procedural_pile", 0, facts_json="{")},
        "procedural_pile: 1 of 6 items do not say their task",
    ),
    "a_part_too_many": (
        "marc",
        {"rows": altered("marc", 0, facts_json='{"format": "word", "level": 9}')},
        "marc: 5 values of level where 4 are declared",
    ),
    "uneven_parts": (
        "smolcua",
        {"rows": altered("smolcua", 0, facts_json='{"format": "word", "pass": 2}')},
        "smolcua: parts by pass are not of one size: from 1 to 3 items",
    ),
}


def rounds() -> list[dict[str, str]]:
    """Deal the faults out, one per component and lake: a build takes longer than all else."""
    dealt: list[dict[str, str]] = []
    for name, (component, _, _) in OTHER_ITEMS.items():
        free = next((each for each in dealt if component not in each), None)
        if free is None:
            dealt.append(free := {})
        free[component] = name
    return dealt


@pytest.mark.parametrize("faults", rounds(), ids=lambda faults: "-".join(faults.values()))
def test_other_items_than_the_declared_have_no_score(tmp_path, small, faults):
    lake = Home(tmp_path / "lake")
    for component, questions in SMALL.items():
        plant_items(lake, questions, **(OTHER_ITEMS[faults[component]][1] if component in faults else {}))
    evaluate(lake, "good", list(COMPLETE.values()))
    scored(lake, small)
    found = cogniscore(lake, "good")
    reasons = [OTHER_ITEMS[faults[component]][2] for component in SMALL if component in faults]
    assert (found["cogniscore"], found["withheld_because"]) == (None, "; ".join(reasons))
    assert [found[component] is None for component in SMALL] == [component in faults for component in SMALL]
    rows = query(lake, "select n_planned, n_scored + n_error as n from cognirank_scores")
    assert all(row["n"] == row["n_planned"] for row in rows)


def test_an_answer_to_no_item_withholds_the_score_of_a_complete_component(tmp_path, small):
    lake = Home(tmp_path / "lake")
    plant = [questions for name, questions in SMALL.items() if name != "ttm"]
    for questions in plant:
        plant_items(lake, questions)
    # one question is there and for fitting, so what is answered is one more than what was asked
    rows = [*SMALL["ttm"].rows(), SMALL["ttm"].rows()[0] | {"item_id": "ttm/0004", "split": "train"}]
    plant_items(lake, SMALL["ttm"], rows)
    longer = replace(SMALL["ttm"], strata=("",) * 5)
    evaluate(lake, "good", [*list(COMPLETE.values())[:3], Answers(longer, [1, 0, 0, 0, 1])])
    scored(lake, small)
    assert cogniscore(lake, "good")["withheld_because"] == (
        "ttm: 1 answers are to no item of the data set, the first to ttm/0004"
    )


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"weight_numerator": 29}, "the weights add up to 94/95, not to one"),
        ({"weight_denominator": 100}, "the weights have several denominators"),
    ],
    ids=["numerator", "denominator"],
)
def test_weights_that_do_not_add_up_make_no_score(tmp_path, small, change, because):
    project = Path(shutil.copytree(small, tmp_path / "project"))
    edit(project, "components", lambda row: change if row["component_id"] == "smolcua" else {})
    lake = Home(tmp_path / "lake")
    for questions in (*SMALL.values(), STANDINS["ttm"]):
        plant_items(lake, questions)
    evaluate(lake, "good", list(COMPLETE.values()))
    evaluate(lake, "standin", [*list(COMPLETE.values())[:3], STANDIN_TTM])
    scored(lake, project)
    found = cogniscore(lake, "good")
    assert (found["cogniscore"], found["withheld_because"]) == (None, because)
    # components are what they are
    assert all(found[name] is not None for name in SMALL)
    found = cogniscore(lake, "standin")
    assert (found["cogniscore_standin"], found["withheld_because"]) == (
        None,
        f"{because}; ttm: a stand-in (ttm_like)",
    )


# ---- who is told apart ----

# of 2,000 replicates, 2.5 % lie below an end: its standard error is 0.06 of that of the score
CI_TOLERANCE = 4 * math.sqrt(0.025 * 0.975 / 2000) / 0.0584
LEVEL = 0.05
EITHER_OR = ("smolcua", "marc", "ttm")


def answered(model: str, name: str) -> list[Answered]:
    values = FIXTURE if model in ("fixture", "deviant") else DRAWN[model.removesuffix("_twin")]
    return PUBLISHED[name].answered(values[name])


def pair(lake: Home, one: str, another: str, component: str) -> Row:
    """Return a pair as it is stored: the first by name less the other."""
    assert one < another
    sql = "select * from cogniscore_pairs where run_id = $1 and other_run_id = $2 and component_id = $3"
    return only(query(lake, sql, one, another, component))


def exact_composite(model: str) -> float:
    return float(oracle.composite({name: oracle.score(answered(model, name)) for name in PUBLISHED}) or 0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_replicate_is_what_its_named_draws_make(fixture_lake, name):
    for model in ("ada", "fixture"):
        [found] = query(
            fixture_lake,
            "select scores from int_cognirank_replicates where evaluation_id = $1 and component_id = $2",
            model,
            name,
        )
        assert len(found["scores"]) == 2000
        for replicate in (0, 1, 1999):
            expected = oracle.named_replicate(name, answered(model, name), replicate)
            assert found["scores"][replicate] == approx(float(expected), rel=1e-14)


def test_draws_fall_on_every_place_alike():
    drawn = [place for replicate in range(300) for place in oracle.named_draws(f"any/{replicate}", 97)]
    counts = np.bincount(drawn, minlength=98)[1:]
    assert counts.sum() == 300 * 97
    assert stats.chisquare(counts).pvalue > 0.001


def test_intervals_agree_with_a_bootstrap_by_other_draws(fixture_lake):
    rng = np.random.default_rng(4)
    models = ["ada", "bob"]
    boot = {name: oracle.replicates([answered(m, name) for m in models], 4000, rng) for name in PUBLISHED}
    together = sum(oracle.WEIGHTS[name] * boot[name] for name in PUBLISHED) / oracle.WEIGHT_SUM
    for row, model in enumerate(models):
        found = cogniscore(fixture_lake, model)
        ends = np.quantile(together[row], [0.025, 0.975])
        tolerance = CI_TOLERANCE * together[row].std()
        assert [found["ci_low"], found["ci_high"]] == approx(ends, abs=tolerance)
        assert found["ci_low"] < found["cogniscore"] < found["ci_high"]
    for name, replicates in {**boot, "cogniscore": together}.items():
        differences = replicates[0] - replicates[1]
        found = pair(fixture_lake, *models, name)
        ends = np.quantile(differences, [0.025, 0.975])
        assert [found["ci_low"], found["ci_high"]] == approx(ends, abs=CI_TOLERANCE * differences.std())
        if found["method"] == "paired bootstrap":
            p = 2 * min((differences <= 0).mean(), (differences >= 0).mean())
            assert found["p_value"] == approx(p, abs=4 * math.sqrt(2 * p / 2000) + 2 / 2000)


def test_p_of_a_bootstrap_counts_the_replicates_beyond_zero(fixture_lake):
    lists = {
        row["evaluation_id"]: row["scores"]
        for row in query(
            fixture_lake, "select * from int_cognirank_replicates where component_id = 'procedural_pile'"
        )
    }
    for one, another in combinations(sorted([*ABILITIES, TWIN, "fixture"]), 2):
        differences = [a - b for a, b in zip(lists[one], lists[another], strict=True)]
        fewer = min(sum(d <= 0 for d in differences), sum(d >= 0 for d in differences))
        found = pair(fixture_lake, one, another, "procedural_pile")
        assert found["method"] == "paired bootstrap"
        assert found["p_value"] == min(1, 2 * (1 + fewer) / 2001)


def test_right_and_wrong_answers_are_compared_by_the_exact_test(fixture_lake):
    for one, another in combinations(sorted([*ABILITIES, TWIN, "fixture"]), 2):
        for name in EITHER_OR:
            found = pair(fixture_lake, one, another, name)
            values, others = ([item.value for item in answered(model, name)] for model in (one, another))
            assert found["method"] == "exact McNemar"
            assert found["p_value"] == approx(oracle.mcnemar(values, others), rel=1e-9)
            assert found["n_discordant"] == sum(a != b for a, b in zip(values, others, strict=True))
            assert found["n_items"] == len(values)
            exact = oracle.score(answered(one, name)) - oracle.score(answered(another, name))
            assert found["difference"] == approx(float(exact), abs=1e-12)


def test_a_model_and_its_twin_are_one_place(fixture_lake):
    for name in (*PUBLISHED, "cogniscore"):
        found = pair(fixture_lake, "dot", TWIN, name)
        assert (found["difference"], found["p_value"], found["n_discordant"]) == (0, 1, 0)
        assert (found["ci_low"], found["ci_high"]) == (0, 0)
    sql = "select rank, tied_group from cogniscore_ranks where run_id in ('dot', $1)"
    ranks = query(fixture_lake, sql, TWIN)
    assert ranks[0] == ranks[1]


def test_ranks_and_groups_follow_from_scores_and_pairs(fixture_lake):
    models = sorted([*ABILITIES, TWIN, "fixture"], key=lambda model: (-exact_composite(model), model))
    found = query(
        fixture_lake,
        "select * from cogniscore_ranks where run_id not in ('deviant', 'older') order by rank, run_id",
    )
    assert [row["run_id"] for row in found] == models
    scores = [exact_composite(model) for model in models]
    assert [row["score"] for row in found] == approx(scores, rel=1e-14)
    assert [row["rank"] for row in found] == [1 + sum(s > score for s in scores) for score in scores]
    assert {(row["ranked"], row["n_ranked"]) for row in found} == {("cogniscore", len(models))}
    differs = {
        (i, j): pair(fixture_lake, *sorted((models[i], models[j])), "cogniscore")["p_value"] <= LEVEL
        for i, j in combinations(range(len(models)), 2)
    }
    assert True in differs.values() and False in differs.values()
    groups = oracle.tied_groups(len(models), differs)
    assert [row["tied_group"] for row in found] == groups
    for place, row in enumerate(found):
        leader = groups.index(groups[place])
        assert row["leader_run_id"] == (None if leader == place else models[leader])


def test_who_departs_from_the_protocol_is_ranked_apart_and_says_so(fixture_lake):
    found = only(query(fixture_lake, "select * from cogniscore_ranks where run_id = 'deviant'"))
    assert (found["rank"], found["n_ranked"], found["deviations"]) == (1, 1, FLOAT32)
    shown = cogniscore(fixture_lake, "deviant")
    assert (shown["deviations"], shown["is_context_extension"]) == (FLOAT32, True)
    found = only(query(fixture_lake, "select * from cogniscore_ranks where run_id = 'older'"))
    assert (found["rank"], found["n_ranked"], found["deviations"]) == (1, 1, None)
    # the same answers under the protocol are beside it, and compared
    assert shown["cogniscore"] == cogniscore(fixture_lake, "fixture")["cogniscore"]
    assert pair(fixture_lake, "deviant", "fixture", "cogniscore")["is_same_protocol"] is False
    assert pair(fixture_lake, "fixture", "older", "cogniscore")["is_same_protocol"] is False
    assert pair(fixture_lake, "ada", "fixture", "cogniscore")["is_same_protocol"] is True


def test_composites_over_other_data_are_neither_ranked_nor_compared_with_each_other(faulty_lake):
    ranks = {row["run_id"]: row for row in query(faulty_lake, "select * from cogniscore_ranks")}
    complete = {"good", "mended", "repeated"}
    assert {name for name, row in ranks.items() if row["ranked"] == "cogniscore"} == complete
    assert {name for name, row in ranks.items() if row["ranked"] == "cogniscore_standin"} == {
        "standin",
        "standins",
    }
    for name, row in ranks.items():
        assert (row["rank"], row["n_ranked"]) == (1, 3 if name in complete else 1)
    compared = query(faulty_lake, "select * from cogniscore_pairs where component_id like 'cogniscore%'")
    assert {row["run_id"] for row in compared} | {row["other_run_id"] for row in compared} == complete


def test_shares_of_credit_and_unequal_weights_are_compared_by_the_bootstrap(faulty_lake):
    rows = query(faulty_lake, "select distinct component_id, method from cogniscore_pairs")
    # shares in ttm, weights in smolcua, families in the pile
    assert {row["component_id"] for row in rows if row["method"] == "exact McNemar"} == {"marc"}


def test_a_part_with_one_cluster_has_no_standard_error_and_equal_items_have_none_to_show():
    assert oracle.standard_error([Answered(1), Answered(0, stratum="b"), Answered(1, stratum="b")]) is None
    assert oracle.standard_error([Answered(1), Answered(1)]) == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_standard_error_is_that_of_a_regression_on_a_constant(name):
    items = answered("ada", name)
    variance = 0.0
    for part in oracle.strata(items).values():
        groups = [item.cluster or str(place) for place, item in enumerate(part)]
        fit = sm.WLS(
            [item.value for item in part], np.ones(len(part)), weights=[item.weight for item in part]
        ).fit(cov_type="cluster", cov_kwds={"groups": np.unique(groups, return_inverse=True)[1]})
        variance += fit.bse[0] ** 2
    expected = 100 * math.sqrt(variance) / len(oracle.strata(items))
    assert oracle.standard_error(items) == approx(expected, rel=1e-9)


@pytest.mark.parametrize("threads", [1, 4])
def test_every_digit_is_the_same_at_any_number_of_threads(tmp_path, project, fixture_lake, threads):
    lake = copy_lake(fixture_lake, tmp_path / "lake")
    expected = {relation: relation_hash(lake, relation) for relation in RELATIONS}
    project = Path(shutil.copytree(project, tmp_path / "project"))
    profile = project / "profiles.yml"
    profile.write_text(f"{profile.read_text().rstrip()}\n      settings: {{threads: {threads}}}\n")
    scored(lake, project, threads=threads, full_refresh=True)
    assert {relation: relation_hash(lake, relation) for relation in RELATIONS} == expected
