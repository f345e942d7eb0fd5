"""What a bad source file does: it is refused as a whole with one sentence, or its bad cells keep their rows
with a reason. It never stops the other files, and never leaves half of itself behind."""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import SOURCE_ID, add_files, built, coglake, copy_project, new_lake, pinned, query

from ingest.pipeline import ingest
from store.errors import ChecksumMismatch, InvalidSource
from store.lake import doctor, part_paths
from store.settings import Home

BART = "run,trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx"
HORIZON = "run,trial,mean0,mean1,reward0,reward1,choice,reward"
RESTLESS = "run,trial,block,block_trial,choice,reward,confidence,accurate"
URN = "run,informative_lh,prior,lh,left_pred,red_observation"
DISCOUNTING = "run,score,present bias,subaddictivity,delay-speedup asymmetry-1,delay-length asymmetry-2"
TWO_STEP = "run,trial,action1,state,action2,reward"
SCORES = "engine,run,performance_score1,performance_score1_name"


def text_of(*lines: str) -> str:
    return "\n".join(lines) + "\n"


GOOD = text_of(BART, "0,0,3,3,8,False,0,0", "0,1,8,0,8,True,1,0")
GOOD_PATH = "BART/data/random.csv"
BAD_PATH = "BART/data/gpt-4.csv"


@dataclass(frozen=True)
class Bad:
    """One file that is not what the archive declares, and words of the sentence that says so."""

    path: str
    content: str | bytes
    cause: str


REFUSED: dict[str, Bad] = {
    "cut_off_in_a_line": Bad(
        BAD_PATH, GOOD + "0,2,3,3,8,Fal", "line 4: Expected Number of Columns: 8 Found: 6"
    ),
    "cut_off_in_a_quoted_cell": Bad(BAD_PATH, GOOD + '0,2,3,3,8,"Fal', "unterminated quote"),
    "a_cell_too_many": Bad(
        BAD_PATH, GOOD + "0,2,3,3,8,False,2,0,9\n", "Expected Number of Columns: 8 Found: 9"
    ),
    "missing_columns": Bad(
        BAD_PATH,
        text_of("run,trial,pumps,reward,exploded,balloon_idx", "0,0,3,3,False,0"),
        "missing column balloon_trial, max_pumps",
    ),
    "unknown_column": Bad(
        BAD_PATH, text_of(f"{BART},mood", "0,0,3,3,8,False,0,0,fine"), "unknown column mood"
    ),
    "column_named_twice": Bad(
        BAD_PATH, text_of(f"{BART},run", "0,0,3,3,8,False,0,0,0"), "run appears more than once"
    ),
    "no_header": Bad(BAD_PATH, text_of("0,0,3,3,8,False,0,1"), "appears more than once"),
    "another_experiments_file": Bad(BAD_PATH, text_of(TWO_STEP, "0,0,X,X,D,1"), "missing column"),
    "balloons_repeat_a_trial": Bad(
        BAD_PATH, GOOD + "0,1,2,2,8,False,1,0\n", "1 rows repeat an earlier (run, trial), the first is run 0"
    ),
    "games_repeat_a_trial": Bad(
        "HorizonTask/data/gpt-4.csv",
        text_of(HORIZON, *["7,0,40,60,41,59,0,41"] * 3),
        "2 rows repeat an earlier (run, trial), the first is run 7, trial 0",
    ),
    "restless_bandit_repeats_a_trial": Bad(
        "RestlessBandit/data/gpt-4.csv", text_of(RESTLESS, *["0,5,0,5,1,50,0.5,1"] * 2), "repeat an earlier"
    ),
    "questionnaire_repeats_a_run": Bad(
        "TemporalDiscounting/data/gpt-4.csv",
        text_of(DISCOUNTING, *["3,10,0,0,0,0"] * 2),
        "the first is run 3",
    ),
    "unknown_engine": Bad(
        "BART/data/gpt-9.csv", GOOD, "gpt-9 is not declared; add its row to manifests/cogbench_engines.csv"
    ),
    "unknown_experiment": Bad("Poker/data/gpt-4.csv", GOOD, "experiment Poker is not known"),
    "not_utf_8": Bad(
        BAD_PATH, GOOD.encode() + "0,2,3,3,8,Fälse,2,0\n".encode("latin-1"), "not UTF-8 text at byte"
    ),
    "utf_16": Bad(BAD_PATH, GOOD.encode("utf-16"), "not UTF-8 text at byte 0"),
    "binary": Bad(BAD_PATH, bytes(range(256)) * 64, "not UTF-8 text"),
    "a_gzip_file": Bad(BAD_PATH, b"\x1f\x8b\x08\x00" + bytes(200), "not UTF-8 text at byte 1"),
    "a_row_of_no_run": Bad(BAD_PATH, GOOD + ",2,3,3,8,False,2,0\n", "without nulls, found 1 nulls"),
    "scores_without_engines": Bad(
        "BART/scores_data.csv",
        text_of("run,performance_score1,performance_score1_name", "0,1,x"),
        "column engine",
    ),
    "scores_without_labels": Bad(
        "BART/scores_data.csv", text_of("engine,run,performance_score1", "gpt-4,0,1"), "no score column"
    ),
    "an_empty_scores_file": Bad("BART/scores_data.csv", "", "missing column engine, run"),
    "zeros_instead_of_text": Bad(BAD_PATH, bytes(200_000), "column"),
    "one_run_written_in_two_ways_repeats_a_trial": Bad(
        BAD_PATH, text_of(BART, "1,0,3,3,8,False,0,0", "1.0,0,3,3,8,False,0,0"), "repeat"
    ),
    "questionnaire_of_no_run": Bad(
        "TemporalDiscounting/data/gpt-4.csv", text_of(DISCOUNTING, "0,9,0,0,0,0", ",9,0,0,0,0"), "nulls"
    ),
    "scores_of_no_engine": Bad("BART/scores_data.csv", text_of(SCORES, ",0,1,Average rewards"), "engine"),
    "not_utf_8_far_from_the_start": Bad(
        BAD_PATH,
        text_of(BART, *(f"0,{trial},3,3,8,False,0,0" for trial in range(3000))).encode()
        + "0,3000,3,3,8,Fälse,2,0\n".encode("latin-1"),
        "UTF-8",
    ),
}


def parts_of(lake: Home, name: str) -> list[Path]:
    return [path for path in part_paths(lake) if name in path.parent.name]


@pytest.mark.parametrize("bad", [pytest.param(bad, id=name) for name, bad in REFUSED.items()])
def test_a_bad_file_is_refused_whole_and_the_others_come_in(tmp_path, bad):
    lake = Home(tmp_path / "lake")
    report = add_files(lake, {bad.path: bad.content, GOOD_PATH: GOOD})
    [failure] = report.failures
    assert isinstance(failure, InvalidSource)
    assert failure.exit_code == 10
    sentence = str(failure)
    assert sentence.startswith(f"generated://handwritten@1/Experiments/{bad.path}: ")
    assert bad.cause in sentence
    assert "\n" not in sentence
    # nothing of it, and the other file as a whole
    good = parts_of(lake, "BART-random")
    assert {path.parent.parent.name for path in good} == {"steps", "runs"}
    assert [path for path in part_paths(lake) if path not in good] == []
    assert (report.n_new_files, report.n_source_rows) == (1, 2)
    assert doctor(lake) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param(BAD_PATH, text_of(BART, "0,3e9,3,3,8,False,0,0"), id="trial"),
        pytest.param("HorizonTask/data/gpt-4.csv", text_of(HORIZON, "0,0,40,60,41,59,1e300,41"), id="choice"),
    ],
)
def test_a_number_out_of_range_stops_no_other_file(tmp_path, path, content):
    lake = Home(tmp_path / "lake")
    report = add_files(lake, {path: content, GOOD_PATH: GOOD})
    # whether it is refused or keeps its row with a reason
    assert len(parts_of(lake, "BART-random")) == 2
    assert report.failures or report.n_unreadable_rows == 1


def test_a_run_label_is_a_name_even_if_it_looks_like_a_number(tmp_path):
    lake = Home(tmp_path / "lake")
    report = add_files(lake, {BAD_PATH: text_of(BART, "1e300,0,3,3,8,False,0,0")})
    assert report.failures == ()
    [part] = [path for path in parts_of(lake, "BART-gpt-4") if path.parent.parent.name == "steps"]
    assert pq.read_table(part)["episode_id"].to_pylist() == ["1e300"]


def test_a_mended_file_comes_in_later(tmp_path):
    lake = Home(tmp_path / "lake")
    bad = REFUSED["cut_off_in_a_line"]
    add_files(lake, {bad.path: bad.content, GOOD_PATH: GOOD})
    report = add_files(lake, {bad.path: GOOD, GOOD_PATH: GOOD})
    assert report.failures == ()
    assert (report.n_new_files, report.n_present_files) == (1, 1)


def test_a_file_with_another_hash_is_not_imported(tmp_path):
    lake = Home(tmp_path / "lake")
    source = pinned(tmp_path / "mirror", {BAD_PATH: GOOD, GOOD_PATH: GOOD})
    tampered = tmp_path / "mirror" / source.mirror_path(source.files[0])
    tampered.write_text(GOOD.replace("0,0,3,3", "0,0,4,4"))
    [report] = ingest(lake, [source], mirror=str(tmp_path / "mirror"))
    [failure] = report.failures
    assert isinstance(failure, ChecksumMismatch)
    assert failure.exit_code == 11
    assert f"Experiments/BART/data/gpt-4.csv: expected sha256 {source.files[0].sha256}" in str(failure)
    assert parts_of(lake, "BART-gpt-4") == []
    assert len(parts_of(lake, "BART-random")) == 2
    assert [path for path in lake.cache.rglob("*") if path.is_file()] == [
        lake.cache / "sha256" / source.files[1].sha256[:2] / source.files[1].sha256
    ]


# ---- bad cells keep their rows ----

CELLS = {
    BAD_PATH: text_of(
        BART,
        *(f"0,{trial},3,3,8,False,{trial},0" for trial in range(40)),
        "0,40,NaN,3,8,False,40,0",
        "0,41,inf,3,8,False,41,0",
        "0,42,-9999,3,8,False,42,0",
        "0,43,3,nan,8,False,43,0",
        "0,44,3,-9999,8,False,44,0",
    ),
    "RestlessBandit/data/gpt-4.csv": text_of(
        RESTLESS,
        *(f"0,{trial},0,{trial},1,50,0.5,1" for trial in range(76)),
        "0,76,0,76,1,50,1.5,1",
        "0,77,0,77,1,50,-0.5,1",
        "0,78,0,78,1,50,inf,1",
        "0,79,0,79,1,-inf,-9999,1",
    ),
    "ProbabilisticReasoning/data/gpt-4.csv": text_of(
        URN,
        "0,True,0.5,0.8,0.7,True",
        "1,True,0.4,0.8,1.5,True",
        "2,True,0.6,0.7,nan,False",
        "3,True,0.5,0.8,-9999,True",
        "4,False,0.3,0.5,0.4,True",
    ),
    "TemporalDiscounting/data/gpt-4.csv": text_of(DISCOUNTING, "0,NaN,0,1,0,0", "1,12.5,inf,0,0,-9999"),
    "TwoStepTask/data/gpt-4.csv": text_of(
        TWO_STEP, "0,0,X,X,D,1", "0,1,X,Y,J,nan", "0,2,Y,Y,K,-9999", "0,3,Y,Y,K,0"
    ),
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory, empty_lake, project) -> Home:
    lake = new_lake(tmp_path_factory.mktemp("cells"), CELLS, like=empty_lake)
    built(lake, project)
    return lake


# (mode, metric) -> value over what could be read, n_planned, n_unparsed, n_error
KEPT: Mapping[tuple[str, str], tuple[float, int, int, int]] = {
    ("bart", "mean_pumps"): (3, 45, 3, 2),
    ("bart", "mean_reward"): (3, 45, 0, 2),
    ("restless_bandit", "mean_reward"): (50, 80, 0, 1),
    ("restless_bandit", "mean_confidence"): (0.5, 80, 4, 0),
    ("restless_bandit", "quadratic_score"): (1 - (1 - 0.5) ** 2, 80, 3, 1),
    ("temporal_discounting", "discounting_score"): (12.5, 2, 1, 0),
    ("temporal_discounting", "present_bias"): (0, 2, 1, 0),
    ("two_step", "mean_reward"): (1 / 2, 4, 0, 2),
}


@pytest.mark.parametrize("key", KEPT, ids="-".join)
def test_a_bad_number_keeps_its_row_and_withholds_the_value(cells, key):
    [row] = query(cells, "select * from metrics where mode_id = $1 and metric = $2", *key)
    value, n_planned, n_unparsed, n_error = KEPT[key]
    assert row["value"] is None
    assert row["value_scored"] == pytest.approx(value)
    assert (row["n_planned"], row["n_unparsed"], row["n_error"]) == (n_planned, n_unparsed, n_error)
    assert row["n_scored"] == n_planned - n_unparsed - n_error
    assert row["reason"]


def test_a_report_that_is_no_probability_is_unparsed_and_only_the_publishers_rule_moves_it(cells):
    rows = {
        row["metric"]: row for row in query(cells, "select * from metrics where mode_id = 'bayesian_urn'")
    }
    # of five reports one is 1.5, one NaN and one the missing-value code
    assert (rows["posterior_mae"]["n_planned"], rows["posterior_mae"]["n_unparsed"]) == (5, 3)
    assert (rows["posterior_score"]["n_planned"], rows["posterior_score"]["n_unparsed"]) == (5, 2)


def test_every_kept_row_says_what_is_wrong_with_which_cell(cells):
    reasons = query(
        cells,
        """
        select status, status_reason as reason, count(*) as n from (
            select status, status_reason from stg_steps
            union all
            select status, status_reason from stg_outputs
        ) where status_reason is not null group by all
        """,
    )
    found = {row["reason"] for row in reasons}
    assert {
        "pumps is not finite",
        "pumps is the missing-value code -9999",
        "reward is not finite",
        "reward is the missing-value code -9999",
        "confidence is outside [0, 1]",
        "confidence is not finite",
        "left_pred is outside [0, 1]",
        "left_pred is not finite",
        "left_pred is the missing-value code -9999",
    } <= found


def test_the_notes_of_a_file_count_its_bad_cells(cells):
    notes = query(cells, "select notes, n_unreadable_rows as n from stg_runs where planned_modes = ['bart']")
    [run] = notes
    assert run["n"] == 5
    assert sorted(run["notes"]) == [
        "1 rows: pumps is the missing-value code -9999",
        "1 rows: reward is not finite",
        "1 rows: reward is the missing-value code -9999",
        "2 rows: pumps is not finite",
    ]


def test_no_number_in_the_marts_is_nan_or_the_missing_value_code(cells):
    for row in query(cells, "select * from metrics"):
        numbers = [cell for cell in row.values() if isinstance(cell, float)]
        assert all(math.isfinite(number) and abs(number) != 9999 for number in numbers), row


# ---- the command line ----


@pytest.fixture
def own_project(tmp_path) -> Path:
    return copy_project(tmp_path / "project")


def pin_in_manifest(project: Path, mirror: Path, files: Mapping[str, str | bytes]) -> None:
    source = pinned(mirror, files)
    lines = [f"[{SOURCE_ID}]"]
    for name in ("kind", "repo", "revision", "licence", "description"):
        lines.append(f"{name} = {json.dumps(getattr(source, name))}")
    pins = ", ".join(f'{{ path = "{file.path}", sha256 = "{file.sha256}" }}' for file in source.files)
    lines.append(f"files = [{pins}]")
    (project / "manifests" / "sources.toml").write_text("\n".join(lines))


@pytest.mark.parametrize(
    "name", ["cut_off_in_a_line", "balloons_repeat_a_trial", "not_utf_8", "unknown_engine"]
)
def test_bad_content_is_exit_10_in_one_line(tmp_path, own_project, name):
    bad, lake = REFUSED[name], Home(tmp_path / "lake")
    pin_in_manifest(own_project, tmp_path / "mirror", {bad.path: bad.content, GOOD_PATH: GOOD})
    done = coglake(lake, own_project, "ingest", SOURCE_ID, "--mirror", str(tmp_path / "mirror"))
    assert done.returncode == 10
    assert bad.cause in done.stderr
    assert bad.path in done.stderr
    assert "Traceback" not in done.stderr
    assert "1 new, 0 present" in done.stdout


def test_another_hash_is_exit_11_and_the_command_can_be_repeated(tmp_path, own_project):
    lake, mirror = Home(tmp_path / "lake"), tmp_path / "mirror"
    pin_in_manifest(own_project, mirror, {BAD_PATH: GOOD, GOOD_PATH: GOOD})
    [path] = mirror.rglob("gpt-4.csv")
    shutil.copy(path, tmp_path / "kept")
    path.write_text(GOOD.replace("3,3", "4,4"))
    arguments = ("ingest", SOURCE_ID, "--mirror", str(mirror), "--json")
    done = coglake(lake, own_project, *arguments)
    assert done.returncode == 11
    assert "Traceback" not in done.stderr
    [error] = json.loads(done.stdout)["errors"]
    assert "BART/data/gpt-4.csv: expected sha256" in error

    shutil.copy(tmp_path / "kept", path)
    done = coglake(lake, own_project, *arguments)
    assert done.returncode == 0
    [report] = json.loads(done.stdout)["sources"]
    assert (report["n_new_files"], report["n_present_files"]) == (1, 1)
