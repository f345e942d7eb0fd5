"""Schedules of the environments and settings of the agents, as the manifests declare them."""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from generate.contract import AnyEnvironment, Family
from store.errors import InvalidSource
from store.settings import project_dir

_FROZEN = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SENTENCES = {"extra_forbidden": "unknown key", "missing": "the key is missing"}

T = TypeVar("T", bound=BaseModel)

Positive = Annotated[int, Field(strict=True, ge=1, lt=2**31)]
_N_SEEDS = 2**32
Seed = Annotated[int, Field(strict=True, ge=0, lt=_N_SEEDS)]


class Seeds(BaseModel):
    """Consecutive seeds: ``first``, ``first + 1``, … (``count`` of them)."""

    model_config = _FROZEN

    first: Seed
    count: Positive

    @model_validator(mode="after")
    def _are_seeds(self) -> Self:
        if self.range[-1] >= _N_SEEDS:
            raise ValueError(f"seeds must be below 2^32, the last would be {self.range[-1]}")
        return self

    @property
    def range(self) -> range:
        """The seeds themselves."""
        return range(self.first, self.first + self.count)


class Schedule(BaseModel):
    """One environment with everything that decides what happens in it.

    Attributes
    ----------
    id
        Name of the block, and ``source_id`` of the items.
    version
        Raised whenever anything else in the block changes: rows of one version never change.
    mode
        Table 3 row that is played.
    dynamics
        Module and class under ``generate.environments``, such as ``bandits:RestlessBandit``.
    seeds, training_seeds
        Of the test, and of the environments in which references may choose their parameters.
    constants
        Fields of the environment.
    """

    model_config = _FROZEN

    id: str
    version: Positive
    mode: Annotated[str, Field(strict=True, min_length=1)]
    description: Annotated[str, Field(strict=True, min_length=1)]
    dynamics: Annotated[str, Field(strict=True, pattern=r"^[a-z_]+:[A-Za-z]+$")]
    seeds: Seeds
    training_seeds: Seeds | None = None
    constants: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _trains_elsewhere(self) -> Self:
        training = range(0) if self.training_seeds is None else self.training_seeds.range
        if set(training) & set(self.seeds.range):
            raise ValueError("training_seeds must not be seeds of the test")
        return self

    @property
    def sha256(self) -> str:
        """Hash of what decides the rows."""
        decisive = self.model_dump(mode="json", exclude={"description"})
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def environment(self) -> AnyEnvironment:
        """Return the environment with the constants of this schedule.

        Raises
        ------
        InvalidSource
            If the constants are not what the environment takes.
        """
        where = f"environments.toml: {self.id}"
        return cast(AnyEnvironment, made(where, "environments", self.dynamics, self.constants))


class AgentSettings(BaseModel):
    """One agent: a family of policies with its settings.

    Attributes
    ----------
    id
        Name of the block, and ``model_id`` of the runs.
    version
        Raised whenever the same settings would play differently: part of every run id.
    kind
        ``uniform`` or ``reference``.
    family
        Module and class under ``generate.agents``, such as ``q_learning:QLearning``; under
        ``generate.references`` if it predicts people.
    schedule
        The environment that it plays; None for one that plays all.
    predicts
        Modes in which it predicts what people answer; none for one that acts.
    provenance
        ``official``, ``reimplementation``, ``archived_replay``, ``analytic``, ``human`` (answers of people
        without a fitted model) or ``substitute``: a stand-in whose parameters come from other data
        than the published reference's.
    seed
        Of the agent's own draws.
    settings
        Fields of the family.
    """

    model_config = _FROZEN

    id: str
    version: Positive
    kind: Literal["uniform", "reference"]
    description: Annotated[str, Field(strict=True, min_length=1)]
    family: Annotated[str, Field(strict=True, pattern=r"^[a-z_]+:[A-Za-z]+$")]
    schedule: str | None = None
    predicts: tuple[Annotated[str, Field(strict=True, min_length=1)], ...] = ()
    provenance: Literal["official", "reimplementation", "archived_replay", "analytic", "human", "substitute"]
    seed: Seed
    settings: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Hash of what decides the choices."""
        # a mode more is another run, and the same settings
        decisive = self.model_dump(mode="json", exclude={"description", "predicts"})
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def made(self) -> Family:
        """Return the family with these settings.

        Raises
        ------
        InvalidSource
            If the settings are not what the family takes.
        """
        package = "references" if self.predicts else "agents"
        return cast(Family, made(f"agents.toml: {self.id}", package, self.family, self.settings))


def load_schedules(path: Path | None = None) -> dict[str, Schedule]:
    """Return the schedules by id, in the order of ``manifests/environments.toml``.

    Raises
    ------
    InvalidSource
        If the manifest is not valid; the sentence names the block and the key.
    """
    return _load(path or project_dir() / "manifests" / "environments.toml", Schedule)


def load_agents(path: Path | None = None) -> dict[str, AgentSettings]:
    """Return the agents by id, in the order of ``manifests/agents.toml``.

    Raises
    ------
    InvalidSource
        If the manifest is not valid; the sentence names the block and the key.
    """
    return _load(path or project_dir() / "manifests" / "agents.toml", AgentSettings)


def _load(path: Path, block_type: type[T]) -> dict[str, T]:
    try:
        blocks = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    return {name: _block(path.name, name, block, block_type) for name, block in blocks.items()}


def _block(file: str, name: str, block: object, block_type: type[T]) -> T:
    if not _NAME.fullmatch(name) or not isinstance(block, dict):
        raise InvalidSource(f"{file}: {name}: expected a block named in lower case, digits and _")
    if "id" in block:
        raise InvalidSource(f"{file}: {name}: id: unknown key; the block's name is the id")
    return validated(f"{file}: {name}", block_type, {"id": name} | block)


def validated(where: str, model: type[T], values: Mapping[str, Any]) -> T:
    """Return what a block declares.

    Raises
    ------
    InvalidSource
        If it is not valid; the sentence begins with ``where`` and names the key.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        said = _SENTENCES.get(first["type"], f"{first['msg']}, found {first.get('input')!r:.80}")
        raise InvalidSource(f"{where}: {key + ': ' if key else ''}{said}") from error


def made(where: str, package: str, name: str, values: Mapping[str, Any]) -> BaseModel:
    """Return an object of a class ``module:Class`` under ``generate.<package>``.

    Raises
    ------
    InvalidSource
        If there is no such class, or the values are not what it takes.
    """
    made_type = _class(package, name)
    if made_type is None:
        raise InvalidSource(f"{where}: expected a class of generate.{package}, found no {name}")
    return validated(where, made_type, values)


@cache
def _class(package: str, name: str) -> type[BaseModel] | None:
    module, _, attribute = name.partition(":")
    path = f"generate.{package}.{module}"
    try:
        found = getattr(import_module(path), attribute, None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == path:
            return None
        raise InvalidSource(f"{path}: cannot be imported ({type(error).__name__}: {error})") from error
    is_its_own = isinstance(found, type) and issubclass(found, BaseModel) and found.__module__ == path
    return found if is_its_own else None
