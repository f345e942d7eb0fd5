"""Parameters that were fitted to human participants once, frozen in ``manifests/reference_fits.csv``.

``coglake fit`` makes them anew from the participants' responses; a policy only reads them.
"""

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from generate.contract import Fit, Floats
from store.errors import InvalidSource
from store.settings import project_dir

_COLUMNS = ("agent_id", "participant_id", "parameter", "value", "is_at_bound", "n_training", "training_set")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Parameter sets of one agent.

    Attributes
    ----------
    participants
        Whose responses each set was fitted to, in the order of the manifest.
    parameters
        Values by name; one entry per participant, NaN where a set lacks the parameter.
    fits
        The same as rows of ``raw/fits``.
    training_set
        In words: which responses the sets were fitted to.
    """

    participants: tuple[str, ...]
    parameters: dict[str, Floats]
    fits: tuple[Fit, ...]
    training_set: str


def recorded(agent_id: str, path: Path | None = None) -> Recorded:
    """Return the frozen parameter sets of an agent.

    Raises
    ------
    InvalidSource
        If the manifest is not valid or holds none of this agent.
    """
    path = path or _path()
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != _COLUMNS:
            raise InvalidSource(f"{path.name}: expected the columns {', '.join(_COLUMNS)}")
        rows = [row for row in reader if row["agent_id"] == agent_id]
    if not rows:
        raise InvalidSource(
            f"{path.name}: expected fits of {agent_id}, found none: run `coglake fit {agent_id}`"
        )
    participants = tuple(dict.fromkeys(row["participant_id"] for row in rows))
    position = {participant: index for index, participant in enumerate(participants)}
    parameters = {row["parameter"]: np.full(len(participants), np.nan) for row in rows}
    for row in rows:
        parameters[row["parameter"]][position[row["participant_id"]]] = float(row["value"])
    fits = tuple(
        Fit(
            parameter=row["parameter"],
            value=float(row["value"]),
            participant_id=row["participant_id"],
            is_at_bound=row["is_at_bound"] == "true" if row["is_at_bound"] else None,
            n_training=int(row["n_training"]),
        )
        for row in rows
    )
    return Recorded(participants, parameters, fits, rows[0]["training_set"])


def recorded_sha256(agent_id: str) -> str:
    """Return the hash of an agent's lines in the manifest; that of nothing if it has none."""
    return hashlib.sha256("\n".join(_lines(agent_id, _path())).encode()).hexdigest()


def is_recorded(agent_id: str) -> bool:
    """Tell whether the manifest holds parameters of an agent."""
    return bool(_lines(agent_id, _path()))


def record(agent_id: str, fits: Iterable[Fit], training_set: str, path: Path | None = None) -> None:
    """Replace the parameter sets of an agent, rounded to 6 decimals, and leave those of others alone."""
    path = path or _path()
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["agent_id"] != agent_id]
    for fit in fits:
        is_at_bound = {None: "", False: "false", True: "true"}[fit.is_at_bound]
        cells = (
            agent_id,
            fit.participant_id,
            fit.parameter,
            round(fit.value, 6),
            is_at_bound,
            fit.n_training,
        )
        rows.append(dict(zip(_COLUMNS, (*map(str, cells), training_set), strict=True)))
    rows.sort(key=lambda row: row["agent_id"])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _lines(agent_id: str, path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f"{agent_id},")]


def _path() -> Path:
    return project_dir() / "manifests" / "reference_fits.csv"
