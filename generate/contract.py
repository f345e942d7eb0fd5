"""What environments, agents and engines promise to each other and to the loops that let them act.

Episodes of one environment are played side by side: arrays have one entry per episode on their first axis,
so a step of all episodes is a few array operations. An environment draws all its chance events from the
seed of the episode before play, so neither the batch nor what other episodes do can change a reward.

Three types keep what is hidden apart: a *world* is what was drawn, a *state* is where an episode stands, and
an :class:`Observation` is what a participant sees of both. Agents and prompts are given observations alone.

Engines answer requests. They know models and tokens; what is asked, and of whom, is not their business.
"""

import math
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Telling:
    """What a model is told of one episode, as places of the texts in its template.

    Attributes
    ----------
    happened
        What came since the choice before: names of texts with their places, which join the history in this
        order. Empty before the first choice.
    asked
        Places of the text ``prompt``; the place ``history`` is filled by the loop.
    """

    happened: tuple[tuple[str, Mapping[str, object]], ...]
    asked: Mapping[str, object]


class State(Protocol):
    """Where the episodes stand. Immutable: a step returns a new one."""

    @property
    def live(self) -> Bools:
        """Episodes that are not over."""
        ...


WorldT = TypeVar("WorldT")
StateT = TypeVar("StateT", bound=State)
SeenT = TypeVar("SeenT", bound=Observation)
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
class Environment(Questions, Protocol[WorldT, StateT, SeenT]):
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

    def observe(self, world: WorldT, state: StateT) -> SeenT:
        """Return what is visible now."""
        ...

    def tell(self, seen: SeenT) -> list[Telling]:
        """Return what a model is told, one entry per episode; of episodes that are over it has no meaning.

        It is called once per step and in order, forced steps included. The template is
        ``manifests/prompts/play_<schedule>.toml``; actions are written as in ``actions``.
        """
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


# --- models ---


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Ask for text, decoded greedily.

    Attributes
    ----------
    max_tokens
        Budget of the response; less where the context has less space left.
    stop
        Texts before which the response ends.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choose:
    """Ask for the log-probability of every option as the continuation of the prompt."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    Attributes
    ----------
    prompt
        Text that is continued as it is, or messages that the model's chat template turns into text.
    task
        What is asked for.
    """

    prompt: str | tuple[Message, ...]
    task: Answer | Choose


ResponseStatus = Literal["ok", "error", "too_long", "missing_option"]


@dataclass(frozen=True, slots=True)
class ScoredOption:
    """One option of a request.

    Attributes
    ----------
    token_ids, token_logprobs_nats
        Tokens that were scored and the log-probability of each, in nats; empty if there are none.
    is_merged
        Prompt and option share a token, so all options of the request are scored from the last token on that
        none of them changes: their sums are comparable, and none is of its option alone.
    terminator
        Text that was scored behind the option because another option goes on where this one ends.
    status, reason
        ``missing_option`` or ``error`` with a sentence where there is no log-probability.
    """

    option: str
    token_ids: tuple[int, ...] = ()
    token_logprobs_nats: tuple[float, ...] = ()
    is_merged: bool = False
    terminator: str | None = None
    status: ResponseStatus = "ok"
    reason: str | None = None

    @property
    def logprob_nats(self) -> float | None:
        """Log-probability of the option, in nats; None if it is missing."""
        return math.fsum(self.token_logprobs_nats) if self.status == "ok" else None


@dataclass(frozen=True, slots=True)
class Response:
    """What came of one request.

    Attributes
    ----------
    status, reason
        ``ok``, or what went wrong in one sentence. A prompt is never cut: ``too_long`` names the lengths.
    prompt_text
        The prompt as the model saw it, with every token of the chat template; the messages as JSON where a
        server renders them.
    prompt_token_ids
        None where only a server knows them.
    text, finish_reason, response_token_ids
        Of an answer.
    max_tokens
        Budget that the response had in the end.
    options
        Of a choice, in the order of the request.
    """

    status: ResponseStatus
    prompt_text: str
    reason: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    n_prompt_tokens: int | None = None
    text: str | None = None
    finish_reason: str | None = None
    response_token_ids: tuple[int, ...] | None = None
    n_response_tokens: int | None = None
    max_tokens: int | None = None
    options: tuple[ScoredOption, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a run states of the engine and the model in it.

    Attributes
    ----------
    name, version
        Of the engine: ``vllm``, ``hf`` or ``openai`` with the version of the package, or what a server says.
    dtype
        Of weights and arithmetic, resolved: never ``auto``. ``unknown`` where a server does not say.
    context_declared_tokens
        What the model's own configuration declares; None if nobody does.
    context_effective_tokens
        What this engine accepts: prompt and response together.
    context_limit_tokens
        What it could accept at most, whatever it is told: the model's positions, or those of the engine, end
        there. None if nothing ends, or nobody says.
    has_chat_template
        Whether messages can be rendered.
    n_leading_bos
        Tokens that begin a sequence, as the model declares: 1 or 0; None where only a server knows.
    bos_token_id
        Which token that is; None if the model has none or only a server knows.
    decisive
        Settings that may change a number, such as prefix caching or quantisation: part of the run's identity.
        ``remote_code`` is there, as ``run``, only where code of the model's own files was run.
    incidental
        Settings that should not, such as batch sizes, and the machine: device, threads, package versions.
    """

    name: str
    version: str
    dtype: str
    context_declared_tokens: int | None
    context_effective_tokens: int | None
    has_chat_template: bool
    n_leading_bos: int | None
    bos_token_id: int | None = None
    decisive: Mapping[str, str] = field(default_factory=dict)
    incidental: Mapping[str, str] = field(default_factory=dict)
    context_limit_tokens: int | None = None


class Engine(Protocol):
    """A model that answers. Which prompts it gets, and what becomes of the answers, is decided elsewhere."""

    @property
    def facts(self) -> EngineFacts:
        """What the run states of it."""
        ...

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order.

        A request that fails is a response with the status ``error``.

        Raises
        ------
        EngineFailed
            If the engine cannot go on at all, such as a server that is gone.
        """
        ...

    def close(self) -> None:
        """Free what the engine holds."""
        ...
