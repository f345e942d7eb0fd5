"""Let a model play episodes side by side: one question per episode and step, asked in batches.

What the lake holds of a run is replayed and never asked again, so a run that was stopped anywhere, also in
the middle of a step, goes on there. No episode depends on which others are played beside it.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from generate.contract import (
    Answer,
    AnyEnvironment,
    Bools,
    Choose,
    Engine,
    Episodes,
    Floats,
    Ints,
    Message,
    Request,
    Response,
    State,
    Telling,
)
from generate.episodes import Checked, Record, Said, check
from generate.model_rows import said_columns
from generate.reading import read
from generate.streams import Streams, choose, softmax
from store.errors import EngineFailed, LakeUnusable
from store.prompts import Template
from store.schemas import STEPS

FLUSH_SECONDS = 5.0
"""Steps that wait longer to be made durable are handed to the sink after the batch in flight."""

_ABSENT, _UNREAD = -2, -1

# what a step is made of whoever chose the action
_REPLAYED = (
    "episode_id",
    "step_index",
    "trial",
    "stage",
    "legal_options",
    "action",
    "observation",
    "outcome",
    "reward",
    "credited_options",
    "hidden_values",
    "is_forced",
    "is_rewarded",
    "is_last",
)


@dataclass(frozen=True, slots=True)
class Choosing:
    """How an action comes about.

    Attributes
    ----------
    choice
        ``argmax``: the legal action with the highest log-probability; of those that share it, one is drawn.
        ``sampled``: drawn with the probabilities that the model gives the legal actions, scaled to a sum of
        one. ``text``: written by the model, and read as :mod:`generate.reading` says.
    is_chat
        Whether the model is asked in one message of a chat; else its prompt is plain text.
    max_response_tokens, stop
        Of a written action: budget, and texts before which it ends.
    seed
        Of the draws.
    batch_size
        Requests handed to the engine at once.
    """

    choice: Literal["argmax", "sampled", "text"]
    is_chat: bool
    max_response_tokens: int
    stop: tuple[str, ...]
    seed: int
    batch_size: int


class Sink(Protocol):
    """Makes steps durable."""

    def __call__(self, steps: pa.Table, responses: Sequence[Response], n_requests: int) -> None:
        """Keep rows of ``raw/steps``, what the model said for them, and how often it was asked."""
        ...


def as_prompt(text: str, is_chat: bool, task: Answer | Choose) -> str | tuple[Message, ...]:
    """Return a prompt's text in the form in which a request has it.

    In plain text an option goes on where the prompt ends, so a space is put between the two unless one of
    them has it. A prompt that is answered freely stays as it is: models begin a word with its space.
    """
    if is_chat:
        return (Message("user", text),)
    if isinstance(task, Answer) or not text or text[-1].isspace():
        return text
    return text if any(option[:1].isspace() for option in task.options) else f"{text} "


def play_with_model(
    environment: AnyEnvironment,
    episodes: Episodes,
    template: Template,
    engine: Engine,
    choosing: Choosing,
    *,
    run_id: str,
    mode_id: str,
    stored: pa.Table,
    write: Sink,
    on_step: Callable[[int, int], None],
    is_stopping: Callable[[], bool],
) -> bool:
    """Play every episode to its end, or until it is time to stop.

    All episodes step together. A step with one legal action is taken without asking. A choice that cannot be
    taken, be it that the model failed or that its text names no action, ends its episode as in
    :func:`generate.episodes.play`.

    Parameters
    ----------
    stored
        Rows of ``raw/steps`` that the lake holds of this run; those of other episodes are ignored. They are
        replayed and compared before anything is asked. An episode that is behind catches up first.
    write
        Is given each new row once, with episodes in their order and each from its first new step to its last.
    on_step
        Called after each step that was new, with the trials that are over and those that the schedule holds
        at most.
    is_stopping
        Asked after each batch.

    Returns
    -------
    bool
        Whether all episodes are over.

    Raises
    ------
    EngineFailed
        If the engine cannot go on; what was answered before is written.
    LakeUnusable
        If the stored steps are not what the environment makes of the stored actions.
    """
    if not len(episodes):
        return True
    world = environment.draw(episodes)
    start = environment.start(world)
    past = _past(environment, episodes, stored, run_id, mode_id)
    record = Record(environment, episodes.ids, run_id, mode_id)
    unfinished = np.flatnonzero(~_replay(environment, world, past, record))
    _require_same(run_id, past.rows, record.take())
    n_total = int((environment.trials_left(world, start) + 1).sum())
    if not unfinished.size:
        return True
    todo = episodes.only(unfinished)
    rollout = _Rollout(
        environment,
        todo,
        template,
        engine,
        choosing,
        stored=past.actions[unfinished],
        record=Record(environment, todo.ids, run_id, mode_id, past.n_rows[unfinished]),
        write=write,
    )
    return rollout.play(lambda n_left: on_step(n_total - n_left, n_total), is_stopping)


# --- what the lake holds ---


@dataclass(frozen=True, slots=True)
class _Past:
    """Steps that the lake holds.

    Attributes
    ----------
    rows
        By episode, each from its first step to its last.
    n_rows
        How many each episode has.
    actions
        Action of each step: episodes x steps; ``_UNREAD`` where none was taken, with which the episode ends,
        and ``_ABSENT`` from the first step on that is not stored.
    """

    rows: pa.Table
    n_rows: Ints
    actions: Ints


def _past(
    environment: AnyEnvironment, episodes: Episodes, stored: pa.Table, run_id: str, mode_id: str
) -> _Past:
    lanes = pc.index_in(stored["episode_id"], value_set=pa.array(episodes.ids, type=pa.string()))
    is_played = pc.and_(pc.is_valid(lanes), pc.equal(stored["mode_id"], mode_id))
    order = [("lane", "ascending"), ("step_index", "ascending")]
    rows = stored.append_column("lane", lanes).filter(is_played).sort_by(order)
    lane, step_index = rows["lane"].to_numpy(), rows["step_index"].to_numpy()
    place = np.arange(lane.size) - np.searchsorted(lane, lane, side="left")
    if (wrong := np.flatnonzero(place != step_index)).size:
        row = int(wrong[0])
        raise LakeUnusable(
            f"{run_id}: episode {episodes.ids[lane[row]]}: expected step {place[row]} next, found step "
            f"{step_index[row]} in the lake: the episode was played twice, or a part is gone; run `coglake "
            "doctor`, or play it again as a repeated run"
        )
    taken = pc.index_in(rows["action"], value_set=pa.array(environment.actions, type=pa.string()))
    actions = np.full((len(episodes), int(step_index.max(initial=-1)) + 1), _ABSENT, dtype=np.int64)
    actions[lane, step_index] = taken.fill_null(_UNREAD).to_numpy()
    n_rows = np.bincount(lane, minlength=len(episodes)).astype(np.int64)
    return _Past(rows.select(STEPS.names), n_rows, actions)


def _replay(environment: AnyEnvironment, world: object, past: _Past, record: Record) -> Bools:
    """Take the stored actions again, record the steps, and return which episodes are over."""
    state = environment.start(world)
    is_over = np.zeros(past.n_rows.size, dtype=np.bool_)
    for actions in past.actions.T:
        which = (actions != _ABSENT) & state.live & ~is_over
        if not which.any():
            break
        seen = environment.observe(world, state)
        chosen = np.where(actions < 0, np.nan, actions)
        checked = check(chosen, seen.legal, which, environment.actions)
        left = environment.trials_left(world, state)
        state, step = environment.step(world, state, checked.actions)
        record.add(which, seen.legal, checked, step, left, ~state.live)
        is_over |= which & ~(state.live & checked.is_valid)
    return is_over


def _require_same(run_id: str, stored: pa.Table, replayed: pa.Table) -> None:
    """Refuse steps that are not what the environment makes of their actions."""
    found, expected = (pl.DataFrame(pl.from_arrow(rows.select(_REPLAYED))) for rows in (stored, replayed))
    n_both = min(found.height, expected.height)
    advice = "the environment or its schedule was changed: take the change back, or raise its version"
    differing = {
        name: found[name].head(n_both).ne_missing(expected[name].head(n_both)).arg_true().head(1).to_list()
        for name in _REPLAYED
    }
    if any(differing.values()):
        row, name = min((rows[0], name) for name, rows in differing.items() if rows)
        step = found.row(row, named=True)
        raise LakeUnusable(
            f"{run_id}: episode {step['episode_id']}, step {step['step_index']}: expected {name} "
            f"{expected.row(row, named=True)[name]} as the environment says, found {step[name]} in the lake: "
            f"{advice}"
        )
    if found.height != expected.height:
        raise LakeUnusable(
            f"{run_id}: expected {expected.height} steps of the episodes that were begun, found "
            f"{found.height} in the lake: {advice}"
        )


# --- playing ---


@dataclass(slots=True)
class _Turn:
    """One step of all episodes while it is under way: the arrays fill up as answers come.

    Attributes
    ----------
    is_settled
        Episodes whose action is known: stored, forced or answered.
    is_recorded
        Episodes whose row is recorded, or stored.
    chosen
        Action of each episode; NaN where there is none.
    uniform
        A number on [0, 1) for each episode, from its own stream.
    reasons, statuses
        Of answers that hold no action.
    responses
        Those that are not recorded yet.
    """

    state: State
    live: Bools
    legal: Bools
    told: Sequence[Telling]
    uniform: Floats
    is_settled: Bools
    is_recorded: Bools
    chosen: Floats
    reasons: dict[int, str] = field(default_factory=dict)
    statuses: dict[int, str] = field(default_factory=dict)
    responses: dict[int, Response] = field(default_factory=dict)


class _Rollout:
    """Episodes that are not over, from their first step on.

    Parameters
    ----------
    stored
        Actions that are not asked again: episodes x steps, as in :class:`_Past`.
    record
        Of the same episodes; it counts their steps on from the stored ones.
    """

    def __init__(
        self,
        environment: AnyEnvironment,
        episodes: Episodes,
        template: Template,
        engine: Engine,
        choosing: Choosing,
        *,
        stored: Ints,
        record: Record,
        write: Sink,
    ) -> None:
        self._environment = environment
        self._template = template
        self._engine = engine
        self._choosing = choosing
        self._stored = stored
        self._record = record
        self._write = write
        keys = zip(episodes.seeds.tolist(), episodes.slots.tolist(), strict=True)
        self._streams = Streams([(choosing.seed, seed, slot) for seed, slot in keys])
        self._world = environment.draw(episodes)
        self._histories = [""] * len(episodes)
        self._options: dict[bytes, tuple[str, ...]] = {}
        self._unwritten: list[Response] = []
        self._flushed_at = time.monotonic()

    def play(self, on_step: Callable[[int], None], is_stopping: Callable[[], bool]) -> bool:
        """Play on, and return whether all episodes are over; ``on_step`` is told how many trials are left."""
        environment, world = self._environment, self._world
        state = environment.start(world)
        is_ended = np.zeros(len(self._histories), dtype=np.bool_)
        n_steps = 0
        while (live := state.live & ~is_ended).any():
            turn = self._begin(state, live, n_steps)
            is_new = not turn.is_recorded[live].all()
            is_stopped = self._ask(turn, is_stopping)
            is_whole = turn.is_settled[live].all()
            state, checked = self._settle(turn)
            is_ended |= live & ~checked.is_valid
            if is_stopped and not is_whole:
                self._flush()
                return False
            live = state.live & ~is_ended
            if is_new:
                on_step(int((environment.trials_left(world, state) + 1)[live].sum()))
            if is_stopped:
                break
            n_steps += 1
        self._flush()
        return not live.any()

    def _begin(self, state: State, live: Bools, n_steps: int) -> _Turn:
        """Tell what happened, and take the actions that need no question."""
        seen = self._environment.observe(self._world, state)
        told = self._environment.tell(seen)
        for lane in np.flatnonzero(live).tolist():
            for name, places in told[lane].happened:
                self._histories[lane] += self._template.fill(name, places)
        stored = np.full(live.size, _ABSENT) if n_steps >= self._stored.shape[1] else self._stored[:, n_steps]
        is_stored = stored != _ABSENT
        return _Turn(
            state=state,
            live=live,
            legal=seen.legal,
            told=told,
            # drawn at every step, so that the numbers of a step are the same whatever was stored
            uniform=self._streams.uniform(1)[:, 0],
            is_settled=is_stored | (seen.legal.sum(axis=1) == 1),
            is_recorded=is_stored,
            chosen=np.where(is_stored, stored, np.nan),
        )

    def _ask(self, turn: _Turn, is_stopping: Callable[[], bool]) -> bool:
        """Ask in every episode whose action is not known; return whether it is time to stop."""
        lanes = np.flatnonzero(turn.live & ~turn.is_settled)
        for first in range(0, lanes.size, self._choosing.batch_size):
            batch = lanes[first : first + self._choosing.batch_size]
            requests = [self._request(turn, lane) for lane in batch.tolist()]
            try:
                self._take(turn, batch, requests, self._engine.respond(requests))
            except BaseException:
                self._settle(turn)
                self._flush()
                raise
            if is_stopping():
                return True
            if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
                self._settle(turn)
                self._flush()
        return False

    def _request(self, turn: _Turn, lane: int) -> Request:
        choosing = self._choosing
        places = {"history": self._histories[lane], **turn.told[lane].asked}
        task: Answer | Choose = (
            Answer(choosing.max_response_tokens, choosing.stop)
            if choosing.choice == "text"
            else Choose(self._options_of(turn, lane))
        )
        return Request(as_prompt(self._template.fill("prompt", places), choosing.is_chat, task), task)

    def _options_of(self, turn: _Turn, lane: int) -> tuple[str, ...]:
        """Return the labels of the legal actions; few sets occur."""
        key = turn.legal[lane].tobytes()
        if key not in self._options:
            labels = self._environment.actions
            self._options[key] = tuple(labels[action] for action in np.flatnonzero(turn.legal[lane]))
        return self._options[key]

    def _take(
        self, turn: _Turn, batch: Ints, requests: Sequence[Request], responses: Sequence[Response]
    ) -> None:
        """Take the actions that the responses hold."""
        if len(responses) != len(requests):
            raise EngineFailed(f"expected {len(requests)} responses, one per request, found {len(responses)}")
        legal = turn.legal[batch]
        # values of legal actions; where the answer is a text, of the one that it names
        values = np.full(legal.shape, -np.inf)
        lanes = batch.tolist()
        for row, (lane, request, response) in enumerate(zip(lanes, requests, responses, strict=True)):
            found = _found(request.task, response, self._options_of(turn, lane))
            if isinstance(found, _Failure):
                turn.statuses[lane], turn.reasons[lane] = found.status, found.reason
            else:
                values[row, legal[row]] = found
        top = values.max(axis=1, keepdims=True)
        is_top = legal & (values == top)
        is_sampled = self._choosing.choice == "sampled"
        weights = softmax(values, legal) if is_sampled else is_top.astype(np.float64)
        actions = choose(weights, turn.uniform[batch])
        turn.chosen[batch] = np.where(np.isfinite(top[:, 0]), actions, np.nan)
        turn.is_settled[batch] = True
        turn.responses.update(zip(lanes, responses, strict=True))

    def _settle(self, turn: _Turn) -> tuple[State, Checked]:
        """Record what is known of a turn and not recorded yet; return the state after the turn.

        Episodes that are still to be asked take any legal action in it: their rows are not recorded, and
        their next state is not used. No episode feels what others do.
        """
        environment = self._environment
        checked = check(turn.chosen, turn.legal, turn.live & turn.is_settled, environment.actions)
        reasons = {lane: turn.reasons.get(lane, reason) for lane, reason in checked.reasons.items()}
        checked = dataclasses.replace(checked, reasons=reasons, statuses=turn.statuses)
        left = environment.trials_left(self._world, turn.state)
        state, step = environment.step(self._world, turn.state, checked.actions)
        new = turn.live & turn.is_settled & ~turn.is_recorded
        if new.any():
            said = _said(turn.responses) if turn.responses else None
            self._record.add(new, turn.legal, checked, step, left, ~state.live, said)
            self._unwritten += turn.responses.values()
            turn.responses = {}
            turn.is_recorded |= new
        return state, checked

    def _flush(self) -> None:
        """Hand over what is recorded."""
        steps = self._record.take()
        if steps.num_rows:
            # there is one response per request
            self._write(steps, self._unwritten, len(self._unwritten))
            self._unwritten = []
        self._flushed_at = time.monotonic()


# --- what a response holds ---


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a response holds no action."""

    status: str
    reason: str


def _found(task: Answer | Choose, response: Response, options: tuple[str, ...]) -> Sequence[float] | _Failure:
    """Return a value for every option, of which the highest counts, or why there are none."""
    if response.status != "ok":
        return _Failure(response.status, response.reason or "the engine gave no reason")
    if isinstance(task, Answer):
        reading = read(response.text or "", options)
        if reading.option is None:
            return _Failure("unparsed", reading.reason or "")
        return [0.0 if option == reading.option else -np.inf for option in options]
    scored = tuple(option.option for option in response.options)
    if scored != options:
        raise EngineFailed(f"expected the options {', '.join(options)}, found {', '.join(scored) or 'none'}")
    values = _logprobs(response)
    assert values is not None
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        missing = [option for option, value in zip(options, values, strict=True) if value is None]
        return _Failure("missing_option", f"expected a log-probability of {', '.join(missing)}, found none")
    return known


def _logprobs(response: Response) -> list[float | None] | None:
    """Return the log-probability of each option, None where it is not finite; None without options."""
    if not response.options:
        return None
    values = [option.logprob_nats for option in response.options]
    return [value if value is not None and math.isfinite(value) else None for value in values]


def _said(responses: Mapping[int, Response]) -> Said:
    """Return the columns of ``raw/steps`` that hold what was said."""
    said = list(responses.values())
    rows = [said_columns(response) | {"logprobs_nats": _logprobs(response)} for response in said]
    schema = pa.schema([STEPS.field(name) for name in rows[0]])
    return Said(np.array(list(responses), dtype=np.int64), pa.Table.from_pylist(rows, schema))
