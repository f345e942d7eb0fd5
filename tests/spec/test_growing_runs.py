"""Runs that grow batch by batch: what counts of them, that pieces of episodes are scored as whole ones, what
they are short of, and which columns and drift they make."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pytest import approx
from support import built, copy_lake, query

from generate.pipeline import ensure_items, generate, plan
from generate.schedule import load_agents, load_schedules
from store import lake as raw
from store.build import build
from store.errors import WrongUsage
from store.export import export_table3
from store.lake import append, commit, commit_batch, open_run, part_paths
from store.schemas import OUTPUT_OPTIONS, OUTPUTS, PROMPTS, RUNS, STEPS
from store.settings import Home

Row = dict[str, Any]

PLAYED = {
    "restless_bandit": "restless_bandit",
    "instrumental_learning": "instrumental_learning",
    "wcst_autonomous": "wcst",
    "bart": "bart",
    "two_step": "two_step",
    "temporal_discounting": "temporal_discounting",
}
ADAPTIVE = "temporal_discounting"
URNS = "bayesian_urn"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
N_ASKED = 60


def start(lake: Home, run_id: str, mode_id: str, **columns: Any) -> None:
    """Open a run of a model."""
    identity = json.dumps({"run": columns.pop("identity", run_id)} | columns.pop("also", {}))
    row = {
        "run_id": run_id,
        "kind": "model",
        "model_id": "hub/model",
        "model_revision": "0123456789abcdef0123456789abcdef01234567",
        "agent_kind": "language_model",
        "planned_modes": [mode_id],
        "protocol": "chat",
        "repeat": 0,
        "identity_sha256": identity,
        "identity_json": identity,
        "source_id": PLAYED.get(mode_id, mode_id),
        "importer_version": load_schedules()[PLAYED.get(mode_id, mode_id)].version,
        "notes": [],
    } | columns
    open_run(lake, pa.Table.from_pylist([row], RUNS))


def grow(lake: Home, run_id: str, started_at: datetime = NOON, **tables: Sequence[Row] | pa.Table) -> None:
    """Commit one batch."""
    schemas = {"outputs": OUTPUTS, "output_options": OUTPUT_OPTIONS, "steps": STEPS, "prompts": PROMPTS}
    rows = [
        (name, table if isinstance(table, pa.Table) else pa.Table.from_pylist(list(table), schemas[name]))
        for name, table in tables.items()
    ]
    commit_batch(lake, run_id, rows, n_requests=1, environment={"device": "a test"}, started_at=started_at)


def steps_of(lake: Home, run_id: str) -> pa.Table:
    paths = [str(path) for path in part_paths(lake, "steps") if path.parent.name == f"run={run_id}"]
    return ds.dataset(paths, schema=STEPS).to_table()


def as_run(steps: pa.Table, run_id: str) -> pa.Table:
    return steps.set_column(0, STEPS.field("run_id"), pa.repeat(run_id, steps.num_rows))


def first_steps(steps: pa.Table, share: float) -> pa.Table:
    """Return what a run has that was stopped: all episodes step together."""
    last = int(pc.max(steps["step_index"]).as_py() * share)
    return steps.filter(pc.field("step_index") <= last)


def pieces(steps: pa.Table, n: int) -> list[pa.Table]:
    """Cut decisions into batches: of every episode a few in each, in any order."""
    rng = random.Random("pieces")
    order = list(range(steps.num_rows))
    rng.shuffle(order)
    cuts = [0, *sorted(rng.sample(order, n - 1)), steps.num_rows]
    return [steps.take(order[low:high]) for low, high in pairwise(cuts)]


def urn_answers(lake: Home, run_id: str) -> list[Row]:
    """Answer some questions in words: the right number, another one, several, none."""
    items = query(lake, "select item_id, target from stg_items where source_id = $1 order by item_id", URNS)
    said = (
        lambda right: f"The probability is {right:.4f}.",
        lambda right: f"{100 * right:.0f}%",
        lambda right: f"{right:.4f} or 0.123",
        lambda right: "I cannot say",
        lambda right: f"{right:.4f}",
    )
    return [
        {
            "run_id": run_id,
            "mode_id": URNS,
            "item_id": item["item_id"],
            "episode_id": item["item_id"].rpartition("/")[0],
            "response_text": said[i % len(said)](item["target"]),
            "status": "ok",
        }
        for i, item in enumerate(items[:N_ASKED])
    ]


@dataclass(frozen=True)
class Grown:
    """A lake with runs that grew, built once."""

    lake: Home
    uniform: dict[str, str]  # mode -> run of the agent that played it all


def n_episodes(mode_id: str) -> int:
    schedule = load_schedules()[PLAYED[mode_id]]
    return len(schedule.environment().episodes(schedule.seeds.range))


def model_runs(lake: Home, uniform: dict[str, str]) -> None:
    for mode_id, run_id in uniform.items():
        steps = steps_of(lake, run_id)
        also = {"also": {"n_episodes": n_episodes(mode_id)}}
        start(lake, f"whole-{mode_id}", mode_id, **also)
        for piece in pieces(steps, 4):
            grow(lake, f"whole-{mode_id}", steps=as_run(piece, f"whole-{mode_id}"))
        start(lake, f"half-{mode_id}", mode_id, model_id="half", **also)
        for piece in pieces(first_steps(steps, 0.5), 3):
            grow(lake, f"half-{mode_id}", steps=as_run(piece, f"half-{mode_id}"))
        # a part of a batch whose writer died before the batch was named
        append(lake, "steps", as_run(steps.slice(0, 5), f"half-{mode_id}"), f"half-{mode_id}")
    # runs that do not say how often they play, or which steps are the last
    steps = as_run(steps_of(lake, uniform[ADAPTIVE]), "uncounted")
    start(lake, "uncounted", ADAPTIVE, model_id="uncounted")
    grow(lake, "uncounted", steps=steps)
    position = STEPS.get_field_index("is_last")
    unsaid = steps.set_column(position, STEPS.field("is_last"), pa.nulls(steps.num_rows, pa.bool_()))
    start(lake, "unsaid", ADAPTIVE, model_id="unsaid", also={"n_episodes": n_episodes(ADAPTIVE)})
    grow(lake, "unsaid", steps=as_run(unsaid, "unsaid"))
    start(lake, "opened", "two_step", model_id="opened")
    append(lake, "steps", as_run(steps_of(lake, uniform["two_step"]).slice(0, 5), "opened"), "opened")
    start(
        lake, "urns", URNS, model_id="urns", model_revision="sha256:fedcba9876543210", protocol="plain, text"
    )
    answers = urn_answers(lake, "urns")
    grow(lake, "urns", outputs=answers[:20])
    grow(lake, "urns", outputs=answers[20:])
    # the score of legal reports is one minus their error, also where some questions have no answer
    start(lake, "legal", URNS, model_id="legal")
    grow(lake, "legal", outputs=urn_answers(lake, "legal")[::5])
    start(lake, "refused", URNS, model_id="refused")
    refusals = [
        {"status": "too_long", "status_reason": "9,000 tokens"},
        {"status": "error", "status_reason": "the server is gone"},
        {"response_text": "1e999"},
    ]
    said = urn_answers(lake, "refused")
    grow(
        lake,
        "refused",
        outputs=[row | {"response_text": None} | how for row, how in zip(said, refusals, strict=False)],
    )
    # a server need not say which weights it has loaded
    start(lake, "served", URNS, model_id="served", model_revision="")
    grow(lake, "served", outputs=urn_answers(lake, "served"))


def import_log(lake: Home, run_id: str, repeat: int, started_at: datetime | None) -> None:
    """Commit answers to some questions as those of a log that was imported."""
    run = {
        "run_id": run_id,
        "kind": "archived",
        "model_id": "logged",
        "agent_kind": "language_model",
        "planned_modes": [URNS],
        "source_id": URNS,
        "importer_version": 1,
        "repeat": repeat,
        "started_at": started_at,
        "notes": [],
    }
    answers = pa.Table.from_pylist(urn_answers(lake, run_id), OUTPUTS)
    commit(lake, run_id, [("outputs", answers)], pa.Table.from_pylist([run], RUNS))


def imported_logs(lake: Home) -> None:
    import_log(lake, "log-a", 0, NOON)
    import_log(lake, "log-b", 1, NOON + timedelta(days=1))
    import_log(lake, "log-c", 0, NOON + timedelta(days=1))


def drifting_runs(lake: Home, uniform: dict[str, str]) -> None:
    steps = as_run(steps_of(lake, uniform["restless_bandit"]).slice(0, 200), "again")
    flipped = pa.array(["1" if row == "0" else "0" for row in steps["action"].slice(0, 7).to_pylist()])
    position = STEPS.get_field_index("action")
    action = pa.chunked_array([flipped, *steps["action"].slice(7).chunks])
    start(lake, "once", "restless_bandit", model_id="drifting", identity="drift")
    start(lake, "again", "restless_bandit", model_id="drifting", identity="drift", repeat=3)
    grow(lake, "once", steps=as_run(steps.slice(0, 150), "once"))
    changed = steps.set_column(position, STEPS.field("action"), action)
    grow(lake, "again", NOON + timedelta(days=1), steps=changed)


@pytest.fixture(scope="module")
def grown(tmp_path_factory, empty_lake, project) -> Grown:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("grown") / "lake")
    schedules = load_schedules()
    tasks = plan(lake, [load_agents()["uniform"]], schedules, PLAYED)
    generate(lake, tasks)
    ensure_items(lake, schedules[URNS])
    # items are read back for the answers
    built(lake, project)
    uniform = {task.mode_id: task.run_id for task in tasks}
    model_runs(lake, uniform)
    drifting_runs(lake, uniform)
    imported_logs(lake)
    built(lake, project)
    return Grown(lake, uniform)


def metrics_of(lake: Home, run_id: str) -> dict[str, Row]:
    return {row["metric"]: row for row in query(lake, "select * from metrics where run_id = $1", run_id)}


def cell(lake: Home, column_id: str, mode_id: str) -> Row:
    [row] = query(lake, "select * from table_3 where column_id = $1 and mode_id = $2", column_id, mode_id)
    return row


COLUMN = "hub/model@01234567 (chat)"
COUNTS = ("n_planned", "n_scored", "n_unparsed", "n_error", "n_clusters")


# ---- pieces of episodes ----


@pytest.mark.parametrize("mode_id", PLAYED)
def test_a_run_that_grew_in_pieces_is_scored_as_one_that_was_written_at_once(grown, mode_id):
    expected = metrics_of(grown.lake, grown.uniform[mode_id])
    found = metrics_of(grown.lake, f"whole-{mode_id}")
    assert found.keys() == expected.keys()
    for metric, row in found.items():
        assert {name: row[name] for name in COUNTS} == {name: expected[metric][name] for name in COUNTS}, (
            metric
        )
        assert row["value"] == expected[metric]["value"], metric
        assert row["se"] == expected[metric]["se"], metric
    assert cell(grown.lake, COLUMN, mode_id)["status"] == "complete"


def test_a_run_is_scored_under_one_name_however_many_parts_it_has(grown):
    [row] = query(
        grown.lake,
        "select count(distinct part_id) as n_parts, count(distinct scored_as) as n_names from stg_parts "
        "where run_id = 'whole-bart' and raw_table = 'steps'",
    )
    assert row == {"n_parts": 4, "n_names": 1}
    [row] = query(
        grown.lake, "select count(distinct part_id) as n from int_scored where run_id = 'whole-bart'"
    )
    assert row == {"n": 1}


# ---- what they are short of ----


@pytest.mark.parametrize("mode_id", [mode for mode in PLAYED if mode != ADAPTIVE])
def test_a_run_that_broke_off_is_planned_in_full_and_has_no_value(grown, mode_id):
    whole = metrics_of(grown.lake, grown.uniform[mode_id])
    half = metrics_of(grown.lake, f"half-{mode_id}")
    primary = query(
        grown.lake, "select metric from s1cogbench_metrics where mode_id = $1 and is_primary", mode_id
    )[0]["metric"]
    assert half[primary]["n_planned"] == whole[primary]["n_planned"]
    for metric, row in half.items():
        assert row["value"] is None, metric
        assert row["n_scored"] < row["n_planned"], metric
        assert row["n_scored"] + row["n_unparsed"] + row["n_error"] == row["n_planned"], metric
    # where the length of an episode is declared, it says so itself
    assert "planned rows have no answer" in half[primary]["reason"] or "trials of" in half[primary]["reason"]
    [found] = query(
        grown.lake,
        "select status, value_scored, n_error from table_3 where run_id = $1",
        f"half-{mode_id}",
    )
    assert (found["status"], found["value_scored"]) == ("part.", half[primary]["value_scored"])
    assert found["n_error"] == whole[primary]["n_planned"] - half[primary]["n_scored"]


def test_a_trial_that_is_not_over_is_none(grown):
    half = first_steps(steps_of(grown.lake, grown.uniform["bart"]), 0.5)
    n_over = pc.sum(half["is_rewarded"]).as_py()
    n_begun = half.select(["episode_id", "trial"]).group_by(["episode_id", "trial"]).aggregate([]).num_rows
    assert n_over < n_begun
    pumps = metrics_of(grown.lake, "half-bart")["mean_pumps"]
    assert (pumps["n_scored"], pumps["n_planned"]) == (n_over, 450)


def test_an_adaptive_run_is_short_of_the_episodes_that_are_not_over(grown):
    steps = steps_of(grown.lake, grown.uniform[ADAPTIVE])
    n = pc.count_distinct(steps["episode_id"]).as_py()
    last = {row["episode_id"]: row["step_index"] for row in steps.to_pylist()}
    half = first_steps(steps, 0.5)
    n_over = sum(last[row["episode_id"]] == row["step_index"] for row in half.to_pylist())
    assert n == n_episodes(ADAPTIVE) and n_over < n
    [row] = metrics_of(grown.lake, f"half-{ADAPTIVE}").values()
    assert row["value"] is None and row["value_scored"] is not None
    assert row["n_error"] == row["n_planned"] - row["n_scored"] == n - n_over
    assert row["reason"] == f"{n - n_over} of {n} episodes are not over"


@pytest.mark.parametrize("run_id", ["uncounted", "unsaid"])
def test_a_run_that_does_not_say_whether_an_adaptive_task_was_played_to_its_end_has_no_value(grown, run_id):
    [row] = metrics_of(grown.lake, run_id).values()
    assert row["value"] is None
    assert row["n_error"] == row["n_planned"] - row["n_scored"] == 1
    assert row["reason"] == "answers decide what is asked next, and nothing says whether all was asked"


def test_an_agent_that_played_it_all_has_every_value(grown):
    for run_id in grown.uniform.values():
        reasons = {metric: row["reason"] for metric, row in metrics_of(grown.lake, run_id).items()}
        # an agent that is not asked how sure it is reports nothing
        confident = ("mean_confidence", "quadratic_score", "adjusted_quadratic_score")
        assert {metric: reason for metric, reason in reasons.items() if metric not in confident} == {
            metric: None for metric in reasons if metric not in confident
        }


def test_a_run_without_a_batch_is_not_finished_and_what_its_writer_left_does_not_count(grown):
    found = cell(grown.lake, "opened@01234567 (chat)", "two_step")
    assert (found["status"], found["printed"], found["reason"]) == (
        "n.f.",
        "n.f.",
        "the run has no answer yet that counts",
    )
    assert (found["run_id"], found["n_planned"]) == ("opened", 0)
    assert query(grown.lake, "select * from stg_steps where run_id = 'opened'") == []
    # nor does what a writer left beside batches
    n_rows = first_steps(steps_of(grown.lake, grown.uniform["bart"]), 0.5).num_rows
    assert len(query(grown.lake, "select 1 from stg_steps where run_id = 'half-bart'")) == n_rows


# ---- answers in words ----


def test_reports_in_words_are_read_and_what_was_not_asked_is_planned(grown):
    found = metrics_of(grown.lake, "urns")
    n_items, n_of_each = 400, N_ASKED // 5
    for metric in ("posterior_mae", "posterior_score"):
        row = found[metric]
        assert (row["n_planned"], row["value"]) == (n_items, None)
        assert row["n_error"] == n_items - N_ASKED
    # the second in five says a percentage, the third two numbers, the fourth none
    assert found["posterior_mae"]["n_scored"] == 2 * n_of_each
    assert found["posterior_mae"]["n_unparsed"] == 3 * n_of_each
    assert found["posterior_mae"]["value_scored"] == approx(0, abs=1e-4)
    # where a number outside the support is moved to its edge, a percentage has a score
    assert (found["posterior_score"]["n_scored"], found["posterior_score"]["n_unparsed"]) == (
        3 * n_of_each,
        2 * n_of_each,
    )
    reasons = query(
        grown.lake,
        "select status_reason as reason, count(*) as n from int_scored__report_error "
        "where run_id = 'urns' group by all order by all",
    )
    assert {row["reason"]: row["n"] for row in reasons} == {
        "no finite report from 0.0 to 1.0": n_of_each,
        "the answer holds no number": n_of_each,
        "the answer holds several numbers, or one that can be read in several ways": n_of_each,
        None: 2 * n_of_each,
    }


@pytest.mark.parametrize("metric", ["posterior_mae", "posterior_score", "posterior_score_trimmed"])
def test_a_report_that_was_refused_or_is_infinite_is_counted_by_why(grown, metric):
    found = metrics_of(grown.lake, "refused")[metric]
    n_planned = found["n_planned"]
    counts = {name: found[name] for name in ("n_scored", "n_too_long", "n_unparsed", "n_error")}
    assert counts == {"n_scored": 0, "n_too_long": 1, "n_unparsed": 1, "n_error": n_planned - 2}


def test_an_imported_log_of_some_questions_is_planned_in_full(grown):
    own, imported = (metrics_of(grown.lake, run_id) for run_id in ("urns", "log-a"))
    for metric, row in imported.items():
        assert row["value"] is None
        assert row["n_planned"] == own[metric]["n_planned"], metric
        assert row["n_error"] == own[metric]["n_error"] == 400 - N_ASKED, metric


def test_of_logs_of_one_model_the_newest_fills_the_cell_and_of_its_repeats_the_first(grown):
    assert cell(grown.lake, "logged", URNS)["run_id"] == "log-c"


def test_estimators_that_are_no_means_are_short_of_the_same_questions(grown):
    found = metrics_of(grown.lake, "urns")
    for metric in ("prior_weight", "likelihood_weight", "posterior_score_trimmed"):
        row = found[metric]
        assert row["value"] is None
        assert row["value_scored"] is not None
        assert row["n_error"] == 400 - N_ASKED
        assert "planned rows have no answer" in row["reason"]
    half = metrics_of(grown.lake, "half-two_step")["stay_interaction"]
    assert (half["value"], half["value_scored"] is None) == (None, False)
    assert half["n_error"] == metrics_of(grown.lake, "half-two_step")["mean_reward"]["n_error"]


# ---- columns ----


def test_a_column_is_a_model_at_a_revision_under_a_protocol(grown):
    columns = query(
        grown.lake, "select distinct column_id, model_id from table_3 where column_kind = 'model'"
    )
    assert {row["column_id"]: row["model_id"] for row in columns} == {
        COLUMN: "hub/model",
        "half@01234567 (chat)": "half",
        "opened@01234567 (chat)": "opened",
        "urns@fedcba98 (plain, text)": "urns",
        "drifting@01234567 (chat)": "drifting",
        "uncounted@01234567 (chat)": "uncounted",
        "unsaid@01234567 (chat)": "unsaid",
        "legal@01234567 (chat)": "legal",
        "refused@01234567 (chat)": "refused",
        "served (chat)": "served",
        "logged": "logged",
    }


@pytest.mark.parametrize("wanted", ["hub/model", COLUMN, "hub/*", "*@01234567 (chat)", "*model"])
def test_a_model_is_exported_by_its_name_its_column_or_a_pattern_of_either(grown, wanted):
    import duckdb

    with duckdb.connect(str(grown.lake.database), read_only=True) as con:
        headers = export_table3(con, [wanted]).headers
        assert COLUMN in headers
        with pytest.raises(WrongUsage, match="did you mean hub/model"):
            export_table3(con, ["hub/modle"])


def test_a_run_that_grows_starts_and_ends_with_its_batches(grown):
    [row] = query(grown.lake, "select started_at, finished_at from stg_runs where run_id = 'whole-bart'")
    assert row["started_at"] == NOON
    assert row["finished_at"] > NOON + timedelta(days=1)


# ---- drift ----


def test_a_repeated_run_is_compared_decision_by_decision(grown):
    found = query(grown.lake, "select * from audit_drift")
    assert found == [
        {
            "model_id": "drifting",
            "mode_id": "restless_bandit",
            "baseline_run_id": "once",
            "baseline_repeat": 0,
            "run_id": "again",
            "repeat": 3,
            "n_compared": 150,
            "n_flips": 7,
            "n_only_in_one": 200 - 150,
            "max_abs_logprob_difference_nats": None,
        }
    ]


def test_a_repeated_run_takes_no_cell_from_the_first(grown):
    assert cell(grown.lake, "drifting@01234567 (chat)", "restless_bandit")["run_id"] == "once"


# ---- builds ----


@pytest.fixture(scope="module")
def continued(tmp_path_factory, grown, project) -> tuple[Home, set[tuple[str, str]], set[tuple[str, str]]]:
    """The lake after the half run of balloons went on to its end; names of scores before and after."""
    lake = copy_lake(grown.lake, tmp_path_factory.mktemp("continued") / "lake")

    def names() -> set[tuple[str, str]]:
        rows = query(lake, "select distinct run_id, part_id from int_scored")
        return {(row["run_id"], row["part_id"]) for row in rows}

    before = names()
    steps = steps_of(lake, grown.uniform["bart"])
    left = steps.filter(pc.field("step_index") > int(pc.max(steps["step_index"]).as_py() * 0.5))
    grow(lake, "half-bart", steps=as_run(left, "half-bart"))
    built(lake, project)
    return lake, before, names()


def test_a_run_that_went_on_equals_an_unbroken_one(grown, continued):
    lake, _, _ = continued
    unbroken = metrics_of(lake, "whole-bart")
    for metric, row in metrics_of(lake, "half-bart").items():
        assert row["value"] == unbroken[metric]["value"] is not None
        assert row["se"] == unbroken[metric]["se"]
        assert row["n_planned"] == unbroken[metric]["n_planned"]


def test_a_batch_more_scores_its_own_run_anew_and_no_other(continued):
    _, before, after = continued
    changed = before ^ after
    assert {run_id for run_id, _ in changed} == {"half-bart"}
    assert len(changed) == 2


def test_what_is_wrong_with_a_batch_or_a_prompt_fails_the_build(tmp_path, continued, project):
    lake = copy_lake(continued[0], tmp_path / "lake")
    prompt = {"run_id": "urns", "text": "<s><s>Say.", "token_ids": [1, 1, 2], "n_leading_bos": 2}
    others = [
        prompt | {"prompt_sha256": "right", "n_leading_bos": 1, "n_declared_bos": 1},
        # where only a server knows, nothing is claimed
        prompt
        | {"prompt_sha256": "unknown", "token_ids": None, "n_leading_bos": None, "n_declared_bos": None},
    ]
    grow(lake, "urns", prompts=[prompt | {"prompt_sha256": "twice", "n_declared_bos": 1}, *others])
    steps = raw.batch_parts(lake, "whole-two_step", "steps")[0]
    steps.unlink()
    # which of two logs counts would be chance where neither says when it was made
    import_log(lake, "log-d", 0, None)
    import_log(lake, "log-e", 0, None)
    report = build(lake, project)
    failed = {failure.name for failure in report.failures}
    assert failed == {
        "prompts_begin_as_their_model_declares",
        "committed_parts_are_there_stg_parts_",
        "one_run_per_archived_cell_stg_parts_",
    }
