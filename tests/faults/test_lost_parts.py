"""A run counts with the parts that it committed: all of them, and no other."""

import hashlib
import shutil

import pyarrow.parquet as pq
from support import add_files, built, copy_lake, mart_hashes, query

from store.build import build

BALLOONS = "run,trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx\n" + "".join(
    f"0,{trial},3,3,8,False,{trial},0\n" for trial in range(45)
)


def folder_of(lake, table, name):
    [folder] = [path for path in (lake.raw / table).iterdir() if name in path.name]
    return folder


def failed_checks(lake, project):
    report = build(lake, project)
    return {failure.name for failure in report.failures if failure.kind == "test"}


def test_the_same_rows_in_other_bytes_are_not_counted_twice(tmp_path, demo_lake, project):
    # what an interrupted import leaves when another parquet writer resumes it
    lake = copy_lake(demo_lake, tmp_path / "lake")
    folder = folder_of(lake, "steps", "BART-demo-greedy")
    [part] = folder.iterdir()
    other = folder / "other"
    pq.write_table(pq.read_table(part, partitioning=None), other, compression="snappy")
    other.rename(folder / f"part-{hashlib.sha256(other.read_bytes()).hexdigest()}.parquet")
    # and what somebody copied into the folder of another run, under the hash that a run names
    shutil.copy(part, folder_of(lake, "steps", "RestlessBandit-demo-greedy"))
    built(lake, project, full_refresh=True)
    assert mart_hashes(lake) == mart_hashes(demo_lake)


def test_a_committed_part_that_is_gone_fails_the_build(tmp_path, demo_lake, project):
    lake = copy_lake(demo_lake, tmp_path / "lake")
    shutil.rmtree(folder_of(lake, "steps", "RestlessBandit-demo-greedy"))
    assert failed_checks(lake, project) == {"committed_parts_are_there_stg_parts_"}


def test_two_versions_of_one_archived_file_fail_the_build(tmp_path, empty_lake, project):
    lake = copy_lake(empty_lake, tmp_path / "lake")
    for version, balloons in enumerate((BALLOONS, BALLOONS.replace("0,1,3,3", "0,1,4,4"))):
        report = add_files(lake, {"BART/data/gpt-4.csv": balloons})
        assert report.n_new_files == 1, version
    assert failed_checks(lake, project) == {"one_run_per_archived_cell_stg_parts_"}
    # nothing was scored by chance
    assert query(lake, "select * from metrics") == []
