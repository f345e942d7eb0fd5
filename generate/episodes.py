"""Let a policy play episodes side by side, and write down every decision."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from generate.contract import AnyEnvironment, Bools, Episodes, Fitted, Floats, Ints, Lanes, Observation, Step
from generate.streams import Streams
from store.errors import EngineFailed
from store.schemas import STATUSES, STEPS

_NONE = -1
_OK, _UNPARSED, _ERROR = map(STATUSES.index, ("ok", "unparsed", "error"))

SeenT = TypeVar("SeenT", bound=Observation)


@dataclass(frozen=True, slots=True)
class Checked:
    """Chosen actions, and what is wrong with those that cannot be taken.

    Attributes
    ----------
    actions
        The choices; where one cannot be taken, an action that is legal.
    is_valid
        False where the choice could not be read or is not legal.
    reasons
        One sentence per episode whose choice cannot be taken.
    statuses
        Of the steps of these episodes where it is another one than ``unparsed``.
    """

    actions: Ints
    is_valid: Bools
    reasons: Mapping[int, str]
    statuses: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said in one step.

    Attributes
    ----------
    lanes
        Episodes that were asked, in ascending order.
    columns
        Further columns of ``raw/steps``, one row per episode that was asked.
    """

    lanes: Ints
    columns: pa.Table


def check(chosen: object, legal: Bools, live: Bools, labels: Sequence[str]) -> Checked:
    """Compare choices with what is legal. An episode whose choice cannot be taken is to end there.

    Where one action is legal there is nothing to choose, and it is taken whatever was returned.

    Raises
    ------
    EngineFailed
        If there is not one number per episode.
    """
    try:
        returned = np.asarray(chosen)
        # numbers, and objects such as None; no truth values and no text
        if returned.dtype.kind not in "iufO":
            raise TypeError(returned.dtype)
        values: Floats = returned.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise EngineFailed(f"expected one action per episode, found {type(chosen).__name__}") from error
    if values.shape != live.shape:
        raise EngineFailed(f"expected {live.size} actions, one per episode, found shape {values.shape}")
    is_index = np.isfinite(values) & (values >= 0) & (values < legal.shape[1]) & (values == np.floor(values))
    actions = np.where(is_index, values, 0).astype(np.int64)
    is_valid = (is_index & legal[np.arange(live.size), actions]) | (legal.sum(axis=1) == 1)
    reasons = {}
    for lane in np.flatnonzero(live & ~is_valid).tolist():
        options = ", ".join(labels[action] for action in np.flatnonzero(legal[lane]).tolist())
        found = labels[actions[lane]] if is_index[lane] else "no action"
        reasons[lane] = f"expected one of {options}, found {found}"
    is_chosen = legal[np.arange(live.size), actions]
    return Checked(np.where(is_chosen, actions, legal.argmax(axis=1)), is_valid, reasons)


def play(
    environment: AnyEnvironment, episodes: Episodes, fitted: Fitted, seed: int, *, run_id: str, mode_id: str
) -> pa.Table:
    """Play every episode with every parameter set, and return the rows of ``raw/steps``.

    A choice that cannot be taken ends its episode: the step is ``unparsed``, pays nothing, and every trial
    that the schedule still held is a row with the status ``error``, so that no denominator shrinks.

    Parameters
    ----------
    seed
        Of the policy's draws. Each episode has a stream of its own, named by this seed, its parameter set,
        the episode's seed and its slot.

    Raises
    ------
    EngineFailed
        If the policy does not return one action per episode, or its parameter sets do not differ in name.
    """
    if not fitted.replicas or len(set(fitted.replicas)) < len(fitted.replicas):
        raise EngineFailed(f"expected parameter sets with different names, found {len(fitted.replicas)}")
    if not len(episodes):
        return STEPS.empty_table()
    lanes = episodes.repeated(len(fitted.replicas))
    replicas = np.repeat(np.arange(len(fitted.replicas)), len(episodes))
    keys = np.stack([np.full_like(replicas, seed), replicas, lanes.seeds, lanes.slots], axis=1)
    streams = Streams(keys.tolist())
    world = environment.draw(lanes)
    state = environment.start(world)
    memory = fitted.policy.start(Lanes(replicas, lanes.slots))
    names = [f"{name}/" if name else "" for name in fitted.replicas]
    ids = [names[replica] + episode for replica, episode in zip(replicas, lanes.ids, strict=True)]
    record = Record(environment, ids, run_id, mode_id)
    is_ended = np.zeros(len(lanes), dtype=np.bool_)
    while (live := state.live & ~is_ended).any():
        seen = environment.observe(world, state)
        memory, chosen = fitted.policy.act(memory, _shown(seen), streams)
        checked = check(chosen, seen.legal, live, environment.actions)
        left = environment.trials_left(world, state)
        state, step = environment.step(world, state, checked.actions)
        record.add(live, seen.legal, checked, step, left, ~state.live)
        is_ended |= live & ~checked.is_valid
    return record.take()


def _shown(seen: SeenT) -> SeenT:
    """Return an observation that an agent may keep or spoil: its arrays are copies, and cannot be written."""
    copies = {}
    for field in dataclasses.fields(seen):
        value = getattr(seen, field.name)
        if isinstance(value, np.ndarray):
            copies[field.name] = value.copy()
            copies[field.name].setflags(write=False)
    return dataclasses.replace(seen, **copies)


class Record:
    """Steps of episodes that are played side by side, until they become rows of ``raw/steps``.

    Parameters
    ----------
    episode_ids
        Key of each episode.
    n_earlier
        Rows that each episode has elsewhere, from which its steps are counted on; None: none.
    """

    def __init__(
        self,
        environment: AnyEnvironment,
        episode_ids: Sequence[str],
        run_id: str,
        mode_id: str,
        n_earlier: Ints | None = None,
    ) -> None:
        self._environment = environment
        self._episode_ids = episode_ids
        self._run_id, self._mode_id = run_id, mode_id
        n = len(episode_ids)
        self._n_steps = np.zeros(n, dtype=np.int64) if n_earlier is None else n_earlier.copy()
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, list[NDArray[np.generic]]] = {}
        self._reasons: list[tuple[int, str]] = []
        self._said: list[tuple[Ints, pa.Table]] = []
        self._n_rows = 0

    def add(
        self,
        which: Bools,
        legal: Bools,
        checked: Checked,
        step: Step,
        left: Ints,
        is_over: Bools,
        said: Said | None = None,
    ) -> None:
        """Add one step of some episodes, and all that is left of those whose choice cannot be taken.

        Parameters
        ----------
        which
            The episodes.
        left
            Trials that each episode still held when the step was taken.
        is_over
            Episodes that have no step after this one.
        said
            Of some or all of these episodes.
        """
        rows = np.flatnonzero(which)
        n, valid = which.size, checked.is_valid
        status = np.where(valid, _OK, _UNPARSED)
        ended = [lane for lane in checked.reasons if which[lane]]
        for lane in ended:
            status[lane] = STATUSES.index(checked.statuses.get(lane, "unparsed"))
            self._reasons.append((self._n_rows + int(np.searchsorted(rows, lane)), checked.reasons[lane]))
        if said is not None:
            self._said.append((self._n_rows + np.searchsorted(rows, said.lanes), said.columns))
        self._append(
            rows,
            lane=np.arange(n),
            step_index=self._n_steps,
            trial=step.trial,
            stage=np.broadcast_to(step.stage, n),
            action=np.where(valid, checked.actions, _NONE),
            legal=legal,
            is_forced=legal.sum(axis=1) == 1,
            credited=np.zeros_like(legal) if step.credited is None else step.credited,
            is_credited=_or(step.is_credited, np.full(n, step.credited is not None)),
            is_rewarded=step.is_rewarded | ~valid,
            # the trials that an ended episode still held are steps of it
            is_last=np.where(valid, is_over, left == 0),
            reward=np.where(valid, step.reward, np.nan),
            outcome=np.where(valid, _or(step.outcome, np.full(n, _NONE)), _NONE),
            observation=_or(step.observation, np.full(n, _NONE)),
            hidden=_or(step.hidden, np.empty((n, 0))),
            status=status,
        )
        self._n_steps[rows] += 1
        for lane in ended:
            self._end(lane, int(step.trial[lane]), int(left[lane]), checked.reasons[lane])

    def _end(self, lane: int, trial: int, n_left: int, reason: str) -> None:
        """Add a row for every trial that an ended episode still held."""
        n_actions = len(self._environment.actions)
        reason = f"the episode ended at trial {trial}: {reason}"
        self._reasons += [(self._n_rows + position, reason) for position in range(n_left)]
        hidden = self._columns["hidden"][-1]
        self._append(
            np.arange(n_left),
            lane=np.full(n_left, lane),
            step_index=self._n_steps[lane] + np.arange(n_left),
            trial=trial + 1 + np.arange(n_left),
            stage=np.zeros(n_left, dtype=np.int64),
            action=np.full(n_left, _NONE),
            legal=np.zeros((n_left, n_actions), dtype=np.bool_),
            is_forced=np.zeros(n_left, dtype=np.bool_),
            credited=np.zeros((n_left, n_actions), dtype=np.bool_),
            is_credited=np.zeros(n_left, dtype=np.bool_),
            is_rewarded=np.ones(n_left, dtype=np.bool_),
            is_last=np.arange(n_left) == n_left - 1,
            reward=np.full(n_left, np.nan),
            outcome=np.full(n_left, _NONE),
            observation=np.full(n_left, _NONE),
            hidden=np.full((n_left, hidden.shape[1]), np.nan),
            status=np.full(n_left, _ERROR),
        )

    def _append(self, rows: Ints, **columns: NDArray[np.generic]) -> None:
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(values[rows])
        self._n_rows += rows.size

    def take(self) -> pa.Table:
        """Return the rows since the last call, by episode and each from its first step to its last."""
        if not self._n_rows:
            return STEPS.empty_table()
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        order = np.argsort(columns["lane"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        lane = columns["lane"]
        reasons: NDArray[np.object_] = np.full(self._n_rows, None, dtype=np.object_)
        for row, reason in self._reasons:
            reasons[row] = reason
        labels = self._environment.actions
        arrays: dict[str, pa.Array] = {
            "run_id": pa.repeat(pa.scalar(self._run_id), lane.size),
            "mode_id": pa.repeat(pa.scalar(self._mode_id), lane.size),
            "episode_id": _labelled(lane, self._episode_ids),
            "step_index": pa.array(columns["step_index"], type=pa.int32()),
            "trial": pa.array(columns["trial"], type=pa.int32()),
            "stage": pa.array(columns["stage"], type=pa.int8()),
            "observation": _labelled(columns["observation"], self._environment.observations),
            "action": _labelled(columns["action"], labels),
            "legal_options": _lists(columns["legal"], columns["legal"].sum(axis=1) > 0, labels),
            "credited_options": _lists(columns["credited"], columns["is_credited"], labels),
            "is_forced": pa.array(columns["is_forced"]),
            "is_rewarded": pa.array(columns["is_rewarded"]),
            "is_last": pa.array(columns["is_last"]),
            "outcome": _labelled(columns["outcome"], self._environment.outcomes),
            "reward": pa.array(columns["reward"], mask=np.isnan(columns["reward"])),
            "hidden_values": _numbers(columns["hidden"]),
            "status": _labelled(columns["status"], STATUSES),
            "status_reason": pa.array(reasons[order], type=pa.string()),
            **self._said_columns(order),
        }
        rows = pa.Table.from_arrays(
            [arrays.get(field.name, pa.nulls(lane.size, field.type)) for field in STEPS], schema=STEPS
        )
        self._clear()
        return rows

    def _said_columns(self, order: Ints) -> dict[str, pa.Array]:
        """Return what models said beside the rows it belongs to, null beside all others."""
        if not self._said:
            return {}
        said = pa.concat_tables([columns for _, columns in self._said]).combine_chunks()
        which = np.full(self._n_rows, _NONE)
        which[np.concatenate([rows for rows, _ in self._said])] = np.arange(said.num_rows)
        places = pa.array(which[order], mask=which[order] == _NONE)
        return {name: said[name].combine_chunks().take(places) for name in said.column_names}


def _or(values: NDArray[np.generic] | None, default: NDArray[np.generic]) -> NDArray[np.generic]:
    return default if values is None else values


def _labelled(indices: Ints, labels: Sequence[str]) -> pa.Array:
    """Return the label of each index, null where there is none."""
    masked = pa.array(indices, type=pa.int32(), mask=indices == _NONE)
    return pa.DictionaryArray.from_arrays(masked, pa.array(labels, type=pa.string())).cast(pa.string())


def _lists(chosen: Bools, is_known: Bools, labels: Sequence[str]) -> pa.Array:
    """Return the labels that each row of ``chosen`` marks, null where nothing is known."""
    # few sets occur, and each is built once
    packed = np.packbits(chosen, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    sets = pa.array(
        [[labels[action] for action in np.flatnonzero(chosen[row]).tolist()] for row in first],
        type=pa.list_(pa.string()),
    )
    return sets.take(pa.array(which, mask=~is_known))


def _numbers(values: Floats) -> pa.Array:
    """Return one list per row; null where there are no values."""
    n_rows, n_values = values.shape
    is_missing = np.isnan(values).all(axis=1)
    offsets = pa.array(np.arange(n_rows + 1, dtype=np.int32) * n_values)
    return pa.ListArray.from_arrays(
        offsets, pa.array(values.ravel()), mask=pa.array(is_missing), type=pa.list_(pa.float64())
    )
