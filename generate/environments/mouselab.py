"""Mouselab planning: look behind the nodes of a tree, one at a time, then take the path that seems best.

Source: Callaway et al. (2022), Rational use of cognitive resources in human planning, experiment 1, as the
autonomous mode plays it: looking costs nothing, and stopping pays what the best path is expected to hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from generate.contract import Bools, Episodes, Floats, Ints, Observation, ScheduledItem, Step, Telling
from store.prompts import load_template

STOP = "STOP"

_TEMPLATE = "play_mouselab_trees"
_STOPPED_ACTION = 0
_REVEALED, _STOPPED = range(2)
# so many decisions of one trial have a number in raw/steps
_MAX_NODES = 127

_Branches = Annotated[int, Field(strict=True, ge=1, le=_MAX_NODES)]


@dataclass(frozen=True, slots=True)
class Trees:
    """What the nodes hold: episodes x nodes, without the root."""

    node_values: Floats


@dataclass(frozen=True, slots=True)
class TreesState:
    """Which nodes were looked at (episodes x nodes), and which episodes are not over."""

    known: Bools
    live: Bools


@dataclass(frozen=True, slots=True)
class TreesSeen(Observation):
    """A tree with some of its nodes open.

    Attributes
    ----------
    node_values
        What the nodes hold, NaN where nobody looked yet: episodes x nodes, without the root.
    """

    node_values: Floats


class MouselabTrees(BaseModel):
    """Planning trees whose nodes hold values that are drawn independently and evenly from a few.

    An action is ``STOP`` or the number of a node whose parent is the root or known. A trial, which is the
    whole episode, ends at ``STOP``; that pays the highest sum along a path from the root to a leaf, unknown
    nodes at their mean.

    Attributes
    ----------
    branching
        Children per node, level by level. The root is node 0; the others are numbered down each branch
        before the next.
    node_values
        Equally likely values of a node, in points.
    n_slots
        Participant slots that the episodes are dealt out to, one after the other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    branching: Annotated[tuple[_Branches, ...], Field(min_length=1)]
    node_values: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]
    n_slots: Annotated[int, Field(strict=True, ge=1)]

    @model_validator(mode="after")
    def _has_few_nodes(self) -> "MouselabTrees":
        if self.n_nodes > _MAX_NODES:
            raise ValueError(
                f"expected a tree of at most {_MAX_NODES} nodes besides the root, found {self.n_nodes}"
            )
        return self

    @cached_property
    def paths(self) -> Ints:
        """Numbers of the nodes from the root's child to the leaf: paths x levels."""
        levels = range(1, self.n_levels + 1)
        subtree_sizes = np.array([1 + _n_nodes(self.branching[level:]) for level in levels])
        branches = np.indices(self.branching).reshape(self.n_levels, -1).T
        paths: Ints = (1 + branches * subtree_sizes).cumsum(axis=1)
        return paths

    @cached_property
    def parents(self) -> Ints:
        """Number of the parent of each node, from node 1 on."""
        parents = np.zeros(self.n_nodes, dtype=np.int64)
        parents[self.paths[:, 1:] - 1] = self.paths[:, :-1]
        return parents

    @property
    def n_levels(self) -> int:
        """Nodes on a path."""
        return len(self.branching)

    @property
    def n_nodes(self) -> int:
        """Nodes besides the root."""
        return _n_nodes(self.branching)

    @property
    def mean(self) -> float:
        """Expected value of a node, in points."""
        return sum(self.node_values) / len(self.node_values)

    @property
    def actions(self) -> tuple[str, ...]:
        """``STOP`` and the numbers of the nodes."""
        return (STOP, *map(str, range(1, self.n_nodes + 1)))

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What an action does."""
        return ("revealed", "stopped")

    @property
    def observations(self) -> tuple[str, ...]:
        """Nothing that a label could name: what is in view is the tree."""
        return ()

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one tree per seed, named by its slot and its number within the slot."""
        slots = np.arange(len(seeds)) % self.n_slots
        ids = tuple(f"{position % self.n_slots}/{position // self.n_slots}" for position in range(len(seeds)))
        return Episodes(ids, np.array(seeds, dtype=np.int64), slots)

    def draw(self, episodes: Episodes) -> Trees:
        """Draw what the nodes hold, from the frozen stream of each episode's seed."""
        n_nodes, n_values = self.n_nodes, len(self.node_values)
        drawn = np.empty((len(episodes), n_nodes), dtype=np.int64)
        # seeded anew, it is as good as a new one, which takes 20 times as long to make
        stream = np.random.RandomState()
        for row, seed in zip(drawn, episodes.seeds.tolist(), strict=True):
            stream.seed(seed)
            row[:] = stream.randint(n_values, size=n_nodes, dtype=np.int64)
        return Trees(np.array(self.node_values)[drawn])

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return the one tree that all episodes share before what its nodes hold is drawn."""
        facts = {"branching": list(self.branching), "node_values": list(self.node_values)}
        return [ScheduledItem("tree", facts=facts, weight=float(len(episodes)))]

    def start(self, world: Trees) -> TreesState:
        """Return trees of which nothing is known."""
        n_episodes = len(world.node_values)
        return TreesState(
            known=np.zeros((n_episodes, self.n_nodes), dtype=np.bool_),
            live=np.ones(n_episodes, dtype=np.bool_),
        )

    def observe(self, world: Trees, state: TreesState) -> TreesSeen:
        """Return what the known nodes hold, and which nodes can be looked at next."""
        is_root_known = np.ones((len(state.live), 1), dtype=np.bool_)
        is_parent_known = np.concatenate([is_root_known, state.known], axis=1)[:, self.parents]
        legal = np.concatenate([is_root_known, ~state.known & is_parent_known], axis=1)
        return TreesSeen(
            legal=legal & state.live[:, None],
            node_values=np.where(state.known, world.node_values, np.nan),
        )

    def tell(self, seen: TreesSeen) -> list[Telling]:
        """Tell the whole tree with what is known of it: what is in view says all, so there is no history."""
        template, labels = load_template(_TEMPLATE), self.actions
        nodes = [
            template.fill("node", {"node": node, "parent": parent})
            for node, parent in enumerate(self.parents.tolist(), start=1)
        ]
        of_all = {"tree": ", ".join(nodes), "values": ", ".join(f"{value:g}" for value in self.node_values)}
        nothing, told = template.fill("no_look", {}), []
        for legal, values in zip(seen.legal.tolist(), seen.node_values.tolist(), strict=True):
            looks = [
                template.fill("look", {"node": node, "value": f"{value:g}"})
                for node, value in enumerate(values, start=1)
                if not isnan(value)
            ]
            options = [label for label, is_legal in zip(labels, legal, strict=True) if is_legal]
            told.append(
                Telling((), {**of_all, "looks": ", ".join(looks) or nothing, "options": ", ".join(options)})
            )
        return told

    def step(self, world: Trees, state: TreesState, actions: Ints) -> tuple[TreesState, Step]:
        """Look at a node, or stop."""
        is_stop = actions == _STOPPED_ACTION
        is_revealed = np.arange(1, self.n_nodes + 1) == actions[:, None]
        seen = np.where(state.known, world.node_values, np.nan)
        step = Step(
            trial=np.zeros_like(actions),
            stage=state.known.sum(axis=1),
            reward=np.where(is_stop, self.expected_sums(seen).max(axis=1), np.nan),
            is_rewarded=is_stop,
            outcome=np.where(is_stop, _STOPPED, _REVEALED),
            hidden=np.where(is_stop[:, None], world.node_values, np.nan),
        )
        known = state.known | (is_revealed & state.live[:, None])
        return replace(state, known=known, live=state.live & ~is_stop), step

    def trials_left(self, world: Trees, state: TreesState) -> Ints:
        """Return 0: an episode is one trial."""
        return np.zeros(len(state.live), dtype=np.int64)

    def expected_sums(self, node_values: Floats) -> Floats:
        """Return what each path is expected to hold: episodes x paths.

        Parameters
        ----------
        node_values
            Episodes x nodes, NaN where unknown.
        """
        expected = np.where(np.isnan(node_values), self.mean, node_values)
        sums = expected[:, self.paths[:, 0] - 1]
        # level by level, so that the order of additions depends on neither the batch nor the machine
        for nodes in self.paths.T[1:]:
            sums = sums + expected[:, nodes - 1]
        return sums


def _n_nodes(branching: Sequence[int]) -> int:
    """Return the number of nodes below one with these numbers of children per level."""
    return int(np.cumprod(branching).sum())
