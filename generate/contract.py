"""What environments and agents promise to each other and to the loop that lets them play.

Episodes of one environment are played side by side: arrays have one entry per episode on their first axis,
so a step of all episodes is a few array operations. An environment draws all its chance events from the
seed of the episode before play, so neither the batch nor what other episodes do can change a reward.

Three types keep what is hidden apart: a *world* is what was drawn, a *state* is where an episode stands, and
an :class:`Observation` is what a participant sees of both. Agents and prompts are given observations alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from generate.streams import Streams
from store.settings import Home

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Episodes:
    """Episodes to be played.

    Attributes
    ----------
    ids
        Key of each episode within its run.
    seeds
        Seed of each episode's chance events; episodes that share a world may share a seed.
    slots
        Place in the schedule where that matters: condition, game or participant slot. Visible.
    """

    ids: tuple[str, ...]
    seeds: Ints
    slots: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, which: Ints) -> "Episodes":
        """Return some of the episodes."""
        return Episodes(tuple(self.ids[index] for index in which), self.seeds[which], self.slots[which])

    def repeated(self, n_times: int) -> "Episodes":
        """Return the episodes ``n_times`` over, one whole pass after the other."""
        return Episodes(self.ids * n_times, np.tile(self.seeds, n_times), np.tile(self.slots, n_times))


@dataclass(frozen=True, slots=True)
class Observation:
    """What a participant sees before a choice, in all episodes at once.

    Attributes
    ----------
    legal
        Which actions may be chosen: episodes x actions. An episode that is over has none.
    """

    legal: Bools


@dataclass(frozen=True, slots=True)
class Step:
    """What one step left behind: one row of ``raw/steps`` for each episode that took part.

    Arrays have one entry per episode; entries of episodes that were over have no meaning.

    Attributes
    ----------
    trial
        Number of the trial, from 0.
    reward
        In the mode's unit; NaN where the step pays nothing that is scored.
    is_rewarded
        Whether the step belongs to the mean reward.
    stage
        Decision within the trial, from 0.
    credited
        Actions that count as right, episodes x actions; None if the step credits none. Scorer only.
    is_credited
        Episodes whose ``credited`` is known; None: all.
    outcome, observation
        Index into the environment's ``outcomes`` and ``observations``; -1: none.
    hidden
        Episodes x values, for the scorer alone; None if there are none.
    """

    trial: Ints
    reward: Floats
    is_rewarded: Bools
    stage: int | Ints = 0
    credited: Bools | None = None
    is_credited: Bools | None = None
    outcome: Ints | None = None
    observation: Ints | None = None
    hidden: Floats | None = None


@dataclass(frozen=True, slots=True)
class ScheduledItem:
    """One policy-independent part of a schedule, as a row of ``raw/items``: see :mod:`store.schemas`.

    ``weight`` is the number of choices that the item stands for. A schedule that is played has no prompts.
    """

    item_id: str
    legal_options: tuple[str, ...] | None = None
    credited_options: tuple[str, ...] | None = None
    participant_id: str | None = None
    prompt: str | None = None
    template_id: str | None = None
    template_sha256: str | None = None
    support_low: float | None = None
    support_high: float | None = None
    target: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0


class State(Protocol):
    """Where the episodes stand. Immutable: a step returns a new one."""

    @property
    def live(self) -> Bools:
        """Episodes that are not over."""
        ...


WorldT = TypeVar("WorldT")
StateT = TypeVar("StateT", bound=State)
SeenT_co = TypeVar("SeenT_co", bound=Observation, covariant=True)
SeenT_contra = TypeVar("SeenT_contra", bound=Observation, contravariant=True)
MemoryT = TypeVar("MemoryT")


class Questions(Protocol):
    """A task in which no answer changes a later question: all there is of it is its items."""

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return the episodes that a schedule with these seeds has, in order."""
        ...

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return what the schedule holds whoever plays: the ground of exact expectations."""
        ...


@runtime_checkable
class Environment(Questions, Protocol[WorldT, StateT, SeenT_co]):
    """A task that is played. An instance holds the constants of its schedule; methods are pure functions."""

    @property
    def actions(self) -> tuple[str, ...]:
        """Labels of all actions; an action is an index into them."""
        ...

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Labels of what a step can lead to."""
        ...

    @property
    def observations(self) -> tuple[str, ...]:
        """Labels of what can be in view when an action is chosen."""
        ...

    def draw(self, episodes: Episodes) -> WorldT:
        """Draw every chance event of the episodes, each from its own seed."""
        ...

    def start(self, world: WorldT) -> StateT:
        """Return the state before the first step."""
        ...

    def observe(self, world: WorldT, state: StateT) -> SeenT_co:
        """Return what is visible now."""
        ...

    def step(self, world: WorldT, state: StateT, actions: Ints) -> tuple[StateT, Step]:
        """Advance all live episodes; ``actions`` of these are legal."""
        ...

    def trials_left(self, world: WorldT, state: StateT) -> Ints:
        """Return how many trials each episode's schedule still holds, without the one that is under way."""
        ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """Who plays where.

    Attributes
    ----------
    replicas
        Parameter set that plays, as an index into those of the agent.
    slots
        The episode's place in the schedule.
    """

    replicas: Ints
    slots: Ints

    def __len__(self) -> int:
        return self.replicas.size


class Policy(Protocol[SeenT_contra, MemoryT]):
    """How an agent with known parameters chooses."""

    def start(self, lanes: Lanes) -> MemoryT:
        """Return what is known before the first choice."""
        ...

    def act(self, memory: MemoryT, seen: SeenT_contra, streams: Streams) -> tuple[MemoryT, Ints]:
        """Learn from what is seen of the last action, and choose: one action per episode.

        Entries of episodes that are over are ignored. All chance comes from ``streams``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fit:
    """One parameter of one parameter set, as a row of ``raw/fits``."""

    parameter: str
    value: float
    participant_id: str | None = None
    fold: int | None = None
    is_at_bound: bool | None = None
    n_training: int | None = None
    is_converged: bool | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """A policy ready for the test, and where its parameters come from.

    Attributes
    ----------
    policy
        Frozen: nothing in it changes during the test.
    replicas
        Names of the parameter sets that each play every episode; one without a name if there is one.
    fits
        Rows of ``raw/fits``.
    training_set
        In words: which environments or participants the parameters come from.
    """

    policy: Policy[Any, Any]
    replicas: tuple[str, ...] = ("",)
    fits: tuple[Fit, ...] = ()
    training_set: str = "nothing fitted"


AnyEnvironment = Environment[Any, Any, Any]


@runtime_checkable
class Family(Protocol):
    """A kind of agent; an instance holds its settings."""

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy with the parameters that this family's rule gives it.

        Parameters
        ----------
        environment
            The environment that the policy will play, for its constants and for training episodes.
        training_seeds
            Seeds of the environments in which parameters may be chosen; never those of the test.
        """
        ...


@runtime_checkable
class Answerer(Protocol):
    """An agent that answers questions; an instance holds its settings."""

    def answer(self, questions: pa.Table) -> pa.Table:
        """Answer every question.

        Parameters
        ----------
        questions
            Columns ``item_id``, ``legal_options``, ``support_low``, ``support_high`` and ``facts_json`` of
            ``raw/items``: nothing that says which answer is right.

        Returns
        -------
        pa.Table
            One row per question: ``item_id``, and what there is of ``response_text``, ``response_number``,
            ``report_low``, ``report_high``, ``report_spacing`` (columns of ``raw/outputs``) and
            ``logprobs_nats``, a list with the log-probability of every legal option.
        """
        ...


@runtime_checkable
class FittedToPeople(Family, Protocol):
    """A family whose parameters are fitted to human responses and kept in ``reference_fits.csv``."""

    def estimate(self, lake: Home) -> tuple[list[Fit], str]:
        """Fit to the responses in a lake, and say in words which these are.

        Raises
        ------
        SourceUnavailable
            If the lake does not hold them.
        """
        ...


Exposure = Literal[
    "training_participants",
    "other_folds",
    "training_participants_or_other_folds",
    "other_participants",
    "nothing",
]


@dataclass(frozen=True, slots=True)
class Training:
    """All that a reference may learn from.

    Attributes
    ----------
    trials
        Questions and what people answered, one row per response, in the order of participant and
        item. Columns: ``item_id``, ``dataset``, ``participant_id``, ``split``, ``fold``, ``legal_options``,
        ``credited_options``, ``support_low``, ``support_high``, ``target``, ``facts_json``, ``response``,
        ``response_number``, ``weight`` and ``is_shared``: whether the question is of no one
        participant. Empty if the reference fits nothing.
    archived
        Parameters that came with the source, as rows of ``raw/fits`` with the ``dataset`` of their run.
    """

    trials: pl.DataFrame
    archived: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a reference learned.

    Attributes
    ----------
    parameters
        In the family's own form.
    fits
        The same as rows of ``raw/fits``.
    training_set
        In words: whose responses the parameters come from.
    """

    parameters: Any
    fits: tuple[Fit, ...] = ()
    training_set: str = "nothing fitted"


@runtime_checkable
class PredictsPeople(Protocol):
    """A reference that predicts what people answer; an instance holds its settings."""

    @property
    def exposure(self) -> Exposure:
        """Which responses it may learn from.

        ``training_participants``: it is fitted once, to rows of the split ``train``, and predicts those of
        ``test``. ``other_folds``: it is fitted once per fold, to the rows of all others, and predicts that
        fold. ``training_participants_or_other_folds``: a mode of two data sets, where responses with a fold
        are predicted as in ``other_folds``, from the other folds alone, and those without one as in
        ``training_participants``. ``other_participants``: it fits nothing and predicts each response from
        those of others.
        ``nothing``: it fits nothing.
        """
        ...

    def fit(self, training: Training) -> Estimate:
        """Return the parameters that this family's rule gives."""
        ...

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Predict every response.

        Parameters
        ----------
        trials
            Columns as in :class:`Training`. A prediction may use what came before it in the same session, as
            the participant did, and nothing that came later.

        Returns
        -------
        pl.DataFrame
            ``item_id``; ``participant_id`` where the prediction is of this participant's response alone; and
            ``response_text``, ``response_number`` or ``logprobs_nats``, a list with the log-probability of
            every legal option in their order.
        """
        ...
