"""Rules edited by one character, built, compared, reverted: what changed is named exactly, nothing of it is
lost, and the first tables come back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds
import pytest
from spec.learning_lakes import Asked, Instances, Played, exam
from support import (
    add_files,
    built,
    coglake,
    copy_lake,
    copy_project,
    mart_hashes,
    new_lake,
    query,
    raw_hashes,
)

from generate import demo_archive
from store.build import build
from store.database import connect
from store.freshness import builds
from store.settings import Home

# each is edited by one character: what is counted is counted below zero, and a share of right answers becomes
# that of wrong ones, which of a half is the same
RULE, EPISODE_RULE = "action_count", "fraction_correct"
EDITS = {
    f"models_sql/intermediate/scored/int_scored__{RULE}.sql": (
        "try_cast(action as double) as value",
        "-try_cast(action as double) as value",
    ),
    f"models_sql/intermediate/learning/int_learning__{EPISODE_RULE}.sql": (
        "'(weight_accuracy * accuracy)'",
        "'(weight_accuracy - accuracy)'",
    ),
}
THREE = "run,trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx\n" + "".join(
    f"0,{trial},{pumps},{pumps},8,False,{trial},0\n" for trial, pumps in enumerate((0, 3, 5))
)
MANY = "Experiments/BART/data/demo-uniform.csv"
TASK, N_QUESTIONS = "affine_chain_1", 4
N_RIGHT = {f"{TASK}/0": 1, f"{TASK}/1": 2}

KEPT = """
    select rule, scorer_sha, is_current, run_id, count(*) as n
    from score_versions group by all order by all
"""


@dataclass(frozen=True)
class Story:
    """One lake after each step; a step that is not built again is compared with the one before it."""

    lake: Home
    first: Mapping[str, str]
    edited: Mapping[str, str]
    reverted: Mapping[str, str]
    raw: tuple[Mapping[str, str], ...]
    versions: Mapping[str, list[dict[str, Any]]]  # step -> KEPT
    history: Mapping[str, int]  # step -> rows of the history
    failures: tuple[str, ...]
    latest: Mapping[str, Any]  # coglake diff previous latest, after the edit
    code: int
    text: str
    back: tuple[int, str]  # coglake diff first latest, after the revert


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    files = {"BART/data/random.csv": THREE, "BART/data/demo-uniform.csv": demo_archive.files()[MANY]}
    lake, project = new_lake(folder, files), copy_project(folder / "project")
    instances, dialogue = Instances(), Played("dialogue")
    for episode_id, n_right in N_RIGHT.items():
        instances.add(TASK, episode_id, [Asked("yes")] * N_QUESTIONS)
        answers = ["yes"] * n_right + ["no"] * (N_QUESTIONS - n_right)
        dialogue.episode(TASK, episode_id, [exam(*answers)])
    instances.commit(lake)
    dialogue.commit(lake)
    # the unit tests of the rules would rightly stop a changed rule
    for path in (project / "models_sql").rglob("*.yml"):
        path.write_text(path.read_text().partition("\nunit_tests:")[0] + "\n")
    original = {file: (project / file).read_text() for file in EDITS}
    versions, history, raw = {}, {}, []

    def write(*replacements: str) -> None:
        for (file, (old, _)), new in zip(EDITS.items(), replacements, strict=True):
            assert original[file].count(old) == 1
            (project / file).write_text(original[file].replace(old, new))

    def note(step: str) -> None:
        versions[step] = query(lake, KEPT)
        [rows] = query(lake, "select count(*) as n from audit_score_history")
        history[step] = rows["n"]
        raw.append(raw_hashes(lake))

    built(lake, project)
    first = mart_hashes(lake)
    note("first")

    write(*(new for _, new in EDITS.values()))
    built(lake, project)
    edited = mart_hashes(lake)
    note("edited")
    found = coglake(lake, project, "diff", "previous", "latest", "--json")
    printed = coglake(lake, project, "diff", "previous", "latest", "--rows", "2")

    # every table is made, and then a test of them fails
    doubt = project / "tests/data/nothing_is_covered.sql"
    doubt.write_text("select * from {{ ref('audit_coverage') }}")
    doubts = [failure.name for failure in build(lake, project, full_refresh=True).failures]
    assert doubts == ["nothing_is_covered"]
    doubt.unlink()
    note("refreshed")

    # a rule that cannot be run, once the versions were to be moved
    write("error('broken') as value", "error('broken')")
    failures = tuple(failure.name for failure in build(lake, project).failures)
    note("broken")

    write(*(new for _, new in EDITS.values()))
    built(lake, project, select=["metrics"])
    note("partial")

    write(*(old for old, _ in EDITS.values()))
    built(lake, project)
    reverted = mart_hashes(lake)
    note("reverted")
    back = coglake(lake, project, "diff", "first", "latest")
    return Story(
        lake,
        first,
        edited,
        reverted,
        tuple(raw),
        versions,
        history,
        failures,
        json.loads(found.stdout),
        found.returncode,
        printed.stdout + printed.stderr,
        (back.returncode, back.stdout),
    )


def decisions(lake: Home) -> list[dict[str, Any]]:
    """Return the raw steps, read without the project's SQL."""
    files = [str(path) for path in (lake.raw / "steps").rglob("part-*.parquet")]
    rows = ds.dataset(files).to_table().to_pylist()
    return [row for row in rows if row["mode_id"] == "bart"]


def of_rule(versions: list[dict[str, Any]], *, is_current: bool, rule: str = RULE) -> list[dict[str, Any]]:
    return [row for row in versions if row["rule"] == rule and row["is_current"] is is_current]


def items_of(story: Story, rule: str) -> list[dict[str, Any]]:
    return [item for item in story.latest["items"] if item["rule"] == rule]


# ---- versions ----


def test_two_versions_over_three_rows_are_six_verdicts(story):
    three = [row for row in story.versions["edited"] if row["rule"] == RULE and "random" in row["run_id"]]
    assert [row["n"] for row in three] == [3, 3]
    assert len({row["scorer_sha"] for row in three}) == 2
    assert sorted(row["is_current"] for row in three) == [False, True]


def test_a_changed_rule_keeps_what_it_said_and_no_other_rule_has_two_versions(story):
    for rule in (RULE, EPISODE_RULE):
        [before] = {row["scorer_sha"] for row in of_rule(story.versions["first"], is_current=True, rule=rule)}
        replaced = of_rule(story.versions["edited"], is_current=False, rule=rule)
        assert {row["scorer_sha"] for row in replaced} == {before}
    assert not [row for row in story.versions["first"] if not row["is_current"]]
    assert {row["rule"] for row in story.versions["edited"] if not row["is_current"]} == {RULE, EPISODE_RULE}


def test_the_old_verdicts_are_those_of_before_row_by_row(story):
    # the edit is reverted by now: what the edited version said is what is kept
    rows = query(
        story.lake,
        "select episode_id, run_id, step_index, is_current, value from score_versions where rule = $1",
        RULE,
    )
    values = {
        (row["run_id"], row["episode_id"], row["step_index"], row["is_current"]): row["value"] for row in rows
    }
    assert len(values) == len(rows) == 2 * len(decisions(story.lake))
    for step in decisions(story.lake):
        key = (step["run_id"], step["episode_id"], step["step_index"])
        assert values[*key, True] == float(step["action"])
        assert values[*key, False] == -float(step["action"])


def test_building_again_adds_no_version_and_doubles_none(story):
    assert story.versions["refreshed"] == story.versions["edited"]


def test_a_build_that_fails_leaves_every_verdict_where_it_was(story):
    assert {f"int_scored__{RULE}", f"int_learning__{EPISODE_RULE}"} <= set(story.failures)
    assert story.versions["broken"] == story.versions["refreshed"]


def test_a_value_is_of_one_version_of_its_rule(story):
    mixed = query(
        story.lake,
        "select invocation_id, mode_id, metric from audit_score_history "
        "group by all having count(distinct scorer_sha) > 1 or count(distinct rule_sha) > 1",
    )
    assert mixed == []


def test_reverting_a_rule_restores_the_first_tables_and_keeps_the_other_version(story):
    assert story.edited != story.first
    assert story.reverted == story.first
    assert of_rule(story.versions["reverted"], is_current=True) == of_rule(
        story.versions["first"], is_current=True
    )
    [edited] = {row["scorer_sha"] for row in of_rule(story.versions["edited"], is_current=True)}
    assert {row["scorer_sha"] for row in of_rule(story.versions["reverted"], is_current=False)} == {edited}


def test_no_raw_byte_changes(story):
    assert len(set(map(str, story.raw))) == 1


# ---- history ----


def test_full_builds_that_made_every_table_make_history(story):
    n = story.history["first"]
    assert n > 0
    assert story.history == {
        "first": n,
        "edited": 2 * n,
        "refreshed": 3 * n,
        "broken": 3 * n,
        "partial": 3 * n,
        "reverted": 4 * n,
    }


def test_a_row_of_history_is_a_row_of_the_marts(story):
    differing = query(
        story.lake,
        """
        with kept as (
            select run_id, mode_id, metric, value, value_scored, n_planned, n_scored, n_unparsed, n_error,
                n_too_long, n_missing_option, scorer_sha
            from audit_score_history
            where invocation_id = (select arg_max(invocation_id, rowid) from build_log where is_full)
        ),
        now as (
            select run_id, mode_id, metric, value, value_scored, n_planned, n_scored, n_unparsed, n_error,
                n_too_long, n_missing_option, scorer_sha
            from metrics
            union all
            select run_id, task_id, 'score', value, value_scored, n_planned, n_scored, n_unparsed, n_error,
                n_too_long, n_missing_option, scorer_sha
            from int_learning_scores
        )
        (from kept except from now) union all (from now except from kept)
        """,
    )
    assert differing == []


def test_history_says_what_went_in(story):
    rows = query(
        story.lake,
        "select h.*, l.status from audit_score_history as h join build_log as l using (invocation_id)",
    )
    assert {row["status"] for row in rows} == {"success", "failed"}
    assert {(row["benchmark"], row["mode_id"]) for row in rows} == {
        ("s1cogbench", "bart"),
        ("learning", TASK),
    }
    # the copy of the project is in no repository
    assert {row["git_sha"] for row in rows} == {None}
    # one set of manifests, one lake, one project per state of the rule
    assert len({row["manifest_sha256"] for row in rows}) == 1
    assert len({row["raw_sha256"] for row in rows}) == 1
    assert len({row["project_sha256"] for row in rows if row["status"] == "success"}) == 2
    # the rows of each run are other parts
    assert len({row["raw_parts_sha256"] for row in rows}) == len({row["run_id"] for row in rows}) == 3
    assert {(row["rule"], row["rule_sha"]) for row in rows} == {
        (row["rule"], row["scorer_sha"]) for row in story.versions["edited"]
    }


# ---- diff ----


def changed_by_hand(lake: Home) -> dict[tuple[str, str, int], tuple[float, float, str]]:
    """Return the decisions whose count is another below zero, with both counts and what was answered."""
    return {
        (row["run_id"], row["episode_id"], row["step_index"]): (
            float(row["action"]),
            -float(row["action"]),
            row["response_text"],
        )
        for row in decisions(lake)
        if float(row["action"]) != 0
    }


def test_diff_lists_exactly_the_items_whose_verdict_changed(story):
    expected = changed_by_hand(story.lake)
    found = {
        (item["before"]["run_id"], item["episode_id"], item["step_index"]): (
            item["before"]["value"],
            item["after"]["value"],
            item["before"]["response_text"],
        )
        for item in items_of(story, RULE)
    }
    assert found == expected
    assert 0 < len(expected) < len(decisions(story.lake))
    assert len(items_of(story, RULE)) == len(expected)


def test_diff_lists_the_episodes_of_learning_whose_verdict_changed_with_their_last_reply(story):
    [item] = items_of(story, EPISODE_RULE)
    # one of four right, three of four wrong; of the other episode a half is either
    assert (item["episode_id"], item["before"]["value"], item["after"]["value"]) == (
        f"{TASK}/0",
        3 / 12,
        9 / 12,
    )
    assert item["after"]["response_text"].startswith("1: yes\n2: no")


def test_diff_counts_what_it_compared(story):
    assert story.latest["n_changed"] == len(story.latest["items"]) == len(changed_by_hand(story.lake)) + 1
    assert story.latest["n_verdicts"] == len(decisions(story.lake)) + len(N_RIGHT)
    assert (story.latest["n_only_before"], story.latest["n_only_after"]) == (0, 0)


def test_diff_names_the_cells_that_moved_and_why(story):
    assert {cell["because"] for cell in story.latest["cells"]} == {"rule"}
    [learning] = [cell for cell in story.latest["cells"] if cell["mode_id"] == TASK]
    assert (learning["before"], learning["after"]) == ((1 / 4 + 2 / 4) / 2, (3 / 4 + 2 / 4) / 2)
    cells = [cell for cell in story.latest["cells"] if cell["mode_id"] == "bart"]
    assert {cell["metric"] for cell in cells} == {"mean_pumps", "mean_pumps_banked"}
    assert all(cell["after_scored"] == -cell["before_scored"] for cell in cells)
    [three] = [cell for cell in cells if "random" in cell["run_id"] and cell["metric"] == "mean_pumps"]
    assert three["before_scored"] == (0 + 3 + 5) / 3
    # an episode has 45 trials, so this run has no value, before or after
    assert (three["before"], three["after"]) == (None, None)
    assert three["n_before"] == three["n_after"] == "3 of 45"
    assert story.latest["runs_added"] == story.latest["runs_gone"] == []


def test_diff_ends_with_1_where_anything_differs_and_with_0_where_nothing_does(story):
    assert story.code == 1
    code, text = story.back
    assert code == 0, text
    assert "cells: 0 moved" in text
    assert "verdicts: 0 changed" in text


def test_diff_prints_as_many_items_as_asked_and_counts_all(story):
    n, n_all = len(changed_by_hand(story.lake)) + 1, len(decisions(story.lake)) + len(N_RIGHT)
    assert f"verdicts: {n:,} changed of {n_all:,}" in story.text
    assert story.text.count(f" {RULE} ") == 2
    assert "--json all" in story.text


def test_versions_are_compared_by_the_beginning_of_their_sha(story, project):
    [replaced] = {row["scorer_sha"] for row in of_rule(story.versions["reverted"], is_current=False)}
    [current] = {row["scorer_sha"] for row in of_rule(story.versions["reverted"], is_current=True)}
    done = coglake(story.lake, project, "diff", current[:16], replaced[:16], "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["kind"], found["before"]["id"], found["after"]["id"]) == ("version", current, replaced)
    assert found["items"] == items_of(story, RULE)


def test_two_runs_are_compared_decision_by_decision(story, project):
    [three, many] = sorted(
        {row["run_id"] for row in decisions(story.lake)}, key=lambda run: "random" not in run
    )
    done = coglake(story.lake, project, "diff", three, many, "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    of = {
        run: {
            (row["episode_id"], row["step_index"]): row
            for row in decisions(story.lake)
            if row["run_id"] == run
        }
        for run in (three, many)
    }
    shared = of[three].keys() & of[many].keys()
    changed = {key for key in shared if of[three][key]["action"] != of[many][key]["action"]}
    counts = {
        (item["episode_id"], item["step_index"]): (item["before"]["value"], item["after"]["value"])
        for item in found["items"]
        if item["rule"] == RULE
    }
    assert counts == {key: tuple(float(of[run][key]["action"]) for run in (three, many)) for key in changed}
    assert len(changed) > 0
    n_rules = len({item["rule"] for item in found["items"]} | {RULE, "episode_return"})
    assert found["n_verdicts"] == n_rules * len(shared)
    assert found["n_only_after"] == n_rules * (len(of[many]) - len(shared))


# ---- an older lake, and one that grows ----


def test_a_history_of_an_older_version_is_kept_and_goes_on(tmp_path, story, project):
    lake = copy_lake(story.lake, tmp_path / "lake")
    with connect(lake, read_only=False) as con:
        con.execute(
            """
            create or replace table audit_score_history as
            select invocation_id, built_at, raw_sha256, project_sha256, run_id, mode_id, metric, value,
                value_scored, n_planned, n_scored, scorer_sha
            from audit_score_history
            """
        )
        con.execute("alter table build_log drop column git_sha")
        con.execute("alter table build_log drop column manifest_sha256")
        con.execute("drop view score_versions")
        con.execute("drop table replaced_scores")
        assert builds(con)[0].git_sha is None
    add_files(lake, {"BART/data/demo-bayes.csv": THREE})
    built(lake, project)
    rows = query(
        lake, "select benchmark is null as is_older, count(*) as n from audit_score_history group by all"
    )
    n = story.history["reverted"]
    # of the runs of this game each has as many metrics, and the one of Learning has one
    per_run = (story.history["first"] - 1) // 2
    assert {row["is_older"]: row["n"] for row in rows} == {True: n, False: 3 * per_run + 1}

    done = coglake(lake, project, "diff", "previous", "latest", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [run.partition("BART-")[2].startswith("demo-bayes") for run in found["runs_added"]] == [True]
    assert found["cells"] == []
    assert "of an older version" in found["notes"][0]
