"""Does a score follow its rule and its rows, and nothing else? Builds that must change something, and
builds that must not."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import (
    MARTS,
    SOURCE_ID,
    built,
    coglake,
    copy_lake,
    copy_project,
    mart_hashes,
    new_lake,
    pinned,
    query,
    raw_hashes,
    relation_hash,
)

from ingest.cogbench import CogBenchImporter
from store.build import build
from store.lake import append
from store.settings import Home

SCORED = "models_sql/intermediate/scored"
BALLOONS = "run,trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx\n" + "".join(
    f"0,{trial},{trial % 8},{0 if trial % 3 else trial % 8},8,{trial % 3 > 0},{trial},0\n"
    for trial in range(45)
)
NEW = "BART/data/random.csv"
EDITED, EDITED_METRIC = "reported_confidence", "mean_confidence"


@dataclass(frozen=True)
class Snapshot:
    """What a build left behind."""

    marts: Mapping[str, str]
    scored: str
    rows: Mapping[tuple[str, str], int]  # (rule, part) -> number of item scores
    shas: Mapping[str, frozenset[str]]  # rule -> versions in use
    replaced: Mapping[str, int]  # version of a rule that is kept beside the current one -> number of verdicts
    raw: Mapping[str, str]
    compiled: Mapping[str, str]  # rule -> SQL that was run


def snapshot(lake: Home) -> Snapshot:
    counts = query(lake, "select rule, part_id, count(*) as n from int_scored group by all")
    versions = query(lake, "select rule, scorer_sha from int_scored group by all")
    kept = "select scorer_sha, count(*) as n from score_versions where not is_current group by all"
    compiled = lake.root / "target" / "compiled" / "coglake" / SCORED
    return Snapshot(
        marts=mart_hashes(lake),
        scored=relation_hash(lake, "int_scored"),
        rows={(row["rule"], row["part_id"]): row["n"] for row in counts},
        shas={
            rule: frozenset(row["scorer_sha"] for row in versions if row["rule"] == rule)
            for rule in {row["rule"] for row in versions}
        },
        replaced={row["scorer_sha"]: row["n"] for row in query(lake, kept)},
        raw=raw_hashes(lake),
        compiled={
            path.stem.removeprefix("int_scored__"): path.read_text() for path in compiled.glob("*.sql")
        },
    )


def parts_to_score(compiled: str) -> set[str]:
    """Return the parts that a rule's compiled SQL reads."""
    listed = re.search(r"where part_id in \((.*?)\)", compiled)
    return set(re.findall(r"[0-9a-f]{16}", listed[1])) if listed else set()


def scored_again(after: Snapshot, before: Snapshot, *, but: str = "") -> set[tuple[str, str]]:
    """Return what a build read of the (rule, part) pairs that were scored before."""
    read = {
        (rule, part) for rule, sql in after.compiled.items() for part in parts_to_score(sql) if rule != but
    }
    return read & before.rows.keys()


# ---- rows come and go ----


@dataclass(frozen=True)
class Growth:
    """One lake, built after each step."""

    first: Snapshot
    again: Snapshot
    uncommitted: Snapshot
    committed: Snapshot
    refreshed: Snapshot
    new_part: str
    history: tuple[int, ...]  # rows of audit_score_history, build by build


@pytest.fixture(scope="module")
def growth(tmp_path_factory, demo_lake, project) -> Growth:
    folder = tmp_path_factory.mktemp("growth")
    lake = copy_lake(demo_lake, folder / "lake")
    first = snapshot(demo_lake)
    built(lake, project)
    again = snapshot(lake)

    source = pinned(folder / "mirror", {NEW: BALLOONS})
    [file] = source.files
    imported = CogBenchImporter().read(source, file, folder / "mirror" / source.mirror_path(file))
    *rows, run = imported.rows
    parts = [append(lake, each.table, each.rows, imported.run_id) for each in rows]
    built(lake, project)
    uncommitted = snapshot(lake)

    append(lake, run.table, run.rows, imported.run_id)
    built(lake, project)
    committed = snapshot(lake)

    built(lake, project, full_refresh=True)
    [part] = parts
    new_part = part.path.stem.removeprefix("part-")[:16]
    history = query(
        lake,
        "select count(*) as n from audit_score_history group by invocation_id, built_at order by built_at",
    )
    return Growth(
        first, again, uncommitted, committed, snapshot(lake), new_part, tuple(row["n"] for row in history)
    )


def test_a_build_with_nothing_new_changes_no_mart_and_scores_nothing(growth):
    assert growth.again.marts == growth.first.marts
    assert growth.again.scored == growth.first.scored
    assert scored_again(growth.again, growth.first) == set()
    assert growth.again.raw == growth.first.raw
    # and no row of one version is kept twice, also where all are scored anew
    assert growth.again.replaced == growth.committed.replaced == growth.refreshed.replaced == {}


def test_rows_of_a_run_that_was_never_finished_are_not_scored(growth):
    assert growth.uncommitted.raw != growth.first.raw
    assert growth.uncommitted.rows == growth.first.rows
    assert growth.uncommitted.marts == growth.first.marts


def test_a_new_run_is_scored_and_no_other_part_is_read_again(growth):
    new = {key: n for key, n in growth.committed.rows.items() if key not in growth.first.rows}
    n_balloons = 45
    assert new == {(rule, growth.new_part): n_balloons for rule in ("episode_return", "action_count")}
    assert {key: growth.committed.rows[key] for key in growth.first.rows} == growth.first.rows
    assert scored_again(growth.committed, growth.first) == set()
    for rule in ("episode_return", "action_count"):
        assert parts_to_score(growth.committed.compiled[rule]) == {growth.new_part}
    # and the rules are the same ones
    assert growth.committed.shas == growth.first.shas


def test_what_was_scored_bit_by_bit_equals_a_full_refresh(growth):
    assert growth.refreshed.marts == growth.committed.marts
    assert growth.refreshed.scored == growth.committed.scored
    assert growth.refreshed.marts != growth.first.marts


def test_the_history_keeps_the_values_of_every_build(growth):
    n_first, n_new = growth.history[0], 3
    assert growth.history == (n_first, n_first, n_first, n_first + n_new, n_first + n_new)


# ---- rules change ----


@dataclass(frozen=True)
class Edits:
    """One lake, built after each edit of a project; the edited rule is ``EDITED``."""

    first: Snapshot
    changed: Snapshot
    reverted: Snapshot
    widened: Snapshot
    complaints: tuple[str, ...]
    first_values: Mapping[str, float]
    changed_values: Mapping[str, float]
    columns: frozenset[str]
    n_without_new_column: int


def n_verdicts(before: Snapshot, rules: set[str]) -> dict[str, int]:
    """Return how many verdicts the versions of some rules gave."""
    return {
        sha: sum(n for (rule, _), n in before.rows.items() if rule == each)
        for each in rules
        for sha in before.shas[each]
    }


def values(lake: Home, metric: str) -> dict[str, float]:
    return {
        row["run_id"]: row["value"]
        for row in query(lake, "select run_id, value from metrics where metric = $1", metric)
    }


@pytest.fixture(scope="module")
def edits(tmp_path_factory, demo_lake) -> Edits:
    folder = tmp_path_factory.mktemp("edits")
    lake, project = copy_lake(demo_lake, folder / "lake"), copy_project(folder / "project")
    rule = project / SCORED / "int_scored__reported_confidence.sql"
    # the unit tests of the rules would rightly stop a changed rule
    for path in (project / "models_sql").rglob("*.yml"):
        path.write_text(path.read_text().partition("\nunit_tests:")[0] + "\n")
    original = rule.read_text()

    def edit(old: str, new: str) -> None:
        assert original.count(old) == 1
        rule.write_text(original.replace(old, new))

    # one character
    edit("confidence as value", "-confidence as value")
    complaints = tuple(failure.name for failure in build(lake, project).failures)
    changed, changed_values = snapshot(lake), values(lake, EDITED_METRIC)

    rule.write_text(original)
    built(lake, project)
    reverted = snapshot(lake)

    edit("select * from reports", "select *, 1.5 as brier from reports")
    built(lake, project)
    return Edits(
        first=snapshot(demo_lake),
        changed=changed,
        complaints=complaints,
        reverted=reverted,
        widened=snapshot(lake),
        first_values=values(demo_lake, EDITED_METRIC),
        changed_values=changed_values,
        columns=frozenset(query(lake, "select * from int_scored__reported_confidence limit 1")[0]),
        n_without_new_column=len(
            query(lake, "select * from int_scored__reported_confidence where brier is distinct from 1.5")
        ),
    )


def test_a_changed_rule_has_another_version_and_no_other_rule_has(edits):
    assert edits.changed.shas[EDITED].isdisjoint(edits.first.shas[EDITED])
    # one version at a time, on every row
    assert {rule: len(shas) for rule, shas in edits.changed.shas.items()} == dict.fromkeys(
        edits.first.shas, 1
    )
    others = set(edits.first.shas) - {EDITED}
    assert {rule: edits.changed.shas[rule] for rule in others} == {
        rule: edits.first.shas[rule] for rule in others
    }
    assert scored_again(edits.changed, edits.first, but=EDITED) == set()


def test_a_changed_rule_changes_scores_and_leaves_every_raw_byte(edits):
    assert edits.changed_values.keys() == edits.first_values.keys()
    assert edits.changed_values == {run: -value for run, value in edits.first_values.items()}
    assert len(edits.changed_values) == 3
    assert edits.changed.rows == edits.first.rows
    assert edits.changed.raw == edits.first.raw == edits.reverted.raw == edits.widened.raw


def test_a_wrong_rule_is_noticed_by_the_audit_and_by_nothing_else(edits):
    # its published values are 30 runs of the restless bandit
    assert edits.complaints == ("disagreements_have_a_reason_audit_published_cells_",)


def test_reverting_a_rule_restores_every_mart(edits):
    assert edits.reverted.marts == edits.first.marts
    assert edits.reverted.scored == edits.first.scored


def test_a_new_column_of_a_rule_reaches_every_old_row(edits):
    assert "brier" in edits.columns
    assert edits.n_without_new_column == 0
    assert edits.widened.rows == edits.first.rows


def test_changed_answers_change_the_version_of_every_rule_that_reads_them_and_of_no_other(
    tmp_path, demo_lake
):
    lake, project = copy_lake(demo_lake, tmp_path / "lake"), copy_project(tmp_path / "project")
    answers = project / SCORED / "int_answers.sql"
    original = answers.read_text()
    assert original.count("coalesce(items.weight, 1)") == 1
    answers.write_text(original.replace("coalesce(items.weight, 1)", "coalesce(items.weight, 1.0)"))
    built(lake, project)
    before, after = snapshot(demo_lake), snapshot(lake)
    reading = {rule for rule, sql in after.compiled.items() if '"int_answers"' in sql and rule in after.shas}
    # a choice is scored by the same rule in steps and in answers
    assert {"credited_choice", "report_error", "clipped_report_score"} <= reading
    changed = {rule for rule, shas in after.shas.items() if shas.isdisjoint(before.shas[rule])}
    assert changed == reading
    assert after.replaced == n_verdicts(before, changed)
    assert {rule: len(shas) for rule, shas in after.shas.items()} == dict.fromkeys(after.shas, 1)
    assert after.rows == before.rows


def test_a_changed_rule_of_reading_changes_the_version_of_every_rule_that_reads_answers(tmp_path, demo_lake):
    lake, project = copy_lake(demo_lake, tmp_path / "lake"), copy_project(tmp_path / "project")
    reading = project / "macros" / "reading.sql"
    original = reading.read_text()
    assert original.count("[.]{2,}") == 1
    reading.write_text(original.replace("[.]{2,}", "[.]{3,}"))
    built(lake, project)
    before, after = snapshot(demo_lake), snapshot(lake)
    reads = {rule for rule, sql in after.compiled.items() if '"int_answers"' in sql and rule in after.shas}
    assert {rule for rule, shas in after.shas.items() if shas.isdisjoint(before.shas[rule])} == reads
    assert after.rows == before.rows
    # what was said of answers as they were read before can still be asked
    assert after.replaced == n_verdicts(before, reads)


# ---- threads, time zones, order of arrival ----


def test_every_mart_is_the_same_at_any_number_of_threads(tmp_path, demo_lake, project):
    lake = copy_lake(demo_lake, tmp_path / "lake")
    expected = mart_hashes(demo_lake)
    # with two threads, the default, it was built above
    for threads in (1, 4, 1, 4):
        built(lake, project, threads=threads, full_refresh=True)
        assert mart_hashes(lake) == expected, f"{threads} threads"


ZONES = {"UTC": 1, "Asia/Tokyo": 4}


@pytest.fixture(scope="module")
def zones(tmp_path_factory, demo_lake, project) -> dict[str, tuple[Home, CompletedProcess[str]]]:
    """Lakes built again by the command line in two time zones, side by side."""
    lakes = {zone: copy_lake(demo_lake, tmp_path_factory.mktemp("zone") / "lake") for zone in ZONES}

    def rebuild(zone: str) -> CompletedProcess[str]:
        arguments = ("build", "--full-refresh", "--threads", str(ZONES[zone]))
        return coglake(lakes[zone], project, *arguments, TZ=zone)

    with ThreadPoolExecutor() as pool:
        return {zone: (lakes[zone], done) for zone, done in zip(ZONES, pool.map(rebuild, ZONES), strict=True)}


@pytest.mark.parametrize("zone", ZONES)
def test_every_mart_is_the_same_in_any_time_zone(zones, demo_lake, zone):
    lake, done = zones[zone]
    assert done.returncode == 0, done.stderr
    assert mart_hashes(lake) == mart_hashes(demo_lake)


# ---- nothing to score, and a check that fails ----


def test_an_empty_lake_has_every_table_and_the_uniform_column(empty_lake, project):
    [n] = query(empty_lake, "select count(*) as n from int_scored")
    assert n == {"n": 0}
    for name in (
        "metrics",
        "audit_coverage",
        "audit_score_history",
        "int_episode_sums",
        "stg_runs",
        "stg_steps",
    ):
        assert query(empty_lake, f"select * from {name}") == [], name
    kinds = query(
        empty_lake,
        "select column_kind as kind, count(*) as n, count(run_id) as n_runs from table_3 group by all",
    )
    assert sorted((row["kind"], row["n"], row["n_runs"]) for row in kinds) == [
        ("reference", 27, 0),
        ("uniform", 27, 0),
    ]
    models = {path.stem for path in (project / "models_sql").rglob("*.sql")}
    tables = {
        row["name"] for row in query(empty_lake, "select table_name as name from information_schema.tables")
    }
    assert models <= tables


def test_an_empty_lake_exports_27_rows_and_nothing_made_up(empty_lake, project):
    done = coglake(empty_lake, project, "export", "table3", "-o", "-")
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert len(rows) == 27
    assert "Uniform" in header
    assert not re.search(r"\b(nan|NaN|inf|None|NULL|null)\b", done.stdout)


@pytest.fixture(scope="module")
def disagreeing(tmp_path_factory, empty_lake) -> Home:
    """A lake with a published score that its rows do not give, and nobody says why."""
    scores = "engine,run,performance_score1,performance_score1_name\nrandom,0,99.5,Average rewards\n"
    folder = tmp_path_factory.mktemp("disagreeing")
    return new_lake(folder, {NEW: BALLOONS, "BART/scores_data.csv": scores}, like=empty_lake)


def test_a_failed_check_is_exit_1_names_the_row_and_stops_exports(disagreeing, project):
    done = coglake(disagreeing, project, "build")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [complaint] = [line for line in done.stderr.splitlines() if line.startswith("failed:")]
    assert "disagreements_have_a_reason" in complaint

    [row] = query(disagreeing, Path(complaint.rpartition("its query: ")[2]).read_text())
    assert (row["source"], row["column_id"], row["published"]) == (SOURCE_ID, "random", 99.5)
    assert row["reason"] == "unexplained difference"

    export = coglake(disagreeing, project, "export", "table3", "-o", "-")
    assert (export.returncode, export.stdout) == (15, "")
    assert "failed" in export.stderr


def test_all_marts_are_hashed(project):
    # a mart that no hash covers could differ between builds unseen
    models = {
        path.stem for folder in ("marts", "audit") for path in (project / "models_sql" / folder).glob("*.sql")
    }
    # which grow with builds, and with changes of rules
    assert set(MARTS) == models - {"audit_score_history", "score_versions"}
