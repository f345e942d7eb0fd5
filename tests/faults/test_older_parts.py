"""A lake that an older version wrote lacks columns that came later: it is read, and it is built."""

import shutil

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from support import built, copy_lake, mart_hashes, new_lake, query

from store import lake as raw
from store.schemas import RAW_TABLES
from store.settings import Home

URNS = (
    "informative_lh,prior,lh,left_pred,red_observation,run\n"
    "True,0.5,0.9,0.8,True,0\n"
    "False,0.3,0.6,0.4,False,0\n"
)
LATER = ["report_low", "report_high", "report_spacing"]


def as_an_older_version_wrote(lake: Home, folder, later: list[str]) -> Home:
    """Copy a lake without some columns of its outputs; the run still names its parts."""
    older = Home(folder)
    for path in raw.part_paths(lake):
        run_id = path.parent.name.removeprefix("run=")
        table = path.parents[1].name
        if run_id == "_schema" or table in ("outputs", "runs"):
            continue
        target = older.raw / path.relative_to(lake.raw)
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
    schema = RAW_TABLES["outputs"]
    keep = pa.schema([field for field in schema if field.name not in later])
    with_fewer = RAW_TABLES | {"outputs": keep}
    [outputs] = [path for path in raw.part_paths(lake, "outputs") if "_schema" not in str(path)]
    [runs] = [path for path in raw.part_paths(lake, "runs") if "_schema" not in str(path)]
    run_id = runs.parent.name.removeprefix("run=")
    rows = {path: pq.ParquetFile(path).read() for path in (outputs, runs)}
    items = [
        path.stem.removeprefix("part-") for path in raw.part_paths(older, "items") if run_id in str(path)
    ]
    original = raw.RAW_TABLES
    raw.RAW_TABLES = with_fewer
    try:
        part = raw.append(older, "outputs", rows[outputs].select(keep.names), run_id)
    finally:
        raw.RAW_TABLES = original
    position = RAW_TABLES["runs"].get_field_index("parts")
    named = pa.array([[*items, part.sha256]], RAW_TABLES["runs"].field(position).type)
    run = rows[runs].set_column(position, RAW_TABLES["runs"].field(position), named)
    raw.append(older, "runs", run, run_id)
    raw.ensure_schema_parts(older)
    return older


def test_columns_that_came_later_are_null(tmp_path, project, demo_lake):
    lake = new_lake(tmp_path, {"ProbabilisticReasoning/data/gpt-4.csv": URNS}, like=demo_lake)
    older = as_an_older_version_wrote(lake, tmp_path / "older", LATER)
    built(lake, project)
    shutil.copy(demo_lake.database, older.database)
    built(older, project)
    assert raw.doctor(older) == []
    outputs = query(older, "select response_number, report_low from stg_outputs order by response_number")
    assert outputs == [
        {"response_number": 0.4, "report_low": None},
        {"response_number": 0.8, "report_low": None},
    ]
    assert mart_hashes(older)["metrics"] == mart_hashes(lake)["metrics"]


def test_a_column_that_may_not_be_null_is_missed(tmp_path):
    lake = new_lake(tmp_path, {"ProbabilisticReasoning/data/gpt-4.csv": URNS})
    older = as_an_older_version_wrote(lake, tmp_path / "older", ["status"])
    findings = [finding.problem for finding in raw.doctor(older)]
    assert findings == ["the columns are not those of outputs; another version of coglake wrote them"]


def test_a_manifest_that_got_a_column_is_loaded_into_an_old_database(tmp_path, project, demo_lake):
    lake = copy_lake(demo_lake, tmp_path / "lake")
    with duckdb.connect(str(lake.database)) as con:
        con.execute("alter table s1cogbench_references drop column note")
    built(lake, project)
    assert mart_hashes(lake) == mart_hashes(demo_lake)
