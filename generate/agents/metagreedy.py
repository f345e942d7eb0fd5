"""MetaGreedy: look where one more look is expected to gain most, as long as that is worth its cost.

Source: Callaway et al. (2022), Rational use of cognitive resources in human planning. Stopping and where to
look are two softmaxes over the value of information of single looks, mixed with lapses; the cost belongs to
the policy alone. The authors' parameters are not public, so each set is fitted anew by maximum likelihood to
one participant of their experiment 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict
from scipy.optimize import minimize
from scipy.special import expit

from generate.agents.human_data import human_rows
from generate.agents.maximum_likelihood import Estimate
from generate.agents.recorded import recorded
from generate.contract import AnyEnvironment, Bools, Fit, Fitted, Floats, Ints, Lanes
from generate.environments.mouselab import STOP, MouselabTrees, TreesSeen
from generate.schedule import load_schedules
from generate.streams import Streams, choose, softmax
from store.errors import InvalidSource
from store.settings import Home

AGENT_ID = "metagreedy"

# whose decisions the parameters are fitted to, and the trees they are about
_SAMPLE = {"source_id": "mouselab", "model_id": "exp1", "mode_id": "mouselab_prediction"}
_SCHEDULE_ID = "mouselab_trees"


@dataclass(frozen=True, slots=True)
class Parameters:
    """One value per parameter set.

    Attributes
    ----------
    cost
        Value of information, in points, at which a look weighs as much as stopping.
    selection_inverse_temperature
        Of the choice among nodes (beta_select).
    termination_inverse_temperature
        Of the choice between looking and stopping (beta_term).
    lapse_rate
        Probability of a choice at random among all legal actions (epsilon).
    """

    cost: Floats
    selection_inverse_temperature: Floats
    termination_inverse_temperature: Floats
    lapse_rate: Floats

    def __getitem__(self, sets: Ints) -> "Parameters":
        """Return the parameters of some sets, in the order named."""
        return Parameters(*(values[sets] for values in self.columns()))

    def columns(self) -> tuple[Floats, ...]:
        """Return the parameters in the order of their names."""
        return tuple(getattr(self, field.name) for field in fields(self))


PARAMETERS = tuple(field.name for field in fields(Parameters))


def trees() -> MouselabTrees:
    """Return the trees of the schedule, which are those of the participants."""
    environment = load_schedules()[_SCHEDULE_ID].environment()
    assert isinstance(environment, MouselabTrees)
    return environment


def value_of_information(environment: MouselabTrees, node_values: Floats) -> Floats:
    """Return by how much one look is expected to raise the best path, in points: episodes x nodes.

    Parameters
    ----------
    environment
        For the shape of the tree and the values that a node may hold.
    node_values
        Episodes x nodes, NaN where unknown. What is returned for known nodes has no meaning.
    """
    sums = environment.expected_sums(node_values)[:, None, :]
    nodes = np.arange(1, environment.n_nodes + 1)
    is_on_path = (environment.paths == nodes[:, None, None]).any(axis=2)
    best_through = np.where(is_on_path, sums, -np.inf).max(axis=2)
    best_elsewhere = np.where(is_on_path, -np.inf, sums).max(axis=2)
    surprises = np.array(environment.node_values) - environment.mean
    best_then = np.maximum(best_through[:, :, None] + surprises, best_elsewhere[:, :, None])
    gains: Floats = best_then.mean(axis=2) - sums.max(axis=2)
    return gains


def action_probabilities(gains: Floats, legal: Bools, parameters: Parameters) -> Floats:
    """Return the probability of each action: episodes x actions, of which the first is to stop.

    Parameters
    ----------
    gains
        Value of information: episodes x nodes, any number where looking is not legal.
    legal
        Episodes x actions; stopping always is.
    parameters
        Of each episode.
    """
    cost, selection, termination, lapse = (values[:, None] for values in parameters.columns())
    stop = softmax(termination * np.concatenate([cost, gains], axis=1), legal)[:, :1]
    look = (1 - stop) * softmax(selection * gains, legal[:, 1:])
    at_random = legal / legal.sum(axis=1, keepdims=True)
    probabilities: Floats = lapse * at_random + (1 - lapse) * np.concatenate([stop, look], axis=1)
    return probabilities


@dataclass(frozen=True, slots=True)
class MetaGreedyPolicy:
    """Plays each slot with its own parameter set."""

    environment: MouselabTrees
    parameters: Parameters

    def start(self, lanes: Lanes) -> Parameters:
        """Return the parameters of each episode."""
        return self.parameters[lanes.slots]

    def act(self, memory: Parameters, seen: TreesSeen, streams: Streams) -> tuple[Parameters, Ints]:
        """Choose by what the open nodes show; what was seen before is in them."""
        uniform = streams.uniform(1)[:, 0]
        live = np.flatnonzero(seen.legal.any(axis=1))
        gains = value_of_information(self.environment, seen.node_values[live])
        actions = np.zeros(len(seen.legal), dtype=np.int64)
        actions[live] = choose(action_probabilities(gains, seen.legal[live], memory[live]), uniform[live])
        return memory, actions


class MetaGreedy(BaseModel):
    """One-step value of information with the parameters of human participants, one per slot."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy with the recorded parameters; no tree is used to choose them.

        Raises
        ------
        InvalidSource
            If the environment has other trees, or more slots than there are parameter sets.
        """
        if not isinstance(environment, MouselabTrees):
            raise InvalidSource(f"{AGENT_ID}: expected Mouselab trees, found {type(environment).__name__}")
        sets = recorded(AGENT_ID)
        if len(sets.participants) < environment.n_slots:
            raise InvalidSource(
                f"{AGENT_ID}: expected a parameter set for each of {environment.n_slots} slots, "
                f"found {len(sets.participants)}"
            )
        if missing := [name for name in PARAMETERS if name not in sets.parameters]:
            raise InvalidSource(
                f"{AGENT_ID}: expected fits of {', '.join(PARAMETERS)}, found no {missing[0]}"
            )
        parameters = Parameters(*(sets.parameters[name] for name in PARAMETERS))
        return Fitted(
            MetaGreedyPolicy(environment, parameters), fits=sets.fits, training_set=sets.training_set
        )

    def estimate(self, lake: Home) -> tuple[list[Fit], str]:
        """Fit one parameter set to all decisions of each participant.

        Raises
        ------
        SourceUnavailable
            If the lake does not hold the participants' decisions.
        InvalidSource
            If their trees are not those of the schedule.
        """
        environment = trees()
        decisions = read_decisions(lake, environment)
        gains = value_of_information(environment, decisions.node_values)
        fits: list[Fit] = []
        for index, participant_id in enumerate(decisions.participants):
            own = decisions.participant == index
            fits += _fits(
                maximum_likelihood(situations(gains[own], decisions.legal[own], decisions.actions[own])),
                participant_id,
                n_training=int(own.sum()),
            )
        n_decisions = decisions.actions.size
        return fits, f"mouselab exp1: {len(decisions.participants)} participants, {n_decisions} decisions"


# --- parameters from people ---

# The authors' bounds; upper ones for cost and inverse temperatures, of which they have none, are set where
# hardly anything could tell a higher value. With these node values two different values of information are at
# least 1.25 points apart: at an inverse temperature of 50 the lesser is chosen once in 1e27 times. And no
# look is worth 4 points: whoever is fitted a cost of 100 stops as often whatever a look is worth.
BOUNDS = {
    "cost": (0.0, 100.0),
    "selection_inverse_temperature": (0.0, 50.0),
    "termination_inverse_temperature": (0.0, 50.0),
    "lapse_rate": (0.01, 1.0),
}

# The likelihood has several local optima, and the best is often one of few lapses and low inverse
# temperatures, which a search from the middle of the range does not find: it starts from each local optimum
# of this grid.
_GRID = (
    np.array([0.02, 0.1, 0.3, 0.6, 0.9, 1.2, 1.3, 1.6, 2.5, 3.7, 5.0, 20.0]),
    np.array([0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0]),
    np.array([0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0]),
    np.array([0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]),
)

_MAX_STARTS = 16

# typical sizes of the parameters: the search takes steps of one length in all directions
_SCALE = np.array([1.0, 5.0, 5.0, 0.2])
_SEARCH = {"maxfun": 1000}
# the last digit that is recorded
_AT_BOUND = 1e-6
# nats per typical size of a parameter, in directions that the bounds leave open
_IS_FLAT = 0.01


@dataclass(frozen=True, slots=True)
class Decisions:
    """What participants saw and did.

    Attributes
    ----------
    participants
        Labels of the participants, sorted.
    participant
        Index into them, per decision.
    node_values
        Decisions x nodes, NaN where unknown.
    legal
        Decisions x actions.
    actions
        Action chosen.
    """

    participants: tuple[str, ...]
    participant: Ints
    node_values: Floats
    legal: Bools
    actions: Ints


@dataclass(frozen=True, slots=True)
class Situations:
    """Decisions of one participant that look the same to the policy, each kind once; without forced ones.

    Attributes
    ----------
    gains
        Values of information, highest first: situations x looks, NaN beyond the legal ones.
    n_looks
        Legal looks.
    is_stop
        Whether the participant stopped.
    chosen_gain
        Value of information of the look that was chosen; 0 where the participant stopped.
    counts
        How often that happened.
    """

    gains: Floats
    n_looks: Ints
    is_stop: Bools
    chosen_gain: Floats
    counts: Ints


def situations(gains: Floats, legal: Bools, actions: Ints) -> Situations:
    """Count the decisions that the policy cannot tell apart.

    Parameters
    ----------
    gains, legal
        As for :func:`action_probabilities`.
    actions
        Action chosen, per decision.
    """
    is_free = legal[:, 1:].any(axis=1)
    gains, legal, actions = gains[is_free], legal[is_free], actions[is_free]
    is_stop = actions == 0
    chosen = np.where(is_stop, 0.0, gains[np.arange(len(gains)), actions - 1])
    # ascending order of the negative puts the highest first and what is not legal last
    ordered = np.sort(np.where(legal[:, 1:], -gains, np.inf), axis=1)
    kinds, counts = np.unique(np.column_stack([ordered, is_stop, chosen]), axis=0, return_counts=True)
    ordered, is_stop, chosen = kinds[:, :-2], kinds[:, -2] == 1, kinds[:, -1]
    n_looks = np.isfinite(ordered).sum(axis=1)
    ordered = ordered[:, : n_looks.max(initial=0)]
    return Situations(np.where(np.isfinite(ordered), -ordered, np.nan), n_looks, is_stop, chosen, counts)


@dataclass(frozen=True, slots=True)
class _Likelihood:
    """Probability of what was chosen, and what it is made of; situations are on the last axis."""

    probability: Floats
    by_policy: Floats
    stop: Floats
    look: Floats
    selected: Floats
    mean_of_looks: Floats
    mean_of_selection: Floats


def _likelihood(
    cost: Floats, selection: Floats, termination: Floats, lapse: Floats, kinds: Situations
) -> _Likelihood:
    """Return the likelihood at one point, or at all points that the parameters' shapes broadcast to."""
    log_looks, mean_of_looks = _log_sum_and_mean(termination, kinds.gains)
    log_selection, mean_of_selection = _log_sum_and_mean(selection, kinds.gains)
    excess = termination * cost - log_looks
    stop, look = expit(excess), expit(-excess)
    selected = np.exp(selection * kinds.chosen_gain - log_selection)
    by_policy = np.where(kinds.is_stop, stop, look * selected)
    probability = lapse / (1 + kinds.n_looks) + (1 - lapse) * by_policy
    return _Likelihood(probability, by_policy, stop, look, selected, mean_of_looks, mean_of_selection)


def _log_sum_and_mean(inverse_temperature: Floats, gains: Floats) -> tuple[Floats, Floats]:
    """Return the log of the sum of the weights exp(inverse temperature x gain), and their mean gain."""
    top = gains[:, :1]
    weights = np.nan_to_num(np.exp(inverse_temperature[..., None] * (gains - top)))
    total = weights.sum(axis=-1)
    mean = (weights * np.nan_to_num(gains)).sum(axis=-1) / total
    return inverse_temperature * top[:, 0] + np.log(total), mean


def negative_log_likelihood(point: Floats, kinds: Situations) -> tuple[float, Floats]:
    """Return the negative log-likelihood in nats and its gradient.

    Parameters
    ----------
    point
        The parameters in the order of :class:`Parameters`.
    kinds
        Decisions of one participant.
    """
    cost, selection, termination, lapse = point[:, None]
    at = _likelihood(cost, selection, termination, lapse, kinds)
    by_stop = np.where(kinds.is_stop, 1.0, -at.selected) * at.stop * at.look
    by_selection = np.where(kinds.is_stop, 0.0, at.by_policy * (kinds.chosen_gain - at.mean_of_selection))
    gradient = np.stack(
        [
            (1 - lapse) * by_stop * termination,
            (1 - lapse) * by_selection,
            (1 - lapse) * by_stop * (cost - at.mean_of_looks),
            1 / (1 + kinds.n_looks) - at.by_policy,
        ]
    )
    nats = -(kinds.counts * np.log(at.probability)).sum()
    return float(nats), -(gradient * (kinds.counts / at.probability)).sum(axis=1)


def maximum_likelihood(kinds: Situations) -> Estimate:
    """Return the best parameters within :data:`BOUNDS`."""
    limits = np.array([BOUNDS[name] for name in PARAMETERS])

    def objective(scaled: Floats) -> tuple[float, Floats]:
        nats, gradient = negative_log_likelihood(scaled * _SCALE, kinds)
        return nats, gradient * _SCALE

    # L-BFGS-B asks a threaded library for its 4 x 4 systems, and on a busy machine waits for the threads
    ends = [
        minimize(objective, start, jac=True, bounds=limits / _SCALE[:, None], method="TNC", options=_SEARCH)
        for start in _starts(kinds) / _SCALE
    ]
    best = min(ends, key=lambda end: float(end.fun))
    values: Floats = best.x * _SCALE
    is_at_bound = (np.abs(values[:, None] - limits) <= _AT_BOUND).any(axis=1)
    # TNC calls it a failed line search where rounding leaves nothing to gain: the slope tells
    left = best.x - np.clip(best.x - best.jac, *(limits / _SCALE[:, None]).T)
    return Estimate(values, is_at_bound, float(best.fun), is_converged=bool(np.abs(left).max() < _IS_FLAT))


def _fits(estimate: Estimate, participant_id: str, n_training: int) -> list[Fit]:
    rows = zip(PARAMETERS, estimate.values.tolist(), estimate.is_at_bound.tolist(), strict=True)
    return [
        *(
            Fit(name, value, participant_id, is_at_bound=is_at_bound, n_training=n_training)
            for name, value, is_at_bound in rows
        ),
        Fit(
            "negative_log_likelihood", estimate.negative_log_likelihood, participant_id, n_training=n_training
        ),
    ]


def _starts(kinds: Situations) -> Floats:
    """Return the points of the grid that no neighbour along an axis is better than, or the best of these."""
    cost, selection, termination, lapse = np.meshgrid(*_GRID, indexing="ij", sparse=True)
    at = _likelihood(cost[..., None], selection[..., None], termination[..., None], lapse[..., None], kinds)
    nats = -(kinds.counts * np.log(at.probability)).sum(axis=-1)
    is_best = np.ones(nats.shape, dtype=np.bool_)
    for axis in range(nats.ndim):
        rise = np.diff(nats, axis=axis)
        edge = np.zeros_like(np.take(nats, [0], axis=axis))
        is_best &= np.concatenate([edge, rise], axis=axis) <= 0
        is_best &= np.concatenate([rise, edge], axis=axis) >= 0
    points = np.stack([values[best] for values, best in zip(_GRID, np.nonzero(is_best), strict=True)], axis=1)
    # where the likelihood is flat, every point is as good as its neighbours
    return points[np.argsort(nats[is_best], kind="stable")[:_MAX_STARTS]]


def read_decisions(lake: Home, environment: MouselabTrees) -> Decisions:
    """Return the participants' decisions that the lake holds.

    Raises
    ------
    SourceUnavailable
        If the lake holds none.
    InvalidSource
        If a decision names a node that the trees of the environment lack.
    """
    items, responses = human_rows(lake, ("items", "human_responses"), **_SAMPLE)
    with duckdb.connect() as con:
        con.register("items", items)
        con.register("responses", responses)
        rows = con.sql(_ROWS).to_arrow_table()
    return as_decisions(rows, environment)


_ROWS = """
select participant_id, items.legal_options, items.facts_json, responses.response
from items
inner join responses using (item_id, participant_id)
order by participant_id, item_id
"""


def as_decisions(rows: pa.Table, environment: MouselabTrees) -> Decisions:
    """Return decisions in the order of ``rows``.

    Parameters
    ----------
    rows
        Columns ``participant_id``, ``legal_options``, ``facts_json`` and ``response``.

    Raises
    ------
    InvalidSource
        If a decision names a node that the trees of the environment lack.
    """
    participants = pc.dictionary_encode(rows["participant_id"].combine_chunks())
    node_values, legal = as_beliefs(rows, environment)
    return Decisions(
        participants=tuple(participants.dictionary.to_pylist()),
        participant=participants.indices.to_numpy(),
        node_values=node_values,
        legal=legal,
        actions=_positions(rows["response"].combine_chunks(), environment.actions),
    )


def as_beliefs(rows: pa.Table, environment: MouselabTrees) -> tuple[Floats, Bools]:
    """Return what participants knew and could do, in the order of ``rows``.

    Parameters
    ----------
    rows
        Columns ``legal_options`` and ``facts_json``.

    Returns
    -------
    tuple
        Values, rows x nodes, NaN where unknown; and which actions were legal, rows x actions.

    Raises
    ------
    InvalidSource
        If one of them names a node that the trees of the environment lack.
    """
    with duckdb.connect() as con:
        con.register("rows", rows)
        [options, known] = con.sql(_BELIEFS).to_arrow_table().itercolumns()
    options, known = options.combine_chunks(), known.combine_chunks()
    legal = np.zeros((rows.num_rows, len(environment.actions)), dtype=np.bool_)
    legal[_rows_of(options), _positions(pc.list_flatten(options), environment.actions)] = True
    node_values = np.full((rows.num_rows, environment.n_nodes), np.nan)
    node_values[_rows_of(known), _positions(known.keys, environment.actions) - 1] = known.items.to_numpy()
    return node_values, legal


_BELIEFS = """
select legal_options, from_json(facts_json -> '$.known', '"MAP(VARCHAR, DOUBLE)"') as known
from rows
"""


def _rows_of(lists: pa.Array) -> Ints:
    """Return the row that each element of the lists is in."""
    return np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))


def _positions(found: pa.Array, labels: Sequence[str]) -> Ints:
    """Return the position of each label."""
    positions = pc.index_in(found, value_set=pa.array(labels))
    if positions.null_count:
        [label] = found.filter(pc.is_null(positions))[:1].to_pylist()
        raise InvalidSource(f"{AGENT_ID}: expected {STOP} or a node of 1 to {len(labels) - 1}, found {label}")
    known: Ints = positions.to_numpy().astype(np.int64)
    return known
