"""Comparing builds, versions and runs, on tables written by hand."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from store import diff_items
from store.diff import Difference, compare
from store.diff_names import Kind, resolve
from store.errors import NothingToExport, WrongUsage

OPEN, CLOSED = "open_source", "closed_source"
TABLES = """
    create table build_log (
        invocation_id varchar, is_full boolean, started_at timestamptz, status varchar
    );
    create table audit_score_history (
        invocation_id varchar, built_at timestamptz, git_sha varchar, project_sha256 varchar,
        manifest_sha256 varchar, raw_sha256 varchar, raw_parts_sha256 varchar, benchmark varchar,
        run_id varchar, model_id varchar, mode_id varchar, metric varchar, value double, value_scored double,
        n_planned bigint, n_scored bigint, n_unparsed bigint, n_error bigint, n_too_long bigint,
        n_missing_option bigint,
        rule varchar, rule_sha varchar, scorer_sha varchar
    );
    create table score_versions (
        run_id varchar, mode_id varchar, episode_id varchar, item_id varchar, step_index integer,
        rule varchar, readout varchar, value double, weight double, status varchar, status_reason varchar,
        part_id varchar,
        scorer_sha varchar, is_current boolean
    );
    create table int_episode_sums (run_id varchar);
    create table int_learning_scored (run_id varchar);
    create table stg_runs (run_id varchar, source_id varchar);
    create table stg_items (item_id varchar, mode_id varchar, source_id varchar, prompt varchar);
    create table stg_prompts (prompt_sha256 varchar, text varchar);
    create table stg_outputs (
        run_id varchar, item_id varchar, mode_id varchar, episode_id varchar, participant_id varchar,
        response_text varchar, response_number double, prompt_sha256 varchar
    );
    create table stg_steps (
        run_id varchar, mode_id varchar, episode_id varchar, step_index integer, response_text varchar,
        action varchar, observation varchar, prompt_sha256 varchar
    );
"""
ROWS: dict[str, dict[str, Any]] = {
    "build_log": {"is_full": True, "status": "success"},
    "audit_score_history": {
        "benchmark": "s1cogbench",
        "run_id": "run",
        "model_id": "model",
        "mode_id": "mode",
        "metric": "accuracy",
        "value": 0.5,
        "value_scored": 0.5,
        "n_planned": 2,
        "n_scored": 2,
        "n_unparsed": 0,
        "n_error": 0,
        "n_too_long": 0,
        "n_missing_option": 0,
        "rule": "choice",
        "rule_sha": "aaaa",
        "scorer_sha": "a1",
        "project_sha256": "p",
        "manifest_sha256": "m",
        "raw_sha256": "r",
        "raw_parts_sha256": "s",
    },
    "score_versions": {
        "run_id": "run",
        "mode_id": "mode",
        "episode_id": "e",
        "item_id": "i",
        "rule": "choice",
        "weight": 1.0,
        "status": "ok",
        "is_current": True,
    },
}


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("set TimeZone = 'UTC'")
        made.execute(TABLES)
        yield made


def add(con: duckdb.DuckDBPyConnection, table: str, **columns: Any) -> None:
    row = ROWS.get(table, {}) | columns
    marks = ", ".join("?" for _ in row)
    con.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))


def add_build(
    con: duckdb.DuckDBPyConnection, name: str, *cells: dict[str, Any], at: int = 0, **log: Any
) -> None:
    """Add a build with its history; by default with one cell."""
    add(con, "build_log", invocation_id=name, started_at=f"2026-01-01 0{at}:00:00Z", **log)
    for cell in cells or ({},):
        add(con, "audit_score_history", invocation_id=name, built_at=f"2026-01-01 0{at}:00:00Z", **cell)


def add_verdicts(con: duckdb.DuckDBPyConnection, version: str, *values: float | None, **columns: Any) -> None:
    for value in values:
        add(con, "score_versions", scorer_sha=version, value=value, **columns)


def found(con: duckdb.DuckDBPyConnection, before: str, after: str) -> Difference:
    return compare(con, *resolve(con, before, after))


def shown(
    con: duckdb.DuckDBPyConnection, n_items: int | None = None, restricted: frozenset[str] | None = None
) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    diff_items.show(con, n_items, restricted)
    return [json.loads(text, parse_constant=refuse) for text in diff_items.as_json(con)]


# ---- names ----


def test_builds_are_called_by_their_place_whatever_the_clock_said(con):
    add_build(con, "b-one", at=5)
    add_build(con, "b-two", at=3)
    add_build(con, "b-three", at=4)
    before, after = resolve(con, "previous", "latest")
    assert (before.kind, before.id, after.id) == (Kind.BUILD, "b-two", "b-three")
    assert resolve(con, "first", "latest")[0].id == "b-one"
    assert after.facts["started_at"] == "2026-01-01 04:00:00 UTC"


def test_a_build_that_left_no_history_or_runs_now_has_no_place(con):
    add_build(con, "b-one")
    add(con, "build_log", invocation_id="b-two", started_at="2026-01-01 02:00:00Z", status="failed")
    add_build(con, "b-three", status="running")
    assert resolve(con, "latest", "b-one")[0].id == "b-one"
    with pytest.raises(WrongUsage, match="previous: only a full build that made every table is kept"):
        resolve(con, "previous", "latest")


def test_a_build_that_made_every_table_and_failed_a_test_is_compared(con):
    add_build(con, "b-one")
    add_build(con, "b-two", {"value": 0.75}, at=1, status="failed")
    difference = found(con, "previous", "latest")
    assert [(cell.before, cell.after) for cell in difference.cells] == [(0.5, 0.75)]
    assert difference.notes == ()


def test_a_beginning_names_what_begins_so_and_a_whole_id_itself(con):
    add_verdicts(con, "aaaa1", 1.0, is_current=False)
    add_verdicts(con, "aaab2", 1.0)
    add_verdicts(con, "aaab23", 1.0, is_current=False)
    before, after = resolve(con, "aaaa", "aaab2")
    assert (before.id, after.id, after.facts) == ("aaaa1", "aaab2", {"rule": "choice", "is_current": True})


def test_a_beginning_of_several_is_refused_with_some_of_them(con):
    for version in ("aaa1", "aaa2", "aaa3", "aaa4"):
        add_verdicts(con, version, 1.0)
    with pytest.raises(WrongUsage, match="version aaa1, version aaa2, version aaa3 and 1 more"):
        resolve(con, "aaa1", "aaa")


def test_a_name_of_a_build_and_of_a_run_means_the_kind_that_the_other_has(con):
    add_build(con, "x-build")
    add_build(con, "y-build")
    add(con, "int_episode_sums", run_id="x-run")
    assert resolve(con, "x", "y")[0].id == "x-build"
    add(con, "int_episode_sums", run_id="y-run")
    with pytest.raises(WrongUsage, match=r"x stands for build x-build, run x-run; write more"):
        resolve(con, "x", "y")


def test_things_of_different_kinds_are_not_compared(con):
    add_build(con, "b-one")
    add(con, "int_learning_scored", run_id="a-run")
    with pytest.raises(WrongUsage, match=r"found a build \(b-one\) and a run \(a-run\)"):
        resolve(con, "b-one", "a-run")


def test_versions_of_two_rules_are_not_compared(con):
    add_verdicts(con, "aaaa", 1.0)
    add_verdicts(con, "bbbb", 1.0, rule="count")
    with pytest.raises(WrongUsage, match=r"versions of one rule, found aaaa of choice and bbbb of count"):
        resolve(con, "aaaa", "bbbb")


def test_an_unknown_name_is_answered_with_near_ones(con):
    add(con, "int_episode_sums", run_id="demo_archive-BART-gpt-4")
    with pytest.raises(WrongUsage, match=r"no such build.*did you mean demo_archive-BART-gpt-4\?"):
        resolve(con, "demo_archiv-BART-gpt-4", "latest")
    with pytest.raises(WrongUsage, match=r"did you mean latest\?"):
        resolve(con, "lattest", "first")
    with pytest.raises(WrongUsage, match=r"0 builds, 0 versions, 1 runs are there"):
        resolve(con, "?", "?")


def test_the_version_of_a_metric_is_answered_with_that_of_its_rule(con):
    add_build(con, "b-one", {"scorer_sha": "0123456789abcdef", "rule_sha": "fedcba9876543210"})
    with pytest.raises(WrongUsage, match=r"version of a metric.* choice fedcba987654: name that"):
        resolve(con, "0123456789ab", "latest")


def test_a_lake_without_versions_says_so(con):
    con.execute("drop table score_versions")
    with pytest.raises(NothingToExport, match=r"kept versions of its scores; run `coglake build`"):
        resolve(con, "latest", "previous")


# ---- cells ----


def test_a_cell_that_moved_says_what_else_is_not_the_same(con):
    add_build(
        con,
        "b-one",
        {"mode_id": "a"},
        {"mode_id": "b"},
        {"mode_id": "c"},
        {"mode_id": "d"},
        {"mode_id": "e"},
        {"mode_id": "f"},
    )
    add_build(
        con,
        "b-two",
        {"mode_id": "a", "value": 0.25, "rule_sha": "bbbb", "scorer_sha": "b1"},
        {"mode_id": "b", "value": 0.25, "scorer_sha": "a2", "manifest_sha256": "n"},
        {"mode_id": "c", "value": None, "n_scored": 1, "raw_parts_sha256": "t"},
        {"mode_id": "d", "value_scored": 0.25, "project_sha256": "q"},
        {"mode_id": "e", "n_error": 1},
        {"mode_id": "f", "rule_sha": "bbbb", "scorer_sha": "b1"},
    )
    add_verdicts(con, "aaaa", 1.0, is_current=False)
    add_verdicts(con, "bbbb", 1.0)
    difference = found(con, "b-one", "b-two")
    assert [(cell.mode_id, cell.because) for cell in difference.cells] == [
        ("a", "rule"),
        ("b", "metric, manifest"),
        ("c", "raw rows"),
        ("d", "project"),
        ("e", None),
    ]
    assert difference.n_cells == 6
    assert difference.cells[2].n_after == "1 of 2"
    # other raw rows by the same rule: what was said of the old ones is gone
    assert "1 of the cells that moved have other raw rows and the same rule" in difference.notes[0]


def test_runs_and_cells_of_one_side_are_differences(con):
    add_build(con, "b-one", {"run_id": "both"}, {"run_id": "old"}, {"run_id": "both", "metric": "nll"})
    add_build(con, "b-two", {"run_id": "both"}, {"run_id": "new"}, {"run_id": "new", "metric": "nll"})
    difference = found(con, "b-one", "b-two")
    assert (difference.runs_gone, difference.runs_added) == (("old",), ("new",))
    assert [(cell.run_id, cell.metric, cell.because) for cell in difference.cells] == [
        ("both", "nll", "only before")
    ]
    assert not difference.is_nothing


def test_the_same_build_twice_is_no_difference(con):
    add_build(con, "b-one", {"value": float("inf")}, {"metric": "nll", "value": None})
    assert found(con, "latest", "b-one").is_nothing


def test_items_of_a_run_that_one_build_lacks_are_not_compared(con):
    add_build(con, "b-one", {})
    add_build(con, "b-two", {"rule_sha": "bbbb"}, {"run_id": "new", "rule_sha": "bbbb"})
    add_verdicts(con, "aaaa", 1.0, is_current=False)
    add_verdicts(con, "bbbb", 0.0)
    add_verdicts(con, "bbbb", 0.0, run_id="new")
    difference = found(con, "b-one", "b-two")
    assert difference.runs_added == ("new",)
    assert (difference.n_verdicts, difference.n_changed, difference.n_only_after) == (1, 1, 0)


def test_a_version_whose_verdicts_are_not_kept_is_named(con):
    add_build(con, "b-one", {})
    add_build(con, "b-two", {"rule_sha": "bbbb"})
    add_verdicts(con, "bbbb", 0.0)
    difference = found(con, "b-one", "b-two")
    assert difference.notes == ("choice: no verdicts of version aaaa are kept; its items are not compared",)
    assert difference.n_verdicts == 0


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ({"status": "failed"}, "failed"),
        ({"status": "running"}, "did not end"),
        ({"is_full": False}, "was of a part"),
    ],
)
def test_a_newer_build_without_history_is_told_beside_the_latest(con, log, outcome):
    for name in ("b-one", "b-two", "b-three"):
        add_build(con, name)
    assert found(con, "previous", "latest").notes == ()
    add(con, "build_log", invocation_id="b-four", started_at="2026-01-01 09:00:00Z", **log)
    [note] = found(con, "previous", "latest").notes
    assert note.startswith(f"the build of 2026-01-01 09:00:00 UTC {outcome}: its values are not kept")
    # it is nothing to builds before the latest
    assert found(con, "b-one", "b-two").notes == ()


def test_a_version_that_no_build_ended_with_has_verdicts_and_no_cells(con):
    add_build(con, "b-one", {"run_id": "run"})
    add_verdicts(con, "aaaa", 1.0)
    add_verdicts(con, "bbbb", 0.0, is_current=False)
    difference = found(con, "bbbb", "aaaa")
    assert (difference.n_cells, difference.cells, difference.runs_added) == (0, (), ())
    assert difference.n_changed == 1
    assert difference.notes == (
        "no build with version bbbb made every table, so no values of it are kept: verdicts alone are "
        "compared",
    )


# ---- verdicts ----


def versions(con: duckdb.DuckDBPyConnection, before: list[float], after: list[float]) -> Difference:
    add_verdicts(con, "aaaa", *before, is_current=False)
    add_verdicts(con, "bbbb", *after)
    return found(con, "aaaa", "bbbb")


@pytest.mark.parametrize(
    ("before", "after", "n_changed", "n_only_before", "n_only_after"),
    [
        ([1.0, 0.0], [0.0, 1.0], 0, 0, 0),
        ([1.0, 1.0, 0.0], [1.0, 0.0, 0.0], 1, 0, 0),
        ([1.0], [1.0, 1.0], 0, 0, 1),
        ([1.0, 1.0], [1.0], 0, 1, 0),
        ([1.0, 1.0], [0.0, 0.0], 2, 0, 0),
        ([0.0], [-0.0], 0, 0, 0),
        ([0.1 + 0.2], [0.3], 1, 0, 0),
        ([1.0], [], 0, 1, 0),
    ],
)
def test_verdicts_on_one_row_are_compared_as_a_set(
    con, before, after, n_changed, n_only_before, n_only_after
):
    # beside a row of which neither version says anything else
    add_verdicts(con, "aaaa", 1.0, item_id="j", is_current=False)
    add_verdicts(con, "bbbb", 1.0, item_id="j")
    difference = versions(con, before, after)
    assert (difference.n_changed, difference.n_only_before, difference.n_only_after) == (
        n_changed,
        n_only_before,
        n_only_after,
    )
    assert difference.n_verdicts == 1 + min(len(before), len(after))


def test_rows_that_repeat_on_either_side_alone_are_not_taken_for_each_other(con):
    # as many rows on both sides, as many of each verdict, and no row as often as before
    for version, often in (("aaaa", {"i": 2, "j": 1}), ("bbbb", {"i": 1, "j": 2})):
        for item_id, n in often.items():
            add_verdicts(con, version, *[1.0] * n, item_id=item_id)
    difference = found(con, "aaaa", "bbbb")
    assert (difference.n_verdicts, difference.n_changed) == (2, 0)
    assert (difference.n_only_before, difference.n_only_after) == (1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"value": 0.0},
        {"weight": 2.0},
        {"value": None, "status": "unparsed", "status_reason": "no number"},
    ],
)
def test_a_verdict_is_value_weight_status_and_reason(con, change):
    add_verdicts(con, "aaaa", 1.0)
    add(con, "score_versions", **{"scorer_sha": "bbbb", "value": 1.0} | change)
    assert found(con, "aaaa", "bbbb").n_changed == 1
    [item] = shown(con)
    assert {name: item["after"][name] for name in change} == change


def test_verdicts_are_of_the_same_row_only_if_every_key_is(con):
    for version in ("aaaa", "bbbb"):
        for key in ("run_id", "mode_id", "episode_id", "item_id", "readout"):
            add_verdicts(con, version, float(version == "bbbb"), **{key: f"other {key}"})
        add_verdicts(con, version, float(version == "bbbb"), step_index=1)
        add_verdicts(con, version, float(version == "bbbb"), item_id=None)
    difference = found(con, "aaaa", "bbbb")
    assert (difference.n_verdicts, difference.n_changed) == (7, 7)


def test_two_runs_meet_in_modes_items_and_rules(con):
    add_verdicts(con, "aaaa", 1.0, run_id="one")
    add_verdicts(con, "aaaa", 0.0, run_id="two")
    add_verdicts(con, "aaaa", 0.0, run_id="two", item_id="j")
    # what a replaced version said of a run is not compared
    add_verdicts(con, "0000", 1.0, run_id="two", is_current=False)
    for run_id in ("one", "two"):
        add(con, "int_episode_sums", run_id=run_id)
        add(
            con,
            "stg_outputs",
            run_id=run_id,
            item_id="i",
            mode_id="mode",
            episode_id="e",
            response_text=run_id,
        )
    # a value that is made no longer is none of either
    add_build(con, "b-one", {"run_id": "two", "metric": "no longer made"})
    add_build(con, "b-two", {"run_id": "one", "value": 1.0}, {"run_id": "two", "value": 0.0})
    difference = found(con, "one", "two")
    assert (difference.n_verdicts, difference.n_changed, difference.n_only_after) == (1, 1, 1)
    [cell] = difference.cells
    assert (cell.run_id, cell.before, cell.after) == (None, 1.0, 0.0)
    # what either run answered, and what only the second was asked
    diff_items.show(con, None, None)
    assert [
        (row.response_before, row.response_after) for row in diff_items.rows(con) if row.item_id == "i"
    ] == [("one", "two")]
    [item] = shown(con)
    assert [item[side]["response_text"] for side in ("before", "after")] == ["one", "two"]


# ---- text ----


def test_as_many_items_as_asked_in_the_order_of_their_keys(con):
    for item_id in ("c", "a", "b"):
        add_verdicts(con, "aaaa", 1.0, item_id=item_id)
        add_verdicts(con, "bbbb", 0.0, item_id=item_id)
    assert found(con, "aaaa", "bbbb").n_changed == 3
    assert [item["item_id"] for item in shown(con, 2)] == ["a", "b"]
    assert [item["item_id"] for item in shown(con)] == ["a", "b", "c"]
    assert shown(con, 0) == []


def test_an_infinite_value_is_null_in_json_and_infinite_in_the_table(con):
    versions(con, [1.0], [float("inf")])
    [item] = shown(con)
    assert (item["after"]["value"], item["after"]["status"]) == (None, "ok")
    [row] = diff_items.rows(con)
    assert row.after_value == float("inf")


def test_the_text_of_an_answer_is_that_of_the_participant_whom_it_predicts(con):
    add_verdicts(con, "aaaa", 1.0, episode_id="p2")
    add_verdicts(con, "bbbb", 0.0, episode_id="p2")
    for person in ("p1", "p2"):
        add(
            con,
            "stg_outputs",
            run_id="run",
            item_id="i",
            mode_id="mode",
            episode_id="all",
            participant_id=person,
            response_text=f"for {person}",
            prompt_sha256="ff",
        )
    add(con, "stg_prompts", prompt_sha256="ff", text="as it was asked")
    add(con, "stg_items", item_id="i", mode_id="mode", source_id=OPEN, prompt="as it was written")
    found(con, "aaaa", "bbbb")
    [item] = shown(con)
    assert (item["prompt"], item["after"]["response_text"]) == ("as it was asked", "for p2")


def test_a_decision_shows_what_was_seen_and_done_and_an_episode_its_last_reply(con):
    for step in (0, 1, 2):
        add(
            con,
            "stg_steps",
            run_id="run",
            mode_id="mode",
            episode_id="e",
            step_index=step,
            action=str(step),
            observation=f"seen {step}",
        )
    for step in (1, None):
        add_verdicts(con, "aaaa", 1.0, item_id=None, step_index=step)
        add_verdicts(con, "bbbb", 0.0, item_id=None, step_index=step)
    found(con, "aaaa", "bbbb")
    assert [(item["step_index"], item["prompt"], item["after"]["response_text"]) for item in shown(con)] == [
        (1, "seen 1", "1"),
        (None, "seen 2", "2"),
    ]


def test_text_and_ids_of_a_restricted_source_are_left_out_and_it_is_said(con):
    for run_id, source_id in (("open-run", OPEN), ("closed-run", CLOSED), ("stray-run", None)):
        add(con, "stg_runs", run_id=run_id, source_id=source_id)
        for item_id in ("MARK-i", "MARK-j"):
            key = {"run_id": run_id, "item_id": item_id, "episode_id": "MARK-e"}
            add_verdicts(con, "aaaa", 1.0, **key)
            add_verdicts(con, "bbbb", None, status="unparsed", status_reason="MARK-reason", **key)
            add(con, "stg_outputs", mode_id="mode", response_text="MARK-answer", prompt_sha256="ff", **key)
    add(con, "stg_prompts", prompt_sha256="ff", text="MARK-prompt")
    found(con, "aaaa", "bbbb")
    restricted = frozenset({CLOSED})
    items = {
        run_id: [item for item in shown(con, None, restricted) if item["after"]["run_id"] == run_id]
        for run_id in ("open-run", "closed-run", "stray-run")
    }
    assert [item["withheld"] for item in items["closed-run"]] == [f"withheld: {CLOSED} is not public"] * 2
    assert [item["withheld"] for item in items["stray-run"]] == [
        "withheld: a source that no run names is not public"
    ] * 2
    for run_id in ("closed-run", "stray-run"):
        assert "MARK" not in json.dumps(items[run_id])
        # the same thing has the same number, and others have others
        assert {item["episode_id"] for item in items[run_id]} == {"episode 1"}
        assert {item["item_id"] for item in items[run_id]} == {"item 1", "item 2"}
    assert all(item["withheld"] is None for item in items["open-run"])
    assert json.dumps(items["open-run"]).count("MARK-answer") == 4
    # and the drawn table leaves out as much
    assert not [row for row in diff_items.rows(con) if row.withheld and "MARK" in str(row)]


def test_text_of_a_restricted_question_is_left_out_whoever_answered_it(con):
    add(con, "stg_runs", run_id="run", source_id=OPEN)
    add(con, "stg_items", item_id="i", mode_id="mode", source_id=CLOSED, prompt="MARK")
    versions(con, [1.0], [0.0])
    [item] = shown(con, None, frozenset({CLOSED}))
    assert (item["prompt"], item["withheld"]) == (None, f"withheld: {CLOSED} is not public")
    [item] = shown(con)
    assert item["prompt"] == "MARK"
