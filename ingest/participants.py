"""Participants under salted hashes, so that a lake says who took part by no name that a file gave them.

A participant is ``p_`` and the first 16 hex digits of HMAC-SHA256 under the salt of source and name. The salt
is kept nowhere; a short fingerprint of it ends the run's id, so that one lake never mixes two. Importers read
files as ever: what follows from a name, such as who is in the test split, is as it would be without a salt.
"""

import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ingest.contract import RawRows
from store.errors import InvalidSource, WrongUsage
from store.manifest import PinnedFile, Source

MIN_SALT_BYTES = 16

_N_NAME_DIGITS = 16
_N_FINGERPRINT_DIGITS = 8
_FINGERPRINTED = b"coglake: which salt is this"


@dataclass(frozen=True, slots=True)
class Salt:
    """The secret that participants are hashed with."""

    secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """8 hex digits that tell one salt from another, and nothing of either."""
        return hmac.new(self.secret, _FINGERPRINTED, sha256).hexdigest()[:_N_FINGERPRINT_DIGITS]

    def called(self, source_id: str, participant_id: str) -> str:
        """Return what a participant of a source is called instead."""
        named = f"{source_id}/{participant_id}".encode()
        return f"p_{hmac.new(self.secret, named, sha256).hexdigest()[:_N_NAME_DIGITS]}"


def read_salt(path: Path) -> Salt:
    """Read a salt; white space at its ends is no part of it.

    Raises
    ------
    WrongUsage
        If the file cannot be read, or holds fewer than 16 bytes.
    """
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise WrongUsage(f"--participant-salt {path}: cannot be read ({error.strerror})") from None
    if len(secret) < MIN_SALT_BYTES:
        raise WrongUsage(
            f"--participant-salt {path}: expected {MIN_SALT_BYTES} bytes or more, found {len(secret)}; "
            "`openssl rand -hex 32` makes a salt"
        )
    return Salt(secret)


@dataclass(frozen=True, slots=True)
class _People:
    """Where a source names its participants.

    Attributes
    ----------
    files
        Pattern of the paths that name any.
    in_items
        Whether a question belongs to one participant, whose name is then in its id after the run's. Otherwise
        all are asked the same, and a number in an id that is also somebody's name is no name there.
    published_as
        Model under which scores of people are published; None if all published scores of a run are.
    """

    files: re.Pattern[str] = re.compile("")
    in_items: bool = True
    published_as: str | None = None


_ARCHIVE = _People(re.compile(r"/(human|scores_data)\.csv$"), published_as="human")
_SAME_QUESTIONS = _People(in_items=False)

# a source whose importer brings in people; any other that does is refused under a salt
_PEOPLE: Mapping[str, _People] = MappingProxyType(
    {
        "cogbench": _ARCHIVE,
        "demo_archive": _ARCHIVE,
        "hbayesdm": _People(),
        "hmmr": _People(),
        "hyperbole": _SAME_QUESTIONS,
        "mouselab": _People(),
        "multinomineq": _People(),
        "polite_speaker": _SAME_QUESTIONS,
        "pragmatics": _SAME_QUESTIONS,
        "psych_101": _People(),
        "psych_101_test": _People(),
        "rlwm": _People(),
        "self_regulation": _People(),
        "wcst_prl": _People(),
    }
)


def run_ids_of(run_id: str, committed: Collection[str]) -> list[str]:
    """Return the committed runs of the file that an importer calls ``run_id``, under whatever salt."""
    return [known for known in committed if known == run_id or _salted_from(known, run_id)]


def salted_run_id(source: Source, file: PinnedFile, run_id: str, salt: Salt | None) -> str:
    """Return the id of the run that a file becomes; without participants in it, a salt changes nothing."""
    return f"{run_id}-s{salt.fingerprint}" if salt and _names_people(source, file) else run_id


def require_one_salt(
    runs_of_files: Iterable[tuple[Source, PinnedFile, str]], committed: Collection[str], salt: Salt | None
) -> None:
    """Refuse to bring in a file twice, under other names of its participants.

    Parameters
    ----------
    runs_of_files
        Source, file, and the run id that its importer gives it.
    committed
        Ids of the runs in the lake.

    Raises
    ------
    WrongUsage
        If a file is in the lake under another salt or none, whatever its revision and the importer's version.
    """
    of_files = {
        _file_of(run_id): (source.id, salted_run_id(source, file, run_id, salt))
        for source, file, run_id in runs_of_files
        if _names_people(source, file)
    }
    for known in sorted(committed):
        source_id, wanted = of_files.get(_file_of(known), (None, None))
        if wanted is None or _fingerprint_of(known) == _fingerprint_of(wanted):
            continue
        there, given = (
            f"hashed with the salt of fingerprint {fingerprint}" if fingerprint else "as the files name them"
            for fingerprint in (_fingerprint_of(known), _fingerprint_of(wanted))
        )
        raise WrongUsage(
            f"{source_id}: participants are in the lake {there}, and this would add them {given}: use the "
            "same salt as before, or another lake (COGLAKE_HOME)"
        )


def without_names(
    source: Source, file: PinnedFile, run_id: str, tables: Sequence[RawRows], salt: Salt | None
) -> tuple[RawRows, ...]:
    """Return the rows of one run with its participants hashed; without a salt or participants as they are.

    Ids that hold a participant's name hold the hash; the order of people is that of the hashes. Notes are
    left out, because they name people of whom nothing could be read.

    Parameters
    ----------
    run_id
        What the importer calls the run; all rows then name the run of :func:`salted_run_id`.
    tables
        Rows of one run: all of them, or those of a file that is read part by part.

    Raises
    ------
    InvalidSource
        If there are participants and it is not known how the importer names them.
    """
    if salt is None:
        return tuple(tables)
    if not _names_people(source, file):
        if any(_has_people(raw) for raw in tables):
            raise InvalidSource(
                f"{source.uri(file)}: expected no participants, found some; without --participant-salt the "
                "file can be ingested"
            )
        return tuple(tables)
    people = _PEOPLE[source.id]
    new_run_id = salted_run_id(source, file, run_id, salt)
    found = {raw.table: _people_of(raw, people) for raw in tables}
    names = {name for column in found.values() for name in column.drop_nulls().unique()}
    hashes = {name: salt.called(source.id, name) for name in names}
    items = _items_of_people(tables, found, hashes, run_id, new_run_id) if people.in_items else None
    return tuple(
        RawRows(raw.table, _renamed(raw, found[raw.table], hashes, items, run_id, new_run_id))
        for raw in tables
    )


def _names_people(source: Source, file: PinnedFile) -> bool:
    return source.id in _PEOPLE and bool(_PEOPLE[source.id].files.search(file.path))


def _has_people(raw: RawRows) -> bool:
    """Tell whether rows are of people; the participant of an item may be an episode of a task."""
    responds = raw.table == "human_responses" and raw.rows.num_rows > 0
    return responds or (raw.table == "runs" and "human" in raw.rows["kind"].to_pylist())


def _file_of(run_id: str) -> str:
    """Return the name of a file: what its runs have in common."""
    return re.sub(r"-[0-9a-f]{12}-v[0-9]+(-s[0-9a-f]+)?$", "", run_id)


def _fingerprint_of(run_id: str) -> str | None:
    found = re.search(r"-v[0-9]+-s([0-9a-f]+)$", run_id)
    return found[1] if found else None


def _salted_from(known: str, run_id: str) -> bool:
    return known.startswith(f"{run_id}-s") and _fingerprint_of(known) is not None


def _people_of(raw: RawRows, people: _People) -> pl.Series:
    """Return who each row is of, null for nobody: its participant, or who played the episode."""
    columns = [raw.rows[name] for name in ("participant_id", "episode_id") if name in raw.rows.column_names]
    if not columns:
        return pl.Series("name", [None] * raw.rows.num_rows, dtype=pl.String)
    found = pc.coalesce(*columns)
    if raw.table == "published" and people.published_as is not None:
        found = pc.if_else(pc.equal(raw.rows["model_id"], people.published_as), found, None)
    return pl.Series("name", pl.from_arrow(found), dtype=pl.String)


def _items_of_people(
    tables: Sequence[RawRows],
    found: Mapping[str, pl.Series],
    hashes: Mapping[str, str],
    run_id: str,
    new_run_id: str,
) -> pl.DataFrame:
    """Return what items are called whose ids name somebody: columns ``item_id`` and ``new``, one row each.

    The name follows the run's id, whole or without the data set before it.
    """
    name, rest = pl.col("name"), pl.col("item_id").str.strip_prefix(f"{run_id}/")
    spelled = [name, name.str.replace("^[^/]*/", ""), name.str.replace("^[^-]*-", "")]
    new = pl.coalesce(
        pl.when(rest.str.starts_with(pl.concat_str(each, pl.lit("/")))).then(
            pl.concat_str(
                pl.lit(f"{new_run_id}/"), name.replace_strict(hashes), rest.str.slice(each.str.len_chars())
            )
        )
        for each in spelled
    )
    frames = [
        pl.DataFrame([_text(raw.rows, "item_id"), found[raw.table]])
        .drop_nulls()
        .select("item_id", new=new)
        .drop_nulls()
        for raw in tables
        if "item_id" in raw.rows.column_names and found[raw.table].count()
    ]
    return pl.concat(frames).unique() if frames else pl.DataFrame(schema={"item_id": str, "new": str})


def _renamed(
    raw: RawRows,
    found: pl.Series,
    hashes: Mapping[str, str],
    items: pl.DataFrame | None,
    run_id: str,
    new_run_id: str,
) -> pa.Table:
    rows, n = raw.rows, raw.rows.num_rows
    people = pl.DataFrame({"name": found}).with_columns(
        hash=pl.col("name").replace_strict(hashes, return_dtype=pl.String)
    )
    for column in {"participant_id", "episode_id"}.intersection(rows.column_names):
        old = pl.col("old")
        named = people.with_columns(old=_text(rows, column)).select(
            pl.when(old == pl.col("name")).then("hash").otherwise(old)
        )
        rows = _with(rows, column, named.to_series().to_arrow())
    if "run_id" in rows.column_names:
        rows = _with(rows, "run_id", pa.repeat(new_run_id, n))
    if "item_id" in rows.column_names:
        ids = pl.DataFrame({"item_id": _text(rows, "item_id")})
        moved = pl.col("item_id").str.replace(f"^{re.escape(run_id)}/", f"{new_run_id}/")
        if items is not None:
            # two new names of one item would be two people whose question it is
            ids = ids.join(items, on="item_id", how="left", validate="m:1", maintain_order="left")
            moved = pl.coalesce("new", moved)
        ids = ids.select(moved.alias("item_id"))
        rows = _with(rows, "item_id", ids["item_id"].to_arrow())
        people = people.with_columns(
            hash=pl.coalesce("hash", ids["item_id"].str.extract("/(p_[0-9a-f]{16})/"))
        )
    if raw.table == "runs":
        rows = _with(rows, "notes", pa.array([_fewer_notes(run) for run in rows.to_pylist()]))
    # the order of names is a trace of them
    order = people.with_row_index().sort("hash", "index")["index"]
    return rows.take(order.to_arrow())


def _text(rows: pa.Table, column: str) -> pl.Series:
    return pl.Series(column, pl.from_arrow(rows[column]), dtype=pl.String)


def _with(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    place = rows.schema.get_field_index(column)
    of_column = rows.schema.field(place)
    return rows.set_column(place, of_column, values.cast(of_column.type))


def _fewer_notes(run: Mapping[str, Any]) -> list[str]:
    """Return the notes of a run without what a file says; of one without rows they quote nothing."""
    if not run["notes"] or not run["n_source_rows"]:
        return list(run["notes"])
    return [f"notes left out, because they may name participants: {len(run['notes'])}"]
