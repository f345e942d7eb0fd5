"""Parameters that were fitted to human participants once, frozen in ``manifests/reference_fits.csv``.

``coglake fit`` makes them anew from the participants' responses; a policy only reads them.
"""

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

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
        Values by name; one entry per participant.
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
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != _COLUMNS:
                raise InvalidSource(f"{path.name}: expected the columns {', '.join(_COLUMNS)}")
            lines = [_line(path.name, reader.line_num, row) for row in reader if row["agent_id"] == agent_id]
    except OSError as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error.strerror})") from error
    if not lines:
        raise InvalidSource(
            f"{path.name}: expected fits of {agent_id}, found none: "
            f"`coglake fit {agent_id} --write` makes them"
        )
    participants = tuple(dict.fromkeys(line.participant_id for line in lines))
    names = tuple(dict.fromkeys(line.parameter for line in lines))
    values = {(line.participant_id, line.parameter): line.value for line in lines}
    if len(values) != len(lines) or len(lines) != len(participants) * len(names):
        raise InvalidSource(
            f"{path.name}: {agent_id}: expected each of {', '.join(names)} once for each of "
            f"{len(participants)} participants, found {len(lines)} lines"
        )
    if len({line.training_set for line in lines}) > 1:
        raise InvalidSource(f"{path.name}: {agent_id}: expected one training_set, found several")
    return Recorded(
        participants,
        {name: np.array([values[participant, name] for participant in participants]) for name in names},
        tuple(
            Fit(line.parameter, line.value, line.participant_id, None, line.is_at_bound, line.n_training)
            for line in lines
        ),
        lines[0].training_set,
    )


class _Line(BaseModel):
    """One parameter of one participant, as the manifest states it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    agent_id: str
    participant_id: Annotated[str, Field(min_length=1)]
    parameter: Annotated[str, Field(min_length=1)]
    value: float
    is_at_bound: bool | None
    n_training: Annotated[int, Field(ge=1)]
    training_set: Annotated[str, Field(min_length=1)]

    @field_validator("is_at_bound", mode="before")
    @classmethod
    def _is_known(cls, cell: str) -> bool | None:
        known = {"": None, "true": True, "false": False}
        if cell not in known:
            raise ValueError(f"expected true, false or nothing, found {cell!r}")
        return known[cell]


def _line(file: str, number: int, cells: dict[str, str]) -> _Line:
    try:
        return _Line.model_validate(cells)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{file}: line {number}: {'.'.join(map(str, first['loc']))}"
        raise InvalidSource(f"{where}: {first['msg']}, found {first['input']!r}") from error


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
