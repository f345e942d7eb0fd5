"""Measures of the Self-Regulation Ontology: which file is read how.

Source: Eisenberg et al. (2019), Uncovering the structure of self-regulation through data-driven ontology
discovery, Nature Communications 10, 2319. 522 participants did each measure once, online.
``Individual_Measures/<measure>.csv.gz`` has one row per screen, with the participant in ``worker_id``, the
milliseconds since the measure began in ``time_elapsed``, and the number of the screen at the end of the row's
name. Screens are in the order of their numbers: a clock may be set back, as that of one participant was.
"""

import gzip
import re
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from ingest import discounting, recent_probes
from ingest.contract import Imported
from ingest.csv_files import UNNAMED, read_rows
from ingest.questions import imported
from ingest.rows import without_response
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 2

# measure -> mode
MODES = {
    "bickel_titrator": "temporal_discounting_bickel",
    "discount_titrate": "temporal_discounting_titration",
    "kirby": "temporal_discounting_kirby",
    "recent_probes": "recent_probes",
}

_FILE = re.compile(r"(?:.*/)?(?P<measure>\w+)\.csv\.gz")

# the pinned files unpack to at most 40 MB; one that holds more is not unpacked to its end
_MAX_BYTES = 512 * 2**20
_CHUNK_BYTES = 2**20

_PLACE_COLUMNS = ("worker_id", "time_elapsed", UNNAMED)


# a table of its own: a cast beside read_csv would move into it and refuse what cannot be cast
_SCREENS = f"""
create or replace table screens as
select
    * exclude (source_row, worker_id, time_elapsed, {UNNAMED}),
    worker_id as participant_id,
    coalesce(regexp_full_match(worker_id, '[A-Za-z0-9._-]+'), false) as is_named,
    try_cast(regexp_extract({UNNAMED}, '_([0-9]{{1,9}})$', 1) as integer) as place,
    try_cast(time_elapsed as bigint) as time_ms,
    case
        when worker_id is null then 'worker_id is empty'
        when not is_named then 'worker_id is not made of letters, digits and . _ -'
        when place is null then 'the name of the row does not end in the number of a screen'
        when time_ms is null then 'time_elapsed is not a number'
    end as place_flaw
from source
"""

_TWICE = """
select participant_id || ' at ' || time_ms || ' ms' as screen from screens where place_flaw is null
group by participant_id, time_ms having count(*) > 1
union all
select participant_id || ' with number ' || place as screen from screens where place_flaw is null
group by participant_id, place having count(*) > 1
order by screen
"""

_SET_BACK = """
with stepped as (
    select
        participant_id,
        time_ms < lag(time_ms) over (partition by participant_id order by place) as is_back
    from screens
    where place_flaw is null
)
select
    'the clock of ' || participant_id || ' is set back in between; in the order of their numbers' as note,
    count(*) as n_rows
from stepped
group by participant_id having count_if(is_back) > 0 order by participant_id
"""

_PARTICIPANTS = "select participant_id from screens where is_named"

_PLACE_FLAWS = """
select place_flaw || '; left out', count(*) as n_rows from screens where place_flaw is not null
group by place_flaw order by n_rows desc, place_flaw
"""


class SelfRegulationImporter:
    """Reads the trials of recent probes, or the choices between a sooner and a later reward."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a measure that is a mode; None for any other file of the repository."""
        measure = _measure(file)
        if measure is None:
            return None
        return f"{source.id}-{measure}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each trial that was answered into an item and a human response.

        Raises
        ------
        InvalidSource
            If the file is no whole gzip, is not CSV in UTF-8 with the columns of the measure, or has a screen
            of a participant twice.
        """
        measure, run_id, where = _measure(file), self.identify(source, file), source.uri(file)
        if measure is None or run_id is None:
            raise InvalidSource(f"{where}: not a measure that is a mode")
        is_probes = measure == "recent_probes"
        n_rows = _load(self._con, path, recent_probes.COLUMNS if is_probes else discounting.COLUMNS, where)
        names = {"run_id": run_id, "mode_id": MODES[measure], "source_id": source.id}
        read = recent_probes.read_screens if is_probes else discounting.read_screens
        tables, flaws = read(self._con, names)
        lost = without_response(self._con, _PARTICIPANTS, tables["human_responses"])
        noted = dict(self._con.execute(_SET_BACK).fetchall()) | lost
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=measure,
            modes=[MODES[measure]],
            tables=tables,
            n_source_rows=n_rows,
            flaws=[*self._con.execute(_PLACE_FLAWS).fetchall(), *flaws, *noted.items()],
            set_aside=[*discounting.SET_ASIDE, *noted],
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _measure(file: PinnedFile) -> str | None:
    found = _FILE.fullmatch(file.path)
    return found["measure"] if found and found["measure"] in MODES else None


def _load(con: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[str], where: str) -> int:
    """Read the file into ``screens``; return its number of data rows."""
    with TemporaryDirectory() as folder:
        unpacked = Path(folder) / "measure.csv"
        _unpack(path, unpacked, where)
        n_rows = read_rows(con, unpacked, where, (*_PLACE_COLUMNS, *columns), has_others=True)
    con.execute(_SCREENS)
    if twice := con.execute(_TWICE).fetchall():
        raise InvalidSource(
            f"{where}: expected each screen once, found several at one place, the first is that of "
            f"{twice[0][0]}"
        )
    return n_rows


def _unpack(path: Path, target: Path, where: str) -> None:
    n_bytes = 0
    try:
        with gzip.open(path) as packed, target.open("wb") as out:
            while chunk := packed.read(_CHUNK_BYTES):
                n_bytes += len(chunk)
                if n_bytes > _MAX_BYTES:
                    raise InvalidSource(
                        f"{where}: expected at most {_MAX_BYTES:,} bytes when unpacked, found more"
                    )
                out.write(chunk)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidSource(f"{where}: not readable as gzip ({error})") from error
